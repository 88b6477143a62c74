"""Whether counters go on, by the runs of the nodes that counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.dialects.session import LinkDown, LinkUp
from gateway.mapping.paths import Json
from gateway.model.observations import Counting, ObjectSeen
from gateway.model.times import HOUR, MILLISECOND, MINUTE, SECOND
from gateway.model.values import Value
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Document,
    ListingRequest,
    ManagementRequest,
    Refused,
)
from tests.sources.rabbitmq.imitation import EPOCH, NODE, ImitatedBroker, World
from tests.sources.rabbitmq.story import CONNECTED_AT, world
from tests.sources.rabbitmq.test_event_gaps import former

OTHER = "rabbit@other"


def add_other(broker: ImitatedBroker) -> None:
    broker.objects["node"][OTHER,] = {**broker.objects["node"][NODE,], "name": OTHER, "os_pid": "200"}


def countings(shop: World, class_name: str, since: int = 0) -> list[Counting]:
    """Return how the counters of the objects of a class went on, in each report with statistics."""
    seen = [one for one in shop.observed[since:] if isinstance(one, ObjectSeen) and not one.deleted]
    return [one.counting for one in seen if one.key.name == class_name and one.statistics is not None]


@pytest.mark.parametrize(
    ("process", "started", "others", "expected"),
    [
        ("100", HOUR, False, Counting.GO_ON),
        ("99", HOUR, False, Counting.BEGAN),
        (None, HOUR, False, Counting.UNKNOWN),
        ("100", HOUR, True, Counting.GO_ON),
        ("99", HOUR, True, Counting.UNKNOWN),
        ("100", 2 * MINUTE, True, Counting.UNKNOWN),
    ],
    ids=["runs on", "started again", "not known", "both run on", "one started again", "started just before"],
)
def test_a_start_while_the_gateway_was_down(
    process: str | None, started: int, expected: Counting, *, others: bool
) -> None:
    shop = World()
    begin = shop.now - started
    shop.broker.objects["node"][NODE,]["uptime"] = started // 1_000_000
    known: dict[str, Value] = {"name": NODE, "clusterName": "shop", "startTime": begin}
    if process is not None:
        known["osProcess"] = process
    nodes = [former("node", (NODE,), 12, 0, 0, **known)]
    if others:
        add_other(shop.broker)
        long_ago = shop.now - HOUR
        shop.broker.objects["node"][OTHER,]["uptime"] = HOUR // 1_000_000
        nodes.append(former("node", (OTHER,), 15, name=OTHER, osProcess="200", startTime=long_ago))
    shop.broker.add_queue("orders", messages=33, message_stats={"publish": 33})
    queue = former("queue", ("/", "orders"), 14, vhost="/", name="orders", durable=True)
    until = shop.now - 30 * SECOND
    shop.source.remember([*nodes, queue], shop.now, events_kept=False, complete_until=until)
    shop.run(30)
    assert countings(shop, "queue")[0] is expected


@pytest.mark.parametrize("complete_ago", [0, HOUR], ids=["complete", "catching up for an hour"])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_gateway_that_ended_in_the_first_seconds_of_a_node(complete_ago: int, *, at_once: bool) -> None:
    """The node reports neither process nor uptime then, so that the log has those of its run before."""
    before = world(events=False)
    before.run(30)
    before.broker.objects["node"][NODE,] = {"name": NODE, "running": True}
    before.run(6)
    known = [one for name in ("node", "queue") for one in before.source.known(name)]
    shop = World(broker=before.broker, now=before.now)
    left = [replace(one, first_seen=0, listed=False) for one in known]
    shop.source.remember(left, shop.now, events_kept=False, complete_until=before.now - complete_ago)
    if not at_once:
        shop.run(3)
        (node,) = [one for one in shop.source.known("node") if one.name.leaf == NODE]
        assert 100 in node.properties, "the process of its run before"
    shop.broker.add_node(process=200, uptime=9_000)
    shop.broker.objects["queue"]["/", "orders"]["message_stats"] = {"publish": 40}
    shop.run(30)
    assert countings(shop, "queue")[0] is Counting.BEGAN
    assert countings(shop, "exchange")[0] is Counting.BEGAN


def test_without_a_right_to_read_nodes_nothing_is_known() -> None:
    shop = World()
    shop.broker.failure = lambda request: (
        Refused(login=False, reason="no tag") if request.target.startswith("nodes") else None
    )
    shop.broker.add_queue("orders", messages=33, message_stats={"publish": 33})
    queue = former("queue", ("/", "orders"), 14, vhost="/", name="orders", durable=True)
    shop.source.remember([queue], shop.now, events_kept=False, complete_until=shop.now - MINUTE)
    shop.run(60)
    assert countings(shop, "queue")[0] is Counting.UNKNOWN


def stop(broker: ImitatedBroker) -> None:
    broker.objects["node"][OTHER,] = {"name": OTHER, "running": False}


def leave(broker: ImitatedBroker) -> None:
    del broker.objects["node"][OTHER,]


def start_again(broker: ImitatedBroker) -> None:
    broker.objects["node"][OTHER,] |= {"os_pid": "201", "uptime": 1000}


def count_less(broker: ImitatedBroker) -> None:
    broker.objects["node"][OTHER,]["connection_created"] = 0


@pytest.mark.parametrize("change", [stop, leave, start_again, count_less])
def test_a_change_of_one_of_two_nodes(change: Callable[[ImitatedBroker], None]) -> None:
    shop = world(events=False)
    add_other(shop.broker)
    shop.broker.objects["node"][OTHER,]["connection_created"] = 7
    shop.run(60)
    since = len(shop.observed)
    shop.broker.objects["queue"]["/", "orders"]["message_stats"] = {"publish": 40}
    shop.run(60)
    assert set(countings(shop, "queue", since)) == {Counting.GO_ON}
    since = len(shop.observed)
    change(shop.broker)
    shop.run(60)
    assert countings(shop, "queue", since) == [Counting.UNKNOWN]
    assert Counting.UNKNOWN in countings(shop, "exchange", since)


def test_a_node_that_comes_back_with_what_it_had() -> None:
    shop = world(events=False)
    add_other(shop.broker)
    shop.run(60)
    document = shop.broker.objects["node"][OTHER,]
    stop(shop.broker)
    shop.run(60)
    since = len(shop.observed)
    shop.broker.objects["node"][OTHER,] = {**document, "uptime": 600_000}
    shop.run(60)
    assert countings(shop, "queue", since) == [Counting.UNKNOWN]


class OddNode:
    """Answers listings of nodes with the only node, whose uptime grows, and which is odd in one of them.

    Attributes:
        odd: what the next answer has in the place of other values; ``None`` for a key without a value.
        left_out: keys that it lacks.
    """

    def __init__(self, shop: World) -> None:
        self._shop = shop
        self.odd: dict[str, Json] = {}
        self.left_out: tuple[str, ...] = ()
        self.listings = 0
        shop.broker.failure = self._answer

    @property
    def uptime(self) -> int:
        """The uptime in milliseconds."""
        return HOUR // MILLISECOND + (self._shop.now - EPOCH) // MILLISECOND

    def _answer(self, request: ManagementRequest) -> Answer | None:
        if not isinstance(request, ListingRequest) or request.class_name != "node":
            return None
        self.listings += 1
        document = {**self._shop.broker.objects["node"][NODE,], "uptime": self.uptime, **self.odd}
        shown = {key: value for key, value in document.items() if key not in self.left_out}
        self.odd, self.left_out = {}, ()
        return Document([shown])

    def run_listings(self, number: int = 1) -> None:
        """Let time pass until nodes were listed so often."""
        until = self.listings + number
        while self.listings < until:
            self._shop.run(0.1)


ODD: list[Json] = [None, {}, [], True, 1.5, -1, 0, 1, 500, 99, "99", "", "x", 10**9, 1 << 70]


@pytest.mark.parametrize("key", ["os_pid", "uptime", "running", "rates_mode"])
def test_one_odd_document_of_a_node_is_no_restart(key: str) -> None:
    """All that counted goes on, and nothing ends: not connections, nor queues that are not durable."""
    shop = World()
    node = OddNode(shop)
    shop.broker.add_queue("carts", durable=False, message_stats={"publish": 33})
    shop.broker.add_connection("peer -> us", CONNECTED_AT)
    shop.run(30)
    living = [(one.name, one.number) for name in ("queue", "connection") for one in shop.source.known(name)]
    since = len(shop.observed)
    node.left_out = (key,)
    for value in [{}, *({key: one} for one in ODD)]:
        node.odd = value
        node.run_listings(3)
        left = [(one.name, one.number) for name in ("queue", "connection") for one in shop.source.known(name)]
        assert left == living, value
        assert Counting.BEGAN not in countings(shop, "queue", since), value
        assert Counting.BEGAN not in countings(shop, "node", since), value
        assert shop.value("node", NODE, "osProcess") == 100, value
    assert len(living) == 2


@pytest.mark.parametrize(
    "odd", [{"os_pid": {}}, {"os_pid": "99"}, {"uptime": 500}, {"uptime": 10**9}], ids=str
)
def test_an_odd_document_at_the_start_of_the_gateway_is_no_restart(odd: dict[str, Json]) -> None:
    shop = World()
    node = OddNode(shop)
    started = shop.now - HOUR
    known = former("node", (NODE,), 12, name=NODE, clusterName="shop", osProcess="100", startTime=started)
    shop.broker.add_queue("orders", messages=33, message_stats={"publish": 33})
    queue = former("queue", ("/", "orders"), 14, vhost="/", name="orders", durable=True)
    shop.source.remember([known, queue], shop.now, events_kept=False, complete_until=shop.now - 30 * SECOND)
    node.odd = odd
    shop.run(30)
    assert set(countings(shop, "queue")) == {Counting.GO_ON}


@pytest.mark.parametrize(
    ("restarted", "listings"),
    [
        ({"os_pid": "99", "uptime": 500}, 1),
        ({"uptime": 500}, 2),
        ({"os_pid": "99"}, 2),
        ({"os_pid": {}, "uptime": 500}, 2),
    ],
    ids=["process and uptime", "in a container", "long ago", "uptime alone can be read"],
)
def test_a_restart_is_noticed_as_soon_as_it_is_certain(restarted: dict[str, Json], listings: int) -> None:
    shop = World()
    node = OddNode(shop)
    shop.broker.add_queue("carts", durable=False, message_stats={"publish": 33})
    shop.run(30)
    since, began = len(shop.observed), shop.now
    for _ in range(listings):
        assert Counting.BEGAN not in countings(shop, "node", since)
        node.odd = restarted
        node.run_listings()
    shop.run(0.1)
    assert Counting.BEGAN in countings(shop, "node", since)
    assert shop.now - began < 10 * SECOND


def test_a_node_that_was_seen_not_to_run_needs_one_document_only() -> None:
    shop = World()
    node = OddNode(shop)
    shop.run(30)
    since = len(shop.observed)
    node.left_out = ("uptime", "os_pid")
    node.run_listings()
    node.odd = {"uptime": 500}
    node.run_listings()
    shop.run(0.1)
    assert Counting.BEGAN in countings(shop, "node", since)


def countings_of_new(shop: World, name: str) -> list[Counting]:
    """Return how the counters of each new queue of this name relate to earlier ones."""
    seen = [one for one in shop.observed if isinstance(one, ObjectSeen) and one.key.name == "queue"]
    lives: dict[str, Counting] = {}
    for one in seen:
        if one.properties is not None and name in one.properties and not one.deleted:
            lives.setdefault(one.native_id, one.counting)
    return list(lives.values())


def test_a_queue_that_is_declared_again_may_go_on_with_the_counts_of_the_former_one() -> None:
    """RabbitMQ keeps them for up to two minutes: the new life is no proof that they count from zero."""
    shop = world()
    shop.broker.add_queue("audit")
    shop.queue_created("audit")
    shop.run(30)
    shop.event("queue.deleted", vhost="/", name="audit")
    del shop.broker.objects["queue"]["/", "audit"]
    shop.run(30)
    shop.broker.add_queue("audit", messages=5, message_stats={"publish": 1000})
    shop.queue_created("audit")
    shop.run(30)
    assert countings_of_new(shop, "audit") == [Counting.GO_ON, Counting.UNKNOWN]


@pytest.mark.parametrize("published", [0, 7], ids=["at rest after the start", "counted since the start"])
def test_a_queue_that_ended_with_its_broker_leaves_no_counts(published: int) -> None:
    shop = world()
    shop.broker.add_queue("audit", message_stats={"publish": 1000})
    shop.queue_created("audit")
    shop.run(30)
    stopped = LinkDown("broker forced connection closure with reason 'shutdown'")
    shop.source_does(shop.source.handle(stopped, shop.now))
    if published:
        shop.broker.objects["queue"]["/", "audit"]["message_stats"] = {"publish": published}
        shop.source_does(shop.source.handle(LinkUp(""), shop.now))
        shop.run(30)
        shop.event("queue.deleted", vhost="/", name="audit")
        del shop.broker.objects["queue"]["/", "audit"]
    else:
        del shop.broker.objects["queue"]["/", "audit"]
        shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(30)
    shop.broker.add_queue("audit", message_stats={"publish": 25})
    shop.queue_created("audit")
    shop.run(30)
    expected = Counting.UNKNOWN if published else Counting.GO_ON
    assert countings_of_new(shop, "audit") == [Counting.GO_ON, expected]


def test_a_queue_that_is_new_after_a_change_of_nodes_has_counted_from_zero() -> None:
    shop = world()
    add_other(shop.broker)
    shop.run(60)
    stop(shop.broker)
    shop.run(60)
    shop.queue_created("audit")
    shop.run(30)
    assert countings_of_new(shop, "audit") == [Counting.GO_ON]
