"""Conversion between text and values, by type."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.cml.documents import Latin1Text
from gateway.dialects.cml.messages import Spelling
from gateway.dialects.cml.values import read_value, write_value
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.model.schema import Argument, Element, NamedValue
from gateway.model.times import MINUTE, SECOND
from gateway.model.values import Reference, Value, ValueType

READ: list[tuple[str, ValueType, Value | None]] = [
    ("", ValueType.STRING, ""),
    (" a ", ValueType.STRING, " a "),
    ("", ValueType.U32, None),
    ("  ", ValueType.BOOL, None),
    ("0", ValueType.U32, 0),
    (" 4294967295\n", ValueType.U32, 2**32 - 1),
    ("0", ValueType.BOOL, False),
    ("1", ValueType.BOOL, True),
    ("2", ValueType.BOOL, True),  # OpenAMQ stores what was set
    ("-1", ValueType.BOOL, True),
    ("TRUE", ValueType.BOOL, True),
    ("no", ValueType.BOOL, False),
    ("0", ValueType.TIME, 0),
    ("1153008000", ValueType.TIME, 1153008000 * SECOND),
    ("1970-01-01T00:01+00:00", ValueType.TIME, MINUTE),
    ("1970-01-01T00:01:05Z", ValueType.TIME, MINUTE + 5 * SECOND),
    ("1970-01-01T02:00+01:30", ValueType.TIME, 30 * MINUTE),
    ("1970-01-01T02:00-01:30", ValueType.TIME, 210 * MINUTE),
    ("1970-01-01T00:02", ValueType.TIME, 2 * MINUTE),
    ("22", ValueType.REFERENCE, Reference("22")),
    ("", ValueType.REFERENCE, None),
]


@pytest.mark.parametrize(("text", "value_type", "value"), READ)
def test_text_is_read_by_its_type(text: str, value_type: ValueType, value: Value | None) -> None:
    found = read_value(text, value_type)
    assert (found, type(found)) == (value, type(value))


def test_text_of_latin_1_is_plain_text_in_the_model() -> None:
    assert type(read_value(Latin1Text("é"), ValueType.STRING)) is str


@pytest.mark.parametrize(
    ("text", "value_type"),
    [
        ("-1", ValueType.U32),
        ("4294967296", ValueType.U32),
        ("1.5", ValueType.U32),
        ("٣", ValueType.U32),
        ("9" * 5000, ValueType.U32),
        ("maybe", ValueType.BOOL),
        ("9" * 20, ValueType.TIME),
        ("2026-13-01T00:00", ValueType.TIME),
        ("2026-01-01T24:00", ValueType.TIME),
        ("0001-01-01T00:00+23:59", ValueType.TIME),
        ("9999-12-31T23:59-23:59", ValueType.TIME),
        ("today", ValueType.TIME),
        ("queue", ValueType.REFERENCE),
    ],
)
def test_what_is_no_value_of_the_type_is_an_error(text: str, value_type: ValueType) -> None:
    with pytest.raises(ProtocolError):
        read_value(text, value_type)


WRITTEN: list[tuple[ValueType, Value, str]] = [
    (ValueType.STRING, "x" * 255, "x" * 255),
    (ValueType.U32, 2**32 - 1, "4294967295"),
    (ValueType.BOOL, True, "1"),
    (ValueType.BOOL, False, "0"),
    (ValueType.REFERENCE, Reference("22"), "22"),
    (ValueType.S64, -(2**63), "-9223372036854775808"),
    (ValueType.DURATION, 5, "5"),
    (ValueType.F64, 0.5, "0.5"),
    (ValueType.UUID, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
]


@pytest.mark.parametrize(("value_type", "value", "text"), WRITTEN)
@pytest.mark.parametrize("spelling", Spelling)
def test_values_are_written_by_their_type(
    value_type: ValueType, value: Value, text: str, spelling: Spelling
) -> None:
    assert write_value(value, Element("x", value_type), spelling) == text


def test_times_are_seconds_in_the_specification_and_minutes_in_openamq() -> None:
    started = Element("started", ValueType.TIME)
    assert write_value(1795157520 * SECOND, started, Spelling.SPECIFICATION) == "1795157520"
    assert write_value(1795157520 * SECOND, started, Spelling.OPENAMQ) == "2026-11-20T06:52+00:00"
    with pytest.raises(LocalProtocolError, match="whole minute"):
        write_value(SECOND, started, Spelling.OPENAMQ)
    for value in (1, -SECOND, 10**19):
        with pytest.raises(LocalProtocolError):
            write_value(value, started, Spelling.SPECIFICATION)


@pytest.mark.parametrize(
    ("item", "value"),
    [
        (Element("x", ValueType.STRING), "x" * 256),
        (Element("x", ValueType.STRING), "é" * 128),
        (Element("x", ValueType.STRING), 1),
        (Element("x", ValueType.STRING, max_length=2), "abc"),
        (Element("x", ValueType.U32), -1),
        (Element("x", ValueType.U32), 2**32),
        (Element("x", ValueType.U32, maximum=3), 4),
        (Element("x", ValueType.U32, values=(NamedValue("one", 1),)), 2),
        (Argument("x", ValueType.BOOL), 1),
        (Argument("x", ValueType.REFERENCE), Reference("0-1-1-0-15")),
        (Argument("x", ValueType.MAP), {}),
    ],
)
def test_what_does_not_fit_is_refused_and_never_cut(item: Element | Argument, value: Value) -> None:
    with pytest.raises(LocalProtocolError, match=r"^x: "):
        write_value(value, item, Spelling.SPECIFICATION)


_TYPED = st.one_of(
    st.tuples(st.just(ValueType.U32), st.integers(0, 2**32 - 1)),
    st.tuples(st.just(ValueType.BOOL), st.booleans()),
    st.tuples(st.just(ValueType.TIME), st.integers(0, 4_000_000_000 // 60).map(lambda n: n * MINUTE)),
    st.tuples(st.just(ValueType.REFERENCE), st.integers(0, 2**64 - 1).map(lambda n: Reference(str(n)))),
    st.tuples(st.just(ValueType.STRING), st.text(st.characters(codec="utf-8"), max_size=60)),
)


@given(_TYPED, st.sampled_from(Spelling))
def test_any_value_comes_back(typed: tuple[ValueType, Value], spelling: Spelling) -> None:
    value_type, value = typed
    assert read_value(write_value(value, Element("x", value_type), spelling), value_type) == value


@given(st.text(max_size=30), st.sampled_from(list(ValueType)))
def test_any_text_is_a_value_or_the_one_error(text: str, value_type: ValueType) -> None:
    with suppress(ProtocolError):
        read_value(text, value_type)
