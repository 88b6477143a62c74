"""Gaps of a source: events that did not arrive or that a node lost, and the reports on them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from gateway.dialects.session import BacklogFollows, LinkDown, LinkUp, TimerExpired
from gateway.mapping.files import class_schemas
from gateway.model.observations import EVENT_DELAY_BOUNDS, Gap, ObjectSeen, SourceState, SourceStateSeen
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value
from gateway.sources.rabbitmq.event_gaps import CreationsWithoutEvent, GapTracker, WithoutEvent
from gateway.sources.rabbitmq.management_api import ListingRequest, Unavailable
from gateway.sources.rabbitmq.object_lives import KnownObject, Overtaken
from gateway.sources.rabbitmq.object_names import ObjectName, native_id
from tests.components.shipped_mappings import shipped_mappings
from tests.sources.rabbitmq.imitation import NODE, World
from tests.sources.rabbitmq.story import world

MAPPING = shipped_mappings()["rabbitmq"]
SHORTEST_DELAY, LONGEST_DELAY = EVENT_DELAY_BOUNDS


ORDERS = ObjectName("queue", ("/", "orders"))
READABLE = frozenset({"/"})


def shown_after(
    *listings: tuple[float, bool], name: ObjectName = ORDERS, hosts: frozenset[str] = READABLE
) -> list[WithoutEvent]:
    """Return what listings prove that begin at these seconds, and show an object or not; no event comes."""
    without = CreationsWithoutEvent()
    for seconds, shows in listings:
        began = int(seconds * SECOND)
        if shows:
            without.shown(name, began)
        without.listed(name.class_name, {name} if shows else (), began, 2 * SECOND, hosts)
    return without.take(SECOND)


def test_an_object_that_two_listings_lacked_proves_a_minute_later_that_its_event_is_missing() -> None:
    listings = ((1, False), (6, False), (11, True), (66, True), (71, True))
    assert shown_after(*listings) == [WithoutEvent(11 * SECOND, SECOND, made_after=4 * SECOND)]
    assert shown_after(*listings[:-1]) == [], "its event may be late"
    assert shown_after(*listings[1:]) == [], "one listing may have lacked it by mistake"
    assert shown_after((0, False), *listings[1:]) == [], "events did not arrive yet"
    assert shown_after(*listings[:4], (71, False)) == [], "it was there for a moment"


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        (ORDERS, frozenset({"other"})),
        (ObjectName("exchange", ("/", "amq.topic")), READABLE),
        (ObjectName("connection", ("127.0.0.1:1 -> 127.0.0.1:5672",)), READABLE),
    ],
    ids=["its virtual host could not be read", "the broker makes it itself", "it is shown late"],
)
def test_an_object_that_may_have_been_there_before_or_without_an_event_proves_nothing(
    name: ObjectName, hosts: frozenset[str]
) -> None:
    listings = ((1, False), (6, False), (11, True), (66, True), (71, True))
    assert shown_after(*listings, name=name, hosts=hosts) == []


def test_an_object_whose_event_comes_late_and_listings_that_lack_names_prove_nothing() -> None:
    without = CreationsWithoutEvent()
    for began in (1, 6):
        without.listed("queue", (), began * SECOND, 0, READABLE)
    without.shown(ORDERS, 11 * SECOND)
    without.reported(ORDERS)
    without.listed("queue", {ORDERS}, 90 * SECOND, 0, READABLE)
    assert without.take(SECOND) == []
    without.incomplete("queue")
    without.listed("queue", (), 95 * SECOND, 0, READABLE)
    without.shown(ORDERS, 100 * SECOND)
    without.listed("queue", {ORDERS}, 180 * SECOND, 0, READABLE)
    assert without.take(SECOND) == []


def test_a_source_whose_listings_show_a_queue_without_an_event_has_a_gap_and_asks_to_bind_again() -> None:
    shop = world(awaits_events=True)
    shop.run(15)
    shop.queue_created("reported")
    shop.broker.add_queue("reported")
    shop.run(90)
    assert (gaps(shop), shop.source.take_rebind_reason()) == ([], "")
    made = shop.now
    shop.broker.add_queue("unreported")
    shop.run(110)
    (gap,) = gaps(shop)
    assert made - 20 * SECOND < gap.start < made < gap.end
    assert "of new objects (1) no event came" in gap.reason
    assert shop.source.take_rebind_reason() == gap.reason
    assert shop.source.take_rebind_reason() == "", "once"


def test_where_a_node_publishes_no_events_gaps_for_that_reason_become_rare() -> None:
    shop = world(awaits_events=True)
    shop.run(15)
    for number in range(12):
        shop.broker.add_queue(f"unreported-{number}")
        shop.run(100)
    reported = gaps(shop)
    begins = [gap.start for gap in reported]
    pauses = [later - former for former, later in pairwise(begins)]
    assert len(reported) < 6
    assert pauses == sorted(pauses)


def gaps(shop: World) -> list[Gap]:
    return [one for one in shop.observed if isinstance(one, Gap)]


def ends(shop: World, number: int) -> list[tuple[int, bool]]:
    """Return each reported end of an object: its time (ns), and whether it is inferred."""
    return [
        (one.deleted, one.inferred)
        for one in shop.observed
        if isinstance(one, ObjectSeen) and one.native_id == native_id(number) and one.deleted
    ]


def reported_states(shop: World) -> list[SourceStateSeen]:
    return [one for one in shop.observed if isinstance(one, SourceStateSeen)]


def complete_until(shop: World) -> int:
    return reported_states(shop)[-1].complete_until


def fails(shop: World, seconds: float) -> None:
    """Let all requests fail for a time."""
    shop.broker.failure = lambda _: Unavailable("stands still")
    shop.run(seconds)
    shop.broker.failure = lambda _: None


def restarted(shop: World, process: int, uptime: int = 3_000) -> None:
    """Restart the node as another process, which has run for ``uptime`` milliseconds."""
    shop.broker.objects["node"].clear()
    shop.broker.add_node(process, uptime)


def undated(shop: World) -> dict[str, Any]:
    """Return the document of the node, after removing its uptime."""
    (node,) = shop.broker.objects["node"].values()
    del node["uptime"]
    return node


def kept(received_ago: float = 60) -> tuple[World, int]:
    """Return a source with a resumed durable subscription, and its predecessor's time of completeness (ns).

    Events that were still on the way at that time are not covered by it.

    Args:
        received_ago: the age of that time in seconds at the start of the source, which is a whole second.
    """
    shop = World()
    shop.broker.add_node(1, 3_600_000)
    shop.broker.add_vhost("/")
    until = shop.now - int(received_ago * SECOND)
    shop.source.remember([], shop.now, events_kept=True, complete_until=until)
    return shop, until


def former(
    class_name: str,
    parts: tuple[str, ...],
    number: int,
    created: int = 0,
    sampled: int = 0,
    **reported: Value,
) -> KnownObject:
    """Return an object that existed when the preceding gateway ended."""
    schema = class_schemas(MAPPING)[class_name]
    properties = tuple(reported.get(element.name) for element in schema.properties)
    statistics = (None,) * len(schema.statistics)
    return KnownObject(ObjectName(class_name, parts), number, created, 0, properties, statistics, sampled)


def resumed(shop: World) -> None:
    """Resume the subscription, and catch up with all events that waited."""
    shop.source_does(shop.source.handle(BacklogFollows("", 0), shop.now))
    shop.run(3)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))


def test_a_source_whose_events_are_configured_and_do_not_arrive_is_degraded_with_an_alarm() -> None:
    shop = world(awaits_events=True)
    cut = shop.now
    shop.source_does(shop.source.handle(LinkDown("nothing arrives"), cut))
    degraded = reported_states(shop)[-1]
    assert (degraded.state, degraded.not_readable) == (SourceState.DEGRADED, ())
    shop.run(11)
    (events,) = reported_states(shop)[-1].not_readable
    assert (events.class_name, events.reason, events.since) == ("events", "nothing arrives", cut)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(60)
    arriving = reported_states(shop)[-1]
    assert (arriving.state, arriving.not_readable) == (SourceState.SYNCHRONISED, ())


def test_a_source_without_events_is_as_good_as_it_can_be() -> None:
    shop = world(events=False)
    shop.source_does(shop.source.handle(LinkDown("none are configured"), shop.now))
    shop.run(60)
    alone = reported_states(shop)[-1]
    assert (alone.state, alone.not_readable) == (SourceState.SYNCHRONISED, ())


def test_the_time_without_events_is_a_gap_once_all_was_listed() -> None:
    shop = world()
    shop.run(60)
    shop.queue_created("orders-2")
    shop.run(5)
    shop.queue_created("orders-3")
    proved = shop.proved_at
    shop.source_does(shop.source.handle(LinkDown("cut"), shop.now))
    shop.run(7)
    assert gaps(shop) == []
    assert complete_until(shop) == proved - SHORTEST_DELAY
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    connected = shop.now
    shop.run(60)
    (gap,) = gaps(shop)
    assert gap.start == proved - SHORTEST_DELAY
    assert connected < gap.end < connected + 60 * SECOND
    assert complete_until(shop) == 0


def test_where_proofs_take_long_the_next_one_is_waited_for_as_much_longer() -> None:
    gaps = GapTracker()
    gaps.received_until = 100 * SECOND
    assert gaps.complete_until(125 * SECOND) != 0
    gaps.proof_took = 6 * SECOND
    assert gaps.complete_until(125 * SECOND) == 0
    assert gaps.complete_until(140 * SECOND) != 0


@pytest.mark.parametrize(
    ("late", "before"),
    [(0.1, 1.0), (4.0, 8.0), (3600.0, 10.0), (-3600.0, 1.0)],
    ids=["in time", "late", "clock an hour behind", "clock an hour ahead"],
)
def test_a_gap_begins_twice_as_long_before_the_last_proof_as_an_event_takes(
    late: float, before: float
) -> None:
    """Later events may take as long as the last one, and a broker that is killed does not send them."""
    shop = world()
    shop.run(60)
    shop.queue_created("orders-2", timestamp_in_ms=(shop.now - int(late * SECOND)) // 1_000_000)
    shop.run(5)
    start = shop.proved_at - int(before * SECOND)
    shop.source_does(shop.source.handle(LinkDown("cut"), shop.now))
    assert complete_until(shop) == start
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(60)
    assert [gap.start for gap in gaps(shop)] == [start]


def test_what_a_killed_node_had_under_way_is_in_the_gap_of_a_durable_subscription_too() -> None:
    shop, _ = kept()
    resumed(shop)
    shop.run(60)
    shop.queue_created("orders-2", timestamp_in_ms=(shop.now - 3 * SECOND) // 1_000_000)
    start = shop.proved_at - 6 * SECOND
    shop.source_does(shop.source.handle(LinkDown("cut"), shop.now))
    assert complete_until(shop) == start
    fails(shop, 15)
    restarted(shop, 2)
    shop.source_does(shop.source.handle(BacklogFollows("", 1), shop.now))
    shop.queue_created("orders-3", timestamp_in_ms=(shop.now - 9 * SECOND) // 1_000_000)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    assert complete_until(shop) == start
    shop.run(90)
    assert [gap.start for gap in gaps(shop)] == [start]


def test_a_node_that_was_started_while_events_waited_may_have_lost_all_since() -> None:
    shop, until = kept()
    restarted(shop, 2)
    shop.run(1)
    resumed(shop)
    shop.run(60)
    (gap,) = gaps(shop)
    assert gap.start == until


def test_a_node_that_was_started_in_the_second_of_the_last_event_may_have_lost_all_since() -> None:
    shop, until = kept(received_ago=2.9)
    restarted(shop, 2, uptime=2_500)
    shop.run(1)
    resumed(shop)
    shop.run(60)
    (gap,) = gaps(shop)
    assert gap.start == until


def test_a_node_that_does_not_say_yet_when_it_was_started_is_asked_again() -> None:
    shop, until = kept()
    restarted(shop, 2)
    node = undated(shop)
    shop.run(1)
    resumed(shop)
    shop.run(30)
    assert gaps(shop) == []
    node["uptime"] = 40_000
    shop.run(30)
    (gap,) = gaps(shop)
    assert gap.start == until


def test_a_node_that_ran_throughout_has_lost_nothing() -> None:
    shop, _ = kept()
    shop.run(1)
    resumed(shop)
    shop.run(60)
    assert gaps(shop) == []


def test_a_node_that_is_killed_twice_makes_one_gap_from_the_first_on() -> None:
    shop, until = kept()
    restarted(shop, 2)
    shop.run(1)
    resumed(shop)
    shop.source_does(shop.source.handle(LinkDown("cut"), shop.now))
    fails(shop, 15)
    restarted(shop, 3)
    shop.run(1)
    resumed(shop)
    shop.run(90)
    (gap,) = gaps(shop)
    assert gap.start == until


def test_what_ended_while_the_gateway_was_away_is_reported_in_its_virtual_host() -> None:
    """The start time of the node arrives before the listing of virtual hosts."""
    shop = World()
    shop.broker.add_node(2, 3_000)
    shop.broker.add_vhost("stock")
    complete_until = shop.now - 60 * SECOND
    host = former("vhost", ("stock",), name="stock", number=77, created=complete_until - SECOND)
    queue = former("queue", ("stock", "orders"), vhost="stock", name="orders", durable=False, number=78)

    shop.source.remember([host, queue], shop.now, events_kept=False, complete_until=complete_until)
    shop.run(5)

    reported = [one for one in shop.observed if isinstance(one, ObjectSeen)]
    (end,) = (one for one in reported if one.deleted and one.native_id == native_id(queue.number))
    assert end.inferred
    assert end.properties is not None
    assert end.properties[0] == Reference(native_id(host.number))


@pytest.mark.parametrize(
    ("created", "sampled", "lives"),
    [
        (20, 0, True),
        (50, 20, False),  # values may be told as absent without any sight of it
        (0, 20, False),  # where its creation is not known, it is taken to have ended with the node
    ],
)
def test_what_was_made_after_its_node_started_did_not_end_with_the_node_before(
    created: int, sampled: int, *, lives: bool
) -> None:
    """The log may end long before: all events after that were reported, but not all of them were read."""
    shop = World()
    shop.broker.add_node(2, 30_000)
    shop.broker.add_vhost("/")
    shop.broker.add_queue("orders", durable=False)
    queue = former(
        "queue",
        ("/", "orders"),
        vhost="/",
        name="orders",
        durable=False,
        number=78,
        created=created and shop.now - created * SECOND,
        sampled=sampled and shop.now - sampled * SECOND,
    )
    shop.source.remember([queue], shop.now, events_kept=False, complete_until=shop.now - 60 * SECOND)
    shop.run(5)
    reported = [one for one in shop.observed if isinstance(one, ObjectSeen) and one.key.name == "queue"]
    ended = {one.native_id for one in reported if one.deleted}
    shown = {one.native_id for one in reported if not one.deleted}
    assert (native_id(queue.number) in shown, native_id(queue.number) in ended) == (lives, not lives)


def transient(shop: World, number: int, created: int = 0) -> KnownObject:
    """Return a transient queue that existed before the start; a queue of its name exists now."""
    shop.broker.add_queue("orders", durable=False)
    return former(
        "queue", ("/", "orders"), number, created, vhost="/", name="orders", durable=False, exclusive=False
    )


def lived_and_ended(shop: World, number: int) -> tuple[bool, bool]:
    """Return whether an object was shown, and whether its end was reported."""
    reported = [one for one in shop.observed if isinstance(one, ObjectSeen)]
    of_it = [one for one in reported if one.native_id == native_id(number)]
    return any(not one.deleted for one in of_it), any(one.deleted for one in of_it)


def starting() -> tuple[World, dict[str, Any], KnownObject]:
    """Return a node that was just started and has no uptime yet, and a transient queue from before."""
    shop = World()
    restarted(shop, 2)
    node = undated(shop)
    shop.broker.add_vhost("/")
    queue = transient(shop, 78)
    shop.source.remember([queue], shop.now, events_kept=False, complete_until=shop.now - 60 * SECOND)
    return shop, node, queue


def test_a_node_that_starts_is_asked_since_when_it_runs_before_its_queues_are_listed() -> None:
    """A transient queue is another one than its namesake that ended with the node's former process."""
    shop, node, queue = starting()
    shop.run(4)
    assert lived_and_ended(shop, queue.number) == (False, False)
    assert not shop.source.synchronised
    node["uptime"] = 7_000
    shop.run(10)
    assert lived_and_ended(shop, queue.number) == (False, True)
    assert shop.source.synchronised


