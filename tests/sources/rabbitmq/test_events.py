"""The reading of the broker's events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sources.rabbitmq.events import Bound, Created, Deleted, EventKinds, Other, bound
from gateway.sources.rabbitmq.object_names import ObjectName
from tests.sources.rabbitmq.documents import any_json
from tests.sources.rabbitmq.imitation import Reported, World
from tests.sources.rabbitmq.received import (
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
    message,
)
from tests.sources.rabbitmq.story import world


def test_an_exclusive_queue_reports_its_owner() -> None:
    event, reported = created("queue.created", QUEUE_CREATED)
    assert event.time == 1795163274_583000000
    assert reported == {
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


def test_other_kinds_of_queue_report_their_type() -> None:
    assert created("queue.created", QUORUM_CREATED)[1]["type"] == "quorum"
    stream = created("queue.created", STREAM_CREATED)[1]
    assert (stream["type"], stream["exclusive"]) == ("stream", False)
    unheard_of = created("queue.created", {**QUORUM_CREATED, "type": "rabbit_heap_queue"})[1]
    assert "type" not in unheard_of


def test_an_exchange() -> None:
    _, reported = created("exchange.created", EXCHANGE_CREATED)
    assert reported == {
        "vhost": "seen",
        "name": "xx",
        "type": "topic",
        "durable": True,
        "autoDelete": False,
        "internal": False,
        "arguments": {"alternate-exchange": "amq.fanout"},
        "createdBy": "app",
    }


def test_a_connection_reports_the_same_as_the_management_api_without_secrets() -> None:
    event, reported = created("connection.created", CONNECTION_CREATED)
    assert event.process == OWNER
    assert reported == {
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
def test_ends_are_reported_by_name(event: str, headers: dict[str, Any], name: ObjectName) -> None:
    assert event_reader().read(*message(event, headers)) == Deleted(name, 1795163274_583000000)


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
def test_what_is_no_birth_and_no_end_is_other(event: str) -> None:
    assert event_reader().read(*message(event, {"name": "exq", "vhost": "seen"})) == Other(event)


def test_events_that_lack_what_they_must_have_are_counted() -> None:
    reader = event_reader()
    assert reader.read(*message("queue.created", {"name": "exq"})) == Other("queue.created")
    assert reader.read(*message("queue.deleted", {"name": 7, "vhost": "/"})) == Other("queue.deleted")
    broken = {**QUEUE_CREATED, "arguments": ["{broken"]}
    assert isinstance(reader.read(*message("queue.created", broken)), Created)
    assert dict(reader.unreadable) == {"queue.created": 1, "queue.deleted": 1, "entry": 1}


def test_without_milliseconds_the_message_timestamp_counts() -> None:
    headers = {"name": "new"}
    second = datetime(2026, 11, 20, 8, 27, 54, tzinfo=UTC)
    event = event_reader().read(*message("vhost.deleted", headers, second))
    assert isinstance(event, Deleted)
    assert event.time == 1795163274_000000000
    late = event_reader().read(*message("vhost.deleted", {"name": "new", "timestamp_in_ms": -5}))
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
    event_reader().read(*message(event, complete))
    event_reader().read(*message(event, headers))


POLICY: dict[str, Any] = {
    "pattern": "^q",
    "priority": 1,
    "definition": {"max-length": 9},
    "apply-to": "queues",
}
SHOVEL = {"vhost": "/", "name": "mover"}
LINK = {"vhost": "/", "upstream": "up", "exchange": "till", "type": "exchange", "id": "2853bbf2"}


def raised(shop: World) -> list[str]:
    return [event.name for event in shop.events()]


def one_raised(shop: World, event: str, **headers: object) -> Reported:
    """Return the single management event that a broker's event leads to."""
    before = len(shop.events())
    shop.event(event, **headers)
    shop.run(2)
    (only,) = shop.events()[before:]
    return only


def shop_that_publishes() -> World:
    shop = world()
    shop.run(2)
    return shop


def test_setting_an_operator_policy_is_distinguished_from_setting_a_policy() -> None:
    shop = shop_that_publishes()
    shop.event("policy.set", vhost="/", name="limit", **POLICY)
    shop.event("parameter.set", component="operator_policy", vhost="/", name="limit", value=POLICY)
    shop.event("queue.policy.updated", vhost="/", name="orders", type="rabbit_classic_queue", **POLICY)
    shop.event("policy.set", vhost="/", name="limit", **POLICY)
    shop.event("policy.set", vhost="/", name="limit", **POLICY)
    shop.run(2)
    assert raised(shop) == ["policySet", "queuePolicyUpdated", "operatorPolicySet", "policySet"]


def test_the_last_limit_of_a_virtual_host_is_cleared_by_setting_nothing() -> None:
    shop = shop_that_publishes()
    limits = {"component": "vhost-limits", "vhost": "/", "name": "limits"}
    reported = one_raised(shop, "parameter.set", **limits, value={"max-queues": 5})
    assert (reported.name, reported.arguments["limits"]) == ("vhostLimitsSet", {"max-queues": 5})
    assert one_raised(shop, "parameter.set", **limits, value=[]).name == "vhostLimitsCleared"
    assert one_raised(shop, "parameter.set", **limits).name == "vhostLimitsCleared"
    assert one_raised(shop, "parameter.cleared", **limits).name == "vhostLimitsCleared"


