"""The polling plan: the next request and its time, within the budget."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.amqp10_sessions import NEVER
from gateway.sources.rabbitmq.management_api import (
    LISTING_PATIENCE,
    LONGEST_PATIENCE,
    ExtraRequest,
    ListingRequest,
    ManagementRequest,
    ObjectRequest,
    OverviewRequest,
    OwnerRequest,
    PermissionRequest,
    UsedFeaturesRequest,
    UsersRequest,
)
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.polling import PollingPlan
from gateway.sources.rabbitmq.questions import MAX_QUESTIONS
from gateway.sources.rabbitmq.source_config import (
    LEADERS_SHARE,
    METRICS_SHARE,
    SESSIONS_SHARE,
    TOTALS_SHARE,
    PollingConfig,
)

QUEUE = ObjectRequest(ObjectName("queue", ("/", "q")), "queues", urgent=True)


def plan(**more: str) -> PollingPlan:
    collections = {"node": "nodes", "vhost": "vhosts", "queue": "queues", "connection": "connections", **more}
    return PollingPlan(
        [ListingRequest(name, collection, ("name",)) for name, collection in collections.items()],
        PollingConfig(budget=0.05),
    )


class Broker:
    """A broker that answers the plan's requests; each answer takes time.

    ``pages`` and ``wall`` are by class.
    """

    def __init__(self, pages: dict[str, int] | None = None, wall: dict[str, int] | None = None) -> None:
        self.plan = plan()
        self.now = 0
        self.pages = pages or {}
        self.wall = wall or {}
        self.busy = 0
        self.begun: dict[str, list[int]] = {}

    def step(self) -> ManagementRequest:
        """Wait for the next request, answer it, and return it."""
        request = self.plan.next_request(self.now)
        while request is None:
            assert self.plan.due() > self.now, "due, but nothing to do"
            self.now = self.plan.due()
            request = self.plan.next_request(self.now)
        began = self.now
        class_name = request.class_name if isinstance(request, ListingRequest) else ""
        self.now += self.wall.get(class_name, 3 * MILLISECOND)
        self.busy += self.now - began
        match request:
            case ListingRequest():
                if request.page == 1:
                    self.begun.setdefault(class_name, []).append(began)
                last = request.lean or request.page >= self.pages.get(class_name, 1)
                self.plan.page_read(request, began, self.now, last=last)
            case OverviewRequest():
                self.plan.overview_read(self.now)
            case ObjectRequest() | PermissionRequest():
                self.plan.extra_read(request, self.now - began, self.now)
        return request

    def listing(self) -> tuple[str, bool]:
        """Answer the next request for a listing; return its class, and whether it is without statistics."""
        request = self.step()
        while not isinstance(request, ListingRequest):
            request = self.step()
        return request.class_name, request.lean

    def run(self, seconds: float) -> None:
        end = self.now + seconds * SECOND
        while max(self.plan.due(), self.now) < end:
            self.step()
        self.now = int(end)


def test_at_first_everything_is_read_in_order_and_at_once() -> None:
    broker = Broker()
    requests = [broker.step() for _ in range(5)]
    assert isinstance(requests[0], OverviewRequest)
    names = [request.class_name for request in requests[1:] if isinstance(request, ListingRequest)]
    assert names == ["node", "vhost", "queue", "connection"]
    assert broker.now == 15 * MILLISECOND


def test_a_small_broker_is_read_at_each_class_its_own_pace() -> None:
    broker = Broker()
    broker.run(101)
    assert len(broker.begun["queue"]) == len(broker.begun["node"]) == 21
    assert len(broker.begun["vhost"]) == 11
    assert broker.busy / broker.now < 0.003


def test_five_thousand_queues_stay_within_the_budget() -> None:
    broker = Broker(pages={"queue": 10}, wall={"queue": 120 * MILLISECOND})
    broker.run(1_000)
    listing = 10 * 120 * MILLISECOND
    assert (broker.busy - 2 * listing) / broker.now < 0.05  # two come at the very beginning
    gaps = [later - earlier for earlier, later in itertools.pairwise(broker.begun["queue"])]
    assert 23 * SECOND < max(gaps) < 27 * SECOND
    assert len(broker.begun["node"]) > 180  # what costs little does not suffer


def test_what_a_listing_costs_on_a_broker_that_has_only_just_started_is_not_held_against_it() -> None:
    everything = ["node", "vhost", "queue", "connection"]
    broker = Broker(wall=dict.fromkeys(everything, SECOND))
    broker.run(5)
    broker.wall = {}
    broker.run(26)
    assert (len(broker.begun["queue"]), len(broker.begun["node"])) == (6, 7)  # 5 s apart from the first on


def test_a_listing_that_is_dear_at_first_is_repeated_no_sooner_than_can_be_borne() -> None:
    broker = Broker(wall={"queue": 3 * SECOND})
    broker.run(100)
    first, second, third = broker.begun["queue"]
    assert second - first == 12 * SECOND
    assert 60 * SECOND < third - second < 70 * SECOND


def test_a_single_slow_listing_does_not_put_off_the_next_ones() -> None:
    broker = Broker()
    for seconds in (6, 7, 60):  # before the second listing, the third, and any later one
        broker.run(seconds)
        broker.wall = {"queue": 6 * SECOND}
        count = len(broker.begun["queue"])
        while len(broker.begun["queue"]) == count:
            broker.step()
        broker.wall = {}
    broker.run(60)
    gaps = [later - earlier for earlier, later in itertools.pairwise(broker.begun["queue"])]
    assert max(gaps) <= 12 * SECOND


def test_from_the_third_slow_listing_on_the_pauses_grow() -> None:
    broker = Broker()
    broker.run(60)
    quick = len(broker.begun["queue"])
    broker.wall = {"queue": 6 * SECOND}
    broker.run(1_000)
    first, second, third, fourth, *_, last = [
        later - earlier for earlier, later in itertools.pairwise(broker.begun["queue"][quick:])
    ]
    assert max(first, second) < 7 * SECOND
    assert 30 * SECOND < third < fourth < 70 * SECOND
    assert last > 110 * SECOND


def test_when_everything_is_slow_everything_waits() -> None:
    broker = Broker(wall=dict.fromkeys(["node", "vhost", "queue", "connection"], 2 * SECOND))
    broker.run(2_000)
    assert broker.busy / broker.now < 0.06
    assert min(len(begun) for begun in broker.begun.values()) > 8


def test_dear_listings_share_what_is_left_by_their_paces() -> None:
    broker = Broker(wall={"connection": 400 * MILLISECOND, "binding": 400 * MILLISECOND})
    broker.plan = plan(binding="bindings")
    broker.run(1_000)
    assert 8 * SECOND < broker.plan.interval("connection") < 11 * SECOND
    assert 48 * SECOND < broker.plan.interval("binding") < 66 * SECOND
    assert broker.plan.interval("queue") == 5 * SECOND
    assert broker.busy / broker.now < 0.053


@given(
    budget=st.floats(0.001, 0.2),
    costs=st.lists(st.floats(1e6, 60e9), min_size=1, max_size=6),
    metrics=st.floats(0, 1),
    beside=st.floats(0, 1),
    sessions=st.booleans(),
)
def test_listings_and_what_is_read_beside_them_stay_within_the_budget(
    budget: float, costs: list[float], metrics: float, beside: float, *, sessions: bool
) -> None:
    """Other reading reduces the share of listings, which come no more often than the rest allows."""
    names = [f"class {number}" for number in range(len(costs))]
    first = [ListingRequest(name, name, ("name",)) for name in names]
    reading = PollingPlan(first, PollingConfig(budget=budget, longest_interval=NEVER))
    for request, cost in zip(first, costs, strict=True):
        reading.page_read(request, 0, int(cost), last=True)
    reserved = METRICS_SHARE * metrics * budget
    reading.list_without_statistics(names[0], 0, share=reserved, intervals={})
    shares = (LEADERS_SHARE * beside * budget, TOTALS_SHARE * beside * budget)
    for what, share in zip(("leaders", "totals"), shares, strict=True):
        reading.read_beside(what, SECOND, share)
    if sessions:
        reading.sessions.learn(["one", "two"])
        reading.sessions.answered("one", 0, SECOND)
    listed = sum(cost / reading.interval(name) for name, cost in zip(names, costs, strict=True))
    asked = SESSIONS_SHARE * budget if sessions else 0
    assert listed + reserved + sum(shares) + asked <= budget * 1.001


def test_between_pages_others_have_their_turn() -> None:
    broker = Broker(pages={"queue": 3}, wall={"queue": 100 * MILLISECOND})
    while len(broker.begun.get("queue", [])) < 2:
        broker.step()
    assert broker.plan.next_request(broker.now) is None
    assert broker.plan.due() == broker.now + 100 * MILLISECOND
    request = broker.step()
    assert isinstance(request, ListingRequest)
    assert (request.class_name, request.page) == ("queue", 2)


def test_failures_make_the_pauses_longer_up_to_a_limit_and_success_ends_them() -> None:
    broker = Broker()
    pauses = []
    for _ in range(8):
        broker.now = max(broker.now, broker.plan.due())
        request = broker.plan.next_request(broker.now)
        assert request is not None
        broker.plan.failed(request, broker.now)
        pauses.append((broker.plan.due() - broker.now) // SECOND)
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    broker.plan.failed(broker.step(), broker.now)
    assert broker.plan.due() - broker.now == SECOND


def test_a_listing_that_failed_begins_again_after_the_others() -> None:
    broker = Broker(pages={"node": 3})
    broker.step()
    broker.step()
    broker.now = broker.plan.due()
    request = broker.plan.next_request(broker.now)
    assert request == ListingRequest("node", "nodes", ("name",), 2)
    broker.plan.failed(request, broker.now)
    requests = [broker.step() for _ in range(4)]
    named = [
        (request.class_name, request.page) for request in requests if isinstance(request, ListingRequest)
    ]
    assert named == [("vhost", 1), ("queue", 1), ("connection", 1), ("node", 1)]


def test_what_is_refused_is_not_asked_for_again_for_a_while() -> None:
    broker = Broker()
    broker.step()
    request = broker.plan.next_request(broker.now)
    assert isinstance(request, ListingRequest)
    assert request.class_name == "node"
    broker.plan.refused(request, broker.now)
    broker.run(29)
    assert "node" not in broker.begun
    broker.run(6)
    assert len(broker.begun["node"]) == 1


def test_what_the_broker_lacks_is_asked_for_again_after_a_time_without_answers() -> None:
    streams = ListingRequest("streamConsumer", "stream/consumers", ())
    polling = PollingPlan([streams])
    polling.overview_read(0)
    polling.missing(streams, 0)
    assert polling.next_request(599 * SECOND) != streams

    polling.retry(SECOND // 2, at_once=False)

    polling.overview_read(SECOND)
    assert polling.next_request(SECOND // 2) is None
    assert polling.next_request(SECOND) == streams


def test_a_pause_that_is_demanded_lasts_also_where_a_request_of_before_succeeds() -> None:
    """An operation, or the proof that events arrive, was refused while a listing was under way."""
    broker = Broker()
    broker.run(10)
    request = None
    while request is None:
        broker.now = broker.plan.due()
        request = broker.plan.next_request(broker.now)
    assert isinstance(request, ListingRequest)
    until = broker.now + 60 * SECOND
    broker.plan.demand(until)
    broker.plan.page_read(request, broker.now, broker.now + MILLISECOND, last=True)
    assert broker.plan.demanded_until == until
    assert broker.plan.next_request(until - 1) is None
    broker.now = until
    broker.step()
    assert broker.plan.demanded_until == 0


def test_pauses_after_refusals_of_a_class_grow_to_minutes_and_a_success_makes_them_short_again() -> None:
    hosts = ListingRequest("vhost", "vhosts", ("name",))
    polling = PollingPlan([hosts])
    now = 0

    def pause() -> int:
        """Return the seconds from a refusal to the next request, while all data is in question."""
        nonlocal now
        refused_at = now
        polling.refused(hosts, now)
        while polling.next_request(now) != hosts:
            polling.overview_read(now)
            polling.poll_soon(now)
            polling.poll_soon(now, "vhost")
            now += SECOND
        return (now - refused_at) // SECOND

    assert [pause() for _ in range(7)] == [30, 60, 120, 240, 480, 900, 900]
    polling.page_read(hosts, now, now, last=True)
    assert pause() == 30
    polling.refused(hosts, now)
    polling.retry(now, at_once=False)  # after a time without answers
    assert polling.due() == now + 30 * SECOND
    polling.retry(now, at_once=True)  # the broker is another version, or a right was given back
    assert polling.next_request(now) == hosts


def test_single_questions_come_first_but_not_faster_than_can_be_borne() -> None:
    broker = Broker()
    broker.run(1)
    first, second = PermissionRequest("a"), PermissionRequest("b")
    questions: list[ExtraRequest] = [first, second, QUEUE]
    for question in questions:
        assert broker.plan.ask(question)
        assert broker.plan.ask(question)  # once more is once
    asked: list[ManagementRequest] = []
    began = broker.now
    while len(asked) < 3:
        request = broker.step()
        if not isinstance(request, ListingRequest):
            asked.append(request)
    assert asked == [first, QUEUE, second], "each kind has its turn"
    assert broker.now - began >= 2 * 3 * MILLISECOND / 0.25
    for name in "rst":  # values, which can wait
        broker.plan.ask(
            replace(QUEUE, name=ObjectName("queue", ("/", name)), columns=("messages",), urgent=False)
        )
    began = broker.now
    while len(asked) < 6:
        request = broker.step()
        if not isinstance(request, ListingRequest):
            asked.append(request)
    assert broker.now - began >= 2 * 3 * MILLISECOND / 0.05


def test_a_question_that_was_not_answered_does_not_hold_up_the_next_ones_for_minutes() -> None:
    """Objects that a listing lacks are shown until their own answers say that they have ended."""
    broker = Broker()
    broker.run(1)
    broker.plan.extra_read(QUEUE, 20 * SECOND, broker.now)
    broker.plan.ask(QUEUE)
    began = broker.now
    while not isinstance(broker.step(), ObjectRequest):
        pass
    assert broker.now - began <= 31 * SECOND


def test_a_question_that_was_answered_late_puts_off_its_own_kind_and_others_for_a_moment() -> None:
    polling, late = plan(), UsedFeaturesRequest()
    single, owner = replace(QUEUE, columns=("messages",), urgent=False), OwnerRequest(QUEUE.name)
    questions: list[ExtraRequest] = [late, single, owner, QUEUE]
    for question in questions:
        polling.ask(question)
    polling.extra_read(late, 20 * SECOND, 0)
    polling.ask(late)
    polling.overview_read(0)
    asked: dict[ManagementRequest, int] = {}
    for second in range(302):
        request = polling.next_request(second * SECOND)
        if isinstance(request, ExtraRequest):
            asked[request] = second
            polling.extra_read(request, MILLISECOND, second * SECOND)
        elif isinstance(request, ListingRequest):
            polling.page_read(request, second * SECOND, second * SECOND, last=True)
        elif request is not None:
            polling.overview_read(second * SECOND)
    assert asked == {QUEUE: 0, single: 30, owner: 31, late: 301}


def test_a_request_without_an_answer_does_not_delay_others() -> None:
    broker = Broker()
    broker.run(1)
    for name in ("never", "soon"):
        broker.plan.ask(PermissionRequest(name))
    broker.now = broker.plan.due()
    request = broker.plan.next_request(broker.now)
    assert request == PermissionRequest("never")
    broker.plan.failed(request, broker.now)
    listings = []
    while isinstance(request := broker.step(), ListingRequest):
        listings.append(request.class_name)
    assert request == PermissionRequest("soon")
    assert set(listings) == {"node", "vhost", "queue", "connection"}


def test_more_questions_than_anybody_could_ask_are_declined() -> None:
    broker = Broker()
    asked = [broker.plan.ask(PermissionRequest(str(number))) for number in range(MAX_QUESTIONS + 1)]
    assert asked == [True] * MAX_QUESTIONS + [False]


def test_after_a_loss_everything_is_read_again_at_once() -> None:
    broker = Broker()
    broker.run(11)
    before = {name: len(begun) for name, begun in broker.begun.items()}
    broker.plan.poll_soon(broker.now)
    broker.run(0.1)
    assert {name: len(begun) - before[name] for name, begun in broker.begun.items()} == dict.fromkeys(
        before, 1
    )


def test_even_after_a_loss_an_expensive_listing_is_not_repeated_without_end() -> None:
    broker = Broker(wall={"queue": 2 * SECOND})
    broker.run(10)
    for _ in range(100):
        broker.plan.poll_soon(broker.now, "queue")
        broker.run(1)
    assert len(broker.begun["queue"]) <= 1 + 110 / 8


def test_the_interval_in_force_can_be_asked_for() -> None:
    broker = Broker(wall={"queue": SECOND})
    assert broker.plan.interval("queue") == 5 * SECOND
    broker.run(7)
    assert 20 * SECOND < broker.plan.interval("queue") < 22 * SECOND


def asked_for_users(
    users: PollingPlan, until: int, *, takes: int = 3 * MILLISECOND, refused: bool
) -> list[int]:
    """Return the times (s) of requests for the users, when no other class is ever due."""
    asked = []
    while (now := users.due()) < until:
        request = users.next_request(now)
        if isinstance(request, UsersRequest):
            asked.append(now // SECOND)
            users.users_read(now, now + takes, refused=refused)
        elif isinstance(request, OverviewRequest):
            users.overview_read(now)
        elif isinstance(request, ListingRequest):
            users.page_read(request, now, now, last=True)
    return asked


def test_users_are_asked_for_at_the_pace_of_the_overview_and_within_the_budget() -> None:
    assert asked_for_users(users_plan(), 200 * SECOND, refused=False) == [0, 60, 120, 180]
    assert asked_for_users(users_plan(), 500 * SECOND, takes=10 * SECOND, refused=False) == [0, 210, 420]


def test_users_that_may_not_be_read_are_asked_for_each_hour_and_no_event_changes_that() -> None:
    users = users_plan()
    assert asked_for_users(users, 4_000 * SECOND, refused=True) == [0, 3_600]
    users.poll_users_soon(4_000 * SECOND)
    assert asked_for_users(users, 7_000 * SECOND, refused=True) == []


def test_users_are_asked_for_at_once_when_tags_were_set() -> None:
    users = users_plan()
    asked_for_users(users, SECOND, refused=False)
    users.poll_users_soon(SECOND)
    assert asked_for_users(users, 50 * SECOND, refused=False) == [1]


def test_users_are_not_asked_for_unless_configured() -> None:
    unasked = plan()
    unasked.poll_users_soon(0)
    assert asked_for_users(unasked, 200 * SECOND, refused=False) == []


def users_plan() -> PollingPlan:
    return PollingPlan([ListingRequest("node", "nodes", ("name",))], PollingConfig(budget=0.05), users=True)


def test_a_class_whose_statistics_come_from_elsewhere_is_listed_without_them() -> None:
    broker = Broker(pages={"queue": 40}, wall={"queue": 250 * MILLISECOND})
    broker.run(60)
    elsewhere = {"depths of queues": 15 * SECOND}
    broker.plan.list_without_statistics("queue", broker.now, share=0.02, intervals=elsewhere)
    assert broker.plan.intervals["depths of queues"] == 15 * SECOND
    broker.wall["queue"] = 100 * MILLISECOND
    lean = next(
        request for request in iter(broker.step, None) if isinstance(request, ListingRequest) and request.lean
    )
    assert lean.target == "queues?disable_stats=true"
    broker.plan.list_with_statistics("queue", broker.now)
    assert "depths of queues" not in broker.plan.intervals
    requests = [broker.step() for _ in range(200)]
    assert not any(isinstance(request, ListingRequest) and request.lean for request in requests)


def test_a_long_listing_keeps_its_pace_from_the_first_on_where_statistics_come_from_elsewhere() -> None:
    broker = Broker(wall={"queue": 10 * SECOND})
    broker.plan.list_without_statistics("queue", 0, share=0.02, intervals={})
    began = [broker.now for _ in range(200) if broker.listing() == ("queue", False)]
    assert began[1] - began[0] > 300 * SECOND


def test_a_lean_listing_that_is_under_way_when_it_is_not_wanted_any_more_ends_as_usual() -> None:
    polling = plan()
    polling.overview_read(0)
    polling.list_names_first("queue")
    for _ in range(2):
        before = polling.next_request(0)
        assert isinstance(before, ListingRequest)
        polling.page_read(before, 0, 0, last=True)
    request = polling.next_request(0)
    assert isinstance(request, ListingRequest)
    assert request.lean
    polling.list_without_statistics("queue", 0, share=0.02, intervals={})
    polling.list_with_statistics("queue", 0)
    polling.page_read(request, 0, SECOND, last=True)
    following = [polling.next_request(0)]
    assert isinstance(following[0], ListingRequest)
    assert following[0].class_name == "connection"


def test_many_queues_are_listed_by_name_in_their_turn_and_with_statistics_after_everything_else() -> None:
    broker = Broker(pages={"queue": 2})
    broker.step()
    broker.plan.list_names_first("queue")
    assert broker.plan.awaits_names("queue")
    requests = [
        request for request in (broker.step() for _ in range(30)) if isinstance(request, ListingRequest)
    ]
    assert [(request.class_name, request.lean) for request in requests[:5]] == [
        ("node", False),
        ("vhost", False),
        ("queue", True),
        ("connection", False),
        ("queue", False),
    ]
    assert sum(request.lean for request in requests) == 1
    assert not broker.plan.awaits_names("queue")


def test_names_that_cannot_be_listed_or_are_listed_all_the_time_are_not_waited_for() -> None:
    refused = plan()
    refused.list_names_first("queue")
    refused.refused(ListingRequest("queue", "queues", (), lean=True), SECOND)
    assert not refused.awaits_names("queue")
    measured = plan()
    measured.list_without_statistics("queue", 0, share=0.02, intervals={})
    assert not measured.awaits_names("queue")


def test_pages_of_the_first_reading_follow_each_other_without_pauses_for_a_limited_time() -> None:
    broker = Broker(pages={"queue": 50}, wall={"queue": SECOND})
    pauses: list[int] = []
    while not pauses or broker.busy < 49 * SECOND:
        ended = broker.now
        request = broker.step()
        if isinstance(request, ListingRequest) and request.page > 1:
            pauses.append(broker.now - SECOND - ended)
    assert pauses[:29] == [0] * 29
    assert sum(pauses[30:]) >= (len(pauses) - 31) * SECOND


def test_after_an_outage_statistics_are_stale_too_although_they_are_listed_seldom() -> None:
    broker = Broker(wall={"queue": SECOND})
    broker.plan.list_without_statistics("queue", 0, share=0.04, intervals={})
    broker.run(60)
    broker.plan.poll_soon(broker.now)
    assert ("queue", False) not in [broker.listing() for _ in range(4)]
    broker.plan.poll_soon(broker.now, values=True)
    assert ("queue", False) in [broker.listing() for _ in range(4)]


def first_page(polled: PollingPlan, class_name: str, now: int) -> ListingRequest:
    """Return the next request for a listing of a class; others are answered at once."""
    while True:
        request = polled.next_request(now)
        assert request is not None
        match request:
            case ListingRequest():
                if request.class_name == class_name:
                    return request
                polled.page_read(request, now, now, last=True)
            case OverviewRequest():
                polled.overview_read(now)


def test_a_page_that_comes_too_late_is_smaller_then_waited_for_longer_up_to_a_limit() -> None:
    polled, now = plan(), 0
    asked: list[tuple[int, int]] = []
    for _ in range(7):
        request = first_page(polled, "queue", now)
        asked.append((request.page_size, request.patience // SECOND))
        polled.late(request)
        polled.refused(request, now)
        now += 3600 * SECOND
    assert asked == [(500, 8), (100, 8), (500, 16), (100, 16), (500, 25), (100, 25), (500, 25)]
    whole = first_page(polled, "vhost", now)
    polled.late(whole)
    polled.refused(whole, now)
    assert first_page(polled, "vhost", now + 3600 * SECOND).patience == 16 * SECOND, "it has no pages"


def test_the_wait_for_a_page_grows_with_the_size_that_was_seen() -> None:
    polled = plan()
    polled.sized("queues", 999)
    polled.sized("connections", 20_007)
    assert first_page(polled, "queue", 0).patience == LISTING_PATIENCE
    polled = plan()
    polled.sized("queues", 12_345)
    assert first_page(polled, "queue", 0).patience == 20 * SECOND
    polled = plan()
    polled.sized("queues", 1 << 40)
    assert first_page(polled, "queue", 0).patience == LONGEST_PATIENCE


def test_between_the_pages_of_a_slow_listing_other_classes_are_listed() -> None:
    """Here one of 20,000 objects, each page of which takes 10 s."""
    broker = Broker({"queue": 40}, {"queue": 10 * SECOND})
    broker.plan = PollingPlan(
        [
            ListingRequest(name, collection, ("name",))
            for name, collection in (("node", "nodes"), ("queue", "queues"))
        ],
        PollingConfig(budget=0.05, first_time=0),
    )
    broker.run(820)
    assert len(broker.begun["queue"]) == 1
    assert len(broker.begun["node"]) > 30
    assert max(later - earlier for earlier, later in itertools.pairwise(broker.begun["node"])) <= 20 * SECOND
