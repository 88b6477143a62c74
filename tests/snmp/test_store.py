"""The store by example, and compared with a sorted dictionary under random changes."""

from __future__ import annotations

import random

import pytest

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import gauge32_derivation
from gateway.snmp.store import Store
from gateway.snmp.table import Derivation
from tests.hypothesis_profiles import PROVING
from tests.snmp.sorted_oracle import SortedOracle, change_at_random

ENTRY: Oid = (1, 3, 6, 1, 4, 1, 8072, 9999, 9999, 2, 1, 1, 4, 1)
ONE, TWO, THREE = (ber.encode_gauge32(number) for number in (1, 2, 3))
NAME = ber.encode_octets(b"orders")
QUOTED = Derivation(2, ber.OCTET_STRING, ber.encode_octets)
MISSING = (ber.NO_SUCH_OBJECT, ber.NO_SUCH_INSTANCE)


def walked(store: Store) -> list[tuple[Oid, bytes]]:
    """Return all instances, by repeated GETNEXT."""
    found = []
    step = store.next((0, 0))
    while step is not None:
        found.append(step)
        step = store.next(step[0])
    return found


def test_a_cell_is_read_by_column_and_index() -> None:
    store = Store()
    store.table(ENTRY, [2, 100]).put((1, 7), {2: NAME, 100: ONE})
    assert store.get((*ENTRY, 2, 1, 7)) == NAME
    assert store.get((*ENTRY, 100, 1, 7)) == ONE


@pytest.mark.parametrize(
    ("oid", "answer"),
    [
        ((*ENTRY, 2, 1, 8), ber.NO_SUCH_INSTANCE),
        ((*ENTRY, 2, 1), ber.NO_SUCH_INSTANCE),
        ((*ENTRY, 2), ber.NO_SUCH_INSTANCE),
        ((*ENTRY, 2, 1, 7, 0), ber.NO_SUCH_INSTANCE),
        ((*ENTRY, 100, 1, 7), ber.NO_SUCH_INSTANCE),
        ((*ENTRY, 3, 1, 7), ber.NO_SUCH_OBJECT),
        (ENTRY, ber.NO_SUCH_OBJECT),
        ((1, 3, 6, 1, 2, 1, 1, 1, 0), NAME),
        ((1, 3, 6, 1, 2, 1, 1, 1, 1), ber.NO_SUCH_INSTANCE),
        ((1, 3, 6, 1, 2, 1, 1, 1), ber.NO_SUCH_INSTANCE),
        ((1, 3, 6, 1, 2, 1, 1, 1, 0, 0), ber.NO_SUCH_INSTANCE),
        ((1, 3, 6, 1, 2, 1, 1, 2, 0), ber.NO_SUCH_OBJECT),
        ((0, 0), ber.NO_SUCH_OBJECT),
    ],
)
def test_what_is_not_there_is_distinguished_from_what_never_will_be(oid: Oid, answer: bytes) -> None:
    store = Store()
    store.table(ENTRY, [2, 100]).put((1, 7), {2: NAME})
    store.scalar((1, 3, 6, 1, 2, 1, 1, 1, 0), NAME)
    assert store.get(oid) == answer


def test_a_walk_goes_by_number_and_not_by_octet() -> None:
    store = Store()
    table = store.table(ENTRY, [2])
    for row in (70_000, 128, 2, 127, 2**31 - 1, 16_384):
        table.put((1, row), {2: ONE})
    assert [oid[-1] for oid, _ in walked(store)] == [2, 127, 128, 16_384, 70_000, 2**31 - 1]
    assert list(table.indexes()) == [(1, row) for row in (2, 127, 128, 16_384, 70_000, 2**31 - 1)]


def test_a_walk_goes_column_by_column_across_scalars_and_tables() -> None:
    store = Store()
    table = store.table(ENTRY, [2, 200])
    store.scalar((1, 3, 6, 1, 9, 0), THREE)
    store.scalar((1, 3, 6, 1, 2, 1, 1, 1, 0), NAME)
    table.put((2,), {2: ONE, 200: TWO})
    table.put((1,), {2: ONE, 200: TWO})
    assert walked(store) == [
        ((1, 3, 6, 1, 2, 1, 1, 1, 0), NAME),
        ((*ENTRY, 2, 1), ONE),
        ((*ENTRY, 2, 2), ONE),
        ((*ENTRY, 200, 1), TWO),
        ((*ENTRY, 200, 2), TWO),
        ((1, 3, 6, 1, 9, 0), THREE),
    ]


