"""Finds out what came of operations whose outcome is unknown; never sends a change.

A late answer tells. Of a set, the object tells, too: it is read a few times, and whatever else is told of it
is looked at. It has the values asked for: it was applied. It has those from before, for long: it was not.
That is found out only while the source shows it: a cluster without a majority carries changes out when it has
one again, be that hours later, and until then the object is as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.feed.operations import OperationRecord
from gateway.feed.records import DeleteRecord, ObjectRecord, Record, UpdateRecord
from gateway.inventory.objects import Entry
from gateway.model.operations import Answer, ObjectFetch, Outcome
from gateway.operations.audit import Audit
from gateway.operations.effects import Effect, Send, Tell
from gateway.operations.operation import Operation
from gateway.operations.pending_outcomes import CERTAIN_AFTER, PendingOutcome, PendingOutcomes
from gateway.operations.planning import Target
from gateway.operations.steps import Ended
from gateway.operations.validation import is_same


class Reconciler:
    """The operations whose outcome is unknown.

    Args:
        audit: makes the records.
        deadline: nanoseconds that a reading has.
        next_token: of a reading.
        class_name: tells ``package:class`` by the class's number in the feed.
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
        self._unsettled = PendingOutcomes()

    def __len__(self) -> int:
        return len(self._unsettled)

    def add(
        self, operation: Operation, record: OperationRecord, call_token: int, now: int, *, reported: bool
    ) -> None:
        """The outcome of an operation became unknown.

        Args:
            operation: it.
            record: as it was told.
            call_token: of the call without an answer; 0 where each was answered.
            now: the gateway's clock.
            reported: each was answered, so that nothing is on its way any more.
        """
        entry = operation.plan.target.entry
        sampled = entry.record.properties_sampled if entry is not None else 0
        self._unsettled.add(PendingOutcome(operation, record, call_token, sampled, now, reported))

    def answered(self, answer: Answer, now: int) -> list[Effect]:
        """A late answer, or that of a reading."""
        one = self._unsettled.of_token(answer.token)
        if one is None:
            return []
        if answer.token != one.call_token:
            return self._was_read(one, answer, now)
        if answer.outcome is Outcome.UNKNOWN:
            return []
        if one.operation.can_be_read and answer.outcome is Outcome.APPLIED:
            one.reported, one.readings, one.since = True, 0, now
            one.operation.noted(answer.text)
            return self._read(one, now)
        return self._settle(one, one.operation.late(answer), now)

    def _was_read(self, one: PendingOutcome, answer: Answer, now: int) -> list[Effect]:
        self._unsettled.was_read(one)
        entry = one.operation.plan.target.entry
        if answer.outcome is not Outcome.APPLIED or entry is None:
            return []
        return self._judge(one, entry, now, is_read_back=one.reported)

    def noticed(self, records: Iterable[Record], now: int) -> list[Effect]:
        """Something was told of objects."""
        if not self._unsettled:
            return []
        effects: list[Effect] = []
        for record in records:
            if not isinstance(record, ObjectRecord | UpdateRecord | DeleteRecord):
                continue
            key = (record.source, self._class_name(record.class_number), record.row)
            for one in self._unsettled.sets_of(key):
                effects += self._noticed(one, record, now)
        return effects

    def tick(self, now: int) -> list[Effect]:
        """The time that was asked for has come."""
        effects: list[Effect] = []
        for one in self._unsettled:
            if one.read_at is None or one.read_at > now:
                continue
            if one.operation.plan.target.source.shows_outcomes:
                effects += self._read(one, now)
            else:
                one.postponed(now)
        return effects

    @property
    def wake_at(self) -> int | None:
        """When `tick` has something to do."""
        return self._unsettled.wake_at

    def _noticed(
        self, one: PendingOutcome, record: ObjectRecord | UpdateRecord | DeleteRecord, now: int
    ) -> list[Effect]:
        entry = one.operation.plan.target.entry
        if isinstance(record, DeleteRecord) or entry is None:
            self._unsettled.remove(one)  # what came of it will never be known
            return []
        is_new = record.properties_sampled > one.sampled
        one.sampled = max(one.sampled, record.properties_sampled)
        if is_new or one.operation.first_difference(entry) is None:
            return self._judge(one, entry, now, is_read_back=False)
        return []

    def _judge(self, one: PendingOutcome, entry: Entry, now: int, *, is_read_back: bool) -> list[Effect]:
        """Look at an object whose values were told again.

        Args:
            one: the set.
            entry: the object.
            now: the gateway's clock.
            is_read_back: it was read after all was reported as done, so what is found counts.
        """
        operation = one.operation
        shows_outcomes = operation.plan.target.source.shows_outcomes
        if is_read_back:
            verdict = operation.verdict(entry)
            is_certain = shows_outcomes or verdict.outcome is Outcome.APPLIED
            return self._settle(one, verdict, now) if is_certain else []
        found, difference = operation.found(entry), operation.first_difference(entry)
        if difference is None:
            return self._settle(
                one, Ended(Outcome.APPLIED, "it has the values asked for now", values=found), now
            )
        if not shows_outcomes:
            one.doubtful_since = 0
            return []
        if not one.doubtful_since:
            one.doubtful_since = max(now, operation.deadline)
        if now - one.doubtful_since < CERTAIN_AFTER:
            return []
        name = difference.element
        if is_same(found.get(name), operation.former.get(name)) and not difference.bears_secrets:
            text = f"{name} is what it was before"
            return self._settle(one, Ended(Outcome.NOT_APPLIED, text, name, values=found), now)
        self._unsettled.remove(one)  # somebody else set it since: what came of this one will never be known
        return []

    def _read(self, one: PendingOutcome, now: int) -> list[Effect]:
        target = one.operation.plan.target
        token = self._next_token()
        self._unsettled.read(one, token)
        fetch = fetch_of(target, token, now + self._deadline)
        if fetch is None:
            self._unsettled.was_read(one)
            return []
        return [Send(target.source.identity.number, fetch)]

    def _settle(self, one: PendingOutcome, ended: Ended, now: int) -> list[Effect]:
        self._unsettled.remove(one)
        remarked = one.operation.with_remarks(ended)
        return [Tell(self._audit.settled(one.record, one.operation, remarked, now))]


def fetch_of(target: Target, token: int, deadline: int) -> ObjectFetch | None:
    """A request to read an object again; ``None`` where it is gone, or nobody knows how to reach it now."""
    entry = target.entry
    if entry is None or not target.source.is_bound(entry):
        return None
    return ObjectFetch(token, entry.key, entry.record.agent, entry.record.native_id, deadline)