def test_queues_of_a_node_that_never_says_since_when_it_runs_are_listed_after_a_while() -> None:
    shop, _, queue = starting()
    shop.run(30)
    assert lived_and_ended(shop, queue.number) == (True, False)
    assert shop.source.synchronised


def test_a_queue_made_again_after_its_node_was_killed_is_never_shown_as_the_former() -> None:
    shop = world()
    shop.broker.add_queue("carts", durable=False)
    shop.run(30)
    (known,) = (one for one in shop.source.known("queue") if one.name.leaf == "carts")
    fails(shop, 8)
    restarted(shop, 2)
    node = undated(shop)
    began = len(shop.observed)
    shop.run(4)
    node["uptime"] = 7_000
    shop.run(20)
    reported = [
        one
        for one in shop.observed[began:]
        if isinstance(one, ObjectSeen) and one.native_id == native_id(known.number)
    ]
    assert [bool(one.deleted) for one in reported] == [True]
    assert shop.source.synchronised


def test_what_ended_with_a_node_was_reported_where_its_present_start_was_noticed_before() -> None:
    """A queue that was listed since belongs to the present process, even if its creation time is unknown."""
    shop = World()
    shop.broker.add_node(2, 30_000)
    shop.broker.add_vhost("/")
    node = former("node", (NODE,), 12, name=NODE, osProcess=2, startTime=shop.now - 31 * SECOND)
    queue = transient(shop, 78)
    shop.source.remember([node, queue], shop.now, events_kept=False, complete_until=shop.now - 60 * SECOND)
    shop.run(10)
    assert lived_and_ended(shop, queue.number) == (True, False)


