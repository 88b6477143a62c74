"""What is over: objects that have ended (agDeletedTable), and what users had done (agOperationTable)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gateway.feed.latest import HistoryLimits
from gateway.feed.operations import OperationRecord
from gateway.feed.records import DeleteRecord
from gateway.feed.values import ObjectLink
from gateway.snmp.ber import Oid
from gateway.snmp.store import Store
from gateway.snmp.tables.deleted import DeletedTable
from gateway.snmp.tables.operations import OperationTable

RowOid: TypeAlias = Callable[[ObjectLink, int], Oid]
"""Where the row of an object of the source with that number is, or was; zeroDotZero without one."""


class History:
    """Both tables, of which each snapshot of the feed tells the last rows again.

    Args:
        store: where they are made.
        root: the configured root.
        row_oid: where rows of objects are.
        limits: of the rows of each source.
    """

    def __init__(self, store: Store, root: Oid, row_oid: RowOid, limits: HistoryLimits) -> None:
        self._row_oid = row_oid
        self._deleted = DeletedTable(store, root, limits)
        self._operations = OperationTable(store, root, limits)
        self._rows = (self._deleted.rows, self._operations.rows)

    @property
    def unsettled(self) -> bool:
        """Whether `settle` has something left to do."""
        return any(rows.unsettled for rows in self._rows)

    def object_ended(self, record: DeleteRecord, class_name: str, generation: int) -> None:
        """Show the end of an object, which this snapshot contained, or which came since.

        Args:
            record: what the feed tells of it; without a number it has no row here.
            class_name: ``package:class``; empty where it is not known.
            generation: of the snapshot.
        """
        if record.number > 0 and class_name:
            row = self._row_oid(ObjectLink(class_name, record.row, record.stable_name), record.source)
            self._deleted.tell(record, class_name, row, generation)

    def operation_told(self, record: OperationRecord, generation: int) -> None:
        """An operation as it stands now, told by this snapshot or since."""
        link = ObjectLink(record.class_name, record.row, record.stable_name)
        self._operations.tell(record, self._row_oid(link, record.source), generation)

    def sweep(self, generation: int) -> None:
        """What this whole snapshot did not tell is to leave: see to it with `settle`."""
        for rows in self._rows:
            rows.sweep(generation)

    def settle(self, limit: int) -> None:
        """Take up to ``limit`` rows of each table away that are to leave."""
        for rows in self._rows:
            rows.settle(limit)
