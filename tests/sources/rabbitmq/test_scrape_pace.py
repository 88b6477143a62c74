"""How often metrics are read by what that costs the broker."""

from __future__ import annotations

import pytest

from gateway.sources.rabbitmq.scrape_pace import ScrapePace

MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND
MINUTE = 60 * SECOND


def pace(*, dear: bool = True) -> ScrapePace:
    return ScrapePace(5 * SECOND, 0.024, dear=dear)


def run(readings: ScrapePace, now: int, until: int, lean: int, whole: int) -> tuple[int, int, int]:
    """Read at the pace until a time: then, for how long the broker was busy, and how many were whole."""
    busy = wholes = 0
    while now < until:
        is_whole = readings.is_whole(now)
        cost = whole if is_whole else lean
        readings.read(now, cost, whole=is_whole)
        busy, wholes = busy + cost, wholes + is_whole
        now += readings.interval
    return now, busy, wholes


def test_cheap_metrics_are_read_whole_at_the_least_interval() -> None:
    readings = pace()
    now, _, wholes = run(readings, 0, 10 * MINUTE, 20 * MILLISECOND, 100 * MILLISECOND)
    assert (readings.interval, readings.whole_interval) == (5 * SECOND, 5 * SECOND)
    assert wholes == now // (5 * SECOND)


def test_where_whole_readings_are_dear_the_others_stay_frequent() -> None:
    """20,000 queues on RabbitMQ 4.0: 0.12 s of a processor for most metrics, 0.43 s for all of them."""
    readings = pace()
    now, _, _ = run(readings, 0, 10 * MINUTE, 120 * MILLISECOND, 430 * MILLISECOND)
    begun = now
    now, busy, _ = run(readings, now, now + 60 * MINUTE, 120 * MILLISECOND, 430 * MILLISECOND)
    assert readings.interval == pytest.approx(6.667 * SECOND, rel=0.001)
    assert readings.whole_interval == pytest.approx(51.667 * SECOND, rel=0.001)
    assert busy / (now - begun) < 0.024
    assert readings.share == pytest.approx(0.024)


def test_one_slow_reading_at_the_start_does_not_make_the_next_ones_rare() -> None:
    readings = pace()
    readings.read(0, 9 * SECOND, whole=readings.is_whole(0))
    assert readings.interval == 12 * SECOND
    assert not readings.is_whole(12 * SECOND)
    assert readings.is_whole(60 * SECOND)


def test_nothing_is_left_out_where_nothing_may_be() -> None:
    readings = pace(dear=False)
    now, busy, _ = run(readings, 0, 60 * MINUTE, 0, SECOND)
    assert readings.interval == pytest.approx(SECOND / 0.024)
    assert busy / now < 0.03


def test_the_least_of_what_readings_took_counts() -> None:
    readings = pace(dear=False)
    for cost in (100, 600, 700, 800, 900, 600, 700, 800):
        readings.read(0, cost * MILLISECOND, whole=True)
        assert readings.interval == 5 * SECOND
    readings.read(0, 650 * MILLISECOND, whole=True)
    assert readings.interval == pytest.approx(25 * SECOND)


def test_after_a_restart_the_first_reading_is_whole() -> None:
    readings = pace()
    readings.read(0, SECOND, whole=True)
    assert not readings.is_whole(SECOND)
    readings.restart()
    assert readings.is_whole(SECOND)
