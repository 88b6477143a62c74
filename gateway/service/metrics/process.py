"""Metrics of one process: its own measurements, and those of the system.

A process measures the lag of its event loop, garbage collection, its feed, and its compactions. The system's
readings are those of proc(5). prometheus-client has them too, but importing it takes 3 MB of memory, and each
gateway measures its processes, whether or not Prometheus is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.service.metrics import families
from gateway.service.metrics.families import Histogram, Metrics, Reading
from gateway.tasks import until_one_ends

if TYPE_CHECKING:  # the supervisor and the compactor have no feed
    from gateway.feed.replica import FeedStatus

LAG_INTERVAL_SECONDS = 0.25
_LAG_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_PAUSE_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_GENERATIONS = ("0", "1", "2")

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE_OCTETS: Final = os.sysconf("SC_PAGE_SIZE")
_USER_TIME, _SYSTEM_TIME, _START_TIME, _RESIDENT = 11, 12, 19, 21
"""Fields of ``/proc/PID/stat`` after the name of the program, counted from 0."""


async def measured(work: Coroutine[Any, Any, None], process: str, metrics: Metrics) -> None:
    """Run ``work`` to its end, and measure the process meanwhile.

    Raises:
        Exception: what ``work`` raises.
    """
    lag, pauses = LoopLag(process), CollectionPauses(process)
    metrics.add("process", lambda: (*lag.readings(), *pauses.readings()))
    gc.callbacks.append(pauses)
    try:
        await until_one_ends(work, lag.run())
    finally:
        gc.callbacks.remove(pauses)


def feed_readings(status: FeedStatus, process: str) -> Iterator[Reading]:
    """Measure the connection of a front end to the core."""
    yield families.FRONT_END_CONNECTED.at(status.connected, process)
    yield families.FRONT_END_MESSAGES.at(status.messages, process)
    yield families.FRONT_END_SNAPSHOTS.at(status.snapshots, process)
    yield families.FRONT_END_REFUSED.at(status.refused, process)


@dataclass(slots=True)
class CompactionCounts:
    """The counts of one compactor. The supervisor reports them while no compactor runs.

    Attributes:
        waiting: segments that wait for compaction.
        segments: segments that were compacted.
        damaged: compacted segments that were set aside because a part of them cannot be read.
        records: records that went to the lake.
        octets: size of the segments.
        file_octets: size of the Parquet files.
        failures: how often a compaction failed.
    """

    waiting: int = 0
    segments: int = 0
    damaged: int = 0
    records: int = 0
    octets: int = 0
    file_octets: int = 0
    failures: int = 0

    def readings(self) -> Iterator[Reading]:
        """Yield the counts as readings."""
        yield families.COMPACTION_WAITING.at(self.waiting)
        yield families.COMPACTION_SEGMENTS.at(self.segments)
        yield families.COMPACTION_DAMAGED.at(self.damaged)
        yield families.COMPACTION_RECORDS.at(self.records)
        yield families.COMPACTION_READ.at(self.octets)
        yield families.COMPACTION_WRITTEN.at(self.file_octets)
        yield families.COMPACTION_FAILURES.at(self.failures)


def usage(process: str, pid: int) -> Iterator[Reading]:
    """Yield the system's readings of a process; none of one that has ended.

    Args:
        process: the name of the process, a label.
        pid: the number of the process.
    """
    folder = _PROC / str(pid)
    try:
        fields = _stat(folder)
        open_files = sum(1 for _ in (folder / "fd").iterdir())
        limits = (folder / "limits").read_text("utf-8")
        booted = _boot_time()
    except OSError:
        return
    processor = int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])
    yield families.PROCESS_START.at(booted + int(fields[_START_TIME]) / _TICKS, process)
    yield families.PROCESS_CPU.at(processor / _TICKS, process)
    yield families.PROCESS_MEMORY.at(int(fields[_RESIDENT]) * _PAGE_OCTETS, process)
    yield families.PROCESS_FILES.at(open_files, process)
    yield families.PROCESS_MAX_FILES.at(_max_open_files(limits), process)


def _stat(folder: Path) -> list[str]:
    # The name of the program stands in parentheses, and may contain blanks and parentheses itself.
    return (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()


def processor_seconds(pid: int) -> float:
    """Return the processor time of the main thread of a process in seconds; 0 where it is not known.

    Args:
        pid: the number of the process.
    """
    with contextlib.suppress(OSError):
        fields = _stat(_PROC / str(pid) / "task" / str(pid))
        return (int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])) / _TICKS
    return 0.0


def context_switches(pid: int) -> int:
    """Return the context switches of the main thread of a process; 0 where they are not known.

    Args:
        pid: the number of the process.
    """
    with contextlib.suppress(OSError):
        lines = (_PROC / str(pid) / "status").read_text("utf-8", "replace").splitlines()
        return sum(int(line.split()[1]) for line in lines if "ctxt_switches:" in line)
    return 0


class LoopLag:
    """Measures the delay of the timers of the running event loop.

    Args:
        process: the name of the process, a label.
        clock: monotonic seconds.
    """

    def __init__(self, process: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._histogram = Histogram(families.LOOP_LAG, _LAG_BOUNDS, process)
        self._clock = clock

    async def run(self) -> None:
        """Measure without end."""
        while True:
            due = self._clock() + LAG_INTERVAL_SECONDS
            await asyncio.sleep(LAG_INTERVAL_SECONDS)
            self._histogram.observe(max(0.0, self._clock() - due))

    def readings(self) -> Iterator[Reading]:
        """Yield the histogram's readings."""
        return self._histogram.readings()


class CollectionPauses:
    """Measures the pauses of the process for garbage collections, as one of `gc.callbacks`.

    Args:
        process: the name of the process, a label.
        clock: monotonic seconds.
    """

    def __init__(self, process: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self._histograms = [
            Histogram(families.GC_PAUSE, _PAUSE_BOUNDS, process, generation) for generation in _GENERATIONS
        ]
        self._clock = clock
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Take note that a collection of ``info["generation"]`` begins or ends."""
        if phase == "start":
            self._began = self._clock()
        else:
            self._histograms[info["generation"]].observe(self._clock() - self._began)

    def readings(self) -> Iterator[Reading]:
        """Yield the histogram's readings."""
        for histogram in self._histograms:
            yield from histogram.readings()


def _boot_time() -> float:
    """Return when the machine was started, in seconds since 1970."""
    for line in (_PROC / "stat").read_text("utf-8").splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return 0.0


def _max_open_files(limits: str) -> float:
    """Return the soft limit of open files out of ``/proc/PID/limits``."""
    for line in limits.splitlines():
        if line.startswith("Max open files"):
            soft = line.split()[3]
            return float("inf") if soft == "unlimited" else float(soft)
    return 0.0
