"""Tables of the store: rows of encoded values by column, walked in lexicographic order, holes skipped.

A column may be derived from another one: it has cells in the same rows, and each is made of the other's when
it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.regions import Directory
from gateway.snmp.row_order import LAST, RowOrder, RowSet

# Heads are remembered by two lengths: this bounds how many a column keeps. Longer values vary in length, and
# are few.
_REMEMBERED_VALUE_LENGTH = 64

_HOLES_STEPPED_OVER = 8
"""The number of holes that are cheaper to step over, one by one, than to leap over."""


class Part(Protocol):
    """What a restricted view shows of a table: it follows the table's rows (`gateway.snmp.table_parts`)."""

    def insert(self, slot: int, mask: int) -> None:
        """Follow the insertion of a row, of which the columns in ``mask`` are shown."""

    def change(self, slot: int, mask: int) -> None:
        """Show other columns of a row."""

    def remove(self, slot: int) -> None:
        """Follow the removal of a row, whose name is still there."""

    def cell_changed(self, column: Column, slot: int) -> None:
        """Follow a cell that became a hole, or that was one."""

    def close(self) -> None:
        """Show nothing any more."""

    def settle(self) -> None:
        """Find the simplest way to show what is shown: many rows have changed."""


class Rows:
    """The rows of one table as its columns share them: their names, keys and order.

    ``slots`` maps the encoded index to the slot, ``suffixes`` and ``keys`` are by slot.
    """

    __slots__ = ("keys", "order", "slots", "suffixes")

    def __init__(self) -> None:
        self.slots: dict[bytes, int] = {}
        self.suffixes: list[bytes] = []
        self.keys: list[bytes] = []
        self.order = RowOrder()


class Derivation(NamedTuple):
    """How a column is derived: ``derive`` returns a TLV of type ``tag`` for one of the column ``base``."""

    base: int
    tag: int
    derive: Callable[[bytes], bytes]


class _Cells(Protocol):
    def __getitem__(self, slot: int, /) -> bytes | None: ...


class _DerivedCells:
    """The cells of a derived column, each made when it is read."""

    __slots__ = ("_cells", "_derive")

    def __init__(self, cells: _Cells, derive: Callable[[bytes], bytes]) -> None:
        self._cells = cells
        self._derive = derive

    def __getitem__(self, slot: int) -> bytes | None:
        cell = self._cells[slot]
        return None if cell is None else self._derive(cell)