@pytest.mark.parametrize(("process", "ago"), [(1, 31), (2, 300)])
def test_another_process_or_time_is_another_start(process: int, ago: int) -> None:
    """In a container each process has the same process id."""
    shop = World()
    shop.broker.add_node(2, 30_000)
    shop.broker.add_vhost("/")
    node = former("node", (NODE,), 12, name=NODE, osProcess=process, startTime=shop.now - ago * SECOND)
    queue = transient(shop, 78)
    shop.source.remember([node, queue], shop.now, events_kept=False, complete_until=shop.now - 60 * SECOND)
    shop.run(10)
    assert lived_and_ended(shop, queue.number) == (False, True)


def test_a_node_that_did_not_report_its_start_before_was_not_started_since() -> None:
    """In its first seconds a node reports neither uptime nor process."""
    shop = World()
    shop.broker.add_node(2, 30_000)
    shop.broker.add_vhost("/")
    queue = transient(shop, 78)
    node = former("node", (NODE,), 12, name=NODE)
    shop.source.remember([node, queue], shop.now, events_kept=False, complete_until=shop.now - 20 * SECOND)
    shop.run(10)
    assert lived_and_ended(shop, queue.number) == (True, False)


@pytest.mark.parametrize("events_kept", [False, True])
def test_a_start_that_an_older_uptime_shows_is_the_same_start(*, events_kept: bool) -> None:
    """With ``collect_statistics_interval = 30000`` an uptime may be half a minute old."""
    shop = World()
    shop.broker.add_node(2, 10_000)
    shop.broker.add_vhost("/")
    # It was known by an uptime of its time; the present one is 29 s old.
    node = former("node", (NODE,), 12, name=NODE, osProcess=2, startTime=shop.now - 39 * SECOND)
    queue = transient(shop, 78, shop.now - 30 * SECOND)
    complete_until = shop.now - 20 * SECOND
    shop.source.remember([node, queue], shop.now, events_kept=events_kept, complete_until=complete_until)
    if events_kept:
        resumed(shop)
    else:
        shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(90)
    assert lived_and_ended(shop, queue.number) == (True, False)
    assert gaps(shop) == []
    assert shop.source.synchronised


