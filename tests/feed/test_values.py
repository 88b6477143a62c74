"""Values as people write them."""

from __future__ import annotations

import contextlib
import math
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.values import (
    FeedValue,
    ObjectLink,
    TextValueError,
    text_of,
    value_from_json,
    value_from_text,
)
from gateway.model.operations import Outcome
from gateway.model.schema import NamedValue
from gateway.model.values import Value, ValueType

STATES = (NamedValue("running", 1), NamedValue("idle", 2))
MODES = (NamedValue("lazy mode", "lazy"), NamedValue("default", "default"))
QUEUE = ObjectLink("rabbitmq:queue", 7, "/|orders")
NAMES = {"orders": QUEUE}
A_UUID = UUID("00000000-0000-0000-0000-0000000000ff")
NO_TIME = "expected a time with its zone, such as 2026-11-20T18:00:00Z, found "
NO_DURATION = "expected a duration, such as 10s, 500ms or 2h, found '10 parsecs'"
MOMENT = 1_700_000_000 * 10**9


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ("true", ValueType.BOOL, True),
        ("False", ValueType.BOOL, False),
        ("1", ValueType.BOOL, True),
        ("0", ValueType.BOOL, False),
        ("-5", ValueType.S8, -5),
        ("+5", ValueType.U64, 5),
        ("300", ValueType.U8, 300),  # out of range: not for this to say
        ("1.5e3", ValueType.F64, 1500.0),
        ("inf", ValueType.F32, math.inf),
        ("", ValueType.STRING, ""),
        ("5", ValueType.STRING, "5"),
        ("00 ff", ValueType.BYTES, b"\x00\xff"),
        (str(A_UUID), ValueType.UUID, A_UUID),
        ("2023-11-14T22:13:20Z", ValueType.TIME, MOMENT),
        ("2023-11-14T23:13:20.123456789+01:00", ValueType.TIME, MOMENT + 123_456_789),
        ("1700000000000000000", ValueType.TIME, MOMENT),
        ("90", ValueType.DURATION, 90),
        ("1.5 s", ValueType.DURATION, 1_500_000_000),
        ("-2min", ValueType.DURATION, -120 * 10**9),
        ("orders", ValueType.REFERENCE, QUEUE),
        ('{"limit": 5, "modes": ["a", true, 0.5]}', ValueType.MAP, {"limit": 5, "modes": ("a", True, 0.5)}),
        ("[]", ValueType.LIST, ()),
    ],
)  # fmt: skip
def test_a_value_is_read_by_the_type_that_is_wanted(text: str, wanted: ValueType, value: FeedValue) -> None:
    read = value_from_text(text, wanted, find=NAMES.get)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "wanted", "outcome", "why"),
    [
        ("2", ValueType.BOOL, Outcome.WRONG_TYPE, "expected true or false, found '2'"),
        ("five", ValueType.U32, Outcome.WRONG_TYPE, "expected an integer, found 'five'"),
        ("1_000", ValueType.U32, Outcome.WRONG_TYPE, "expected an integer, found '1_000'"),
        ("9" * 41, ValueType.U32, Outcome.WRONG_TYPE, f"expected an integer, found '{'9' * 40}...'"),
        ("1_0.0", ValueType.F64, Outcome.WRONG_TYPE, "expected a number, found '1_0.0'"),
        ("xyz", ValueType.BYTES, Outcome.WRONG_TYPE, "expected bytes in hexadecimal, found 'xyz'"),
        ("ff", ValueType.UUID, Outcome.WRONG_TYPE, "expected a UUID, found 'ff'"),
        ("yesterday", ValueType.TIME, Outcome.WRONG_TYPE, NO_TIME),
        ("2023-11-14T22:13:20", ValueType.TIME, Outcome.WRONG_TYPE, NO_TIME),
        ("2023-02-30T00:00:00Z", ValueType.TIME, Outcome.WRONG_TYPE, NO_TIME),
        ("10 parsecs", ValueType.DURATION, Outcome.WRONG_TYPE, NO_DURATION),
        ("invoices", ValueType.REFERENCE, Outcome.WRONG_VALUE, "'invoices' names no object that is known"),
        ("[]", ValueType.MAP, Outcome.WRONG_TYPE, "expected a JSON object, found '[]'"),
        ("{}", ValueType.LIST, Outcome.WRONG_TYPE, "expected a JSON array, found '{}'"),
        ("{", ValueType.MAP, Outcome.WRONG_VALUE, "not JSON: Expecting property name"),
        ('{"a": NaN}', ValueType.MAP, Outcome.WRONG_VALUE, "NaN is not JSON"),
        ('{"a": 1e999}', ValueType.MAP, Outcome.WRONG_VALUE, "a number is too large"),
        ('{"a": null}', ValueType.MAP, Outcome.WRONG_VALUE, "null stands for no value: leave it out"),
        ("[" * 100_000, ValueType.LIST, Outcome.WRONG_VALUE, "not JSON: "),
    ],
)  # fmt: skip
def test_what_is_no_value_of_the_type_is_reported(
    text: str, wanted: ValueType, outcome: Outcome, why: str
) -> None:
    with pytest.raises(TextValueError) as refused:
        value_from_text(text, wanted)
    assert refused.value.outcome is outcome
    assert str(refused.value).startswith(why)


