"""The inventory: all sources, one sequence of batches for every subscriber.

Observations of one source are applied in order, and in slices if that takes long: a resync may end a hundred
thousand objects at once. Between two slices others proceed: snapshots, operations, other sources. Later
observations of the source wait meanwhile; only the loss of its agents is published at once, because their
objects must not be shown as fresh until then.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec

from gateway.feed.latest import HistoryLimits, Latest, memory_of
from gateway.feed.operations import OperationRecord, OperationState
from gateway.feed.records import (
    AlarmRecord,
    Batch,
    DeleteRecord,
    EventLogRecord,
    EventLogState,
    EventRecord,
    EventsMadeRecord,
    Record,
)
from gateway.inventory.agents import EVERY_AGENT
from gateway.inventory.alarms import own_alarm
from gateway.inventory.audit_heads import AuditHeadsCondition
from gateway.inventory.certificates import CertificateConditions, CertificateExpiry
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.events import EventRecorder, duration_text, one_line
from gateway.inventory.instances import IdAllocator, InstanceIndex
from gateway.inventory.own_events import (
    ACCESS_REFUSED,
    AUDIT_HEAD,
    GATEWAY_STOPPING,
    LOG_TROUBLE,
    LOG_WRITTEN,
    MAPPINGS_CHANGED,
    POLICY_CHANGED,
    PROCESS_ENDED,
)
from gateway.inventory.scope import SourceIdentity, SourceScope
from gateway.inventory.source import UNREACHED, SourceInventory
from gateway.model.observations import (
    AgentGone,
    AgentLost,
    EventState,
    Observation,
    Severity,
    SourceStateSeen,
)
from gateway.model.operations import Outcome
from gateway.model.times import SECOND

GATEWAY = 0
"""The number of the source that stands for the gateway itself; those of sources begin at 1."""

CONDITION = "logTrouble"

HOLD = 10 * SECOND
"""Nanoseconds without trouble that end it, so that a disk that is slow at times is one condition."""

_SHOWN_CHANGES: Final = 5

_WELL = frozenset({EventLogState.OFF, EventLogState.WRITING})
_SEVERITIES = {EventLogState.SLOW: Severity.WARNING, EventLogState.UPKEEP: Severity.WARNING}

SLICE: Final = 200
"""The approximate number of objects in one slice: ten milliseconds, with the work of feed and log."""

MAX_WAITING: Final = 10_000
"""The maximum number of message bodies that wait; if there are more, all are applied at once."""

_Ended = TypeVar("_Ended", DeleteRecord, EventRecord)


class Inventory:
    """All sources with their objects, given to ``publish`` in batches.

    Args:
        gateway: the gateway's uuid, text; part of every event id.
        epoch: boot of this core; part of every batch and event id.
        classes: registry with the mappings.
        index: row numbers.
        publish: called with each batch; never raises, never waits.
        slicing: the settings of slices; ``None`` applies each report at once.
        limits: the limits of the history that a snapshot contains.
    """

    def __init__(
        self,
        gateway: str,
        epoch: int,
        classes: ClassRegistry,
        index: InstanceIndex,
        publish: Callable[[Batch], None],
        slicing: BatchSettings | None = None,
        limits: HistoryLimits | None = None,
    ) -> None:
        self._epoch = epoch
        self._classes = classes
        self._index = index
        self._publish = publish
        self._slicing = slicing
        self._sources: dict[str, SourceInventory] = {}
        self._slices: dict[int, BatchApplier] = {}
        self._ids = IdAllocator(gateway, epoch, index)
        scope = SourceScope(SourceIdentity(GATEWAY, "", ""), classes, index, self._ids)
        self._own_events = EventRecorder(scope, None)
        self._event_log = EventLogCondition(self._own_events, self._ids)
        self._certificates = CertificateConditions(self._own_events, self._ids, index, GATEWAY)
        self._audit_heads = AuditHeadsCondition(self._own_events, self._ids)
        self._history = History(limits)
        self._sequence = 0

    @property
    def sources(self) -> tuple[SourceInventory, ...]:
        """All sources."""
        return tuple(self._sources.values())

    def add_source(
        self,
        name: str,
        kind: str,
        max_objects: int = 200_000,
        *,
        sets_natively: bool = False,
        whole: bool = False,
    ) -> SourceInventory:
        """Add a source; its number is the one that its name always had in this state folder.

        Args:
            name: as configured.
            kind: as configured.
            max_objects: more than these are refused and counted.
            sets_natively: its dialect has a request of its own to set properties.
            whole: a message body is applied completely before `observed` returns, however long that takes.
        """
        identity = SourceIdentity(self._index.source_number(name), name, kind, sets_natively)
        source = SourceInventory(SourceScope(identity, self._classes, self._index, self._ids), max_objects)
        self._sources[name] = source
        self._slices[identity.number] = BatchApplier(source, self._out, None if whole else self._slicing)
        return source

    def source(self, number: int) -> SourceInventory | None:
        """Return the source with this number."""
        return next((one for one in self._sources.values() if one.identity.number == number), None)

    def remove_source(self, source: SourceInventory, now: int) -> None:
        """Remove a source: its alarms are cleared, its objects removed, and snapshots do not contain it."""
        del self._sources[source.identity.name], self._slices[source.identity.number]
        self._out(source.remove(now))
        self._history.forget(source.identity.number)

    def observed(self, source: SourceInventory, observations: Iterable[Observation], now: int) -> None:
        """Apply the observations of one message body of ``source``, and publish the resulting records.

        Many are applied in slices, and later observations of the source follow them.
        """
        self._slices[source.identity.number].observed(observations, now)

    def afterwards(self, source: SourceInventory, do: Callable[[], None]) -> None:
        """Call ``do`` when all earlier observations of ``source`` are applied: at once if they are."""
        self._slices[source.identity.number].afterwards(do)

    def go_on(self) -> None:
        """Apply a slice of each source that has observations left."""
        for slices in self._slices.values():
            if slices.is_busy:
                slices.go_on()

    def event_log_changed(self, record: EventLogRecord, now: int) -> None:
        """Publish the state of the event log."""
        self._out(self._event_log.stands(record, now))

    def certificates_judged(
        self,
        found: Iterable[CertificateExpiry],
        warn_before: int,
        now: int,
        not_known: Collection[str] = (),
    ) -> list[Record]:
        """Publish, and return, what a look at certificates led to, as `CertificateConditions.judged`."""
        records = self._certificates.judged(found, warn_before, now, not_known)
        self._out(records)
        return records

    def audit_heads_not_written(self, file: str, reason: str, now: int) -> None:
        """Publish that the file of signed heads cannot be written, as `AuditHeadsCondition.not_written`."""
        self._out(self._audit_heads.not_written(file, reason, now))

    def audit_heads_written(self, now: int) -> None:
        """Publish that the file of signed heads was written, or is not used any more."""
        self._out(self._audit_heads.written(now))

    def process_ended(self, process: str, reason: str, now: int) -> None:
        """Publish that a process of the gateway ended without having been asked to."""
        text = one_line(f"the process {process} ended: {reason}")
        self._out([self._own_events.own(PROCESS_ENDED, (process, reason), Severity.WARNING, text, now)])

    def gateway_stops(self, reason: str, now: int) -> None:
        """Publish that the gateway was asked to end."""
        text = one_line(f"the gateway stops: {reason}")
        self._out([self._own_events.own(GATEWAY_STOPPING, (reason,), Severity.WARNING, text, now)])

    def policy_changed(self, by: str, changes: Sequence[str], now: int) -> None:
        """Publish that the roles of principals were changed.

        Args:
            by: who requested it.
            changes: the rules that principals gained or lost, in words.
            now: nanoseconds of the gateway's clock.
        """
        first = f": {'; '.join(changes[:_SHOWN_CHANGES])}" if changes else ""
        reason = one_line(f"{len(changes)} rules of principals changed{first}")
        text = one_line(f"{by} reloaded the policy: {reason}")
        self._out([self._own_events.own(POLICY_CHANGED, (by, reason), Severity.WARNING, text, now)])

    def mappings_changed(self, by: str, changes: Sequence[str], now: int) -> None:
        """Publish that mappings or override files were changed.

        Args:
            by: who requested it.
            changes: what differs, in words; at least one.
            now: nanoseconds of the gateway's clock.
        """
        reason = one_line(f"{len(changes)} changes: {'; '.join(changes[:_SHOWN_CHANGES])}")
        text = one_line(f"{by} reloaded the mappings: {reason}")
        self._out([self._own_events.own(MAPPINGS_CHANGED, (by, reason), Severity.WARNING, text, now)])

    def audit_signed(self, audit: int, digest: str, head: str, now: int) -> None:
        """Publish that the chain of audited records was signed.

        Args:
            audit: the number of the last one.
            digest: its hash, hexadecimal.
            head: the signed head, one line.
            now: nanoseconds since 1970 UTC.
        """
        text = f"the audited records of the event log are signed up to number {audit}"
        self._out([self._own_events.own(AUDIT_HEAD, (audit, digest, head), Severity.INFO, text, now)])

    def publish_operation(self, record: OperationRecord) -> None:
        """Publish an operation, which snapshots contain, too; one that was not permitted is also an event."""
        self._out([record] if record.outcome is not Outcome.REFUSED else [record, self._refused(record)])

    def _refused(self, record: OperationRecord) -> EventRecord:
        principal, attempts = record.principal, record.attempts
        place = f" from {principal.origin}" if principal.origin else ""
        times = "" if attempts == 1 else f" {attempts} times"
        text = one_line(f"{principal}{place} was refused{times}: {record.text}")
        values = (str(principal), principal.origin, attempts, record.text)
        return self._own_events.own(ACCESS_REFUSED, values, Severity.WARNING, text, record.ended)

    @property
    def events_made(self) -> int:
        """The number of events that this core has made, which is the number of the last one."""
        return self._ids.events

    def recall(self, events: Iterable[EventRecord], made: Mapping[int, int]) -> None:
        """Take events of earlier cores, which only snapshots contain.

        Alarms that were cleared without an event among them are reported by their sources.

        Args:
            events: the events that are still known, in order.
            made: number of the last event of each core, by its epoch, even if it is not known any more.
        """
        events = tuple(events)
        self._history.recall(events, made)
        raised: dict[tuple[int, str], EventRecord] = {}
        for event in events:
            if event.state is EventState.RAISED:
                raised[event.source, event.condition] = event
            elif event.state is EventState.CLEARED:
                raised.pop((event.source, event.condition), None)
        for source in self._sources.values():
            number = source.identity.number
            source.expect_clearings(event for event in raised.values() if event.source == number)
        self._certificates.expect_clearings(event for event in raised.values() if event.source == GATEWAY)
        self._audit_heads.expect_clearings(event for event in raised.values() if event.source == GATEWAY)

    def tick(self, now: int) -> None:
        """Do the work that is due; called once a second."""
        self._out(self._event_log.tick(now))
        for slices in self._slices.values():
            slices.tick(now)

    def snapshot(self) -> tuple[Sequence[Record], int]:
        """Return every current record, immutable and in dependency order, and the sequence of the snapshot.

        The order is: classes, the event log, the gateway's own alarms, sources with their agents, the last
        ends of objects, objects, the last operations, the last events, active alarms.
        """
        sources = tuple(self._sources.values())
        records: list[Record] = [*self._classes.records(), *self._event_log.records()]
        records.extend(self._certificates.records())
        records.extend(self._audit_heads.records())
        for source in sources:
            records.extend(source.surroundings())
        records.extend(self._history.ends())
        for source in sources:
            records.extend(source.objects())
        records.extend(self._history.operations())
        records.extend(self._history.events())
        for source in sources:
            records.extend(source.alarms())
        return records, self._sequence

    def _out(self, records: list[Record]) -> None:
        self._index.commit()  # before any row number is published
        if records:
            self._history.note(records)
            self._sequence += 1
            self._publish(Batch(self._epoch, self._sequence, tuple(records)))


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The settings of slices.

    Attributes:
        left: called when observations are left to be applied; it arranges a call of `BatchApplier.go_on`
            soon.
        size: the approximate number of objects of one slice.
    """

    left: Callable[[], None]
    size: int = SLICE


