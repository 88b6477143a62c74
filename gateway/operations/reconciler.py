"""The reconciler: determines the outcome of operations whose outcome is unknown; it never sends a change.

A late answer settles an operation. For a set, so does the object: it is read a few times, and each of its
records is examined. With the requested values, the set was applied; with the former values for long, it was
not. That is decided only while the source shows it: a cluster without a majority carries changes out when it
has one again, be that hours later, and until then the object is as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from gateway.feed.operations import OperationRecord
from gateway.feed.records import DeleteRecord, ObjectRecord, Record, UpdateRecord
from gateway.inventory.objects import Entry
from gateway.model.operations import Answer, ObjectFetch, Outcome
from gateway.model.times import SECOND
from gateway.operations.audit import Audit
from gateway.operations.operation import Effect, Ended, Operation, Publish, Send
from gateway.operations.planning import Target, is_same

MAX_PENDING: Final = 256
"""The maximum number of pending outcomes; the oldest stays unknown for ever when another comes."""

READ_AFTER: Final = tuple(seconds * SECOND for seconds in (2, 35, 90, 300))
"""Nanoseconds after which a set's object is read to determine the outcome; reading changes nothing."""

CERTAIN_AFTER: Final = 30 * SECOND
"""Nanoseconds for which an object must have been seen without a value before it counts as not set.

A request under way at its deadline may still arrive, and only a peer with a clock refuses it as late.
"""

ObjectKey: TypeAlias = tuple[int, str, int]
"""The number of the source, ``package:class``, and row."""


class PendingOutcome(msgspec.Struct):
    """An operation whose outcome is unknown.

    Attributes:
        operation: the operation.
        record: its last published record.
        call_token: the token of the call without an answer.
        sampled: the time at which the object's known properties were read, by its agent's clock.
        since: the time at which the outcome became unknown, or reading was last postponed.
        reported: each request was answered, so that nothing is under way any more.
        readings: the number of readings since.
        read_token: the token of the reading under way; 0 for none.
        differs_since: the time since which the object is known to lack the requested values; 0 for none.
    """

    operation: Operation
    record: OperationRecord
    call_token: int
    sampled: int
    since: int
    reported: bool
    readings: int = 0
    read_token: int = 0
    differs_since: int = 0

    @property
    def number(self) -> int:
        """The number of the operation."""
        return self.record.number

    @property
    def key(self) -> ObjectKey:
        """The key of the object."""
        return self.record.source, self.record.class_name, self.record.row

    @property
    def read_at(self) -> int | None:
        """The time to read the object; ``None`` for no more readings."""
        is_enough = self.readings >= len(READ_AFTER)
        if not self.operation.can_be_read or self.read_token or is_enough:
            return None
        return self.since + READ_AFTER[self.readings]

    def postponed(self, now: int) -> None:
        """Postpone the readings, because the source shows no outcomes now."""
        self.since, self.readings, self.differs_since = now, 0, 0


