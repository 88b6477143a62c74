"""The source in stories: objects that it leaves out or cannot read, its status, and the users it serves."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.session import Binding, Delivery, LinkDown, LinkUp, LossSuspected, TimerExpired
from gateway.mapping.paths import Json
from gateway.model.observations import SourceState, SourceStateSeen
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.management_api import (
    LONGEST_PATIENCE,
    Answer,
    Broken,
    Document,
    ListingRequest,
    ManagementRequest,
    NotFound,
    NotManagement,
    ObjectRequest,
    OverviewRequest,
    OwnerRequest,
    PermissionRequest,
    Refused,
    SessionsRequest,
    Unavailable,
    UsedFeaturesRequest,
)
from gateway.sources.rabbitmq.object_names import PROOF
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from gateway.sources.rabbitmq.source_events import AnswerReceived, BrokerReached, RequestSent
from tests.hypothesis_profiles import examples
from tests.sources.rabbitmq.documents import any_json
from tests.sources.rabbitmq.imitation import World
from tests.sources.rabbitmq.story import CONNECTED_AT, world


@pytest.mark.parametrize("show_own", [False, True])
def test_the_gateways_own_queues_and_connections_are_left_out_unless_asked_for(*, show_own: bool) -> None:
    shop = World(RabbitMqSourceConfig(user="gateway", own_users=frozenset({"agent"}), show_own=show_own))
    own: dict[str, Json] = {"product": "amqp-gateway"}
    shop.broker.add_queue("amqp-gateway.events.1")
    shop.broker.add_connection("own", CONNECTED_AT, user="gateway", client_properties=own)
    shop.broker.add_connection("publishing", CONNECTED_AT, user="agent", type="direct")
    shop.broker.add_connection("liar", CONNECTED_AT, user="app", client_properties=own)
    shop.queue_created("amqp-gateway.console.2")
    shop.event(
        "connection.created",
        name="own 2",
        user="agent",
        client_properties=['{<<"product">>,longstr,<<"amqp-gateway">>}'],
    )
    shop.run(2)
    if show_own:
        assert shop.names("queue") == ["//amqp-gateway.console.2", "//amqp-gateway.events.1"]
        assert shop.names("connection") == ["liar", "own", "own 2"]
    else:
        assert shop.names("queue") == []
        assert shop.names("connection") == ["liar"]


def test_a_binding_by_which_a_gateway_proves_that_events_arrive_is_never_shown() -> None:
    shop = World(RabbitMqSourceConfig(user="gateway", show_own=True))
    queue = "amqp-gateway.events.1"
    shop.broker.add_exchange("amq.rabbitmq.event", "/")
    shop.broker.add_queue(queue)
    for key, arguments in (("queue.created", {}), ("binding.created", {PROOF: "7"})):
        shop.broker.objects["binding"]["/", "amq.rabbitmq.event", queue, key] = {
            "vhost": "/",
            "source": "amq.rabbitmq.event",
            "destination": queue,
            "destination_type": "queue",
            "routing_key": key,
            "properties_key": key,
            "arguments": arguments,
        }
    shop.run(12)
    assert [name.rpartition("/")[2] for name in shop.names("binding")] == ["queue.created"]


@pytest.mark.parametrize("by_event", [False, True])
def test_a_connection_has_ended_whose_name_the_gateways_own_has_taken(*, by_event: bool) -> None:
    """A killed node reports no ends, and a client's port is used again."""
    shop = World(RabbitMqSourceConfig(user="gateway"))
    shop.broker.add_connection("127.0.0.1:34758 -> 127.0.0.1:5672", CONNECTED_AT)
    shop.run(20)
    assert len(shop.names("connection")) == 1
    name, later = "127.0.0.1:34758 -> 127.0.0.1:5672", CONNECTED_AT + 60_000
    own: dict[str, Json] = {"product": "amqp-gateway"}
    shop.broker.add_connection(name, later, user="gateway", client_properties=own)
    if by_event:
        product = ['{<<"product">>,longstr,<<"amqp-gateway">>}']
        shop.event("connection.created", name=name, user="gateway", client_properties=product)
    else:
        shop.run(20)
    assert shop.names("connection") == []