def test_holes_and_empty_columns_are_passed_over() -> None:
    store = Store()
    table = store.table(ENTRY, [2, 3, 4])
    table.put((1,), {2: ONE, 4: None})
    table.put((2,), {4: ONE})
    table.put((3,), {2: ONE})
    assert [oid[len(ENTRY) :] for oid, _ in walked(store)] == [(2, 1), (2, 3), (4, 2)]


def test_a_patch_changes_what_it_names_and_none_makes_a_hole() -> None:
    store = Store()
    table = store.table(ENTRY, [2, 3])
    table.put((1,), {2: ONE, 3: ONE})
    table.put((1,), {3: TWO})
    assert (table.cell((1,), 2), table.cell((1,), 3)) == (ONE, TWO)
    table.put((1,), {2: None})
    assert walked(store) == [((*ENTRY, 3, 1), TWO)]
    assert len(table) == 1


def test_a_removed_row_is_gone_and_its_place_serves_another() -> None:
    store = Store()
    table = store.table(ENTRY, [2])
    table.put((1,), {2: ONE})
    table.remove((1,))
    assert (len(table), (1,) in table, store.next(ENTRY)) == (0, False, None)
    table.put((2,), {})
    assert store.get((*ENTRY, 2, 2)) == ber.NO_SUCH_INSTANCE
    with pytest.raises(KeyError):
        table.remove((1,))


def test_one_column_of_many_rows_is_replaced_at_once() -> None:
    store = Store()
    table = store.table(ENTRY, [2, 3])
    for row in range(1, 4):
        table.put((row,), {2: ONE, 3: ONE})
    table.replace_column(3, {(1,): None, (3,): TWO})
    assert [table.cell((row,), 3) for row in (1, 2, 3)] == [None, ONE, TWO]
    with pytest.raises(KeyError):
        table.replace_column(3, {(1,): THREE, (9,): THREE})
    assert table.cell((1,), 3) is None


def test_a_scalar_may_be_computed_at_each_read_and_replaced() -> None:
    store = Store()
    ticks = iter((ONE, TWO))
    store.scalar((1, 3, 6, 0), lambda: next(ticks))
    assert store.get((1, 3, 6, 0)) == ONE
    assert store.next((1, 3)) == ((1, 3, 6, 0), TWO)
    store.scalar((1, 3, 6, 0), THREE)
    assert store.get((1, 3, 6, 0)) == THREE
    store.remove_scalar((1, 3, 6, 0))
    assert (store.get((1, 3, 6, 0)), store.next((0, 0))) == (ber.NO_SUCH_OBJECT, None)


@pytest.mark.parametrize("oid", [ENTRY, ENTRY[:-1], (*ENTRY, 2), (*ENTRY, 9, 9)])
def test_nothing_overlaps_with_a_table(oid: Oid) -> None:
    store = Store()
    store.table(ENTRY, [2])
    with pytest.raises(ValueError, match="overlaps"):
        store.table(oid, [1])
    with pytest.raises(ValueError, match="overlaps"):
        store.scalar((*oid, 0), ONE)


def test_a_removed_table_leaves_its_place_free() -> None:
    store = Store()
    store.table(ENTRY, [2]).put((1,), {2: ONE})
    store.remove_table(ENTRY)
    assert (store.get((*ENTRY, 2, 1)), store.next((0, 0))) == (ber.NO_SUCH_OBJECT, None)
    store.table(ENTRY, [2, 3])
    with pytest.raises(KeyError):
        store.remove_table(ENTRY[:-1])