class ReadableColumn:
    """One column as requests read it: a value TLV or ``None`` (a hole) by slot, and the rows with a value.

    ``tag`` is the type of its values, 0 until the first one; ``heads`` are results of `head` that are kept.
    """

    __slots__ = ("cells", "filled", "heads", "key", "prefix", "rows", "tag")

    def __init__(self, oid: Oid, rows: Rows, cells: _Cells, filled: RowSet, tag: int) -> None:
        self.prefix = ber.encode_name(oid)
        self.key = ber.sort_key(oid)
        self.cells = cells
        self.filled = filled
        self.tag = tag
        self.rows = rows
        self.heads: dict[tuple[int, int], bytes] = {}

    @classmethod
    def of_rows(cls, other: ReadableColumn, rows: Rows, filled: RowSet) -> ReadableColumn:
        """Return a column with the cells of another one, which shows these rows of it."""
        return cls(ber.decode_name(other.prefix), rows, other.cells, filled, other.tag)

    def read(self, suffix: bytes) -> bytes | None:
        """Return the value TLV of the row that ``suffix`` names, ``None`` for a hole or no such row."""
        slot = self.rows.slots.get(suffix)
        return None if slot is None else self.cells[slot]

    def walk(self, suffix: bytes, limit: int, varbinds: list[bytes], passed_over: int) -> bytes | None:
        """Append up to ``limit`` encoded varbinds after ``suffix``; return the name of the last, if any.

        It costs a look-up for an existing row, a bisection for any other. A column of the type
        ``passed_over`` is left out whole, however many rows it has.
        """
        if self.tag == passed_over:
            return None
        rows, cells, heads = self.rows, self.cells, self.heads
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
                head = heads.get((suffix_length, value_length)) or self.head(suffix_length, value_length)
            varbinds.append(head + last + value)
            limit -= 1
            if not limit:
                break
            slot = following[slot]
        return self.prefix + last if last else None

    def next_varbind(self, suffix: bytes) -> bytes | None:
        """Return the encoded varbind of the row after the one that ``suffix`` names.

        Returns ``None`` unless ``suffix`` names a row, and the next one has a value.
        """
        rows = self.rows
        row = rows.slots.get(suffix)
        if row is None:
            return None
        slot = rows.order.following[row]
        if slot == LAST:
            return None
        value = self.cells[slot]
        if value is None:
            return None
        name = rows.suffixes[slot]
        head = self.heads.get((len(name), len(value))) or self.head(len(name), len(value))
        return head + name + value

    def walk_beside(self, others: Sequence[ReadableColumn], suffix: bytes, limit: int) -> list[bytes] | None:
        """Return the encoded varbinds of this column and others in the ``limit`` rows after ``suffix``.

        They are in the order of rows. Returns ``None`` unless all are columns of the same rows, and each of
        these rows has a cell in each of them.
        """
        rows = self.rows
        for other in others:
            if other.rows is not rows:
                return None
        columns = [(column.cells, column.heads, column) for column in (self, *others)]
        suffixes, following = rows.suffixes, rows.order.following
        row = rows.slots.get(suffix)
        slot = self._first_after(suffix) if row is None else following[row]
        varbinds = []
        while limit:
            if slot == LAST:
                return None
            name = suffixes[slot]
            length = len(name)
            for cells, heads, column in columns:
                value = cells[slot]
                if value is None:
                    return None
                head = heads.get((length, len(value))) or column.head(length, len(value))
                varbinds.append(head + name + value)
            limit -= 1
            slot = following[slot]
        return varbinds

    def _first_after(self, suffix: bytes) -> int:
        """Return the slot of the first row after ``suffix``, which is no row's; ``suffix`` may be empty."""
        key = ber.sort_key(ber.decode_sub_identifiers(suffix))
        return self.rows.order.slot_at(*self.rows.order.place_after(key))

    def _leap(self, slot: int) -> int:
        """Return the slot of the first row with a value after this one, which is a hole, at any distance."""
        order = self.rows.order
        place = self.filled.first_from(*order.place_of(self.rows.keys[slot]))
        return LAST if place is None else order.slot_at(*place)

    def head(self, suffix_length: int, value_length: int) -> bytes:
        """Return the octets before the suffix in a varbind of these lengths; remembered for short values."""
        name_length = len(self.prefix) + suffix_length
        name_head = bytes((ber.OBJECT_IDENTIFIER,)) + ber.encode_length(name_length)
        varbind_length = ber.encode_length(len(name_head) + name_length + value_length)
        head = bytes((ber.SEQUENCE,)) + varbind_length + name_head + self.prefix
        if value_length < _REMEMBERED_VALUE_LENGTH:
            self.heads[suffix_length, value_length] = head
        return head


class Column(ReadableColumn):
    """One column whose values are kept.

    ``derived`` are the columns that are made of it, which have instances when it has.
    """

    __slots__ = ("derived",)

    cells: list[bytes | None]

    def __init__(self, oid: Oid, rows: Rows) -> None:
        super().__init__(oid, rows, [], RowSet(), 0)
        self.derived: list[ReadableColumn] = []

    def check(self, value: bytes) -> None:
        """Set the column's type from its first value; refuse a value of another type (``ValueError``)."""
        if self.tag != value[0]:
            if self.tag:
                raise ValueError(f"a column of type 0x{self.tag:02x} cannot hold one of 0x{value[0]:02x}")
            self.tag = value[0]

    def derive(self, oid: Oid, derivation: Derivation) -> None:
        """Add a column that is made of this one."""
        cells = _DerivedCells(self.cells, derivation.derive)
        self.derived.append(ReadableColumn(oid, self.rows, cells, self.filled, derivation.tag))