def test_a_class_of_too_many_objects_leaves_the_others_to_be_read_and_is_seldom_asked_for() -> None:
    shop = world()
    asked: list[ManagementRequest] = []

    def too_long(request: ManagementRequest) -> Answer | None:
        if getattr(request, "class_name", "") != "connection":
            return None
        asked.append(request)
        return Broken("an answer of more than 16777216 bytes", permanent=True)

    shop.broker.failure = too_long
    shop.run(600)
    assert len(asked) <= 2
    assert shop.source.status.state is SourceState.DEGRADED
    assert "connections are not shown: there are too many" in shop.source.status.detail
    assert shop.value("queue", "orders", "messages") == 3


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Refused(login=True, reason="Login failed"), "refuses user 'gateway' (Login failed)"),
        (Unavailable("connection refused"), "does not answer (connection refused)"),
        (NotManagement("status 302"), "no RabbitMQ management API at that URL (status 302)"),
    ],
)
def test_a_broker_that_does_not_answer_is_said_once_and_then_silence(answer: Answer, text: str) -> None:
    shop = world()
    shop.broker.failure = lambda _: answer
    shop.run(6)
    assert shop.source.status.state is SourceState.DOWN
    assert text in shop.source.status.detail
    shop.run(100)
    assert shop.note_counts["management-unavailable"] == 1
    assert shop.note_counts["agent-silent"] == 1
    assert shop.silent


def test_a_source_that_waited_long_for_no_answer_confirms_nothing_any_more() -> None:
    shop = world()
    shop.broker.failure = lambda _: Unavailable("no answer within 20 s")
    shop.request_takes = 20 * SECOND
    asked = shop.source.request_at
    shop.run((asked - shop.now) / SECOND + 9.9)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    shop.run(0.2)
    assert shop.note_counts["agent-silent"] == 1
    assert "does not answer (no answer for 10 s)" in shop.source.status.detail
    shop.run(10)
    assert "does not answer (no answer within 20 s)" in shop.source.status.detail
    shop.run(100)
    assert shop.note_counts["management-unavailable"] == 2
    assert shop.note_counts["agent-silent"] == 1


def test_a_late_answer_is_welcome_and_all_is_read_again() -> None:
    shop = world()
    shop.request_takes = 15 * SECOND
    shop.run(14)
    assert "no answer for 10 s" in shop.source.status.detail
    shop.request_takes = 50 * MILLISECOND
    reported = len(shop.sent)
    shop.run(30)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert len(shop.sent) > reported


def test_a_broker_that_stops_part_by_part_is_no_wrong_address() -> None:
    shop = world()
    shop.broker.failure = lambda _: NotFound()
    shop.run(6)
    assert shop.source.status.state is SourceState.DOWN
    assert shop.source.status.detail.startswith("the management API does not answer (")
    assert (
        "there is no overview, as where a broker starts or stops): is the broker running"
        in shop.source.status.detail
    )


def test_when_the_broker_answers_again_all_is_read_before_anything_is_reported() -> None:
    shop = world()
    shop.broker.failure = lambda _: Unavailable("connection refused")
    shop.run(100)
    reported, resyncs = len(shop.sent), shop.resyncs
    shop.broker.failure = lambda request: (
        Unavailable("starting") if getattr(request, "class_name", "") == "connection" else None
    )
    shop.broker.add_queue("meanwhile")
    shop.run(60)
    assert len(shop.sent) == reported
    shop.broker.failure = lambda _: None
    shop.run(60)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert shop.resyncs > resyncs
    assert ("meanwhile", "there") in shop.story("queue")
    assert ("orders", "deleted") not in shop.story("queue")


