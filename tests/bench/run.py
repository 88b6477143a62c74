"""One run of a benchmark: its rounds, what is read in them, and how steady the machine is meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from tests.bench.rows import Case, Readings, Row, spread

Say: TypeAlias = Callable[[str], None]
"""Told in one line each what goes on."""

_SPIN_TURNS: Final = 1_000_000
_SECONDS: Final = 400.0


@dataclass(frozen=True, slots=True)
class Figure:
    """Something measured that has no peer, such as memory: ``value`` with its unit, as people read it."""

    name: str
    value: str


class Run:
    """What a `Benchmark` measures with.

    Args:
        rounds: how often each side has its turn.
        quick: whether only the way is tried, with counts so small that the figures mean nothing.
        folder: for what the benchmark makes; empty, and removed afterwards.
        say: told what goes on.
        seconds: after the first one no round begins that would end later than this.

    Attributes:
        figures: as `figure` left them.
        done: how many rounds there were.
    """

    def __init__(
        self, rounds: int, *, quick: bool, folder: Path, say: Say, seconds: float = _SECONDS
    ) -> None:
        self.quick = quick
        self.done = 0
        self.folder = folder
        self.say = say
        self.figures: list[Figure] = []
        self._rounds = rounds
        self._end = time.monotonic() + seconds
        self._readings = Readings()
        self._spins: list[tuple[float, float]] = []

    def rounds(self, reserve: float = 0.0) -> Iterator[int]:
        """Each round's number, from 0. The machine's steadiness is measured before each and after the last.

        In one round every side measures every case once, ours and the peers in turns, so that what disturbs
        the machine disturbs all. ``reserve`` is how many seconds are kept for what is measured afterwards.
        """
        longest = 0.0
        for number in range(self._rounds):
            begun = time.monotonic()
            if number and longest + reserve > self.seconds_left():
                self.say("no time for another round")
                break
            self._spin()
            self.say(f"round {number + 1} of {self._rounds}")
            yield number
            self.done += 1
            longest = max(longest, time.monotonic() - begun)
        self._spin()

    def allow(self, seconds: float) -> None:
        """Let the benchmark take so long from now on, because its sides have to be watched for long."""
        self._end = time.monotonic() + seconds

    def seconds_left(self) -> float:
        """Until nothing more should be begun."""
        return self._end - time.monotonic()

    def count(self, full: int, quick: int) -> int:
        """How many of something to do: ``full``, or ``quick`` where only the way is tried."""
        return quick if self.quick else full

    def record(self, case: Case, side: str, value: float) -> None:
        """Keep what ``side`` (`rows.OURS` or one of `rows.PEERS`) needed, or achieved, in this round."""
        self._readings.add(case, side, value)
        self.say(f"  {case.name:<20} {side:<14} {value:>14,.2f} {case.unit}")

    def figure(self, name: str, value: str) -> None:
        """Keep a figure that has no peer."""
        self.figures.append(Figure(name, value))
        self.say(f"  {name}: {value}")

    def rows(self) -> list[Row]:
        """What came of it. Raises ``ValueError`` where a side has not had its turn in every round."""
        return self._readings.rows()

    def noise(self) -> Mapping[str, float]:
        """How far apart equal work was: a fixed loop (in wall time and in processor time), and each reading.

        As parts of the median; see `rows.spread`. Differences of that size mean nothing.
        """
        walls, processors = zip(*self._spins, strict=True) if self._spins else ((1.0,), (1.0,))
        fixed = {"fixed loop, wall time": spread(walls), "fixed loop, processor time": spread(processors)}
        return {**fixed, **self._readings.spreads()}

    def _spin(self) -> None:
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(_SPIN_TURNS):
            pass
        self._spins.append((time.perf_counter() - wall, time.process_time() - processor))


class Benchmark(Protocol):
    """Something that is measured beside others."""

    @property
    def name(self) -> str:
        """As in ``make bench BENCH=name``; also names the texts and plot of its section."""

    @property
    def title(self) -> str:
        """Of its section."""

    def measure(self, run: Run) -> None:
        """Go through ``run.rounds()`` and leave readings and figures in ``run``; takes at most 8 minutes.

        One that calls ``run.allow`` says why it takes longer.

        Answers of all sides are compared before they are timed. Whatever was started has ended afterwards,
        also after an exception.
        """
