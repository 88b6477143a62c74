"""Bronze: every committed record once, typed, from wherever it lies."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import SparkSession

from gateway.analytics.bronze import bronze
from gateway.analytics.form import LAKE
from gateway.analytics.period import Period
from gateway.eventlog.record import LogRecord, RecordKind
from tests.analytics.logs import NOON, WrittenLog, of_object, told

pytestmark = pytest.mark.xdist_group("spark")

DAY = Period(NOON - dt.timedelta(hours=12), NOON + dt.timedelta(hours=12))


def updates(first: int, count: int, seconds: float = 0) -> list[LogRecord]:
    return [
        told(of_object(RecordKind.UPDATE, seconds, row), messages=row) for row in range(first, first + count)
    ]


def seqs(spark: SparkSession, log: WrittenLog, period: Period = DAY) -> list[int]:
    with bronze(spark, log.path, period) as found:
        return sorted(row["seq"] for row in found.records.select("seq").collect())


def test_lake_and_segments_are_one(spark: SparkSession, log: WrittenLog) -> None:
    log.lake(updates(1, 3))
    log.segment(updates(4, 2))
    log.segment(updates(6, 1), is_open=True)
    with bronze(spark, log.path, DAY) as found:
        assert found.records.schema.fieldNames() == LAKE.fieldNames()
        assert sorted(row["seq"] for row in found.records.collect()) == [1, 2, 3, 4, 5, 6]
        assert (found.duplicates, found.missing, found.uncommitted, found.unreadable) == (0, 0, 0, 0)


def test_what_is_behind_the_last_commit_line_was_never_acknowledged(
    spark: SparkSession, log: WrittenLog
) -> None:
    unacknowledged = b'{"log_id":"%s","seq":3,"kind":"update","ingest_ts":"2026-11-20T12:00:00.000000Z"}\n'
    torn = unacknowledged % log.log_id.encode() + b'{"log_id":"0b6b7e4c","se\x00\x00'
    log.segment(updates(1, 2), is_open=True, tail=torn)
    with bronze(spark, log.path, DAY) as found:
        assert [row["seq"] for row in found.records.select("seq").collect()] == [1, 2]
        assert (found.uncommitted, found.unreadable) == (1, 1)
