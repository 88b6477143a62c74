"""Connections that live with one name: behind proxies that report the client's address and port."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from gateway.mapping.paths import Json
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.change_proofs import own_path
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName, distinguished
from gateway.sources.rabbitmq.object_places import place_of
from tests.sources.rabbitmq.imitation import MAPPING, NODE, World
from tests.sources.rabbitmq.story import CONNECTED_AT, world

PEER = "peer -> us"
OTHER = "rabbit@other"
FIRST, SECOND_ONE = f"<{NODE}.9.1.0>", f"<{OTHER}.9.1.0>"


def beside(shop: World, node: str) -> None:
    """Give the broker a second connection of the name, on a node."""
    first = shop.broker.objects["connection"][PEER,]
    second = {**first, "node": node, "connected_at": CONNECTED_AT + 7}
    shop.broker.objects["connection"][PEER, node] = second


def channel(node: str) -> dict[str, Json]:
    return {"name": f"{PEER} (1)", "node": node, "number": 1, "connection_details": {"name": PEER}}


def consumer(node: str) -> dict[str, Json]:
    details = {"name": f"{PEER} (1)", "connection_name": PEER, "node": node}
    return {
        "queue": {"name": "orders", "vhost": "/"},
        "consumer_tag": "tag",
        "channel_details": dict(details),
    }


def two_connections(*, events: bool = True) -> World:
    """Return a world in which two nodes have a connection of one name, each with a channel and a consumer."""
    shop = world(events=events)
    shop.broker.objects["connection"][PEER,]["node"] = NODE
    shop.run(10)
    beside(shop, OTHER)
    for node in (NODE, OTHER):
        shop.broker.objects["channel"][PEER, node] = channel(node)
        shop.broker.objects["consumer"][PEER, node] = consumer(node)
    shop.run(20)
    return shop


def properties(known: KnownObject) -> dict[str, Any]:
    """Return the properties of an object by element."""
    return dict(zip(MAPPING.classes[known.name.class_name].properties, known.properties, strict=True))


def by_node(shop: World, class_name: str) -> dict[str, KnownObject]:
    """Return the objects of a class by the nodes that they show."""
    return {properties(known)["node"]: known for known in shop.source.known(class_name)}


def of_owner(shop: World, class_name: str, element: str, owner: KnownObject) -> list[KnownObject]:
    """Return the objects of a class that refer to another one."""
    return [one for one in shop.source.known(class_name) if properties(one)[element] == owner.name.leaf]


def ends(shop: World, class_name: str, since: int) -> list[str]:
    """Return the native ids of the objects that ended, as the console has them."""
    return [one.native_id for one in shop.seen[since:] if one.key.name == class_name and one.deleted]


def as_received(known: KnownObject) -> str:
    """Return the console's native id of an object."""
    return f"0-2-1-0-{known.number}"


@pytest.mark.parametrize("events", [True, False])
def test_two_connections_of_one_name_are_shown_with_what_belongs_to_each(*, events: bool) -> None:
    shop = two_connections(events=events)
    connections = by_node(shop, "connection")
    assert {properties(one)["name"] for one in connections.values()} == {PEER}
    assert sorted(one.created for one in connections.values()) == [
        CONNECTED_AT * MILLISECOND,
        (CONNECTED_AT + 7) * MILLISECOND,
    ]
    channels = by_node(shop, "channel")
    for node in (NODE, OTHER):
        assert of_owner(shop, "channel", "connection", connections[node]) == [channels[node]]
        (consumes,) = of_owner(shop, "consumer", "channelObject", channels[node])
        assert properties(consumes)["connectionObject"] == connections[node].name.leaf
        assert properties(consumes)["channel"] == f"{PEER} (1)"


def test_a_connection_of_an_unambiguous_name_keeps_its_native_id_beside_another_and_after_it() -> None:
    shop = world()
    (alone,) = shop.source.known("connection")
    shop = two_connections()
    connections = by_node(shop, "connection")
    assert connections[NODE].number == alone.number
    second = connections[OTHER].number
    late = World()
    late.broker.add_connection(PEER, CONNECTED_AT + 7, node=OTHER)
    late.run(20)
    assert [one.number for one in late.source.known("connection")] == [second], "as after a restart"


