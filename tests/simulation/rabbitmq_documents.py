"""The documents of a simulated RabbitMQ: the values that are compared, and their form in listings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gateway.mapping.paths import Json

NODE = "rabbit@sim"

SHOWN: Mapping[str, frozenset[str]] = {
    "rabbitmq:node": frozenset({"name", "running", "memoryAlarm"}),
    "rabbitmq:vhost": frozenset({"name", "description", "maxConnections"}),
    "rabbitmq:queue": frozenset(
        {"vhost", "name", "durable", "autoDelete", "exclusive", "arguments", "messages", "messagesPublished"}
    ),
    "rabbitmq:exchange": frozenset({"vhost", "name", "type", "durable", "arguments", "messagesPublishedIn"}),
    "rabbitmq:connection": frozenset({"name", "providedName", "user", "vhost"}),
    "rabbitmq:channel": frozenset({"name", "number", "user", "vhost"}),
    "rabbitmq:consumer": frozenset({"vhost", "queue", "channel", "tag", "acknowledging"}),
    "rabbitmq:binding": frozenset(
        {"vhost", "source", "destinationType", "destination", "propertiesKey", "routingKey"}
    ),
    "rabbitmq:policy": frozenset({"vhost", "name", "pattern", "appliesTo", "priority", "definition"}),
    "rabbitmq:parameter": frozenset({"vhost", "component", "name", "value"}),
    "rabbitmq:user": frozenset({"name"}),
}
STATISTICS = frozenset({"messages", "messagesPublished", "messagesPublishedIn"})
MARKS = {
    "rabbitmq:node": "name",
    "rabbitmq:vhost": "description",
    "rabbitmq:queue": "arguments",
    "rabbitmq:exchange": "arguments",
    "rabbitmq:connection": "providedName",
    "rabbitmq:channel": "number",
    "rabbitmq:consumer": "tag",
    "rabbitmq:binding": "routingKey",
    "rabbitmq:policy": "definition",
    "rabbitmq:parameter": "value",
    "rabbitmq:user": "name",
}


def _channel(values: Mapping[str, object], serial: int) -> dict[str, Json]:
    name = str(values["name"])
    return {
        "name": name,
        "connection_details": {"name": name.rpartition(" (")[0]},
        "number": serial,
        "user": "app",
        "vhost": str(values["vhost"]),
        "node": NODE,
        "state": "running",
    }


def _consumer(values: Mapping[str, object], _serial: int) -> dict[str, Json]:
    return {
        "queue": {"vhost": str(values["vhost"]), "name": str(values["queue"])},
        "channel_details": {"name": str(values["channel"])},
        "consumer_tag": str(values["tag"]),
        "ack_required": bool(values["acknowledging"]),
        "exclusive": False,
        "prefetch_count": 0,
        "arguments": {},
        "active": True,
        "activity_status": "up",
    }


def _binding(values: Mapping[str, object], _serial: int) -> dict[str, Json]:
    key = str(values["routingKey"])
    return {
        "vhost": str(values["vhost"]),
        "source": str(values["source"]),
        "destination_type": "queue",
        "destination": str(values["destination"]),
        "routing_key": key,
        "properties_key": key,
        "arguments": {},
    }


def _policy(values: Mapping[str, object], serial: int) -> dict[str, Json]:
    return {
        "vhost": str(values["vhost"]),
        "name": str(values["name"]),
        "pattern": str(values["pattern"]),
        "apply-to": str(values["appliesTo"]),
        "definition": {"x-serial": serial},
    }


def _parameter(values: Mapping[str, object], serial: int) -> dict[str, Json]:
    return {
        "vhost": str(values["vhost"]),
        "component": str(values["component"]),
        "name": str(values["name"]),
        "value": {"x-serial": serial},
    }


def _user(values: Mapping[str, object], _serial: int) -> dict[str, Json]:
    return {"name": str(values["name"]), "tags": [], "limits": {}}


_LATER: Final[Mapping[str, Callable[[Mapping[str, object], int], dict[str, Json]]]] = {
    "channel": _channel,
    "consumer": _consumer,
    "binding": _binding,
    "policy": _policy,
    "parameter": _parameter,
    "user": _user,
}


def document_of(class_name: str, values: Mapping[str, object], serial: int) -> dict[str, Json]:
    """Return the constant part of the document of a thing in listings."""
    if class_name in _LATER:
        return _LATER[class_name](values, serial)
    name = str(values["name"])
    match class_name:
        case "node":
            return {"name": name, "type": "disc", "running": True}
        case "vhost":
            return {
                "name": name,
                "description": str(values["description"]),
                "cluster_state": {NODE: "running"},
                "tracing": False,
            }
        case "connection":
            return {
                "name": name,
                "user_provided_name": str(values["providedName"]),
                "user": "app",
                "vhost": str(values["vhost"]),
                "node": NODE,
                "client_properties": {},
            }
    document: dict[str, Json] = {
        "vhost": str(values["vhost"]),
        "name": name,
        "durable": bool(values["durable"]),
        "auto_delete": False,
        "arguments": {"x-serial": serial},
    }
    if class_name == "queue":
        return document | {"exclusive": bool(values["exclusive"]), "type": "classic", "node": NODE}
    return document | {"type": "direct", "internal": False}
