"""What a restricted view shows of a table: rows and columns of it, with no cell copied.

A column of which the view shows all rows is that of the table. One of which it shows some rows has an order
of rows of its own, so that a walk costs what it costs elsewhere; columns that show the same rows share it.
The cells are those of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from gateway.snmp.regions import Region
from gateway.snmp.row_order import RowSet
from gateway.snmp.table import Column, ReadableColumn, Rows, Table


class Shown(Protocol):
    """The regions of a view (`gateway.snmp.mirror.Mirror`)."""

    def show(self, region: Region) -> None:
        """Show a region, without instances yet."""

    def hide(self, region: Region) -> None:
        """Show a region no longer."""

    def activate(self, region: Region) -> None:
        """Take note that a region that is shown has instances now."""

    def deactivate(self, region: Region) -> None:
        """Take note that a region that is shown has no instance any more."""


@dataclass(slots=True, eq=False)
class _OwnColumn:
    """A column that shows some rows of a column of the table, and those that are derived from it."""

    base: Column
    regions: tuple[ReadableColumn, ...]
    filled: RowSet


@dataclass(slots=True, eq=False)
class _Group:
    """Columns that show the same rows: all, none, or some.

    Attributes:
        numbers: their numbers; ``bits`` are the same as bits.
        is_whole: they show all rows, of which there are some.
        rows: the rows that they show; ``None`` where that is all or none.
        own: the columns that show these rows.
    """

    numbers: tuple[int, ...]
    bits: int
    is_whole: bool = False
    rows: Rows | None = None
    own: dict[Column, _OwnColumn] = field(default_factory=dict)


class TablePart:
    """The part of a table that a view shows; see `gateway.snmp.table.Part`. It begins with no rows.

    Args:
        table: the table.
        view: the view. It follows the store of the table, and so knows when columns have instances.
    """

    def __init__(self, table: Table, view: Shown) -> None:
        self._table = table
        self._view = view
        self._all = table.rows
        self._masks = [0] * len(self._all.suffixes)
        numbers = tuple(table.kept)
        self._groups = [_Group(numbers, _bits(numbers))]

    def insert(self, slot: int, mask: int) -> None:
        """See `gateway.snmp.table.Part.insert`."""
        if slot == len(self._masks):
            self._masks.append(0)
        self._masks[slot] = mask
        self._split(mask)
        for group in self._groups:
            if group.bits & mask:
                self._join(group, slot)
            elif group.is_whole:
                self._leave(group, slot)

    def change(self, slot: int, mask: int) -> None:
        """See `gateway.snmp.table.Part.change`."""
        former = self._masks[slot]
        if former == mask:
            return
        self._masks[slot] = mask
        self._split(mask)
        for group in self._groups:
            was, is_member = bool(group.bits & former), bool(group.bits & mask)
            if is_member and not was:
                self._join(group, slot)
            elif was and not is_member:
                self._leave(group, slot)

    def remove(self, slot: int) -> None:
        """See `gateway.snmp.table.Part.remove`."""
        mask, self._masks[slot] = self._masks[slot], 0
        for group in self._groups:
            if group.bits & mask and group.rows is not None:
                self._remove_from(group, group.rows, slot)
            elif group.is_whole and not self._all.slots:
                self._hide_whole(group)

    def cell_changed(self, column: Column, slot: int) -> None:
        """See `gateway.snmp.table.Part.cell_changed`."""
        suffix, key = self._all.suffixes[slot], self._all.keys[slot]
        for group in self._groups:
            own = group.own.get(column)
            if own is None or group.rows is None or suffix not in group.rows.slots:
                continue
            place = group.rows.order.place_of(key)
            if column.cells[slot] is not None:
                self._note_value(own)
                own.filled.add(*place)
            elif own.filled:
                own.filled.discard(*place)
                self._note_emptied(own)

    def close(self) -> None:
        """See `gateway.snmp.table.Part.close`."""
        for group in self._groups:
            self._hide(group)

    def settle(self) -> None:
        """Share the columns of the table again where all rows are shown."""
        for group in self._groups:
            if group.rows is not None and len(group.rows.slots) == len(self._all.slots):
                self._hide(group)
                self._show_whole(group)

    # ---- groups of columns -----------------------------------------------------------------------------

    def _split(self, mask: int) -> None:
        """Divide groups of which a row shows some columns only."""
        groups = []
        for group in self._groups:
            inside = group.bits & mask
            if inside in (0, group.bits):
                groups.append(group)
            else:
                groups += self._halves(group, mask)
        self._groups = groups

    def _halves(self, group: _Group, mask: int) -> Iterator[_Group]:
        # Groups only become smaller, so that a table is divided at most as often as it has columns.
        members = [] if group.rows is None else list(_in_order(group.rows))
        is_whole = group.is_whole
        self._hide(group)
        for is_inside in (True, False):
            numbers = tuple(number for number in group.numbers if bool(mask >> number & 1) is is_inside)
            half = _Group(numbers, _bits(numbers))
            if is_whole:
                self._show_whole(half)
            for slot in members:
                self._insert_into(half, slot)
            yield half

    def _join(self, group: _Group, slot: int) -> None:
        if group.is_whole:
            return
        if group.rows is None and len(self._all.slots) == 1:
            self._show_whole(group)
        else:
            self._insert_into(group, slot)

    def _leave(self, group: _Group, slot: int) -> None:
        """Take a row of the table out of a group, or keep a new one out."""
        if group.rows is not None:
            self._remove_from(group, group.rows, slot)
            return
        self._hide_whole(group)
        for other in _in_order(self._all):
            if other != slot:
                self._insert_into(group, other)

    def _show_whole(self, group: _Group) -> None:
        group.is_whole = True
        for number in group.numbers:
            column = self._table.kept[number]
            for region in (column, *column.derived):
                self._view.show(region)
                if column.filled:
                    self._view.activate(region)

    def _hide_whole(self, group: _Group) -> None:
        group.is_whole = False
        for number in group.numbers:
            column = self._table.kept[number]
            for region in (column, *column.derived):
                self._view.hide(region)

    def _hide(self, group: _Group) -> None:
        if group.is_whole:
            self._hide_whole(group)
        for own in group.own.values():
            for region in own.regions:
                self._view.hide(region)
        group.rows = None
        group.own.clear()

    # ---- rows of a group --------------------------------------------------------------------------------

    def _own_rows(self, group: _Group) -> Rows:
        rows = Rows()
        rows.suffixes, rows.keys = self._all.suffixes, self._all.keys
        for number in group.numbers:
            column = self._table.kept[number]
            filled = RowSet()
            regions = tuple(
                ReadableColumn.of_rows(region, rows, filled) for region in (column, *column.derived)
            )
            group.own[column] = _OwnColumn(column, regions, filled)
            for region in regions:
                self._view.show(region)
        group.rows = rows
        return rows

    def _insert_into(self, group: _Group, slot: int) -> None:
        rows = group.rows or self._own_rows(group)
        key, order = rows.keys[slot], rows.order
        block, position = order.place_of(key)
        order.insert(block, position, key, slot)
        must_split = order.is_overfull(block)
        for own in group.own.values():
            has_value = own.base.cells[slot] is not None
            if has_value:
                self._note_value(own)
            own.filled.row_inserted(block, position, is_member=has_value)
            if must_split:
                own.filled.block_split(block)
        if must_split:
            order.split(block)
        rows.slots[rows.suffixes[slot]] = slot

    def _remove_from(self, group: _Group, rows: Rows, slot: int) -> None:
        del rows.slots[rows.suffixes[slot]]
        if not rows.slots:
            self._hide(group)
            return
        block, position = rows.order.place_of(rows.keys[slot])
        block_removed = rows.order.remove(block, position)
        for own in group.own.values():
            if own.filled:
                own.filled.row_removed(block, position)
                self._note_emptied(own)
            if block_removed:
                own.filled.block_removed(block)

    def _note_value(self, own: _OwnColumn) -> None:
        """Take note of a value before it is added."""
        if not own.filled:
            own.regions[0].tag = own.base.tag
            for region in own.regions:
                self._view.activate(region)

    def _note_emptied(self, own: _OwnColumn) -> None:
        if not own.filled:
            for region in own.regions:
                self._view.deactivate(region)


def _bits(numbers: tuple[int, ...]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def _in_order(rows: Rows) -> Iterator[int]:
    for slots in rows.order.slots:
        yield from slots
