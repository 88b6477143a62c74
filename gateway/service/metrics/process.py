"""Metrics of one process: the lag of its event loop, garbage collection, its feed, and its compactions."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from gateway.feed.replica import FeedStatus
from gateway.service.metrics import families
from gateway.service.metrics.readings import Histogram, Metrics, Reading
from gateway.tasks import until_one_ends

LAG_INTERVAL_SECONDS = 0.25
_LAG_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_PAUSE_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_GENERATIONS = ("0", "1", "2")


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
    yield families.NORTH_CONNECTED.at(status.connected, process)
    yield families.NORTH_MESSAGES.at(status.messages, process)
    yield families.NORTH_SNAPSHOTS.at(status.snapshots, process)
    yield families.NORTH_REFUSED.at(status.refused, process)


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


class LoopLag:
    """Measures how late the timers of the running event loop fire.

    Args:
        process: its name, a label.
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
    """Measures how long each garbage collection stops the process, as one of `gc.callbacks`.

    Args:
        process: its name, a label.
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
