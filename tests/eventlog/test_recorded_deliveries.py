"""Deliveries that may be repeated are recorded in each segment again, the last ones of each source."""

from __future__ import annotations

from pathlib import Path

from gateway.eventlog.last_state import (
    DELIVERIES,
    KEPT_FOR,
    MAX_OF_SOURCE,
    MIN_OF_SOURCE,
    RecordedDeliveries,
    deliveries_in,
    last_state,
)
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.links.durable_queue import KEPT_PREFETCH
from tests.eventlog.logs import segment

TIME = "2026-11-20T08:00:00.000000Z"


def start(late: RecordedDeliveries) -> LogRecord:
    return LogRecord(kind=RecordKind.START, ingest_ts=TIME, values={"version": 1, **late.values()})


def test_as_many_are_reported_as_a_consumer_may_not_have_acknowledged() -> None:
    assert MIN_OF_SOURCE >= KEPT_PREFETCH
    late = RecordedDeliveries(f"shop:{number}" for number in range(MIN_OF_SOURCE))
    late.add("a:b:c", KEPT_FOR + 1)
    late.add("shop:1000", KEPT_FOR + 1)
    assert late.values()[DELIVERIES] == {"shop": [str(number) for number in range(1, 1001)], "a:b": ["c"]}
    assert list(deliveries_in(late.values()))[-1] == "a:b:c"


def test_all_of_the_last_minutes_are_reported_up_to_a_limit() -> None:
    late = RecordedDeliveries(f"shop:{number}" for number in range(MAX_OF_SOURCE))
    assert len(list(deliveries_in(late.values()))) == MAX_OF_SOURCE
    late.add("shop:more", KEPT_FOR)
    assert list(deliveries_in(late.values()))[:: MAX_OF_SOURCE - 1] == ["shop:1", "shop:more"]
    late.add("shop:much later", KEPT_FOR + 1)
    assert len(list(deliveries_in(late.values()))) == MIN_OF_SOURCE


def test_one_that_came_again_may_come_once_more() -> None:
    late = RecordedDeliveries(f"shop:{number}" for number in range(MIN_OF_SOURCE))
    late.add("shop:0", KEPT_FOR + 1)
    late.add("shop:next", KEPT_FOR + 1)
    reported = list(deliveries_in(late.values()))
    assert (reported[0], reported[-2:]) == ("shop:2", ["shop:0", "shop:next"])


def test_where_there_are_none_nothing_is_reported() -> None:
    assert RecordedDeliveries().values() == {}


def test_many_sources_share_what_one_record_holds() -> None:
    late = RecordedDeliveries(f"source{number % 100}:{number}" for number in range(100_000))
    reported = list(deliveries_in(late.values()))
    assert len(reported) == 20_000
    assert reported[-1] == "source99:99999"


def test_what_is_no_such_thing_is_passed_over() -> None:
    assert list(deliveries_in({DELIVERIES: {"shop": ["a", 1, None], "other": 5}})) == ["shop:a"]
    assert list(deliveries_in({DELIVERIES: ["a"]})) == []


def test_a_delivery_is_known_however_many_segments_began_since(tmp_path: Path) -> None:
    reported = LogRecord(kind=RecordKind.EVENT, ingest_ts=TIME, source="shop", delivery="shop:first")
    segment(tmp_path, 1, [start(RecordedDeliveries()), reported])
    for first_seq in range(3, 8):
        known = last_state(tmp_path, ["shop"]).deliveries
        assert list(known) == ["shop:first"]
        segment(tmp_path, first_seq, [start(RecordedDeliveries(known))])
