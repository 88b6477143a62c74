"""When a counter does not simply go on: what of it was counted, and what is not known. Without I/O.

A reading may be wrong for a moment, and a counter that is less than before did not necessarily begin again.
So a fall waits: a counter that returns in time was never less. One that stays has lost an unknown part,
unless it is no less than it was before its last rise: then that rise was wrong, and is taken back. But what
`SETTLED_BY` readings showed stays: a fall that late is a loss. Only a source can prove that counters began
again from zero (`gateway.model.observations.Counting`).

| the counter | what counts |
| --- | --- |
| rose, or is as before | the difference |
| is absent for a while | the same as without the absence |
| fell, and returns before the third reading and within `SETTLED_AFTER` | the difference to before the fall |
| fell, stays, to no less than before a rise shown by less than three readings | the rise is taken back |
| fell, and stays | unknown; then what it gains on its lowest value since |
| fell, stayed, and reaches the value before again | unknown: it may be the part that was missing |
| began again, as its source proves | all that it shows |
| wrapped at the width of its type | as one that fell: no peer says so, and most such falls are restarts |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.model.observations import SETTLED_AFTER, SETTLED_BY

NO_RISE: Final = (1 << 64) - 1
"""Stands for what a counter had before its last rise, where that is not known: no value is as much."""


_MARKS: Final = 4
"""The maximum number of falls after which the values before are known."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Stands for the last recorded value of a counter that does not go on from it.

    Attributes:
        base: the value on which it counts since; ``None`` where that is not known.
    """

    base: int | None


FROM_ZERO: Final = Restart(0)
UNKNOWN: Final = Restart(None)


@dataclass(slots=True)
class Fall:
    """A counter that fell.

    Attributes:
        before_rise: its value before the last rise before the fall; `NO_RISE` where it is not known, or
            that rise stays.
        top: its last value before the fall; 0 once the fall stays.
        lowest: its lowest value since the fall.
        since: when it fell, nanoseconds of the gateway's clock.
        steps: values since, from which it fell further.
        marks: the values before falls that stayed, the lowest first: it may reach each of them at once.
        readings: the number of readings since, that of the fall included.
    """

    before_rise: int
    top: int
    lowest: int
    since: int
    steps: tuple[int, ...] = ()
    marks: tuple[int, ...] = ()
    readings: int = 0

    @property
    def waits(self) -> bool:
        """Whether it may still return."""
        return self.top > 0

    def fell(self, top: int, value: int, before_rise: int, now: int) -> None:
        """Note that it fell (again) from ``top`` to ``value``."""
        if not self.waits:
            self.top, self.since, self.readings, self.before_rise = top, now, 0, before_rise
            self.lowest, self.steps = value, ()
        else:
            self.steps = (*self.steps, top)[-_MARKS:]
        self.lowest = min(self.lowest, value)

    def read(self, value: int) -> bool:
        """Take a reading; return whether it returned to what it was before the fall."""
        self.lowest = min(self.lowest, value)
        self.readings += 1
        return value >= self.top

    def is_due(self, now: int) -> bool:
        """Return whether it stays, at ``now`` (ns)."""
        self.since = min(self.since, now)  # the clock may be set back
        return self.readings >= SETTLED_BY or now - self.since >= SETTLED_AFTER

    def settle(self, value: int) -> int | None:
        """Let the fall stay at its present value.

        Return from where it counts: its lowest value, or one since to which it may only have returned.
        Return ``None`` where its last rise is taken back: then it has lost nothing.
        """
        if self.lowest >= self.before_rise:
            self.top = 0
            return None
        base = max([self.lowest, *(step for step in self.steps if step <= value)])
        self.break_off(value)
        return base

    def break_off(self, value: int) -> None:
        """Let it wait no longer: it may reach at once what it had before, and is more than its value."""
        for top in sorted({self.top, *self.steps}, reverse=True):
            if top > value:
                self.mark(top)
        self.top = 0

    def mark(self, top: int) -> None:
        """Note a value that it may reach again at once; those below are reached already."""
        self.marks = (top, *(mark for mark in self.marks if mark > top))[:_MARKS]

    def reaches(self, value: int) -> bool:
        """Return whether a value is as much as one before a fall, and forget those that it has reached."""
        former, self.marks = self.marks, tuple(mark for mark in self.marks if mark > value)
        return len(former) > len(self.marks)


def after_fall(recorded: object, base: int) -> Restart | None:
    """Return what stands for the last recorded value of a counter that counts on ``base`` since it fell.

    One of which nothing is recorded, or that counts from elsewhere anyway, goes on so.
    """
    if not isinstance(recorded, Restart):
        return None if recorded is None else Restart(base)
    return Restart(base) if recorded.base is not None and base < recorded.base else recorded
