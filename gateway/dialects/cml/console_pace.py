"""When a console inspects which object, and how many requests it has on the way."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final

from gateway.dialects.cml.console_config import SECOND, Budget, Intervals
from gateway.dialects.session import NEVER

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


_BURST: Final = 0.1
"""Seconds whose requests may be sent at once."""
_LONGEST_DEBT: Final = 1.0
"""Seconds: however long an answer took, what it cost is no more."""
_LEAST: Final = 0.001
_SLOWER: Final = 4
"""Answers that take so many times as long as the quickest ones show that the broker has much to do."""
_SLACK: Final = 1_000_000
"""Nanoseconds that an answer may take in any case."""


class Pace:
    """Says when the next request may leave. Times are nanoseconds.

    Args:
        budget: what may be used up.
    """

    def __init__(self, budget: Budget) -> None:
        self._rate = max(budget.rate, _LEAST)
        self._share = max(budget.share, _LEAST)
        self._longest_window = max(1, budget.in_flight)
        self._window = 1.0
        self._most_requests = max(1.0, self._rate * _BURST)
        self._requests = self._most_requests
        self._time = self._share * _LONGEST_DEBT
        self._at = 0
        self._quickest = 0.0
        self._usual = 0.0
        self.in_flight = 0

    def one_at_a_time(self) -> None:
        """Never more than one request in flight."""
        self._longest_window = 1
        self._window = 1.0

    def may_ask(self, now: int) -> bool:
        """Whether a request may be sent now."""
        self._refill(now)
        has_time = self._time > 0 or self._share >= 1
        return has_time and self.in_flight < int(self._window) and self._requests >= 1

    def asked(self) -> int:
        """A request was sent; returns how many are in flight with it."""
        self.charge()
        self.in_flight += 1
        return self.in_flight

    def charge(self) -> None:
        """An operation was sent: it does not wait for its turn, but what follows does."""
        self._requests = max(self._requests - 1, -self._most_requests)

    def answered(self, latency: int, alongside: int) -> None:
        """An answer came after so many nanoseconds, to a request that was sent as one of ``alongside``.

        Requests that are under way together share the broker's time.
        """
        self.in_flight -= 1
        each = max(latency, 0) / alongside
        self._time = max(self._time - each / SECOND, -_LONGEST_DEBT)
        self._usual = self._usual + (each - self._usual) / 16 if self._usual else each
        # The quickest is forgotten slowly: what was so once need not be possible for ever.
        self._quickest = min(each, self._quickest * 1.001) if self._quickest else each
        if self._usual > _SLOWER * self._quickest + _SLACK:
            self._window = max(1.0, self._window * 0.9)
        else:
            self._window = min(self._longest_window, self._window + 1 / self._window)

    def missed(self) -> None:
        """No answer came: the broker has too much to do, or is gone."""
        self.in_flight -= 1
        self._window = 1.0

    def next_time(self, now: int) -> int:
        """When `may_ask` holds if nothing arrives meanwhile; `NEVER` where an answer is needed first."""
        if self.in_flight >= int(self._window):
            return NEVER
        missing = max((1 - self._requests) / self._rate, -self._time / self._share, 0.0)
        return now + int(missing * SECOND) + 1

    def _refill(self, now: int) -> None:
        # A clock that was set back gives nothing.
        passed = max(0, now - self._at) / SECOND
        self._at = now
        self._requests = min(self._requests + passed * self._rate, self._most_requests)
        self._time = min(self._time + passed * self._share, self._share * _LONGEST_DEBT)
