"""How notifications reach one receiver: the queue by urgency, traps sent once, informs until answered.

`SavedNotifications` is what outlives the process, one JSON document without communities. A text that is
damaged or of another version is refused; the caller decides what follows.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final, Literal, Protocol

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from gateway.model.observations import Severity
from gateway.snmp.notifications.encoding import Version1Fields
from gateway.snmp.notifications.notification import MAX_CONDITIONS, Condition, SuppressedSummary
from gateway.yaml_documents import in_words

_SECOND: Final = 10**9
SMALLEST_BURST: Final = 4
"""Tokens that a bucket holds at least, so that there is one to keep for each degree of urgency."""

_KEPT: Final = {
    # The share of a full bucket that is kept for what is more urgent, and the least number of tokens.
    Severity.INFO: (1 / 2, 3),
    Severity.WARNING: (1 / 4, 2),
    Severity.MINOR: (1 / 4, 2),
    Severity.MAJOR: (1 / 8, 1),
    Severity.CRITICAL: (0, 0),
}


class RateLimit:
    """Lets so many a second pass, and as many at once after a quiet second (at least `SMALLEST_BURST`).

    A flood of one severity leaves tokens for every higher one: half of the bucket is never spent on `INFO`, a
    quarter never on `WARNING` or `MINOR`, an eighth never on `MAJOR`. What is refilled while a flood lasts
    goes to any notification that may take it, so the whole rate is used whatever the severity.

    Args:
        rate: tokens a second.
        now: monotonic nanoseconds.
    """

    def __init__(self, rate: int, now: int) -> None:
        capacity = max(rate, SMALLEST_BURST)
        # In units of a token's billionth: a nanosecond refills `rate` of them, exactly.
        self._rate = rate
        self._capacity = capacity * _SECOND
        self._level = self._capacity
        self._needed = {
            severity: (1 + max(int(share * capacity), least)) * _SECOND
            for severity, (share, least) in _KEPT.items()
        }
        # The end of a condition that was not raised at this receiver; other ends pass anyway.
        self._needed[Severity.CLEARED] = self._needed[Severity.INFO]
        self._filled = now

    def take(self, urgency: Severity, now: int) -> bool:
        """Return whether one of this urgency may pass; it takes a token then."""
        if not self.allows(urgency, now):
            return False
        self._level -= _SECOND
        return True

    def take_anyway(self, now: int) -> None:
        """One passes that may not be held up; it takes a token if there is one."""
        self._refill(now)
        self._level = max(0, self._level - _SECOND)

    def allows(self, urgency: Severity, now: int) -> bool:
        """Return whether one of this urgency could pass now."""
        self._refill(now)
        return self._level >= self._needed[urgency]

    def allowed_at(self, urgency: Severity, now: int) -> int:
        """When one of this urgency can pass if nothing else does before; monotonic nanoseconds."""
        self._refill(now)
        missing = max(0, self._needed[urgency] - self._level)
        return now - (-missing // self._rate)

    def _refill(self, now: int) -> None:
        elapsed = max(0, now - self._filled)
        self._filled = max(now, self._filled)
        self._level = min(self._capacity, self._level + elapsed * self._rate)


MAX_WAITING: Final = 2_000
"""Notifications that wait for one receiver."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A notification on its way to one receiver.

    Attributes:
        number: ascending in the order of events.
        urgency: the most urgent is sent first, the least urgent makes room for others.
        name: ``package:event``.
        condition: what it begins or ends.
        request_id: of its PDU, the same however often it is sent.
        content: what the receiver's version has for its variable bindings.
        ends: it ends its condition.
    """

    number: int
    urgency: Severity
    name: str
    condition: Condition | None
    request_id: int
    content: bytes | Version1Fields
    ends: bool = False


class WaitingQueue:
    """By urgency, then in the order of events; those of one condition always in the order of events.

    So that an urgent beginning need not wait behind a less urgent end of the same condition, nor overtake it,
    what stands before it becomes as urgent. There is no bound here: the caller of `add` looks at the length.
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
        """Take one in, at its place: one that comes back stands where it stood."""
        if waiting.condition is not None:
            numbers = self._numbers.setdefault(waiting.condition, [])
            place = bisect.bisect(numbers, waiting.number)
            urgency = max([waiting.urgency, *(self._waiting[number].urgency for number in numbers[place:])])
            for number in numbers[:place]:
                self._make_urgent(self._waiting[number], urgency)
            numbers.insert(place, waiting.number)
            # An end must not overtake a beginning that waits: it takes the urgency of those behind it, and
            # gives its own to those before.
            waiting = replace(waiting, urgency=urgency)
        self._insert(waiting)

    def first(self) -> Waiting | None:
        """Return the oldest of the most urgent."""
        return self._waiting[self._order[0][1]] if self._order else None

    def least(self) -> Waiting | None:
        """Return the oldest of the least urgent."""
        if not self._order:
            return None
        # Numbers begin at 1, so this is before the first of that urgency.
        place = bisect.bisect_left(self._order, (self._order[-1][0], 0))
        return self._waiting[self._order[place][1]]

    def remove(self, number: int) -> None:
        """Take out the one of this number, which must be there."""
        waiting = self._waiting[number]
        self._take_out(waiting)
        if waiting.condition is not None:
            numbers = self._numbers[waiting.condition]
            numbers.remove(number)
            if not numbers:
                del self._numbers[waiting.condition]

    def _make_urgent(self, waiting: Waiting, urgency: Severity) -> None:
        if waiting.urgency < urgency:
            self._take_out(waiting)
            self._insert(replace(waiting, urgency=urgency))

    def _insert(self, waiting: Waiting) -> None:
        bisect.insort(self._order, (-waiting.urgency, waiting.number))
        self._waiting[waiting.number] = waiting

    def _take_out(self, waiting: Waiting) -> None:
        del self._order[bisect.bisect_left(self._order, (-waiting.urgency, waiting.number))]
        del self._waiting[waiting.number]


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
    def is_reachable(self) -> bool:
        """Whether what is sent now is likely to arrive."""

    def __len__(self) -> int: ...

    def add(self, waiting: Waiting) -> Waiting | None:
        """Take one in; what had to make room for it is returned, and lost. That may be itself."""

    def next(self, now: int) -> Waiting | None:
        """Return what should be sent now."""

    def sent(self, waiting: Waiting, now: int) -> bool:
        """Return what `next` gave was sent, or tried to; whether that was the first time."""

    def due(self, now: int) -> int | None:
        """Return when `next` may have something; ``None`` if that takes an answer or another notification."""

    def answered(self, request_id: int, now: int) -> Waiting | None:
        """Take an answer of the receiver; return what it answered, or ``None`` for no request."""

    def unfinished(self) -> tuple[Waiting, ...]:
        """Return what must be sent after a restart of the process, in the order of events."""

    def lost_at_an_end(self) -> tuple[Waiting, ...]:
        """Return what the receiver will never get if the process ends now, in the order of events."""


