"""Rows of a table of what happened lately: bounded in number, and swept after each snapshot of the feed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import counter64, gauge32
from gateway.snmp.store import Store
from gateway.snmp.table import Table

MAX_ROWS: Final = 1_000
"""Of each of these tables: when one more comes, the oldest leaves."""


class LatestRows:
    """The rows, in the order in which they came.

    Args:
        table: with one index, which ascends as long as nothing numbers anew.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._ids: dict[int, str] = {}
        self._generations: dict[int, int] = {}  # in the order in which the rows came
        self._unswept: list[int] = []
        self._swept = 0
        self._last = 0
        self._told = 0

    def serve(self, store: Store, count: Oid, last: Oid, told: Oid) -> None:
        """Show how many there are, the index that came last, and how many ever came."""
        store.scalar((*count, 0), lambda: gauge32(len(self._generations)))
        store.scalar((*last, 0), lambda: ber.encode_integer(self._last))
        store.scalar((*told, 0), lambda: counter64(self._told))

    def knows(self, index: int) -> bool:
        """Whether there is such a row."""
        return index in self._generations

    def put(self, index: int, identity: str, cells: Mapping[int, bytes | None], generation: int) -> None:
        """A row as it is now, told by this snapshot or since.

        Args:
            index: of the row.
            identity: of what it tells; another one at the same index is another row.
            cells: all of them.
            generation: of the snapshot.
        """
        if self._ids.get(index) != identity:
            self._generations.pop(index, None)
            self._ids[index] = identity
            self._last = index
            self._told += 1
        self._generations[index] = generation
        self._table.put((index,), cells)
        if len(self._generations) > MAX_ROWS:
            self._remove(next(iter(self._generations)))

    def told_again(self, index: int, generation: int) -> None:
        """A row that there is, and that is as it was, is told by this snapshot."""
        self._generations[index] = generation

    def sweep(self, generation: int) -> None:
        """What this whole snapshot did not tell is to leave: see to it with `settle`."""
        self._swept = generation
        self._unswept = [index for index, told in self._generations.items() if told < generation]

    def settle(self, limit: int) -> None:
        """Take up to ``limit`` rows away that are to leave."""
        indexes, self._unswept = self._unswept[:limit], self._unswept[limit:]
        for index in indexes:
            if self._generations.get(index, self._swept) < self._swept:
                self._remove(index)

    @property
    def unsettled(self) -> bool:
        """Whether `settle` has something left to do."""
        return bool(self._unswept)

    def _remove(self, index: int) -> None:
        del self._generations[index], self._ids[index]
        self._table.remove((index,))