def test_when_the_first_closes_the_other_one_and_what_belongs_to_it_lives_on() -> None:
    shop = two_connections()
    connections, channels = by_node(shop, "connection"), by_node(shop, "channel")
    since = len(shop.seen)
    shop.event("connection.closed", name=PEER, pid=FIRST, node=NODE)
    for class_name in ("connection", "channel", "consumer"):
        for key, one in list(shop.broker.objects[class_name].items()):
            if NODE in str(one):
                del shop.broker.objects[class_name][key]
    shop.run(60)
    assert ends(shop, "connection", since) == [as_received(connections[NODE])]
    assert ends(shop, "channel", since) == [as_received(channels[NODE])]
    assert [one.number for one in shop.source.known("connection")] == [connections[OTHER].number]
    assert list(by_node(shop, "channel")) == [OTHER]


def test_the_end_of_the_second_which_only_listings_show_ends_nothing_else() -> None:
    shop = two_connections(events=False)
    connections = by_node(shop, "connection")
    since = len(shop.seen)
    for class_name in ("connection", "channel", "consumer"):
        for key in [key for key in shop.broker.objects[class_name] if key[-1] == OTHER]:
            del shop.broker.objects[class_name][key]
    shop.run(60)
    assert ends(shop, "connection", since) == [as_received(connections[OTHER])]
    assert len(ends(shop, "channel", since)) == len(ends(shop, "consumer", since)) == 1
    assert [one.number for one in shop.source.known("connection")] == [connections[NODE].number]


def opened(shop: World, node: str, process: str, **more: object) -> None:
    """Report a connection, its channel and a consumer by events."""
    shop.event(
        "connection.created",
        name=PEER,
        vhost="/",
        user="app",
        node=node,
        pid=process,
        connected_at=shop.now // MILLISECOND,
        **more,
    )
    on = process.replace(".0>", ".1>")
    shop.event("channel.created", name=f"{PEER} (1)", pid=on, connection=process, number=1, vhost="/")
    shop.event(
        "consumer.created",
        vhost="/",
        queue="orders",
        channel=on,
        consumer_tag="tag",
        ack_required=True,
        exclusive=False,
        prefetch_count=0,
        arguments=[],
    )
    shop.run(0.1)


@pytest.mark.parametrize("node", [OTHER, NODE], ids=["two nodes", "one node, as RabbitMQ allows"])
def test_events_name_connections_of_one_name_by_their_processes(node: str) -> None:
    shop = world()
    shop.broker.objects["connection"].clear()
    shop.run(40)
    second = f"<{node}.9.2.0>"
    opened(shop, NODE, FIRST)
    opened(shop, node, second)
    one, other = sorted(shop.source.known("connection"), key=lambda known: known.created)
    for owner in (one, other):
        (its,) = of_owner(shop, "channel", "connection", owner)
        (consumes,) = of_owner(shop, "consumer", "channelObject", its)
        assert properties(consumes)["connectionObject"] == owner.name.leaf
    shop.queue_created("mine", exclusive=True, owner_pid=second)
    assert shop.value("queue", "mine", "exclusiveOwner") == PEER
    since = len(shop.observations)
    shop.event("connection.closed", name=PEER, pid=FIRST, node=NODE)
    shop.run(0.1)
    assert list(shop.source.known("connection")) == [other]
    assert len(list(shop.source.known("channel"))) == len(list(shop.source.known("consumer"))) == 1
    (closed,) = [event for event in shop.events(since) if event.name == "connectionClosed"]
    assert closed.arguments["connection"].native_id == as_received(one)


def test_an_event_about_the_second_refers_to_the_second() -> None:
    shop = world()
    shop.broker.objects["connection"].clear()
    shop.run(40)
    opened(shop, NODE, FIRST)
    since = len(shop.observations)
    opened(shop, OTHER, SECOND_ONE)
    shop.event("connection.closed", name=PEER, pid=SECOND_ONE, node=OTHER)
    shop.run(0.1)
    (first,) = shop.source.known("connection")
    found = [event.arguments["connection"].native_id for event in shop.events(since)]
    assert len(found) == 2
    assert len(set(found)) == 1
    assert as_received(first) not in found


