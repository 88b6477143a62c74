"""What templates are made of has the numbers, types and labels of the MIB modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from gateway.mapping.files import class_schemas
from gateway.mapping.rules import AlarmRule
from gateway.model.observations import Severity
from gateway.model.schema import ClassKey
from gateway.snmp.oid_registry import DEFAULT_ROOT
from gateway.snmp.templates.monitored import Monitored, MonitoredTable, Reading, gateway_tables, tables_of
from tests.components.shipped_mappings import shipped_mappings
from tests.snmp.mib.test_shipped import REGISTRIES, compiled, oid_of

TEXT = {"DisplayString", "AgFloat64"}


MAPPINGS = shipped_mappings()


def alarms(key: ClassKey) -> Iterable[AlarmRule]:
    return MAPPINGS[key.package].classes[key.name].alarms.values()


def tables() -> Iterator[MonitoredTable]:
    yield from gateway_tables(DEFAULT_ROOT)
    for package, registry in REGISTRIES.items():
        yield from tables_of(registry, class_schemas(MAPPINGS[package]).values(), DEFAULT_ROOT, alarms)


TABLES = {table.key: table for table in tables()}


def reading(node: dict[str, Any]) -> Reading:
    """Return how a value is to be read, by its type in the module."""
    type_ = node["syntax"]["type"]
    if type_ in TEXT:
        return Reading.TEXT
    return Reading.COUNTER if type_ == "Counter64" else Reading.GAUGE


@pytest.mark.parametrize("key", TABLES)
def test_numbers_types_and_labels_are_those_of_the_module(key: str) -> None:
    table = TABLES[key]
    document = compiled(table.module)
    for value in table.values:
        node = document[value.name]
        assert oid_of(document, value.name) == tuple(map(int, value.oid))
        assert reading(node) is value.reading, value.name
        labels = node["syntax"].get("constraints", {}).get("enumeration")
        if labels:
            assert dict(value.labels) == {number: label for label, number in labels.items()}
    for label in table.labels:
        module = "AMQP-GATEWAY-MIB" if label.column.startswith("ag") else table.module
        assert oid_of(compiled(module), label.column) == tuple(map(int, label.oid))


def test_all_classes_with_numbers_are_there_by_their_own_columns() -> None:
    queue = TABLES["rabbitmq:queue"]
    values = {value.element: value for value in queue.values}
    assert (values["messages"].name, values["messages"].reading) == ("rmqQueueMessages", Reading.GAUGE)
    assert values["messagesPublished"].reading is Reading.COUNTER
    assert values["messageOctets"].unit == "octets"
    assert not [value.name for value in queue.values if value.name.endswith(("Gauge32", "Kibibytes"))]
    assert {"gateway:health", "org.apache.qpid.broker:queue", "ami-relay:application"} <= TABLES.keys()


def test_a_selection_keeps_what_is_of_no_element() -> None:
    kept: tuple[Monitored, ...] = TABLES["rabbitmq:queue"].selected({"messages"}.__contains__).values
    assert [value.name for value in kept] == ["rmqQueueRowState", "rmqQueueMessages"]


def test_numbers_that_raise_alarms_have_their_severity() -> None:
    node = {value.element: value for value in TABLES["rabbitmq:node"].values}
    queue = {value.element: value for value in TABLES["rabbitmq:queue"].values}
    health = {value.name: value for value in TABLES["gateway:health"].values}
    assert severities(node["memoryAlarm"]) == {"true": Severity.CRITICAL}
    assert severities(node["running"]) == {"false": Severity.CRITICAL}
    assert severities(queue["state"]) == {
        "down": Severity.MAJOR,
        "minority": Severity.CRITICAL,
        "crashed": Severity.CRITICAL,
        "stopped": Severity.MAJOR,
    }
    assert severities(queue["durable"]) == {}
    assert severities(health["agFeedConnected"]) == {"false": Severity.CRITICAL}


def severities(value: Monitored) -> dict[str, Severity]:
    labels = dict(value.labels)
    return {labels[number]: severity for number, severity in value.alarms}
