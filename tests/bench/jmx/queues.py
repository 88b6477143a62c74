"""Queues with twelve statistics each, as records of a core; `java/NativeQueue.java` is the equivalent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.feed.access import Clearance, PolicyRecord
from gateway.feed.records import (
    AgentRecord,
    ClassRecord,
    DeleteRecord,
    Lifetime,
    ObjectRecord,
    Record,
    SourceRecord,
    UpdateRecord,
)
from gateway.jmx.names import object_name
from gateway.model.observations import SourceState
from gateway.model.schema import Access, ClassKey, ClassSchema, Element, Kind
from gateway.model.values import ValueType
from tests.components.shop import next_end

SOURCE: Final = "source"
STATISTICS: Final = tuple(f"Statistic{number}" for number in range(12))
"""The names of the statistics, as long as the native ones, as they travel with each request."""

_SCHEMA = ClassSchema(
    ClassKey("bench", "queue", bytes(16)),
    properties=(Element("Name", ValueType.STRING, access=Access.READ_CREATE, index=True),),
    statistics=tuple(Element(name, ValueType.U64, kind=Kind.COUNTER) for name in STATISTICS),
)
_TIME: Final = 1_800_000_000 * 10**9
_CLASS_NUMBER: Final = 1


def preface() -> tuple[Record, ...]:
    """Return the records before the first queue: policy, source, agent, class."""
    return (
        # Every user reads everything, and may change something.
        PolicyRecord({}, {"jmx": 0}, (Clearance(("everything",), True, (), (), (), True, counts=True),)),
        SourceRecord(1, SOURCE, "qmf", SourceState.SYNCHRONISED, "", _TIME, _TIME),
        AgentRecord(1, "1.0", fresh=True, since=_TIME, confirmed=_TIME),
        ClassRecord(_CLASS_NUMBER, _SCHEMA, "Name", ""),
    )


def queues(rows: Iterable[int], value: int) -> list[Record]:
    """Return new queues, whose statistics count on from ``value``."""
    return [
        ObjectRecord(
            source=1,
            class_number=_CLASS_NUMBER,
            row=row,
            stable_name=_name(row),
            leaf_name=_name(row),
            parent=None,
            native_id=f"0-1-1-0-{row}",
            agent="1.0",
            lifetime=Lifetime.DURABLE,
            created=_TIME,
            properties_sampled=_TIME,
            statistics_sampled=_TIME,
            reset=0,
            changed=_TIME,
            values={0: _name(row), **_values(value)},
        )
        for row in rows
    ]


def updates(rows: Iterable[int], value: int) -> list[Record]:
    """Return updates of all twelve statistics of these queues, counting on from ``value``."""
    return [
        UpdateRecord(1, _CLASS_NUMBER, row, _TIME, _TIME + value, 0, _TIME, _values(value)) for row in rows
    ]


def deletions(rows: Iterable[int]) -> list[Record]:
    """Return the ends of these queues."""
    return [
        DeleteRecord(1, _CLASS_NUMBER, row, _name(row), _TIME, inferred=False, number=next_end())
        for row in rows
    ]


ALL_QUEUES: Final = f"amqp.gateway:source={SOURCE},package=bench,type=queue,*"
"""The pattern that all queues match."""


def queue_name(row: int) -> str:
    """Return the ObjectName of a queue."""
    return object_name([("source", SOURCE), ("package", "bench"), ("type", "queue"), ("name", _name(row))])


def _name(row: int) -> str:
    return f"queue-{row:06d}"


def _values(value: int) -> dict[int, int]:
    return {1 + number: value + number for number in range(len(STATISTICS))}
