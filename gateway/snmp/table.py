"""Tables of the store: rows of encoded values by column, in lexicographic order, holes skipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.row_order import RowOrder

# A column with few holes walks its table's order and steps over them, at most this many in one request; with
# more it keeps an order of its own. The gap between the two numbers pays for making that order.
_MOST_HOLES_STEPPED_OVER = 128
_FEW_HOLES = 32
_BULK_SHARE = 16
_REMEMBERED_VALUE_LENGTH = 64


class Region(Protocol):
    """A column or a scalar: all instances of one object type, at ``prefix`` (content octets of a name)."""

    prefix: bytes
    key: bytes

    def read(self, suffix: bytes) -> bytes | None:
        """The value TLV of the instance that ``suffix`` names."""

    def walk(self, suffix: bytes, limit: int, varbinds: list[bytes], *, counter64: bool) -> bytes | None:
        """Append up to ``limit`` encoded varbinds after ``suffix``; the name of the last, if any."""


class Directory(Protocol):
    """What a column tells when its first cell comes and its last one goes."""

    def activate(self, region: Region) -> None:
        """The region has instances now."""

    def deactivate(self, region: Region) -> None:
        """The region has no instance any more."""


class Rows:
    """What the columns of one table share: names, keys and order of its rows, by slot."""

    __slots__ = ("keys", "order", "slots", "suffixes")

    def __init__(self) -> None:
        self.slots: dict[bytes, int] = {}
        self.suffixes: list[bytes] = []
        self.keys: list[bytes] = []
        self.order = RowOrder()


class Column:
    """One column: a value TLV or ``None`` by slot, and the order in which its filled cells are walked."""

    __slots__ = ("_directory", "_filled", "_heads", "_order", "_rows", "cells", "key", "prefix", "tag")

    def __init__(self, oid: Oid, rows: Rows, directory: Directory) -> None:
        self.prefix = ber.encode_name(oid)
        self.key = ber.sort_key(oid)
        self.cells: list[bytes | None] = []
        self.tag = 0
        self._rows = rows
        self._order = rows.order
        self._directory = directory
        self._filled = 0
        self._heads: dict[tuple[int, int], bytes] = {}

    def read(self, suffix: bytes) -> bytes | None:
        """The value TLV of the row that ``suffix`` names, ``None`` for a hole or no such row."""
        slot = self._rows.slots.get(suffix)
        return None if slot is None else self.cells[slot]

    def walk(self, suffix: bytes, limit: int, varbinds: list[bytes], *, counter64: bool) -> bytes | None:
        """Append up to ``limit`` encoded varbinds after ``suffix``; the name of the last, if any.

        Costs a bisection and a slice; at most 128 holes are stepped over. Without ``counter64`` a column of
        that type is passed over whole (RFC 3584 section 4.2.2.1), however many rows it has.
        """
        if not self._filled or (self.tag == ber.COUNTER64 and not counter64):
            return None
        rows, cells, heads = self._rows, self.cells, self._heads
        suffixes = rows.suffixes
        key: bytes | None = None
        if suffix:
            row = rows.slots.get(suffix)
            key = ber.sort_key(ber.decode_sub_identifiers(suffix)) if row is None else rows.keys[row]
        slots = self._filled_after(key, limit)
        if not slots:
            return None
        for slot in slots:
            suffix = suffixes[slot]
            value = cells[slot] or b""
            head = heads.get((len(suffix), len(value))) or self._head(len(suffix), len(value))
            varbinds.append(head + suffix + value)
        return self.prefix + suffix

    def fill(self, slot: int, value: bytes | None) -> None:
        """Set one cell of a row that the table's order already holds."""
        before = self.cells[slot]
        if value is not None:
            self.check(value)
        self.cells[slot] = value
        if value is not None and before is None:
            self._filled += 1
            if self._order is not self._rows.order:
                self._order.insert(self._rows.keys[slot], slot)
            if self._filled == 1:
                self._directory.activate(self)
        elif value is None and before is not None:
            self._emptied(slot)
        self.settle()

    def drop(self, slot: int) -> None:
        """Empty the cell of a row that has just left the table's order."""
        if self.cells[slot] is not None:
            self.cells[slot] = None
            self._emptied(slot)
        self.settle()

    def check(self, value: bytes) -> None:
        """Learn the column's type from its first value; refuse a value of another type (``ValueError``)."""
        if self.tag != value[0]:
            if self.tag:
                raise ValueError(f"a column of type 0x{self.tag:02x} cannot hold one of 0x{value[0]:02x}")
            self.tag = value[0]

    def settle(self) -> None:
        """Choose between the table's order and an own one by the number of holes."""
        holes = len(self._rows.slots) - self._filled
        if self._order is self._rows.order:
            if holes > _MOST_HOLES_STEPPED_OVER:
                self._order = self._order.where_filled(self.cells)
        elif holes <= _FEW_HOLES:
            self._order = self._rows.order

    def recount(self) -> None:
        """Bring count, order and directory up to date after many cells were set directly."""
        had_cells = self._filled > 0
        self._filled = len(self.cells) - self.cells.count(None)
        self._order = self._rows.order
        if len(self._rows.slots) - self._filled > _FEW_HOLES:
            self._order = self._order.where_filled(self.cells)
        if self._filled and not had_cells:
            self._directory.activate(self)
        elif had_cells and not self._filled:
            self._directory.deactivate(self)

    def close(self) -> None:
        """Leave the directory."""
        if self._filled:
            self._directory.deactivate(self)

    def _emptied(self, slot: int) -> None:
        self._filled -= 1
        if self._order is not self._rows.order:
            self._order.remove(self._rows.keys[slot])
        if not self._filled:
            self._directory.deactivate(self)

    def _filled_after(self, key: bytes | None, limit: int) -> list[int]:
        order, cells = self._order, self.cells
        slots = order.after(key, limit)
        holes = len(self._rows.slots) - self._filled
        if order is not self._rows.order or not holes:
            return slots
        filled = [slot for slot in slots if cells[slot] is not None]
        if len(filled) < limit and len(slots) == limit:
            slots = order.after(key, limit + holes)
            filled = [slot for slot in slots if cells[slot] is not None][:limit]
        return filled

    def _head(self, suffix_length: int, value_length: int) -> bytes:
        """What stands before the suffix in a varbind of these lengths; remembered for short values."""
        name_length = len(self.prefix) + suffix_length
        name_head = bytes((ber.OBJECT_IDENTIFIER,)) + ber.encode_length(name_length)
        varbind_length = ber.encode_length(len(name_head) + name_length + value_length)
        head = bytes((ber.SEQUENCE,)) + varbind_length + name_head + self.prefix
        if value_length < _REMEMBERED_VALUE_LENGTH:
            self._heads[suffix_length, value_length] = head
        return head


