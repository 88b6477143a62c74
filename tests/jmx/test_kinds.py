"""The kinds of numbers: only what is measured is a gauge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.inventory.classes import ClassRegistry
from gateway.jmx.classes import shown_class
from gateway.jmx.own_beans import SOURCE_ATTRIBUTES
from gateway.mapping.files import class_schemas
from gateway.model.schema import ClassKey, ClassSchema, Element, Kind
from gateway.model.values import ValueType
from tests.components.shipped_mappings import shipped_mappings

MAPPINGS = shipped_mappings()
REGISTRY = ClassRegistry(MAPPINGS)
SCHEMAS = {
    str(schema.key): schema for mapping in MAPPINGS.values() for schema in class_schemas(mapping).values()
}


def kind(schema: ClassSchema, element: str) -> str:
    """``metricType`` of an element's attribute; empty for none."""
    shown = shown_class(REGISTRY.class_record(schema), lambda _class, _element: "")
    (attribute,) = (attribute for attribute in shown.attributes if attribute.name == element)
    fields = attribute.descriptor or {}
    assert ("kind" in fields) == ("metricType" in fields)
    return fields.get("metricType", "")


@pytest.mark.parametrize(
    ("class_name", "element", "expected"),
    [
        ("rabbitmq:connection", "port", ""),
        ("rabbitmq:connection", "frameMax", ""),
        ("rabbitmq:policy", "priority", ""),
        ("rabbitmq:vhost", "maxQueues", ""),
        ("rabbitmq:channel", "number", ""),
        ("rabbitmq:node", "memoryLimit", ""),
        ("rabbitmq:queue", "raftTerm", ""),
        ("rabbitmq:session", "nextOutgoingId", ""),
        ("rabbitmq:streamConsumer", "offset", ""),
        ("rabbitmq:streamConsumer", "offsetLag", "gauge"),
        ("rabbitmq:queue", "messages", "gauge"),
        ("rabbitmq:queue", "messagesPublished", "counter"),
        ("org.apache.qpid.broker:queue", "msgDepth", "gauge"),
        ("org.apache.qpid.broker:broker", "port", ""),
        ("org.apache.qpid.broker:memory", "malloc_uordblks", "gauge"),
        ("org.apache.qpid.broker:managementSetupState", "bootSequence", ""),
    ],
)
def test_ports_identifiers_limits_and_settings_are_no_gauges(
    class_name: str, element: str, expected: str
) -> None:
    assert kind(SCHEMAS[class_name], element) == expected


def test_a_class_that_no_mapping_knows_has_gauges_among_its_statistics_only() -> None:
    number, text = Element("port", ValueType.U16), Element("host", ValueType.STRING)
    schema = ClassSchema(
        ClassKey("p", "c"),
        (number, text, replace(number, name="high", kind=Kind.HIGH)),
        (replace(number, name="open"),),
    )
    assert [kind(schema, name) for name in ("port", "host", "high", "open")] == ["", "", "gauge", "gauge"]


def test_the_number_of_a_source_is_no_gauge() -> None:
    (number,) = (attribute for attribute in SOURCE_ATTRIBUTES if attribute.name == "Number")
    assert "metricType" not in (number.descriptor or {})
