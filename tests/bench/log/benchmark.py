"""The benchmark of append, recovery and compaction; see the package."""

from __future__ import annotations

import shutil
import statistics
from typing import Final

from gateway.eventlog.block import MAX_BLOCK_RECORDS
from tests.bench.log import append, compact, recover
from tests.bench.log.append import Appended, over_and_over
from tests.bench.log.workload import Workload
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.eventlog.logs import segment
from tests.eventlog.records import with_all_fields

RAW, SQLITE, YARDSTICK, DUCKDB = "raw-fdatasync", "sqlite-wal", "yardstick", "duckdb"

_APPEND: Final = Case("append", "records/s", Reading.RATE)
_RECOVER: Final = Case("recover", "records/s", Reading.RATE)
_COMPACT: Final = Case("compact", "rows/s", Reading.RATE)

_SECOND: Final = 10**9
_MEGABYTE: Final = 1e6


class LogBenchmark:
    """The benchmark of the event log; see the package."""

    name = "log"
    title = "Event log"

    def measure(self, run: Run) -> None:
        """Measure, as `tests.bench.run.Benchmark` requires."""
        parts = (_Append(run), _Recover(run), _Compact(run))
        for _ in run.rounds():
            for part in parts:
                part.measure()
        for part in parts:
            part.publish()


class _Append:
    """The append of the same records, which were made before, repeatedly."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._workload = Workload(queues=run.count(1000, 50))
        self._workload.begin()
        self._pool = list(self._workload.updates(5))
        self._rows = with_all_fields(self._pool)
        self._batches = list(self._workload.batches(5))
        self._times = run.count(100, 2)
        self._ours: list[Appended] = []
        self._of_a_feed: list[Appended] = []
        self._octets: list[float] = []
        self._synced: list[float] = []

    def measure(self) -> None:
        folder = self._run.folder / "append"
        appended = append.by_us(folder, self._workload, over_and_over(self._pool, self._times))
        octets = append.written(folder)
        shutil.rmtree(folder)
        assert sum(map(sum, appended.commits)) == len(octets)
        by_hand = append.by_hand(self._run.folder / "by-hand", octets, appended.commits)
        (self._run.folder / "by-hand").unlink()
        folder.mkdir()
        by_sqlite = append.by_sqlite(folder / "log.sqlite3", over_and_over(self._rows, self._times))
        shutil.rmtree(folder)
        for side, seconds in ((OURS, appended.seconds), (RAW, by_hand), (SQLITE, by_sqlite)):
            self._run.record(_APPEND, side, appended.records / seconds)
        self._ours.append(appended)
        self._octets.append(len(octets) / appended.records)
        self._synced.append(len(octets) / by_hand / _MEGABYTE)
        mirror = self._workload.mirror
        reported = (
            mirror.apply(batch, self._workload.now) for _ in range(self._times) for batch in self._batches
        )
        self._of_a_feed.append(append.by_us(folder, self._workload, reported))
        shutil.rmtree(folder)

    def publish(self) -> None:
        figure, median = self._run.figure, statistics.median
        figure("octets of a record, on the disk", f"{median(self._octets):.0f}")
        figure("what the disk took, written by hand", f"{median(self._synced):.0f} MB/s")
        figure("processor time of a record appended", f"{median(map(_microseconds, self._ours)):.2f} us")
        figure(
            "the same with what comes before, from a batch of the feed on",
            f"{median(map(_microseconds, self._of_a_feed)):.2f} us; "
            f"{median(each.records / each.seconds for each in self._of_a_feed):,.0f} records/s",
        )


class _Recover:
    """The recovery of a segment of the largest usual size."""

    def __init__(self, run: Run) -> None:
        self._run = run
        workload = Workload(queues=run.count(1000, 50))
        workload.begin()
        self._crashed = recover.crash(run.folder, workload, turns=run.count(100, 4))
        self._scanned: list[float] = []
        self._checkpointed: list[float] = []

    def measure(self) -> None:
        crashed, scratch = self._crashed, self._run.folder / "reopened"
        ours = recover.by_us(crashed)
        for side, seconds in (
            (OURS, ours),
            (YARDSTICK, recover.by_reading(crashed)),
            (SQLITE, recover.by_sqlite(crashed.database, scratch, crashed.records)),
        ):
            self._run.record(_RECOVER, side, crashed.records / seconds)
        self._scanned.append(crashed.octets / ours / _MEGABYTE)
        self._checkpointed.append(recover.by_sqlite(crashed.checkpointed, scratch, crashed.records))

    def publish(self) -> None:
        octets = self._crashed.octets / _MEGABYTE
        seconds = octets / statistics.median(self._scanned)
        self._run.figure(
            "recovery of a segment",
            f"{octets:.0f} MB in {1000 * seconds:.0f} ms, {statistics.median(self._scanned):.0f} MB/s",
        )
        opened = statistics.median(self._checkpointed)
        self._run.figure("sqlite that has checkpointed, opened", f"{1000 * opened:.1f} ms")


class _Compact:
    """The compaction of a segment of the largest usual size, with half an hour of queues at work."""

    def __init__(self, run: Run) -> None:
        self._run = run
        workload = Workload(queues=run.count(1000, 50), step=_SECOND)
        records = [*workload.begin(), *workload.updates(run.count(100, 4))]
        self._records = len(records)
        self._segment = segment(run.folder / "complete", 1, records, of_a_block=MAX_BLOCK_RECORDS)
        self._file_octets = 0
        self._all_processors: list[float] = []

    def measure(self) -> None:
        scratch, records = self._run.folder / "compacted", self._records
        seconds, self._file_octets = compact.by_us(self._segment, scratch, records)
        self._run.record(_COMPACT, OURS, records / seconds)
        seconds = compact.by_duckdb(self._segment, scratch, records, threads=1)
        self._run.record(_COMPACT, DUCKDB, records / seconds)
        threads = compact.all_processors()
        seconds = compact.by_duckdb(self._segment, scratch, records, threads)
        self._all_processors.append(records / seconds)

    def publish(self) -> None:
        rate = statistics.median(self._all_processors)
        threads, size = compact.all_processors(), self._segment.path.stat().st_size
        self._run.figure(f"duckdb with {threads} threads", f"{rate:,.0f} rows/s")
        self._run.figure(
            "octets of a record, in the lake",
            f"{self._file_octets / self._records:.0f} of {size / self._records:.0f} in the segment",
        )


def _microseconds(appended: Appended) -> float:
    """Return the microseconds of processor time per record."""
    return appended.processor_seconds / appended.records * 1e6
