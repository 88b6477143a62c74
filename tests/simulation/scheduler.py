"""Virtual time: what happens next, in an order that the seed chooses; and a trace of it."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.simulation.processes import RUNNING, Process

MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND
BEGINNING = 1_795_000_000 * SECOND
"""When every simulation begins, nanoseconds since 1970-01-01 UTC."""


FURTHEST_OFF = 10 * SECOND
"""A clock that is set again and again is never further from the truth."""


@dataclass(slots=True)
class Timer:
    """Something that is going to happen, unless it is cancelled."""

    time: int
    action: Callable[[], None]
    owner: Process | None = None
    cancelled: bool = False

    def fire(self) -> None:
        """The time has come."""
        if not self.cancelled:
            self.action()

    def cancel(self) -> None:
        """It does not happen any more."""
        self.cancelled = True


class Trace:
    """What happened, in readable lines; the digest of all lines tells two runs apart.

    Args:
        keep: whether the lines are kept, or only their digest.
    """

    def __init__(self, *, keep: bool) -> None:
        self.lines: list[str] = []
        self._keep = keep
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, time: int, who: str, what: str) -> None:
        """``who`` did ``what`` at ``time``."""
        line = f"{(time - BEGINNING) / SECOND:11.6f} {who:<14} {what}"
        self._digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
        if self._keep:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """Of every line so far."""
        return self._digest.hexdigest()


class Scheduler:
    """Virtual time and the one source of chance.

    What is due at the same instant happens in an order that the seed chooses.

    Attributes:
        now: nanoseconds since 1970-01-01 UTC, by the clock that nobody can set.
        random: every choice of a simulation comes from here.
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
        """What happened so far."""
        return self._trace

    def tell(self, who: str, what: str) -> None:
        """Add a line to the trace."""
        self._trace.add(self.now, who, what)

    def after(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call ``action`` when ``delay`` nanoseconds have passed, in the process that arranges it."""
        return self.after_in(RUNNING.get(), delay, action)

    def after_in(self, owner: Process | None, delay: int, action: Callable[[], None]) -> Timer:
        """As `after`, in another process; ``None``: outside all of them."""
        timer = Timer(self.now + max(0, delay), action, owner)
        self._serial += 1
        heapq.heappush(self._queue, (timer.time, self.random.random(), self._serial, timer))
        return timer

    def between(self, shortest: int, longest: int) -> int:
        """A duration that is as likely short as long: evenly spread over orders of magnitude."""
        ratio = longest / shortest
        return int(shortest * ratio ** self.random.random())

    def run_until(self, time: int) -> None:
        """Let everything happen that is due until ``time``, and stand there."""
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
        """Somebody sets it forward or back by up to ``step`` nanoseconds; it stays within ten seconds."""
        by = self.scheduler.random.randrange(-step, step)
        if abs(self.offset + by) < FURTHEST_OFF:
            self.offset += by

    def now(self) -> int:
        """Nanoseconds since 1970-01-01 UTC, as this clock has it."""
        return self.scheduler.now + self.offset
