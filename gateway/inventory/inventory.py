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
from typing import Final

import msgspec

from gateway.feed.latest import HistoryLimits
from gateway.feed.operations import OperationRecord
from gateway.feed.records import (
    AlarmRecord,
    Batch,
    EventClassRecord,
    EventLogRecord,
    EventLogState,
    EventRecord,
    ObjectRecord,
    Place,
    Record,
)
from gateway.inventory.agents import EVERY_AGENT
from gateway.inventory.alarms import own_alarm
from gateway.inventory.certificates import CertificateConditions, CertificateExpiry
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.events import MAX_TEXT_OCTETS, EventRecorder, duration_text, one_line
from gateway.inventory.history import History
from gateway.inventory.instances import GATEWAY, InstanceIndex
from gateway.inventory.own_conditions import (
    AuditHeadsCondition,
    LogLinesCondition,
    ProcessesCondition,
    StateDiskCondition,
)
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
from gateway.inventory.scope import IdAllocator, SourceIdentity, SourceScope
from gateway.inventory.source import UNREACHED, SourceInventory
from gateway.model import texts
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

CONDITION = "logTrouble"

HOLD = 10 * SECOND
"""Nanoseconds without trouble that end it, so that a disk that is slow at times is one condition."""

STANDSTILL: Final = 10 * SECOND
"""Nanoseconds without a tick, of one each second, after which the gateway is taken to have stood still."""

_SHOWN_CHANGES: Final = 5

LOG_IS_WELL = frozenset({EventLogState.OFF, EventLogState.WRITING})
"""The states of the event log that are no trouble."""

_SEVERITIES = {EventLogState.SLOW: Severity.WARNING, EventLogState.UPKEEP: Severity.WARNING}

SLICE: Final = 200
"""The approximate number of objects in one slice: ten milliseconds, with the work of feed and log."""

