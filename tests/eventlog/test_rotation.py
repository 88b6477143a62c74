"""The end of a segment."""

from __future__ import annotations

from gateway.eventlog.retention import LogFileSettings, Rotation, Why, time_text
from gateway.model.times import HOUR, SECOND
from tests.eventlog.reading import BEGIN

SETTINGS = LogFileSettings(segment_duration=600 * SECOND, segment_size=1000, max_size=100_000)


def begun(now: int = BEGIN, octets: int = 0) -> Rotation:
    rotation = Rotation(SETTINGS)
    rotation.begin(time_text(now), now, octets)
    return rotation


def test_a_segment_lasts_until_it_is_old_or_large_once_its_head_is_complete() -> None:
    rotation = begun(octets=500)
    assert rotation.of_time(10_000, BEGIN + 601 * SECOND) is None
    rotation.complete_head(600)
    assert rotation.of_time(1499, BEGIN + 599 * SECOND) is None
    assert rotation.of_time(600, BEGIN + 600 * SECOND) is Why.AGE
    assert rotation.of_time(1500, BEGIN) is Why.SIZE
    assert rotation.of_record(time_text(BEGIN), 1500, BEGIN) is Why.SIZE


def test_a_large_head_is_worth_as_much_behind_it() -> None:
    rotation = begun()
    rotation.complete_head(5000)
    assert rotation.of_time(9999, BEGIN) is None
    assert rotation.of_time(10_000, BEGIN) is Why.SIZE


def test_a_segment_takes_no_more_than_a_quarter_of_all() -> None:
    rotation = Rotation(LogFileSettings(segment_size=1000, max_size=400))
    rotation.begin(time_text(BEGIN), BEGIN, 0)
    rotation.complete_head(10)
    assert rotation.full_at == 100


def test_a_full_hour_ends_a_segment_even_in_its_head() -> None:
    rotation = begun()
    last = BEGIN - BEGIN % HOUR + HOUR - 1000
    assert rotation.of_record(time_text(last), 0, last) is None
    assert rotation.of_record(time_text(last + 1000), 0, last) is Why.HOUR
    assert rotation.of_time(0, last) is None
    assert rotation.of_time(0, last + 1000) is Why.HOUR


def test_the_same_hour_of_another_day_is_another_hour() -> None:
    assert begun().of_time(0, BEGIN + 24 * HOUR) is Why.HOUR


def test_only_a_clock_that_was_set_back_ends_a_segment_not_a_record_that_is_late() -> None:
    rotation = begun()
    for back in (1, 10 * SECOND):
        assert rotation.of_record(time_text(BEGIN - back), 0, BEGIN - back) is None
        assert rotation.of_time(0, BEGIN - back) is None
    assert rotation.of_record(time_text(BEGIN - HOUR), 0, BEGIN) is None
    assert rotation.of_record(time_text(BEGIN - HOUR), 0, BEGIN - HOUR) is Why.CLOCK
    assert rotation.of_time(0, BEGIN - HOUR) is Why.CLOCK


def test_times_beyond_the_calendar_are_its_end() -> None:
    assert time_text(BEGIN) == "2026-11-20T14:05:06.000000Z"
    assert time_text(2**63 * 100) == "9999-12-31T23:59:59.999999Z"
