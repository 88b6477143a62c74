"""Values of requests: found, checked, and in the form in which the inventory keeps them."""

from __future__ import annotations

import contextlib
import math
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.values import ObjectLink
from gateway.model.operations import Outcome
from gateway.model.schema import Argument, NamedValue
from gateway.model.values import Reference, ValueType
from gateway.operations.planning import Rejected, as_sent, checked, is_same

QUEUE = ObjectLink("shop:queue", 3, "/|q")
SHORT = ObjectLink("shop:queue", 3, "")


def find(link: ObjectLink) -> tuple[ObjectLink, str] | None:
    return (QUEUE, "n3") if (link.class_name, link.row) == ("shop:queue", 3) else None


def fitted(value: object, value_type: ValueType, **constraints: object) -> object:
    argument = Argument("a", value_type, **constraints)  # type: ignore[arg-type]  # as the cases say
    return checked(value, argument, find, "a")


@pytest.mark.parametrize(
    ("value_type", "value", "kept"),
    [
        (ValueType.BOOL, True, True),
        (ValueType.U64, 2**64 - 1, 2**64 - 1),
        (ValueType.S8, -128, -128),
        (ValueType.F64, 1, 1.0),
        (ValueType.F32, 0.1, 0.10000000149011612),
        (ValueType.STRING, "ä", "ä"),
        (ValueType.BYTES, b"\xff", b"\xff"),
        (ValueType.UUID, UUID(int=7), UUID(int=7)),
        (ValueType.DURATION, 10**9, 10**9),
        (ValueType.REFERENCE, SHORT, QUEUE),
        (ValueType.LIST, [1, ["x", SHORT]], (1, ("x", QUEUE))),
        (ValueType.MAP, {"x": [SHORT], "y": 1.5}, {"x": (QUEUE,), "y": 1.5}),
    ],
)
def test_what_fits_is_kept_as_the_inventory_would(value_type: ValueType, value: object, kept: object) -> None:
    assert fitted(value, value_type) == kept
    assert type(fitted(value, value_type)) is type(kept)


@pytest.mark.parametrize(
    ("value_type", "value", "outcome"),
    [
        (ValueType.BOOL, 1, Outcome.WRONG_TYPE),
        (ValueType.U8, True, Outcome.WRONG_TYPE),
        (ValueType.U8, 256, Outcome.WRONG_VALUE),
        (ValueType.F32, 1e39, Outcome.WRONG_VALUE),
        (ValueType.STRING, "\ud800", Outcome.WRONG_VALUE),
        (ValueType.STRING, None, Outcome.WRONG_TYPE),
        (ValueType.REFERENCE, "n3", Outcome.WRONG_TYPE),
        (ValueType.REFERENCE, ObjectLink("shop:queue", 4, ""), Outcome.WRONG_VALUE),
        (ValueType.MAP, {1: "x"}, Outcome.WRONG_TYPE),
        (ValueType.MAP, {"x": None}, Outcome.WRONG_TYPE),
        (ValueType.LIST, [2**64], Outcome.WRONG_VALUE),
    ],
)
def test_what_does_not_fit_is_refused(value_type: ValueType, value: object, outcome: Outcome) -> None:
    with pytest.raises(Rejected) as refusal:
        fitted(value, value_type)
    assert (refusal.value.outcome, refusal.value.element) == (outcome, "a")


def test_a_reference_leads_to_the_class_that_is_wanted() -> None:
    assert fitted(SHORT, ValueType.REFERENCE, references="queue") == QUEUE
    assert fitted(SHORT, ValueType.REFERENCE, references="shop:queue") == QUEUE
    with pytest.raises(Rejected, match="of the class vhost"):
        fitted(SHORT, ValueType.REFERENCE, references="vhost")


def test_lengths_ranges_and_enumerations_are_the_schemas() -> None:
    with pytest.raises(Rejected, match="bytes"):
        fitted("äää", ValueType.STRING, max_length=5)
    with pytest.raises(Rejected, match="more than"):
        fitted(math.nan, ValueType.F64, maximum=1)
    with pytest.raises(Rejected, match="none of hot"):
        fitted({"a": 1}, ValueType.MAP, values=(NamedValue("hot", "h"),))


def test_what_is_nested_too_deep_is_refused() -> None:
    deep: object = "x"
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(Rejected, match="nested"):
        fitted(deep, ValueType.LIST)


def test_references_are_sent_by_native_id_wherever_they_stand() -> None:
    kept = checked({"x": (SHORT, 1)}, Argument("a", ValueType.MAP), find, "a")
    assert as_sent(kept, find) == {"x": (Reference("n3"), 1)}
    assert as_sent(None, find) is None


def test_when_two_values_are_the_same() -> None:
    assert is_same(math.nan, math.nan)
    assert is_same(None, None)
    assert is_same(1, 1.0)
    assert not is_same(True, 1)
    assert not is_same(None, 0)
    assert not is_same((), None)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(SHORT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=10,
)


@given(ANYTHING, st.sampled_from(ValueType))
def test_anything_fits_or_is_refused_and_what_fits_fits_again(value: object, value_type: ValueType) -> None:
    argument = Argument("a", value_type)
    with contextlib.suppress(Rejected):
        kept = checked(value, argument, find, "a")
        assert is_same(checked(kept, argument, find, "a"), kept)
