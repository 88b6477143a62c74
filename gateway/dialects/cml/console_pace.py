"""Schedules inspections: which object is due when, how many requests may be in flight, what was read when."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from typing import Final

from gateway.dialects.cml.console_config import Budget, ConsoleConfig, Intervals
from gateway.dialects.session import NEVER
from gateway.model.observations import current_until
from gateway.model.times import SECOND

_SOON: Final = SECOND
"""Nanoseconds: objects that were never inspected are as urgent as those of a class of this interval."""


class _Lane:
    """The objects of one interval, in the order in which they are due."""

    __slots__ = ("entries", "interval")

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.entries: deque[tuple[int, int, int]] = deque()  # due, ticket, number


class Schedule:
    """The objects that wait for their inspection, by number. Times are nanoseconds.

    An object waits for one time only: a later call replaces an earlier one. One that was taken waits no more.
    """

    def __init__(self, intervals: Intervals) -> None:
        self._intervals = intervals
        self._soon = _Lane(_SOON)
        self._lanes: dict[int, _Lane] = {}
        self._later: list[tuple[int, int, int]] = []
        self._tickets: dict[int, int] = {}
        self._last_ticket = 0
        self._was_soon = False

    def __len__(self) -> int:
        return len(self._tickets)

    def soon(self, number: int, now: int) -> None:
        """Inspect an object as soon as possible."""
        self._soon.entries.append((now, self._ticket(number), number))

    def again(self, number: int, class_name: str, now: int) -> None:
        """Inspect an object when the interval of its class has passed."""
        interval = max(1, self._intervals.of(class_name))
        lane = self._lanes.setdefault(interval, _Lane(interval))
        lane.entries.append((now + interval, self._ticket(number), number))

    def at(self, number: int, time: int) -> None:
        """Inspect an object at a given time."""
        heapq.heappush(self._later, (time, self._ticket(number), number))

    def drop(self, number: int) -> None:
        """Do not inspect an object."""
        self._tickets.pop(number, None)

    def take(self, now: int, *, in_turns: bool = True) -> int | None:
        """Return the number of the object to inspect now, which then waits no more; ``None`` if none is due.

        ``in_turns``: whether new objects alternate with those that are due; not during a walk.
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
        return number

    @property
    def next_due(self) -> int:
        """The time at which `take` may have something to return."""
        first = min(map(self._due, (self._soon, *self._lanes.values())))
        return min(first, self._later[0][0]) if self._later else first

    def _ticket(self, number: int) -> int:
        self._last_ticket += 1
        self._tickets[number] = self._last_ticket
        return self._last_ticket

    def _due(self, lane: _Lane) -> int:
        """Return when the first object of a lane is due, without those that wait there no more."""
        entries = lane.entries
        while entries:
            due, ticket, number = entries[0]
            if self._tickets.get(number) == ticket:
                return due
            entries.popleft()
        return NEVER


