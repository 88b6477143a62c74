"""Rows of a table of what happened lately: bounded for each source, and swept after each snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.feed.latest import Latest
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import counter64, gauge32
from gateway.snmp.store import Store
from gateway.snmp.table import Table


class LatestRows:
    """The rows, in the order in which they came.

    Args:
        table: with one index, which ascends as long as nothing numbers again.
        most: rows of each source: when one more comes, the oldest of that source leaves.
        octets: that the values in the rows of one source take together.
    """

    def __init__(self, table: Table, most: int, octets: int) -> None:
        self._table = table
        self._latest: Latest[int] = Latest(most, octets)
        self._sources: dict[int, int] = {}
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

    def put(
        self, source: int, index: int, identity: str, cells: Mapping[int, bytes | None], generation: int
    ) -> None:
        """A row as it is now, told by this snapshot or since.

        Args:
            source: the number of its source.
            index: of the row.
            identity: of what it tells; another one at the same index is another row.
            cells: all of them.
            generation: of the snapshot.
        """
        if self._ids.get(index) != identity:
            self._leave(index)
            self._ids[index], self._sources[index] = identity, source
            self._last = index
            self._told += 1
        self._generations[index] = generation
        self._table.put((index,), cells)
        for left in self._latest.put(
            self._sources[index], index, sum(map(len, filter(None, cells.values())))
        ):
            self._remove(left)

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
        self._leave(index)
        self._table.remove((index,))

    def _leave(self, index: int) -> None:
        if self._ids.pop(index, None) is not None:
            self._latest.remove(self._sources.pop(index), index)
            del self._generations[index]
