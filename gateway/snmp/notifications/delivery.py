"""The delivery to one receiver: a queue by urgency, traps sent once, informs until they are answered."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from gateway.model.observations import Severity
from gateway.model.times import SECOND
from gateway.snmp.notifications.encoding import Version1Fields
from gateway.snmp.notifications.notification import Condition, Notification

SMALLEST_BURST: Final = 4
"""The minimum capacity of a bucket, in tokens, so that there is one to reserve for each degree of urgency."""

_KEPT: Final = {
    # The share of a full bucket that is kept for what is more urgent, and the least number of tokens.
    Severity.INFO: (1 / 2, 3),
    Severity.WARNING: (1 / 4, 2),
    Severity.MINOR: (1 / 4, 2),
    Severity.MAJOR: (1 / 8, 1),
    Severity.CRITICAL: (0, 0),
}


class RateLimit:
    """A token bucket: it passes ``rate`` a second, and as many at once if full (at least `SMALLEST_BURST`).

    A flood of one severity leaves tokens for every higher one: half of the bucket is never spent on `INFO`, a
    quarter never on `WARNING` or `MINOR`, an eighth never on `MAJOR`. Tokens that are refilled during a flood
    go to any notification that may take them, so the whole rate is used whatever the severity.

    Args:
        rate: tokens a second.
        now: monotonic nanoseconds.
    """

    def __init__(self, rate: int, now: int) -> None:
        capacity = max(rate, SMALLEST_BURST)
        # In units of a token's billionth: a nanosecond refills `rate` of them, exactly.
        self._rate = rate
        self._capacity = capacity * SECOND
        self._level = self._capacity
        self._needed = {
            severity: (1 + max(int(share * capacity), least)) * SECOND
            for severity, (share, least) in _KEPT.items()
        }
        # The end of a condition that was not raised at this receiver; other ends pass anyway.
        self._needed[Severity.CLEARED] = self._needed[Severity.INFO]
        self._filled = now

    def take(self, urgency: Severity, now: int) -> bool:
        """Return whether a notification of this urgency may pass; it takes a token then."""
        if not self.allows(urgency, now):
            return False
        self._level -= SECOND
        return True

    def take_anyway(self, now: int) -> None:
        """Take a token, if there is one, for a notification that passes in any case."""
        self._refill(now)
        self._level = max(0, self._level - SECOND)

    def allows(self, urgency: Severity, now: int) -> bool:
        """Return whether a notification of this urgency could pass now."""
        self._refill(now)
        return self._level >= self._needed[urgency]

    def allowed_at(self, urgency: Severity, now: int) -> int:
        """Return when one of this urgency can pass if no other does before; monotonic nanoseconds."""
        self._refill(now)
        missing = max(0, self._needed[urgency] - self._level)
        return now - (-missing // self._rate)

    def _refill(self, now: int) -> None:
        elapsed = now - self._filled
        if elapsed <= 0:
            return
        self._filled = now
        self._level = min(self._capacity, self._level + elapsed * self._rate)


MAX_WAITING: Final = 2_000
"""The maximum number of notifications that wait for one receiver."""


class Waiting(NamedTuple):
    """A notification on its way to one receiver.

    Attributes:
        number: ascending in the order of events.
        urgency: the most urgent is sent first, the least urgent makes room for others.
        name: ``package:event``.
        condition: the condition that it begins or ends.
        request_id: the request id of its PDU, the same in each retransmission.
        content: its variable bindings in the form of the receiver's SNMP version.
        ends: whether it ends its condition.
        form: what it was made of; ``None`` where the last process made it.
        event_id: the id of its event.
    """

    number: int
    urgency: Severity
    name: str
    condition: Condition | None
    request_id: int
    content: bytes | Version1Fields
    ends: bool = False
    form: Notification | None = None
    event_id: str = ""


Revise: TypeAlias = Callable[[Waiting], Waiting | None]
"""Returns what is sent in the place of a notification that waits, of its number; ``None`` for nothing."""


class WaitingQueue:
    """A queue by urgency, then in the order of events; those of one condition stay in the order of events.

    An urgent beginning must neither wait behind a less urgent end of the same condition nor overtake it, so
    those of the condition before it become as urgent. The queue has no bound: the caller of `add` checks its
    length.
    """

    def __init__(self) -> None:
        self._order: list[tuple[int, int]] = []  # urgency negated, number
        self._waiting: dict[int, Waiting] = {}
        self._numbers: dict[Condition, list[int]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting.values())

    def add(self, waiting: Waiting) -> None:
        """Add a notification at its place; one that comes back gets its former place."""
        if waiting.condition is not None:
            # An end must not overtake a beginning that waits: it takes the urgency of those behind it, and
            # gives its own to those before. So none of them is more urgent than the one before it.
            numbers = self._numbers.setdefault(waiting.condition, [])
            place = bisect.bisect(numbers, waiting.number)
            if place < len(numbers):
                urgency = max(waiting.urgency, self._waiting[numbers[place]].urgency)
                waiting = waiting._replace(urgency=urgency)
            for number in reversed(numbers[:place]):
                if self._waiting[number].urgency >= waiting.urgency:
                    break
                self._make_urgent(self._waiting[number], waiting.urgency)
            numbers.insert(place, waiting.number)
        self._insert(waiting)

    def first(self) -> Waiting | None:
        """Return the oldest of the most urgent notifications, if any."""
        return self._waiting[self._order[0][1]] if self._order else None

    def least(self) -> Waiting | None:
        """Return the oldest of the least urgent notifications, if any."""
        if not self._order:
            return None
        # Numbers begin at 1, so this is before the first of that urgency.
        place = bisect.bisect_left(self._order, (self._order[-1][0], 0))
        return self._waiting[self._order[place][1]]

    def first_of(self, condition: Condition) -> Waiting | None:
        """Return the oldest notification of a condition, if any."""
        numbers = self._numbers.get(condition)
        return None if numbers is None else self._waiting[numbers[0]]

    def has_behind(self, waiting: Waiting) -> bool:
        """Return whether a later notification of the same condition is in the queue."""
        if waiting.condition is None:
            return False
        numbers = self._numbers.get(waiting.condition)
        return numbers is not None and numbers[-1] > waiting.number

    def remove(self, number: int) -> Waiting:
        """Remove and return the notification of this number, which must be in the queue."""
        waiting = self._waiting[number]
        self._take_out(waiting)
        if waiting.condition is not None:
            numbers = self._numbers[waiting.condition]
            numbers.remove(number)
            if not numbers:
                del self._numbers[waiting.condition]
        return waiting

    def revise(self, revised: Revise) -> list[Waiting]:
        """Replace or remove notifications; return those that were removed."""
        removed = []
        for waiting in tuple(self._waiting.values()):
            kept = revised(waiting)
            if kept is None:
                self.remove(waiting.number)
                removed.append(waiting)
            else:
                self._waiting[waiting.number] = kept
        return removed

    def _make_urgent(self, waiting: Waiting, urgency: Severity) -> None:
        self._take_out(waiting)
        self._insert(waiting._replace(urgency=urgency))

    def _insert(self, waiting: Waiting) -> None:
        bisect.insort(self._order, (-waiting.urgency, waiting.number))
        self._waiting[waiting.number] = waiting

    def _take_out(self, waiting: Waiting) -> None:
        del self._order[bisect.bisect_left(self._order, (-waiting.urgency, waiting.number))]
        del self._waiting[waiting.number]


TRIES: Final = 5
"""The number of times that an inform is sent before its receiver counts as silent."""

FIRST_PATIENCE: Final = SECOND
"""Nanoseconds to wait for the first answer; doubled after each try: 1, 2, 4, 8, 16 s."""

PROBE_INTERVAL: Final = 15 * SECOND
"""Nanoseconds between two informs to a silent receiver."""

WINDOW: Final = 16
"""The maximum number of unanswered informs to one receiver, unless the configuration has another."""


class Dropped(msgspec.Struct, frozen=True):
    """A notification that is not sent any more.

    Attributes:
        waiting: the notification.
        perhaps_sent: the receiver may have got it.
        is_last: no later one of its condition waits, as far as is known.
    """

    waiting: Waiting
    perhaps_sent: bool
    is_last: bool = True


class Delivery(Protocol):
    """The notifications that are on their way to one receiver."""

    @property
    def is_reachable(self) -> bool:
        """Whether a notification that is sent now is likely to arrive."""

    def __len__(self) -> int: ...

    def add(self, waiting: Waiting) -> Dropped | None:
        """Add a notification. Return the one that was dropped to make room, if any; it may be the same."""

    def next(self, now: int) -> Waiting | None:
        """Return the notification to send now, if any."""

    def sent(self, waiting: Waiting, now: int) -> bool:
        """Record that the notification from `next` was sent, or tried; return whether for the first time."""

    def due(self, now: int) -> int | None:
        """Return when `next` may have one; ``None`` if that requires an answer or another notification."""

    def spare_at(self, now: int) -> int | None:
        """Return when something late would delay nothing that happens then; ``None`` as for `due`."""

    def answered(self, request_id: int, now: int) -> Waiting | None:
        """Take an answer of the receiver; return the notification that it answers, if any."""

    def __contains__(self, request_id: object) -> bool:
        """Return whether an answer to this request id is awaited."""

    def resend(self, request_id: int, now: int) -> None:
        """Send an inform again at once: the receiver could not read what was sent."""

    def hasten(self, now: int) -> None:
        """Send all informs without an answer again at once: the receiver is at another address."""

    def revise(self, revised: Revise) -> list[Dropped]:
        """Replace or drop notifications that were not delivered yet; return those that were dropped."""

    def unfinished(self) -> tuple[Waiting, ...]:
        """Return the notifications to send after a restart of the process, in the order of events."""

    def lost_at_an_end(self) -> tuple[Waiting, ...]:
        """Return the notifications that are lost if the process ends now, in the order of events."""


class TrapDelivery:
    """The delivery of traps: each is sent once."""

    def __init__(self) -> None:
        self._queue = WaitingQueue()

    @property
    def is_reachable(self) -> bool:
        """See `Delivery.is_reachable`."""
        return len(self) < MAX_WAITING

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, waiting: Waiting) -> Dropped | None:
        """See `Delivery.add`."""
        self._queue.add(waiting)
        dropped = _dropped(len(self._queue), self._queue)
        if dropped is None:
            return None
        return Dropped(dropped, perhaps_sent=False, is_last=not self._queue.has_behind(dropped))

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

    def spare_at(self, now: int) -> int | None:
        """See `Delivery.spare_at`."""
        return None if self._queue else now

    def answered(self, request_id: int, now: int) -> Waiting | None:  # noqa: ARG002  as `Delivery` has it
        """Return ``None``: a trap is not answered."""
        return None

    def __contains__(self, request_id: object) -> bool:
        return False

    def resend(self, request_id: int, now: int) -> None:
        """Do nothing: a trap is not answered."""

    def hasten(self, now: int) -> None:
        """Do nothing: a trap is not answered."""

    def revise(self, revised: Revise) -> list[Dropped]:
        """See `Delivery.revise`."""
        return [Dropped(waiting, perhaps_sent=False) for waiting in self._queue.revise(revised)]

    def unfinished(self) -> tuple[Waiting, ...]:
        """Return nothing: a trap waits for milliseconds."""
        return ()

    def lost_at_an_end(self) -> tuple[Waiting, ...]:
        """See `Delivery.lost_at_an_end`."""
        return tuple(sorted(self._queue, key=lambda waiting: waiting.number))


class _Unanswered(msgspec.Struct):
    waiting: Waiting
    tries: int
    due: int


class InformDelivery:
    """The delivery of informs: each is sent until it is answered.

    The receiver is *answering* or *silent*::

        answering  an inform was sent `TRIES` times without an answer  -> silent
        silent     any answer                                          -> answering

    To a receiver that answers, up to ``window`` informs are under way, each sent again after `FIRST_PATIENCE`
    and doubled pauses; to a silent one only the first in the queue, every `PROBE_INTERVAL`, until it answers.
    An inform is dropped only for lack of room. Two informs of one condition are never under way together: a
    lost beginning must not arrive after its end.

    Args:
        rate: transmissions a second, of first and further tries.
        now: monotonic nanoseconds.
        restored: the informs that the last process left unfinished.
        window: the maximum number of informs without an answer.
    """

    def __init__(self, rate: int, now: int, restored: Iterable[Waiting] = (), window: int = WINDOW) -> None:
        self._window = window
        self._pace = RateLimit(rate, now)
        self._queue = WaitingQueue()
        self._restored: set[int] = set()
        for waiting in restored:
            self._queue.add(waiting)
            self._restored.add(waiting.request_id)
        self._unanswered: dict[int, _Unanswered] = {}
        # A heap of when each is due, with its number and its request id. What was answered, or got another
        # time, stays until it is the first: a window may have many informs, and each is looked at once.
        self._dues: list[tuple[int, int, int]] = []
        self._under_way: set[Condition] = set()
        self._held = WaitingQueue()  # one of the same condition is under way
        self._back_in_queue: dict[int, Waiting] = {}
        self._answering = True

    @property
    def is_reachable(self) -> bool:
        """See `Delivery.is_reachable`."""
        return self._answering and all(each.tries == 1 for each in self._unanswered.values())

    def __len__(self) -> int:
        return len(self._queue) + len(self._unanswered) + len(self._held)

    def add(self, waiting: Waiting) -> Dropped | None:
        """See `Delivery.add`."""
        self._queue.add(waiting)
        dropped = _dropped(len(self), self._queue, self._held)
        if dropped is None:
            return None
        came_back = self._back_in_queue.pop(dropped.request_id, None) is not None
        # The last process may have sent those that it left.
        perhaps_sent = came_back or dropped.request_id in self._restored
        is_last = not (self._queue.has_behind(dropped) or self._held.has_behind(dropped))
        return Dropped(dropped, perhaps_sent, is_last)

    def next(self, now: int) -> Waiting | None:
        """See `Delivery.next`."""
        overdue = self._overdue(now)
        # A probe that was not answered goes back as well, so that the next one is whatever is the most urgent
        # then.
        if overdue is not None and (overdue.tries >= TRIES or not self._answering):
            self._fall_silent()
            overdue = None
        # The queue is in the order of urgency already: no tokens are kept back for what is more urgent.
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
            self._set_due(unanswered, now + (FIRST_PATIENCE << unanswered.tries))
            unanswered.tries += 1
            return False
        self._queue.remove(waiting.number)
        if waiting.condition is not None:
            self._under_way.add(waiting.condition)
        patience = FIRST_PATIENCE if self._answering else PROBE_INTERVAL
        unanswered = self._unanswered[waiting.request_id] = _Unanswered(waiting, 1, 0)
        self._set_due(unanswered, now + patience)
        # What came back into the queue was counted when it was first sent.
        return self._back_in_queue.pop(waiting.request_id, None) is None

    def due(self, now: int) -> int | None:
        """See `Delivery.due`."""
        first = self._first_due()
        due = None if first is None else first.due
        if self._has_room() and self._first_sendable() is not None:
            due = now if due is None else min(due, now)
        return None if due is None else max(due, self._pace.allowed_at(Severity.CRITICAL, now))

    def spare_at(self, now: int) -> int | None:
        """See `Delivery.spare_at`: half of the window, and of what the rate lets pass at once, is kept."""
        if self._queue or len(self) >= max(1, self._window // 2):
            return None
        return self._pace.allowed_at(Severity.INFO, now)

    def answered(self, request_id: int, now: int) -> Waiting | None:  # noqa: ARG002  as `Delivery` has it
        """See `Delivery.answered`."""
        waiting = self._finished(request_id)
        if waiting is not None:
            self._answering = True
        return waiting

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._unanswered or request_id in self._back_in_queue

    def resend(self, request_id: int, now: int) -> None:
        """See `Delivery.resend`. It does not count as a try, and the rate limits it."""
        unanswered = self._unanswered.get(request_id)
        if unanswered is not None:
            self._set_due(unanswered, now)
            unanswered.tries = max(0, unanswered.tries - 1)  # a report may arrive twice

    def hasten(self, now: int) -> None:
        """See `Delivery.hasten`. The tries go on counting, and the rate limits them."""
        for unanswered in self._unanswered.values():
            # A name with two dead addresses leads to the other one every few seconds: with tries that count
            # from the beginning each time, such a receiver would never be silent.
            self._set_due(unanswered, now)

    def revise(self, revised: Revise) -> list[Dropped]:
        """See `Delivery.revise`."""
        dropped = [*self._held.revise(revised), *self._queue.revise(revised)]
        perhaps_sent = {*self._restored, *self._back_in_queue, *self._unanswered}
        for waiting in dropped:
            self._back_in_queue.pop(waiting.request_id, None)
        for request_id, unanswered in tuple(self._unanswered.items()):
            kept = revised(unanswered.waiting)
            if kept is None:
                dropped.append(unanswered.waiting)
                self._finished(request_id)
            else:
                unanswered.waiting = kept
        return [Dropped(waiting, waiting.request_id in perhaps_sent) for waiting in dropped]

    def unfinished(self) -> tuple[Waiting, ...]:
        """See `Delivery.unfinished`."""
        under_way = (unanswered.waiting for unanswered in self._unanswered.values())
        return tuple(sorted((*self._queue, *self._held, *under_way), key=lambda each: each.number))

    def lost_at_an_end(self) -> tuple[Waiting, ...]:
        """Return nothing: informs outlive the process."""
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
            held = self._held.first_of(condition)
            if held is not None:
                # Only the next one of this condition: the others wait for its answer in turn.
                self._held.remove(held.number)
                self._queue.add(held)
        return unanswered.waiting

    def _overdue(self, now: int) -> _Unanswered | None:
        first = self._first_due()
        return first if first is not None and first.due <= now else None

    def _first_due(self) -> _Unanswered | None:
        dues = self._dues
        while dues:
            due, _, request_id = dues[0]
            unanswered = self._unanswered.get(request_id)
            if unanswered is not None and unanswered.due == due:
                return unanswered
            heapq.heappop(dues)
        return None

    def _set_due(self, unanswered: _Unanswered, due: int) -> None:
        unanswered.due = due
        waiting = unanswered.waiting
        heapq.heappush(self._dues, (due, waiting.number, waiting.request_id))

    def _has_room(self) -> bool:
        return len(self._unanswered) < (self._window if self._answering else 1)

    def _first_sendable(self) -> Waiting | None:
        """Return the first in the queue whose condition has none under way; hold those before it."""
        while (first := self._queue.first()) is not None:
            if first.condition not in self._under_way:
                return first
            self._queue.remove(first.number)
            self._held.add(first)
        return None

    def _fall_silent(self) -> None:
        """Put all informs under way back into the queue; an answer to one still counts."""
        self._answering = False
        for request_id, unanswered in self._unanswered.items():
            self._queue.add(unanswered.waiting)
            self._back_in_queue[request_id] = unanswered.waiting
        for waiting in self._held:
            self._queue.add(waiting)
        self._held = WaitingQueue()
        self._unanswered.clear()
        self._dues.clear()
        self._under_way.clear()


def _dropped(length: int, *queues: WaitingQueue) -> Waiting | None:
    """Remove and return the notification that exceeds `MAX_WAITING`, if any."""
    if length <= MAX_WAITING:
        return None
    found = [(least.urgency, least.number, queue) for queue in queues if (least := queue.least())]
    if not found:
        return None
    _, number, queue = min(found, key=lambda each: each[:2])
    return queue.remove(number)