def test_a_global_parameter_is_cleared_by_setting_no_value_too() -> None:
    shop = shop_that_publishes()
    headers = {"component": "global", "name": "flag"}
    assert one_raised(shop, "parameter.set", **headers, value=0).name == "parameterSet"
    assert one_raised(shop, "parameter.set", **headers).name == "parameterCleared"


def test_parameters_are_reported_without_their_values() -> None:
    shop = shop_that_publishes()
    value = {"src-uri": "amqp://user:secret@here", "src-queue": "a"}
    reported = one_raised(shop, "parameter.set", component="shovel", vhost="/", name="mover", value=value)
    assert (reported.name, reported.arguments["component"]) == ("parameterSet", "shovel")
    assert "secret" not in str(reported.arguments)
    shop.event("parameter.set", component="exchange-delete-in-progress", vhost="/", name="x", value=True)
    shop.run(2)
    assert raised(shop) == ["parameterSet"]


def test_limits_and_topic_permissions_of_users() -> None:
    shop = shop_that_publishes()
    reported = one_raised(shop, "user.limits.set", username="app", name="limits", **{"max-connections": 5})
    assert (reported.name, reported.arguments["user"], reported.arguments["maxConnections"]) == (
        "userLimitsSet",
        "app",
        5,
    )
    reported = one_raised(shop, "user.limits.cleared", username="app", name="limits")
    assert (reported.name, reported.arguments["user"]) == ("userLimitsCleared", "app")
    headers = {"vhost": "/", "user": "app", "exchange": "amq.topic", "write": "w", "read": ""}
    reported = one_raised(shop, "topic.permission.created", **headers)
    assert (reported.name, reported.arguments["exchange"], reported.arguments["write"]) == (
        *("topicPermissionSet", "amq.topic", "w"),
    )
    assert (
        one_raised(shop, "topic.permission.deleted", vhost="/", user="app").name == "topicPermissionCleared"
    )


def test_a_shovel_that_fails_again_and_again_is_reported_once() -> None:
    shop = shop_that_publishes()
    for _ in range(3):
        shop.event("shovel.worker.status", **SHOVEL, status="starting")
        shop.event("shovel.worker.status", **SHOVEL, status="terminated", reason=[98, 97, 100])
    shop.run(2)
    assert raised(shop) == ["shovelTerminated"]
    assert shop.events()[0].arguments["reason"] == "bad"
    shop.event("shovel.worker.status", **SHOVEL, status="running", src_uri="amqp://a", dest_uri="amqp://b")
    for _ in range(2):
        shop.event("shovel.worker.removed", **SHOVEL)
    shop.run(2)
    assert raised(shop) == ["shovelTerminated", "shovelRunning", "shovelRemoved"]


def test_a_shovel_ends_after_the_parameter_that_made_it() -> None:
    shop = shop_that_publishes()
    shop.event("parameter.set", component="shovel", **SHOVEL, value={})
    shop.run(2)
    shop.event("parameter.cleared", component="shovel", **SHOVEL)
    shop.event("shovel.worker.removed", **SHOVEL)
    shop.run(2)
    assert raised(shop) == ["parameterSet", "parameterCleared", "shovelRemoved"]


def test_a_federation_link_says_why_it_fails_without_what_it_quotes() -> None:
    shop = shop_that_publishes()
    error = '{auth_failure,"ACCESS_REFUSED - user:secret"}'
    reported = one_raised(shop, "federation.link.status", **LINK, status="error", error=error)
    assert (reported.name, reported.arguments["reason"]) == ("federationLinkFailed", "auth_failure")
    reported = one_raised(shop, "federation.link.status", **LINK, status="running", uri="amqp://there")
    assert (reported.name, reported.arguments["exchange"]) == ("federationLinkRunning", "till")
    assert one_raised(shop, "federation.link.removed", **LINK).name == "federationLinkRemoved"


def test_a_failed_login_over_mqtt_has_its_peer_in_the_connections_name_only() -> None:
    shop = shop_that_publishes()
    failure = {"name": "9.9.9.9:9 -> x", "connection_name": "10.0.0.7:35695 -> 10.0.0.1:1883"}
    reported = one_raised(shop, "user.authentication.failure", **failure)
    assert (reported.arguments["peerHost"], reported.arguments["peerPort"]) == ("10.0.0.7", 35695)
    # Where there is none, as on 3.10, what the client calls itself is not taken for its address.
    reported = one_raised(shop, "user.authentication.failure", name="9.9.9.9:9 -> x")
    assert reported.arguments["peerHost"] == ""


@pytest.mark.parametrize(
    "event", ["parameter.set", "policy.set", "shovel.worker.status", "federation.link.status"]
)
@given(
    headers=st.dictionaries(st.sampled_from(["component", "vhost", "name", "value", "status"]), any_json())
)
def test_any_headers_have_a_kind(event: str, headers: dict[str, Any]) -> None:
    kinds = EventKinds()
    assert kinds.kind(event, headers) in {event, "parameter.cleared", "operator.policy.set"}
    kinds.repeats(event, headers)
