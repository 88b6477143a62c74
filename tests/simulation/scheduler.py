"""Virtual time: the order of actions, which the seed determines; and a trace of them."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from gateway.model.times import SECOND
from tests.simulation.processes import RUNNING, Process

BEGINNING = 1_795_000_000 * SECOND
"""The begin of every simulation, nanoseconds since 1970-01-01 UTC."""


FURTHEST_OFF = 10 * SECOND
"""The greatest error of a clock that is set repeatedly."""


@dataclass(slots=True)
class Timer:
    """An action that is due at a time, unless it is cancelled."""

    time: int
    action: Callable[[], None]
    owner: Process | None = None
    cancelled: bool = False

    def fire(self) -> None:
        """Call the action, unless the timer is cancelled."""
        if not self.cancelled:
            self.action()

    def cancel(self) -> None:
        """Cancel the timer."""
        self.cancelled = True


class Trace:
    """The steps of a run in readable lines, with a digest that identifies the run.

    Args:
        keep: whether the lines are kept, or only their digest.
    """

    def __init__(self, *, keep: bool) -> None:
        self.lines: list[str] = []
        self._keep = keep
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, time: int, who: str, what: str) -> None:
        """Add the line "``who`` did ``what``" at ``time``."""
        line = f"{(time - BEGINNING) / SECOND:11.6f} {who:<14} {what}"
        self._digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
        if self._keep:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """The digest of all lines so far."""
        return self._digest.hexdigest()


class Scheduler:
    """Virtual time and the one source of chance.

    Actions that are due at the same instant are run in an order that the seed determines.

    Attributes:
        now: nanoseconds since 1970-01-01 UTC, by the clock that is never set.
        random: the source of every choice of a simulation.
    """

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.now = BEGINNING
        self.random = Random(seed)  # noqa: S311  a simulation must be repeatable, not unpredictable
        self.steps = 0
        self._trace = Trace(keep=keep_trace)
        self._queue: list[tuple[int, float, int, Timer]] = []
        self._serial = 0

    @property
    def trace(self) -> Trace:
        """The trace so far."""
        return self._trace

    def note(self, who: str, what: str) -> None:
        """Add a line to the trace."""
        self._trace.add(self.now, who, what)

    def after(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call ``action`` when ``delay`` nanoseconds have passed, in the process that runs now."""
        return self.after_in(RUNNING.get(), delay, action)

    def after_in(self, owner: Process | None, delay: int, action: Callable[[], None]) -> Timer:
        """Call ``action`` as `after` does, in the process ``owner``; ``None``: outside all processes."""
        timer = Timer(self.now + max(0, delay), action, owner)
        self._serial += 1
        heapq.heappush(self._queue, (timer.time, self.random.random(), self._serial, timer))
        return timer

    def between(self, shortest: int, longest: int) -> int:
        """Return a random duration, evenly spread over orders of magnitude."""
        ratio = longest / shortest
        return int(shortest * ratio ** self.random.random())

    def run_until(self, time: int) -> None:
        """Run all actions that are due until ``time``, and set the time to it."""
        queue = self._queue
        while queue and queue[0][0] <= time:
            timer = heapq.heappop(queue)[3]
            if not timer.cancelled:
                self.now = timer.time
                self.steps += 1
                if timer.owner is None:
                    timer.action()
                else:
                    timer.owner.run(timer.fire)
        self.now = max(self.now, time)


@dataclass(slots=True)
class Clock:
    """A clock as a process reads it: it may go wrong by ``offset`` nanoseconds, and be set."""

    scheduler: Scheduler
    offset: int = field(default=0)

    def set(self, step: int) -> None:
        """Set the clock forward or back by up to ``step`` nanoseconds, within ten seconds of the truth."""
        by = self.scheduler.random.randrange(-step, step)
        if abs(self.offset + by) < FURTHEST_OFF:
            self.offset += by

    def now(self) -> int:
        """Return the nanoseconds since 1970-01-01 UTC by this clock."""
        return self.scheduler.now + self.offset