class Table:
    """Rows of one conceptual table. Made by `Store.table`, never directly.

    Rows are named by their index (the sub-identifiers after the column's); cells are value TLVs. Column
    numbers that the table does not have raise ``KeyError``.

    Args:
        entry: the OID of the conceptual row (``...Entry``).
        columns: the columns' sub-identifiers, ascending.
        directory: told which columns have cells.
    """

    def __init__(self, entry: Oid, columns: Sequence[int], directory: Directory) -> None:
        self.entry = entry
        self._rows = Rows()
        self._free: list[int] = []
        self._columns = {number: Column((*entry, number), self._rows, directory) for number in columns}

    @property
    def columns(self) -> Mapping[int, Column]:
        """The columns by number; for the store's own use."""
        return self._columns

    def __len__(self) -> int:
        return len(self._rows.slots)

    def __contains__(self, index: Oid) -> bool:
        return ber.encode_sub_identifiers(index) in self._rows.slots

    def indexes(self) -> Iterator[Oid]:
        """The index of each row, in lexicographic order."""
        keys = self._rows.keys
        return (ber.from_sort_key(keys[slot]) for slot in self._rows.order.slots())

    def cell(self, index: Oid, column: int) -> bytes | None:
        """The value TLV of one cell; ``None`` for a hole. Raises ``KeyError`` for a row that is not there."""
        return self._columns[column].cells[self._slot(index)]

    def put(self, index: Oid, values: Mapping[int, bytes | None]) -> None:
        """Insert a row, or change some cells of one; ``None`` leaves a hole, and so do columns not given.

        All values of a column are of one type; another raises ``ValueError``, as does an index that is
        empty, too long for a name, or out of range.
        """
        slot = self._rows.slots.get(ber.encode_sub_identifiers(index))
        is_new = slot is None
        if slot is None:
            slot = self._insert(index)
        columns = self._columns
        for number, value in values.items():
            column = columns[number]
            cells = column.cells
            if value is not None and cells[slot] is not None and value[0] == column.tag:
                cells[slot] = value
            else:
                column.fill(slot, value)
        if is_new:
            for column in columns.values():
                column.settle()

    def remove(self, index: Oid) -> None:
        """Take a row away. Raises ``KeyError`` if it is not there."""
        rows = self._rows
        slot = rows.slots.pop(ber.encode_sub_identifiers(index))
        rows.order.remove(rows.keys[slot])
        for column in self._columns.values():
            column.drop(slot)
        rows.suffixes[slot] = rows.keys[slot] = b""
        self._free.append(slot)

    def replace_column(self, column: int, cells: Mapping[Oid, bytes | None]) -> None:
        """Set the cells of one column in many rows at once; rows not named keep theirs.

        For a large part of the table this costs one pass over it, and not a search for each cell that
        becomes or ceases to be a hole. Raises ``KeyError`` for a row that is not there, ``ValueError`` for a
        value of another type than the column's; nothing is changed then.
        """
        target = self._columns[column]
        values = [(self._slot(index), value) for index, value in cells.items()]
        for _, value in values:
            if value is not None:
                target.check(value)
        if len(values) * _BULK_SHARE < len(self):
            for slot, value in values:
                target.fill(slot, value)
            return
        for slot, value in values:
            target.cells[slot] = value
        target.recount()

    def close(self) -> None:
        """Leave the directory; the store calls it when the table is removed."""
        for column in self._columns.values():
            column.close()

    def _slot(self, index: Oid) -> int:
        return self._rows.slots[ber.encode_sub_identifiers(index)]

    def _insert(self, index: Oid) -> int:
        if not 0 < len(index) <= ber.MAX_SUB_IDENTIFIERS - len(self.entry) - 1:
            raise ValueError(f"an index of {len(index)} sub-identifiers does not fit under {self.entry}")
        rows = self._rows
        suffix, key = ber.encode_sub_identifiers(index), ber.sort_key(index)
        if self._free:
            slot = self._free.pop()
            rows.suffixes[slot], rows.keys[slot] = suffix, key
        else:
            slot = len(rows.suffixes)
            rows.suffixes.append(suffix)
            rows.keys.append(key)
            for column in self._columns.values():
                column.cells.append(None)
        rows.slots[suffix] = slot
        rows.order.insert(key, slot)
        return slot
