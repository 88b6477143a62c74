"""What follows from what was told, where that may be very much: done in steps, others have turns between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

LIGHT = 32
"""How many objects are merely looked at in one step."""


class WorkQueue:
    """Works that are done in steps, one after the other.

    A work is an iterator that does one step each time it is asked for the next. What a step adds is done
    before that step's own work goes on, so that the order is that of plain calls, in which a call that is
    made last is deferred.
    """

    def __init__(self) -> None:
        self._works: deque[Iterator[None]] = deque()
        self._added: list[Iterator[None]] = []

    def __bool__(self) -> bool:
        """Whether anything is left to do."""
        return bool(self._works or self._added)

    def add(self, work: Iterator[None]) -> None:
        """Let a work follow what is done now, and what was added to that before."""
        self._added.append(work)

    def take(self, most: int | None = None) -> int:
        """Do at most so many steps, all where ``None``; returns how many that were."""
        done = 0
        while self and (most is None or done < most):
            if self._added:
                self._works.extendleft(reversed(self._added))
                self._added.clear()
            work = self._works[0]
            try:
                next(work)
                done += 1
            except StopIteration:
                self._works.popleft()  # what its end added is put in front of the rest above
        return done

    def clear(self) -> None:
        """Nothing of it is to be done any more."""
        self._works.clear()
        self._added.clear()