MAX_WAITING: Final = 10_000
"""The maximum number of message bodies that wait; if there are more, all are applied at once."""


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
        self._state_disk = StateDiskCondition(self._own_events, self._ids)
        self._log_lines = LogLinesCondition(self._own_events, self._ids)
        self._processes = ProcessesCondition(self._own_events, self._ids)
        self._own_conditions = (self._audit_heads, self._state_disk, self._log_lines, self._processes)
        self._history = History(limits)
        self._sequence = 0
        self._ticked_at = 0

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
        source = SourceInventory(
            SourceScope(identity, self._classes, self._index, self._ids), max_objects, whole=whole
        )
        self._sources[name] = source
        self._slices[identity.number] = BatchApplier(source, self._out, None if whole else self._slicing)
        return source

    def number_source(self, name: str) -> None:
        """Give a new source its number, without adding it.

        Raises:
            IndexNotWrittenError: the disk takes nothing.
        """
        self._index.source_number(name)

    def source(self, number: int) -> SourceInventory | None:
        """Return the source with this number."""
        return next((one for one in self._sources.values() if one.identity.number == number), None)

    def remove_source(self, source: SourceInventory, now: int) -> None:
        """Remove a source: its alarms are cleared, its objects removed, and snapshots do not contain it."""
        del self._sources[source.identity.name], self._slices[source.identity.number]
        self._out(source.remove(now))
        self._history.forget(source.identity.number)

    def ended_since(self, end: int, record: ObjectRecord) -> bool:
        """Return whether an earlier object in the row of ``record`` is known to have ended after that end."""
        name = self._classes.class_name
        return self._history.ended_since(end, record, lambda one, other: name(one) == name(other))

    def observed(self, source: SourceInventory, observations: Iterable[Observation], now: int) -> None:
        """Apply the observations of one message body of ``source``, and publish the resulting records.

        Many are applied in slices, and later observations of the source follow them.
        """
        self._notice_standstill(now)
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

    @property
    def log_alarm_is_raised(self) -> bool:
        """Whether the alarm of the event log is active, or one of an earlier core was not cleared yet."""
        return self._event_log.is_raised

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
        self._out(self._audit_heads.over(now))

    def log_lines_lost(self, lost: int, now: int) -> None:
        """Publish whether lines of the log are lost, as `LogLinesCondition.tick`."""
        self._out(self._log_lines.tick(lost, now))

    def process_ended(self, process: str, reason: str, now: int) -> None:
        """Publish that a process of the gateway ended without having been asked to."""
        text = one_line(f"the process {process} ended: {reason}")
        self._out([self._own_events.own(PROCESS_ENDED, (process, reason), Severity.WARNING, text, now)])

    def processes_not_started(self, reasons: Mapping[str, str], now: int) -> None:
        """Publish which processes of the gateway cannot be started, as `ProcessesCondition.not_started`."""
        self._out(self._processes.not_started(reasons, now))

    def gateway_stops(self, reason: str, now: int) -> None:
        """Publish that the gateway was asked to end."""
        self._notice_standstill(now)
        text = one_line(f"the gateway stops: {reason}")
        self._out([self._own_events.own(GATEWAY_STOPPING, (reason,), Severity.WARNING, text, now)])

    def policy_changed(self, by: str, changes: Sequence[str], now: int) -> None:
        """Publish that the roles of principals, or the clients of SNMP, were changed.

        Args:
            by: who requested it.
            changes: the rules that principals gained or lost, and what differs of clients, in words.
            now: nanoseconds of the gateway's clock.
        """
        first = f": {'; '.join(changes[:_SHOWN_CHANGES])}" if changes else ""
        reason = texts.one_line(f"{len(changes)} changes{first}", MAX_TEXT_OCTETS)
        text = one_line(f"{by} reloaded the policy: {reason}")
        self._out([self._own_events.own(POLICY_CHANGED, (by, reason), Severity.WARNING, text, now)])

    def mappings_changed(self, by: str, changes: Sequence[str], now: int) -> None:
        """Publish that mappings or override files were changed.

        Args:
            by: who requested it.
            changes: what differs, in words; at least one.
            now: nanoseconds of the gateway's clock.
        """
        reason = texts.one_line(
            f"{len(changes)} changes: {'; '.join(changes[:_SHOWN_CHANGES])}", MAX_TEXT_OCTETS
        )
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

    def recall(self, events: Iterable[EventRecord], made: Mapping[int, int], uncertain: int = 0) -> None:
        """Take events of earlier cores, which only snapshots contain.

        Alarms that were cleared without an event among them are reported by their sources.

        Args:
            events: the events that are still known, in order.
            made: number of the last event of each core, by its epoch, even if it is not known any more.
            uncertain: the epoch of the last of them that may have made more.
        """
        events = tuple(events)
        self._history.recall(events, made, uncertain)
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
        for condition in self._own_conditions:
            condition.expect_clearings(event for event in raised.values() if event.source == GATEWAY)
        if (GATEWAY, CONDITION) in raised:
            self.expect_log_clearing()

    def expect_log_clearing(self) -> None:
        """Take that an earlier core raised the alarm of the event log, and did not clear it."""
        self._event_log.expect_clearing()

    @property
    def last_place(self) -> Place:
        """The place of the last event."""
        return self._epoch, self._ids.events

    @property
    def sequence(self) -> int:
        """The number of batches that were published."""
        return self._sequence

    @property
    def source_names(self) -> dict[int, str]:
        """The names of all sources, by their numbers."""
        return {source.identity.number: source.identity.name for source in self._sources.values()}

    def former_sources(self) -> dict[str, int]:
        """Return the numbers of sources that are not configured any more, by name.

        Raises:
            InstanceIndexError: the index cannot be read.
        """
        every = self._index.sources()
        return {name: number for name, number in every.items() if name not in self._sources}

    def events_between(self, after: Place, until: Place) -> list[EventRecord]:
        """Return the events behind a place that are still in memory, up to another, in their order."""
        found = [
            event if event.boot else msgspec.structs.replace(event, boot=self._epoch)
            for event in self._history.last_events()
            if after < (event.boot or self._epoch, event.number) <= until
        ]
        return sorted(found, key=lambda event: (event.boot, event.number))

    def publish_event_classes(self, records: Sequence[EventClassRecord]) -> None:
        """Publish versions of events that no source has reported: of events that a front end asked for."""
        self._out(list(records))

    def tick(self, now: int) -> None:
        """Do the work that is due; called once a second."""
        self._notice_standstill(now)
        self._ticked_at = now
        self._out(self._event_log.tick(now))
        self._out(self._state_disk.tick(self._index.disk, self._index.trouble, now))
        for slices in self._slices.values():
            slices.tick(now)

    def _notice_standstill(self, now: int) -> None:
        """Publish first, if the gateway stood still, until when sources had received everything.

        Otherwise the records of what waited meanwhile would show that all went on.
        """
        since, self._ticked_at = self._ticked_at, self._ticked_at and now
        if since and now - since > STANDSTILL:
            for source in self._sources.values():
                self._out(source.stood_still(since, now))

    def snapshot(self) -> tuple[Sequence[Record], int]:
        """Return every current record, immutable and in dependency order, and the sequence of the snapshot.

        The order is: classes, the event log, the gateway's own alarms, sources with their agents, the last
        ends of objects, objects, the last operations, the last events, active alarms.
        """
        sources = tuple(self._sources.values())
        records: list[Record] = [*self._classes.records(), *self._event_log.records()]
        records.extend(self._certificates.records())
        for condition in self._own_conditions:
            records.extend(condition.records())
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