class Table:
    """Rows of one conceptual table. Made by `Store.table`, never directly.

    Rows are named by their index (the sub-identifiers after the column's); cells are value TLVs. Column
    numbers that the table does not have raise ``KeyError``.

    Args:
        entry: the OID of the conceptual row (``...Entry``).
        columns: the sub-identifiers of the columns that are kept, ascending.
        derived: further columns, which are made of those. They cannot be written.
        directory: gets reports of the columns that have cells.

    Attributes:
        parts: what restricted views show of the table.
        rows: its rows; for parts only, as ``kept``, its columns that are kept.
    """

    def __init__(
        self, entry: Oid, columns: Sequence[int], derived: Mapping[int, Derivation], directory: Directory
    ) -> None:
        self.entry = entry
        self.parts: list[Part] = []
        self.rows = self._rows = Rows()
        self._free: list[int] = []
        self.kept = self._columns = {number: Column((*entry, number), self._rows) for number in columns}
        for number, derivation in derived.items():
            self._columns[derivation.base].derive((*entry, number), derivation)
        self._directory = directory

    def columns(self) -> Iterator[ReadableColumn]:
        """All columns, also derived ones; for the store's own use."""
        for column in self._columns.values():
            yield column
            yield from column.derived

    def __len__(self) -> int:
        return len(self._rows.slots)

    def __contains__(self, index: Oid) -> bool:
        return ber.encode_sub_identifiers(index) in self._rows.slots

    def indexes(self) -> Iterator[Oid]:
        """Iterate over the index of each row, in lexicographic order."""
        keys = self._rows.keys
        return (ber.from_sort_key(keys[slot]) for slots in self._rows.order.slots for slot in slots)

    def cell(self, index: Oid, column: int) -> bytes | None:
        """Return the value TLV of one cell; ``None`` for a hole. Raises ``KeyError`` without such a row."""
        return self._columns[column].cells[self._slot(index)]

    def cells(self, index: Oid, columns: Iterable[int]) -> list[bytes | None]:
        """Return the cells of a row in these columns; all are holes where there is no such row."""
        slot = self._rows.slots.get(ber.encode_sub_identifiers(index))
        return [None if slot is None else self._columns[column].cells[slot] for column in columns]

    def row(self, index: Oid) -> dict[int, bytes]:
        """Return the cells of one row by column, without holes. Raises ``KeyError`` without such a row."""
        slot = self._slot(index)
        return {
            number: value
            for number, column in self._columns.items()
            if (value := column.cells[slot]) is not None
        }

    def put(self, index: Oid, values: Mapping[int, bytes | None], shown: Sequence[int] | None = None) -> None:
        """Insert a row, or change some cells of one; ``None`` leaves a hole, and so do columns not given.

        ``shown`` has, for each of `parts`, the columns that it shows of the row: bit *n* stands for column
        *n*. Without it a new row is in none of them, and any other row as before.

        All values of a column are of one type; another raises ``ValueError``, as does an index that is
        empty, too long for a name, or out of range.
        """
        rows = self._rows
        suffix = ber.encode_sub_identifiers(index)
        slot = rows.slots.get(suffix)
        if slot is None:
            self._insert(index, suffix, values, shown or ())
            return
        if shown is not None:
            for part, mask in zip(self.parts, shown, strict=False):
                part.change(slot, mask)
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
        """Remove a row. Raises ``KeyError`` if it is not there."""
        rows = self._rows
        slot = rows.slots.pop(ber.encode_sub_identifiers(index))
        for part in self.parts:
            part.remove(slot)
        block, position = rows.order.place_of(rows.keys[slot])
        block_removed = rows.order.remove(block, position)
        for column in self._columns.values():
            column.cells[slot] = None
            # A set of rows without members has no bits to move.
            if column.filled:
                column.filled.row_removed(block, position)
                if not column.filled:
                    self._deactivate(column)
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
        for part in self.parts:
            part.close()
        for column in self._columns.values():
            if column.filled:
                self._deactivate(column)

    def _activate(self, column: Column) -> None:
        for region in (column, *column.derived):
            self._directory.activate(region)

    def _deactivate(self, column: Column) -> None:
        for region in (column, *column.derived):
            self._directory.deactivate(region)

    def _slot(self, index: Oid) -> int:
        return self._rows.slots[ber.encode_sub_identifiers(index)]

    def _fill(self, column: Column, slot: int, place: tuple[int, int], value: bytes | None) -> None:
        """Fill a hole, or turn a filled cell into a hole."""
        if value is not None:
            column.check(value)
            if not column.filled:
                self._activate(column)
            column.filled.add(*place)
        else:
            column.filled.discard(*place)
            if not column.filled:
                self._deactivate(column)
        column.cells[slot] = value
        for part in self.parts:
            part.cell_changed(column, slot)

    def _insert(
        self, index: Oid, suffix: bytes, values: Mapping[int, bytes | None], shown: Sequence[int]
    ) -> None:
        """Insert a row with these cells; where they are not valid, nothing is changed."""
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
                self._activate(column)
            column.filled.row_inserted(block, position, is_member=value is not None)
            if must_split:
                column.filled.block_split(block)
        if must_split:
            rows.order.split(block)
        for place, part in enumerate(self.parts):
            part.insert(slot, shown[place] if place < len(shown) else 0)

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
