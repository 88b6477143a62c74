"""Readings are collected without harm, and travel between processes of one gateway."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from gateway.service.metrics import families
from gateway.service.metrics.families import (
    Family,
    Histogram,
    Kind,
    Metrics,
    Reading,
    decode_readings,
    encode_readings,
)

ROWS = Family("rows", Kind.GAUGE, "Rows.", ("source",))
WAIT = Family("wait_seconds", Kind.HISTOGRAM, "Waiting.", ("source",))


def test_a_truth_is_reported_as_a_number() -> None:
    assert decode_readings(encode_readings([ROWS.at(bool(ROWS), "orders")])) == [ROWS.at(1, "orders")]


def test_a_histogram_counts_what_is_below_each_bound() -> None:
    histogram = Histogram(WAIT, (0.5, 2.0), "orders")
    for seconds in (0.25, 0.5, 1.0, 3.0):
        histogram.observe(seconds)
    assert list(histogram.readings()) == [
        Reading("wait_seconds", "_bucket", ("orders", "0.5"), 2),
        Reading("wait_seconds", "_bucket", ("orders", "2.0"), 3),
        Reading("wait_seconds", "_bucket", ("orders", "+Inf"), 4),
        Reading("wait_seconds", "_sum", ("orders",), 4.75),
        Reading("wait_seconds", "_count", ("orders",), 4),
    ]


async def test_all_collectors_are_asked_and_one_that_fails_takes_nothing_from_the_others() -> None:
    metrics = Metrics()
    metrics.add("first", lambda: [ROWS.at(1, "first")])
    metrics.add("broken", _broken)
    metrics.add("second", lambda: [ROWS.at(2, "second")])
    with structlog.testing.capture_logs() as logged:
        assert await metrics.collect() == [ROWS.at(1, "first"), ROWS.at(2, "second")]
    assert [(line["event"], line["collector"]) for line in logged] == [("metrics-failed", "broken")]


async def test_a_collector_takes_the_place_of_a_former_one_of_its_name() -> None:
    metrics = Metrics()
    metrics.add("one", lambda: [ROWS.at(1, "before")])
    metrics.add("one", lambda: [ROWS.at(2, "after")])
    assert await metrics.collect() == [ROWS.at(2, "after")]
    metrics.remove("one")
    assert await metrics.collect() == []


async def test_who_does_not_answer_in_time_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "SLOW_SECONDS", 0.01)

    async def never() -> list[Reading]:
        await asyncio.get_running_loop().create_future()
        return []

    async def soon() -> list[Reading]:
        return [ROWS.at(3, "soon")]

    metrics = Metrics()
    metrics.add_slow("never", never)
    metrics.add_slow("soon", soon)
    with structlog.testing.capture_logs() as logged:
        assert await metrics.collect() == [ROWS.at(3, "soon")]
    assert [(line["event"], line["collector"]) for line in logged] == [("metrics-missing", "never")]


@given(st.lists(st.builds(Reading, st.text(), st.text(), st.tuples(st.text()), st.floats(allow_nan=False))))
def test_what_is_sent_is_what_arrives(reported: list[Reading]) -> None:
    assert decode_readings(encode_readings(reported)) == reported


@given(st.binary())
def test_any_octets_are_readings_or_an_error(octets: bytes) -> None:
    with contextlib.suppress(ValueError):
        decode_readings(octets)


def _broken() -> Iterator[Reading]:
    yield ROWS.at(9, "never seen")
    raise LookupError
