"""The order of a table's rows, and sets of its rows.

Both are kept in blocks of rows. Blocks keep every change small: an insert moves hundreds of entries instead
of all. A set of rows is one short integer for each block, in which a few shifts find the next row, or insert
one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

HALF_BLOCK: Final = 256

_FULL_BLOCK: Final = 2 * HALF_BLOCK

LAST: Final = -1
"""The slot number for no slot: no row follows."""


class RowOrder:
    """Row keys (`ber.sort_key` of the index), sorted, each with the slot where the row's cells are.

    A place is a block's number and a position in it; any insert or removal may move the places after it.

    Attributes:
        slots: the slots in order, by block.
        following: by slot, the slot of the next row; `LAST` where there is none.
    """

    __slots__ = ("_keys", "_last", "following", "slots")

    def __init__(self) -> None:
        self.slots: list[list[int]] = []
        # A chain beside the blocks: GETNEXT is the most frequent request, and from a known row the next one
        # is a single look-up.
        self.following: list[int] = []
        self._keys: list[list[bytes]] = []
        self._last: list[bytes] = []  # the last key of each block

    def place_of(self, key: bytes) -> tuple[int, int]:
        """Return the place of a key, or where it would be inserted (the last block if it is beyond all)."""
        block = bisect_left(self._last, key)
        if block == len(self._last) and block:
            block -= 1
        return block, bisect_left(self._keys[block], key) if self._keys else 0

    def place_after(self, key: bytes) -> tuple[int, int]:
        """Return the place of the first row with a greater key; the block after the last if there is none."""
        block = bisect_right(self._last, key)
        return block, bisect_right(self._keys[block], key) if block < len(self._keys) else 0

    def slot_at(self, block: int, position: int) -> int:
        """Return the slot of the row at a place; `LAST` after the last block."""
        return self.slots[block][position] if block < len(self.slots) else LAST

    def insert(self, block: int, position: int, key: bytes, slot: int) -> None:
        """Insert a row at the place that `place_of` returned; the first row of all opens the first block."""
        if not self._keys:
            self._keys.append([])
            self.slots.append([])
            self._last.append(key)
        self._link(self._before(block, position), slot)
        keys = self._keys[block]
        keys.insert(position, key)
        self.slots[block].insert(position, slot)
        self._last[block] = keys[-1]

    def remove(self, block: int, position: int) -> bool:
        """Remove a row, and its block with the last row in it; return whether the block was removed."""
        before = self._before(block, position)
        if before is not None:
            self.following[before] = self.following[self.slots[block][position]]
        keys = self._keys[block]
        del keys[position], self.slots[block][position]
        if keys:
            self._last[block] = keys[-1]
            return False
        del self._keys[block], self.slots[block], self._last[block]
        return True

    def is_overfull(self, block: int) -> bool:
        """Return whether the block must be split now."""
        return len(self.slots[block]) > _FULL_BLOCK

    def split(self, block: int) -> None:
        """Move the rows after the first `HALF_BLOCK` of a block to a new block after it."""
        keys, slots = self._keys[block], self.slots[block]
        self._keys.insert(block + 1, keys[HALF_BLOCK:])
        self.slots.insert(block + 1, slots[HALF_BLOCK:])
        del keys[HALF_BLOCK:], slots[HALF_BLOCK:]
        self._last.insert(block, keys[-1])

    def _before(self, block: int, position: int) -> int | None:
        """Return the slot of the row before a place, if any."""
        if position:
            return self.slots[block][position - 1]
        return self.slots[block - 1][-1] if block else None

    def _link(self, before: int | None, slot: int) -> None:
        """Make ``slot`` the row after ``before``, the first of all where there is none."""
        following = self.following
        following += [LAST] * (slot + 1 - len(following))
        if before is not None:
            following[slot], following[before] = following[before], slot
        else:
            following[slot] = self.slots[0][0] if self.slots[0] else LAST


class RowSet:
    """A set of places of a `RowOrder`: one bit a row, in one integer a block, and one bit a block."""

    __slots__ = ("_blocks", "_rows")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._blocks = 0  # the blocks that have members

    def __bool__(self) -> bool:
        return self._blocks != 0

    def add(self, block: int, position: int) -> None:
        """Make the row at this place a member."""
        self._rows[block] |= 1 << position
        self._blocks |= 1 << block

    def discard(self, block: int, position: int) -> None:
        """Remove the row at this place from the members."""
        self._rows[block] &= ~(1 << position)
        if not self._rows[block]:
            self._blocks &= ~(1 << block)

    def first_from(self, block: int, position: int) -> tuple[int, int] | None:
        """Return the first member at or after a place, if any."""
        rest = self._rows[block] >> position if block < len(self._rows) else 0
        if rest:
            # rest & -rest is the lowest bit that is set.
            return block, position + (rest & -rest).bit_length() - 1
        rest = self._blocks >> (block + 1)
        if not rest:
            return None
        block += (rest & -rest).bit_length()
        rest = self._rows[block]
        return block, (rest & -rest).bit_length() - 1

    def row_inserted(self, block: int, position: int, *, is_member: bool) -> None:
        """Follow the insertion of a row at this place."""
        if not self._rows:
            self._rows.append(0)
        rows = self._rows[block]
        if rows >> position:
            rows = _with_gap(rows, position)
        if is_member:
            rows |= 1 << position
            self._blocks |= 1 << block
        self._rows[block] = rows

    def row_removed(self, block: int, position: int) -> None:
        """Follow the removal of the row at this place; `block_removed` comes next if its block is gone."""
        rows = _without(self._rows[block], position)
        self._rows[block] = rows
        if not rows:
            self._blocks &= ~(1 << block)

    def block_removed(self, block: int) -> None:
        """Follow the removal of a block with the last row in it."""
        del self._rows[block]
        self._blocks = _without(self._blocks, block)

    def block_split(self, block: int) -> None:
        """Follow a `RowOrder.split`."""
        rows = self._rows[block]
        head, tail = rows & _HALF, rows >> HALF_BLOCK
        self._rows[block : block + 1] = [head, tail]
        # The bit of the former block goes, and two come in its place.
        blocks = _with_gap(_without(self._blocks, block), block)
        blocks = blocks | (head != 0) << block
        self._blocks = _with_gap(blocks, block + 1) | (tail != 0) << (block + 1)


_HALF: Final = (1 << HALF_BLOCK) - 1


def _with_gap(bits: int, position: int) -> int:
    low = bits & ((1 << position) - 1)
    return low | (bits ^ low) << 1


def _without(bits: int, position: int) -> int:
    return bits & ((1 << position) - 1) | (bits >> (position + 1)) << position
