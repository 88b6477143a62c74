"""The sorted order of a table's rows, in blocks, so that an insert moves hundreds of entries and not all.

Keys are `ber.sort_key` octets of row indexes; beside each stands the slot where the row's cells are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

_BLOCK = 512
_FULL_BLOCK = 2 * _BLOCK


class RowOrder:
    """Sorted keys with a slot each: a list of blocks of at most 1,024 rows."""

    __slots__ = ("_keys", "_last", "_slots")

    def __init__(self) -> None:
        self._last: list[bytes] = []  # the last key of each block
        self._keys: list[list[bytes]] = []
        self._slots: list[list[int]] = []

    def insert(self, key: bytes, slot: int) -> None:
        """Take in a key that is not there yet."""
        block = bisect_left(self._last, key)
        if block == len(self._last):
            if not block:
                self._append_block([key], [slot])
                return
            block -= 1
            self._last[block] = key
        keys, slots = self._keys[block], self._slots[block]
        position = bisect_left(keys, key)
        keys.insert(position, key)
        slots.insert(position, slot)
        if len(keys) > _FULL_BLOCK:
            self._split(block)

    def remove(self, key: bytes) -> None:
        """Forget a key that is there."""
        block = bisect_left(self._last, key)
        keys, slots = self._keys[block], self._slots[block]
        position = bisect_left(keys, key)
        del keys[position], slots[position]
        if not keys:
            del self._last[block], self._keys[block], self._slots[block]
        else:
            self._last[block] = keys[-1]

    def after(self, key: bytes | None, count: int) -> list[int]:
        """Slots of up to ``count`` rows whose keys are greater than ``key``; ``None``: the first ones."""
        if key is None:
            block = position = 0
        else:
            block = bisect_right(self._last, key)
            position = bisect_right(self._keys[block], key) if block < len(self._keys) else 0
        if block == len(self._slots):
            return []
        slots = self._slots[block][position : position + count]
        while len(slots) < count and (block := block + 1) < len(self._slots):
            slots += self._slots[block][: count - len(slots)]
        return slots

    def where_filled(self, cells: list[bytes | None]) -> RowOrder:
        """A new order of those rows whose slot in ``cells`` holds something."""
        order = RowOrder()
        for keys, slots in zip(self._keys, self._slots, strict=True):
            filled = [(key, slot) for key, slot in zip(keys, slots, strict=True) if cells[slot] is not None]
            if filled:
                order._append_block([key for key, _ in filled], [slot for _, slot in filled])
        return order

    def slots(self) -> list[int]:
        """All slots in the order of their keys."""
        return [slot for slots in self._slots for slot in slots]

    def _append_block(self, keys: list[bytes], slots: list[int]) -> None:
        self._last.append(keys[-1])
        self._keys.append(keys)
        self._slots.append(slots)

    def _split(self, block: int) -> None:
        keys, slots = self._keys[block], self._slots[block]
        self._keys.insert(block + 1, keys[_BLOCK:])
        self._slots.insert(block + 1, slots[_BLOCK:])
        del keys[_BLOCK:], slots[_BLOCK:]
        self._last.insert(block, keys[-1])
