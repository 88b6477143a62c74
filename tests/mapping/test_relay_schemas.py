"""The shipped mapping of a relay of AMI has exactly the application schemas of its session."""

from __future__ import annotations

import pytest

from gateway.dialects.ami.relay_schemas import APPLICATION, APPLICATION_CLASS, Events
from gateway.mapping.files import applied, applied_event, class_schemas, event_schemas
from gateway.model.schema import ClassKey, ClassSchema, EventSchema
from tests.components.shipped_mappings import shipped_mappings

PACKAGE = "ami-relay"
SHIPPED = shipped_mappings()[PACKAGE]
EVENTS = Events(PACKAGE).schemas


def test_the_class_of_applications_is_the_sessions() -> None:
    reported = ClassSchema(
        ClassKey(PACKAGE, APPLICATION_CLASS), APPLICATION.properties, APPLICATION.statistics
    )
    (shipped,) = class_schemas(SHIPPED).values()
    assert applied(SHIPPED, reported) == shipped
    assert [(e.type, e.index, e.optional, e.unit) for e in reported.elements] == [
        (e.type, e.index, e.optional, e.unit) for e in shipped.elements
    ]


def test_there_is_no_event_but_the_sessions() -> None:
    assert list(event_schemas(SHIPPED)) == [event.key.name for event in EVENTS]


@pytest.mark.parametrize("reported", EVENTS, ids=lambda event: event.key.name)
def test_events_are_the_sessions(reported: EventSchema) -> None:
    shipped = event_schemas(SHIPPED)[reported.key.name]
    assert applied_event(SHIPPED, reported) == shipped
    assert [(a.name, a.type, a.optional, a.unit) for a in reported.arguments] == [
        (a.name, a.type, a.optional, a.unit) for a in shipped.arguments
    ]