@dataclass(slots=True)
class _Body:
    """The rest of a message body, its time of receipt, and the agents whose loss it reports."""

    left: deque[Observation]
    now: int
    lost: frozenset[str] = field(default=frozenset())


class BatchApplier:
    """Applies the observations of one source, in slices.

    Args:
        source: the source that applies them.
        out: takes the records of each slice; it may cause new calls.
        slicing: the settings of slices; ``None`` applies each body at once.
    """

    def __init__(
        self, source: SourceInventory, out: Callable[[list[Record]], None], slicing: BatchSettings | None
    ) -> None:
        self._source = source
        self._out = out
        self._slicing = slicing
        self._losses = source.agents.pending_losses
        self._waiting: deque[_Body | Callable[[], None]] = deque()
        self._is_at_work = False

    @property
    def is_busy(self) -> bool:
        """Whether observations are left."""
        return bool(self._waiting)

    def observed(self, observations: Iterable[Observation], now: int) -> None:
        """Apply the observations of one message body, or let them wait for their turn."""
        body = _Body(deque(observations), now)
        if self._waiting:
            # A loss that waits behind other bodies counts at once: nothing of the agent is fresh until then.
            body.lost = frozenset(_lost_by(body.left))
            self._losses.update(body.lost)
            if body.lost:
                self._out(self._source.mark_pending_losses(now))
        self._waiting.append(body)
        self.go_on()

    def afterwards(self, do: Callable[[], None]) -> None:
        """Call ``do`` when all earlier observations are applied; at once if they are."""
        self._waiting.append(do)
        self.go_on()

    def tick(self, now: int) -> None:
        """Do the work that is due; called once a second."""
        # What is due may depend on the observations that still wait.
        if not self._waiting:
            self._source.tick(now)
            self.observed((), now)

    def go_on(self) -> None:
        """Apply the next slice."""
        if self._is_at_work:
            return  # a slice has caused this call: it follows the slice
        slicing, source = self._slicing, self._source
        room = slicing.size if slicing is not None and len(self._waiting) <= MAX_WAITING else None
        self._is_at_work = True
        try:
            while self._waiting and (room is None or room > 0):
                first = self._waiting[0]
                if not isinstance(first, _Body):
                    self._waiting.popleft()
                    first()
                    continue
                if first.lost:
                    self._losses -= Counter(first.lost)
                    first.lost = frozenset()
                try:
                    records, steps = source.apply(first.left, first.now, room)
                # A body that cannot be applied must not be tried again for ever.
                except BaseException:
                    self._waiting.popleft()
                    raise
                if not (first.left or source.steps.left):
                    self._waiting.popleft()
                # A body without objects takes time, too.
                room = None if room is None else room - max(1, steps)
                self._out(records)
        finally:
            self._is_at_work = False
        if self._waiting and slicing is not None:
            slicing.left()


