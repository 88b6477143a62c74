"""The view of one source: by example, and compared with a filtered list of all instances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.source_view import SourceView
from gateway.snmp.store import MibView, Store

SYSTEM: Oid = (1, 3, 6, 1, 2, 1, 1, 5, 0)
QUEUES: Oid = (1, 3, 6, 1, 4, 1, 9, 2, 1)
ALARMS: Oid = (1, 3, 6, 1, 4, 1, 9, 3, 1)
KINDS: Oid = (1, 3, 6, 1, 4, 1, 9, 4, 1)
NAME, DEPTH, BIG = 2, 100, 101
ONE, MANY, TEXT = ber.encode_gauge32(1), ber.encode_counter64(2**40), ber.encode_octets(b"gateway")


def store_of(rows: list[tuple[int, int]]) -> Store:
    """Return a store with a scalar, and tables whose index or column is the source; the first has a hole."""
    store = Store()
    store.scalar(SYSTEM, TEXT)
    queues = store.table(QUEUES, [NAME, DEPTH, BIG], by_source=True)
    alarms = store.table(ALARMS, [NAME, DEPTH], source_column=DEPTH)
    kinds = store.table(KINDS, [NAME])
    for source, row in rows:
        queues.put((source, row), {NAME: TEXT, DEPTH: ONE if row % 3 else None, BIG: MANY})
        alarms.put((row * 8 + source,), {NAME: TEXT, DEPTH: ber.encode_integer(source)})
        kinds.put((row,), {NAME: TEXT})
    return store


def names(view: MibView, limit: int, *, counter64: bool = True) -> list[Oid]:
    """Return the names of all instances, by walks of ``limit`` at a time."""
    found: list[Oid] = []
    name = ber.encode_name((0, 0))
    while True:
        varbinds, name = view.walk(name, limit, counter64=counter64)
        for varbind in varbinds:
            _, start, stop = ber.read_header(varbind, 0, len(varbind))
            encoded, _ = ber.read_name(varbind, start, stop)
            found.append(ber.decode_name(encoded))
        assert not varbinds or found[-1] == ber.decode_name(name)
        if len(varbinds) < limit:
            return found


def is_shown(oid: Oid, source: int) -> bool:
    if oid[: len(ALARMS)] == ALARMS:
        return oid[-1] % 8 == source
    return oid[: len(QUEUES)] != QUEUES or oid[len(QUEUES) + 1] == source


@given(
    rows=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 300)), max_size=30, unique=True),
    source=st.integers(1, 5),
    limit=st.integers(1, 12),
    counter64=st.booleans(),
)
def test_it_has_the_rows_of_its_source_and_all_that_belongs_to_none(
    rows: list[tuple[int, int]], source: int, limit: int, *, counter64: bool
) -> None:
    store = store_of(rows)
    everything = names(store, 50, counter64=counter64)
    view = SourceView(store, source)
    assert names(view, limit, counter64=counter64) == [oid for oid in everything if is_shown(oid, source)]
    for oid in everything:
        read = view.read(ber.encode_name(oid))
        assert read == (store.get(oid) if is_shown(oid, source) else ber.NO_SUCH_INSTANCE)


@given(
    rows=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 300)), max_size=30, unique=True),
    source=st.integers(1, 4),
    after=st.tuples(st.sampled_from([NAME, DEPTH, BIG]), st.integers(0, 5), st.integers(0, 300)),
)
def test_a_walk_may_begin_anywhere(
    rows: list[tuple[int, int]], source: int, after: tuple[int, int, int]
) -> None:
    store = store_of(rows)
    begin = (*QUEUES, *after)
    expected = [oid for oid in names(store, 50) if oid > begin and is_shown(oid, source)]
    varbinds, last = SourceView(store, source).walk(ber.encode_name(begin), 1)
    assert [ber.decode_name(last)][: len(varbinds)] == expected[:1]


def test_the_rows_of_a_source_are_found_far_behind_those_of_others() -> None:
    store = store_of([(2, row) for row in range(1, 500)] + [(1, 500), (1, 501)])
    view = SourceView(store, 1)
    varbinds, last = view.walk(ber.encode_name((*ALARMS, NAME)), 1)
    assert ber.decode_name(last) == (*ALARMS, NAME, 4_001)
    assert len(varbinds) == 1
    varbinds, last = view.walk(last, 2)
    assert ber.decode_name(last) == (*ALARMS, DEPTH, 4_001), "one of this column, and one of the next"


@pytest.mark.parametrize(
    ("oid", "answer"),
    [
        ((*QUEUES, NAME, 1, 7), TEXT),
        ((*QUEUES, NAME, 2, 7), ber.NO_SUCH_INSTANCE),
        ((*QUEUES, NAME, 1), ber.NO_SUCH_INSTANCE),
        ((*QUEUES, NAME), ber.NO_SUCH_INSTANCE),
        ((*QUEUES, 3, 1, 7), ber.NO_SUCH_OBJECT),
        (SYSTEM, TEXT),
    ],
)
def test_a_row_of_another_source_has_no_instance(oid: Oid, answer: bytes) -> None:
    view = SourceView(store_of([(1, 7), (2, 7)]), 1)
    assert view.read(ber.encode_name(oid)) == answer


def test_a_table_that_was_removed_is_made_again_for_all_sources() -> None:
    store = store_of([(1, 7), (2, 7)])
    store.remove_table(QUEUES)
    store.table(QUEUES, [NAME]).put((2, 7), {NAME: TEXT})
    assert (*QUEUES, NAME, 2, 7) in names(SourceView(store, 1), 5)
