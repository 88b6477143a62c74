"""agDeletedTable: the objects of which the end was told last."""

from __future__ import annotations

from gateway.feed.latest import HistoryLimits
from gateway.feed.records import DeleteRecord
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import date_and_time, gauge64, text, truth
from gateway.snmp.fixed_mib import DELETED, DELETED_ENTRY, DeletedColumn, DeletedScalar
from gateway.snmp.store import Store
from gateway.snmp.tables.latest_rows import LatestRows
from gateway.snmp.tables.rows import LIFETIMES


class DeletedTable:
    """The table and its scalars in the store.

    Args:
        store: where they are made.
        root: the configured root.
        limits: of the rows of each source.

    Attributes:
        rows: to be swept after a snapshot.
    """

    def __init__(self, store: Store, root: Oid, limits: HistoryLimits) -> None:
        table = store.table((*root, *DELETED_ENTRY), tuple(DeletedColumn))
        self.rows = LatestRows(table, limits.ends, limits.octets)
        base = (*root, *DELETED)
        self.rows.serve(
            store, (*base, DeletedScalar.COUNT), (*base, DeletedScalar.LAST), (*base, DeletedScalar.TOLD)
        )

    def tell(self, record: DeleteRecord, class_name: str, row: Oid, generation: int) -> None:
        """The end of an object of a class (``package:class``) that had ``row``; or that it is still told."""
        if self.rows.knows(record.number):  # ends never change, and their numbers ascend for ever
            self.rows.told_again(record.number, generation)
        else:
            self.rows.put(record.source, record.number, "", _cells(record, class_name, row), generation)


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
