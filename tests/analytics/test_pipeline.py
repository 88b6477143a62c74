"""The stream from the lake to tables: each record once, despite repetition, delay and kills."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from gateway.analytics import bronze, gold, pipeline, silver
from gateway.analytics.coverage import Period
from gateway.analytics.pipeline import CHECKPOINT, PUBLISHED, BatchDone
from gateway.analytics.session import AnalyticsError, NoLogError
from gateway.eventlog.record import Delta, LogRecord, RecordKind
from gateway.model.times import MINUTE
from tests.analytics.conftest import SMALL
from tests.analytics.logs import WrittenLog, after, counted, event, of_object, reported, text
from tests.hypothesis_profiles import PROVING

pytestmark = pytest.mark.xdist_group("spark")

KILLS = 20 if PROVING else 1
DEADLINE_SECONDS = 300
FILES_OF_TWO_BATCHES = 40
SEED = 20081115
DAYS = Period(after(-86_400), after(30 * 86_400))

KEYS = {
    "silver/samples": "log_id, seq, element",
    "silver/life_marks": "log_id, seq",
    "silver/events": "log_id, seq",
    "silver/operations": "log_id, seq",
    "silver/source_states": "log_id, seq",
    "silver/gaps": "log_id, seq",
}


def segment(number: int) -> list[LogRecord]:
    """A queue of one segment, an event, an operation, a gap; the segments are a quarter of a day apart."""
    begin = number * 6 * 3600.0
    made = reported(of_object(RecordKind.CREATE, begin, number), begin, messages=0)
    changed = reported(
        of_object(RecordKind.UPDATE, begin + 60, number), begin + 60, ["policy"], messagesPublished=2**64 - 1
    )
    return [
        LogRecord(kind=RecordKind.START, ingest_ts=text(after(begin)), values={"version": 1}),
        LogRecord(
            kind=RecordKind.SOURCE, ingest_ts=text(after(begin)), source="rabbitmq", state="synchronised"
        ),
        made,
        counted(changed, messagesPublished=Delta(2**63 + number, MINUTE)),
        event(begin + 61, "queueDeleted", number),
        of_object(RecordKind.DELETE, begin + 61, number),
        LogRecord(
            kind=RecordKind.OPERATION,
            ingest_ts=text(after(begin + 61)),
            source="rabbitmq",
            operation_id=f"6f1c.1.o{number}",
            operation="invoke",
            method="delete",
            state="ended",
            outcome="applied",
        ),
        LogRecord(kind=RecordKind.GAP, ingest_ts=text(after(begin + 62)), from_ts=text(after(begin))),
    ]


def name(number: int) -> str:
    """Return the id of the queue of a segment."""
    return f"rabbitmq/rabbitmq:queue/{number}"


def publish(spark: SparkSession, log: WrittenLog, output: Path, files: int = 64) -> list[BatchDone]:
    done: list[BatchDone] = []
    pipeline.run(spark, log.path, str(output), interval_seconds=None, done=done.append, files_per_batch=files)
    return done


def publish_until_stopped(spark: SparkSession, log: WrittenLog, output: Path) -> list[BatchDone]:
    """Publish without an end, as a service does, and stop it in the first batch."""
    done: list[BatchDone] = []
    stopping = threading.Event()

    def stop(batch: BatchDone) -> None:
        done.append(batch)
        stopping.set()

    pipeline.run(spark, log.path, str(output), interval_seconds=0.1, done=stop, stopping=stopping)
    return done


def foreign_counts(output: Path) -> dict[str, tuple[int, int]]:
    """Return the rows, and the different ones, of each table, counted without Spark."""
    return {
        table: duckdb.connect()
        .read_parquet(str(output / table / "*/*/*.parquet"))
        .aggregate(f"count(*), count(DISTINCT ({key}))")
        .fetchall()[0]
        for table, key in KEYS.items()
    }


def batch_counts(spark: SparkSession, log: WrittenLog) -> dict[str, tuple[int, int]]:
    with bronze.bronze(spark, log.path, DAYS) as found:
        counts = {table: pipeline.SILVER[table](found.records).count() for table in KEYS}
    return {table: (count, count) for table, count in counts.items()}


def sums(output: Path) -> list[tuple[object, ...]]:
    rows = duckdb.connect().read_parquet(str(output / "gold/counters_by_hour/*/*/*.parquet"))
    return rows.aggregate("object_id, sum(delta)").order("object_id").fetchall()


def test_a_stream_that_was_stopped_goes_on_and_files_that_come_again_or_late_add_each_record_once(
    spark: SparkSession, log: WrittenLog, tmp_path: Path
) -> None:
    output = tmp_path / "tables"
    late = log.lake(segment(0))
    kept_back = late.rename(tmp_path / "on-its-way.parquet")
    first = log.lake(segment(1))
    log.copy(first, "copied-by-hand.parquet")
    assert publish_until_stopped(spark, log, output) == [BatchDone(0, 8, 8)], "it ends with its batch"
    kept_back.rename(late)
    os.utime(late, (0, 0))
    log.copy(first, "copied-again.parquet")
    log.lake(segment(2))
    assert publish(spark, log, output) == [BatchDone(1, 16, 8)]
    assert publish(spark, log, output) == []
    assert foreign_counts(output) == batch_counts(spark, log)
    assert sums(output) == [(name(number), 2**63 + number) for number in range(3)]
    assert [path for path in (output, *output.rglob("*")) if path.stat().st_mode & 0o027] == []


@pytest.mark.prove
def test_a_batch_that_was_cut_off_is_published_once(
    spark: SparkSession, log: WrittenLog, tmp_path: Path
) -> None:
    output = tmp_path / "tables"
    log.lake(segment(0))
    log.lake(segment(3))
    publish(spark, log, output)
    # As after a kill: one of its days was published, its commit and the rest were not.
    (output / CHECKPOINT / "commits" / "0").unlink()
    (output / CHECKPOINT / "commits" / ".0.crc").unlink()
    for table in KEYS:
        (day,) = (output / table).glob("dt=2026-11-21")
        next(day.iterdir()).rename(output / table.replace("/", "-"))
    (output / PUBLISHED / "batch-000000000000.json").unlink()
    assert publish(spark, log, output) == [BatchDone(0, 16, 0)]
    assert foreign_counts(output) == batch_counts(spark, log)


def test_tables_without_their_checkpoint_are_not_added_to(
    spark: SparkSession, log: WrittenLog, tmp_path: Path
) -> None:
    log.lake(segment(0))
    (tmp_path / "tables" / PUBLISHED).mkdir(parents=True)
    (tmp_path / "tables" / PUBLISHED / "batch-000000000000.json").write_text("[]")
    with pytest.raises(AnalyticsError, match="name another folder, or remove this one"):
        publish(spark, log, tmp_path / "tables")


def test_without_a_lake_it_is_said_how_one_comes_to_be(
    spark: SparkSession, log: WrittenLog, tmp_path: Path
) -> None:
    log.segment(segment(0))
    with pytest.raises(NoLogError, match="amqp-gateway log compact"):
        publish(spark, log, tmp_path / "tables")


def test_a_stream_forgets_duplicates_after_its_lateness(
    spark: SparkSession, log: WrittenLog, tmp_path: Path
) -> None:
    log.copy(log.lake(segment(0)), "copied-by-hand.parquet")
    seen: list[int] = []
    query = (
        bronze.once_within(bronze.lake_stream(spark, log.path), "1 hour")
        .writeStream.foreachBatch(lambda rows, _: seen.append(rows.count()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(DEADLINE_SECONDS)
    assert sum(seen) == len(segment(0))


def test_sums_of_parts_are_the_sum_of_the_whole(spark: SparkSession, log: WrittenLog) -> None:
    for number in range(2):
        log.lake(segment(number))
    records = bronze.lake_records(spark, log.path)

    def total(one: int, other: int) -> set[tuple[object, ...]]:
        parts = [records.where(f"seq % 2 = {part}") for part in (one, other)]
        tables = [gold.objects_by_hour(silver.life_marks(part)) for part in parts]
        summed = tables[0].unionByName(tables[1]).groupBy("dt", "hour", "class").sum("created", "deleted")
        return {tuple(row) for row in summed.collect()}

    whole = gold.objects_by_hour(silver.life_marks(records)).select(
        "dt", "hour", "class", "created", "deleted"
    )
    assert total(0, 1) == {tuple(row) for row in whole.collect()}


@contextmanager
def driver(log: WrittenLog, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run of the command in a process group of its own; nothing of it is left."""
    conf = (f"--conf={key}={value}" for key, value in SMALL.items())
    command = (
        "-m",
        "gateway.cli.main",
        "analytics",
        "run",
        "--once",
        "--files=1",
        "--master=local[1]",
        *conf,
    )
    process = subprocess.Popen(  # noqa: S603  our own command
        [sys.executable, *command, "--log", log.path, "--output", str(output)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def files_below(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def test_a_driver_that_is_killed_leaves_each_record_once(
    spark: SparkSession, log: WrittenLog, tmp_path: Path
) -> None:
    """The instants are counted in files that the driver has made, so a slow machine has the same ones."""
    output = tmp_path / "tables"
    instants = random.Random(SEED)  # noqa: S311  instants, no secrets
    killed = 0
    for kill in range(KILLS):
        log.lake(segment(2 * kill))
        log.lake(segment(2 * kill + 1))
        with driver(log, output) as process:
            limit = files_below(output) + instants.randint(3, FILES_OF_TWO_BATCHES)
            deadline = time.monotonic() + DEADLINE_SECONDS
            while process.poll() is None and files_below(output) < limit:
                assert time.monotonic() < deadline, "the driver makes no progress"
                time.sleep(0.005)
            killed += process.poll() is None
    assert killed > 0
    publish(spark, log, output, files=1)
    assert foreign_counts(output) == batch_counts(spark, log)
    assert sums(output) == sorted((name(number), 2**63 + number) for number in range(2 * KILLS))