class PendingOutcomes:
    """The operations whose outcome is unknown, by number, token and object."""

    def __init__(self) -> None:
        self._by_number: dict[int, PendingOutcome] = {}
        self._by_token: dict[int, PendingOutcome] = {}
        self._sets: dict[ObjectKey, dict[int, PendingOutcome]] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[PendingOutcome]:
        """Yield the operations, the oldest first; they may be removed meanwhile."""
        return iter(list(self._by_number.values()))

    def add(self, one: PendingOutcome) -> None:
        """Add an operation; the oldest is dropped where they are too many."""
        self._by_number[one.number] = one
        if one.call_token:
            self._by_token[one.call_token] = one
        if one.operation.can_be_read:
            self._sets.setdefault(one.key, {})[one.number] = one
        if len(self._by_number) > MAX_PENDING:
            self.remove(next(iter(self._by_number.values())))

    def remove(self, one: PendingOutcome) -> None:
        """Remove an operation that is settled, or never will be."""
        del self._by_number[one.number]
        self._by_token.pop(one.call_token, None)
        self._by_token.pop(one.read_token, None)
        sets = self._sets.get(one.key)
        if sets is not None:
            sets.pop(one.number, None)
            if not sets:
                del self._sets[one.key]

    def of_token(self, token: int) -> PendingOutcome | None:
        """Return the operation that a call or reading belongs to."""
        return self._by_token.get(token)

    def read(self, one: PendingOutcome, token: int) -> None:
        """Note that its object is being read."""
        self._by_token.pop(one.read_token, None)
        one.readings += 1
        one.read_token = token
        self._by_token[token] = one

    def was_read(self, one: PendingOutcome) -> None:
        """Note that the reading was answered."""
        self._by_token.pop(one.read_token, None)
        one.read_token = 0

    def sets_of(self, key: ObjectKey) -> list[PendingOutcome]:
        """Return the readable sets of an object."""
        return list(self._sets.get(key, {}).values())

    @property
    def wake_at(self) -> int | None:
        """The time at which the first object is to be read; ``None`` for never."""
        times = [one.read_at for one in self._by_number.values()]
        return min((time for time in times if time is not None), default=None)


