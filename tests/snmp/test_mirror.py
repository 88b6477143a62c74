"""A mirror of two stores, compared with one store that holds all of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.mirror import Mirror, everything
from gateway.snmp.store import Store

COMMON: Oid = (1, 3, 6)
OWN: Oid = (1, 3, 6, 5)
"""A subtree in the middle of the common view."""
TAIL: Oid = (1, 3, 6, 9)

_INDEX = st.tuples(st.integers(1, 300), st.integers(1, 3))
_CELLS = st.dictionaries(_INDEX, st.integers(0, 3), max_size=6)


def fill(store: Store, entry: Oid, cells: dict[tuple[int, int], int]) -> None:
    table = store.table(entry, [1, 2])
    for index, value in cells.items():
        counter = ber.encode_counter64(value) if value % 2 else None
        table.put(index, {1: ber.encode_gauge32(value), 2: counter})


@given(
    before=_CELLS,
    own=_CELLS,
    after=_CELLS,
    start=st.lists(st.integers(0, 300), max_size=4),
    limit=st.integers(1, 12),
    counter64=st.booleans(),
)
def test_a_walk_is_that_of_one_store(
    *,
    before: dict[tuple[int, int], int],
    own: dict[tuple[int, int], int],
    after: dict[tuple[int, int], int],
    start: list[int],
    limit: int,
    counter64: bool,
) -> None:
    whole, common, mine = Store(), Store(), Store()
    for store in (whole, common):
        fill(store, (*COMMON, 1), before)
        fill(store, TAIL, after)
    fill(whole, OWN, own)
    view = Mirror()
    view.follow(mine, everything)
    view.follow(common, everything)
    fill(mine, OWN, own)
    for name in ((1, 3), (*COMMON, *start), OWN, (*OWN, 1, *start), TAIL):
        encoded = ber.encode_name(name)
        assert view.walk(encoded, limit, counter64=counter64) == whole.walk(
            encoded, limit, counter64=counter64
        )
        assert view.read(encoded) == whole.read(encoded)
    for index in own:
        instance = ber.encode_name((*OWN, 1, *index))
        assert view.read(instance) == whole.read(instance)
