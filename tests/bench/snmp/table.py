"""The table that all agents serve: 100,000 rows of 12 columns, as feed records, as octets, as values."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.feed.records import AgentRecord, ClassRecord, Lifetime, ObjectRecord, Record, SourceRecord
from gateway.model.observations import SourceState
from gateway.model.schema import Access, ClassKey, ClassSchema, Element, Kind
from gateway.model.values import ValueType
from gateway.policy.rules import EVERY, EVERYTHING, MONITORING, Role, RoleSet, Rule
from gateway.snmp.ber import Oid
from gateway.snmp.oid_registry import FIRST_ELEMENT_COLUMN

SOURCE: Final = 1
"""The first sub-identifier of each index; the second is the row's number, from 1."""

NUMBERS: Final = tuple(f"count{number}" for number in range(6)) + tuple(
    f"depth{number}" for number in range(4)
)
"""The names of the columns after name and flag: six counters of 64 bits, four gauges of 32."""

COLUMNS: Final = range(FIRST_ELEMENT_COLUMN, FIRST_ELEMENT_COLUMN + 2 + len(NUMBERS))

SCHEMA: Final = ClassSchema(
    ClassKey("bench", "queue", bytes(16)),
    properties=(
        Element("name", ValueType.STRING, access=Access.READ_CREATE, index=True, max_length=16),
        Element("durable", ValueType.BOOL, access=Access.READ_CREATE),
    ),
    statistics=(
        *(Element(name, ValueType.U64, kind=Kind.COUNTER) for name in NUMBERS[:6]),
        *(Element(name, ValueType.U32, kind=Kind.GAUGE) for name in NUMBERS[6:]),
    ),
)
"""The class of the rows."""

_PACKED: Final = struct.Struct("=Q16s11Q")
TIME: Final = 1_800_000_000 * 10**9
"""The time at which all objects were created and read."""


def cells(row: int) -> tuple[str | bool | int, ...]:
    """Return the values of a row, by column. Counters are long, as of a broker that has run for months."""
    counters = (row * 1_000_003 * (number + 1) % (1 << 40) for number in range(6))
    gauges = (row * 101 * (number + 1) % 100_000 for number in range(4))
    return (f"queue-{row:06d}", row % 2 == 0, *counters, *gauges)


def records(rows: int) -> Iterator[Record]:
    """Yield a source with one agent and all rows, as records of a core."""
    yield SourceRecord(SOURCE, "bench", "qmf", SourceState.SYNCHRONISED, "", TIME, TIME)
    yield AgentRecord(SOURCE, "1.0", fresh=True, since=TIME, confirmed=TIME)
    yield ClassRecord(1, SCHEMA, "name", "")
    for row in range(1, rows + 1):
        values = cells(row)
        name = str(values[0])
        yield ObjectRecord(
            source=SOURCE,
            class_number=1,
            row=row,
            stable_name=name,
            leaf_name=name,
            parent=None,
            native_id=f"0-1-1-0-{row}",
            agent="1.0",
            lifetime=Lifetime.DURABLE,
            created=TIME,
            properties_sampled=TIME,
            statistics_sampled=TIME,
            reset=0,
            changed=TIME,
            values=dict(enumerate(values)),
        )


def is_hidden(row: int) -> bool:
    """Return whether `restricted_roles` hide a row: one of ten."""
    return row % 10 == 7


def restricted_roles(principal: str) -> RoleSet:
    """Return roles that hide the last column and one row of ten from a principal, and nothing from others."""
    hides = (
        Rule("deny rule 1", denies=True, classes=("bench:queue",), objects=("queue-*7",), read=EVERY),
        Rule("deny rule 2", denies=True, classes=("bench:queue",), read=NUMBERS[-1:]),
    )
    return RoleSet(
        {"restricted": Role("restricted", hides, includes=(MONITORING,))},
        {principal: ("restricted",), "*": (EVERYTHING,)},
    )


def pack(rows: int, path: Path) -> None:
    """Write all rows as `native/container_agent.c` and `unpack` read them: flags are 1 or 2 (TruthValue)."""
    with path.open("wb") as file:
        for row in range(1, rows + 1):
            name, flag, *numbers = cells(row)
            file.write(_PACKED.pack(row, str(name).encode(), 1 if flag else 2, *numbers))


def unpack(path: Path) -> dict[int, tuple[bytes | int, ...]]:
    """Return the values of packed rows by column, by row."""
    return {
        number: (name.rstrip(b"\0"), *numbers)
        for number, name, *numbers in _PACKED.iter_unpack(path.read_bytes())
    }


def index(row: int) -> Oid:
    """Return the index of a row."""
    return (SOURCE, row)
