"""Many MBeans and a steady rate of updates: how soon a client sees one, and whether the heap stays flat."""

from __future__ import annotations

import re
import statistics
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import psutil

from tests.bench.feed_player import FeedPlayer, frames
from tests.bench.jmx.programs import Load
from tests.bench.jmx.queues import STATISTICS, queue_name, updates
from tests.bench.run import Run

_TICK: Final = 0.01
"""Seconds between the sendings of a part of the updates."""

_PROBE: Final = 0.02
"""Seconds between the updates of the queue that the client reads; no others concern it."""

_HEAP_SECONDS: Final = 0.5
_USED: Final = re.compile(r"used=(\d+)")
_MEBIBYTE: Final = 1 << 20


@dataclass
class _Observed:
    """What the client saw.

    Attributes:
        latencies: seconds from an update's sending until it was seen.
        heaps: used bytes of the heap, in the order of time.
    """

    latencies: list[float] = field(default_factory=list)
    heaps: list[int] = field(default_factory=list)


def observe_steady_load(
    run: Run, feed: FeedPlayer, load: Load, process: psutil.Process, count: int, rate: int
) -> None:
    """Observe the process for `Run.observe` seconds, and leave figures in ``run``.

    Args:
        run: receives the figures.
        feed: the feed of the process, which has sent the queues.
        load: a client of the process.
        process: the Python process; the virtual machine is its child.
        count: the number of queues.
        rate: updates a second, one queue after the other, each of twelve statistics.
    """
    (java,) = (child for child in process.children() if "java" in child.name())
    before = [_processor_seconds(each) for each in (process, java)]
    began = time.monotonic()
    with _updating(feed, count, rate):
        observed = _observe(feed, load, began + run.observe)
    took = time.monotonic() - began
    shares = [_processor_seconds(each) - used for each, used in zip((process, java), before, strict=True)]
    latencies = with_missed(observed.latencies, _PROBE)
    half = len(observed.heaps) // 2 or 1
    load_text = f"{count:,} MBeans, {rate:,} updates a second for {run.observe:g} s"
    run.figure(
        f"update until visible, {load_text}",
        f"median {statistics.median(latencies) * 1000:.1f} ms, 99th percentile "
        f"{_percentile(latencies, 0.99) * 1000:.1f} ms, longest {max(latencies) * 1000:.0f} ms",
    )
    run.figure(
        "lowest use of the heap meanwhile",
        f"{min(observed.heaps[:half]) / _MEBIBYTE:.0f} MiB in the first half, "
        f"{min(observed.heaps[half:] or observed.heaps) / _MEBIBYTE:.0f} MiB in the second",
    )
    run.figure(
        "processor time meanwhile",
        f"{shares[0] / took:.0%} of a core for Python, {shares[1] / took:.0%} for Java",
    )


def with_missed(latencies: Iterable[float], interval: float) -> list[float]:
    """Return the latencies with those of the probes that were not sent because one before was not seen yet.

    A pause of a second is one long latency to who waits for each before the next; it concerned all updates of
    that second.
    """
    complete: list[float] = []
    for latency in latencies:
        left = latency
        while left > 0:
            complete.append(left)
            left -= interval
    return complete


def _observe(feed: FeedPlayer, load: Load, end: float) -> _Observed:
    observed = _Observed()
    value, heap_at = 1_000, 0.0
    while (now := time.monotonic()) < end:
        value += 1
        octets = frames(updates([0], value))
        sent = time.monotonic_ns()
        feed.send(octets)
        seen = load.time("await", queue_name(0), STATISTICS[0], value)
        observed.latencies.append((seen - sent) / 1e9)
        if now >= heap_at:
            observed.heaps.append(_used_heap(load))
            heap_at = now + _HEAP_SECONDS
        time.sleep(max(0.0, now + _PROBE - time.monotonic()))
    return observed


@contextmanager
def _updating(feed: FeedPlayer, count: int, rate: int) -> Iterator[None]:
    """Send updates at this rate meanwhile, on a thread."""
    each = max(1, round(rate * _TICK))
    parts = [
        frames(updates(range(first, min(first + each, count)), value))
        for value in (1, 2)
        for first in range(1, count, each)
    ]
    enough = threading.Event()

    def send() -> None:
        at = time.monotonic()
        number = 0
        while not enough.wait(max(0.0, at - time.monotonic())):
            feed.send(parts[number % len(parts)])
            number += 1
            at += _TICK

    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield
    finally:
        enough.set()
        sending.join()


def _used_heap(load: Load) -> int:
    found = _USED.search(load.ask("read", "java.lang:type=Memory", "HeapMemoryUsage"))
    assert found is not None
    return int(found[1])


def _percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def _processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
