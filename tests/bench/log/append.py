"""Records written to the disk: by our writer, as the same octets by hand, and as rows of SQLite."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, TypeVar

from gateway.eventlog.disk import Disk
from gateway.eventlog.record import AnyRecord, LogRecord
from gateway.eventlog.retention import LogFileSettings
from gateway.eventlog.segment import list_segments
from gateway.eventlog.writer import EventLog
from tests.bench.log import sqlite_log
from tests.bench.log.workload import Workload
from tests.eventlog.reading import HeldClock

Groups: TypeAlias = Iterable[Sequence[AnyRecord]]
"""Records in order; other tasks run between two groups."""

_Record = TypeVar("_Record", bound=AnyRecord)

_GROUP_RECORDS: Final = 500
"""The number of records of a group, about a millisecond's worth."""

_MOST_WAITING: Final = 30_000
"""The limit of records waiting for the disk before more are appended: the disk is never idle below it."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The records written to the disk, and their cost.

    Attributes:
        records: the number of records.
        seconds: from before the first record until the last one was on the disk.
        processor_seconds: of the whole process in that time.
        commits: sizes in octets of the writes before each sync.
    """

    records: int
    seconds: float
    processor_seconds: float
    commits: Sequence[Sequence[int]]


def over_and_over(pool: Sequence[_Record], times: int) -> Iterator[Sequence[_Record]]:
    """Yield all records of ``pool``, in groups, this many times."""
    for _ in range(times):
        for start in range(0, len(pool), _GROUP_RECORDS):
            yield pool[start : start + _GROUP_RECORDS]


def by_us(folder: Path, workload: Workload, groups: Groups) -> Appended:
    """Append all groups to a new log, as fast as it accepts them; nothing may be lost."""
    return asyncio.run(_by_us(folder, workload, groups))


def by_hand(path: Path, octets: bytes, commits: Sequence[Sequence[int]]) -> float:
    """Return the seconds to write ``octets`` in pieces of these sizes from a thread, with the same syncs."""

    def write() -> None:
        begin = 0
        with memoryview(octets) as whole:
            for sizes in commits:
                for size in sizes:
                    os.write(descriptor, whole[begin : begin + size])
                    begin += size
                os.fdatasync(descriptor)

    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        writer = threading.Thread(target=write)
        start = time.perf_counter()
        writer.start()
        writer.join()
        seconds = time.perf_counter() - start
        assert os.fstat(descriptor).st_size == len(octets), "not everything was written"
    finally:
        os.close(descriptor)
    return seconds


def by_sqlite(path: Path, groups: Iterable[Sequence[LogRecord]]) -> float:
    """Return the seconds to insert all groups into a new database."""
    with closing(sqlite_log.create(path)) as database:
        return sqlite_log.fill(database, groups)


def written(folder: Path) -> bytes:
    """Return all octets of a log's segments, in order."""
    return b"".join(segment.path.read_bytes() for segment in list_segments(folder))


class _NotingDisk(Disk):
    """A disk that records the sizes of the writes before each sync."""

    def __init__(self) -> None:
        self.commits: list[list[int]] = [[]]

    def write(self, descriptor: int, pieces: Sequence[bytes | bytearray]) -> None:
        super().write(descriptor, pieces)
        self.commits[-1].append(sum(map(len, pieces)))

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self.commits.append([])


async def _by_us(folder: Path, workload: Workload, groups: Groups) -> Appended:
    disk, clock = _NotingDisk(), HeldClock(workload.now)
    async with EventLog(
        folder, LogFileSettings(), clock, lambda: workload.mirror.head(clock.now), lambda _: None, disk=disk
    ) as log:
        records = seq = 0
        start, processor = time.perf_counter(), time.process_time()
        for group in groups:
            seq = log.append_all(group, _no_json)
            records += len(group)
            await asyncio.sleep(0)
            await log.reached(seq - _MOST_WAITING)
        await log.reached(seq)
        seconds, processor_seconds = time.perf_counter() - start, time.process_time() - processor
        assert not log.state.lost, f"{log.state.lost} records were lost"
    return Appended(records, seconds, processor_seconds, [sizes for sizes in disk.commits if sizes])


def _no_json(error: Exception) -> NoReturn:
    raise AssertionError("a record has no form in JSON") from error
