"""The tables of all classes, and the rows to which references point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from gateway.feed.values import ObjectLink
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.snmp import ber
from gateway.snmp.ber import NO_ROW, Oid
from gateway.snmp.oid_registry import ClassEntry, ElementEntry, OidRegistry
from gateway.snmp.registry_lookup import OidRegistries
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.store import Store
from gateway.snmp.tables.rows import BoundClass, ClassTable, Row, RowAccess, row_pointer
from gateway.snmp.tables.summaries import Summaries

_INDEX: Final = 2  # source and row
_COLUMN_AND_INDEX: Final = 3


class Target(msgspec.Struct, frozen=True):
    """The object to whose row an instance belongs.

    Attributes:
        source: the number of the source.
        class_name: ``package:class``.
        row: the row of the object.
        schema: the schema of its class; ``None`` where the object does not exist any more.
        stable_name: the stable name of the object; empty where it does not exist any more.
        life: the number of the last end in its source before the object's present life.
        ends: the number of the last end in its source; ``None`` where the object does not exist.
    """

    source: int
    class_name: str
    row: int
    schema: ClassSchema | None = None
    stable_name: str = ""
    life: int = 0
    ends: int | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of an object, which a SET names.

    Attributes:
        target: the object.
        entry: the registry's entry of its column; ``None`` where the column shows no element.
        element: the element in the object's version of the class; ``None`` where that version lacks it, or
            the object does not exist.
        shown: its cell as it is, or would be if it were not withheld; ``None`` for no value.
        whole_octets: the length of the whole value in octets, where a second column has it.
    """

    target: Target
    entry: ElementEntry | None
    element: Element | None = None
    shown: bytes | None = None
    whole_octets: int | None = None


class ManagedObjects(Protocol):
    """The look-up of variables and objects by object identifier (`gateway.snmp.projection.Projection`)."""

    def variable(self, name: Oid) -> Variable | None:
        """Return the variable of this name; ``None`` outside the tables of objects."""

    def target(self, instance: Oid) -> Target | None:
        """Return the object in whose row an instance is; ``None`` outside the tables of objects."""

    def absent(self, name: Oid) -> Variable | None:
        """Return the variable of this name as of a row that is not there; it takes as long for any row."""


class ClassTables:
    """The tables of all classes; each is made when its class is received.

    Args:
        store: the store in which tables are made.
        summaries: the counts and sums of their rows.
        registries: the registries that have the numbers of classes.
        root: the configured root.
        access: decides what restricted views show of rows.
        last_end: returns the number of the last end of an object of a source.
    """

    def __init__(
        self,
        store: Store,
        summaries: Summaries,
        registries: OidRegistries,
        root: Oid,
        access: RowAccess,
        last_end: Callable[[int], int] = lambda _source: 0,
    ) -> None:
        self._access = access
        self._last_end = last_end
        self._store = store
        self._summaries = summaries
        self._registries = registries
        self._root = root
        self._tables: dict[str, ClassTable] = {}
        self._pointed: dict[str, bytes] = {}
        self._names: dict[Oid, str] = {}  # of classes, by the entry of their table

    def bind(self, schema: ClassSchema) -> BoundClass | None:
        """Bind a version of a class to its table; ``None`` (logged and counted) where there is no room."""
        found = self._registries.class_entry(schema)
        if found is None:
            return None
        table = self._table(*found, schema.key)
        bound = table.bind(schema, self.pointer)
        self._registries.report(schema.key, bound.binding.not_shown)
        return bound

    def pointer(self, link: ObjectLink, source: int) -> bytes | None:
        """Return the TLV of a RowPointer to an object: its first readable column; ``None`` without a row."""
        column = self._pointed.get(link.class_name)
        return row_pointer(column, source, link.row) if column is not None and link.row else None

    def row_oid(self, link: ObjectLink | None, source: int) -> Oid:
        """Return the value of a RowPointer to an object, not encoded; zeroDotZero without a row."""
        table = self._tables.get(link.class_name) if link is not None and link.row else None
        if table is None or link is None:
            return NO_ROW
        return (*table.entry, RowColumn.NAME, source, link.row)

    def row(self, link: ObjectLink, source: int) -> Row | None:
        """Return the row that shows an object at present; ``None`` if there is none."""
        table = self._tables.get(link.class_name)
        return table.rows.get((source, link.row)) if table is not None else None

    def target(self, instance: Oid) -> Target | None:
        """Return the object in whose row an instance is, or would be; ``None`` outside the tables of classes.

        The column does not matter, nor whether the object is still there.
        """
        # A name of any other length than an instance's is the prefix of no table.
        class_name = self._names.get(instance[:-_COLUMN_AND_INDEX])
        if class_name is None:
            return None
        table, index = self._tables[class_name], instance[-_INDEX:]
        row = table.rows.get(index)
        if row is None:
            return Target(index[0], class_name, index[1])
        name, ends = table.stable_name(row), self._last_end(index[0])
        return Target(index[0], class_name, index[1], row.bound.binding.schema, name, row.life, ends)

    def variable(self, name: Oid) -> Variable | None:
        """Return the variable of that name; ``None`` outside the tables of classes."""
        target = self.target(name)
        if target is None:
            return None
        table, column = self._tables[target.class_name], name[-_COLUMN_AND_INDEX]
        row = table.rows.get(name[-_INDEX:])
        entry, element = table.element(column, row)
        if row is None or entry is None:
            return Variable(target, entry)
        return Variable(target, entry, element, *table.shown(row, entry))

    def absent(self, name: Oid) -> Variable | None:
        """Return the variable of that name as of a row that is not there; ``None`` outside the tables."""
        class_name = self._names.get(name[:-_COLUMN_AND_INDEX])
        if class_name is None:
            return None
        column, source, row = name[-_COLUMN_AND_INDEX:]
        return Variable(Target(source, class_name, row), self._tables[class_name].element(column, None)[0])

    def forget_roles(self) -> None:
        """Show restricted views no row, until it is shown again."""
        for table in self._tables.values():
            for row in table.rows.values():
                row.allowed = row.shown = ()

    def _table(self, registry: OidRegistry, class_entry: ClassEntry, key: ClassKey) -> ClassTable:
        table = self._tables.get(str(key))
        if table is None:
            table = ClassTable(
                self._store, self._summaries, registry, class_entry, key, self._root, self._access
            )
            self._tables[str(key)] = table
            self._names[table.entry] = str(key)
            # A RowPointer names the first accessible column (RFC 2579 section 2); the index column is not
            # accessible.
            self._pointed[str(key)] = ber.encode_name((*table.entry, RowColumn.NAME))
        else:
            # A further version of the class may have given the registry new columns.
            table.extend(class_entry)
        return table
