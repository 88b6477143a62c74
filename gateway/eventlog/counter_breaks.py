"""When a counter does not simply go on: what of it was counted, and what is not known. Without I/O.

A reading may be wrong for a moment, and a counter that is less than before did not necessarily begin again.
So a fall waits: a counter that returns in time was never less. One that stays has lost an unknown part,
unless it is no less than it was before its last rise: then that rise was wrong, and is taken back. Only a
source can prove that counters began again from zero (`gateway.model.observations.Counting`).

| the counter | what counts |
| --- | --- |
| rose, or is as before | the difference |
| is absent for a while | the same as without the absence |
| fell, and returns before the third reading and within `SETTLED_AFTER` | the difference to before the fall |
| fell, stays, to no less than before its last rise | the rise is taken back |
| fell, and stays | unknown; then what it gains on its lowest value since |
| fell, stayed, and reaches its former highest value again | unknown: it may be the part that was missing |
| began again, as its source proves | all that it shows |
| wrapped at the width of its type | as one that fell: no peer says so, and most such falls are restarts |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.model.observations import SETTLED_AFTER

SETTLED_BY: Final = 3
"""Number of readings, that of the fall among them, after which it stays."""

NO_RISE: Final = (1 << 64) - 1
"""Stands for what a counter had before its last rise, where that is not known: no value is as much."""


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
        before_rise: its value before the last rise before the fall; `NO_RISE` where it is not known.
        top: its last value before the fall; 0 once the fall stays.
        lowest: its lowest value since the fall.
        since: when it fell, nanoseconds of the gateway's clock.
        highest: the highest value before a fall that stayed: it may reach it at once; 0 for none.
        readings: the number of readings since, that of the fall included.
    """

    before_rise: int
    top: int
    lowest: int
    since: int
    highest: int = 0
    readings: int = 0

    @property
    def waits(self) -> bool:
        """Whether it may still return."""
        return self.top > 0

    def fell(self, top: int, value: int, before_rise: int, now: int) -> None:
        """Note that it fell (again) from ``top`` to ``value``."""
        if not self.waits:
            self.top, self.since, self.readings, self.before_rise = top, now, 0, before_rise
            self.lowest = value
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

    def settle(self) -> Restart | None:
        """Let the fall stay; return from where it counts, or ``None`` where its last rise is taken back."""
        top, self.top = self.top, 0
        if self.lowest >= self.before_rise:
            return None
        self.highest = max(self.highest, top)
        return Restart(self.lowest)