def test_a_class_that_may_not_be_read_is_said_and_the_rest_is_served() -> None:
    shop = World()
    shop.broker.failure = lambda request: (
        Refused(login=False, reason="Not monitor user")
        if getattr(request, "class_name", "") == "node"
        else None
    )
    shop.run(12)
    assert shop.source.status.state is SourceState.DEGRADED
    assert "may not read nodes (Not monitor user): give it the tag 'monitoring'" in shop.source.status.detail
    assert shop.story("vhost")
    shop.broker.failure = lambda _: None
    shop.run(60)
    assert "nodes" not in shop.source.status.detail
    assert shop.story("node")


def test_an_agent_whose_link_broke_publishes_again_when_what_it_knew_is_confirmed() -> None:
    """Link and management API break together when a broker is started again within a few seconds."""
    shop = world()
    shop.broker.failure = lambda _: Unavailable("connection refused")
    shop.run(4)
    assert shop.source.status.state is SourceState.DOWN
    shop.agent_does(shop.agent.handle(LinkDown("the broker ended"), shop.now))
    before = len(shop.sent)
    shop.agent_does(shop.agent.handle(LinkUp(""), shop.now))
    shop.run(2)
    assert shop.source.synchronised
    assert len(shop.sent) == before
    shop.broker.failure = lambda _: None
    shop.run(20)
    assert len(shop.sent) > before


def test_a_tag_that_is_given_back_is_noticed_at_once() -> None:
    shop = world()
    refused = Refused(login=False, reason="Not monitor user")
    shop.broker.failure = lambda request: refused if request.target.startswith("nodes") else None
    shop.run(6)
    assert "may not read nodes" in shop.source.status.detail
    shop.broker.failure = lambda _: None
    shop.run(2)
    assert "may not read nodes" in shop.source.status.detail
    shop.event("user.tags.set", name="gateway", tags="[monitoring]")
    shop.run(0.5)
    assert shop.source.status.detail == ""


def test_a_listing_that_the_broker_cannot_make_does_not_stop_the_others() -> None:
    shop = World()
    shop.broker.add_queue("orders")
    shop.broker.failure = lambda request: (
        Broken("status 500") if getattr(request, "class_name", "") == "exchange" else None
    )
    shop.run(12)
    assert shop.source.status.state is SourceState.DEGRADED
    assert "the broker cannot list exchanges (status 500)" in shop.source.status.detail
    assert shop.story("queue")


def test_a_connection_that_leads_nowhere_is_no_fault_of_the_class_that_was_listed() -> None:
    """A peer that vanished without a word; a new connection reaches its successor."""
    shop = world()
    shop.run(20)
    vanished = True

    def unanswered(request: ManagementRequest) -> Answer | None:
        nonlocal vanished
        if not vanished or not isinstance(request, ListingRequest):
            return None
        vanished = False
        return Unavailable("no answer within 8 s", late=True)

    shop.broker.failure = unanswered
    for _ in range(100):
        shop.run(0.2)
        assert shop.source.status.detail == ""
    assert not vanished
    assert shop.source.status.state is SourceState.SYNCHRONISED


@pytest.mark.parametrize("takes", [18.8, 40])
def test_a_listing_that_takes_long_is_read_in_the_end_or_reported_and_ends_nothing(takes: float) -> None:
    shop = world()
    shop.broker.add_vhost("shop")
    shop.run(60)
    exchanges = shop.names("exchange")
    shop.broker.objects["vhost"]["shop",]["description"] = "read meanwhile"

    def slow(request: ManagementRequest) -> Answer | None:
        if not isinstance(request, ListingRequest) or request.class_name != "exchange":
            return None
        if request.patience >= takes * SECOND:
            return None
        return Unavailable(f"no answer within {request.patience // SECOND} s", late=True)

    shop.broker.failure = slow
    shop.run(400)
    assert shop.names("exchange") == exchanges
    assert shop.value("vhost", "shop", "description") == "read meanwhile"
    readable = takes < LONGEST_PATIENCE / SECOND
    assert ("cannot list exchanges" in shop.source.status.detail) is not readable
    if readable:
        assert shop.source.status.state is SourceState.SYNCHRONISED


