"""How notifications reach one receiver: traps are sent once, informs until they are answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.model.events import Severity
from gateway.snmp.notifications.rate_limit import RateLimit
from gateway.snmp.notifications.selection import Condition
from gateway.snmp.notifications.waiting import MAX_WAITING, Waiting, WaitingQueue

_SECOND: Final = 10**9
TRIES: Final = 5
"""How often an inform is sent before its receiver counts as silent."""

FIRST_PATIENCE: Final = _SECOND
"""Nanoseconds to wait for the first answer; doubled after each try: 1, 2, 4, 8, 16 s."""

PROBE_INTERVAL: Final = 15 * _SECOND
"""Nanoseconds between two informs to a silent receiver."""

WINDOW: Final = 16
"""Informs to one receiver that wait for their answers at the same time."""


class Delivery(Protocol):
    """What is on its way to one receiver."""

    @property
    def answering(self) -> bool:
        """Whether the receiver answers, as far as anybody knows. One of traps never does."""

    @property
    def can_be_told(self) -> bool:
        """Whether what is sent now is likely to arrive."""

    def __len__(self) -> int: ...

    def add(self, waiting: Waiting) -> Waiting | None:
        """Take one in; what had to make room for it is returned, and lost. That may be itself."""

    def next(self, now: int) -> Waiting | None:
        """What should be sent now."""

    def sent(self, waiting: Waiting, now: int) -> bool:
        """What `next` gave was sent, or tried to; whether that was the first time."""

    def due(self, now: int) -> int | None:
        """When `next` may have something; ``None`` if that takes an answer or another notification."""

    def answered(self, request_id: int, now: int) -> Waiting | None:
        """The receiver answered; what it answered, or ``None`` if it was not asked."""

    def unfinished(self) -> tuple[Waiting, ...]:
        """What must be sent after a restart of the process, in the order of events."""

    def lost_at_an_end(self) -> tuple[Waiting, ...]:
        """What the receiver will never get if the process ends now, in the order of events."""


class TrapDelivery:
    """Each is sent once."""

    answering = False

    def __init__(self) -> None:
        self._queue = WaitingQueue()

    @property
    def can_be_told(self) -> bool:
        """See `Delivery.can_be_told`."""
        return len(self) < MAX_WAITING

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, waiting: Waiting) -> Waiting | None:
        """See `Delivery.add`."""
        self._queue.add(waiting)
        return _dropped(self._queue, len(self._queue))

    def next(self, now: int) -> Waiting | None:  # noqa: ARG002  as `Delivery` has it
        """See `Delivery.next`."""
        return self._queue.first()

    def sent(self, waiting: Waiting, now: int) -> bool:  # noqa: ARG002  as `Delivery` has it
        """See `Delivery.sent`."""
        self._queue.remove(waiting.number)
        return True

    def due(self, now: int) -> int | None:
        """See `Delivery.due`."""
        return now if self._queue else None

    def answered(self, request_id: int, now: int) -> Waiting | None:  # noqa: ARG002  as `Delivery` has it
        """A trap is not answered."""
        return None

    def unfinished(self) -> tuple[Waiting, ...]:
        """Nothing: a trap waits for milliseconds."""
        return ()

    def lost_at_an_end(self) -> tuple[Waiting, ...]:
        """See `Delivery.lost_at_an_end`."""
        return tuple(sorted(self._queue, key=lambda waiting: waiting.number))


@dataclass(slots=True)
class _Unanswered:
    waiting: Waiting
    tries: int
    due: int


class InformDelivery:
    """Each is sent until it is answered.

    The receiver is *answering* or *silent*::

        answering  an inform was sent `TRIES` times without an answer  -> silent
        silent     any answer                                          -> answering

    To one that answers up to `WINDOW` informs are under way, each sent again after `FIRST_PATIENCE` and
    doubled pauses; to a silent one only the first in the queue, every `PROBE_INTERVAL`, until it answers.
    None is ever given up but for want of room. Two informs of one condition are never under way together:
    a lost beginning must not arrive after its end.

    Args:
        rate: sendings a second, of first and further tries.
        now: monotonic nanoseconds.
        restored: what was unfinished when the process ended.
    """

    def __init__(self, rate: int, now: int, restored: Iterable[Waiting] = ()) -> None:
        self._pace = RateLimit(rate, now)
        self._queue = WaitingQueue()
        for waiting in restored:
            self._queue.add(waiting)
        self._unanswered: dict[int, _Unanswered] = {}
        self._under_way: set[Condition] = set()
        self._held: dict[Condition, deque[Waiting]] = {}
        self._back_in_queue: dict[int, Waiting] = {}
        self._answering = True

    @property
    def answering(self) -> bool:
        """See `Delivery.answering`."""
        return self._answering

    @property
    def can_be_told(self) -> bool:
        """See `Delivery.can_be_told`."""
        return self._answering and all(each.tries == 1 for each in self._unanswered.values())

    def __len__(self) -> int:
        return len(self._queue) + len(self._unanswered) + sum(map(len, self._held.values()))

    def add(self, waiting: Waiting) -> Waiting | None:
        """See `Delivery.add`."""
        self._queue.add(waiting)
        dropped = _dropped(self._queue, len(self))
        if dropped is not None:
            self._back_in_queue.pop(dropped.request_id, None)
        return dropped

    def next(self, now: int) -> Waiting | None:
        """See `Delivery.next`."""
        overdue = self._overdue(now)
        if overdue is not None and (overdue.tries >= TRIES or not self._answering):
            self._fall_silent()
            overdue = None
        if not self._pace.allows(Severity.CRITICAL, now):
            return None
        if overdue is not None:
            return overdue.waiting
        return self._first_sendable() if self._has_room() else None

    def sent(self, waiting: Waiting, now: int) -> bool:
        """See `Delivery.sent`."""
        self._pace.take_anyway(now)
        unanswered = self._unanswered.get(waiting.request_id)
        if unanswered is not None:
            unanswered.due = now + (FIRST_PATIENCE << unanswered.tries)
            unanswered.tries += 1
            return False
        self._queue.remove(waiting.number)
        if waiting.condition is not None:
            self._under_way.add(waiting.condition)
        patience = FIRST_PATIENCE if self._answering else PROBE_INTERVAL
        self._unanswered[waiting.request_id] = _Unanswered(waiting, 1, now + patience)
        return self._back_in_queue.pop(waiting.request_id, None) is None

    def due(self, now: int) -> int | None:
        """See `Delivery.due`."""
        dues = [unanswered.due for unanswered in self._unanswered.values()]
        if self._has_room() and self._first_sendable() is not None:
            dues.append(now)
        return max(min(dues), self._pace.allowed_at(Severity.CRITICAL, now)) if dues else None

    def answered(self, request_id: int, now: int) -> Waiting | None:  # noqa: ARG002  as `Delivery` has it
        """See `Delivery.answered`."""
        waiting = self._finished(request_id)
        if waiting is not None:
            self._answering = True
        return waiting

    def unfinished(self) -> tuple[Waiting, ...]:
        """See `Delivery.unfinished`."""
        waiting = [*self._queue, *(unanswered.waiting for unanswered in self._unanswered.values())]
        waiting += [held for queue in self._held.values() for held in queue]
        return tuple(sorted(waiting, key=lambda each: each.number))

    def lost_at_an_end(self) -> tuple[Waiting, ...]:
        """Nothing: informs outlive the process."""
        return ()

    def _finished(self, request_id: int) -> Waiting | None:
        unanswered = self._unanswered.pop(request_id, None)
        if unanswered is None:
            # An answer that was late, or that a receiver which was down for a while still had to give.
            waiting = self._back_in_queue.pop(request_id, None)
            if waiting is not None:
                self._queue.remove(waiting.number)
            return waiting
        condition = unanswered.waiting.condition
        if condition is not None:
            self._under_way.discard(condition)
            if held := self._held.get(condition):
                self._queue.add(held.popleft())
                if not held:
                    del self._held[condition]
        return unanswered.waiting

    def _overdue(self, now: int) -> _Unanswered | None:
        first = min(self._unanswered.values(), key=lambda unanswered: unanswered.due, default=None)
        return first if first is not None and first.due <= now else None

    def _has_room(self) -> bool:
        return len(self._unanswered) < (WINDOW if self._answering else 1)

    def _first_sendable(self) -> Waiting | None:
        """The first in the queue that no other of the same condition is under way to the receiver before."""
        while (first := self._queue.first()) is not None:
            if first.condition not in self._under_way:
                return first
            assert first.condition is not None
            self._queue.remove(first.number)
            self._held.setdefault(first.condition, deque()).append(first)
        return None

    def _fall_silent(self) -> None:
        """Everything under way goes back into the queue, but an answer to it still counts."""
        self._answering = False
        for request_id, unanswered in self._unanswered.items():
            self._queue.add(unanswered.waiting)
            self._back_in_queue[request_id] = unanswered.waiting
        for held in self._held.values():
            for waiting in held:
                self._queue.add(waiting)
        self._unanswered.clear()
        self._held.clear()
        self._under_way.clear()


def _dropped(queue: WaitingQueue, length: int) -> Waiting | None:
    """What has to go so that no more than `MAX_WAITING` wait."""
    least = queue.least() if length > MAX_WAITING else None
    if least is not None:
        queue.remove(least.number)
    return least
