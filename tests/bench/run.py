"""One run of a benchmark: its rounds, their readings, and the steadiness of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from tests.bench.rows import Case, Readings, Row, spread

Say: TypeAlias = Callable[[str], None]
"""A function that receives each line of progress."""

_SPIN_TURNS: Final = 1_000_000
_SECONDS: Final = 400.0
OBSERVE_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Figure:
    """A result that has no peer, such as memory: ``value`` is a text with its unit."""

    name: str
    value: str


class Run:
    """The state of one run of a `Benchmark`.

    Args:
        rounds: the number of turns of each side.
        quick: whether this is only a trial, with counts so small that the figures mean nothing.
        folder: for the files of the benchmark; empty, and removed afterwards.
        say: receives the lines of progress.
        seconds: after the first one no round begins that would end later than this.
        observe: seconds for which a benchmark with a steady load observes it.

    Attributes:
        observe: likewise; a second in a trial.
        figures: those added by `figure`.
        done: the number of rounds so far.
    """

    def __init__(
        self,
        rounds: int,
        *,
        quick: bool,
        folder: Path,
        say: Say,
        seconds: float = _SECONDS,
        observe: float = OBSERVE_SECONDS,
    ) -> None:
        self.quick = quick
        self.done = 0
        self.folder = folder
        self.say = say
        self.observe = 1.0 if quick else observe
        self.figures: list[Figure] = []
        self._rounds = rounds
        self._end = time.monotonic() + seconds
        self._readings = Readings()
        self._spins: list[tuple[float, float]] = []

    def rounds(self, reserve: float = 0.0) -> Iterator[int]:
        """Yield each round's number, from 0. The steadiness is measured before each and after the last.

        In one round every side measures every case once, ours and the peers in turns, so that a disturbance
        of the machine affects all. ``reserve`` is the number of seconds kept for measurements afterwards.
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
        """Extend the time to this many seconds from now, for a benchmark that observes its sides for long."""
        self._end = time.monotonic() + seconds

    def seconds_left(self) -> float:
        """Return the seconds until nothing more should be begun."""
        return self._end - time.monotonic()

    def count(self, full: int, quick: int) -> int:
        """Return the number of repetitions: ``full``, or ``quick`` in a trial."""
        return quick if self.quick else full

    def record(self, case: Case, side: str, value: float) -> None:
        """Keep the reading of ``side`` (`rows.OURS` or one of `rows.PEERS`) in this round."""
        self._readings.add(case, side, value)
        self.say(f"  {case.name:<20} {side:<14} {value:>14,.2f} {case.unit}")

    def figure(self, name: str, value: str) -> None:
        """Keep a figure that has no peer."""
        self.figures.append(Figure(name, value))
        self.say(f"  {name}: {value}")

    def rows(self) -> list[Row]:
        """Return the rows. Raises ``ValueError`` if a side has not had its turn in every round."""
        return self._readings.rows()

    def noise(self) -> Mapping[str, float]:
        """Return the spread of equal work: a fixed loop (in wall and in processor time), and each reading.

        Spreads are parts of the median; see `rows.spread`. Differences of that size mean nothing.
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
    """A benchmark: a measurement of the gateway beside other programs."""

    @property
    def name(self) -> str:
        """The name, as in ``make bench BENCH=name``; also names the texts and plot of its section."""

    @property
    def title(self) -> str:
        """The title of its section."""

    def measure(self, run: Run) -> None:
        """Go through ``run.rounds()`` and leave readings and figures in ``run``; takes at most 8 minutes.

        A benchmark that calls ``run.allow`` states why it takes longer.

        Answers of all sides are compared before they are timed. Everything that was started has ended
        afterwards, also after an exception.
        """