@pytest.mark.parametrize("process", [100, 2])
def test_what_was_made_after_a_restart_lives_although_the_uptime_is_old(process: int) -> None:
    """In a container each process has the same id, 100 here: then its uptime shows the restart."""
    shop = world()
    (node,) = shop.broker.objects["node"].values()
    node["uptime"] = 90_000  # the broker renews it every half a minute
    shop.broker.add_queue("earlier", durable=False)
    shop.run(20)
    fails(shop, 10)
    shop.broker.add_queue("later", durable=False)
    shop.queue_created("later", durable=False)
    received = len(shop.seen)
    fails(shop, 8)
    restarted(shop, process, uptime=1_000)  # 19 s ago
    shop.run(30)
    story = shop.story("queue", received)
    assert ("earlier", "deleted") in story
    assert ("later", "there") in story
    assert ("later", "deleted") not in story


@pytest.mark.parametrize(("store", "lives"), [("mnesia", False), ("khepri", True)])
def test_a_transient_exchange_ends_with_its_node_unless_khepri_keeps_it(store: str, *, lives: bool) -> None:
    shop = World()
    shop.broker.add_node(2, 30_000)
    shop.broker.add_vhost("/")
    shop.broker.add_exchange("prices", "/", durable=False)
    shop.broker.objects["featureFlag"]["khepri_db",] = {
        "name": "khepri_db",
        "state": "enabled" if store == "khepri" else "disabled",
    }
    node = former("node", (NODE,), 12, name=NODE, metadataStore=store)
    exchange = former("exchange", ("/", "prices"), 79, vhost="/", name="prices", durable=False)
    shop.source.remember([node, exchange], shop.now, events_kept=False, complete_until=shop.now - 60 * SECOND)
    shop.run(20)
    assert lived_and_ended(shop, 79) == (lives, not lives)

    (known,) = (one for one in shop.source.known("exchange") if one.name.leaf == "prices")
    fails(shop, 8)
    restarted(shop, 3)
    shop.run(20)
    assert lived_and_ended(shop, known.number) == (True, not lives)


