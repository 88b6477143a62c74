"""Bronze: every committed record once, typed, from wherever it lies."""

from __future__ import annotations

import datetime as dt

import duckdb
import msgspec
import pytest
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as JavaDataFrame
from pyspark.sql.types import ArrayType, BooleanType, DataType, LongType, StringType, TimestampType

from gateway.analytics.bronze import LAKE, RECORD, Bronze, bronze
from gateway.analytics.coverage import Period, Stretch
from gateway.analytics.session import NoLogError
from gateway.eventlog.parquet import COLUMNS
from gateway.eventlog.record import Delta, LogRecord, RecordKind
from gateway.eventlog.segment import segment_path
from tests.analytics.logs import LOG_ID, NOON, WrittenLog, after, counted, of_object, reported

pytestmark = pytest.mark.xdist_group("spark")

TYPES: dict[str, DataType] = {
    "VARCHAR": StringType(),
    "BIGINT": LongType(),
    "TIMESTAMPTZ": TimestampType(),
    "BOOLEAN": BooleanType(),
    "VARCHAR[]": ArrayType(StringType()),
}
"""Spark's types by DuckDB's types."""

DAY = Period(NOON - dt.timedelta(hours=12), NOON + dt.timedelta(hours=12))


def updates(first: int, count: int, seconds: float = 0) -> list[LogRecord]:
    return [
        reported(of_object(RecordKind.UPDATE, seconds, row), messages=row)
        for row in range(first, first + count)
    ]


def seqs(found: Bronze) -> list[int]:
    return sorted(row["seq"] for row in found.records.select("seq").collect())


def test_the_form_is_that_of_the_log() -> None:
    """A record, the lake and Spark's schema have the same fields, in order, with the same types."""
    fields = [field.encode_name for field in msgspec.structs.fields(LogRecord)]
    assert RECORD.fieldNames() == ["log_id", "seq", *fields]
    reported = [(field.name, field.dataType) for field in RECORD.fields]
    assert reported == [(name, TYPES[kind]) for name, kind in COLUMNS.items()]


def test_a_column_that_older_files_lack_is_absent_in_them(spark: SparkSession, log: WrittenLog) -> None:
    newer, older = log.lake(updates(1, 1)), log.lake(updates(2, 1))
    with duckdb.connect() as database:
        found = database.read_parquet(str(newer), hive_partitioning=False).project("* EXCLUDE (delivery)")
        found.project("* REPLACE (2::BIGINT AS seq)").write_parquet(str(older))
    with bronze(spark, log.path, DAY) as read:
        assert seqs(read) == [1, 2]
        assert {row["delivery"] for row in read.records.collect()} == {None}


def test_lake_and_segments_are_one(spark: SparkSession, log: WrittenLog) -> None:
    log.lake(updates(1, 3))
    log.segment(updates(4, 2))
    log.segment(updates(6, 1), is_open=True)
    with bronze(spark, log.path, DAY) as found:
        assert found.records.schema.fieldNames() == LAKE.fieldNames()
        assert seqs(found) == [1, 2, 3, 4, 5, 6]
        assert found.held == (Stretch(LOG_ID, 1, 6),)
        assert (found.duplicates, found.missing, found.uncommitted, found.unreadable) == (0, 0, 0, 0)


def test_what_is_behind_the_last_commit_line_was_never_acknowledged(
    spark: SparkSession, log: WrittenLog
) -> None:
    unacknowledged = b'{"log_id":"%s","seq":3,"kind":"update","ingest_ts":"2026-11-20T12:00:00.000000Z"}\n'
    torn = unacknowledged % log.log_id.encode() + b'{"log_id":"0b6b7e4c","se\x00\x00'
    log.segment(updates(1, 2), is_open=True, tail=torn)
    with bronze(spark, log.path, DAY) as found:
        assert seqs(found) == [1, 2]
        assert (found.uncommitted, found.unreadable) == (1, 1)


def test_a_commit_line_confirms_records_of_its_own_segment_only(spark: SparkSession, log: WrittenLog) -> None:
    lost = b'{"log_id":"%s","seq":%d,"kind":"update","ingest_ts":"2026-11-20T12:00:00.000000Z"}\n'
    log.segment(updates(1, 2), tail=lost % (LOG_ID.encode(), 3))
    log.segment(updates(3, 1))
    log.segment([], is_open=True, tail=lost % (LOG_ID.encode(), 4))
    with bronze(spark, log.path, DAY) as found:
        rows = found.records.orderBy("seq").select("seq", "values").collect()
        assert [tuple(row) for row in rows] == [(seq, f'{{"messages":{seq}}}') for seq in (1, 2, 3)]
        assert (found.uncommitted, found.duplicates, found.missing) == (2, 0, 0)


