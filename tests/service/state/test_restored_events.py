"""Events of a core before, as the next one reads them from the log."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from gateway.eventlog.last_state import EVENTS, MAX_CORES, LastEvents, events_value, last_events
from gateway.eventlog.logged_events import LoggedEvent, event_record, start_record
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.retention import Why
from gateway.eventlog.segment import LogIdentity, identity_path
from gateway.feed.records import EventClassRecord, EventRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.inventory.classes import ClassRegistry
from gateway.model.observations import EventState, Severity
from gateway.model.schema import Argument, ClassKey, EventSchema
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from gateway.service.state.restored_records import restored_events
from tests.eventlog.feeds import AGENT, FULL, SHOP, T0, Shop, event
from tests.eventlog.records import LOG_ID, block, write_segment

NAMES = {"shop/shop:queue/1": "/|q1"}
T0_TEXT = "2026-11-20T15:00:00.000000Z"


def back(
    last: LastEvents, gateway: str = "gw", sources: dict[str, int] | None = None
) -> tuple[list[EventRecord], ClassRegistry]:
    classes = ClassRegistry({})
    known = {"shop": 4} if sources is None else sources
    return list(restored_events(last, gateway, classes, known, NAMES)), classes


def logged(record: EventRecord, schema: EventClassRecord = FULL) -> LastEvents:
    line = event_record(record, LoggedEvent(schema), SHOP if record.source else None, T0_TEXT)
    name = str(schema.schema.key)
    return LastEvents({name: LoggedEvent(schema).schema_record(T0_TEXT)}, [line])


def test_an_event_comes_back_as_it_was_with_the_boot_of_its_core() -> None:
    reported = event()
    (found,), classes = back(logged(reported))
    (schema,) = [r for r in classes.records() if str(getattr(r, "schema").key) == "shop:full"]  # noqa: B009
    assert found == msgspec.structs.replace(
        reported, source=4, class_number=schema.number, boot=1, received=found.received
    )


def test_an_event_of_the_gateway_itself_comes_back() -> None:
    registry = ClassRegistry({})
    own = next(
        r for r in registry.records() if isinstance(r, EventClassRecord) and r.schema.key.name == "logWritten"
    )
    reported = event(
        event_id="gw.3.9",
        source=0,
        agent="",
        values={0: 5},
        subject=None,
        state=EventState.CLEARED,
        severity=Severity.CLEARED,
    )
    (found,), _ = back(dataclasses.replace(logged(reported, own), schemas={}))
    assert (found.source, found.boot, found.number, found.subject) == (0, 3, 9, None)
    assert (found.values, found.state, found.severity) == ({0: 5}, EventState.CLEARED, Severity.CLEARED)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ValueType.BYTES, b"\x00\xff"),
        (ValueType.UUID, UUID(int=7)),
        (ValueType.TIME, T0 + 123_456_789),
        (ValueType.F64, float("inf")),
        (ValueType.F64, 0.25),
        (ValueType.U64, 2**64 - 1),
        (ValueType.DURATION, 4 * SECOND // 10),
        (ValueType.STRING, "12"),
        (ValueType.BOOL, False),
        (ValueType.MAP, {"a": ("b", 1), "c": {"d": 0.5}}),
        (ValueType.LIST, ("a", 2)),
        (ValueType.REFERENCE, ObjectLink("shop:queue", 1, "/|q1")),
        (ValueType.REFERENCE, ObjectLink("shop:queue", 2, "")),
    ],
)
def test_values_of_each_type_come_back(kind: ValueType, value: FeedValue) -> None:
    schema = EventClassRecord(9, EventSchema(ClassKey("shop", "odd", b"h" * 16), (Argument("v", kind),)))
    (found,), _ = back(logged(event(class_number=9, values={0: value}, subject=None), schema))
    assert found.values == {0: value}


def test_what_another_gateway_reported_or_what_has_no_source_or_schema_any_more_is_left_out() -> None:
    last = logged(event())
    assert back(last, gateway="other")[0] == []
    assert back(last, sources={})[0] == []
    assert back(dataclasses.replace(last, schemas={}))[0] == []
    odd = {"shop:full": LogRecord(kind=RecordKind.SCHEMA, ingest_ts="", values={"hash": "xyz"})}
    assert back(dataclasses.replace(last, schemas=odd))[0] == []


def test_the_last_events_of_each_source_are_read(tmp_path: Path) -> None:
    shop = Shop()
    other = msgspec.structs.replace(SHOP, number=2, name="other")
    records = [
        *shop.began,
        *shop.publish(other, msgspec.structs.replace(AGENT, source=2)),
        *shop.publish(event(source=2, event_id="gw.1.1", number=1)),
    ]
    for number in range(2, 8):
        records += shop.publish(event(event_id=f"gw.1.{number}", number=number))
    write_segment(tmp_path, 1, block(records, 1), is_open=True)
    last = last_events(tmp_path, 3, "gw")
    assert [record.event_id for record in last.events] == ["gw.1.1", "gw.1.5", "gw.1.6", "gw.1.7"]
    assert list(last.schemas) == ["shop:full"]
    found, _ = back(last, sources={"shop": 1, "other": 2})
    assert [(each.source, each.boot, each.number) for each in found] == [
        (2, 1, 1),
        (1, 1, 5),
        (1, 1, 6),
        (1, 1, 7),
    ]


def test_where_there_is_no_log_there_is_nothing(tmp_path: Path) -> None:
    assert last_events(tmp_path / "log", 3, "gw") == LastEvents()


def test_how_many_events_there_were_is_known_though_they_are_not_in_the_last_segments(tmp_path: Path) -> None:
    shop = Shop()
    start = start_record(T0_TEXT, Why.AGE, {"gateway": "gw", "boot": 4, EVENTS: {"2": 5, "4": 7}})
    foreign = start_record(T0_TEXT, Why.AGE, {"gateway": "other", EVENTS: {"4": 99}})
    later = shop.publish(event(event_id="gw.4.8", number=8))
    write_segment(tmp_path, 1, block([foreign, start, *shop.began, *later], 1), is_open=True)
    last = last_events(tmp_path, 3, "gw")
    assert last.made == {2: 5, 4: 8}
    assert [record.event_id for record in last.events] == ["gw.4.8"]


def test_the_segment_before_those_that_report_how_all_stands_is_read_while_it_is_there(
    tmp_path: Path,
) -> None:
    shop = Shop()
    parts = [[*shop.began, *shop.publish(event(event_id=f"gw.1.{n}", number=n))] for n in (1, 2, 3)]
    seq = 1
    for part in parts:
        path = write_segment(tmp_path, seq, block(part, seq))
        standing, seq = seq, seq + len(part)
    identity_path(tmp_path).write_text(LogIdentity(version=1, log_id=LOG_ID, standing_seq=standing).text())
    assert [record.event_id for record in last_events(tmp_path, 3, "gw").events] == ["gw.1.2", "gw.1.3"]
    path.unlink()
    assert [record.event_id for record in last_events(tmp_path, 3, "gw").events] == ["gw.1.2"]


def test_a_start_record_names_the_last_cores_that_made_events() -> None:
    made = dict.fromkeys(range(1, 200), 3) | {150: 0}
    reported = events_value(made)
    assert (len(reported), reported["199"], "150" in reported, "99" in reported) == (
        MAX_CORES,
        3,
        False,
        True,
    )
