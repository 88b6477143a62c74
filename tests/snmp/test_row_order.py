"""The blocked order of rows and sets of them, compared with a plain sorted list."""

from __future__ import annotations

import random

import pytest

from gateway.snmp.row_order import HALF_BLOCK, LAST, RowOrder, RowSet
from tests.hypothesis_profiles import PROVING


def _members(order: RowOrder, rows: RowSet) -> list[int]:
    """Return the slots of all members, in the order of a walk."""
    found = []
    place = rows.first_from(0, 0)
    while place is not None:
        block, position = place
        found.append(order.slots[block][position])
        place = rows.first_from(block, position + 1)
    return found


def _chain(order: RowOrder) -> list[int]:
    """Return all slots, each found from the one before."""
    found = [order.slots[0][0]] if order.slots else []
    while found and order.following[found[-1]] != LAST:
        found.append(order.following[found[-1]])
    return found


def test_an_empty_order_has_no_row_after_anything() -> None:
    order = RowOrder()
    block, _ = order.place_after(b"a")
    assert block == len(order.slots)
    assert RowSet().first_from(block, 0) is None


def test_a_block_splits_when_it_is_full_and_goes_with_its_last_row() -> None:
    order = RowOrder()
    keys = [number.to_bytes(4, "big") for number in range(2 * HALF_BLOCK + 1)]
    for slot, key in enumerate(keys):
        order.insert(*order.place_of(key), key, slot)
    assert order.is_overfull(0)
    order.split(0)
    assert [len(slots) for slots in order.slots] == [HALF_BLOCK, HALF_BLOCK + 1]
    gone = [order.remove(*order.place_of(key)) for key in keys[:HALF_BLOCK]]
    assert gone == [False] * (HALF_BLOCK - 1) + [True]
    assert order.slots == [list(range(HALF_BLOCK, 2 * HALF_BLOCK + 1))]


@pytest.mark.parametrize("seed", range(200 if PROVING else 4))
def test_inserts_removals_and_splits_keep_order_and_members(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable
    order, rows = RowOrder(), RowSet()
    slots: dict[bytes, int] = {}
    members: set[bytes] = set()
    for slot in range(4_000):
        key = chance.randrange(3_000).to_bytes(4, "big")
        block, position = order.place_of(key)
        if key not in slots:
            slots[key] = slot
            order.insert(block, position, key, slot)
            is_member = chance.random() < 0.3
            rows.row_inserted(block, position, is_member=is_member)
            if is_member:
                members.add(key)
            if order.is_overfull(block):
                rows.block_split(block)
                order.split(block)
        elif chance.random() < 0.4:
            del slots[key]
            members.discard(key)
            rows.row_removed(block, position)
            if order.remove(block, position):
                rows.block_removed(block)
        elif chance.random() < 0.5:
            members.add(key)
            rows.add(block, position)
        else:
            members.discard(key)
            rows.discard(block, position)
        if slot % 100 == 0:
            in_order = [slots[key] for key in sorted(slots)]
            assert [slot for block in order.slots for slot in block] == in_order
            assert _chain(order) == in_order
            assert _members(order, rows) == [slots[key] for key in sorted(members)]
            assert bool(rows) == bool(members)
