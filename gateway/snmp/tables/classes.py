"""Which table shows a class: from a shipped lock, else from the provisional lock of this site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from gateway.feed.records import ObjectLink
from gateway.model.schema import ClassKey, ClassSchema
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import date_of
from gateway.snmp.lock import ClassLock, Lock
from gateway.snmp.lock_growth import LockFullError, extend
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.store import Store
from gateway.snmp.tables.bindings import row_pointer
from gateway.snmp.tables.rows import BoundClass, ClassTable
from gateway.snmp.tables.summaries import Summaries

SaveProvisional: TypeAlias = Callable[[Lock, Mapping[str, ClassSchema]], None]
"""Keeps a provisional lock that has grown; beside it the schemas seen in this run, for the MIB's text."""

Log: TypeAlias = Callable[[str, str], None]
"""Told of what an operator may want to know: a fixed event name, and a detail for people."""


class ClassTables:
    """All tables of classes, made as classes are told.

    Args:
        store: where tables are made.
        summaries: what counts and sums their rows.
        root: the configured root.
        locks: the shipped locks.
        provisional: the lock of this site for everything else.
        save: called with each new state of ``provisional``; may raise ``OSError``.
        log: called once for each class or element that cannot be shown.
        clock: now, in nanoseconds since 1970-01-01 UTC.
    """

    def __init__(
        self,
        store: Store,
        summaries: Summaries,
        *,
        root: Oid,
        locks: Sequence[Lock],
        provisional: Lock,
        save: SaveProvisional,
        log: Log,
        clock: Callable[[], int],
    ) -> None:
        self.provisional = provisional
        self.classes_not_shown: set[str] = set()
        self.elements_not_shown: set[tuple[str, str]] = set()
        self._store = store
        self._summaries = summaries
        self._root = root
        self._locks = tuple(locks)
        self._save = save
        self._log = log
        self._clock = clock
        self._tables: dict[str, ClassTable] = {}
        self._pointed: dict[str, bytes] = {}
        self._provisional_schemas: dict[str, ClassSchema] = {}
        self._unsaved = False
        self._save_error = ""

    def bind(self, schema: ClassSchema) -> BoundClass | None:
        """The table for one version of a class; ``None`` (logged and counted) where there is no room."""
        found = self._shipped(schema.key) or self._site(schema)
        if found is None:
            return None
        lock, class_lock = found
        table = self._table(lock, class_lock, schema.key)
        bound = table.bind(schema, self.pointer)
        self._report(schema.key, bound.binding.not_shown)
        return bound

    def save(self) -> None:
        """Keep what the provisional lock has got since the last call: once a message, not once a class.

        Where it cannot be kept it is logged and tried again with the next call; what is shown stays shown.
        """
        if not self._unsaved:
            return
        try:
            self._save(self.provisional, self._provisional_schemas)
        except OSError as error:
            if str(error) != self._save_error:
                self._log("provisional-lock-not-saved", f"numbers may change with a restart: {error}")
            self._save_error = str(error)
        else:
            self._unsaved, self._save_error = False, ""

    def pointer(self, link: ObjectLink, source: int) -> bytes | None:
        """The TLV of a RowPointer to an object: its first readable column; ``None`` without a table."""
        column = self._pointed.get(link.class_name)
        return None if column is None else row_pointer(column, source, link.row)

    def _shipped(self, key: ClassKey) -> tuple[Lock, ClassLock] | None:
        for lock in self._locks:
            class_lock = lock.find(key)
            if class_lock is not None and class_lock.elements:  # one without elements is only reserved
                return lock, class_lock
        return None

    def _site(self, schema: ClassSchema) -> tuple[Lock, ClassLock] | None:
        name = str(schema.key)
        try:
            grown = extend(self.provisional, [schema], date_of(self._clock()), retire=False)
        except (LockFullError, ValueError) as error:
            if name not in self.classes_not_shown:
                self.classes_not_shown.add(name)
                self._log("class-not-shown", f"{name}: {error}")
            return None
        self._provisional_schemas[name] = schema
        if grown is not self.provisional:
            self.provisional = grown
            self._unsaved = True
        class_lock = grown.find(schema.key)
        assert class_lock is not None
        return grown, class_lock

    def _table(self, lock: Lock, class_lock: ClassLock, key: ClassKey) -> ClassTable:
        table = self._tables.get(str(key))
        if table is None:
            table = ClassTable(self._store, self._summaries, lock, class_lock, key, self._root)
            self._tables[str(key)] = table
            self._pointed[str(key)] = ber.encode_name((*table.entry, RowColumn.NAME))
        else:
            table.extend(class_lock)
        return table

    def _report(self, key: ClassKey, not_shown: Sequence[str]) -> None:
        for name in not_shown:
            if (str(key), name) not in self.elements_not_shown:
                self.elements_not_shown.add((str(key), name))
                self._log("element-not-in-lock", f"{key}.{name}: the shipped lock has no column for it")
