"""The attribute for each type of the model, and its values."""

from __future__ import annotations

import math
from dataclasses import replace
from uuid import UUID

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.values import FeedValue, ObjectLink
from gateway.jmx import types
from gateway.jmx.commands import AttributeType, JmxValue
from gateway.model.schema import Element, NamedValue
from gateway.model.values import Reference, Value, ValueType

COLOURS = (NamedValue("red", 1), NamedValue("green", 2))


def shown(type_: ValueType, value: FeedValue, *, statistic: bool = False) -> JmxValue:
    return types.converter(Element("e", type_), statistic=statistic)(value)


@pytest.mark.parametrize(
    ("type_", "attribute_type", "value", "converted"),
    [
        (ValueType.BOOL, AttributeType.BOOLEAN, False, False),
        (ValueType.U8, AttributeType.LONG, 255, 255),
        (ValueType.U32, AttributeType.LONG, 2**32 - 1, 2**32 - 1),
        (ValueType.S64, AttributeType.LONG, -(2**63), -(2**63)),
        (ValueType.U64, AttributeType.BIG_INTEGER, 2**64 - 1, 2**64 - 1),
        (ValueType.F32, AttributeType.DOUBLE, 0.5, 0.5),
        (ValueType.F64, AttributeType.DOUBLE, 3, 3.0),
        (ValueType.STRING, AttributeType.STRING, "é", "é"),
        (ValueType.BYTES, AttributeType.BYTES, b"\0\xff", b"\0\xff"),
        (
            ValueType.UUID,
            AttributeType.STRING,
            UUID("12345678-1234-5678-1234-567812345678"),
            "12345678-1234-5678-1234-567812345678",
        ),
        (ValueType.TIME, AttributeType.DATE, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (ValueType.DURATION, AttributeType.LONG, -5, -5),
        (
            ValueType.MAP,
            AttributeType.MAP,
            {"z": True, "a": {"n": [1, math.nan]}, "b": b"\1", "t": "text", "f": 1.5},
            (("a", '{"n":[1,"nan"]}'), ("b", "01"), ("f", "1.5"), ("t", "text"), ("z", "true")),
        ),
        (
            ValueType.LIST,
            AttributeType.LIST,
            ("a", 1, (2, "b"), Reference("0-1"), ObjectLink("p:c", 1, "name"), math.inf),
            ("a", "1", '[2,"b"]', "0-1", "name", "inf"),
        ),
    ],
)
def test_a_property(
    type_: ValueType, attribute_type: AttributeType, value: FeedValue, converted: JmxValue
) -> None:
    assert types.attribute_type(Element("e", type_)) is attribute_type
    assert shown(type_, value) == converted
    assert type(shown(type_, value)) is type(converted)


def test_every_type_of_the_model_has_one() -> None:
    assert {types.attribute_type(Element("e", type_)) for type_ in ValueType} == set(AttributeType)


def test_a_statistic_of_64_bits_is_a_long_and_what_is_beyond_is_not_wrapped() -> None:
    assert types.attribute_type(Element("e", ValueType.U64), statistic=True) is AttributeType.LONG
    assert shown(ValueType.U64, 2**63 - 1, statistic=True) == 2**63 - 1
    with pytest.raises(types.UnfitValueError):
        shown(ValueType.U64, 2**63, statistic=True)


def test_an_enumeration_has_labels_and_an_unknown_value_its_own_text() -> None:
    element = Element("e", ValueType.U8, values=COLOURS)
    convert = types.converter(element)
    assert types.attribute_type(element) is AttributeType.STRING
    assert types.legal_values(element) == ("red", "green")
    assert [convert(1), convert(2), convert(3)] == ["red", "green", "3"]
    with pytest.raises(types.UnfitValueError):
        convert(True)


def test_values_with_labels_of_another_type_are_no_enumeration() -> None:
    element = Element("e", ValueType.BOOL, values=COLOURS)
    assert types.attribute_type(element) is AttributeType.BOOLEAN
    assert types.legal_values(element) == ()


@pytest.mark.parametrize(
    ("type_", "minimum", "maximum", "limits"),
    [
        (AttributeType.LONG, 0, 10, (0, 10)),
        (AttributeType.LONG, 0.0, 2**64 - 1, (0, None)),
        (AttributeType.LONG, 0.5, math.inf, (None, None)),
        (AttributeType.LONG, 10, 0, (None, None)),
        (AttributeType.BIG_INTEGER, -1, 2**64 - 1, (-1, 2**64 - 1)),
        (AttributeType.BIG_INTEGER, math.nan, 2**64, (None, None)),
        (AttributeType.DOUBLE, 0, 1.5, (0.0, 1.5)),
        (AttributeType.STRING, 0, 10, (None, None)),
    ],
)
def test_limits_that_java_takes(
    type_: AttributeType,
    minimum: float,
    maximum: float,
    limits: tuple[float | None, float | None],
) -> None:
    element = replace(Element("e", ValueType.U64), minimum=minimum, maximum=maximum)
    assert types.limits(element, type_) == limits


def test_a_text_that_has_no_utf_8_form_is_mended() -> None:
    assert shown(ValueType.STRING, "a\ud800b") == "a?b"
    assert shown(ValueType.MAP, {"\ud800": "\ud800"}) == (("?", "?"),)


def test_nesting_without_end_is_shown_as_absent() -> None:
    nested: Value = ()
    for _ in range(100_000):
        nested = (nested,)
    with pytest.raises(types.UnfitValueError):
        shown(ValueType.LIST, (nested,))
    del nested


@pytest.mark.parametrize(("nanoseconds", "time"), [(0, None), (-1, None), (5, 5), (2**63, None)])
def test_times_of_records(nanoseconds: int, time: int | None) -> None:
    assert types.time(nanoseconds) == time


values: st.SearchStrategy[FeedValue] = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.uuids()
    | st.builds(Reference, st.text())
    | st.builds(ObjectLink, st.text(), st.integers(), st.text()),
    lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner).map(tuple),
    max_leaves=5,
)


@given(type_=st.sampled_from(ValueType), statistic=st.booleans(), labelled=st.booleans(), value=values)
def test_any_value_is_shown_or_called_unfit(
    *, type_: ValueType, statistic: bool, labelled: bool, value: FeedValue
) -> None:
    element = Element("e", type_, values=COLOURS if labelled else ())
    try:
        converted = types.converter(element, statistic=statistic)(value)
    except types.UnfitValueError:
        return
    assert msgpack.packb(converted)
