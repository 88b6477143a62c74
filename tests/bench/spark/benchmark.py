"""The benchmark of silver and gold in batch, the stream, and the report; see the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.bench.spark import duckdb_jobs
from tests.bench.spark.lake import Lake, make_lake
from tests.components.waiting import DEADLINE

DUCKDB: Final = "duckdb"
CASES: Final = {job: Case(f"{job}-batch", "records/s", Reading.RATE) for job in duckdb_jobs.JOBS}


class SparkBenchmark:
    """The benchmark of Spark; see the package."""

    name = "spark"
    title = "Spark"

    def measure(self, run: Run) -> None:
        """Measure, as `tests.bench.run.Benchmark` requires."""
        queues, minutes = run.count(1000, 50), run.count(300, 70)
        lake = make_lake(run.folder / "log", queues, minutes)
        size = f"{lake.files} files, {lake.octets / 1e6:.1f} MB"
        run.figure("lake", f"{lake.records:,} records of {minutes} minutes in {size}")
        with _spark(run, lake) as spark:
            _compare(run, lake, spark)
            _publish_stream_and_report(run, lake, spark)
            for _ in run.rounds():
                for job, case in CASES.items():
                    run.record(case, OURS, lake.records / spark.take(job))
                    run.record(case, DUCKDB, lake.records / _by_duckdb(run, lake, job))


class _Spark:
    """The Spark program in a process of its own."""

    def __init__(self, folder: Path, orders: IO[str], answers: IO[str]) -> None:
        self._folder = folder
        self._orders = orders
        self._answers = answers

    def answer(self) -> float:
        """Return the seconds that the last order took."""
        line = self._answers.readline()
        assert line, "Spark's process has ended"
        return float(line)

    def ask(self, job: str) -> float:
        """Run a job and return the seconds that it took; its results are left in the folder."""
        self._orders.write(f"{job} {self._folder}\n")
        self._orders.flush()
        return self.answer()

    def take(self, job: str) -> float:
        """Run a job and return the seconds that it took; its results are removed."""
        seconds = self.ask(job)
        shutil.rmtree(self._folder, ignore_errors=True)  # a report leaves none
        return seconds


@contextmanager
def _spark(run: Run, lake: Lake) -> Iterator[_Spark]:
    """Provide the program on a lake; print its errors if it fails."""
    log = run.folder / "spark.log"
    size = ("--small",) if run.quick else ()
    command = (sys.executable, "-m", "tests.bench.spark.program", str(lake.log), *size)
    with (
        log.open("wb") as errors,
        subprocess.Popen(  # noqa: S603  our own program
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            spark = _Spark(run.folder / "found", process.stdin, process.stdout)
            run.figure("start of Spark", f"{spark.answer():.1f} s")
            yield spark
            process.stdin.close()
            process.wait(DEADLINE)
        except AssertionError as error:
            error.add_note(log.read_text(errors="replace"))
            raise
        finally:
            process.kill()


def _compare(run: Run, lake: Lake, spark: _Spark) -> None:
    """Assert that Spark and DuckDB find the same."""
    for job in CASES:
        spark.ask(job)
        ours = duckdb_jobs.found(job, run.folder / "found")
        shutil.rmtree(run.folder / "found")
        target = run.folder / "duckdb" / "found.parquet"
        duckdb_jobs.answer(job, lake.log, target)
        theirs = duckdb_jobs.found(job, target.parent)
        shutil.rmtree(target.parent)
        assert ours == theirs, f"{job}: Spark finds {ours}, DuckDB {theirs}"


def _publish_stream_and_report(run: Run, lake: Lake, spark: _Spark) -> None:
    """Record the figures of the stream and the report, which also warm Spark up for the rounds."""
    streamed = spark.take("stream")
    run.figure(
        "stream into the eight tables, each record once",
        f"{lake.records / streamed:,.0f} records/s ({streamed:.1f} s)",
    )
    if not run.quick:
        run.figure("report of all of it", f"{spark.take('report'):.1f} s")


def _by_duckdb(run: Run, lake: Lake, job: str) -> float:
    target = run.folder / "duckdb" / "found.parquet"
    seconds = duckdb_jobs.answer(job, lake.log, target)
    shutil.rmtree(target.parent)
    return seconds
