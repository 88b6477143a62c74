"""The shipped classes of RabbitMQ in JMX: published names and types, which do not change."""

from __future__ import annotations

import pytest

from gateway.feed.records import ClassRecord, EventClassRecord
from gateway.jmx.classes import ShownClass, shown_class
from gateway.jmx.commands import Attribute, AttributeType
from gateway.jmx.notifications import ShownEvent
from gateway.mapping.files import class_schemas, event_schemas
from tests.components.shipped_mappings import shipped_mappings

MAPPING = shipped_mappings()["rabbitmq"]
SCHEMAS = class_schemas(MAPPING)


def shown(name: str) -> ShownClass:
    rule = MAPPING.classes[name]
    record = ClassRecord(1, SCHEMAS[name], rule.name or "", rule.parent or "")
    return shown_class(record, lambda _class_name, _element: "")


def attribute(class_name: str, name: str) -> Attribute:
    return next(a for a in shown(class_name).attributes if a.name == name)


def test_what_a_virtual_host_or_node_holds_by_name_is_named_below_it_and_nothing_else_is() -> None:
    of_virtual_hosts = {
        *("queue", "exchange", "policy", "parameter", "operatorPolicy", "permission", "topicPermission"),
        "federationLink",
    }
    assert {name for name in SCHEMAS if shown(name).has_parent} == of_virtual_hosts | {"protocol"}


@pytest.mark.parametrize(
    ("class_name", "name", "type_", "notifies"),
    [
        ("queue", "name_", AttributeType.STRING, False),
        ("queue", "durable", AttributeType.BOOLEAN, False),
        ("queue", "arguments", AttributeType.MAP, False),
        ("queue", "vhost", AttributeType.OBJECT_NAME, False),
        ("queue", "state", AttributeType.STRING, True),
        ("queue", "policy", AttributeType.STRING, True),
        ("queue", "messagesReady", AttributeType.LONG, False),
        ("queue", "messagesPublished", AttributeType.LONG, False),
        ("node", "running", AttributeType.BOOLEAN, True),
        ("node", "memoryAlarm", AttributeType.BOOLEAN, True),
        ("node", "memoryLimit", AttributeType.BIG_INTEGER, True),
        ("node", "partitions", AttributeType.LIST, True),
        ("node", "uptime", AttributeType.LONG, False),
        ("connection", "connectedAt", AttributeType.DATE, False),
        ("connection", "receivedOctets", AttributeType.LONG, False),
    ],
)
def test_attributes(class_name: str, name: str, type_: AttributeType, notifies: bool) -> None:  # noqa: FBT001  expected
    found = attribute(class_name, name)
    assert (found.type, found.notifies) == (type_, notifies)


def test_every_element_is_shown_under_its_own_name() -> None:
    for name, schema in SCHEMAS.items():
        names = {a.name for a in shown(name).attributes}
        # But for those that are called as one of the gateway's own, such as `Name`.
        assert {element.name for element in schema.elements} - {"name", "source"} <= names


def test_objects_emit_the_events_that_refer_to_them() -> None:
    events = list(event_schemas(MAPPING).values())
    for schema in events:
        ShownEvent(EventClassRecord(1, schema))
    reported = {n.type.rpartition(".")[2] for n in shown("connection").define(3, events).notifications}
    assert {"connectionOpened", "connectionClosed"} <= reported
