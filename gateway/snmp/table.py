"""Tables of the store: rows of encoded values by column, walked in lexicographic order, holes skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.row_order import LAST, RowOrder, RowSet

# Heads are remembered by two lengths: this bounds how many a column keeps. Longer values vary in length, and
# are few.
_REMEMBERED_VALUE_LENGTH = 64
_HOLES_STEPPED_OVER = 8
"""So many are cheaper to step over, one by one, than to leap over."""


class Region(Protocol):
    """A column or a scalar: all instances of one object type, at ``prefix`` (content octets of a name)."""

    prefix: bytes
    key: bytes

    def read(self, suffix: bytes) -> bytes | None:
        """The value TLV of the instance that ``suffix`` names."""

    def walk(self, suffix: bytes, limit: int, varbinds: list[bytes], passed_over: int) -> bytes | None:
        """Append up to ``limit`` encoded varbinds after ``suffix``; the name of the last, if any.

        Args:
            suffix: what stands behind the prefix in a name; empty for the start of the region.
            limit: how many at most, 1 or more.
            varbinds: where to.
            passed_over: type of the objects that are left out; no type is 0.
        """


class Directory(Protocol):
    """What a column calls when its first cell comes and its last one goes."""

    def activate(self, region: Region) -> None:
        """The region has instances now."""

    def deactivate(self, region: Region) -> None:
        """The region has no instance any more."""


class Rows:
    """What the columns of one table share: names, keys and order of its rows.

    ``slots`` maps the encoded index to the slot, ``suffixes`` and ``keys`` are by slot.
    """

    __slots__ = ("keys", "order", "slots", "suffixes")

    def __init__(self) -> None:
        self.slots: dict[bytes, int] = {}
        self.suffixes: list[bytes] = []
        self.keys: list[bytes] = []
        self.order = RowOrder()


class Column:
    """One column: a value TLV or ``None`` (a hole) by slot, and which rows have a value.

    ``tag`` is the type of its values, 0 until the first one.
    """

    __slots__ = ("_heads", "_rows", "cells", "filled", "key", "prefix", "tag")

    def __init__(self, oid: Oid, rows: Rows) -> None:
        self.prefix = ber.encode_name(oid)
        self.key = ber.sort_key(oid)
        self.cells: list[bytes | None] = []
        self.filled = RowSet()
        self.tag = 0
        self._rows = rows
        self._heads: dict[tuple[int, int], bytes] = {}

    def read(self, suffix: bytes) -> bytes | None:
        """The value TLV of the row that ``suffix`` names, ``None`` for a hole or no such row."""
        slot = self._rows.slots.get(suffix)
        return None if slot is None else self.cells[slot]

    def walk(self, suffix: bytes, limit: int, varbinds: list[bytes], passed_over: int) -> bytes | None:
        """Append up to ``limit`` encoded varbinds after ``suffix``; the name of the last, if any.

        Costs a look-up for a row that is there, a bisection for any other. A column of the type
        ``passed_over`` is passed over whole, however many rows it has.
        """
        if self.tag == passed_over:
            return None
        rows, cells, heads = self._rows, self.cells, self._heads
        suffixes, following = rows.suffixes, rows.order.following
        row = rows.slots.get(suffix)
        slot = self._first_after(suffix) if row is None else following[row]
        last = head = b""
        suffix_length = value_length = -1
        holes = 0
        while slot != LAST:
            value = cells[slot]
            if value is None:
                holes += 1
                slot = following[slot] if holes % _HOLES_STEPPED_OVER else self._leap(slot)
                continue
            last = suffixes[slot]
            if len(last) != suffix_length or len(value) != value_length:
                suffix_length, value_length = len(last), len(value)
                # Varbinds of the same lengths begin with the same octets.
                head = heads.get((suffix_length, value_length)) or self._head(suffix_length, value_length)
            varbinds.append(head + last + value)
            limit -= 1
            if not limit:
                break
            slot = following[slot]
        return self.prefix + last if last else None

    def check(self, value: bytes) -> None:
        """Learn the column's type from its first value; refuse a value of another type (``ValueError``)."""
        if self.tag != value[0]:
            if self.tag:
                raise ValueError(f"a column of type 0x{self.tag:02x} cannot hold one of 0x{value[0]:02x}")
            self.tag = value[0]

    def _first_after(self, suffix: bytes) -> int:
        """The slot of the first row after what is no row's suffix; the first of all if that is empty."""
        key = ber.sort_key(ber.decode_sub_identifiers(suffix))
        return self._rows.order.slot_at(*self._rows.order.place_after(key))

    def _leap(self, slot: int) -> int:
        """The slot of the first row with a value after this one, which is a hole, however far away it is."""
        order = self._rows.order
        place = self.filled.first_from(*order.place_of(self._rows.keys[slot]))
        return LAST if place is None else order.slot_at(*place)

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
        directory: learns which columns have cells.
    """

    def __init__(self, entry: Oid, columns: Sequence[int], directory: Directory) -> None:
        self.entry = entry
        self._rows = Rows()
        self._free: list[int] = []
        self._columns = {number: Column((*entry, number), self._rows) for number in columns}
        self._directory = directory

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
        return (ber.from_sort_key(keys[slot]) for slots in self._rows.order.slots for slot in slots)

    def cell(self, index: Oid, column: int) -> bytes | None:
        """The value TLV of one cell; ``None`` for a hole. Raises ``KeyError`` for a row that is not there."""
        return self._columns[column].cells[self._slot(index)]

    def cells(self, index: Oid, columns: Iterable[int]) -> list[bytes | None]:
        """The cells of a row in these columns; all are holes where there is no such row."""
        slot = self._rows.slots.get(ber.encode_sub_identifiers(index))
        return [None if slot is None else self._columns[column].cells[slot] for column in columns]

    def row(self, index: Oid) -> dict[int, bytes]:
        """The cells of one row by column, holes left out. Raises ``KeyError`` for a row that is not there."""
        slot = self._slot(index)
        return {
            number: value
            for number, column in self._columns.items()
            if (value := column.cells[slot]) is not None
        }

    def put(self, index: Oid, values: Mapping[int, bytes | None]) -> None:
        """Insert a row, or change some cells of one; ``None`` leaves a hole, and so do columns not given.

        All values of a column are of one type; another raises ``ValueError``, as does an index that is
        empty, too long for a name, or out of range.
        """
        rows = self._rows
        suffix = ber.encode_sub_identifiers(index)
        slot = rows.slots.get(suffix)
        if slot is None:
            self._insert(index, suffix, values)
            return
        place = None
        for number, value in values.items():
            column = self._columns[number]
            cells = column.cells
            if value is not None and cells[slot] is not None and value[0] == column.tag:
                cells[slot] = value
            elif value is not None or cells[slot] is not None:
                place = place or rows.order.place_of(rows.keys[slot])
                self._fill(column, slot, place, value)

    def remove(self, index: Oid) -> None:
        """Take a row away. Raises ``KeyError`` if it is not there."""
        rows = self._rows
        slot = rows.slots.pop(ber.encode_sub_identifiers(index))
        block, position = rows.order.place_of(rows.keys[slot])
        block_removed = rows.order.remove(block, position)
        for column in self._columns.values():
            column.cells[slot] = None
            # A set of rows without members has no bits to move.
            if column.filled:
                column.filled.row_removed(block, position)
                if not column.filled:
                    self._directory.deactivate(column)
            if block_removed:
                column.filled.block_removed(block)
        # Slots never move, so that no column has to be copied when a row leaves; the next new row takes this
        # one.
        rows.suffixes[slot] = rows.keys[slot] = b""
        self._free.append(slot)

    def replace_column(self, column: int, cells: Mapping[Oid, bytes | None]) -> None:
        """Set the cells of one column in many rows; rows not named keep theirs.

        Raises ``KeyError`` for a row that is not there, ``ValueError`` for a value of another type than the
        column's; nothing is changed then.
        """
        target = self._columns[column]
        values = [(self._slot(index), value) for index, value in cells.items()]
        # All types are checked before the first cell changes.
        for _, value in values:
            if value is not None:
                target.check(value)
        order, keys = self._rows.order, self._rows.keys
        for slot, value in values:
            if value is not None and target.cells[slot] is not None:
                target.cells[slot] = value
            elif value is not None or target.cells[slot] is not None:
                self._fill(target, slot, order.place_of(keys[slot]), value)

    def close(self) -> None:
        """Leave the directory; the store calls it when the table is removed."""
        for column in self._columns.values():
            if column.filled:
                self._directory.deactivate(column)

    def _slot(self, index: Oid) -> int:
        return self._rows.slots[ber.encode_sub_identifiers(index)]

    def _fill(self, column: Column, slot: int, place: tuple[int, int], value: bytes | None) -> None:
        """Make a hole a filled cell or a filled cell a hole."""
        if value is not None:
            column.check(value)
            if not column.filled:
                self._directory.activate(column)
            column.filled.add(*place)
        else:
            column.filled.discard(*place)
            if not column.filled:
                self._directory.deactivate(column)
        column.cells[slot] = value

    def _insert(self, index: Oid, suffix: bytes, values: Mapping[int, bytes | None]) -> None:
        """Insert a row with these cells; where they cannot be its cells, nothing is changed."""
        # The name has the entry, the column and the index, and all checks come before the first change.
        if not 0 < len(index) < ber.MAX_SUB_IDENTIFIERS - len(self.entry):
            raise ValueError(f"an index of {len(index)} sub-identifiers does not fit under {self.entry}")
        for number, value in values.items():
            column = self._columns[number]
            if value is not None and value[0] != column.tag:
                column.check(value)
        rows, key = self._rows, ber.sort_key(index)
        slot = self._new_slot(suffix, key)
        block, position = rows.order.place_of(key)
        rows.order.insert(block, position, key, slot)
        must_split = rows.order.is_overfull(block)
        for number, column in self._columns.items():
            value = values.get(number)
            column.cells[slot] = value
            if value is not None and not column.filled:
                self._directory.activate(column)
            column.filled.row_inserted(block, position, is_member=value is not None)
            if must_split:
                column.filled.block_split(block)
        if must_split:
            rows.order.split(block)

    def _new_slot(self, suffix: bytes, key: bytes) -> int:
        rows = self._rows
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
        return slot