def test_a_channel_that_may_belong_to_either_has_no_parent() -> None:
    """Two connections of one node have one name, and nothing but the name says whose the channel is."""
    shop = world(events=False)
    shop.broker.objects["connection"][PEER,]["node"] = NODE
    beside(shop, NODE)
    shop.broker.objects["channel"][PEER,] = channel(NODE)
    shop.broker.objects["consumer"][PEER,] = consumer(NODE)
    shop.run(60)
    assert len(list(shop.source.known("connection"))) == 2
    (alone,) = shop.source.known("channel")
    assert properties(alone)["connection"] is None
    (consumes,) = shop.source.known("consumer")
    assert (properties(consumes)["channelObject"], properties(consumes)["connectionObject"]) == (None, None)
    assert [one.properties[1] for one in shop.seen if one.key.name == "channel" and one.properties] == [None]


def test_a_later_connection_of_the_name_on_the_same_node_is_the_next_one_as_before() -> None:
    shop = world(events=False)
    shop.broker.objects["connection"][PEER,] |= {"node": NODE}
    shop.run(10)
    since = len(shop.seen)
    shop.broker.objects["connection"][PEER,] |= {"connected_at": CONNECTED_AT + 9_000}
    shop.run(30)
    assert len(ends(shop, "connection", since)) == 1
    (known,) = shop.source.known("connection")
    assert known.name.leaf == PEER
    assert known.created == (CONNECTED_AT + 9_000) * MILLISECOND


def test_objects_of_before_the_start_are_distinguished() -> None:
    before = two_connections()
    left = [known for name in MAPPING.classes for known in before.source.known(name)]
    logged = [
        known
        if known.name.plain is known.name
        else KnownObject(**{**as_fields(known), "name": known.name.plain})
        for known in left
    ]
    after = World(broker=before.broker, now=before.now + SECOND)
    after.source.remember(logged, after.now, events_kept=False)
    after.run(40)
    for class_name in ("connection", "channel", "consumer"):
        assert {one.number for one in after.source.known(class_name)} == {
            one.number for one in left if one.name.class_name == class_name
        }
    assert not [one for one in after.seen if one.deleted]


def as_fields(known: KnownObject) -> dict[str, Any]:
    return {name: getattr(known, name) for name in KnownObject.__slots__}


def test_two_connections_that_were_opened_in_the_same_millisecond_have_two_native_ids() -> None:
    shop = world()
    first = shop.broker.objects["connection"][PEER,] | {"node": NODE}
    shop.broker.objects["connection"] = {(PEER,): first, (PEER, OTHER): {**first, "node": OTHER}}
    shop.run(20)
    assert {properties(one)["node"] for one in shop.source.known("connection")} == {NODE, OTHER}
    assert len({one.number for one in shop.source.known("connection")}) == 2


@pytest.mark.parametrize("name", ["orders\0x\0", f"orders\0{NODE}\0{SECOND}"])
def test_a_name_with_what_looks_like_a_distinction_is_its_own(name: str) -> None:
    """Clients choose names of queues, and tags: a method on one acts on it, and on no other one."""
    queue = ObjectName("queue", ("/", name))
    assert queue.plain is queue
    assert own_path(queue) == f"queues/%2F/{quote(name, safe='')}"
    assert place_of(queue, "queues").path.startswith(own_path(queue))
    shared = ObjectName("connection", (distinguished(name, NODE, SECOND),))
    assert shared.plain == ObjectName("connection", (name,))


def test_two_consumers_whose_tags_look_alike_are_two_objects() -> None:
    shop = two_connections()
    for number, tag in enumerate(("t\0a\0", "t")):
        shop.broker.objects["consumer"][tag,] = {**consumer(NODE), "consumer_tag": tag}
        shop.run(20)
        assert len({one.number for one in shop.source.known("consumer")}) == 3 + number


def test_a_connection_that_was_opened_when_the_one_that_is_left_of_its_name_was_has_a_native_id() -> None:
    shop = two_connections()
    (left,) = [one for one in shop.source.known("connection") if one.name.plain is not one.name]
    shop.event("connection.closed", name=PEER, pid=FIRST, node=NODE)
    del shop.broker.objects["connection"][PEER,]
    shop.run(30)
    shop.broker.objects["connection"][PEER, "third"] = {
        **shop.broker.objects["connection"][PEER, OTHER],
        "node": NODE,
    }
    shop.run(30)
    (_, new) = shop.source.known("connection")
    assert new.name.plain is new.name
    assert new.number != left.number
