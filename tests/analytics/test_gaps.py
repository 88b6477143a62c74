"""The sources that a gap concerns: all except those that report themselves what they missed."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from gateway.analytics import silver
from gateway.analytics.reports import layout, quality
from gateway.analytics.reports.answers import collected
from gateway.eventlog.logged_events import absence_record
from gateway.eventlog.record import LogRecord, RecordKind
from tests.analytics.logs import WrittenLog, after, frame, text
from tests.analytics.test_brokers import of_a_broker, report_of, state, totals

pytestmark = pytest.mark.xdist_group("spark")


def source(seconds: float, name: str) -> LogRecord:
    return LogRecord(
        kind=RecordKind.SOURCE, ingest_ts=text(after(seconds)), source=name, state="synchronised"
    )


def away(begin: float, end: float, *covered: str) -> LogRecord:
    return absence_record(text(after(end)), text(after(begin)), covered)


def gap(begin: float, end: float, name: str | None, lost: int | None = None) -> LogRecord:
    return replace(away(begin, end), source=name, text="for a reason", lost=lost)


def unreceived(spark: SparkSession, log: WrittenLog, records: list[LogRecord]) -> dict[object, object]:
    written = frame(spark, log, records)
    found = quality.gaps_of_sources(silver.gaps(written), silver.source_states(written))
    return {row["source"]: row["seconds"] for row in collected(quality.gaps_by_source(found))}


def test_a_gap_of_a_source_is_its_own(spark: SparkSession, log: WrittenLog) -> None:
    records = [source(0, "kept"), source(0, "other"), gap(10, 15, "other")]
    assert unreceived(spark, log, records) == {"other": 5}


def test_while_the_gateway_was_away_no_source_was_listened_to_but_those_covered(
    spark: SparkSession, log: WrittenLog
) -> None:
    records = [source(0, "kept"), source(0, "one"), source(0, "two"), away(10, 70, "kept"), away(80, 90)]
    assert unreceived(spark, log, records) == {"kept": 10, "one": 70, "two": 70}


def test_a_gap_that_covers_all_sources_concerns_none(spark: SparkSession, log: WrittenLog) -> None:
    assert unreceived(spark, log, [source(0, "kept"), away(10, 70, "kept", "gone by now")]) == {}


def test_what_a_covered_source_missed_all_the_same_counts(spark: SparkSession, log: WrittenLog) -> None:
    records = [source(0, "kept"), away(10, 70, "kept"), gap(10, 12, "kept")]
    assert unreceived(spark, log, records) == {"kept": 2}


def test_a_time_in_several_gaps_counts_once(spark: SparkSession, log: WrittenLog) -> None:
    records = [source(0, "one"), source(0, "two"), away(10, 70), gap(40, 100, "one"), gap(45, 50, "one")]
    assert unreceived(spark, log, records) == {"one": 90, "two": 60}


def test_what_the_gateway_lost_is_no_source_s(spark: SparkSession, log: WrittenLog) -> None:
    assert unreceived(spark, log, [source(0, "kept"), gap(10, 11, None, lost=7)]) == {None: 1}


def test_where_no_source_is_known_the_gap_is_reported_all_the_same(
    spark: SparkSession, log: WrittenLog
) -> None:
    assert unreceived(spark, log, [away(10, 70)]) == {None: 60}


def test_the_report_counts_one_broker_once_and_draws_only_what_was_missed(
    spark: SparkSession, log: WrittenLog
) -> None:
    """One report for what is said of brokers and of gaps: to make one takes long."""
    names = ("copy", "direct", "kept")
    records = [
        state("direct"),
        *of_a_broker("direct", "2026-11-20T11:00:00.000000000Z", 100),
        state("copy", same_as="direct"),
        *of_a_broker("copy", "2026-11-20T12:00:00.000000000Z", 10),
        state("kept"),
        away(10, 70, "kept"),
        away(80, 140, *names),
    ]
    report = report_of(spark, log, records, most_rows=1)

    assert totals(report)[0] == ("direct", "copy, direct", 500, 2, 1, 1, 1, 0)
    assert [row["why"] for row in report.table("brokers").rows] == ["as configured", None, None]

    assert [(row["source"], row["seconds"]) for row in report.table("gaps").rows] == [("copy", 60.0)]
    reported = {row["what"]: row["count"] for row in report.table("quality").rows}
    assert reported["not heard"] == 120.0, "also of sources that the table has no room for"
    assert [(row["from_ts"], row["to_ts"]) for row in report.series.gaps] == [(after(10), after(70))]
    out = io.StringIO()
    layout.show(report, out)
    assert "the gateway was not running" in out.getvalue()
