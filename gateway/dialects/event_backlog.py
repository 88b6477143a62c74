"""Events that wait until they can be published: a bounded number, for a bounded time. Without I/O."""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gateway.model.observations import Severity
from gateway.model.times import SECOND

MAX_WAITING = 5_000
MAX_AGE = 900 * SECOND
"""Nanoseconds. Older events are useless; conditions that last are values of their objects, too."""

EventT = TypeVar("EventT")


@dataclass(frozen=True, slots=True, order=True)
class WaitingEvent(Generic[EventT]):
    """An event; ``number`` is its position in the order of arrival, ``time`` is its own (ns).

    ``identity`` distinguishes it from every other event, also when the link returns it.
    """

    number: int
    time: int = field(compare=False)
    severity: Severity = field(compare=False)
    identity: str = field(compare=False)
    event: EventT = field(compare=False)


@dataclass(frozen=True, slots=True)
class Loss:
    """A number of events that will never be published; the times (ns) of the first and the last one."""

    count: int
    first: int
    last: int


class EventBacklog(Generic[EventT]):
    """Keeps events in order. If there is no room, the oldest of the lowest severity is lost.

    Args:
        limit: events that are kept; as many of those taken lately are kept for the case that the link returns
            them.
    """

    def __init__(self, limit: int = MAX_WAITING) -> None:
        self._limit = limit
        self._waiting: dict[Severity, deque[WaitingEvent[EventT]]] = {
            severity: deque() for severity in Severity
        }
        self._taken: OrderedDict[str, WaitingEvent[EventT]] = OrderedDict()
        self._count = 0
        self._number = 0
        self._lost: list[int] = []

    def __len__(self) -> int:
        return self._count

    def add(self, event: EventT, identity: str, time: int, severity: Severity) -> None:
        """Keep an event that happened at ``time`` (ns)."""
        self._number += 1
        self._waiting[severity].append(WaitingEvent(self._number, time, severity, identity, event))
        self._count += 1
        if self._count > self._limit:
            self._lose(next(queue for queue in self._waiting.values() if queue).popleft())

    def give_back(self, identities: Iterable[str]) -> None:
        """Put events back in their old positions, because the link could not send them."""
        returned = [self._taken.pop(identity, None) for identity in identities]
        for waiting in sorted((one for one in returned if one is not None), reverse=True):
            self._waiting[waiting.severity].appendleft(waiting)
            self._count += 1
        while self._count > self._limit:
            self._lose(next(queue for queue in self._waiting.values() if queue).popleft())

    def take(self, now: int) -> list[EventT]:
        """Return all waiting events in order, except those that are too old at ``now``."""
        waited = list(heapq.merge(*self._waiting.values()))
        for queue in self._waiting.values():
            queue.clear()
        self._count = 0
        events = []
        for waiting in waited:
            if waiting.time < now - MAX_AGE:
                self._count += 1
                self._lose(waiting)
                continue
            self._taken[waiting.identity] = waiting
            events.append(waiting.event)
        while len(self._taken) > self._limit:
            self._taken.popitem(last=False)
        return events

    def forget_before(self, time: int) -> None:
        """Forget events from before ``time`` (ns), which another agent has published."""
        for severity, queue in self._waiting.items():
            self._waiting[severity] = deque(event for event in queue if event.time >= time)
        self._count = sum(map(len, self._waiting.values()))
        self._lost = []

    def take_loss(self) -> Loss | None:
        """Return the loss since the last call; ``None`` where nothing was lost."""
        if not self._lost:
            return None
        lost, self._lost = self._lost, []
        return Loss(lost[0], lost[1], lost[2])

    def _lose(self, event: WaitingEvent[EventT]) -> None:
        self._count -= 1
        count, first, last = self._lost or (0, event.time, event.time)
        self._lost = [count + 1, min(first, event.time), max(last, event.time)]