def test_a_long_wait_for_a_listing_is_no_silence_while_the_broker_answers_others() -> None:
    shop = world()
    shop.run(20)
    asked = next(one for one in shop.broker.requests if isinstance(one, ListingRequest))
    begun = shop.now
    for second in range(16):
        now = begun + second * SECOND
        if second in {0, 8}:  # the overview was answered meanwhile
            shop.source_does(shop.source.handle(RequestSent(), now))
        shop.source_does(shop.source.handle(TimerExpired(), now))
    late = AnswerReceived(asked, Unavailable("no answer within 16 s", late=True), begun)
    for event in (late, TimerExpired()):
        shop.source_does(shop.source.handle(event, begun + 16 * SECOND))
    assert shop.source.status.state is not SourceState.DOWN


@pytest.mark.parametrize(
    "kind", [PermissionRequest, OwnerRequest, SessionsRequest, UsedFeaturesRequest, ObjectRequest]
)
@pytest.mark.parametrize("fault", ["late", "cut"])
def test_a_late_answer_to_one_question_is_no_end_of_the_source(
    kind: type[ManagementRequest], fault: str
) -> None:
    shop = world()
    shop.broker.add_connection("modern -> us", CONNECTED_AT, protocol="AMQP 1-0")
    shop.broker.sessions["modern -> us"] = []
    shop.broker.objects["deprecatedFeature"]["old",] = {"name": "old", "deprecation_phase": "removed"}
    shop.broker.add_queue("mine", exclusive=True)
    shop.broker.add_exchange("till", "/")
    shop.run(30)
    unanswered = Unavailable("no answer within 20 s", late=fault == "late", cut=fault == "cut")
    shop.broker.failure = lambda request: unanswered if isinstance(request, kind) else None
    before, since = len(shop.broker.requests), len(shop.observed)
    shop.broker.add_vhost("young")
    shop.broker.add_queue("new", exclusive=True)
    shop.broker.objects["exchange"].pop(("/", "till"))  # it is asked whether it is gone
    shop.source_does(shop.source.handle(LossSuspected("all is read again", shop.now), shop.now))
    shop.run(100)
    assert any(isinstance(request, kind) for request in shop.broker.requests[before:])
    states = {one.state for one in shop.observed[since:] if isinstance(one, SourceStateSeen)}
    assert SourceState.DOWN not in states
    assert shop.value("queue", "orders", "messages") == 3
    shop.broker.failure = lambda _: None
    shop.run(60)
    assert shop.value("vhost", "young", "state") == "running"
    assert shop.source.status.state is SourceState.SYNCHRONISED


def test_a_late_answer_to_what_can_wait_keeps_no_virtual_host_from_being_asked_for() -> None:
    shop = world()
    shop.broker.objects["deprecatedFeature"]["old",] = {"name": "old", "deprecation_phase": "removed"}
    shop.run(30)

    def late_features(request: ManagementRequest) -> Answer | None:
        is_late = isinstance(request, UsedFeaturesRequest)
        shop.request_takes = (20 * SECOND) if is_late else MILLISECOND
        return Unavailable("no answer within 20 s", late=True) if is_late else None

    shop.broker.failure = late_features
    shop.source_does(shop.source.handle(LossSuspected("all is read again", shop.now), shop.now))
    shop.run(30)
    shop.broker.add_vhost("young")
    shop.broker.forbidden.add("young")
    shop.event("vhost.created", name="young")
    shop.run(20)
    assert shop.value("vhost", "young", "state") == "notPermitted"


def test_a_source_reads_as_soon_as_its_events_are_connected_again() -> None:
    """Pauses after failures grow to half a minute."""
    shop = world()
    shop.source_does(shop.source.handle(LinkDown("gone"), shop.now))
    shop.broker.failure = lambda _: Unavailable("connection refused")
    shop.run(100)
    assert shop.source.status.state is SourceState.DOWN
    assert shop.source.request_at > shop.now + 5 * SECOND, "the next attempt is far"
    shop.broker.failure = lambda _: None
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(3)
    assert str(shop.source.status.state) != str(SourceState.DOWN)