def _lost_by(observations: Iterable[Observation]) -> Iterable[str]:
    """Yield the agents whose loss these observations report."""
    for one in observations:
        if isinstance(one, AgentLost | AgentGone):
            yield one.agent
        elif isinstance(one, SourceStateSeen) and one.state in UNREACHED:
            yield EVERY_AGENT


class History:
    """The last events, ends and operations of each source, the oldest first; older ones are dropped.

    Operations in progress are kept: their number is limited where they begin.

    Args:
        limits: of each source; the gateway itself counts as one.
    """

    def __init__(self, limits: HistoryLimits | None = None) -> None:
        limits = limits or HistoryLimits()
        self._events: _LatestRecords[EventRecord] = _LatestRecords(limits.events, limits.octets)
        self._ends: _LatestRecords[DeleteRecord] = _LatestRecords(limits.ends, limits.octets)
        self._made: tuple[EventsMadeRecord, ...] = ()
        self._under_way: dict[int, OperationRecord] = {}
        self._operations: dict[int, OperationRecord] = {}
        self._latest_operations: Latest[int] = Latest(limits.operations, limits.octets)

    def note(self, records: Iterable[Record]) -> None:
        """Keep those of ``records`` that later snapshots contain."""
        for record in records:
            if isinstance(record, EventRecord):
                self._events.note(record)
            elif isinstance(record, DeleteRecord):
                if record.number:  # otherwise it continues in another version of its class
                    self._ends.note(record)
            elif isinstance(record, OperationRecord):
                self._note_operation(record)

    def recall(self, events: Iterable[EventRecord], made: Mapping[int, int]) -> None:
        """Take events of earlier cores; ``made`` is the last number of each core, by epoch."""
        self.note(events)
        self._made = tuple(EventsMadeRecord(*each) for each in sorted(made.items()))

    def _note_operation(self, record: OperationRecord) -> None:
        if record.state is OperationState.BEGUN:
            self._under_way[record.number] = record
            return
        self._under_way.pop(record.number, None)
        self._operations[record.number] = record
        for left in self._latest_operations.put(record.source, record.number, memory_of(record)):
            del self._operations[left]

    def operations(self) -> list[OperationRecord]:
        """Return the last operations, each in its last state, in the order of their numbers."""
        known = self._operations | self._under_way
        return [known[number] for number in sorted(known)]

    def events(self) -> list[EventRecord | EventsMadeRecord]:
        """Return the last events, in order; the number of a core's events follows them."""
        return list(self._with_made())

    def _with_made(self) -> Iterator[EventRecord | EventsMadeRecord]:
        made = deque(self._made)
        for event in self._events.all():
            while made and (not event.boot or made[0].boot < event.boot):
                yield made.popleft()
            yield event
        yield from made

    def ends(self) -> list[DeleteRecord]:
        """Return the last ends of objects, in order."""
        return self._ends.all()

    def forget(self, source: int) -> None:
        """Drop everything of a source that was removed: a new subscriber could not know the source."""
        self._events.forget(source)
        self._ends.forget(source)
        for number in self._latest_operations.forget(source):
            del self._operations[number]
        for number in [n for n, operation in self._under_way.items() if operation.source == source]:
            del self._under_way[number]


