"""agDeletedTable: the objects of which the end was told last."""

from __future__ import annotations

from gateway.feed.records import DeleteRecord
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import counter64, date_and_time, gauge32, gauge64, text, truth
from gateway.snmp.fixed_mib import DELETED, DELETED_ENTRY, DeletedColumn, DeletedScalar
from gateway.snmp.store import Store
from gateway.snmp.tables.rows import LIFETIMES

MAX_DELETED = 1_000
"""Rows of the table: when one more comes, the oldest leaves."""


class DeletedTable:
    """The table and its scalars in the store.

    Args:
        store: where they are made.
        root: the configured root.
    """

    def __init__(self, store: Store, root: Oid) -> None:
        self._table = store.table((*root, *DELETED_ENTRY), tuple(DeletedColumn))
        self._generations: dict[int, int] = {}  # of each row, in the order in which they came
        self._unswept: list[int] = []
        self._swept = 0
        self._last = 0
        self._told = 0
        base = (*root, *DELETED)
        store.scalar((*base, DeletedScalar.COUNT, 0), lambda: gauge32(len(self._generations)))
        store.scalar((*base, DeletedScalar.LAST, 0), lambda: ber.encode_integer(self._last))
        store.scalar((*base, DeletedScalar.TOLD, 0), lambda: counter64(self._told))

    def knows(self, number: int) -> bool:
        """Whether this end has a row."""
        return number in self._generations

    def tell(self, record: DeleteRecord, class_name: str, row: Oid, generation: int) -> None:
        """The end of an object of a class (``package:class``) that had ``row``; or that it is still told."""
        known = record.number in self._generations
        self._generations[record.number] = generation
        if known:
            return
        self._last = record.number
        self._told += 1
        self._table.put((record.number,), _cells(record, class_name, row))
        if len(self._generations) > MAX_DELETED:
            self._remove(next(iter(self._generations)))

    def sweep(self, generation: int) -> None:
        """What this whole snapshot did not tell is to leave: see to it with `settle`."""
        self._swept = generation
        self._unswept = [number for number, told_in in self._generations.items() if told_in < generation]

    def settle(self, limit: int) -> int:
        """Take up to ``limit`` rows away that are to leave; returns how many it looked at."""
        numbers, self._unswept = self._unswept[:limit], self._unswept[limit:]
        for number in numbers:
            if self._generations.get(number, self._swept) < self._swept:
                self._remove(number)
        return len(numbers)

    @property
    def unsettled(self) -> bool:
        """Whether `settle` has something left to do."""
        return bool(self._unswept)

    def _remove(self, number: int) -> None:
        del self._generations[number]
        self._table.remove((number,))


def _cells(record: DeleteRecord, class_name: str, row: Oid) -> dict[int, bytes | None]:
    lived = record.deleted - record.created if record.deleted and record.created else -1
    return {
        DeletedColumn.SOURCE: ber.encode_integer(record.source),
        DeletedColumn.CLASS: text(class_name),
        DeletedColumn.NAME: text(record.leaf_name),
        DeletedColumn.FULL_NAME: text(record.stable_name),
        DeletedColumn.ROW: ber.encode_oid(row),
        DeletedColumn.NATIVE_ID: text(record.native_id),
        DeletedColumn.LIFETIME: LIFETIMES[record.lifetime],
        DeletedColumn.CREATED: date_and_time(record.created) if record.created else None,
        DeletedColumn.DELETED: date_and_time(record.deleted) if record.deleted else None,
        DeletedColumn.HEARD: date_and_time(record.heard) if record.heard else None,
        DeletedColumn.INFERRED: truth(record.inferred),
        DeletedColumn.DURATION: gauge64(lived) if lived >= 0 else None,
    }