def test_an_open_channel_for_events_ends_the_pause_but_not_that_after_a_refused_login() -> None:
    """What a durable subscription missed can only be asked of a management API that answers."""
    shop = world()
    shop.source_does(shop.source.handle(LinkDown("gone"), shop.now))
    shop.broker.failure = lambda _: Unavailable("connection refused")
    shop.run(100)
    assert shop.source.request_at > shop.now + 5 * SECOND, "the next attempt is far"
    shop.source_does(shop.source.handle(BrokerReached(), shop.now))
    assert shop.source.request_at <= shop.now
    shop.broker.failure = lambda _: Refused(login=True, reason="Login failed")
    shop.run(100)
    assert "refuses user" in shop.source.status.detail
    next_attempt = shop.source.request_at
    assert next_attempt > shop.now + 5 * SECOND
    shop.source_does(shop.source.handle(BrokerReached(), shop.now))
    assert shop.source.request_at == next_attempt


def test_what_a_broker_does_not_have_delays_no_reading_after_a_short_time_without_answers() -> None:
    """A collection that it lacks is asked for again then, although that was done less than 30 s before."""

    def without_streams(request: ManagementRequest) -> Answer | None:
        is_lacking = isinstance(request, ListingRequest) and request.class_name.startswith("stream")
        return NotFound() if is_lacking else None

    shop = World()
    shop.broker.failure = without_streams
    shop.run(5)
    assert shop.source.synchronised
    shop.broker.failure = lambda _: Unavailable("connection refused")
    shop.run(6)
    assert str(shop.source.status.state) == str(SourceState.DOWN)
    shop.broker.failure = without_streams
    shop.run(6)
    assert shop.source.status.state is SourceState.SYNCHRONISED


def demanding(shop: World, requests: int, pause: int) -> None:
    """Let a proxy answer some requests, and demand a pause (s) then; whoever does not wait gets no answer."""
    left, free_at = requests, 0

    def limited(_: ManagementRequest) -> Answer | None:
        nonlocal left, free_at
        if shop.now < free_at:
            return Unavailable("asked too soon")
        left = requests if free_at else left
        free_at = 0
        if left:
            left -= 1
            return None
        free_at = shop.now + pause * SECOND
        return Unavailable("status 429", responded=True, pause=pause * SECOND)

    shop.broker.failure = limited


def test_a_demanded_pause_is_kept_and_the_listing_goes_on_after_it() -> None:
    shop = world()
    for number in range(1_200):
        shop.broker.add_queue(f"q{number}")
    demanding(shop, requests=2, pause=5)
    received = len(shop.seen)
    shop.run(600)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert shop.source.status.detail == ""
    assert len(shop.names("queue")) == 1_201
    assert "management-unavailable" not in shop.note_counts
    assert not [one for one in shop.seen[received:] if one.deleted]


def test_a_long_demanded_pause_is_reported_as_what_it_is() -> None:
    shop = world()
    demanding(shop, requests=0, pause=40)
    shop.run(30)
    assert shop.source.status.state is SourceState.DOWN
    reason = "the management API, or a proxy in front of it, demands a pause (status 429)"
    assert shop.source.status.detail == reason
    assert not shop.source.synchronised
    shop.run(10)
    shop.broker.failure = lambda _: None
    shop.run(30)
    assert shop.source.synchronised
    shop = World()
    demanding(shop, requests=0, pause=40)
    shop.run(1)
    assert shop.source.status.detail == reason, "also before the first answer"


