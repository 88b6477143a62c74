"""Which object is to be inspected next: each class has its interval, and none waits for ever behind another.

Where there is more to do than the budget allows, what is late by more of its own intervals comes first: so
the intervals of all classes grow by the same factor. What was never inspected comes sooner than that, but
takes no more than every second turn from what is due: a long listing must not hide what is known already.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final

from gateway.dialects.cml.console_config import SECOND, Intervals
from gateway.dialects.outbox import NEVER

_SOON: Final = SECOND
"""What was never inspected is as urgent as a class of this interval."""


class _Lane:
    """The objects of one interval, in the order in which they are due."""

    __slots__ = ("entries", "interval")

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.entries: deque[tuple[int, int, int]] = deque()  # due, ticket, number


class Schedule:
    """The objects that wait for their inspection, by number. Times are nanoseconds.

    An object waits for one time only: whatever is said of it last holds. One that was taken waits for none.

    Attributes:
        stretch: how many times as long as configured the intervals of late have been; 1 where the budget
            suffices.
    """

    def __init__(self, intervals: Intervals) -> None:
        self._intervals = intervals
        self._soon = _Lane(_SOON)
        self._lanes: dict[int, _Lane] = {}
        self._later: list[tuple[int, int, int]] = []
        self._tickets: dict[int, int] = {}
        self._last_ticket = 0
        self._was_soon = False
        self.stretch = 1.0

    def __len__(self) -> int:
        return len(self._tickets)

    def soon(self, number: int, now: int) -> None:
        """Inspect it as soon as may be."""
        self._soon.entries.append((now, self._ticket(number), number))

    def again(self, number: int, class_name: str, now: int) -> None:
        """Inspect it when the interval of its class has passed."""
        interval = max(1, self._intervals.of(class_name))
        lane = self._lanes.setdefault(interval, _Lane(interval))
        lane.entries.append((now + interval, self._ticket(number), number))

    def at(self, number: int, time: int) -> None:
        """Inspect it at a time of its own."""
        heapq.heappush(self._later, (time, self._ticket(number), number))

    def drop(self, number: int) -> None:
        """Do not inspect it."""
        self._tickets.pop(number, None)

    def take(self, now: int, *, in_turns: bool = True) -> int | None:
        """Return the number of the object to inspect now, which waits no longer; ``None`` if none is due.

        ``in_turns``: what was never inspected takes turns with what is due; not while all is read again.
        """
        while self._later and self._later[0][0] <= now:
            self._soon.entries.append(heapq.heappop(self._later))
        chosen, most = None, -1.0
        for lane in self._lanes.values():
            due = self._due(lane)
            if due <= now and (now - due) / lane.interval > most:
                chosen, most = lane, (now - due) / lane.interval
        due = self._due(self._soon)
        has_turn = chosen is None or not (in_turns and self._was_soon)
        if due <= now and has_turn and (now - due) / self._soon.interval >= most:
            chosen = self._soon
        self._was_soon = chosen is self._soon
        if chosen is None:
            return None
        _, _, number = chosen.entries.popleft()
        del self._tickets[number]
        if chosen is not self._soon:
            self.stretch += (1 + most - self.stretch) / 64
        return number

    @property
    def next_due(self) -> int:
        """When `take` has something to return; perhaps it has nothing then."""
        first = min(map(self._due, (self._soon, *self._lanes.values())))
        return min(first, self._later[0][0]) if self._later else first

    def _ticket(self, number: int) -> int:
        self._last_ticket += 1
        self._tickets[number] = self._last_ticket
        return self._last_ticket

    def _due(self, lane: _Lane) -> int:
        """When the first of a lane is due; who does not wait there any more is left out."""
        entries = lane.entries
        while entries:
            due, ticket, number = entries[0]
            if self._tickets.get(number) == ticket:
                return due
            entries.popleft()
        return NEVER
