"""What the core reports while notifications and changing rows are measured: events, and changes of rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from gateway.feed.records import EventClassRecord, EventRecord, Record, UpdateRecord
from gateway.feed.values import ObjectLink
from gateway.model.observations import Severity
from gateway.model.schema import Argument, ClassKey, EventSchema
from gateway.model.times import MILLISECOND
from gateway.model.values import ValueType
from tests.bench.snmp.table import NUMBERS, SOURCE, TIME, cells

KINDS: Final = ("trap", "inform")
"""The kinds of notifications; the events of each have a class of their own, and so a receiver."""

_CLASS_NUMBERS: Final = {kind: number for number, kind in enumerate(KINDS, start=2)}
_FIRST_STATISTIC: Final = 2
_NUMBERS: Final = 1 << 32
_ARGUMENTS: Final = (
    Argument("queue", ValueType.STRING),
    Argument("user", ValueType.STRING),
    Argument("messages", ValueType.U32),
)


def event_classes() -> Iterator[Record]:
    """Yield the classes of events."""
    for kind in KINDS:
        schema = EventSchema(ClassKey("bench", f"{kind}Event", bytes(16)), _ARGUMENTS)
        yield EventClassRecord(_CLASS_NUMBERS[kind], schema)


class EventSource:
    """Makes events with the numbers that a core gives them: without holes."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._numbers = itertools.count(1)

    def events(self, kind: str, count: int) -> Iterator[Record]:
        """Yield events that become notifications of this kind, each about another queue than the last."""
        for number in itertools.islice(self._numbers, count):
            row = number % self._rows + 1
            name = str(cells(row)[0])
            yield EventRecord(
                event_id=f"6bd7a1f6-0c3d-4c57-9be5-c22cf2cf7d39.1.{number:08d}",
                source=SOURCE,
                class_number=_CLASS_NUMBERS[kind],
                agent="1.0",
                time=TIME + number * MILLISECOND,
                severity=Severity.INFO,
                values={0: name, 1: "guest", 2: number % _NUMBERS},
                number=number,
                received=TIME,
                subject=ObjectLink("bench:queue", row, name),
                text=f"queue {name} has changed",
            )


def changes(rows: int, count: int) -> Iterator[Record]:
    """Yield changes of all statistics of one row after the other, from the first again after the last."""
    for number in range(count):
        row = number % rows + 1
        values = {
            place: row * (place + 1) + number
            for place in range(_FIRST_STATISTIC, _FIRST_STATISTIC + len(NUMBERS))
        }
        now = TIME + number * MILLISECOND // 10
        yield UpdateRecord(
            source=SOURCE,
            class_number=1,
            row=row,
            properties_sampled=TIME,
            statistics_sampled=now,
            reset=0,
            changed=now,
            values=values,
        )