def test_a_pause_that_is_demanded_for_one_class_alone_does_not_keep_others_from_being_read() -> None:
    shop = World()
    shop.broker.add_queue("orders")
    shop.broker.failure = lambda request: (
        Unavailable("status 429", responded=True, pause=SECOND)
        if getattr(request, "class_name", "") == "exchange"
        else None
    )
    shop.run(60)
    assert shop.names("queue") == ["//orders"]
    status = shop.source.status
    reason = "the management API, or a proxy in front of it, demands a pause (status 429)"
    assert status.state is SourceState.DEGRADED
    assert status.detail.startswith(f"exchanges are not shown: {reason}")
    states = [one for one in shop.observed if isinstance(one, SourceStateSeen)]
    assert [(one.class_name, one.reason) for one in states[-1].not_readable] == [
        ("rabbitmq:exchange", reason)
    ]
    shop.broker.failure = lambda _: None
    shop.run(120)
    assert shop.source.status.state is SourceState.SYNCHRONISED


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Broken("status 500"), "status 500"),
        (Unavailable("status 503: starting", responded=True), "status 503: starting"),
        (Unavailable("no answer within 8 s", late=True), "no answer within 8 s"),
        (NotManagement("Stats in management UI are disabled on this node"), "Stats in management UI"),
        (NotManagement("it knows no such path (404)"), "it knows no such path (404)"),
        (NotFound(), "status 404"),
        (Refused(login=True, reason="status 403"), "status 403"),
        (Document("none"), "channels is no listing"),
    ],
)
def test_an_error_that_one_class_alone_is_answered_ends_no_other_and_is_repeated_seldom(
    answer: Answer, reason: str
) -> None:
    shop = World()
    shop.broker.add_queue("orders", messages=3)
    asked: list[float] = []

    def without_channels(request: ManagementRequest) -> Answer | None:
        if getattr(request, "class_name", "") != "channel":
            return None
        asked.append((shop.now - began) / SECOND)
        return answer

    began = shop.now
    shop.broker.failure = without_channels
    shop.run(500)
    assert shop.source.status.state is SourceState.DEGRADED
    assert f"the broker cannot list channels ({reason}" in shop.source.status.detail
    assert shop.value("queue", "orders", "messages") == 3
    assert "management-unavailable" not in shop.note_counts
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(asked)]
    # The first answer that is late may be the fault of its connection.
    again = [5] if isinstance(answer, Unavailable) and answer.late else []
    assert pauses == [*again, 30, 60, 120, 240]


@pytest.mark.parametrize("sign", ["version", "process"])
def test_what_a_broker_failed_at_is_tried_at_once_after_its_upgrade(sign: str) -> None:
    shop = World()
    shop.broker.failure = lambda request: (
        Broken("status 500") if request.target.startswith("vhosts") else None
    )
    shop.run(300)
    assert shop.names("vhost") == []
    shop.broker.failure = lambda _: None
    if sign == "version":
        shop.broker.version = "4.0.6"
    else:
        shop.broker.add_node(process=200, uptime=1_000)
    shop.run(62 if sign == "version" else 6)
    assert shop.names("vhost") == ["/"]
    assert "vhosts" not in shop.source.status.detail


def test_a_broker_that_answers_with_an_error_while_it_starts_is_asked_for_nothing_else_then() -> None:
    shop = World()
    shop.broker.failure = lambda _: Broken("status 500")
    shop.run(2)
    assert {type(request) for request in shop.broker.requests} == {OverviewRequest}
    assert "does not answer (an error, as where a broker starts)" in shop.source.status.detail
    shop.broker.failure = lambda _: None
    shop.run(10)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert shop.names("node")


def test_an_overview_that_always_fails_ends_nothing_else() -> None:
    shop = World()
    shop.broker.failure = lambda request: (
        Broken("status 500") if isinstance(request, OverviewRequest) else None
    )
    shop.run(30)
    assert shop.source.status.state is SourceState.DEGRADED
    assert "the overview (status 500)" in shop.source.status.detail
    assert shop.names("node")


def test_an_overview_that_fails_later_is_an_alarm_and_makes_what_only_it_shows_stale() -> None:
    """The listeners of a node are in the overview alone."""
    shop = world()
    shop.run(20)
    shop.broker.failure = lambda request: (
        Broken("status 500") if isinstance(request, OverviewRequest) else None
    )
    shop.run(70)
    states = [one for one in shop.observed if isinstance(one, SourceStateSeen)]
    assert states[-1].state is SourceState.DEGRADED
    assert [(one.class_name, one.reason) for one in states[-1].not_readable] == [("overview", "status 500")]
    shop.run(180)
    assert "listeners of nodes: stale, because not read in time" in shop.source.status.detail
    shop.broker.failure = lambda _: None
    shop.run(70)
    states = [one for one in shop.observed if isinstance(one, SourceStateSeen)]
    assert (states[-1].state, states[-1].not_readable) == (SourceState.SYNCHRONISED, ())
    assert shop.source.status.detail == ""