class Reconciler:
    """Determines the outcome of operations whose outcome is unknown.

    Args:
        audit: makes the records.
        deadline: the nanoseconds allowed for a reading.
        next_token: returns the token of a reading.
        class_name: returns ``package:class`` by the class's number in the feed.
    """

    def __init__(
        self,
        audit: Audit,
        deadline: int,
        next_token: Callable[[], int],
        class_name: Callable[[int], str],
    ) -> None:
        self._audit = audit
        self._deadline = deadline
        self._next_token = next_token
        self._class_name = class_name
        self._pending = PendingOutcomes()

    def __len__(self) -> int:
        return len(self._pending)

    def add(
        self, operation: Operation, record: OperationRecord, call_token: int, now: int, *, reported: bool
    ) -> None:
        """Take an operation whose outcome is unknown.

        Args:
            operation: the operation.
            record: its published record.
            call_token: the token of the call without an answer; 0 where each was answered.
            now: the gateway's clock.
            reported: each was answered, so that nothing is under way any more.
        """
        entry = operation.plan.target.entry
        sampled = entry.record.properties_sampled if entry is not None else 0
        self._pending.add(PendingOutcome(operation, record, call_token, sampled, now, reported))

    def answered(self, answer: Answer, now: int) -> list[Effect]:
        """Take a late answer, or that of a reading."""
        one = self._pending.of_token(answer.token)
        if one is None:
            return []
        if answer.token != one.call_token:
            return self._was_read(one, answer, now)
        if answer.outcome is Outcome.UNKNOWN:
            # With a status, the source reports that the outcome stays unknown; without one, it only waits no
            # longer.
            is_final = answer.code is not None and not one.operation.can_be_read
            return self._settle(one, one.operation.late(answer), now) if is_final else []
        if one.operation.can_be_read and answer.outcome is Outcome.APPLIED:
            # It was done after all: from here on a reading shows the result.
            one.reported, one.readings, one.since = True, 0, now
            one.operation.noted(answer.text)
            return self._read(one, now)
        return self._settle(one, one.operation.late(answer), now)

    def _was_read(self, one: PendingOutcome, answer: Answer, now: int) -> list[Effect]:
        self._pending.was_read(one)
        entry = one.operation.plan.target.entry
        if answer.outcome is not Outcome.APPLIED or entry is None:
            return []
        return self._judge(one, entry, now, is_read_back=one.reported)

    def noticed(self, records: Iterable[Record], now: int) -> list[Effect]:
        """Examine the records of objects."""
        if not self._pending:
            return []
        effects: list[Effect] = []
        for record in records:
            if not isinstance(record, ObjectRecord | UpdateRecord | DeleteRecord):
                continue
            key = (record.source, self._class_name(record.class_number), record.row)
            for one in self._pending.sets_of(key):
                effects += self._noticed(one, record, now)
        return effects

    def tick(self, now: int) -> list[Effect]:
        """Do the work that is due at `wake_at`."""
        effects: list[Effect] = []
        for one in self._pending:
            if one.read_at is None or one.read_at > now:
                continue
            if one.operation.plan.target.source.shows_outcomes:
                effects += self._read(one, now)
            else:
                one.postponed(now)
        return effects

    @property
    def wake_at(self) -> int | None:
        """The time at which `tick` has work; ``None`` for never."""
        return self._pending.wake_at

    def _noticed(
        self, one: PendingOutcome, record: ObjectRecord | UpdateRecord | DeleteRecord, now: int
    ) -> list[Effect]:
        entry = one.operation.plan.target.entry
        if isinstance(record, DeleteRecord) or entry is None:
            self._pending.remove(one)  # its outcome will never be known
            return []
        is_new = record.properties_sampled > one.sampled
        one.sampled = max(one.sampled, record.properties_sampled)
        # A record with older properties says nothing new of what is missing; a value that is there is proof
        # whenever it was read.
        if is_new or one.operation.first_difference(entry) is None:
            return self._judge(one, entry, now, is_read_back=False)
        return []

    def _judge(self, one: PendingOutcome, entry: Entry, now: int, *, is_read_back: bool) -> list[Effect]:
        """Judge a set by the values of its object.

        Args:
            one: the set.
            entry: the object.
            now: the gateway's clock.
            is_read_back: it was read after all was reported as done, so the values found decide.
        """
        operation = one.operation
        shows_outcomes = operation.plan.target.source.shows_outcomes
        if is_read_back:
            verdict = operation.verdict(entry)
            # A value that is there is proof; one that is missing may be held back by a cluster without a
            # majority.
            is_certain = shows_outcomes or verdict.outcome is Outcome.APPLIED
            return self._settle(one, verdict, now) if is_certain else []
        found, difference = operation.found(entry), operation.first_difference(entry)
        if difference is None:
            return self._settle(
                one, Ended(Outcome.APPLIED, "it has the values asked for now", values=found), now
            )
        if not shows_outcomes:
            one.differs_since = 0
            return []
        if not one.differs_since:
            # Before its deadline the request may still be on its way, however long ago it was sent.
            one.differs_since = max(now, operation.deadline)
        if now - one.differs_since < CERTAIN_AFTER:
            return []
        name = difference.element
        # Behind a mask the value may have changed without showing it.
        if is_same(found.get(name), operation.former.get(name)) and not difference.bears_secrets:
            text = f"{name} is what it was before"
            return self._settle(one, Ended(Outcome.NOT_APPLIED, text, name, values=found), now)
        self._pending.remove(one)  # another user has set it since: the outcome will never be known
        return []

    def _read(self, one: PendingOutcome, now: int) -> list[Effect]:
        target = one.operation.plan.target
        token = self._next_token()
        self._pending.read(one, token)
        fetch = fetch_of(target, token, now + self._deadline)
        if fetch is None:
            self._pending.was_read(one)
            return []
        return [Send(target.source.identity.number, fetch)]

    def _settle(self, one: PendingOutcome, ended: Ended, now: int) -> list[Effect]:
        self._pending.remove(one)
        remarked = one.operation.with_remarks(ended)
        return [Publish(self._audit.settled(one.record, one.operation, remarked, now))]


def fetch_of(target: Target, token: int, deadline: int) -> ObjectFetch | None:
    """Return a request to read an object again; ``None`` where it is gone or cannot be reached now."""
    entry = target.entry
    if entry is None or not target.source.is_bound(entry):
        return None
    return ObjectFetch(token, entry.key, entry.record.agent, entry.record.native_id, deadline)