class BatchSettings(msgspec.Struct, frozen=True):
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


class EventLogCondition:
    """The state of the gateway's own event log in the feed, with the events and the alarm of its failures.

    Nothing of this is written to the instance index, because its disk may be the one that is full. So the
    alarm does not outlive a core. A new core reports once that the log is written: this clears the alarm of
    an earlier core, if one was raised and not cleared.

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
        self._written = self._is_unended = False
        self._record: EventLogRecord | None = None
        self._well_since = 0

    @property
    def is_raised(self) -> bool:
        """Whether the alarm is active, or one of an earlier core was not cleared yet."""
        return self._alarm is not None or self._is_unended

    def expect_clearing(self) -> None:
        """Take that an earlier core raised the alarm, and did not clear it."""
        self._is_unended = True

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
        if record.state not in LOG_IS_WELL:
            if self._alarm is None or record.state is not self._trouble:
                out += self._trouble_began(record, now)
        elif former is None or former.state not in LOG_IS_WELL:
            self._well_since = now
        return out + self.tick(now)

    def tick(self, now: int) -> list[Record]:
        """Publish the end of trouble that has not returned for a while."""
        record = self._record
        if record is None or record.state not in LOG_IS_WELL:
            return []
        if self._alarm is None:
            if self._written or (record.state is EventLogState.OFF and not self._is_unended):
                return []
            text = "the event log is off" if record.state is EventLogState.OFF else "the event log is written"
            return [self._written_event(text, record, now, is_end=self._is_unended)]
        if 0 <= now - self._well_since < HOLD:
            return []
        alarm, self._alarm = self._alarm, None
        self._ids.alarm_over(alarm.number)
        self._next_alarm = self._ids.alarm()
        lasted = duration_text(max(0, self._well_since - alarm.raised))
        lost = f", {record.lost} records lost since the core's start" if record.lost else ""
        text = f"the event log is written again after {lasted}{lost}"
        event = self._written_event(text, record, now, is_end=True)
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

    def _written_event(self, text: str, record: EventLogRecord, now: int, *, is_end: bool) -> EventRecord:
        """Return the event that the log is written; ``is_end``: an alarm was raised, and ends with it."""
        self._written, self._is_unended = True, False
        return self._recorder.own(
            LOG_WRITTEN,
            (record.lost,),
            Severity.CLEARED if is_end else Severity.INFO,
            one_line(text),
            now,
            state=EventState.CLEARED if is_end else EventState.ONE_SHOT,
            condition=CONDITION if is_end else "",
        )