def test_no_listing_comes_before_the_events_that_waited_however_long_they_take() -> None:
    """A gateway that has hardly any processor time takes minutes to work through a backlog."""
    shop, until = kept()
    host = former("vhost", ("/",), 1, name="/")
    ended = former("queue", ("/", "orders"), 2, until - 60 * SECOND, until, vhost="/", name="orders")
    shop.source.remember([host, ended], shop.now, events_kept=True, complete_until=until)
    shop.source_does(shop.source.handle(BacklogFollows("", 50), shop.now))
    for number in range(20):
        shop.run(15)
        happened = until + number * SECOND
        shop.queue_created(f"shop-{number}", timestamp_in_ms=happened // 1_000_000)
        shop.event(
            "queue.deleted",
            vhost="/",
            name=f"shop-{number}",
            timestamp_in_ms=(happened + SECOND) // 1_000_000,
        )
    end = until + 30 * SECOND
    shop.event("queue.deleted", vhost="/", name="orders", timestamp_in_ms=end // 1_000_000)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(60)
    assert ends(shop, 2) == [(end, False)]
    assert shop.source.status.state is SourceState.SYNCHRONISED


@pytest.mark.parametrize(
    "behind", [0, -3600, 3600], ids=["in time", "clock an hour behind", "clock an hour ahead"]
)
def test_while_events_arrive_late_no_listing_comes_before_them(behind: int) -> None:
    """Events and answers wait in different connections for a gateway that has hardly any processor time."""
    shop = world()

    def on_broker(late: int) -> int:
        return (shop.now - (late - behind) * SECOND) // 1_000_000

    for number in range(10):
        shop.run(2)
        shop.queue_created(f"before-{number}", timestamp_in_ms=on_broker(0))
    (orders,) = (known for known in shop.source.known("queue") if known.name.leaf == "orders")
    end = on_broker(0)
    shop.broker.objects["queue"].clear()
    for number in range(10):
        shop.run(1.5)
        shop.event("queue.deleted", vhost="/", name=f"before-{number}", timestamp_in_ms=on_broker(8))
    shop.event("queue.deleted", vhost="/", name="orders", timestamp_in_ms=end)
    shop.run(60)
    assert ends(shop, orders.number) == [(end * 1_000_000, False)]


def test_a_broker_whose_clock_was_set_back_is_listed_again_after_a_minute() -> None:
    shop = world()
    for number in range(200):
        shop.run(1)
        late = 0 if number < 20 else 3600
        at = (shop.now - late * SECOND) // 1_000_000
        shop.queue_created(f"one-{number}", timestamp_in_ms=at)
    listed = [known.sampled for known in shop.source.known("queue") if known.name.leaf == "orders"]
    assert max(listed) > shop.now - 30 * SECOND


def test_after_a_standstill_events_may_be_missing_until_everything_has_been_read() -> None:
    """The events waited: if the gateway were killed now, its successor would not know of them."""
    shop = world()
    shop.run(5)
    assert complete_until(shop) == 0
    since = shop.now
    shop.now += 60 * SECOND
    shop.source_does(shop.source.handle(TimerExpired(), shop.now))
    assert since - SECOND - LONGEST_DELAY <= complete_until(shop) <= since
    shop.run(60)
    assert complete_until(shop) == 0
    assert not gaps(shop)


def test_what_is_read_late_after_a_standstill_is_no_proof() -> None:
    """Events waited in the socket of a connection that the broker had closed long ago."""
    shop = world()
    shop.run(5)
    proved = shop.proved_at
    shop.now += 140 * SECOND
    shop.queue_created("left", timestamp_in_ms=(shop.now - 139 * SECOND) // 1_000_000)
    assert complete_until(shop) <= proved - SHORTEST_DELAY, "a gateway that is killed now leaves that"
    shop.source_does(shop.source.handle(LinkDown("no heartbeat"), shop.now))
    shop.run(5)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(60)
    (gap,) = gaps(shop)
    assert proved - LONGEST_DELAY <= gap.start <= proved - SHORTEST_DELAY


def test_a_standstill_of_a_source_without_events_is_a_gap() -> None:
    shop = world(events=False)
    shop.run(30)
    since = shop.now
    shop.now += 140 * SECOND
    shop.source_does(shop.source.handle(TimerExpired(), shop.now))
    shop.run(60)
    (gap,) = gaps(shop)
    assert gap.start <= since
    assert since + 140 * SECOND < gap.end < shop.now


def test_a_virtual_host_that_was_made_again_while_events_waited_keeps_what_was_known_of_it() -> None:
    shop, until = kept()
    host = former("vhost", ("shop",), 1, name="shop", description="the first")
    shop.source.remember([host], shop.now, events_kept=True, complete_until=until)
    shop.broker.add_vhost("shop")
    shop.broker.objects["vhost"]["shop",]["description"] = "the second"
    shop.source_does(shop.source.handle(BacklogFollows("", 2), shop.now))
    shop.run(15)
    happened = (until + SECOND) // 1_000_000
    shop.event("vhost.deleted", name="shop", timestamp_in_ms=happened)
    shop.event("vhost.created", name="shop", timestamp_in_ms=happened + 1)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(60)
    reported = [one for one in shop.observed if isinstance(one, ObjectSeen) and one.key.name == "vhost"]
    (gone,) = [one for one in reported if one.deleted]
    assert "the first" in (gone.properties or ())
    (shown,) = [known for known in shop.source.known("vhost") if known.name.leaf == "shop"]
    assert "the second" in shown.properties


def test_what_may_have_ended_with_its_node_while_events_waited_is_not_shown_as_fresh() -> None:
    """The killed node reported the creation of the queue, and its end was never reported."""
    shop, _ = kept()
    resumed(shop)
    shop.run(60)
    shop.source_does(shop.source.handle(LinkDown("cut"), shop.now))
    created = (shop.now + SECOND) // 1_000_000
    shop.run(2)
    restarted(shop, 2, uptime=500)
    shop.source_does(shop.source.handle(BacklogFollows("", 1), shop.now))
    shop.run(5)
    shop.queue_created("passing", durable=False, timestamp_in_ms=created)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(2)
    while any(known.name.leaf == "passing" for known in shop.source.known("queue")):
        assert not shop.source.synchronised
        shop.run(1)
    shop.run(10)
    assert shop.source.synchronised


@pytest.mark.parametrize(("uptime", "is_gap"), [(30, True), (3_600, False)], ids=["after that", "before"])
def test_a_start_that_the_gateway_before_knew_is_a_gap_if_events_waited_already(
    uptime: int, *, is_gap: bool
) -> None:
    """The gateway met the node's start, and was killed before it had received what waited for longer."""
    shop = World()
    shop.broker.add_node(2, uptime * 1_000)
    shop.broker.add_vhost("/")
    until = shop.now - 60 * SECOND
    started = shop.now - uptime * SECOND
    node = former("node", (NODE,), 12, name=NODE, osProcess="2", startTime=started)
    shop.source.remember([node], shop.now, events_kept=True, complete_until=until)
    resumed(shop)
    shop.run(60)
    assert shop.source.synchronised
    assert [one.start <= until and started <= one.end for one in gaps(shop)] == [True] * is_gap


def test_after_a_standstill_the_values_of_a_queue_that_was_made_again_are_read_at_once() -> None:
    """The end of the former queue is as old as its event, so that listings do not show that queue again."""
    shop = world()
    shop.run(5)
    shop.queue_created("usual")
    happened = (shop.now + 10 * SECOND) // 1_000_000
    shop.now += 60 * SECOND
    shop.source_does(shop.source.handle(TimerExpired(), shop.now))
    shop.event("queue.deleted", vhost="/", name="orders", timestamp_in_ms=happened)
    shop.queue_created("orders", timestamp_in_ms=happened + 1)
    shop.run(5)
    assert shop.value("queue", "orders", "messages") == 3


def test_a_queue_that_a_node_recovers_once_events_are_connected_is_the_same() -> None:
    """Each queue reports that by itself: RabbitMQ accepts clients meanwhile."""
    shop = world()
    shop.broker.add_queue("orders", durable=True)
    shop.run(60)
    (before,) = shop.source.known("queue")
    shop.source_does(shop.source.handle(LinkDown("killed"), shop.now))
    restarted(shop, 2, uptime=4_000)
    node = undated(shop)
    shop.run(2)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(1)
    shop.queue_created("orders")
    node["uptime"] = 8_000
    shop.run(3)
    shop.queue_created("orders")
    shop.queue_created("new", durable=True)
    shop.run(30)
    assert created_queues(shop) == ["new"]
    (orders,) = (one for one in shop.source.known("queue") if one.name.leaf == "orders")
    assert orders.number == before.number


def test_what_is_created_after_a_backlog_is_new_however_lately_a_node_was_started() -> None:
    """Although not everything has been read yet since the gateway's start."""
    shop, _ = kept(20)
    restarted(shop, 2, uptime=60_000)
    shop.broker.failure = lambda request: (
        Unavailable("late")
        if isinstance(request, ListingRequest) and request.class_name == "exchange"
        else None
    )
    shop.run(1)
    resumed(shop)
    shop.run(1)
    shop.queue_created("new", durable=True)
    shop.broker.failure = lambda _: None
    shop.run(30)
    assert created_queues(shop) == ["new"]


def created_queues(shop: World) -> list[object]:
    """Return the names of the queues whose creation was reported."""
    return [one.arguments["name"] for one in shop.events() if one.name == "queueCreated"]


def test_a_node_that_was_started_reports_what_it_recovered_until_some_time_after_the_first_client() -> None:
    gaps, start = GapTracker(), 100 * SECOND
    gaps.interrupted_before(90 * SECOND)
    starts = [(start - SECOND, start)]

    def recovers(seconds: float, *, connects: bool = False) -> bool:
        gaps.event_happened(int(seconds * SECOND), starts, connects=connects)
        return gaps.recovering

    assert not recovers(91)
    assert recovers(104)
    assert recovers(104.5, connects=True)
    assert recovers(109)
    assert not recovers(110)
    assert not recovers(130)  # after a silence, but not the first event since the start


def test_a_gap_that_begins_before_one_that_is_reported_already_loses_nothing_of_its_time() -> None:
    """What came and went while the gateway stood still is found before the end of the connection."""
    tracker = GapTracker()
    tracker.received_until = 100 * SECOND
    (gap,) = tracker.overtaken(Overtaken(108 * SECOND, 109 * SECOND))
    assert (gap.start, gap.end) == (108 * SECOND, 109 * SECOND)
    tracker.missed(116 * SECOND, "the link was lost")
    (gap,) = tracker.close(117 * SECOND)
    assert (gap.start, gap.end) == (100 * SECOND - SHORTEST_DELAY, 117 * SECOND)


def test_the_time_of_who_was_overtaken_is_a_gap_unless_an_open_one_covers_it() -> None:
    tracker = GapTracker()
    (gap,) = tracker.overtaken(Overtaken(100, 200))
    assert (gap.start, gap.end) == (100, 200)
    assert tracker.overtaken(Overtaken(120, 190)) == [], "it was reported"
    tracker.interrupted_before(250)
    (gap,) = tracker.overtaken(Overtaken(300, 400))
    assert (gap.start, gap.end) == (250, 400), "it begins where events were missing"
    tracker.missed(1_000 * SECOND, "the link was lost")
    assert tracker.overtaken(Overtaken(900 * SECOND, 990 * SECOND)) == []
    assert tracker.since <= 900 * SECOND
    (gap,) = tracker.close(1_100 * SECOND)
    assert gap.start <= 900 * SECOND
    assert gap.end == 1_100 * SECOND