class _LatestRecords(Generic[_Ended]):
    """Records of one kind over all sources, in the order in which they came."""

    def __init__(self, most: int, octets: int) -> None:
        self._records: dict[int, _Ended] = {}
        self._latest: Latest[int] = Latest(most, octets)
        self._came = 0

    def note(self, record: _Ended) -> None:
        self._came += 1
        self._records[self._came] = record
        for left in self._latest.put(record.source, self._came, memory_of(record)):
            del self._records[left]

    def all(self) -> list[_Ended]:
        return list(self._records.values())

    def forget(self, source: int) -> None:
        for left in self._latest.forget(source):
            del self._records[left]


class EventLogCondition:
    """The state of the gateway's own event log in the feed, with the events and the alarm of its failures.

    Nothing of this is written to the instance index, because its disk may be the one that is full. So the
    alarm does not outlive a core; a new core reports once that the log is written, which clears the earlier
    alarm.

    Args:
        recorder: makes the events.
        ids: allocates the numbers of alarms.
    """

    def __init__(self, recorder: EventRecorder, ids: IdAllocator) -> None:
        self._ids = ids
        self._recorder = recorder
        # Allocated before there is trouble, while the disk has room.
        self._next_alarm = ids.alarm()
        self._alarm: AlarmRecord | None = None
        self._trouble = EventLogState.WRITING
        self._written = False
        self._record: EventLogRecord | None = None
        self._well_since = 0

    def records(self) -> Iterator[Record]:
        """Yield the present state, for a snapshot."""
        if self._record is not None:
            yield self._record
        if self._alarm is not None:
            yield self._alarm

    def stands(self, record: EventLogRecord, now: int) -> list[Record]:
        """Take the state of the log; return the records to publish."""
        out: list[Record] = [record] if record != self._record else []
        former, self._record = self._record, record
        if record.state not in _WELL:
            if self._alarm is None or record.state is not self._trouble:
                out += self._trouble_began(record, now)
        elif former is None or former.state not in _WELL:
            self._well_since = now
        return out + self.tick(now)

    def tick(self, now: int) -> list[Record]:
        """Publish the end of trouble that has not returned for a while."""
        record = self._record
        if record is None or record.state is not EventLogState.WRITING:
            return []
        if self._alarm is None:
            return [] if self._written else [self._written_event("the event log is written", record, now)]
        if 0 <= now - self._well_since < HOLD:
            return []
        alarm, self._alarm = self._alarm, None
        self._ids.alarm_over(alarm.number)
        self._next_alarm = self._ids.alarm()
        lasted = duration_text(max(0, self._well_since - alarm.raised))
        lost = f", {record.lost} records lost since the core's start" if record.lost else ""
        event = self._written_event(f"the event log is written again after {lasted}{lost}", record, now)
        return [event, msgspec.structs.replace(alarm, cleared=now)]

    def _trouble_began(self, record: EventLogRecord, now: int) -> list[Record]:
        """Raise the alarm; for trouble of another kind change it."""
        self._trouble = record.state
        text = f"event log: {record.state.value}"
        event = self._recorder.own(
            LOG_TROUBLE,
            (record.state.value, record.detail, record.lost),
            _SEVERITIES.get(record.state, Severity.MAJOR),
            one_line(f"{text}: {record.detail}" if record.detail else text),
            now,
            state=EventState.RAISED,
            condition=CONDITION,
        )
        self._alarm = own_alarm(CONDITION, event, self._alarm, lambda: self._next_alarm)
        return [event, self._alarm]

    def _written_event(self, text: str, record: EventLogRecord, now: int) -> EventRecord:
        self._written = True
        return self._recorder.own(
            LOG_WRITTEN,
            (record.lost,),
            Severity.CLEARED,
            one_line(text),
            now,
            state=EventState.CLEARED,
            condition=CONDITION,
        )
