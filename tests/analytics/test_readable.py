"""Values as people read them."""

from __future__ import annotations

import datetime as dt
import os

import pytest

from gateway.analytics.coverage import Period
from gateway.analytics.reports import layout
from gateway.analytics.reports.answers import (
    Form,
    Report,
    Series,
    Value,
    cut,
    duration,
    readable,
    rounded,
    short,
)


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (None, Form.COUNT, ""),
        (0, Form.COUNT, "0"),
        (2**64 - 1, Form.COUNT, "18,446,744,073,709,551,615"),
        (1234.4, Form.COUNT, "1,234"),
        (0.98, Form.SHARE, "98 %"),
        (90, Form.SECONDS, "1 min 30 s"),
        ("a\nb\x1b[0m\u202e", Form.TEXT, r"a\nb\x1b[0m\u202e"),
        (
            dt.datetime(2026, 11, 20, 13, 5, 6, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            Form.TIME,
            "2026-11-20 12:05:06",
        ),
    ],
)
def test_readable(value: Value, form: Form, text: str) -> None:
    assert readable(value, form) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.000123, "0.000123"),
        (0.00001, "0.00001"),
        (0.0000001, "0"),
        (1.005, "1"),
        (12.345, "12.3"),
        (999.6, "1,000"),
        (1e6, "1,000,000"),
    ],
)
def test_rounded(value: float, text: str) -> None:
    assert rounded(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (59.99, "60 s"),
        (60, "1 min"),
        (3600, "1 h"),
        (3725, "1 h 2 min"),
        (86_400 * 3 + 3600 * 4, "3 d 4 h"),
        (86_400 + 5, "1 d"),
        (-90, "-1 min 30 s"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (9_999, "9,999"), (12_340, "12.3 k"), (4_561_000, "4.56 M"), (2e9, "2 G"), (-3e12, "-3 T")],
)
def test_numbers_for_a_glance(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("text", "length", "shown"),
    [
        ("orders.audit", 12, "orders.audit"),
        ("/|amq.gen-HJYunvn33fAPW2Dj5sLKZA", 17, "/|amq.ge…Dj5sLKZA"),
        ("orders.europe.1", 8, "orde…e.1"),
        ("a sentence that is long", 12, "a sentence …"),
    ],
)
def test_a_name_keeps_both_its_ends_and_a_sentence_its_beginning(text: str, length: int, shown: str) -> None:
    assert cut(text, length) == shown
    assert len(cut(text, length)) <= length


def test_a_reader_that_leaves_is_the_commands_matter() -> None:
    """Which ends with 141, as others do: rich would end it with 1."""
    period = Period(dt.datetime(2026, 11, 20, tzinfo=dt.UTC), dt.datetime(2026, 11, 21, tzinfo=dt.UTC))
    series = Series(period, 60, (), (), (), ())
    contents: dict[str, Value] = dict.fromkeys(("records", "objects", "event", "create", "delete", "gap"), 0)
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError), os.fdopen(writing, "w", encoding="utf-8") as output:
        layout.show(Report("log", period, contents, (), series), output)
