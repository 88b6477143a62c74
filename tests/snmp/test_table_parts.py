"""What a restricted view shows of a table, compared with a table that has nothing else."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.mirror import Mirror, everything
from gateway.snmp.store import Store
from gateway.snmp.table import Derivation
from gateway.snmp.table_parts import TablePart

ENTRY: Oid = (1, 3, 6, 1, 9, 1)
COLUMNS = (1, 2, 3)
DERIVED = {4: Derivation(3, ber.INTEGER, lambda _: ber.encode_integer(7))}

Cells: TypeAlias = dict[int, "bytes | None"]

_CELL = st.none() | st.integers(0, 300).map(ber.encode_integer)
_CELLS: st.SearchStrategy[Cells] = st.dictionaries(st.sampled_from(COLUMNS), _CELL)
_INDEX = st.tuples(st.integers(1, 3), st.integers(1, 6))
_MASK = st.sampled_from((0, 0b10, 0b110, 0b1110, 0b1000, -1))
_STEP = st.tuples(_INDEX, _CELLS | st.none(), _MASK | st.none())
Step: TypeAlias = "tuple[Oid, Cells | None, int | None]"


def walked(store: Store) -> list[bytes]:
    found: list[bytes] = []
    name = ber.encode_name((1, 3))
    while varbinds_and_last := store.walk(name, 3):
        varbinds, name = varbinds_and_last
        found += varbinds
        if len(varbinds) < 3:
            break
    return found


@given(st.lists(_STEP | st.none(), max_size=40))
def test_a_view_shows_what_was_permitted_and_nothing_else(steps: list[Step | None]) -> None:
    store, view, reader = Store(), Mirror(), Mirror()
    table = store.table(ENTRY, COLUMNS, DERIVED)
    view.follow(store, lambda _: False)  # what it shows of the table is the part's
    part = TablePart(table, view)
    table.parts = [part]
    reader.follow(view, everything)
    rows: dict[Oid, tuple[Cells, int]] = {}
    for step in steps:
        if step is None:
            part.settle()
            continue
        index, cells, mask = step
        if cells is not None:
            table.put(index, cells, None if mask is None else (mask,))
            former, shown = rows.get(index, ({}, 0))
            rows[index] = former | cells, shown if mask is None else mask
        elif index in rows:
            table.remove(index)
            del rows[index]
    expected = Store()
    permitted = expected.table(ENTRY, COLUMNS, DERIVED)
    for index, (kept, bits) in rows.items():
        permitted.put(index, {number: cell for number, cell in kept.items() if bits >> number & 1})
    assert walked(view) == walked(reader) == walked(expected)
    for index in rows:
        for number in (*COLUMNS, *DERIVED):
            instance = (*ENTRY, number, *index)
            assert view.get(instance) in {expected.get(instance), ber.NO_SUCH_OBJECT}
            assert (view.get(instance) == ber.NO_SUCH_OBJECT) <= (expected.get(instance)[0] >= 0x80)
            name = ber.encode_name(instance)
            assert view.next_varbind(name) in (None, *view.walk(name, 1)[0])


def test_many_rows_of_which_every_second_is_shown() -> None:
    store, view = Store(), Mirror()
    table = store.table(ENTRY, COLUMNS)
    table.parts = [TablePart(table, view)]
    for number in range(1, 2_000):
        table.put((number,), {1: ber.encode_integer(number)}, (number % 2 * -1,))
    shown = [ber.name_of_varbind(each) for each in walked(view)]
    assert shown == [ber.encode_name((*ENTRY, 1, number)) for number in range(1, 2_000, 2)]
    for number in range(1, 1_999, 2):
        table.remove((number,))
    assert len(walked(view)) == 1