@pytest.mark.parametrize("columns", [[], [0], [2, 2], [3, 2], [2**32]])
def test_columns_are_ascending_numbers(columns: list[int]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Store().table(ENTRY, columns)


@pytest.mark.parametrize("index", [(), (-1,), (2**32,), (1,) * 114])
def test_an_index_that_makes_no_name_is_refused(index: Oid) -> None:
    table = Store().table(ENTRY, [2])
    with pytest.raises(ValueError, match=r"."):
        table.put(index, {2: ONE})
    assert len(table) == 0


def test_the_longest_index_is_served() -> None:
    store = Store()
    index = (2**32 - 1,) * 113
    store.table(ENTRY, [2]).put(index, {2: ONE})
    assert store.next((0, 0)) == ((*ENTRY, 2, *index), ONE)


def test_a_column_keeps_one_type() -> None:
    table = Store().table(ENTRY, [2])
    table.put((1,), {2: ONE})
    with pytest.raises(ValueError, match="type 0x42 cannot hold one of 0x04"):
        table.put((2,), {2: NAME})
    with pytest.raises(ValueError, match="type 0x42 cannot hold one of 0x04"):
        table.put((1,), {2: NAME})
    assert table.cell((1,), 2) == ONE


def test_without_counter64_its_columns_and_scalars_are_passed_over_whole() -> None:
    store = Store()
    table = store.table(ENTRY, [2, 3, 4])
    store.scalar((1, 3, 6, 1, 9, 0), ber.encode_counter64(5))
    for row in range(1, 50_001):
        table.put((row,), {2: ONE, 3: ber.encode_counter64(row)})
    table.put((50_000,), {4: TWO})
    name = ber.encode_name((*ENTRY, 2, 50_000))
    varbinds, last = store.walk(name, 5, counter64=False)
    assert varbinds == [ber.encode_varbind(ber.encode_name((*ENTRY, 4, 50_000)), TWO)]
    assert last == ber.encode_name((*ENTRY, 4, 50_000))


def test_a_derived_column_has_the_rows_of_the_other_and_values_made_of_its_values() -> None:
    store = Store()
    table = store.table(ENTRY, [2, 3], {4: QUOTED})
    table.put((1,), {2: ONE})
    table.put((2,), {3: ONE})
    table.put((3,), {2: TWO})
    assert walked(store)[3:] == [
        ((*ENTRY, 4, 1), ber.encode_octets(ONE)),
        ((*ENTRY, 4, 3), ber.encode_octets(TWO)),
    ]
    table.put((1,), {2: None})
    table.remove((3,))
    assert walked(store) == [((*ENTRY, 3, 2), ONE)]
    assert store.get((*ENTRY, 4, 1)) == ber.NO_SUCH_INSTANCE
    store.remove_table(ENTRY)
    assert store.get((*ENTRY, 4, 1)) == ber.NO_SUCH_OBJECT


def test_a_derived_column_is_not_written() -> None:
    table = Store().table(ENTRY, [2], {4: QUOTED})
    with pytest.raises(KeyError):
        table.put((1,), {4: NAME})
    assert len(table) == 0


def test_a_gauge_of_a_64_bit_column_is_walked_without_counter64() -> None:
    store = Store()
    table = store.table(ENTRY, [3], {4: gauge32_derivation(3, "")})
    table.put((1,), {3: ber.encode_counter64(2**40)})
    varbinds, _ = store.walk(ber.encode_name(ENTRY), 5, counter64=False)
    assert varbinds == [ber.encode_varbind(ber.encode_name((*ENTRY, 4, 1)), ber.encode_gauge32(2**32 - 1))]


def test_varbinds_of_every_length_are_encoded_as_the_codec_does() -> None:
    store = Store()
    table = store.table(ENTRY, [2])
    sizes = [0, 1, 63, 64, 90, 91, 100, 127, 128, 200, 255, 256, 1_024, 65_535]
    for row, size in enumerate(sizes):
        table.put((row * 5_000,), {2: ber.encode_octets(b"x" * size)})
    varbinds, _ = store.walk(ber.encode_name(ENTRY), len(sizes))
    assert varbinds == [
        ber.encode_varbind(ber.encode_name((*ENTRY, 2, row * 5_000)), ber.encode_octets(b"x" * size))
        for row, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("rows", [3, 60, 3_000])
@pytest.mark.parametrize("seed", range(100 if PROVING else 3))
def test_under_random_changes_every_walk_is_what_a_sorted_dictionary_says(seed: int, rows: int) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable
    oracle = SortedOracle()
    oracle.table((1, 3, 6, 1, 1, 1), (2, 3, 7), {1: QUOTED._replace(base=2), 8: QUOTED._replace(base=3)})
    oracle.table((1, 3, 6, 1, 1, 2, 1), (1, 200))
    oracle.table((1, 3, 6, 1, 3, 9), (5,))
    oracle.scalar((1, 3, 6, 1, 1, 5, 0), THREE)
    for step in range(min(20 * rows, 3_000)):
        change_at_random(oracle, chance, rows)
        if step % 40 == 0:
            compare_walks(oracle, chance)
    compare_walks(oracle, chance)


@pytest.mark.parametrize("seed", range(100 if PROVING else 3))
def test_rows_of_several_columns_are_what_a_walk_of_each_column_says(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable
    oracle = SortedOracle()
    entries: tuple[Oid, Oid] = (1, 3, 6, 1, 1, 1), (1, 3, 6, 1, 1, 2, 1)
    for entry in entries:
        oracle.table(entry, (2, 3, 200), {4: QUOTED._replace(base=3)})
    compared = 0
    for _ in range(600):
        change_at_random(oracle, chance, 20)
        index = chance.choice(((), (1,), (1, chance.randrange(20)), (2, 70_000)))
        # Rarely of two tables; a column may be named twice.
        names = [
            ber.encode_name((*chance.choice(entries[: chance.choice((1, 1, 1, 2))]), column, *index))
            for column in chance.choices((2, 3, 4, 200), k=chance.randrange(1, 5))
        ]
        rows = oracle.store.walk_rows(names, limit := chance.choice((1, 2, 5)))
        if rows is not None:
            compared += 1
            columns = [oracle.store.walk(name, limit)[0] for name in names]
            assert rows == [varbind for row in zip(*columns, strict=True) for varbind in row]
            assert len(rows) == limit * len(names)
    assert compared > 10


def test_the_next_row_of_a_known_one_is_found_without_a_walk_unless_its_cell_is_missing() -> None:
    store = Store()
    table = store.table(ENTRY, [2, 3], {4: QUOTED._replace(base=3)})
    for row in (1, 2, 300):
        table.put((row,), {2: ONE, 3: None if row == 300 else ber.encode_octets(b"x" * 200)})
    store.scalar((1, 3, 6, 1, 1, 5, 0), THREE)

    def after(*oid: int) -> Oid | None:
        varbind = store.next_varbind(ber.encode_name(oid))
        assert varbind is None or [varbind] == store.walk(ber.encode_name(oid), 1)[0]
        return None if varbind is None else ber.decode_name(ber.name_of_varbind(varbind))

    assert after(*ENTRY, 2, 1) == (*ENTRY, 2, 2)
    assert after(*ENTRY, 2, 2) == (*ENTRY, 2, 300)
    assert after(*ENTRY, 3, 1) == (*ENTRY, 3, 2)
    assert after(*ENTRY, 4, 1) == (*ENTRY, 4, 2)
    # A cell that is missing, the end of the column, no row, no column, a scalar, nothing.
    for oid in ((*ENTRY, 3, 2), (*ENTRY, 2, 300), (*ENTRY, 2, 7), ENTRY, (1, 3, 6, 1, 1, 5, 0), (1, 3)):
        assert after(*oid) is None
    # What is not canonical names no row, as padded sub-identifiers do not.
    assert store.next_varbind(ber.encode_name((*ENTRY, 2)) + b"\x80\x01") is None


def test_rows_of_columns_are_left_to_their_walks_where_one_has_a_hole_or_an_end() -> None:
    store = Store()
    table = store.table(ENTRY, [2, 3])
    for row in range(4):
        table.put((row,), {2: ONE, 3: None if row == 2 else TWO})
    names = [ber.encode_name((*ENTRY, column, 0)) for column in (2, 3)]
    first = [
        ber.encode_varbind(ber.encode_name((*ENTRY, column, 1)), value)
        for column, value in ((2, ONE), (3, TWO))
    ]
    assert store.walk_rows(names, 1) == first
    assert store.walk_rows(names, 2) is None
    assert len(store.walk_rows(names[:1], 3) or ()) == 3
    assert store.walk_rows(names[:1], 4) is None
    assert store.walk_rows([*names, ber.encode_name((*ENTRY, 2, 1))], 1) is None
    assert store.walk_rows([*names, ber.encode_name((1, 3))], 1) is None


def compare_walks(oracle: SortedOracle, chance: random.Random) -> None:
    for _ in range(6):
        oid = oracle.somewhere(chance)
        limit = chance.choice((1, 3, 25, 2_000))
        expected = oracle.after(oid, limit)
        assert oracle.store.next(oid) == next(iter(expected), None)
        varbinds, last = oracle.store.walk(ber.encode_name(oid), limit)
        assert varbinds == [ber.encode_varbind(ber.encode_name(name), value) for name, value in expected]
        assert ber.decode_name(last) == (expected[-1][0] if expected else oid)
        assert oracle.store.next_varbind(ber.encode_name(oid)) in (None, *varbinds[:1])
        read = oracle.store.get(oid)
        assert oracle.instances.get(oid) == (None if read in MISSING else read)
