"""The columns of objects' rows that each restricted view shows, by the policy's tables of the feed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.feed.access import AccessTables, Vector
from gateway.feed.records import ObjectRecord
from gateway.feed.values import FeedValue, ObjectLink, links_in
from gateway.snmp.mirror import Mirror
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.table import Table
from gateway.snmp.table_parts import TablePart
from gateway.snmp.tables.rows import BoundClass, Masks, bits_of

MAX_REMEMBERED: Final = 4_096
"""The maximum number of different vectors of one version of a class whose columns are remembered."""

_NAMES: Final = bits_of((RowColumn.NAME, RowColumn.NATIVE_ID, RowColumn.FULL_NAME))
_OWN: Final = bits_of(RowColumn) & ~_NAMES
_PARENT: Final = bits_of((RowColumn.PARENT,))


class ShownColumns:
    """See `gateway.snmp.tables.rows.RowAccess`.

    Args:
        source_name: returns the name of a source.
    """

    def __init__(self, source_name: Callable[[int], str]) -> None:
        self._source_name = source_name
        self._access = AccessTables()
        self._clearances: tuple[int, ...] = ()
        self._views: tuple[Mirror, ...] = ()
        self._tables: dict[Table, None] = {}

    def change(self, access: AccessTables, views: Mapping[int, Mirror]) -> None:
        """Use these views, by the number of their clearances; they show no row until it is shown again."""
        self._access = access
        self._clearances, self._views = tuple(views), tuple(views.values())
        for table in self._tables:
            self._divide(table)

    def attach(self, table: Table) -> None:
        """Have the restricted views show parts of a table."""
        self._tables[table] = None
        self._divide(table)

    def detach(self, table: Table) -> None:
        """Forget a table that is removed."""
        del self._tables[table]

    def settle(self) -> None:
        """Share the columns of which views show all rows: a snapshot is complete."""
        for table in self._tables:
            for part in table.parts:
                part.settle()

    def allowed(self, bound: BoundClass, record: ObjectRecord) -> Masks:
        """Return the columns that each view may show of an object."""
        if not self._clearances:
            return ()
        source = self._source_name(record.source)
        vector = self._access.vector(record.class_number, source, record.stable_name)
        return self._columns(bound, record.class_number, vector)

    def whole(self, bound: BoundClass, class_number: int, source: int) -> Masks:
        """Return the columns that each view shows of all objects of a version of a class of a source.

        Columns that the version does not have are among them.
        """
        access, name = self._access.of_class(class_number), self._source_name(source)
        if access is None:
            return (0,) * len(self._clearances)
        absent = ~(bits_of(RowColumn) | sum(bound.binding.bits))
        shown = self._columns(bound, class_number, access.whole(name))
        return tuple(mask | absent if mask else 0 for mask in shown)

    def without_hidden(
        self,
        bound: BoundClass,
        allowed: Masks,
        values: Mapping[int, FeedValue | None],
        source: int,
        parent: ObjectLink | None = None,
    ) -> Masks:
        """Return those of the allowed columns that remain, as the values refer to objects that views hide."""
        linking = bound.binding.linking
        links = [
            (bound.binding.bits[position], linking[position], link)
            for position in linking
            for link in links_in(values.get(position))
        ]
        if parent is not None:
            links.append((_PARENT, 0, parent))
        if not links or not any(allowed):
            return allowed
        name = self._source_name(source)
        shown = tuple(
            mask & ~self._hidden(links, clearance, name) if mask else 0
            for mask, clearance in zip(allowed, self._clearances, strict=True)
        )
        return allowed if shown == allowed else shown

    def _hidden(self, links: Sequence[tuple[int, int, ObjectLink]], clearance: int, source: str) -> int:
        hidden = 0
        for columns, naming, link in links:
            if not self._access.reads(clearance, source, link):
                hidden |= columns
            elif columns & naming and not self._access.reads_named(clearance, source, link):
                hidden |= columns & naming
        return hidden

    def _columns(self, bound: BoundClass, class_number: int, vector: Vector) -> Masks:
        known = bound.masks.get(id(vector))
        if known is not None and known[0] is vector:
            return known[1]
        masks = tuple(self._mask(bound, class_number, vector[clearance]) for clearance in self._clearances)
        if len(bound.masks) >= MAX_REMEMBERED:
            bound.masks.clear()
        bound.masks[id(vector)] = vector, masks
        return masks

    def _mask(self, bound: BoundClass, class_number: int, elements: int) -> int:
        access = self._access.of_class(class_number)
        if not elements or access is None:
            return 0
        mask = _OWN if access.shows_parent(elements) else _OWN & ~_PARENT
        mask |= _NAMES if access.names(elements) else 0
        for position, columns in enumerate(bound.binding.bits):
            if elements >> position & 1:
                mask |= columns
        return mask

    def _divide(self, table: Table) -> None:
        for part in table.parts:
            part.close()
        table.parts = [TablePart(table, view) for view in self._views]
