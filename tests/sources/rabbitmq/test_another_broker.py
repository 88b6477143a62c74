"""Another broker is read under the name of a source: the former objects end, and no counter continues."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import pytest

from gateway.dialects.session import BacklogFollows, LinkDown, LinkUp
from gateway.model.observations import Gap, ObjectSeen, SourceState
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.management_api import ManagementRequest, OverviewRequest, Refused, Unavailable
from gateway.sources.rabbitmq.object_names import native_id
from tests.sources.rabbitmq.imitation import NODE, ImitatedBroker, World
from tests.sources.rabbitmq.story import world
from tests.sources.rabbitmq.test_event_gaps import former
from tests.sources.rabbitmq.test_first_reading import Reading

OTHER = "rabbit@stock"


def moved(broker: ImitatedBroker, cluster: str = "stock", *nodes: str) -> None:
    """Have another broker answer: with a queue of the name ``orders``, too, and these nodes."""
    broker.cluster_name = cluster
    (document,) = broker.objects["node"].values()
    broker.objects["node"].clear()
    broker.objects["connection"].clear()
    broker.objects["queue"].clear()
    for process, node in enumerate(nodes or (OTHER,)):
        broker.objects["node"][node,] = {**document, "name": node, "os_pid": str(7 + process)}
    broker.add_queue("orders", messages=33, message_stats={"publish": 33}, node=(nodes or (OTHER,))[-1])


def ends(shop: World) -> set[tuple[str, bool]]:
    """Return the native ids of the objects whose ends were reported, and whether they are inferred."""
    reported = (one for one in shop.observed if isinstance(one, ObjectSeen))
    return {(one.native_id, one.inferred) for one in reported if one.deleted}


def reported_of(shop: World, number: int, since: int) -> list[ObjectSeen]:
    """Return what was reported of an object since then, without its end."""
    seen = [one for one in shop.observed[since:] if isinstance(one, ObjectSeen)]
    return [one for one in seen if one.native_id == native_id(number) and not one.deleted]


@pytest.mark.parametrize("silent", [0, 3, 20], ids=["at once", "after 3 s", "after 20 s"])
def test_another_broker_begins_other_objects_of_the_same_names(silent: float) -> None:
    shop = world()
    shop.run(20)
    every = [
        known
        for name in ("node", "vhost", "exchange", "queue", "connection")
        for known in shop.source.known(name)
    ]
    (orders,) = shop.source.known("queue")
    if silent:
        shop.source_does(shop.source.handle(LinkDown("refused"), shop.now))
        shop.broker.failure = lambda _: Unavailable("refused")
        shop.run(silent)
        shop.broker.failure = lambda _: None
    since, proved = len(shop.observed), shop.proved_at
    moved(shop.broker)
    shop.run(1)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(60)
    assert {(native_id(known.number), True) for known in every} <= ends(shop)
    assert reported_of(shop, orders.number, since) == []
    (other,) = shop.source.known("queue")
    assert other.number != orders.number
    assert shop.value("queue", "orders", "messages") == 33
    gaps = [one for one in shop.observed if isinstance(one, Gap)]
    assert min(gap.start for gap in gaps) <= proved
    status = shop.source.status
    text = (
        "another broker is read, cluster 'stock' with rabbit@stock, in the place of 'shop' with rabbit@shop"
    )
    assert (status.state, text in status.detail) == (SourceState.SYNCHRONISED, True)
    assert shop.source.cluster_names == {"stock"}


@pytest.mark.parametrize("kept", [False, True], ids=["listings", "durable subscription"])
def test_another_broker_is_noticed_after_a_restart_of_the_gateway(*, kept: bool) -> None:
    shop = World()
    moved(shop.broker)
    node = former("node", (NODE,), 12, name=NODE, osProcess=100, clusterName="shop")
    host = former("vhost", ("/",), 13, name="/")
    queue = former("queue", ("/", "orders"), 14, vhost="/", name="orders", durable=True)
    until = shop.now - 60 * SECOND
    shop.source.remember([node, host, queue], shop.now, events_kept=kept, complete_until=until)
    if kept:
        shop.source_does(shop.source.handle(BacklogFollows("the queue is new", 0), shop.now))
        shop.run(2)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(60)
    assert {(native_id(number), True) for number in (12, 13, 14)} <= ends(shop)
    assert not reported_of(shop, 14, 0)
    assert shop.value("queue", "orders", "messages") == 33
    assert "another broker is read" in shop.source.status.detail


@pytest.mark.parametrize(
    ("cluster", "nodes", "from_zero"),
    [
        ("stock", (NODE,), True),
        ("stock", (OTHER, NODE), False),
        ("shop", (OTHER,), True),
        ("shop", (OTHER, "rabbit@third"), True),
    ],
    ids=["renamed", "renamed and larger", "with another node", "with other nodes"],
)
def test_a_renamed_or_scaled_cluster_is_the_same_broker(
    cluster: str, nodes: tuple[str, ...], *, from_zero: bool
) -> None:
    shop = world()
    shop.run(20)
    (orders,) = shop.source.known("queue")
    since = len(shop.observed)
    moved(shop.broker, cluster, *nodes)
    shop.run(60)
    # Each node was started again: if no other has run on, all counters count from zero.
    counted = [one.statistics for one in reported_of(shop, orders.number, since) if one.statistics]
    began = [all(value is None for value in values) for values in counted]
    assert (True in began) is from_zero
    assert not began[-1]
    assert not {end for end in ends(shop) if end[0] == native_id(orders.number)}
    (still,) = shop.source.known("queue")
    assert still.number == orders.number
    assert "another broker" not in shop.source.status.detail
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert shop.source.cluster_names == {"shop", cluster}


def test_without_a_right_to_read_nodes_the_rest_is_read() -> None:
    shop = World()
    moved(shop.broker)
    node = former("node", (NODE,), 12, name=NODE, osProcess=100, clusterName="shop")
    shop.source.remember([node], shop.now, events_kept=False, complete_until=shop.now - 60 * SECOND)
    shop.broker.failure = lambda request: (
        Refused(login=False, reason="no tag") if request.target.startswith("nodes") else None
    )
    shop.run(60)
    assert shop.value("queue", "orders", "messages") == 33


def test_objects_of_a_node_that_the_cluster_has_forgotten_are_listed() -> None:
    shop = world()
    shop.broker.add_queue("left", node="rabbit@forgotten")
    del shop.broker.objects["queue"]["/", "orders"]
    shop.run(30)
    assert "left" in [known.name.leaf for known in shop.source.known("queue")]


class Balancer:
    """A load balancer before two brokers, each with a queue ``orders`` and an exchange of its own name.

    Args:
        shop: the source; its broker is what each request finds.
        choose: returns by the number of the request, and its time, whether the other broker answers it.
    """

    def __init__(self, shop: World, choose: Callable[[int, int], bool]) -> None:
        self.choose = choose
        self._shop = shop
        self._requests = 0
        broker = shop.broker
        first = copy.deepcopy(broker.objects), broker.cluster_name
        moved(broker)
        broker.add_exchange("stocked", "/")
        self._sites = first, (copy.deepcopy(broker.objects), broker.cluster_name)
        shop.broker.failure = self._chosen

    def _chosen(self, _: ManagementRequest) -> None:
        site = self._sites[self.choose(self._requests, self._shop.now)]
        self._requests += 1
        self._shop.broker.objects, self._shop.broker.cluster_name = copy.deepcopy(site[0]), site[1]


def balanced(choose: Callable[[int, int], bool]) -> tuple[World, Balancer]:
    """Return a source that has read the first broker for a while, and a balancer that chooses from now on."""
    shop = world()
    shop.broker.add_exchange("sold", "/")
    shop.run(20)
    return shop, Balancer(shop, choose)


def names(shop: World) -> list[tuple[int, str]]:
    """Return number and name of the queues and exchanges that are known."""
    classes = ("queue", "exchange")
    return sorted((known.number, known.name.leaf) for name in classes for known in shop.source.known(name))


def at_random(share: float) -> Callable[[int, int], bool]:
    chance = random.Random(7)  # noqa: S311  no secret
    return lambda _request, _now: chance.random() < share


@pytest.mark.parametrize(
    "choose",
    [lambda request, _: request % 2 == 1, lambda request, _: request // 2 % 2 == 1, at_random(0.5)],
    ids=["each request", "each second request", "at random"],
)
def test_answers_of_two_brokers_in_turn_are_those_of_none(choose: Callable[[int, int], bool]) -> None:
    shop, balancer = balanced(choose)
    since, every = len(shop.observed), names(shop)
    shop.run(300)
    reported = [one for one in shop.observed[since:] if isinstance(one, ObjectSeen)]
    assert [one for one in reported if one.deleted] == []
    status = shop.source.status
    assert (names(shop), status.state) == (every, SourceState.DOWN)
    assert "answers are of two brokers in turn, with rabbit@" in status.detail
    assert all(node in status.detail for node in (NODE, OTHER))
    assert len(shop.broker.requests) < 600
    balancer.choose = lambda *_: False
    shop.run(120)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert "two brokers" not in shop.source.status.detail
    assert (names(shop), ends(shop)) == (every, set())


def test_a_broker_that_answers_seldom_in_place_of_another_changes_nothing_for_long() -> None:
    shop, _ = balanced(at_random(0.05))
    since = len(shop.observed)
    shop.run(3600)
    reported = [one for one in shop.observed[since:] if isinstance(one, ObjectSeen)]
    assert not [one for one in reported if one.deleted and one.properties and "orders" in one.properties]


def test_after_two_brokers_in_turn_the_one_that_stays_takes_the_place() -> None:
    shop, balancer = balanced(lambda request, _: request % 2 == 1)
    (orders,) = shop.source.known("queue")
    shop.run(60)
    balancer.choose = lambda *_: True
    shop.run(120)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert (native_id(orders.number), True) in ends(shop)
    assert shop.value("queue", "orders", "messages") == 33
    assert "another broker is read" in shop.source.status.detail


def test_a_broker_that_was_replaced_does_not_come_back_at_once() -> None:
    """As where a connection is kept for a while, and the next one leads to the other broker."""
    shop, _ = balanced(lambda _, now: (now // (40 * SECOND)) % 2 == 1)
    shop.run(600)
    ended = [one for one in shop.observed if isinstance(one, ObjectSeen) and one.deleted]
    lives = [one for one in ended if one.properties and "orders" in one.properties]
    assert len(lives) <= 3  # of fifteen changes


@pytest.mark.parametrize(
    ("node", "cluster", "reason"),
    [
        ("rabbit@reset", "rabbit@reset", "rabbit@reset, which is no running node of this broker"),
        (NODE, "stock", f"{NODE} of another broker, cluster 'stock'"),
    ],
    ids=["a node that was reset into a broker of its own", "a node of the same name"],
)
def test_metrics_of_another_broker_are_not_taken(node: str, cluster: str, reason: str) -> None:
    reading = Reading()
    reading.broker.listeners = [{"node": NODE, "protocol": "amqp", "ip_address": "::", "port": 5672}]
    for queue in reading.broker.objects["queue"].values():
        queue["messages"] = 1
    reading.until_names()
    assert reading.scrape(node, cluster)
    assert reading.value("messages") is None
    text = f"no metrics of http://127.0.0.1:15692 (it says that it is {reason})"
    assert f"statistics are read from listings: {text}" in reading.source.status.detail
    reading.until_whole_page(4)
    assert reading.value("messages") == 1
    assert reading.state() is SourceState.SYNCHRONISED


def test_metrics_of_a_renamed_cluster_are_taken_once_the_overview_has_the_name() -> None:
    reading = Reading()
    reading.until_names()
    reading.broker.cluster_name = "renamed"
    assert reading.scrape(cluster="renamed")
    assert "no metrics" in reading.source.status.detail
    assert isinstance(reading.step(), OverviewRequest), "the overview is asked at once"
    reading.until_whole_page(4)
    reading.now += 15 * SECOND
    assert reading.scrape(cluster="renamed")
    assert reading.value("messages") == 7
    assert "no metrics" not in reading.source.status.detail


def test_nodes_of_one_cluster_may_give_it_different_names() -> None:
    reading = Reading()
    nodes = reading.broker.objects["node"]
    nodes["rabbit@asked",] = {**nodes[NODE,], "name": "rabbit@asked", "os_pid": "7"}
    reading.broker.answering = "rabbit@asked"
    reading.until_names()
    assert reading.scrape(cluster=NODE)
    assert reading.value("messages") == 7
