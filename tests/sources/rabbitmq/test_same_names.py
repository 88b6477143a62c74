"""Connections that live with one name: behind proxies that report the client's address and port."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import LinkDown, LinkUp
from gateway.mapping.paths import Json
from gateway.model.observations import ObjectSeen
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.change_proofs import own_path
from gateway.sources.rabbitmq.management_api import PAGE_SIZE, Document, SessionsRequest
from gateway.sources.rabbitmq.management_changes import Change
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName, distinguished
from gateway.sources.rabbitmq.object_places import place_of
from gateway.sources.rabbitmq.source_events import AnswerReceived
from tests.sources.rabbitmq.imitation import MAPPING, NODE, World
from tests.sources.rabbitmq.play import Play
from tests.sources.rabbitmq.story import CONNECTED_AT, world
from tests.sources.rabbitmq.test_amqp10_sessions import CLIENT, link, session, shop_with_client
from tests.sources.rabbitmq.test_unread import not_listing

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
    assert {one.properties[1] for one in shop.seen if one.key.name == "channel" and one.properties} == {None}


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
    is_as_before_a_restart(before, events_kept=False)


@pytest.mark.parametrize("events_kept", [True, False])
def test_a_channel_without_an_owner_is_the_same_after_a_restart(*, events_kept: bool) -> None:
    before = world()
    before.broker.objects["connection"][PEER,]["node"] = NODE
    beside(before, NODE)
    before.broker.objects["channel"][PEER,] = channel(NODE)
    before.run(60)
    is_as_before_a_restart(before, events_kept=events_kept)


def is_as_before_a_restart(before: World, *, events_kept: bool) -> None:
    """Check that a gateway that is started again has the same objects, of which the log has plain names."""
    left = [known for name in MAPPING.classes for known in before.source.known(name)]
    logged = [
        known
        if known.name.plain is known.name
        else KnownObject(**{**as_fields(known), "name": known.name.plain})
        for known in left
    ]
    after = World(broker=before.broker, now=before.now + SECOND)
    after.source.remember(logged, after.now, events_kept=events_kept)
    after.source_does(after.source.handle(LinkUp(""), after.now))
    after.run(60)
    for class_name in ("connection", "channel", "consumer"):
        assert {one.number for one in after.source.known(class_name)} == {
            one.number for one in left if one.name.class_name == class_name
        }
    assert not ended_objects(after)


def ended_objects(shop: World) -> list[ObjectSeen]:
    """Return the ends that the source reports, also of objects that the console has not seen."""
    return [one for one in shop.observed if isinstance(one, ObjectSeen) and one.deleted]


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


HUGE = 10**4_297
"""A time (ms) that can be read as a text, and as nanoseconds cannot be written as one."""


@pytest.mark.parametrize("hostile", [HUGE, -HUGE, -5, True, 0.5, "now", None], ids=lambda one: str(one)[:5])
@pytest.mark.parametrize("of", [(PEER,), (PEER, OTHER)], ids=["the first", "the second"])
def test_a_listed_time_that_is_none_ends_no_connection(of: tuple[str, ...], hostile: Json) -> None:
    shop = two_connections(events=False)
    since = len(shop.seen)
    shop.broker.objects["connection"][of]["connected_at"] = hostile
    shop.run(40)
    assert not ends(shop, "connection", since)
    assert len(list(shop.source.known("connection"))) == 2


@pytest.mark.parametrize("hostile", [HUGE, -5, "now"], ids=lambda one: str(one)[:5])
def test_a_time_of_an_unambiguous_name_that_is_none_is_left_out(hostile: Json) -> None:
    shop = world()
    (before,) = shop.source.known("connection")
    shop.broker.objects["connection"][PEER,]["connected_at"] = hostile
    shop.run(20)
    shop.event(
        "connection.created", name=PEER, vhost="/", user="app", node=NODE, pid=FIRST, connected_at=hostile
    )
    shop.run(20)
    assert {one.name for one in shop.source.known("connection")} == {before.name}


def test_one_that_is_left_of_its_name_is_the_same_when_a_listing_lacks_its_node() -> None:
    shop = two_connections()
    left = by_node(shop, "connection")[OTHER]
    shop.event("connection.closed", name=PEER, pid=FIRST, node=NODE)
    del shop.broker.objects["connection"][PEER,]
    shop.run(10)
    since = len(shop.seen)
    del shop.broker.objects["connection"][PEER, OTHER]["node"]
    shop.run(30)
    assert [one.number for one in shop.source.known("connection")] == [left.number]
    assert not ends(shop, "connection", since)


def test_of_two_of_one_node_one_without_a_time_is_no_third_one_and_both_are_unread() -> None:
    shop = world(events=False)
    shop.broker.objects["connection"][PEER,]["node"] = NODE
    beside(shop, NODE)
    shop.run(20)
    del shop.broker.objects["connection"][PEER, NODE]["connected_at"]
    shop.run(30)
    both = list(shop.source.known("connection"))
    assert len(both) == 2
    assert all(one.unread_since for one in both)
    assert not ends(shop, "connection", 0)


def test_a_second_connection_of_a_node_does_not_end_the_first_whose_opening_no_event_reported() -> None:
    shop = world()
    shop.broker.objects["connection"][PEER,]["node"] = NODE
    shop.run(30)
    opened(shop, NODE, f"<{NODE}.9.2.0>")
    assert len(list(shop.source.known("connection"))) == 2
    assert not ends(shop, "connection", 0)


def test_after_a_gap_of_the_events_a_new_connection_of_the_name_is_the_next_one() -> None:
    shop = world()
    shop.broker.objects["connection"][PEER,]["node"] = NODE
    shop.run(30)
    shop.source_does(shop.source.handle(LinkDown("lost"), shop.now))
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    opened(shop, NODE, f"<{NODE}.9.2.0>")
    assert len(list(shop.source.known("connection"))) == len(ends(shop, "connection", 0)) == 1


def test_a_listing_that_shows_both_takes_back_that_the_first_has_ended() -> None:
    shop = world(events=False)
    listed = shop.broker.objects["connection"]
    listed[PEER,]["node"] = NODE
    shop.run(20)
    (before,) = shop.source.known("connection")
    beside(shop, NODE)
    first = listed.pop((PEER,))
    shop.run(20)
    assert ends(shop, "connection", 0) == [as_received(before)]
    listed[PEER,] = first
    shop.run(20)
    assert before.number in {one.number for one in shop.source.known("connection")}
    assert len(list(shop.source.known("connection"))) == 2


def two_channels_of_a_node(*, events: bool) -> World:
    """Return a world with two connections of a node and name, each with a channel and counters of its own."""
    shop = world(events=events)
    shop.broker.objects["connection"][PEER,]["node"] = NODE
    beside(shop, NODE)
    for count in (10, 500):
        shop.broker.objects["channel"][PEER, str(count)] = {
            **channel(NODE),
            "message_stats": {"publish": count},
        }
    shop.run(40)
    return shop


def test_two_channels_without_an_owner_are_one_without_counters() -> None:
    shop = two_channels_of_a_node(events=False)
    (alone,) = shop.source.known("channel")
    assert set(alone.statistics) == {None}
    assert alone.unread_since
    since = len(shop.observed)
    shop.run(40)
    assert not [one for one in shop.observed[since:] if str(alone.number) in str(one)]


def test_a_channel_without_an_owner_lives_on_beside_one_of_which_an_event_says_whose_it_is() -> None:
    shop = two_channels_of_a_node(events=True)
    shop.broker.objects["connection"][PEER, "third"] = {
        **shop.broker.objects["connection"][PEER,],
        "connected_at": shop.now // MILLISECOND,
    }
    opened(shop, NODE, f"<{NODE}.9.3.0>")
    before = {one.number for one in shop.source.known("channel")}
    assert len(before) == 2
    since = len(shop.seen)
    shop.run(60)
    assert {one.number for one in shop.source.known("channel")} == before
    assert not ends(shop, "channel", since)


def test_an_event_before_the_first_listing_does_not_end_a_connection_of_before_the_start() -> None:
    before = world()
    before.broker.objects["connection"][PEER,]["node"] = NODE
    before.run(20)
    left = [known for name in MAPPING.classes for known in before.source.known(name)]
    after = World(broker=before.broker, now=before.now + SECOND)
    after.source.remember(left, after.now, events_kept=False)
    after.source_does(after.source.handle(LinkUp(""), after.now))
    at = after.now // MILLISECOND
    opened(after, OTHER, SECOND_ONE)
    assert not ended_objects(after)
    after.broker.objects["connection"][PEER, OTHER] = {
        **after.broker.objects["connection"][PEER,],
        "node": OTHER,
        "connected_at": at,
    }
    after.run(40)
    assert not [one for one in ended_objects(after) if one.key.name == "connection"]
    assert len(list(after.source.known("connection"))) == 2


def test_events_that_are_delivered_again_after_long_make_and_end_no_connection() -> None:
    shop = world()
    shop.broker.objects["connection"].clear()
    shop.run(40)
    created, closed = shop.now // MILLISECOND, shop.now // MILLISECOND + 1
    opened(shop, NODE, FIRST)
    shop.event("connection.closed", name=PEER, pid=FIRST, node=NODE)
    shop.run(200)
    opened(shop, OTHER, SECOND_ONE)
    before = len(ended_objects(shop))
    whole = {"name": PEER, "vhost": "/", "user": "app", "node": NODE, "pid": FIRST, "connected_at": created}
    shop.event("connection.created", **whole, timestamp_in_ms=created)
    shop.event("connection.closed", name=PEER, pid=FIRST, node=NODE, timestamp_in_ms=closed)
    shop.run(1)
    assert len(ended_objects(shop)) == before
    (known,) = shop.source.known("connection")
    assert properties(known)["node"] == OTHER


def test_sessions_are_unread_while_two_connections_have_the_name() -> None:
    shop = shop_with_client(session(link(0)))
    shop.broker.objects["connection"][CLIENT,]["node"] = NODE
    shop.run(10)
    (shown,) = shop.source.known("session")
    assert not shown.unread_since
    second = {**shop.broker.objects["connection"][CLIENT,], "node": OTHER, "connected_at": CONNECTED_AT + 7}
    shop.broker.objects["connection"][CLIENT, OTHER] = second
    shop.broker.sessions[CLIENT] = [session(number=5)]
    shop.run(30)
    for class_name in ("session", "link"):
        (unread,) = shop.source.known(class_name)
        assert unread.unread_since
        assert set(unread.statistics) == {None}
    del shop.broker.objects["connection"][CLIENT, OTHER]
    shop.run(60)
    assert not [one for one in shop.source.known("session") if one.unread_since]


def test_an_answer_that_may_be_about_another_connection_of_the_name_changes_no_sessions() -> None:
    shop = shop_with_client(session(link(0)))
    shop.broker.objects["connection"][CLIENT,]["node"] = NODE
    shop.run(10)
    request, answer = SessionsRequest(CLIENT), Document([session(number=5)])
    began = shop.now
    shop.event(
        "connection.created",
        name=CLIENT,
        vhost="/",
        user="app",
        node=OTHER,
        pid=SECOND_ONE,
        connected_at=shop.now // MILLISECOND,
    )
    shop.source_does(shop.source.handle(AnswerReceived(request, answer, began), shop.now))
    (unread,) = shop.source.known("session")
    assert unread.unread_since
    assert properties(unread)["number"] == 0


def test_two_consumers_of_one_name_are_both_read_where_consumers_are_read_by_virtual_host() -> None:
    shop = two_connections()
    both = {one.number for one in shop.source.known("consumer")}
    shop.broker.failure = not_listing("consumers")
    shop.run(60)
    for node, count in ((NODE, 3), (OTHER, 4)):
        shop.broker.objects["consumer"][PEER, node]["prefetch_count"] = count
    shop.run(60)
    shown = list(shop.source.known("consumer"))
    assert {one.number for one in shown} == both
    assert sorted(properties(one)["prefetchCount"] for one in shown) == [3, 4]
    assert not [one for one in shown if one.unread_since]


def test_an_empty_listing_ends_no_consumer_that_a_smaller_one_has() -> None:
    shop = two_connections()
    both = {one.number for one in shop.source.known("consumer")}
    shop.broker.hidden_listings = {"consumer"}
    shop.run(180)
    assert {one.number for one in shop.source.known("consumer")} == both


def test_two_connections_of_a_node_on_two_pages_of_a_listing_are_two_objects() -> None:
    shop = world(events=False)
    (before,) = shop.source.known("connection")
    listed = shop.broker.objects["connection"]
    first = listed.pop((PEER,)) | {"node": NODE}
    for number in range(PAGE_SIZE - 1):
        shop.broker.add_connection(f"other {number}", CONNECTED_AT, node=NODE)
    listed[PEER, NODE] = {**first, "connected_at": CONNECTED_AT + 7}
    listed[PEER,] = first
    shop.run(60)
    assert not ended_objects(shop)
    assert len({one.number for one in shop.source.known("connection")}) == PAGE_SIZE + 1
    assert before.number in {one.number for one in shop.source.known("connection")}


def test_of_several_of_the_name_none_is_closed_whatever_the_broker_lists() -> None:
    play = Play()
    play.world.broker.objects["connection"][PEER,]["node"] = NODE
    beside(play.world, OTHER)
    play.world.run(20)
    play.calls("connection", PEER, "close", "no reason")
    response = play.response()
    assert response.status == Status.EXCEPTION
    assert response.text.startswith("nothing was sent: several connections have this name")
    assert not isinstance(play.request(), Change)


def test_an_event_without_its_node_is_about_the_node_of_its_process() -> None:
    shop = world()
    shop.broker.objects["connection"][PEER,]["node"] = NODE
    shop.run(5)
    at = shop.now // MILLISECOND
    shop.event("connection.created", name=PEER, vhost="/", user="app", pid=SECOND_ONE, connected_at=at)
    assert len(list(shop.source.known("connection"))) == 2
    shop.event("connection.closed", name=PEER, pid=FIRST)
    shop.run(1)
    (second,) = shop.source.known("connection")
    assert second.created == at * MILLISECOND
