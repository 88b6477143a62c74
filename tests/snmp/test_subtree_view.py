"""Views of subtrees, by example, and compared with a sorted list that is filtered name by name."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.store import Store
from gateway.snmp.subtree_view import MAX_REMEMBERED, Subtrees, SubtreeView
from tests.snmp.sorted_oracle import SortedOracle, change_at_random

ENTRY: Oid = (1, 3, 6, 1, 4, 1, 8072, 9999, 9999, 2, 1, 1, 4, 1)
ONE = ber.encode_gauge32(1)
SEVEN = ber.encode_integer(7)
COUNT = ber.encode_counter64(1)
SYSTEM: Oid = (1, 3, 6, 1, 2, 1, 1)


def small_store() -> Store:
    store = Store()
    store.scalar((*SYSTEM, 1, 0), ONE)
    store.scalar((*SYSTEM, 3, 0), COUNT)
    table = store.table(ENTRY, [2, 100, 200])
    for row in (1, 2, 300):
        table.put((1, row), {2: ONE, 100: COUNT, 200: ONE})
    store.scalar((2, 5, 300, 0), ONE)
    return store


def walked(view: SubtreeView, limit: int, *, counter64: bool = True) -> list[Oid]:
    """Return the names of all instances, by repeated requests for ``limit`` of them."""
    names: list[Oid] = []
    name = ber.encode_name((0, 0))
    while True:
        varbinds, last = view.walk(name, limit, counter64=counter64)
        names += [ber.decode_name(ber.name_of_varbind(varbind)) for varbind in varbinds]
        assert last == (ber.encode_name(names[-1]) if varbinds else name)
        if len(varbinds) < limit:
            return names
        name = last


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_a_walk_passes_over_what_is_excluded(limit: int) -> None:
    view = SubtreeView(small_store(), Subtrees([(1, 3), (2,)], [(*ENTRY, 100), (*SYSTEM, 1)]))
    assert walked(view, limit) == [
        (*SYSTEM, 3, 0),
        *((*ENTRY, 2, 1, row) for row in (1, 2, 300)),
        *((*ENTRY, 200, 1, row) for row in (1, 2, 300)),
        (2, 5, 300, 0),
    ]


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_a_longer_root_decides(limit: int) -> None:
    view = SubtreeView(small_store(), Subtrees([SYSTEM, (*ENTRY, 2, 1, 2), ENTRY[:9]], [ENTRY, (1, 3)]))
    assert walked(view, limit) == [(*SYSTEM, 1, 0), (*SYSTEM, 3, 0), (*ENTRY, 2, 1, 2)]


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_an_instance_is_a_subtree_too(limit: int) -> None:
    view = SubtreeView(small_store(), Subtrees([(*ENTRY, 200, 1, 2), (*SYSTEM, 3, 0)]))
    assert walked(view, limit) == [(*SYSTEM, 3, 0), (*ENTRY, 200, 1, 2)]
    assert walked(view, limit, counter64=False) == [(*ENTRY, 200, 1, 2)]


def test_rows_of_several_columns_are_those_of_their_walks_or_left_to_them() -> None:
    store = small_store()
    chance = random.Random(5)  # noqa: S311  repeatable
    places = [
        (*ENTRY, column, *index) for column in (2, 100, 200) for index in ((), (1, 1), (1, 2), (1, 300))
    ]
    compared = 0
    for _ in range(1_000):
        parts = chance.sample([*places, ENTRY, (1, 3), SYSTEM], k=chance.randrange(1, 5))
        split = chance.randrange(len(parts) + 1)
        view = SubtreeView(store, Subtrees(parts[:split] or [(1,)], parts[split:]))
        index = chance.choice(((), (1, 1), (1, 2)))
        columns = chance.choices((2, 100, 200), k=chance.randrange(1, 4))
        names = [ber.encode_name((*ENTRY, column, *index)) for column in columns]
        rows = view.walk_rows(names, limit := chance.choice((1, 2)))
        if rows is not None:
            compared += 1
            walks = [view.walk(name, limit)[0] for name in names]
            assert rows == [varbind for row in zip(*walks, strict=True) for varbind in row]
    assert compared > 100


def test_the_next_row_is_found_without_a_walk_where_nothing_between_is_excluded() -> None:
    view = SubtreeView(small_store(), Subtrees([ENTRY], [(*ENTRY, 100), (*ENTRY, 200, 1, 2)]))

    def after(*index: int) -> bytes | None:
        varbind = view.next_varbind(ber.encode_name((*ENTRY, *index)))
        assert varbind is None or [varbind] == view.walk(ber.encode_name((*ENTRY, *index)), 1)[0]
        return varbind

    assert after(2, 1, 1) == ber.encode_varbind(ber.encode_name((*ENTRY, 2, 1, 2)), ONE)
    assert after(2, 1, 300) is None
    assert after(100, 1, 1) is None
    assert after(200, 1, 1) is None
    assert after(200, 1, 2) is None


def test_what_is_outside_is_no_object() -> None:
    view = SubtreeView(small_store(), Subtrees(exclude=[(*ENTRY, 100)]))
    assert view.read(ber.encode_name((*ENTRY, 100, 1, 1))) == ber.NO_SUCH_OBJECT
    assert view.read(ber.encode_name((*ENTRY, 2, 1, 1))) == ONE
    assert view.read(ber.encode_name((*ENTRY, 2, 1, 9))) == ber.NO_SUCH_INSTANCE


def test_nothing_is_in_a_view_of_nothing() -> None:
    view = SubtreeView(small_store(), Subtrees([]))
    assert walked(view, 5) == []
    assert view.read(ber.encode_name((*SYSTEM, 1, 0))) == ber.NO_SUCH_OBJECT


def test_a_subtree_is_either_included_or_excluded() -> None:
    with pytest.raises(ValueError, match=r"^1\.3\.6 is both included and excluded$"):
        Subtrees([(1, 3, 6), (1, 3)], [(1, 3, 6)])


def test_many_names_are_placed_rightly_and_not_all_remembered() -> None:
    subtrees = Subtrees([(*SYSTEM, row) for row in range(0, 2 * MAX_REMEMBERED, 2)])
    for row in range(2 * MAX_REMEMBERED):
        assert (ber.encode_name((*SYSTEM, row, 0)) in subtrees) == (row % 2 == 0)


# Near each other, and of every length of encoding.
_NUMBERS = st.sampled_from((0, 1, 2, 39, 40, 127, 128, 255, 256, 16_383, 16_384, 2**28, 2**32 - 2, 2**32 - 1))


@st.composite
def oids(draw: st.DrawFn, *, least: int) -> Oid:
    first = draw(st.sampled_from((0, 1, 1, 1, 2)))
    second = draw(_NUMBERS if first == 2 else st.sampled_from((0, 1, 39)))
    oid = (first, second, *draw(st.lists(_NUMBERS, max_size=3)))
    return oid[: draw(st.integers(least, len(oid)))]


@given(
    st.lists(oids(least=1), max_size=8),
    st.lists(oids(least=1), max_size=8),
    st.lists(oids(least=2), max_size=40),
)
def test_a_name_is_in_the_set_where_its_longest_root_is(
    include: list[Oid], exclude: list[Oid], names: list[Oid]
) -> None:
    exclude = [root for root in exclude if root not in include]
    subtrees = Subtrees(include, exclude)
    for name in [*names, *(name for name in (*include, *exclude) if len(name) > 1)] * 2:
        assert (ber.encode_name(name) in subtrees) == is_included(name, include, exclude), name


def is_included(name: Oid, include: list[Oid], exclude: list[Oid]) -> bool:
    """Return whether the longest root of a name is one that is included."""
    roots = [(len(root), root in include) for root in (*include, *exclude) if name[: len(root)] == root]
    return max(roots, default=(0, False))[1]


@given(st.randoms(use_true_random=False))
def test_walks_and_reads_are_those_of_a_filtered_list(chance: random.Random) -> None:
    oracle = SortedOracle()
    oracle.scalar((1, 3, 1, 0), ONE)
    oracle.scalar((1, 3, 9, 0), COUNT)
    first = oracle.table((1, 3, 2, 1, 1), [2, 3, 130])
    oracle.table((1, 3, 2, 2, 1), [2, 5])
    for row in range(6):
        oracle.put(first, (1, row), {2: SEVEN, 3: SEVEN if row % 2 else None})
    for _ in range(60):
        change_at_random(oracle, chance, rows=12)
    include = [oracle.somewhere(chance) for _ in range(chance.randrange(5))]
    exclude = [root for _ in range(chance.randrange(5)) if (root := oracle.somewhere(chance)) not in include]
    view = SubtreeView(oracle.store, Subtrees(include, exclude))
    shown = {oid: value for oid, value in oracle.instances.items() if is_included(oid, include, exclude)}
    order = sorted(shown)
    for _ in range(20):
        name, limit = oracle.somewhere(chance), chance.choice((1, 2, 5, 50))
        encoded = ber.encode_name(name)
        expected = [oid for oid in order if oid > name][:limit]
        varbinds, last = view.walk(encoded, limit)
        assert varbinds == [ber.encode_varbind(ber.encode_name(oid), shown[oid]) for oid in expected]
        assert last == (ber.encode_name(expected[-1]) if expected else encoded)
        value = view.read(encoded)
        assert value == shown.get(name, value)
        assert (name in shown) == (value not in (ber.NO_SUCH_OBJECT, ber.NO_SUCH_INSTANCE))
