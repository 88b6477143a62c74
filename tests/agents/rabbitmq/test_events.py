"""Events of ``amq.rabbitmq.event``, as aio-pika delivered them from a RabbitMQ 3.10.8."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.agents.rabbitmq.events import Bound, Created, Deleted, EventReader, Other
from gateway.agents.rabbitmq.object_names import ObjectName
from gateway.agents.rabbitmq.reading import class_readers
from gateway.mapping.files import load_shipped_mappings

READERS = class_readers(load_shipped_mappings()["rabbitmq"])
OWNER = "<rabbit@shop.1795163225.1211.0>"
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


def event_reader() -> EventReader:
    return EventReader(READERS, {OWNER: "peer -> us"}.get)


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


def test_a_binding_may_be_that_of_a_console() -> None:
    headers = {"vhost": "m", "source_name": "qpid.management", "routing_key": "console.#", **TIME}
    assert event_reader().read("binding.created", headers, None) == Bound("m", "qpid.management", "console.#")
    assert event_reader().read("binding.created", {}, None) == Other("binding.created")


@pytest.mark.parametrize(
    "event",
    ["binding.deleted", "parameter.set", "queue.policy.updated", "channel.closed", "user.created", "", "x"],
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
        "connection.closed",
        "connection.created",
        "exchange.created",
        "exchange.deleted",
        "queue.created",
        "queue.deleted",
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
    st.dictionaries(st.sampled_from(sorted({*QUEUE_CREATED, *CONNECTION_CREATED, "tags"})), HEADER_VALUES),
)
def test_any_headers_are_an_event(event: str, headers: dict[str, Any]) -> None:
    complete = {**QUEUE_CREATED, **EXCHANGE_CREATED, **CONNECTION_CREATED, **headers}
    event_reader().read(event, complete, None)
    event_reader().read(event, headers, None)
