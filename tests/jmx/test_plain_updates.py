"""Updates without a conversion: their change is the one that a conversion value by value makes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.records import ClassRecord, UpdateRecord
from gateway.feed.values import FeedValue
from gateway.jmx import plain_updates
from gateway.jmx.classes import shown_class
from gateway.jmx.commands import Change, encode_batch
from gateway.model.schema import Access, ClassKey, ClassSchema, Element, NamedValue
from gateway.model.values import ValueType

SCHEMA = ClassSchema(
    ClassKey("shop", "till", bytes(16)),
    properties=(
        Element("name", ValueType.STRING, access=Access.READ_CREATE, index=True),
        Element("number", ValueType.U64),
        Element("state", ValueType.U8, values=(NamedValue("open", 1),)),
        Element("opened", ValueType.TIME),
    ),
    statistics=(
        Element("sales", ValueType.U64),
        Element("waiting", ValueType.S32),
        Element("mean", ValueType.F64),
        Element("busy", ValueType.BOOL),
    ),
)
TILL = shown_class(ClassRecord(1, SCHEMA, "name", ""), lambda _class, _element: "")
OPENED, SALES, WAITING = 3, 4, 5
NOW = 1_800_000_000 * 10**9

VALUES = st.integers(-(2**63), 2**64 - 1) | st.booleans() | st.floats() | st.text(max_size=3)
TIMES = st.sampled_from([0, NOW, NOW + 1, -1, 2**63])


def update(
    values: Mapping[int, FeedValue], times: tuple[int, int, int, int] = (0, NOW, 0, NOW)
) -> UpdateRecord:
    return UpdateRecord(1, 1, 7, *times, values)


def by_position(change: Change) -> dict[int, object]:
    return dict(zip(change.positions, change.values, strict=True))


def converted(record: UpdateRecord) -> Change:
    """Return the change that is made value by value."""
    return TILL.change(9, record, lambda _position, _link: None, lambda _class, _element, _value: None)


def test_counters_need_no_conversion() -> None:
    change = TILL.plain_updates.change(9, update({SALES: 5, WAITING: -1}))
    assert change is not None
    assert by_position(change) == by_position(converted(update({SALES: 5, WAITING: -1})))


@pytest.mark.parametrize(
    "record",
    [
        update({SALES: 2**63}),
        update({SALES: True}),
        update({SALES: 5.0}),
        update({SALES: 5, 2: 1}),
        update({SALES: 5, 99: 1}),
        update({SALES: 5}, (0, -1, 0, 0)),
        msgspec.structs.replace(update({SALES: 5}), absent=(WAITING,)),
    ],
)
def test_whatever_else_there_is_is_converted_value_by_value(record: UpdateRecord) -> None:
    assert TILL.plain_updates.change(9, record) is None


@given(st.dictionaries(st.integers(0, 8), VALUES), st.tuples(TIMES, TIMES, TIMES, TIMES))
def test_the_change_is_the_same_as_value_by_value(
    values: dict[int, FeedValue], times: tuple[int, int, int, int]
) -> None:
    record = update(values, times)
    change = TILL.plain_updates.change(9, record)
    assert change is None or by_position(change) == by_position(converted(record))
    numbers = [value for value in values.values() if type(value) is int]
    if values.keys() <= {OPENED, SALES, WAITING} and len(numbers) == len(values):
        shown_times = (times[1] or times[0], times[2], times[3])
        fits = max((*numbers, *shown_times)) < 2**63 and min(shown_times) >= 0
        assert (change is not None) == fits
    assert encode_batch([change or converted(record)])


def test_sets_of_elements_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_updates, "MAX_SETS", 2)
    updates: tuple[Mapping[int, FeedValue], ...] = (
        {SALES: 1},
        {WAITING: 1},
        {SALES: 1, WAITING: 2},
        {SALES: 3},
    )
    for values in updates:
        change = TILL.plain_updates.change(9, update(values))
        assert change is not None
        assert list(change.values)[3:] == list(values.values())
