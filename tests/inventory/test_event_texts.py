"""Readable texts of events: each kind of value, and that hostile characters are removed."""

from __future__ import annotations

import unicodedata
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.values import FeedValue, ObjectLink
from gateway.inventory.events import (
    MAX_TEXT_OCTETS,
    MAX_VALUE_CHARACTERS,
    duration_text,
    event_text,
    line_from,
    one_line,
    shortened,
    time_text,
    value_text,
)
from gateway.model.schema import Argument, ClassKey, EventSchema, NamedValue
from gateway.model.times import SECOND
from gateway.model.values import Reference, ValueType


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0 s"),
        (999, "999 ns"),
        (25_000, "25 us"),
        (SECOND // 3, "333 ms"),
        (SECOND * 3 // 2, "1.5 s"),
        (3 * SECOND, "3 s"),
        (59 * SECOND + 999_999_999, "59 s"),
        (60 * SECOND, "1 min"),
        (200 * SECOND, "3 min 20 s"),
        (3_900 * SECOND, "1 h 5 min"),
        (3_659 * SECOND, "1 h"),
        (90_000 * SECOND, "1 d 1 h"),
        (2**63, "106751 d 23 h"),
        (-200 * SECOND, "-3 min 20 s"),
    ],
)
def test_durations_as_people_say_them(duration: int, text: str) -> None:
    assert duration_text(duration) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (SECOND, "1970-01-01T00:00:01Z"),
        (1_700_000_000 * SECOND + 250_000_000, "2023-11-14T22:13:20.250Z"),
        (2**64 - 1, "2554-07-21T23:34:33.709Z"),
        (10**30, "1" + "0" * 30),
    ],
)
def test_times_in_utc(time: int, text: str) -> None:
    assert time_text(time) == text


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (None, ValueType.STRING, "?"),
        ("", ValueType.STRING, ""),
        (True, ValueType.BOOL, "true"),
        (2**64 - 1, ValueType.U64, "18446744073709551615"),
        (0.5, ValueType.F64, "0.5"),
        (b"\x00\xff", ValueType.BYTES, "00ff"),
        (UUID(int=7), ValueType.UUID, "00000000-0000-0000-0000-000000000007"),
        (90 * SECOND, ValueType.DURATION, "1 min 30 s"),
        (SECOND, ValueType.TIME, "1970-01-01T00:00:01Z"),
        (ObjectLink("shop:queue", 3, "/|orders"), ValueType.REFERENCE, "/|orders"),
        (("a", (1,), Reference("x"), b"\x01"), ValueType.LIST, '["a",[1],"x","01"]'),
        ({"ä": {"b": UUID(int=1)}}, ValueType.MAP, '{"ä":{"b":"00000000-0000-0000-0000-000000000001"}}'),
    ],
)
def test_values_of_each_type(value: FeedValue | None, type_: ValueType, text: str) -> None:
    assert value_text(value, Argument("x", type_)) == text


def test_an_enumeration_is_reported_by_its_label() -> None:
    state = Argument("state", ValueType.U8, values=(NamedValue("closed", 0), NamedValue("open", 1)))
    assert [value_text(value, state) for value in (0, 1, 2)] == ["closed", "open", "2"]


def test_a_template_has_places_for_names_and_nothing_else_means_anything() -> None:
    texts = {"a": "1", "b": "{a}"}
    template = "{a} {b} {} {a.b!r:>9} {{a}} %s $a \\n {unknown}"
    assert line_from(template, lambda name: texts.get(name, "?")) == ("1 {a} {} {a.b!r:>9} {1} %s $a \\n ?")


def test_a_long_value_leaves_room_for_the_rest() -> None:
    line = line_from("{long} and more", lambda _: "x" * 1000)
    assert line == "x" * (MAX_VALUE_CHARACTERS - 1) + "… and more"
    assert shortened("x" * MAX_VALUE_CHARACTERS) == "x" * MAX_VALUE_CHARACTERS


def test_controls_are_not_passed_on() -> None:
    assert one_line(" two\r\n\tlines\x1b[31m red \u202eesrever\u2028 \x00") == (
        r"two\r\n\tlines\x1b[31m red \u202eesrever\u2028 \x00"
    )


def test_a_long_line_is_cut_between_characters() -> None:
    line = one_line("é" * 200)
    assert line == "é" * 126 + "…"
    assert len(line.encode()) == MAX_TEXT_OCTETS


def test_an_event_without_template_and_arguments_is_its_name() -> None:
    schema = EventSchema(ClassKey("shop", "bang"), (Argument("why", ValueType.STRING),))
    assert event_text(schema, {}) == "shop:bang"
    assert event_text(schema, {0: "so"}) == "shop:bang why=so"


@given(st.text(st.characters(), max_size=400), st.text(st.characters(), max_size=400))
def test_every_line_is_short_and_safe(template: str, value: str) -> None:
    line = line_from(template + "{x}", lambda _: value)
    assert len(line.encode()) <= MAX_TEXT_OCTETS
    assert not {"Cc", "Cs", "Zl", "Zp"} & {unicodedata.category(character) for character in line}


@given(st.integers(-(2**64), 2**64))
def test_every_duration_and_time_has_a_text(value: int) -> None:
    assert duration_text(value)
    assert time_text(value)
