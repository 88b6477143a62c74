"""Events that wait until consoles can be told of them: a bounded number, for a bounded time. Without I/O."""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.dialects.effects import Send
from gateway.model.events import Severity

SECOND = 1_000_000_000
MAX_WAITING = 5_000
MAX_AGE = 900 * SECOND
"""Nanoseconds. Older news helps nobody any more; conditions that last are told by their objects."""


@dataclass(frozen=True, slots=True, order=True)
class WaitingEvent:
    """An event in encoded form; ``number`` gives the order in which events came, ``time`` is its own (ns)."""

    number: int
    time: int = field(compare=False)
    severity: Severity = field(compare=False)
    message: Send = field(compare=False)


@dataclass(frozen=True, slots=True)
class Loss:
    """So many events will never be told; the times (ns) of the first and the last of them."""

    count: int
    first: int
    last: int


class EventBacklog:
    """Keeps events in order. Where there is no room, the oldest of the lowest severity is lost.

    Args:
        limit: events kept, and as many of those told lately, in case the link gives them back.
    """

    def __init__(self, limit: int = MAX_WAITING) -> None:
        self._limit = limit
        self._waiting: dict[Severity, deque[WaitingEvent]] = {severity: deque() for severity in Severity}
        self._told: OrderedDict[str, WaitingEvent] = OrderedDict()
        self._count = 0
        self._number = 0
        self._lost: list[int] = []

    def __len__(self) -> int:
        return self._count

    def add(self, message: Send, time: int, severity: Severity) -> None:
        """Keep an event; its message has an id."""
        self._number += 1
        self._waiting[severity].append(WaitingEvent(self._number, time, severity, message))
        self._count += 1
        if self._count > self._limit:
            self._lose(next(queue for queue in self._waiting.values() if queue).popleft())

    def give_back(self, messages: Iterable[Send]) -> None:
        """The link could not send these: they wait again, in their old places."""
        returned = [self._told.pop(message.message_id, None) for message in messages]
        for event in sorted((event for event in returned if event is not None), reverse=True):
            self._waiting[event.severity].appendleft(event)
            self._count += 1
        while self._count > self._limit:
            self._lose(next(queue for queue in self._waiting.values() if queue).popleft())

    def take(self, now: int) -> list[Send]:
        """All that wait, in order, but those too old at ``now``."""
        events = list(heapq.merge(*self._waiting.values()))
        for queue in self._waiting.values():
            queue.clear()
        self._count = 0
        messages = []
        for event in events:
            if event.time < now - MAX_AGE:
                self._count += 1
                self._lose(event)
                continue
            self._told[event.message.message_id] = event
            messages.append(event.message)
        while len(self._told) > self._limit:
            self._told.popitem(last=False)
        return messages

    def forget_before(self, time: int) -> None:
        """Somebody else has told what happened before ``time`` (ns)."""
        for severity, queue in self._waiting.items():
            self._waiting[severity] = deque(event for event in queue if event.time >= time)
        self._count = sum(map(len, self._waiting.values()))
        self._lost = []

    def take_loss(self) -> Loss | None:
        """What was lost since this was last asked."""
        if not self._lost:
            return None
        lost, self._lost = self._lost, []
        return Loss(lost[0], lost[1], lost[2])

    def _lose(self, event: WaitingEvent) -> None:
        self._count -= 1
        count, first, last = self._lost or (0, event.time, event.time)
        self._lost = [count + 1, min(first, event.time), max(last, event.time)]
