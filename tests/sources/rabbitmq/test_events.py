"""What events of the broker are read as."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sources.rabbitmq.events import Bound, Created, Deleted, Other, bound
from gateway.sources.rabbitmq.object_names import ObjectName
from tests.sources.rabbitmq.heard import (
    BINDING_CREATED,
    CONNECTION_CREATED,
    CONSUMER_CREATED,
    EXCHANGE_CREATED,
    OWNER,
    QUEUE_CREATED,
    QUORUM_CREATED,
    STREAM_CREATED,
    TIME,
    created,
    event_reader,
)


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
    assert bound(headers) == Bound("m", "qpid.management", "console.#")
    assert bound({}) is None


@pytest.mark.parametrize(
    "event",
    [
        "binding.deleted",
        "parameter.set",
        "queue.policy.updated",
        "channel.closed",
        "vhost.limits.set",
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
        "operator.policy.cleared",
        "parameter.cleared",
        "parameter.set",
        "permission.created",
        "permission.deleted",
        "policy.cleared",
        "policy.set",
        "queue.created",
        "queue.deleted",
        "topic.permission.created",
        "topic.permission.deleted",
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
