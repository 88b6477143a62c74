"""The tables of all classes, and the row that a link leads to."""

from __future__ import annotations

from gateway.feed.records import ObjectLink
from gateway.model.schema import ClassKey, ClassSchema
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.lock import Lock
from gateway.snmp.lock_entries import ClassLock
from gateway.snmp.notification import NO_ROW
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.schema_locks import SchemaLocks
from gateway.snmp.store import Store
from gateway.snmp.tables.bindings import row_pointer
from gateway.snmp.tables.rows import BoundClass, ClassTable, Row
from gateway.snmp.tables.summaries import Summaries


class ClassTables:
    """All tables of classes, made as classes are told.

    Args:
        store: where tables are made.
        summaries: what counts and sums their rows.
        locks: where each class stands.
        root: the configured root.
    """

    def __init__(self, store: Store, summaries: Summaries, locks: SchemaLocks, root: Oid) -> None:
        self._store = store
        self._summaries = summaries
        self._locks = locks
        self._root = root
        self._tables: dict[str, ClassTable] = {}
        self._pointed: dict[str, bytes] = {}

    def bind(self, schema: ClassSchema) -> BoundClass | None:
        """The table for one version of a class; ``None`` (logged and counted) where there is no room."""
        found = self._locks.class_lock(schema)
        if found is None:
            return None
        table = self._table(*found, schema.key)
        bound = table.bind(schema, self.pointer)
        self._locks.report(schema.key, bound.binding.not_shown)
        return bound

    def pointer(self, link: ObjectLink, source: int) -> bytes | None:
        """The TLV of a RowPointer to an object: its first readable column; ``None`` without a row."""
        column = self._pointed.get(link.class_name)
        return row_pointer(column, source, link.row) if column is not None and link.row else None

    def row_oid(self, link: ObjectLink | None, source: int) -> Oid:
        """The same as an object identifier; zeroDotZero without a row."""
        table = self._tables.get(link.class_name) if link is not None and link.row else None
        if table is None or link is None:
            return NO_ROW
        return (*table.entry, RowColumn.NAME, source, link.row)

    def row(self, link: ObjectLink, source: int) -> Row | None:
        """The row of an object that is shown at present."""
        table = self._tables.get(link.class_name)
        return table.rows.get((source, link.row)) if table is not None else None

    def _table(self, lock: Lock, class_lock: ClassLock, key: ClassKey) -> ClassTable:
        table = self._tables.get(str(key))
        if table is None:
            table = ClassTable(self._store, self._summaries, lock, class_lock, key, self._root)
            self._tables[str(key)] = table
            self._pointed[str(key)] = ber.encode_name((*table.entry, RowColumn.NAME))
        else:
            table.extend(class_lock)
        return table
