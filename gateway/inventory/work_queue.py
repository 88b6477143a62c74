"""Work that may concern very many objects: it is done in steps, and others have turns between."""

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

    Attributes:
        left: works that are not done.
    """

    def __init__(self) -> None:
        self.left = 0
        self._works: deque[Iterator[None]] = deque()
        self._added: list[Iterator[None]] = []

    def add(self, work: Iterator[None]) -> None:
        """Let a work follow what is done now, and what was added to that before."""
        self._added.append(work)
        self.left += 1

    def run(self, budget: int | None = None) -> int:
        """Do at most ``budget`` steps, all where it is ``None``; returns how many that were."""
        done = 0
        while self.left and (budget is None or done < budget):
            if self._added:
                self._works.extendleft(reversed(self._added))
                self._added.clear()
            work = self._works[0]
            try:
                next(work)
                done += 1
            except StopIteration:
                self._works.popleft()  # what its end added is put in front of the rest above
                self.left -= 1
        return done

    def clear(self) -> None:
        """Drop all works."""
        self._works.clear()
        self._added.clear()
        self.left = 0
