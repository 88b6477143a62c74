"""Zero, false and empty are values: they are shown as such, and what is absent never is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from gateway.eventlog.last_state import LastEvents, LastState
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.feed.values import text_of, value_from_text
from gateway.inventory.classes import ClassRegistry
from gateway.jmx.types import converter
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.observations import EventSeen, ObjectSeen, Severity, SourceState, SourceStateSeen
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema
from gateway.model.values import Reference, Value, ValueType
from gateway.service.state.restored_objects import restored_reports
from gateway.service.state.restored_records import restored_events
from gateway.snmp.cells import value_encoder
from gateway.snmp.syntax import form_of
from gateway.terminal.documents import json_form
from tests.inventory.playbook import NOW, Playbook

ZERO: Mapping[ValueType, Value] = {
    **{each: 0 for each in ValueType if each.integer_bits},
    ValueType.BOOL: False,
    ValueType.F32: 0.0,
    ValueType.F64: 0.0,
    ValueType.STRING: "",
    ValueType.BYTES: b"",
    ValueType.UUID: UUID(int=0),
    ValueType.TIME: 0,
    ValueType.DURATION: 0,
    ValueType.MAP: {},
    ValueType.LIST: (),
}
"""The zero of each type; a reference has none."""
NOT_RESTORED = (ValueType.MAP, ValueType.LIST)
"""The last of these types: the log does not show what is in them exactly, and no source restores them."""
NOUGHT = ClassSchema(
    ClassKey("nought", "thing"),
    (
        Element("name", ValueType.STRING, index=True),
        *(Element(f"p-{each.value}", each, optional=True) for each in ZERO),
    ),
    tuple(Element(f"s-{each.value}", each) for each in ZERO),
)
HAPPENED = EventSchema(
    ClassKey("nought", "happened"),
    tuple(Argument(each.value, each, optional=True) for each in ZERO),
)
MAPPING = MappingFile.model_validate(
    {"version": 1, "package": "nought", "module": "NOUGHT-MIB", "prefix": "nought"}
)


def report(name: str, values: tuple[Value | None, ...]) -> ObjectSeen:
    return ObjectSeen(NOUGHT.key, "a", name, NOW, 0, 0, (name, *values), values)


def recorded(folder: Path, values: tuple[Value | None, ...]) -> list[LogRecord]:
    """Return the lines of the log, read again, of an object and an event with these values."""
    folder.mkdir()
    play = Playbook(folder, mapping=MAPPING, schemas=(NOUGHT, HAPPENED), kind="ami")
    play.synchronise(report("one", values))
    play.publish(SourceStateSeen(SourceState.SYNCHRONISED))
    play.publish(EventSeen(HAPPENED.key, "a", NOW, Severity.INFO, values))
    recorder = LogRecorder(RecorderSettings())
    out = [record for batch in play.batches for record in recorder.apply(batch, NOW)]
    lines = [msgspec.json.encode(record) for record in out]
    return [msgspec.json.decode(line, type=LogRecord) for line in lines]


def test_the_log_has_zeros_of_objects_and_restores_them(tmp_path: Path) -> None:
    for values, names in ((tuple(ZERO.values()), len(NOUGHT.elements)), ((None,) * len(ZERO), 1)):
        records = recorded(tmp_path / str(names), values)
        (line,) = [one for one in records if one.class_name == "thing" and one.object_id is not None]
        assert len(line.values or {}) == names
        assert None not in (line.values or {}).values()
        last = LastState({line.object_id or "": line})
        (restored,) = restored_reports(last, line.source or "", [NOUGHT])
        kept = (*values[: -len(NOT_RESTORED)], *[None] * len(NOT_RESTORED))
        assert (restored.properties, restored.statistics) == (("one", *kept), kept)


def test_the_log_has_zeros_of_events_and_restores_them(tmp_path: Path) -> None:
    for values in (tuple(ZERO.values()), (None,) * len(ZERO)):
        zeros = {position: value for position, value in enumerate(values) if value is not None}
        records = recorded(tmp_path / str(len(zeros)), values)
        (line,) = [one for one in records if one.event == "happened" and one.kind is RecordKind.EVENT]
        assert len(line.values or {}) == len(zeros)
        assert "?" not in (line.text or "")
        schema = [one for one in records if one.event == "happened" and one.kind is RecordKind.SCHEMA]
        last = LastEvents({"nought:happened": schema[0]}, events=[line])
        gateway = (line.event_id or "").partition(".")[0]
        registry = ClassRegistry({"nought": MAPPING})
        (restored,) = restored_events(last, gateway, registry, {line.source or "": 1}, {})
        assert restored.values == zeros


@pytest.mark.parametrize("value_type", ZERO)
def test_front_ends_show_zeros(value_type: ValueType) -> None:
    zero, element = ZERO[value_type], Element("it", value_type)
    assert value_from_text(text_of(zero, value_type), value_type) == zero
    assert json_form(element, zero, "shop") is not None
    assert value_encoder(form_of(element))(zero) is not None
    assert converter(element)(zero) is not None


def test_a_reference_to_nothing_is_absent(tmp_path: Path) -> None:
    schema = ClassSchema(ClassKey("nought", "thing"), (Element("to", ValueType.REFERENCE, index=True),))
    play = Playbook(tmp_path, mapping=MAPPING, schemas=(schema,), kind="ami")
    play.synchronise(ObjectSeen(schema.key, "a", "one", NOW, 0, 0, (Reference("gone"),)))
    (known,) = play.objects().values()
    assert known.values == {}
