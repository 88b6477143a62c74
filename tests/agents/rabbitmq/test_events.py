"""Events of ``amq.rabbitmq.event``, as aio-pika delivered them from a RabbitMQ 3.10.8."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.agents.rabbitmq.events import Bound, Changed, Created, Deleted, EventReader, Other, bound
from gateway.agents.rabbitmq.object_names import ObjectName
from gateway.agents.rabbitmq.reading import class_readers
from gateway.mapping.files import load_shipped_mappings
from gateway.mapping.paths import Json

READERS = class_readers(load_shipped_mappings()["rabbitmq"])
OWNER = "<rabbit@shop.1795163225.1211.0>"
CHANNEL = "<rabbit@shop.1795163225.1230.0>"
TIME = {"timestamp_in_ms": 1795163274583, "user_who_performed_action": "app"}
QUEUE_CREATED = {
    "exclusive": True,
    "owner_pid": OWNER,
    "arguments": ['{<<"x-max-priority">>,byte,3}', '{<<"x-message-ttl">>,unsignedshort,60000}'],
    "auto_delete": False,
    "durable": False,
    "name": "exq",
    "vhost": "seen",
    **TIME,
}
QUORUM_CREATED = {
    "arguments": ['{<<"x-queue-type">>,longstr,<<"quorum">>}'],
    "type": "rabbit_quorum_queue",
    "exclusive": False,
    "auto_delete": False,
    "durable": True,
    "name": "qq",
    "vhost": "seen",
    **TIME,
}
STREAM_CREATED = {
    "type": "rabbit_stream_queue",
    "arguments": ['{<<"x-queue-type">>,longstr,<<"stream">>}'],
    "auto_delete": False,
    "durable": True,
    "name": "log",
    "vhost": "seen",
    **TIME,
}
EXCHANGE_CREATED = {
    "policy": "",
    "arguments": ['{<<"alternate-exchange">>,longstr,<<"amq.fanout">>}'],
    "internal": False,
    "auto_delete": False,
    "durable": True,
    "type": "topic",
    "name": "xx",
    "vhost": "seen",
    **TIME,
}
CONNECTION_CREATED = {
    "node": "rabbit@shop",
    "connected_at": 1795163274577,
    "client_properties": [
        '{<<"capabilities">>,table,[{<<"basic.nack">>,bool,true}]}',
        '{<<"connection_name">>,longstr,<<"w2">>}',
        '{<<"password">>,longstr,<<"hush">>}',
        '{<<"x">>,array,[{byte,1},{table,[{<<"a">>,bool,true}]}]}',
    ],
    "channel_max": 2047,
    "frame_max": 131072,
    "timeout": 60,
    "vhost": "seen",
    "user": "admin",
    "protocol": "{0,9,1}",
    "ssl_protocol": "",
    "auth_mechanism": "PLAIN",
    "peer_cert_subject": "",
    "ssl": False,
    "peer_host": "{127,0,0,1}",
    "host": "{127,0,0,1}",
    "peer_port": 36472,
    "port": 35672,
    "name": "127.0.0.1:36472 -> 127.0.0.1:35672",
    "pid": OWNER,
    "type": "network",
    "user_provided_name": "w2",
    **TIME,
}


class KnownNames:
    """What an agent has learnt from events before."""

    def connection_of(self, process: str) -> str | None:
        return {OWNER: "peer -> us"}.get(process)

    def channel_of(self, process: str) -> str | None:
        return {CHANNEL: "peer -> us (1)"}.get(process)

    def consumer_of(self, virtual_host: str, queue: str, tag: str) -> ObjectName | None:
        found = (virtual_host, queue, tag) == ("seen", "orders", "old")
        return ObjectName("consumer", (virtual_host, queue, "former (1)", tag)) if found else None

    def binding_of(self, headers: Mapping[str, Json]) -> ObjectName | None:
        found = headers.get("source_name") == "h1"
        return ObjectName("binding", ("seen", "h1", "queue", "orders", "~yOajQw")) if found else None


def event_reader() -> EventReader:
    return EventReader(READERS, KnownNames())


def created(event: str, headers: dict[str, Any]) -> tuple[Created, dict[str, Any]]:
    """The event, and the properties that it tells by name."""
    read = event_reader().read(event, headers, None)
    assert isinstance(read, Created)
    schema = READERS[read.reading.name.class_name].schema
    told = zip(schema.properties, read.reading.properties, strict=True)
    return read, {element.name: value for element, value in told if value is not None}


def test_an_exclusive_queue_tells_its_owner() -> None:
    event, told = created("queue.created", QUEUE_CREATED)
    assert event.time == 1795163274_583000000
    assert told == {
        "vhost": "seen",
        "name": "exq",
        "type": "classic",
        "durable": False,
        "autoDelete": False,
        "exclusive": True,
        "arguments": {"x-max-priority": 3, "x-message-ttl": 60000},
        "exclusiveOwner": "peer -> us",
    }
    assert set(event.reading.statistics) == {None}


def test_other_kinds_of_queue_tell_their_type() -> None:
    assert created("queue.created", QUORUM_CREATED)[1]["type"] == "quorum"
    stream = created("queue.created", STREAM_CREATED)[1]
    assert (stream["type"], stream["exclusive"]) == ("stream", False)
    unheard_of = created("queue.created", {**QUORUM_CREATED, "type": "rabbit_heap_queue"})[1]
    assert "type" not in unheard_of


def test_an_exchange() -> None:
    _, told = created("exchange.created", EXCHANGE_CREATED)
    assert told == {
        "vhost": "seen",
        "name": "xx",
        "type": "topic",
        "durable": True,
        "autoDelete": False,
        "internal": False,
        "arguments": {"alternate-exchange": "amq.fanout"},
        "createdBy": "app",
    }


def test_a_connection_tells_the_same_as_the_management_api_without_secrets() -> None:
    event, told = created("connection.created", CONNECTION_CREATED)
    assert event.process == OWNER
    assert told == {
        "name": "127.0.0.1:36472 -> 127.0.0.1:35672",
        "providedName": "w2",
        "user": "admin",
        "vhost": "seen",
        "node": "rabbit@shop",
        "protocol": "AMQP 0-9-1",
        "type": "network",
        "host": "127.0.0.1",
        "port": 35672,
        "peerHost": "127.0.0.1",
        "peerPort": 36472,
        "tls": False,
        "authenticationMechanism": "PLAIN",
        "channelMax": 2047,
        "frameMax": 131072,
        "heartbeatTimeout": 60_000000000,
        "connectedAt": 1795163274_577000000,
        "clientProperties": {
            "capabilities": {"basic.nack": True},
            "connection_name": "w2",
            "x": (1, {"a": True}),
        },
    }


@pytest.mark.parametrize(
    ("event", "headers", "name"),
    [
        ("queue.deleted", {"name": "exq", "vhost": "seen", **TIME}, ObjectName("queue", ("seen", "exq"))),
        ("exchange.deleted", {"name": "xx", "vhost": "/", **TIME}, ObjectName("exchange", ("/", "xx"))),
        (
            "connection.closed",
            {"name": "a -> b", "pid": OWNER, **TIME},
            ObjectName("connection", ("a -> b",)),
        ),
        ("vhost.deleted", {"name": "seen", **TIME}, ObjectName("vhost", ("seen",))),
    ],
)
def test_ends_are_told_by_name(event: str, headers: dict[str, Any], name: ObjectName) -> None:
    assert event_reader().read(event, headers, None) == Deleted(name, 1795163274_583000000)


def test_a_new_virtual_host() -> None:
    headers = {"name": "new", "description": "d", "tags": '[<<"a">>]', "tracing": False, **TIME}
    assert created("vhost.created", headers)[1] == {
        "name": "new",
        "description": "d",
        "tags": ("a",),
        "tracing": False,
    }


CHANNEL_CREATED = {
    "vhost": "seen",
    "user": "admin",
    "number": 1,
    "connection": OWNER,
    "name": "peer -> us (1)",
    "pid": CHANNEL,
    **TIME,
}
CONSUMER_CREATED = {
    "arguments": ['{<<"x-priority">>,byte,5}'],
    "prefetch_count": 10,
    "queue": "orders",
    "vhost": "seen",
    "channel": CHANNEL,
    "ack_required": True,
    "exclusive": False,
    "consumer_tag": "tag",
    **TIME,
}
BINDING_CREATED = {
    "vhost": "seen",
    "arguments": [],
    "routing_key": "a b/c.d*#é~",
    "destination_kind": "queue",
    "destination_name": "orders",
    "source_kind": "exchange",
    "source_name": "e1",
    **TIME,
}
WITH_ARGUMENTS = {"arguments": ['{<<"x-match">>,longstr,<<"all">>}']}


def test_a_channel_belongs_to_the_connection_in_its_name_and_ends_by_its_process() -> None:
    event, told = created("channel.created", CHANNEL_CREATED)
    assert event.process == CHANNEL
    assert told == {
        "name": "peer -> us (1)",
        "connection": "peer -> us",
        "number": 1,
        "user": "admin",
        "vhost": "seen",
    }
    name = ObjectName("channel", ("peer -> us (1)",))
    assert event_reader().read("channel.closed", {"pid": CHANNEL}, None) == Deleted(name, 0)
    assert event_reader().read("channel.closed", {"pid": OWNER}, None) == Other("channel.closed")


def test_a_consumer_is_known_by_its_channels_process() -> None:
    _, told = created("consumer.created", CONSUMER_CREATED)
    assert told == {
        "vhost": "seen",
        "queue": "orders",
        "channel": "peer -> us (1)",
        "tag": "tag",
        "queueObject": "orders",
        "channelObject": "peer -> us (1)",
        "acknowledging": True,
        "exclusive": False,
        "prefetchCount": 10,
        "arguments": {"x-priority": 5},
    }
    name = ObjectName("consumer", ("seen", "orders", "peer -> us (1)", "tag"))
    assert event_reader().read("consumer.deleted", CONSUMER_CREATED, None) == Deleted(
        name, 1795163274_583000000
    )


def test_the_end_of_a_consumer_on_a_channel_opened_unheard_is_known_by_queue_and_tag() -> None:
    reader = event_reader()
    unheard = {**CONSUMER_CREATED, "channel": "<rabbit@shop.1.2.3>", "consumer_tag": "old"}
    name = ObjectName("consumer", ("seen", "orders", "former (1)", "old"))
    assert reader.read("consumer.deleted", unheard, None) == Deleted(name, 1795163274_583000000)
    assert reader.read("consumer.created", unheard, None) == Other("consumer.created")
    assert not reader.unreadable


def test_a_binding_is_called_as_listings_call_it() -> None:
    _, told = created("binding.created", BINDING_CREATED)
    assert told == {
        "vhost": "seen",
        "source": "e1",
        "destinationType": "queue",
        "destination": "orders",
        "propertiesKey": "a+b%2Fc.d%2A%23%C3%A9%7E",
        "routingKey": "a b/c.d*#é~",
        "arguments": {},
        "sourceExchange": "e1",
        "destinationQueue": "orders",
    }
    name = ObjectName("binding", ("seen", "e1", "queue", "orders", "a+b%2Fc.d%2A%23%C3%A9%7E"))
    assert event_reader().read("binding.deleted", BINDING_CREATED, None) == Deleted(
        name, 1795163274_583000000
    )


@pytest.mark.parametrize(
    ("key", "called"), [("", "~"), ("%x+y", "%25x%2By"), ("q'(!)", "q%27%28%21%29"), ("a.b-c_d", "a.b-c_d")]
)
def test_routing_keys_are_encoded_as_rabbitmq_does(key: str, called: str) -> None:
    headers = {**BINDING_CREATED, "routing_key": key}
    assert created("binding.created", headers)[1]["propertiesKey"] == called


def test_of_a_binding_with_arguments_the_listing_tells() -> None:
    reader = event_reader()
    headers = {**BINDING_CREATED, **WITH_ARGUMENTS}
    assert reader.read("binding.created", headers, None) == Changed("binding")
    assert reader.read("binding.deleted", headers, None) == Changed("binding")
    name = ObjectName("binding", ("seen", "h1", "queue", "orders", "~yOajQw"))
    ended = reader.read("binding.deleted", {**headers, "source_name": "h1"}, None)
    assert ended == Deleted(name, 1795163274_583000000)


@pytest.mark.parametrize(
    ("event", "headers", "changed"),
    [
        ("policy.set", {"vhost": "/", "name": "p"}, Changed("policy", ObjectName("policy", ("/", "p")))),
        ("user.tags.set", {"name": "u"}, Changed("user", ObjectName("user", ("u",)))),
        (
            "user.limits.set",
            {"name": "limits", "username": "u"},
            Changed("user", ObjectName("user", ("limits",))),
        ),
        (
            "parameter.set",
            {"vhost": "/", "component": "shovel", "name": "s"},
            Changed("parameter", ObjectName("parameter", ("/", "shovel", "s"))),
        ),
        ("parameter.set", {"vhost": "/", "component": "vhost-limits", "name": "l"}, Other("parameter.set")),
    ],
)
def test_what_is_set_is_to_be_listed(event: str, headers: dict[str, Any], changed: object) -> None:
    assert event_reader().read(event, headers, None) == changed


@pytest.mark.parametrize(
    ("event", "headers", "name"),
    [
        ("policy.cleared", {"vhost": "/", "name": "p"}, ObjectName("policy", ("/", "p"))),
        ("user.deleted", {"name": "u"}, ObjectName("user", ("u",))),
        (
            "parameter.cleared",
            {"vhost": "/", "component": "shovel", "name": "s"},
            ObjectName("parameter", ("/", "shovel", "s")),
        ),
    ],
)
def test_what_is_cleared_has_ended(event: str, headers: dict[str, Any], name: ObjectName) -> None:
    assert event_reader().read(event, headers, None) == Deleted(name, 0)


def test_a_binding_may_be_that_of_a_console() -> None:
    headers = {"vhost": "m", "source_name": "qpid.management", "routing_key": "console.#", **TIME}
    assert bound(headers) == Bound("m", "qpid.management", "console.#")
    assert bound({}) is None


@pytest.mark.parametrize(
    "event",
    [
        "binding.deleted",
        "parameter.set",
        "queue.policy.updated",
        "channel.closed",
        "operator.policy.cleared",
        "",
        "x",
    ],
)
def test_what_is_nobodys_birth_or_end_is_other(event: str) -> None:
    assert event_reader().read(event, {"name": "exq", "vhost": "seen"}, None) == Other(event)


def test_events_that_lack_what_they_must_have_are_counted() -> None:
    reader = event_reader()
    assert reader.read("queue.created", {"name": "exq"}, None) == Other("queue.created")
    assert reader.read("queue.deleted", {"name": 7, "vhost": "/"}, None) == Other("queue.deleted")
    broken = {**QUEUE_CREATED, "arguments": ["{broken"]}
    assert isinstance(reader.read("queue.created", broken, None), Created)
    assert dict(reader.unreadable) == {"queue.created": 1, "queue.deleted": 1, "entry": 1}


def test_without_milliseconds_the_message_timestamp_counts() -> None:
    headers = {"name": "new"}
    second = datetime(2026, 11, 20, 8, 27, 54, tzinfo=UTC)
    event = event_reader().read("vhost.deleted", headers, second)
    assert isinstance(event, Deleted)
    assert event.time == 1795163274_000000000
    late = event_reader().read("vhost.deleted", {"name": "new", "timestamp_in_ms": -5}, None)
    assert isinstance(late, Deleted)
    assert late.time == 0


def test_what_to_bind_is_what_is_read() -> None:
    assert event_reader().routing_keys == (
        "binding.deleted",
        "channel.closed",
        "channel.created",
        "connection.closed",
        "connection.created",
        "consumer.created",
        "consumer.deleted",
        "exchange.created",
        "exchange.deleted",
        "parameter.cleared",
        "parameter.set",
        "policy.cleared",
        "policy.set",
        "queue.created",
        "queue.deleted",
        "user.created",
        "user.deleted",
        "user.limits.cleared",
        "user.limits.set",
        "user.tags.set",
        "vhost.created",
        "vhost.deleted",
        "binding.created",
    )


HEADER_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=8)
    | st.datetimes()
    | st.sampled_from(['{<<"a">>,long,1}', "{127,0,0,1}", "{0,9,1}", OWNER]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.sampled_from(event_reader().routing_keys),
    st.dictionaries(
        st.sampled_from(
            sorted({*QUEUE_CREATED, *CONNECTION_CREATED, *CONSUMER_CREATED, *BINDING_CREATED, "tags"})
        ),
        HEADER_VALUES,
    ),
)
def test_any_headers_are_an_event(event: str, headers: dict[str, Any]) -> None:
    complete = {**QUEUE_CREATED, **EXCHANGE_CREATED, **CONNECTION_CREATED, **headers}
    event_reader().read(event, complete, None)
    event_reader().read(event, headers, None)