class Readings:
    """When the objects of each class were read last, and until when that is current. Times are nanoseconds.

    The planned interval of a class is the configured one, or what the budget makes of it for so many objects.
    The gateway's own slowness makes it no longer: of each class the fastest answer counts.

    Args:
        config: the intervals, the budget, and the bounds of both.

    Attributes:
        has_news: whether an object was read since `current_until` was called.
    """

    def __init__(self, config: ConsoleConfig) -> None:
        self._config = config
        self.has_news = False
        self._read: dict[int, tuple[str, int]] = {}
        self._oldest: dict[str, list[tuple[int, int]]] = {}  # heaps, also with times that were replaced
        self._counts: Counter[str] = Counter()
        self._costs: dict[str, float] = {}

    def read(self, number: int, class_name: str, sent: int) -> None:
        """Note an object that was read by a request of ``sent``."""
        self.drop(number)
        self.has_news = True
        self._read[number] = class_name, sent
        self._counts[class_name] += 1
        heapq.heappush(self._oldest.setdefault(class_name, []), (sent, number))

    def drop(self, number: int) -> None:
        """Forget an object that has ended, or is not shown."""
        if (known := self._read.pop(number, None)) is not None:
            self._counts[known[0]] -= 1

    def answered(self, class_name: str, latency: int, alongside: int) -> None:
        """Note what an answer may have cost the broker, as `Pace.answered`."""
        each = max(latency, 0) / alongside
        self._costs[class_name] = min(each, self._costs.get(class_name, each))

    @property
    def stretch(self) -> float:
        """The factor by which the budget makes intervals longer; 1 where it suffices."""
        requests, share = 0.0, 0.0
        for name, count in self._counts.items():
            often = count / max(1, self._config.intervals.of(name))
            requests += often * SECOND
            share += often * self._costs.get(name, 0.0)
        budget = self._config.budget
        return max(1.0, requests / max(budget.rate, _LEAST), share / max(budget.share, _LEAST))

    def current_until(self) -> dict[str, int]:
        """Return until when all objects of each class are current, by its name."""
        self.has_news = False
        stretch, config = self.stretch, self._config
        until: dict[str, int] = {}
        for name, times in self._oldest.items():
            while times and self._read.get(times[0][1]) != (name, times[0][0]):
                heapq.heappop(times)
            if times:
                interval = config.intervals.of(name)
                planned = max(interval, min(int(interval * stretch), config.longest_interval))
                until[name] = current_until(times[0][0], planned, config.stale_after)
        return until


_BURST: Final = 0.1
"""Seconds whose requests may be sent at once."""
_LONGEST_DEBT: Final = 1.0
"""Seconds: the most that a slow answer costs."""
_LEAST: Final = 0.001
_SLOWER: Final = 4
"""The ratio to the fastest answers from which on answers show that the broker is busy."""
_SLACK: Final = 1_000_000
"""Nanoseconds of latency that never count as slow."""


class Pace:
    """Limits requests. Times are nanoseconds.

    Args:
        budget: the limits.
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
        """Permit only one request in flight from now on."""
        self._longest_window = 1
        self._window = 1.0

    def may_ask(self, now: int) -> bool:
        """Return whether a request may be sent now."""
        self._refill(now)
        has_time = self._time > 0 or self._share >= 1
        return has_time and self.in_flight < int(self._window) and self._requests >= 1

    def asked(self) -> int:
        """Count a request that was sent; return how many are in flight with it."""
        self.charge()
        self.in_flight += 1
        return self.in_flight

    def charge(self) -> None:
        """Count an operation that was sent: it does not wait for its turn, but later requests do."""
        self._requests = max(self._requests - 1, -self._most_requests)

    def answered(self, latency: int, alongside: int) -> None:
        """Count an answer after ``latency`` nanoseconds, to a request that was sent as one of ``alongside``.

        Requests in flight at the same time share the broker's time.
        """
        self.in_flight -= 1
        each = max(latency, 0) / alongside
        self._time = max(self._time - each / SECOND, -_LONGEST_DEBT)
        self._usual = self._usual + (each - self._usual) / 16 if self._usual else each
        # The fastest latency is forgotten slowly: it need not be possible for ever.
        self._quickest = min(each, self._quickest * 1.001) if self._quickest else each
        if self._usual > _SLOWER * self._quickest + _SLACK:
            self._window = max(1.0, self._window * 0.9)
        else:
            self._window = min(self._longest_window, self._window + 1 / self._window)

    def missed(self) -> None:
        """Count a missing answer: the broker is overloaded, or gone."""
        self.in_flight -= 1
        self._window = 1.0

    def next_time(self, now: int) -> int:
        """Return when `may_ask` is true without further answers; `NEVER` where one is needed first."""
        if self.in_flight >= int(self._window):
            return NEVER
        missing = max((1 - self._requests) / self._rate, -self._time / self._share, 0.0)
        return now + int(missing * SECOND) + 1

    def _refill(self, now: int) -> None:
        # A clock that was set back adds nothing.
        passed = max(0, now - self._at) / SECOND
        self._at = now
        self._requests = min(self._requests + passed * self._rate, self._most_requests)
        self._time = min(self._time + passed * self._share, self._share * _LONGEST_DEBT)