def test_an_enumeration_is_written_as_a_label_or_as_the_value_that_travels() -> None:
    assert value_from_text("idle", ValueType.U8, STATES) == 2
    assert value_from_text("2", ValueType.U8, STATES) == 2
    assert value_from_text("lazy mode", ValueType.STRING, MODES) == "lazy"
    assert value_from_text("lazy", ValueType.STRING, MODES) == "lazy"
    with pytest.raises(TextValueError, match="'asleep' is none of running, idle") as refused:
        value_from_text("asleep", ValueType.U8, STATES)
    assert refused.value.outcome is Outcome.WRONG_VALUE


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ('"a\\nb"', ValueType.STRING, "a\nb"),
        ('"5"', ValueType.U8, 5),
        ("5", ValueType.U8, 5),
        ("5", ValueType.F64, 5.0),
        ("true", ValueType.BOOL, True),
        ("1000", ValueType.DURATION, 1000),
        ('"1us"', ValueType.DURATION, 1000),
        ("[1]", ValueType.LIST, (1,)),
        ('"running"', ValueType.U8, 1),
    ],
)
def test_the_same_in_json(text: str, wanted: ValueType, value: Value) -> None:
    read = value_from_json(text, wanted, STATES)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("true", ValueType.U8),
        ("1.5", ValueType.U8),
        ("5", ValueType.STRING),
        ("[]", ValueType.MAP),
        ("5" * 400, ValueType.STRING),
    ],
)
def test_json_of_another_type_is_reported(text: str, wanted: ValueType) -> None:
    with pytest.raises(TextValueError) as refused:
        value_from_json(text, wanted)
    assert refused.value.outcome is Outcome.WRONG_TYPE


_PLAIN = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_OF_TYPE = st.one_of(
    st.tuples(st.just(ValueType.BOOL), st.booleans()),
    st.tuples(st.just(ValueType.S64), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(ValueType.F64), st.floats(allow_nan=False)),
    st.tuples(st.just(ValueType.STRING), st.text()),
    st.tuples(st.just(ValueType.BYTES), st.binary()),
    st.tuples(st.just(ValueType.UUID), st.uuids()),
    st.tuples(st.just(ValueType.TIME), st.integers(0, 2**62)),
    st.tuples(st.just(ValueType.DURATION), st.integers(0, 2**63)),
    st.tuples(st.just(ValueType.MAP), st.dictionaries(st.text(), _PLAIN, max_size=3)),
    st.tuples(st.just(ValueType.LIST), st.lists(_PLAIN, max_size=3).map(tuple)),
)


@given(_OF_TYPE)
def test_what_is_shown_can_be_written(of_type: tuple[ValueType, Value]) -> None:
    wanted, value = of_type
    assert value_from_text(text_of(value, wanted), wanted) == value


def test_labels_are_shown_and_references_have_the_name_of_their_object() -> None:
    assert text_of(2, ValueType.U8, STATES) == "idle"
    assert text_of(True, ValueType.U8, (NamedValue("one", 1),)) == "true"
    assert text_of(QUEUE, ValueType.REFERENCE) == "/|orders"


@given(st.text(), st.sampled_from(ValueType))
def test_any_text_is_a_value_or_one_error(text: str, wanted: ValueType) -> None:
    for read in (value_from_text, value_from_json):
        with contextlib.suppress(TextValueError):
            read(text, wanted)
