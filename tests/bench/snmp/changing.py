"""The time that a poller waits for a GET while many rows change, beside an echo on the same busy machine."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.feed_player import FeedPlayer, frames
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.bench.snmp.agents import Agent
from tests.bench.snmp.events import changes
from tests.components.waiting import DEADLINE

GET_CHANGING: Final = Case("get-changing", "ms, 99th percentile", Reading.COST)
"""The case; its peer is the echo."""

ROWS_A_SECOND: Final = 10_000
"""The number of rows that change in a second."""

_BATCH_RECORDS: Final = 256
"""The largest batch that a core sends."""

_DIFFERENT_BATCHES: Final = 200
_INTERVAL_MICROSECONDS: Final = 4_000
_POLLS: Final = 500
_QUICK_POLLS: Final = 50


@dataclass(frozen=True, slots=True)
class Waits:
    """How long a poller waited for answers: milliseconds.

    Attributes:
        times: the median, the 99th percentile and the longest.
        processor: the same of the agent's processor time while the poller waited.
    """

    times: Sequence[float]
    processor: Sequence[float]


class Changing:
    """A process ``snmp`` whose rows change, and an echo, each polled meanwhile.

    Args:
        run: the run of the benchmark; its folder has the compiled programs.
        agent: the process ``snmp``.
        core: its core, which reports the changes.
        rows: the number of its rows.
        echo: the echo.
        requests: a file of GETs as `native/load.c` reads it.
    """

    def __init__(
        self, run: Run, agent: Agent, core: FeedPlayer, rows: int, echo: Agent, requests: Path
    ) -> None:
        self._run = run
        self._agents: Mapping[str, Agent] = {OURS: agent, echo.side: echo}
        self._core = core
        self._requests = requests
        count = run.count(_DIFFERENT_BATCHES, 4)
        records = tuple(changes(rows, count * _BATCH_RECORDS))
        self._batches = [
            frames(records[start : start + _BATCH_RECORDS], _BATCH_RECORDS)
            for start in range(0, len(records), _BATCH_RECORDS)
        ]
        self._sent = 0
        self._waits: dict[str, list[Waits]] = {side: [] for side in self._agents}
        self._costs: list[float] = []

    def measure(self, number: int) -> None:
        """Measure one round: each side is polled under the same load."""
        sides = [*self._agents] if number % 2 == 0 else [*self._agents][::-1]
        ours = self._agents[OURS]
        for side in sides:
            with self._load():
                before, sent = ours.processor_seconds(), self._sent
                waits = self._polled(self._agents[side])
                if side != OURS:
                    rows = (self._sent - sent) * _BATCH_RECORDS
                    self._costs.append((ours.processor_seconds() - before) / max(rows, 1))
            self._waits[side].append(waits)
            self._run.record(GET_CHANGING, side, waits.times[1])

    def leave_figures(self) -> None:
        """Leave the medians of rounds, and the processor time that a changed row takes without any GET."""
        for side, waits in self._waits.items():
            what = f"get-changing of {side}: median, 99th percentile, longest"
            self._run.figure(what, _shown([each.times for each in waits]))
            if side == OURS:
                self._run.figure(f"{what}, processor time", _shown([each.processor for each in waits]))
        cost = statistics.median(self._costs) * 1e6
        self._run.figure("processor time of a row that changes, 10 values", f"{cost:.0f} us")

    def _polled(self, agent: Agent) -> Waits:
        polls = self._run.count(_POLLS, _QUICK_POLLS)
        words = (agent.port, agent.process, _INTERVAL_MICROSECONDS, polls, self._requests)
        command = (str(self._run.folder / "poller"), *map(str, words))
        output = subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE).stdout  # noqa: S603
        times, processor = ([float(word) / 1e3 for word in line.split()] for line in output.splitlines())
        return Waits(times, processor)

    @contextlib.contextmanager
    def _load(self) -> Iterator[None]:
        """Change rows, a batch at a time, as long as the context lasts."""
        ended = threading.Event()
        sender = threading.Thread(target=self._send, args=(ended,), daemon=True)
        sender.start()
        try:
            yield
        finally:
            ended.set()
            sender.join()

    def _send(self, ended: threading.Event) -> None:
        due = time.monotonic()
        while not ended.wait(max(0.0, due - time.monotonic())):
            self._core.send(self._batches[self._sent % len(self._batches)])
            self._sent += 1
            due += _BATCH_RECORDS / ROWS_A_SECOND


def _shown(rounds: Sequence[Sequence[float]]) -> str:
    """Return the medians of rounds; of the longest times the longest."""
    medians, percentiles, longest = zip(*rounds, strict=True)
    return f"{statistics.median(medians):.2f}, {statistics.median(percentiles):.2f}, {max(longest):.1f} ms"
