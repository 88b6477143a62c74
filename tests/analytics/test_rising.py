"""The elements in the list of numbers that grow: no settings, no clocks, no counters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from gateway.analytics import silver
from gateway.analytics.coverage import Period
from gateway.analytics.reports.answers import collected
from gateway.analytics.reports.classes import rising
from gateway.analytics.reports.report import make_report
from gateway.eventlog.record import LogRecord, RecordKind
from tests.analytics.logs import NOON, WrittenLog, after, frame, of_object, reported, text

pytestmark = pytest.mark.xdist_group("spark")

PUMP = (
    {"name": "limit", "group": "property", "type": "u32", "unit": "l"},
    {"name": "uptime", "group": "statistic", "type": "duration", "kind": "gauge", "unit": "nanoseconds"},
    {"name": "age", "group": "statistic", "type": "u64", "kind": "gauge", "unit": "s"},
    {"name": "clock", "group": "statistic", "type": "s64", "kind": "gauge"},
    {"name": "turns", "group": "statistic", "type": "u64", "kind": "counter"},
    {"name": "highest", "group": "statistic", "type": "u64", "kind": "high", "unit": "l"},
    {"name": "level", "group": "statistic", "type": "u64", "kind": "gauge"},
    {"name": "delay", "group": "statistic", "type": "u64", "kind": "gauge", "unit": "ms"},
)
"""A class; its last two elements may grow or not."""

SESSION = (
    {"name": "nextOutgoingId", "group": "statistic", "type": "u32", "kind": "gauge"},
    {"name": "incomingWindow", "group": "statistic", "type": "u32", "kind": "gauge", "unit": "transfers"},
)


def schema(package: str, class_name: str, elements: tuple[dict[str, str], ...]) -> LogRecord:
    return LogRecord(
        kind=RecordKind.SCHEMA,
        ingest_ts=text(NOON),
        package=package,
        class_name=class_name,
        values={"elements": list(elements)},
    )


def pump(seconds: int, started: int = -5000, row: int = 1) -> LogRecord:
    """Return a pump whose numbers all go up, and that was started so many seconds after noon."""
    record = reported(
        of_object(RecordKind.UPDATE, seconds, row, "Pump"),
        seconds,
        limit=100 + seconds // 60,
        uptime=(seconds - started) * 10**9,
        age=seconds - started,
        clock=round(after(seconds).timestamp() * 1000),
        turns=7 * seconds,
        highest=10 + seconds // 60,
        level=20 + seconds // 60,
        delay=10 * seconds,
    )
    return replace(record, package="plant")


def session(seconds: int) -> LogRecord:
    values = {"nextOutgoingId": 5 * seconds, "incomingWindow": 40 + seconds}
    return reported(of_object(RecordKind.UPDATE, seconds, 1, "session"), seconds, **values)


def reported_by_pumps() -> Iterator[LogRecord]:
    yield schema("plant", "Pump", PUMP)
    yield schema("rabbitmq", "session", SESSION)
    for minute in range(10):
        yield pump(60 * minute)
        # This one was started again twice, so that it is up longer at last than it was at first.
        yield pump(60 * minute, started=(0, 70, 250)[(minute > 1) + (minute > 4)] - 5, row=2)
        yield session(60 * minute)


def test_settings_clocks_and_counters_do_not_grow(spark: SparkSession, log: WrittenLog) -> None:
    written = frame(spark, log, list(reported_by_pumps()))
    found = collected(rising(written, silver.schemas(written), NOON, 60))
    assert {(row["object"], row["element"]) for row in found} == {
        ("Pump-1", "level"),
        ("Pump-1", "delay"),
        ("Pump-2", "level"),
        ("Pump-2", "delay"),
        ("session-1", "incomingWindow"),
    }
    assert {row["element"]: row["unit"] for row in found} == {
        "level": None,
        "delay": "ms",
        "incomingWindow": "transfers",
    }


def test_what_no_schema_describes_is_judged_by_its_numbers(spark: SparkSession, log: WrittenLog) -> None:
    written = frame(
        spark, log, [record for record in reported_by_pumps() if record.kind is RecordKind.UPDATE]
    )
    found = collected(rising(written, silver.schemas(written), NOON, 60))
    shown = {row["element"] for row in found if row["object"] == "Pump-1"}
    assert shown == {"limit", "uptime", "age", "turns", "highest", "level", "delay"}


@pytest.mark.prove
def test_a_period_that_begins_behind_a_segment_s_head_knows_its_schemas(
    spark: SparkSession, log: WrittenLog
) -> None:
    records = list(reported_by_pumps())
    log.lake(records[:10])
    log.segment(records[10:])
    report = make_report(spark, log.path, Period(after(30), after(600)), lambda _: None)
    shown = {row["element"] for row in report.table("rising").rows}
    assert shown == {"level", "delay", "incomingWindow"}