class TrapDelivery:
    """Each is sent once."""

    answering = False

    def __init__(self) -> None:
        self._queue = WaitingQueue()

    @property
    def is_reachable(self) -> bool:
        """See `Delivery.is_reachable`."""
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
    def is_reachable(self) -> bool:
        """See `Delivery.is_reachable`."""
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
            unanswered.due = now + (FIRST_PATIENCE << unanswered.tries)
            unanswered.tries += 1
            return False
        self._queue.remove(waiting.number)
        if waiting.condition is not None:
            self._under_way.add(waiting.condition)
        patience = FIRST_PATIENCE if self._answering else PROBE_INTERVAL
        self._unanswered[waiting.request_id] = _Unanswered(waiting, 1, now + patience)
        # What came back into the queue was counted when it was first sent.
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
                # Only the next one of this condition: the others wait for its answer in turn.
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
    """Return what has to go so that no more than `MAX_WAITING` wait."""
    least = queue.least() if length > MAX_WAITING else None
    if least is not None:
        queue.remove(least.number)
    return least


VERSION: Final = 2

_STRICT: Final = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


class SavedNotificationsError(Exception):
    """The text is damaged; says where."""


class NewerVersionError(Exception):
    """The text is of a version that a newer gateway wrote; the only argument is that."""


@dataclass(frozen=True, slots=True)
class SavedInform:
    """An inform that was not answered; ``varbinds`` is the TLV of its variable bindings."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    urgency: Severity
    name: str
    condition: Condition | None
    varbinds: bytes


@dataclass(frozen=True, slots=True)
class SavedTarget:
    """What concerns one receiver.

    Attributes:
        name: as configured.
        conditions: those whose raising notification it was sent, with their severity.
        declined: those whose beginning was not for it, with the event id of that.
        uncertain: those of ``conditions`` that it was perhaps not sent. Since version 2.
        suppressed: what it was not sent, and no agEventsSuppressed has reported to it.
        informs: what it has not answered, in the order of events.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    conditions: Annotated[tuple[tuple[Condition, Severity], ...], Field(max_length=MAX_CONDITIONS)] = ()
    declined: Annotated[tuple[tuple[Condition, str], ...], Field(max_length=MAX_CONDITIONS)] = ()
    uncertain: Annotated[tuple[Condition, ...], Field(max_length=MAX_CONDITIONS)] = ()
    suppressed: SuppressedSummary | None = None
    informs: Annotated[tuple[SavedInform, ...], Field(max_length=MAX_WAITING)] = ()


@dataclass(frozen=True, slots=True)
class SavedNotifications:
    """What concerns all receivers.

    Attributes:
        epoch: boot of the core that made the last event that was handled; 0 for none.
        number: of that event.
        boot: how often the core had been started when the process began.
        configuration: digest of the configuration that the process began with.
        own: number in the last event id that the SNMP agent made itself.
        targets: by receiver.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    epoch: int = 0
    number: int = 0
    boot: int = 0
    configuration: str = ""
    own: int = 0
    targets: tuple[SavedTarget, ...] = ()
    version: Literal[1, 2] = VERSION


_DOCUMENT: Final = TypeAdapter(SavedNotifications)
_VERSIONED: Final = TypeAdapter(dict[str, object])


def to_text(saved: SavedNotifications) -> str:
    """Its text, of one line."""
    return _DOCUMENT.dump_json(saved).decode() + "\n"


def from_text(document: str) -> SavedNotifications:
    """The value of which ``document`` is the text. Raises `SavedNotificationsError`, `NewerVersionError`."""
    try:
        # First, because a document of a newer version would be refused for its unknown fields, as if damaged.
        version = _VERSIONED.validate_json(document).get("version")
        if isinstance(version, int) and version > VERSION:
            raise NewerVersionError(version)
        return _DOCUMENT.validate_json(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        said = in_words(first)
        raise SavedNotificationsError(f"{place}: {said}" if place else said) from None
