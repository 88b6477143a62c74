"""The reading of events of channels, consumers, bindings, policies, users and parameters."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.sources.rabbitmq.events import Changed, Deleted, Other
from gateway.sources.rabbitmq.object_names import ObjectName
from tests.sources.rabbitmq.received import (
    BINDING_CREATED,
    CHANNEL,
    CHANNEL_CREATED,
    CONSUMER_CREATED,
    OWNER,
    WITH_ARGUMENTS,
    created,
    event_reader,
    message,
)


def test_a_channel_belongs_to_the_connection_in_its_name_and_ends_by_its_process() -> None:
    event, reported = created("channel.created", CHANNEL_CREATED)
    assert event.process == CHANNEL
    assert reported == {
        "name": "peer -> us (1)",
        "connection": "peer -> us",
        "number": 1,
        "user": "admin",
        "vhost": "seen",
    }
    name = ObjectName("channel", ("peer -> us (1)",))
    assert event_reader().read(*message("channel.closed", {"pid": CHANNEL})) == Deleted(name, 0)
    assert event_reader().read(*message("channel.closed", {"pid": OWNER})) == Other("channel.closed")


def test_a_consumer_is_known_by_its_channels_process() -> None:
    _, reported = created("consumer.created", CONSUMER_CREATED)
    assert reported == {
        "vhost": "seen",
        "queue": "orders",
        "channel": "peer -> us (1)",
        "tag": "tag",
        "queueObject": "orders",
        "channelObject": "peer -> us (1)",
        "connectionObject": "peer -> us",
        "acknowledging": True,
        "exclusive": False,
        "prefetchCount": 10,
        "arguments": {"x-priority": 5},
    }
    name = ObjectName("consumer", ("seen", "orders", "peer -> us (1)", "tag"))
    assert event_reader().read(*message("consumer.deleted", CONSUMER_CREATED)) == Deleted(
        name, 1795163274_583000000
    )


def test_a_consumer_of_a_protocol_without_channels_is_known_by_its_connections_process() -> None:
    started = {**CONSUMER_CREATED, "channel": OWNER, "consumer_tag": "mqtt"}
    _, reported = created("consumer.created", started)
    assert (reported["channel"], reported["connectionObject"]) == ("peer -> us", "peer -> us")
    assert "channelObject" not in reported
    name = ObjectName("consumer", ("seen", "orders", "peer -> us", "mqtt"))
    assert event_reader().read(*message("consumer.deleted", started)) == Deleted(name, 1795163274_583000000)


def test_the_end_of_a_consumer_on_a_channel_opened_unheard_is_known_by_queue_and_tag() -> None:
    reader = event_reader()
    unheard = {**CONSUMER_CREATED, "channel": "<rabbit@shop.1.2.3>", "consumer_tag": "old"}
    name = ObjectName("consumer", ("seen", "orders", "former (1)", "old"))
    assert reader.read(*message("consumer.deleted", unheard)) == Deleted(name, 1795163274_583000000)
    assert reader.read(*message("consumer.created", unheard)) == Other("consumer.created")
    assert not reader.unreadable


def test_a_binding_is_called_as_listings_call_it() -> None:
    _, reported = created("binding.created", BINDING_CREATED)
    assert reported == {
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
    assert event_reader().read(*message("binding.deleted", BINDING_CREATED)) == Deleted(
        name, 1795163274_583000000
    )


@pytest.mark.parametrize(
    ("key", "called"), [("", "~"), ("%x+y", "%25x%2By"), ("q'(!)", "q%27%28%21%29"), ("a.b-c_d", "a.b-c_d")]
)
def test_routing_keys_are_encoded_as_rabbitmq_does(key: str, called: str) -> None:
    headers = {**BINDING_CREATED, "routing_key": key}
    assert created("binding.created", headers)[1]["propertiesKey"] == called


def test_of_a_binding_with_arguments_the_listing_reports() -> None:
    reader = event_reader()
    headers = {**BINDING_CREATED, **WITH_ARGUMENTS}
    assert reader.read(*message("binding.created", headers)) == Changed("binding")
    assert reader.read(*message("binding.deleted", headers)) == Changed("binding")
    name = ObjectName("binding", ("seen", "h1", "queue", "orders", "~yOajQw"))
    ended = reader.read(*message("binding.deleted", {**headers, "source_name": "h1"}))
    assert ended == Deleted(name, 1795163274_583000000)


@pytest.mark.parametrize(
    ("event", "headers", "changed"),
    [
        ("policy.set", {"vhost": "/", "name": "p"}, Changed("policy", ObjectName("policy", ("/", "p")))),
        ("user.tags.set", {"name": "u"}, Changed("user", ObjectName("user", ("u",)))),
        (
            "user.limits.set",
            {"name": "limits", "username": "u"},
            Changed("user", ObjectName("user", ("u",))),
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
    assert event_reader().read(*message(event, headers)) == changed


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
    assert event_reader().read(*message(event, headers)) == Deleted(name, 0)
