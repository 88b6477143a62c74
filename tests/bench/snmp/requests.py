"""The requests to every agent, by case: made beforehand and packed for `native/load.c`."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.snmp.ber import Oid
from gateway.snmp.message import GET, GET_BULK, GET_NEXT
from tests.bench.rows import Case, Reading
from tests.bench.snmp.table import COLUMNS, index, is_hidden
from tests.snmp.datagrams import COMMUNITY, request

_UNIT: Final = "us of CPU per request"
GET_ONE: Final = Case("get", _UNIT, Reading.COST)
NEXT_ONE: Final = Case("next", _UNIT, Reading.COST)
BULK_25: Final = Case("bulk25", _UNIT, Reading.COST)
BULK_12_4: Final = Case("bulk12x4", _UNIT, Reading.COST)
SECURED_GET: Final = Case("v3-get", _UNIT, Reading.COST)
SECURED_BULK_25: Final = Case("v3-bulk25", _UNIT, Reading.COST)
WALK: Final = Case("walk100k", "ms of CPU per walk", Reading.COST)
WALK_TIME: Final = Case("walk100k-wall", "ms per walk", Reading.COST)
RESTRICTED_GET: Final = Case("get-restricted", _UNIT, Reading.COST)
RESTRICTED_WALK: Final = Case("walk-restricted", "us of CPU per 50 rows", Reading.COST)

_LONGEST: Final = 25
_WALK_REPETITIONS: Final = 50
_DIFFERENT: Final = 10_000
"""The number of different requests of a case: more than any cache of names would keep."""

_MANY_MANAGERS: Final = 16
"""The number of requests that wait for an answer at a time, as with many managers."""


@dataclass(frozen=True, slots=True)
class Questions:
    """The requests of one case.

    Attributes:
        case: the case that they measure.
        requests: their octets.
        window: the number that wait for an answer at a time.
    """

    case: Case
    requests: Sequence[bytes]
    window: int

    def write(self, path: Path) -> None:
        """Write the requests, each after its length."""
        packed = (struct.pack("=H", len(octets)) + octets for octets in self.requests)
        path.write_bytes(b"".join(packed))


def all_questions(entry: Oid, rows: int) -> list[Questions]:
    """Return single reads and bulks at random places, from many managers; and one manager's walk of a column.

    No answer reaches beyond the rows, as agents differ in their other objects.
    """
    chance = random.Random(1)  # noqa: S311  repeatable
    places = [(chance.choice(COLUMNS), chance.randint(1, rows - _LONGEST)) for _ in range(_DIFFERENT)]
    names = [(*entry, column, *index(row)) for column, row in places]
    sides = [[(*entry, column, *index(row)) for column in COLUMNS] for _, row in places]
    return [
        Questions(GET_ONE, _numbered(GET, [[name] for name in names]), _MANY_MANAGERS),
        Questions(NEXT_ONE, _numbered(GET_NEXT, [[name] for name in names]), _MANY_MANAGERS),
        Questions(BULK_25, _numbered(GET_BULK, [[name] for name in names], _LONGEST), _MANY_MANAGERS),
        Questions(BULK_12_4, _numbered(GET_BULK, sides, 4), _MANY_MANAGERS),
        Questions(WALK, _walk(entry, rows), 1),
    ]


def restricted_questions(entry: Oid, rows: int, community: bytes) -> list[Questions]:
    """Return reads of objects that a restricted community is shown, and its walk of a column.

    The same requests with another community have the same number of variable bindings in their answers.
    """
    seen = [row for row in range(1, rows - 2 * _WALK_REPETITIONS) if not is_hidden(row)]
    chance = random.Random(3)  # noqa: S311  repeatable
    names = [(*entry, chance.choice(COLUMNS[:-1]), *index(chance.choice(seen))) for _ in range(_DIFFERENT)]
    column = (*entry, COLUMNS[2])
    starts = [(*column, *index(row)) for row in seen[::_WALK_REPETITIONS]]
    return [
        Questions(
            RESTRICTED_GET, _numbered(GET, [[name] for name in names], community=community), _MANY_MANAGERS
        ),
        Questions(
            RESTRICTED_WALK,
            _numbered(GET_BULK, [[name] for name in starts], _WALK_REPETITIONS, community=community),
            1,
        ),
    ]


def _walk(entry: Oid, rows: int) -> list[bytes]:
    """Return a walk of the first counter: each request begins at the end of the answer before."""
    column = (*entry, COLUMNS[2])
    names = [column, *((*column, *index(row)) for row in range(_WALK_REPETITIONS, rows, _WALK_REPETITIONS))]
    return _numbered(GET_BULK, [[name] for name in names], _WALK_REPETITIONS)


def _numbered(
    pdu_type: int, names: Sequence[Sequence[Oid]], repetitions: int = 0, community: bytes = COMMUNITY
) -> list[bytes]:
    """Return requests with ids as managers have them: random ones of 31 bits."""
    chance = random.Random(2)  # noqa: S311  repeatable
    return [
        request(
            pdu_type,
            each,
            community=community,
            request_id=chance.randrange(1 << 24, 1 << 31),
            second=repetitions,
        )
        for each in names
    ]
