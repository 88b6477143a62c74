"""Dates: results recorded from Java's `SimpleDateFormat`, and the texts that are refused here."""

from __future__ import annotations

import lzma
import re
from datetime import UTC
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gateway.dialects.ami.dates import MAX_DATE, DateRules, read_date, write_date
from gateway.dialects.ami.deviations import Deviation, Leniency, Reading
from gateway.dialects.errors import LocalProtocolError, ProtocolError

DATA = Path(__file__).parents[2] / "data" / "ami" / "simple-date-format.tsv.xz"

FIRST, LAST = -12_212_553_600_000, 253_402_300_799_999
"""The first time of 1583 and the last of 9999, in milliseconds since 1970."""


@cache
def _recorded() -> list[tuple[str, str, str, int | None, int]]:
    rows = [line.split("\t") for line in lzma.decompress(DATA.read_bytes()).decode().splitlines()]
    return [
        (zone, pattern, text, None if found == "none" else int(found), int(end))
        for zone, pattern, text, found, end in rows
    ]


def _read(text: str, pattern: str, rules: DateRules, leniency: Leniency) -> int | None:
    try:
        return read_date(text, pattern, rules, leniency)
    except ProtocolError:
        return None


def _refused_on_purpose(text: str, found: int | None) -> bool:
    """Return whether the text is read by Java only: exponents, ambiguous zone names, dates far away."""
    return "IST" in text or re.search("[0-9]E[0-9]", text) is not None or not FIRST <= (found or 0) <= LAST


def test_dates_mean_what_java_takes_them_for() -> None:
    compared = 0
    for zone, pattern, text, expected, end in _recorded():
        leniency = Leniency(Reading.LENIENT)
        found = _read(text, pattern, DateRules(ZoneInfo(zone)), leniency)
        if _refused_on_purpose(text, expected):
            assert found is None, (pattern, text)
            continue
        assert found == expected, (zone, pattern, text)
        if found is not None:
            assert (Deviation.TEXT_AFTER_DATE in leniency.deviations) == (end < len(text)), (pattern, text)
        compared += 1
    assert compared > 1000


@pytest.mark.parametrize(
    ("text", "pattern", "found"),
    [
        ("20140503", "yyyyMMdd", 1399075200000),
        ("2024-03-01 10:20:30.456", "yyyy-MM-dd HH:mm:ss.SSS", 1709288430456),
        ("2024-03-01T10:20:30Z", "yyyy-MM-dd'T'HH:mm:ssX", 1709288430000),
        ("2024-03-01T10:20:30+05", "yyyy-MM-dd'T'HH:mm:ssX", 1709270430000),
        ("2024-03-01T10:20:30+05:30", "yyyy-MM-dd'T'HH:mm:ssXXX", 1709268630000),
        ("1 Mar 2024 GMT-5:00", "d MMM yyyy z", 1709269200000),
        ("1 Mar 2024 gmt", "d MMM yyyy z", 1709251200000),
        ("1 Mar 2024 Pacific Daylight Time", "d MMM yyyy z", 1709276400000),
        ("2024-13-32", "yyyy-MM-dd", 1738368000000),  # the 32nd of a 13th month is the 1st of February
        ("2024-02-00", "yyyy-MM-dd", 1706659200000),
        ("49", "yy", 2493072000000),
        ("50", "yy", -631152000000),
        ("-0", "yy", None),
        ("2024 -1 Mon", "yyyy F E", 1706486400000),  # the last Monday of January
        ("8 2024", "u YYYY", 1704672000000),  # Monday of the week after
        ("0 2024", "u YYYY", 1703376000000),
        ("AD 2024", "G yyyy", 1704067200000),
        ("BC 2024", "G yyyy", None),
        ("1582", "yyyy", None),
        ("9999-12-31", "yyyy-MM-dd", None),
        ("1500-12-1 Mon", "YYYY-ww-u E", None),
        ("1500 1", "yyyy D", None),
        ("1500 1", "yyyy w", None),
        ("1500 1", "yyyy F", None),
        ("9999 12 -1", "yyyy MM F", None),
        ("", "yyyy", None),
        ("20", "yyyyMM", None),
        ("12345678901", "yyyy", None),
        ("x", "X", None),
        ("", "X", None),
        ("+2400", "Z", None),
        ("+0060", "Z", None),
        ("+5", "X", None),
        ("XYZ", "z", None),
        ("GMT+0530", "z", None),
        ("Foo 2024", "MMM yyyy", None),
    ],
)
def test_dates_by_hand(text: str, pattern: str, found: int | None) -> None:
    assert _read(text, pattern, DateRules(), Leniency(Reading.STRICT)) == found


def test_a_clock_that_is_set_back_or_forward() -> None:
    rules, leniency = DateRules(ZoneInfo("Europe/Berlin")), Leniency(Reading.STRICT)
    twice = read_date("2024-10-27 02:30", "yyyy-MM-dd HH:mm", rules, leniency)
    assert twice == 1729992600000  # 01:30 UTC, the later one
    never = read_date("2024-03-31 02:30", "yyyy-MM-dd HH:mm", rules, leniency)
    assert never == 1711848600000  # 01:30 UTC, when clocks showed 03:30


@pytest.mark.parametrize("pattern", ["yyyy'", "'", "b", "XXXX", "yyyy-nn", "y" * 101])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ProtocolError, match="a pattern"):
        read_date("2024", pattern, DateRules(), Leniency(Reading.LENIENT))


def test_text_behind_a_date_is_forgiven_or_not() -> None:
    leniency = Leniency(Reading.LENIENT)
    assert read_date("20240301xyz", "yyyyMMdd", DateRules(UTC), leniency) == 1709251200000
    assert leniency.deviations == {Deviation.TEXT_AFTER_DATE}
    with pytest.raises(ProtocolError, match="end of the date"):
        read_date("20240301xyz", "yyyyMMdd", DateRules(UTC), Leniency(Reading.STRICT))


def test_long_dates_are_refused() -> None:
    with pytest.raises(ProtocolError, match="at most 400"):
        read_date("2" * (MAX_DATE + 1), "yyyy", DateRules(), Leniency(Reading.LENIENT))


def test_dates_are_written_with_their_zone() -> None:
    assert write_date(-1) == ("1969-12-31 23:59:59.999 +0000", "yyyy-MM-dd HH:mm:ss.SSS Z")
    for instant in (1 << 60, FIRST - 1):
        with pytest.raises(LocalProtocolError):
            write_date(instant)
