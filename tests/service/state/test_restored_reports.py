"""Objects as the log last reported them, in the form of a source's reports."""

from __future__ import annotations

import math

from msgspec.structs import replace

from gateway.eventlog.last_state import LastState
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.model.observations import ObjectSeen
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.values import Reference, ValueType
from gateway.service.state.restored_objects import classes_to_restore, restored_reports

NOON = 1_700_000_000_123_456_789
NOON_TEXT = "2023-11-14T22:13:20.123456789Z"
TYPES = (
    *(ValueType.BOOL, ValueType.S32, ValueType.S64, ValueType.F32, ValueType.F64, ValueType.STRING),
    *(ValueType.BYTES, ValueType.TIME, ValueType.DURATION, ValueType.REFERENCE, ValueType.MAP),
)
TANK = ClassSchema(
    ClassKey("ami", "Tank", b"\x07"),
    properties=(Element("id", ValueType.STRING, index=True),),
    statistics=tuple(Element(kind.value, kind) for kind in TYPES),
)


def logged(name: str, row: int, **values: object) -> LogRecord:
    return LogRecord(
        kind=RecordKind.SNAPSHOT,
        ingest_ts="2026-11-20T15:00:00.000000Z",
        source="plant",
        package="ami",
        class_name="Tank",
        object_id=f"plant/ami:Tank/{row}",
        object_name=name,
        row=row,
        native_id=f"pump-7|{name}",
        agent="pump-7",
        create_ts="2023-11-14T22:13:20.123456Z",
        sample_ns=NOON,
        values={"id": name, **values},
    )


def sightings(*records: LogRecord, source: str = "plant") -> list[ObjectSeen]:
    last = LastState({record.object_id or "": record for record in records}, {"plant": 1})
    return list(restored_reports(last, source, [TANK]))


def test_an_object_with_a_value_of_every_type() -> None:
    other = logged("t2", 2)
    (seen, _) = sightings(
        logged(
            "t1",
            1,
            bool=True,
            s32=-1,
            s64=2**40,
            f32=1.5,
            f64="inf",
            string="full",
            bytes="00ff",
            time=NOON_TEXT,
            duration=7,
            reference=other.object_id,
            map={"a": 1},
        ),
        other,
    )
    to_other = Reference("pump-7|t2")
    statistics = (True, -1, 2**40, 1.5, math.inf, "full", b"\x00\xff", NOON, 7, to_other, None)
    created = NOON // 1000 * 1000
    assert seen == ObjectSeen(
        TANK.key, "pump-7", "pump-7|t1", NOON, created, 0, properties=("t1",), statistics=statistics
    )


def test_what_an_element_cannot_have_is_absent() -> None:
    wrong: dict[str, object] = {
        **dict.fromkeys(("bool", "s64", "string", "bytes"), 0.5),
        **dict.fromkeys(("s32", "f32", "duration"), True),
        **dict.fromkeys(("f64", "time", "reference"), "nonsense"),
    }
    (seen,) = sightings(logged("t1", 1, **wrong))
    assert seen.statistics == (None,) * len(TYPES)
    (seen,) = sightings(logged("t1", 1, bytes="zz", time="0", reference=5))
    assert seen.statistics == (None,) * len(TYPES)


def test_a_transient_one_is_as_old_as_its_name_says() -> None:
    named = replace(logged("t1", 1), lifetime="transient", object_name=f"pump-7|#7#{NOON}")
    (seen,) = sightings(named)
    assert (seen.transient, seen.created) == (True, NOON)
    (seen,) = sightings(replace(named, object_name="pump-7|#7#12"))
    assert seen.created == NOON // 1000 * 1000
    (seen,) = sightings(replace(named, lifetime="durable"))
    assert (seen.transient, seen.created) == (False, NOON // 1000 * 1000)


def test_classes_without_objects_make_room_where_there_are_many() -> None:
    pump = ClassSchema(ClassKey("ami", "Pump"))
    last = LastState({"a": logged("t1", 1)}, {"plant": 1})
    assert classes_to_restore([TANK, pump], last, "plant", at_most=2) == (TANK, pump)
    assert classes_to_restore([TANK, pump], last, "plant", at_most=1) == (TANK,)
    assert classes_to_restore([TANK, pump], last, "field", at_most=1) == ()
    assert classes_to_restore([TANK, pump], None, "plant", at_most=1) == (TANK, pump)


def test_those_of_other_sources_and_classes_are_left_out() -> None:
    assert sightings(logged("t1", 1), source="field") == []
    last = LastState({"a": logged("t1", 1)}, {"plant": 1})
    assert list(restored_reports(last, "plant", [])) == []
