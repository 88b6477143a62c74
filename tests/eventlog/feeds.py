"""Feeds of a small shop, as the core would publish them, for tests of the records made of them."""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.eventlog.record import LogRecord
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.feed.records import (
    AgentRecord,
    Batch,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventRecord,
    Lifetime,
    ObjectRecord,
    Record,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import EventState, Severity, SourceState
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema, Kind, NamedValue
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.eventlog.records import with_all_fields

T0: Final = 1_795_186_800 * SECOND
"""2026-11-20T15:00:00Z."""

QUEUE: Final = ClassRecord(
    1,
    ClassSchema(
        ClassKey("shop", "queue", b"\x01" * 16),
        (
            Element("name", ValueType.STRING, index=True),
            Element("vhost", ValueType.REFERENCE, references="vhost"),
            Element("paused", ValueType.BOOL, optional=True),
            Element("arguments", ValueType.MAP, optional=True),
        ),
        (
            Element("depth", ValueType.U64),
            Element("published", ValueType.U64, kind=Kind.COUNTER),
            Element("delivered", ValueType.U64, kind=Kind.COUNTER),
            Element("state", ValueType.U8, values=(NamedValue("idle", 0), NamedValue("busy", 1))),
        ),
    ),
    "name",
    "vhost",
)
NAME, VHOST, PAUSED, ARGUMENTS, DEPTH, PUBLISHED, DELIVERED, STATE = range(8)

ODDITY: Final = ClassRecord(
    2,
    ClassSchema(
        ClassKey("shop", "oddity"),
        (
            Element("born", ValueType.TIME),
            Element("token", ValueType.BYTES),
            Element("twin", ValueType.REFERENCE),
            Element("id", ValueType.UUID),
            Element("parts", ValueType.LIST),
        ),
        (
            Element("age", ValueType.DURATION),
            Element("ratio", ValueType.F64),
            Element("largest", ValueType.U64, kind=Kind.COUNTER),
            Element("smallest", ValueType.S64),
        ),
    ),
    "",
    "",
)
FULL: Final = EventClassRecord(
    3,
    EventSchema(
        ClassKey("shop", "full"),
        (Argument("queue", ValueType.REFERENCE), Argument("since", ValueType.TIME)),
    ),
)
ROOT: Final = ObjectLink("shop:vhost", 1, "/")
SHOP: Final = SourceRecord(1, "shop", "qmf", SourceState.SYNCHRONISED, "", T0, T0, {"messages": 1})
AGENT: Final = AgentRecord(1, "1.0", fresh=True, since=T0, confirmed=T0)


def queue(row: int = 1, values: dict[int, FeedValue] | None = None, now: int = T0) -> ObjectRecord:
    """Return a whole record of a queue."""
    return ObjectRecord(
        source=1,
        class_number=QUEUE.number,
        row=row,
        stable_name=f"/|q{row}",
        leaf_name=f"q{row}",
        parent=ROOT,
        native_id=f"n{row}",
        agent="1.0",
        lifetime=Lifetime.DURABLE,
        created=T0 - SECOND,
        properties_sampled=now,
        statistics_sampled=now,
        reset=T0,
        changed=now,
        values={NAME: f"q{row}", VHOST: ROOT, DEPTH: 0, PUBLISHED: 0} if values is None else values,
    )


def update(
    values: dict[int, FeedValue], *absent: int, row: int = 1, now: int = T0, reset: int = T0
) -> UpdateRecord:
    """Some values of a queue, sampled ``now``."""
    return UpdateRecord(1, QUEUE.number, row, now, now, reset, now, values, absent)


def deletion(row: int = 1, *, deleted: int = 0, inferred: bool = False) -> DeleteRecord:
    """The end of a queue."""
    return DeleteRecord(1, QUEUE.number, row, f"/|q{row}", deleted, inferred=inferred, number=1)


def event(**changes: object) -> EventRecord:
    """Return the event of an agent that a queue is full."""
    record = EventRecord(
        event_id="gw.1.7",
        source=1,
        class_number=FULL.number,
        agent="1.0",
        time=T0 + 5,
        severity=Severity.MAJOR,
        values={0: ObjectLink("shop:queue", 1, "/|q1"), 1: T0},
        number=7,
        received=T0 + 6,
        subject=ObjectLink("shop:queue", 1, "/|q1"),
        text="q1 is full",
        state=EventState.RAISED,
        condition='full shop:queue "/|q1"',
    )
    return msgspec.structs.replace(record, **changes)


class Shop:
    """A mirror that knows the shop, and its clock."""

    def __init__(self, settings: RecorderSettings | None = None, source: SourceRecord = SHOP) -> None:
        self.mirror = LogRecorder(settings or RecorderSettings())
        self.now = T0
        self._sequence = 0
        self.began = self.publish(source, AGENT, QUEUE, ODDITY, FULL)

    def publish(self, *records: Record) -> list[LogRecord]:
        """Apply one batch; return its records."""
        self._sequence += 1
        return with_all_fields(self.mirror.apply(Batch(1, self._sequence, records), self.now))

    def wait(self, nanoseconds: int) -> list[LogRecord]:
        """Let time pass, as a loop that sleeps until records are due; return the records that became due."""
        end = self.now + nanoseconds
        recorded: list[LogRecord] = []
        while (due := self.mirror.wake_at) is not None and due <= end:
            self.now = max(self.now, due)
            recorded += with_all_fields(self.mirror.tick(self.now))
        self.now = end
        return recorded + with_all_fields(self.mirror.tick(self.now))

    def head(self) -> list[LogRecord]:
        """Return the head of a segment."""
        return with_all_fields(self.mirror.head(lambda: self.now))