def test_the_lake_alone_is_a_log(spark: SparkSession, log: WrittenLog) -> None:
    log.lake(updates(1, 2))
    (log.folder / "segments").rmdir()
    with bronze(spark, log.path, DAY) as found:
        assert found.records.schema.fieldNames() == LAKE.fieldNames()
        assert seqs(found) == [1, 2]
        assert (found.uncommitted, found.unreadable) == (0, 0)


def test_a_record_that_is_there_three_times_is_read_once(spark: SparkSession, log: WrittenLog) -> None:
    twice = updates(1, 3)
    log.lake(twice)
    log.next_seq = 1  # the segment that the file was made of, not deleted yet
    log.segment(twice)
    log.copy(log.lake(updates(4, 2)), "copied-by-hand.parquet")
    with bronze(spark, log.path, DAY) as found:
        assert seqs(found) == [1, 2, 3, 4, 5]
        assert (found.duplicates, found.missing) == (5, 0)


def test_what_is_missing_in_between_is_counted(spark: SparkSession, log: WrittenLog) -> None:
    log.lake(updates(1, 2))
    log.next_seq = 10
    log.lake(updates(10, 1))
    with bronze(spark, log.path, DAY) as found:
        assert found.held == (Stretch(LOG_ID, 1, 2), Stretch(LOG_ID, 10, 10))
        assert found.missing == 7


def test_a_period_is_cut_to_the_microsecond(spark: SparkSession, log: WrittenLog) -> None:
    log.lake(updates(1, 1, -3600))
    log.lake([*updates(2, 1, 0), *updates(3, 1, 1.5), *updates(4, 1, 2)])
    log.segment(updates(5, 1, 3600))
    with bronze(spark, log.path, Period(after(1.5), after(2))) as found:
        assert seqs(found) == [3]


def test_values_have_their_types(spark: SparkSession, log: WrittenLog) -> None:
    record = reported(of_object(RecordKind.UPDATE, 0.000001, 7), 0, messages=2**64 - 1, share=0.1)
    log.lake([counted(record, messages=Delta(2**64 - 1, 60 * 10**9, True))])
    log.segment([reported(record, None, ["messages"])])
    with bronze(spark, log.path, DAY) as found:
        columns = ("dt", "hour", "class", "row", "sample_ns", "values", "deltas", "absent")
        first, second = found.records.orderBy("seq").select(*columns).collect()
    assert tuple(first) == (
        dt.date(2026, 11, 20),
        12,
        "queue",
        7,
        1795176000 * 10**9,
        '{"messages":18446744073709551615,"share":0.1}',
        '{"messages":{"delta":18446744073709551615,"interval_ns":60000000000,"reset":true}}',
        None,
    )
    assert second["absent"] == ["messages"]
    assert second["values"] is None


def test_an_empty_log_has_no_records(spark: SparkSession, log: WrittenLog) -> None:
    (log.folder / "segments").mkdir(parents=True)
    (log.folder / "lake").mkdir()
    with bronze(spark, log.path, DAY) as found:
        assert seqs(found) == []
        assert (found.duplicates, found.missing) == (0, 0)


def test_where_there_is_no_log_that_is_said(spark: SparkSession, log: WrittenLog) -> None:
    with pytest.raises(NoLogError, match="holds no event log"), bronze(spark, log.path, DAY):
        pass


def test_a_segment_that_got_its_final_name_between_listing_and_reading_is_read(
    spark: SparkSession, log: WrittenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = log.segment(updates(1, 3), is_open=True)
    persist = JavaDataFrame.persist

    def renamed_meanwhile(listed: JavaDataFrame, level: StorageLevel) -> DataFrame:
        if opened.exists():
            opened.rename(segment_path(log.folder, 1, is_open=False))
        return persist(listed, level)

    monkeypatch.setattr(JavaDataFrame, "persist", renamed_meanwhile)
    with bronze(spark, log.path, DAY) as found:
        assert seqs(found) == [1, 2, 3]
