"""An operator's own mapping beside a shipped one that takes additions."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.mapping.errors import MappingError
from gateway.mapping.files import class_schemas, event_schemas, with_additions
from gateway.mapping.rules import Mapping
from gateway.model.observations import Severity
from gateway.yaml_documents import parse_document
from tests.components.shipped_mappings import shipped_mappings

SHIPPED = shipped_mappings()["ami-relay"]
HEAD = "version: 1\npackage: ami-relay\nmodule: PLANT-MIB\nprefix: plant\n"


def added(text: str) -> Mapping:
    """Return the shipped mapping with these additions."""
    return with_additions(SHIPPED, parse_document(HEAD + text, Mapping, Path("plant.yaml")))


def test_nothing_is_added_by_nothing() -> None:
    assert added("") == SHIPPED


def test_alarms_and_methods_stand_beside_what_is_shipped() -> None:
    mapping = added(
        """\
classes:
  application:
    label: Programme
    alarms:
      gone: {element: connected, equals: false, severity: major, text: "{name} is not connected"}
    methods:
      drain: {description: Empties it., arguments: {why: {type: string}}}
    properties: {application: {index: true}, connected: {label: Is there}}
    statistics: {missing: {description: Lost., kind: counter}}
"""
    )
    application, shipped = mapping.classes["application"], SHIPPED.classes["application"]
    assert application.label == "Programme"
    assert application.alarms["gone"].severity is Severity.MAJOR
    assert not application.methods["drain"].dangerous
    assert application.properties["connected"].label == "Is there"
    assert application.statistics["missing"].description == "Lost."
    assert application.properties["since"] == shipped.properties["since"]
    assert mapping.module == SHIPPED.module
    (schema,) = class_schemas(mapping).values()
    (published,) = class_schemas(SHIPPED).values()
    assert [(e.name, e.type, e.kind, e.unit) for e in schema.elements] == [
        (e.name, e.type, e.kind, e.unit) for e in published.elements
    ]


def test_events_get_severities_and_texts() -> None:
    mapping = added(
        """\
events:
  alert:
    severity: major
    text: "{application}: {type}"
    arguments: {application: {}, type: {label: Kind}}
"""
    )
    alert, shipped = mapping.events["alert"], SHIPPED.events["alert"]
    assert (alert.severity, alert.text, alert.subject) == (
        Severity.MAJOR,
        "{application}: {type}",
        "application",
    )
    assert alert.arguments["type"].label == "Kind"
    assert list(alert.arguments) == list(shipped.arguments)
    assert [argument.type for argument in event_schemas(mapping)["alert"].arguments] == [
        argument.type for argument in event_schemas(SHIPPED)["alert"].arguments
    ]


def test_what_is_not_shipped_is_the_operators_own() -> None:
    mapping = added(
        """\
secrets: [pin]
classes:
  metrics:
    properties: {application: {index: true}}
    statistics: {orders: {kind: counter, unit: orders}}
events:
  lunch: {severity: info}
"""
    )
    assert list(mapping.classes) == ["application", "metrics"]
    assert mapping.classes["metrics"].statistics["orders"].unit == "orders"
    assert "lunch" in mapping.events
    assert mapping.secrets == ("pin",)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("classes: {application: {name: since, properties: {since: {}}}}", r"classes\.application\.name: "),
        ("classes: {application: {properties: {mood: {}}}}", r"classes\.application\.properties\.mood: "),
        (
            "classes: {application: {statistics: {missing: {kind: gauge}}}}",
            r"classes\.application\.statistics\.missing\.kind: .* 'counter' here",
        ),
        (
            "classes: {application: {statistics: {connected: {}}}}",
            r"classes\.application\.statistics\.connected: there is no such thing",
        ),
        ("events: {alert: {arguments: {mood: {}}}}", r"events\.alert\.arguments\.mood: "),
        ("events: {alert: {subject: alert, arguments: {alert: {}}}}", r"events\.alert\.subject: "),
    ],
)
def test_what_is_published_stays(text: str, place: str) -> None:
    with pytest.raises(MappingError, match=place):
        added(text)
