"""Values from clients as values of the model: a value that was read can be written back."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.values import FeedValue, ObjectLink
from gateway.jmx import types
from gateway.jmx.commands import AttributeType
from gateway.jmx.types import MAX_DIGITS, Written, from_shown, model_value
from gateway.model.schema import Access, Argument, Element, NamedValue
from gateway.model.validation import validate
from gateway.model.values import Value, ValueType

STATES = (NamedValue("open", 1), NamedValue("closed", 2))
WORDS = (NamedValue("Quick", "fast"), NamedValue("Slow", "slow"))
UUID_TEXT = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
BILLS = ObjectLink("rabbitmq:queue", 8, "/|bills")


def element(type_: ValueType, *values: NamedValue) -> Element:
    return Element("e", type_, access=Access.READ_WRITE, values=values)


def read(type_: AttributeType, value: object, target: Element | Argument) -> FeedValue:
    return model_value(Written(type_, value), target, lambda number, _: BILLS if number == 8 else None)


@pytest.mark.parametrize(
    ("type_", "value", "target", "expected"),
    [
        (AttributeType.BOOLEAN, True, element(ValueType.BOOL), True),
        (AttributeType.LONG, 2**63 - 1, element(ValueType.U64), 2**63 - 1),
        (AttributeType.BIG_INTEGER, str(2**64 - 1), element(ValueType.U64), 2**64 - 1),
        (AttributeType.BIG_INTEGER, str(2**64), element(ValueType.U64), 2**64),
        (AttributeType.LONG, 5, element(ValueType.DURATION), 5),
        (AttributeType.DOUBLE, 0.5, element(ValueType.F32), 0.5),
        (AttributeType.LONG, 5, element(ValueType.F64), 5.0),
        (AttributeType.STRING, "5", element(ValueType.STRING), "5"),
        (AttributeType.DATE, 1_700_000_000_123, element(ValueType.TIME), 1_700_000_000_123_000_000),
        (AttributeType.BYTES, b"\x00", element(ValueType.BYTES), b"\x00"),
        (AttributeType.STRING, UUID_TEXT, element(ValueType.UUID), UUID(UUID_TEXT)),
        (AttributeType.OBJECT_NAME, [8, "/|bills"], element(ValueType.REFERENCE), BILLS),
        (AttributeType.STRING, "closed", element(ValueType.U8, *STATES), 2),
        (AttributeType.STRING, "7", element(ValueType.U8, *STATES), 7),
        (AttributeType.STRING, "Quick", element(ValueType.STRING, *WORDS), "fast"),
        (AttributeType.STRING, "fast", element(ValueType.STRING, *WORDS), "fast"),
        (AttributeType.STRING, "Slow", Argument("a", ValueType.STRING, values=WORDS), "slow"),
        (AttributeType.LIST, ["a", "5", '"5"'], element(ValueType.LIST), ("a", 5, "5")),
        (
            AttributeType.MAP,
            [["a", "1"], ["b", '{"c":[true]}']],
            element(ValueType.MAP),
            {"a": 1, "b": {"c": (True,)}},
        ),
    ],
)
def test_values_of_the_right_type(
    type_: AttributeType, value: object, target: Element | Argument, expected: FeedValue
) -> None:
    found = read(type_, value, target)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("type_", "value", "target"),
    [
        (AttributeType.STRING, "5", element(ValueType.U8)),
        (AttributeType.LONG, 1, element(ValueType.BOOL)),
        (AttributeType.BOOLEAN, True, element(ValueType.U8)),
        (AttributeType.DATE, 5, element(ValueType.U64)),
        (AttributeType.DATE, 5, element(ValueType.DURATION)),
        (AttributeType.LONG, 5, element(ValueType.TIME)),
        (AttributeType.BIG_INTEGER, "5", element(ValueType.TIME)),
        (AttributeType.DOUBLE, 1.0, element(ValueType.U8)),
        (AttributeType.LONG, 5, element(ValueType.STRING)),
        (AttributeType.STRING, "no UUID", element(ValueType.UUID)),
        (AttributeType.STRING, "/|bills", element(ValueType.REFERENCE)),
        (AttributeType.OBJECT_NAME, [9, "/|gone"], element(ValueType.REFERENCE)),
        (AttributeType.STRING, "ajar", element(ValueType.U8, *STATES)),
        (AttributeType.BIG_INTEGER, "9" * (MAX_DIGITS + 1), element(ValueType.U64)),
        (AttributeType.STRING, "9" * 5000, element(ValueType.U8, *STATES)),
        (AttributeType.LIST, [], element(ValueType.MAP)),
        (AttributeType.MAP, [], element(ValueType.LIST)),
        (AttributeType.BYTES, b"", element(ValueType.STRING)),
    ],
)
def test_values_of_another_type_stay_of_another_type(
    type_: AttributeType, value: object, target: Element
) -> None:
    found = read(type_, value, target)
    assert not isinstance(found, ObjectLink)
    wrong = validate(target, found)
    assert wrong is not None


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (AttributeType.OBJECT_NAME, [8]),
        (AttributeType.MAP, [["a"]]),
        (AttributeType.MAP, {"a": "b"}),
        (AttributeType.LIST, None),
        (AttributeType.STRING, None),
    ],
)
def test_what_java_never_sends_is_a_mistake_of_ours(type_: AttributeType, value: object) -> None:
    with pytest.raises(ValueError, match=r"is written otherwise|an entry of a map"):
        read(type_, value, element(ValueType.MAP))


INNER = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text("abc", max_size=3), INNER, max_size=4))
def test_a_map_that_was_read_is_the_same_when_it_is_written_back(value: Mapping[str, Value]) -> None:
    target = element(ValueType.MAP)
    shown = types.converter(target)(value)
    assert isinstance(shown, tuple)
    assert read(AttributeType.MAP, [list(pair) for pair in shown], target) == value


@given(value=st.lists(INNER, max_size=4).map(tuple))
def test_a_list_that_was_read_is_the_same_when_it_is_written_back(value: tuple[Value, ...]) -> None:
    target = element(ValueType.LIST)
    shown = types.converter(target)(value)
    assert isinstance(shown, tuple)
    assert read(AttributeType.LIST, list(shown), target) == value


@given(text=st.text(max_size=40) | st.sampled_from(["[" * 100_000, "1" * 5000, "NaN", "-Infinity", "1e999"]))
def test_any_text_in_a_map_or_list_is_some_value(text: str) -> None:
    from_shown(text)


NO_JSON = ("null", "[null]", '{"a":null}', "NaN", "1e999", "1" * 200, "[" * 100_000, "", "a")


@pytest.mark.parametrize("text", NO_JSON)
def test_what_is_no_json_without_null_is_text(text: str) -> None:
    assert from_shown(text) == text


def test_maps_and_lists_that_cannot_be_set_are_shown_without_quotes() -> None:
    assert types.converter(Element("e", ValueType.LIST))(("5", "a")) == ("5", "a")
    assert types.converter(element(ValueType.LIST))(("5", "a")) == ('"5"', "a")
