"""Spark, with orders on standard input: ``python -m tests.bench.spark.program LOG [--small]``.

A line ``silver FOLDER``, ``gold FOLDER``, ``stream FOLDER`` or ``report`` is answered by the seconds it took;
its results are then in FOLDER, a new one. The first answer, unasked, is the time that Spark took to start.
With ``--small`` it is set up for few rows, as in tests; else as for users.
"""

from __future__ import annotations

import datetime as dt
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from gateway.analytics import bronze, gold, pipeline, silver
from gateway.analytics.coverage import Period
from gateway.analytics.reports.report import make_report
from gateway.analytics.session import SparkSettings, session
from tests.analytics.conftest import SMALL
from tests.bench.log.workload import BEGIN

Job: TypeAlias = Callable[[SparkSession, str, str], None]
"""A function of the session, the log's folder, and the target folder."""

_BEGIN: Final = dt.datetime.fromtimestamp(BEGIN / 10**9, dt.UTC)
PERIOD: Final = Period(_BEGIN - dt.timedelta(hours=1), _BEGIN + dt.timedelta(days=1))
"""A period that includes the whole lake."""


def main(log: str, settings: SparkSettings) -> None:
    """Execute orders until standard input ends."""
    start = time.perf_counter()
    with session(settings) as spark:
        _answer(time.perf_counter() - start)
        for line in sys.stdin:
            job, _, target = line.rstrip("\n").partition(" ")
            start = time.perf_counter()
            _JOBS[job](spark, log, target)
            _answer(time.perf_counter() - start)


def _answer(seconds: float) -> None:
    sys.stdout.write(f"{seconds}\n")
    sys.stdout.flush()


def _written(make: Callable[[DataFrame], DataFrame]) -> Job:
    """Return a job that writes the result for all records of the lake as Parquet."""

    def job(spark: SparkSession, log: str, target: str) -> None:
        with bronze.bronze(spark, log, PERIOD) as found:
            make(found.records).write.parquet(target)

    return job


def _stream(spark: SparkSession, log: str, target: str) -> None:
    pipeline.run(spark, log, target, interval_seconds=None, done=lambda _: None)


def _report(spark: SparkSession, log: str, _target: str) -> None:
    report = make_report(spark, log, PERIOD, lambda _: None)
    assert next(table for table in report.tables if table.name == "queues").rows


_JOBS: Final[Mapping[str, Job]] = {
    "silver": _written(silver.samples),
    "gold": _written(lambda records: gold.counters_by_hour(silver.samples(records))),
    "stream": _stream,
    "report": _report,
}

if __name__ == "__main__":
    small = SparkSettings("local[1]", SMALL)
    main(sys.argv[1], small if sys.argv[2:] == ["--small"] else SparkSettings())