def test_a_broker_of_which_nothing_can_be_read_is_stale() -> None:
    shop = world()
    shop.broker.failure = lambda _: Unavailable("connection refused")
    shop.run(30)
    shop.broker.failure = lambda _: Broken("status 500")
    shop.run(120)
    status = shop.source.status
    assert (status.state, "cannot list" in status.detail) == (SourceState.SYNCHRONISING, True)
    shop.broker.failure = lambda _: None
    shop.run(400)
    assert shop.source.status.state is SourceState.SYNCHRONISED


def test_a_broker_that_comes_and_goes_is_not_asked_for_what_it_fails_at_each_time() -> None:
    shop = World()
    asked = 0

    def coming_and_going(request: ManagementRequest) -> Answer | None:
        nonlocal asked
        if (shop.now // SECOND) % 2:
            return Unavailable("connection refused")
        if getattr(request, "class_name", "") != "vhost":
            return None
        asked += 1
        return Broken("status 500")

    shop.broker.failure = coming_and_going
    shop.run(600)
    assert asked <= 1 + 600 / 30


def test_an_overview_that_may_not_be_read_is_said_and_no_more() -> None:
    shop = World()
    refusal = Refused(login=False, reason="No")
    shop.broker.failure = lambda request: refusal if isinstance(request, OverviewRequest) else None
    shop.run(12)
    assert "may not read the overview (No)" in shop.source.status.detail
    assert shop.value("node", "rabbit@shop", "clusterName") is None
    assert shop.story("node")


def test_a_question_about_a_virtual_host_that_cannot_be_answered_stops_nothing() -> None:
    shop = World()
    shop.broker.add_vhost("odd")
    shop.broker.forbidden.add("odd")
    shop.broker.failure = lambda request: Broken("500") if isinstance(request, PermissionRequest) else None
    shop.run(12)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert shop.value("vhost", "odd", "state") is None
    assert shop.value("vhost", "odd", "messages") is None


def test_a_virtual_host_on_some_nodes_only_or_on_none() -> None:
    shop = World()
    for name, states in (("some", {"a": "running", "b": "stopped"}), ("none", {"a": "stopped"}), ("odd", {})):
        shop.broker.add_vhost(name)
        shop.broker.objects["vhost"][name,]["cluster_state"] = dict(states)
    shop.run(12)
    assert [shop.value("vhost", name, "state") for name in ("some", "none", "odd")] == [
        "partlyRunning",
        "stopped",
        None,
    ]


def test_a_link_that_comes_back_receives_what_happened_meanwhile() -> None:
    shop = world()
    reported = len(shop.sent)
    shop.agent_does(shop.agent.handle(LinkDown("gone"), shop.now))
    shop.queue_created("meanwhile")
    shop.event("queue.deleted", vhost="/", name="orders")
    shop.broker.objects["queue"].clear()
    shop.broker.add_queue("meanwhile")
    shop.run(3)
    assert len(shop.sent) == reported
    shop.agent_does(shop.agent.handle(LinkUp(""), shop.now))
    shop.run(6)
    assert ("meanwhile", "there") in shop.story("queue")
    assert ("orders", "deleted") in shop.story("queue")


def test_requests_lost_on_the_way_make_the_agent_report_everything_again() -> None:
    shop = world()
    received = len(shop.seen)
    shop.agent_does(shop.agent.handle(LossSuspected("the queue was too long", shop.now), shop.now))
    shop.run(5.1)
    assert ("orders", "there") in shop.story("queue", received)


def test_a_console_that_binds_receives_everything() -> None:
    shop = world(management_virtual_host="amqp-gateway")
    binding = {"vhost": "amqp-gateway", "source_name": "qpid.management"}
    received = len(shop.seen)
    shop.event("binding.created", **{**binding, "routing_key": "schema.#"})
    shop.event("binding.created", **{**binding, "routing_key": "console.#", "vhost": "/"})
    shop.run(5.1)
    assert shop.story("queue", received) == []
    shop.event("binding.created", **binding, routing_key="console.obj.#")
    shop.run(5.1)
    assert shop.story("queue", received) == [("orders", "there")]


def test_only_allowed_users_are_answered() -> None:
    shop = world()
    effects = shop.agent.handle(Delivery("x", "broker", b"AM2B\0\0\0\0", "reply", "mallory"), shop.now)
    assert [getattr(effect, "event", "") for effect in effects][:1] == ["refused-sender"]


def test_what_the_link_binds() -> None:
    assert {binding.routing_key for binding in world().agent.bindings} == {"broker", "agent.1.0", "schema.#"}
    assert all(isinstance(binding, Binding) for binding in world().agent.bindings)


def test_secrets_reach_no_message() -> None:
    shop = world()
    shop.broker.add_queue("fed", arguments={"uri": "amqp://user:hush-1@host", "password": "hush-2"})
    shop.broker.add_connection(
        "talker -> us",
        CONNECTED_AT,
        client_properties={
            "password": "hush-3",
            "nested": {"api_key": "hush-4", "see": "amqps://a:hush-5@b"},
        },
    )
    shop.queue_created(
        "fed-2",
        arguments=[
            '{<<"uri">>,longstr,<<"amqp://user:hush-6@host">>}',
            '{<<"secret">>,longstr,<<"hush-7">>}',
        ],
    )
    shop.event(
        "connection.created",
        name="talker-2",
        user="app",
        client_properties=['{<<"t">>,table,[{<<"passwd">>,longstr,<<"hush-8">>}]}'],
    )
    shop.run(12)
    bodies = b"".join(send.body for send in shop.sent)
    assert b"fed-2" in bodies
    assert b"talker-2" in bodies
    assert b"hush" not in bodies
    assert "hush" not in repr(shop.notes)


def test_unreadable_values_are_counted_by_place() -> None:
    shop = world()
    shop.broker.add_queue("odd", messages="many")
    shop.broker.objects["queue"]["/", "broken"] = {"name": "broken"}
    shop.run(6)
    assert shop.source.unreadable.keys() >= {"queue.messages", "queue"}


ANSWERS = st.one_of(
    st.builds(Document, any_json()),
    st.builds(
        lambda items: Document({"items": items, "page": 1, "page_count": 1}), st.lists(any_json(), max_size=3)
    ),
    st.sampled_from(
        [Unavailable("x"), Broken("x"), NotManagement("x"), Refused(False, "x"), Refused(True, "x")]
    ),
)


@settings(max_examples=examples() // 4)
@given(st.lists(ANSWERS, max_size=20))
def test_whatever_the_broker_answers_the_agent_goes_on(answers: list[Answer]) -> None:
    shop = World()
    left = iter(answers)
    shop.broker.failure = lambda _: next(left, None)
    shop.run(120)
    shop.broker.failure = lambda _: None
    shop.run(120)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert "/" in shop.names("vhost")


def test_after_any_churn_the_console_and_the_broker_agree() -> None:
    shop = World()
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    for number in range(200):
        name = f"q{number % 17}"
        if ("/", name) in shop.broker.objects["queue"]:
            del shop.broker.objects["queue"]["/", name]
            if number % 5:
                shop.event("queue.deleted", vhost="/", name=name)
        else:
            shop.broker.add_queue(name)
            if number % 7:
                shop.queue_created(name)
        shop.run(0.7)
    shop.run(60)
    reported: dict[str, str] = {}
    for one in shop.seen:
        if one.key.name == "queue" and one.properties is not None:
            if one.deleted:
                reported.pop(one.native_id, None)
            else:
                reported[one.native_id] = str(one.properties[1])
    assert sorted(reported.values()) == sorted(name for _, name in shop.broker.objects["queue"])
