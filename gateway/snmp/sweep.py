"""Rows that are to go, found and taken away in slices: there may be a hundred thousand of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.snmp.tables.rows import Row

SLICE_LOOKS: Final = 5000
"""Rows of which one call finds out at most whether they are to go: a millisecond's worth."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of which those go that no snapshot since this one told."""

    rows: list[Row]
    generation: int


class Sweep:
    """All that is to go."""

    def __init__(self) -> None:
        self._waiting: deque[_Rows] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, rows: Iterable[Row], generation: int) -> None:
        """Those that the snapshot ``generation`` did not tell are to go."""
        self._waiting.append(_Rows(list(rows), generation))

    def work(self, rows_left: int, heavy: int, now: int) -> int:
        """Take rows away while there are any left of ``rows_left``.

        Args:
            rows_left: how many rows may be changed.
            heavy: as how many a row counts that is taken away.
            now: nanoseconds since 1970-01-01 UTC.

        Returns:
            What is left then; 0 or below where something may still be to do.
        """
        looks = SLICE_LOOKS
        while self._waiting and rows_left > 0:
            part = self._waiting[0]
            while part.rows and rows_left > 0:
                if not looks:
                    return 0
                looks -= 1
                row = part.rows.pop()
                if row.generation < part.generation and row in row.group.rows:
                    row.table.remove(row, now)
                    rows_left -= heavy
            if not part.rows:
                self._waiting.popleft()
        return rows_left
