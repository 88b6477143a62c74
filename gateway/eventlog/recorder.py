"""The recorder: decides what of each batch of the feed is recorded in the log, and when.

It uses no file, no clock and no loop: it takes batches and the time, and returns records. Creations, ends,
events and changes of properties are recorded at once. Statistics are recorded once in an interval for each
object, merged to the latest, at instants that are spread over the interval; when an object ends, its waiting
values are recorded first. For sources of the `LastState` that is given, objects and counters go on from their
records before the start. Objects of another source that are seen before it was read whole existed already,
and are snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

import msgspec

from gateway.eventlog.last_state import LastState
from gateway.eventlog.logged_events import (
    LoggedClass,
    LoggedEvent,
    LoggedSource,
    RestoredSource,
    absence_of,
    agent_gone_record,
    agent_record,
    event_record,
    gap_record,
    merged_record,
)
from gateway.eventlog.logged_objects import SLOT, LoggedObject, Schedule
from gateway.eventlog.logged_operations import (
    LoggedOperations,
    Reloaded,
    heads_file_record,
    login_record,
    reload_record,
)
from gateway.eventlog.record import AnyRecord, LogRecord, RecordKind, known_time, microseconds_text, object_id
from gateway.eventlog.waiting import Pressure
from gateway.feed.operations import LoginReport, OperationRecord
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    Batch,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventRecord,
    GapRecord,
    Lifetime,
    ObjectRecord,
    SourceRecord,
    UpdateRecord,
)
from gateway.model.observations import TRUSTED, Counting, SourceState
from gateway.model.source_kinds import source_kind
from gateway.model.times import SECOND

STEP_OBJECTS: Final = 100
"""The number of objects that one call of `LogRecorder.tick` looks at: one or two milliseconds' worth."""

STRETCH: Final = 4
"""The factor by which statistics are recorded less often under pressure."""

_Key: TypeAlias = tuple[str, str]
"""The key of an object: ``package:class`` and name."""


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """The settings of the recorder.

    Attributes:
        statistics_interval: nanoseconds between two records of one object's statistics, at least. Below
            `SLOT` each change is recorded.
        statistics_intervals: the same for some classes: patterns of ``package:class`` as of a shell, the
            first that fits counts.
        same_as: by the name of a source: the other source that reads the same broker, if there is one.
        withheld: returns the receivers of notifications to whom their roles do not let an event be sent; the
            second argument is the name of its source, empty for the gateway itself.
    """

    statistics_interval: int = 60 * SECOND
    statistics_intervals: Mapping[str, int] = field(default_factory=dict)
    same_as: Mapping[str, str] = field(default_factory=dict)
    withheld: Callable[[EventRecord, str], Collection[str]] = lambda _event, _source: ()

    def interval(self, class_name: str) -> int:
        """Return the interval of a class (``package:class``)."""
        for pattern, interval in self.statistics_intervals.items():
            if fnmatchcase(class_name, pattern):
                return interval
        return self.statistics_interval


class LogRecorder:
    """Selects the records of the log from the feed.

    Args:
        settings: its settings.
        former: the state of sources at the end of the log.
        own_gaps: names of the sources that record gaps of their own for the time since.

    Attributes:
        pressure: the log's pressure, to be kept up to date: under ``MERGE`` statistics are recorded less
            often; under ``FULL`` only creations, ends and events are recorded, and what is taken back; other
            changes wait, merged to the latest.
        refused: the number of records about something unknown: a fault of ours.
    """

    def __init__(
        self, settings: RecorderSettings, former: LastState | None = None, own_gaps: Collection[str] = ()
    ) -> None:
        self.pressure = Pressure.NONE
        self.refused = 0
        self._settings = settings
        self._classes: dict[int, LoggedClass] = {}
        self._schemas_recorded: set[int] = set()
        self._events: dict[int, LoggedEvent] = {}
        self._sources: dict[int, LoggedSource] = {}
        self._agents: dict[tuple[int, str], AgentRecord] = {}
        self._outdated: dict[tuple[int, str], tuple[str, ...]] = {}
        self._objects: dict[tuple[int, int], dict[int, LoggedObject]] = {}
        # Those that go on in another version of their class, which follows: by source, class and row.
        self._leaving: dict[tuple[int, str, int], tuple[LoggedObject, DeleteRecord]] = {}
        self._operations = LoggedOperations()
        self._schedule = Schedule()
        self._former = RestoredObjects(former)
        # Each of these gets one gap for the time before the start, when it is known how that ended.
        self._unheard = self._former.sources - set(own_gaps)
        self._now = 0
        self._ingest_ts = ""
        self._out: list[AnyRecord] = []
        self._merged = 0
        self._merging_since = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            SourceRecord: self._take_source,
            ClassRecord: self._take_class,
            EventClassRecord: self._take_event_class,
            AgentRecord: self._take_agent,
            AgentGoneRecord: self._agent_gone,
            ObjectRecord: self._take_object,
            UpdateRecord: self._object_updated,
            DeleteRecord: self._object_deleted,
            EventRecord: self._take_event,
            GapRecord: self._take_gap,
            OperationRecord: self._take_operation,
        }

    def __len__(self) -> int:
        """Return the number of living objects."""
        return sum(map(len, self._objects.values()))

    @property
    def wake_at(self) -> int | None:
        """The time when `tick` has work, in nanoseconds of the gateway's clock; ``None`` for never."""
        times = [
            source.recorded_at + self._settings.statistics_interval
            for source in self._sources.values()
            if source.pending
        ]
        if self._former.has_vanished:
            times.append(self._now)
        due = self._schedule.wake_at
        if due is not None and self.pressure is not Pressure.FULL:
            times.append(due)
        return min(times, default=None)

    def apply(self, batch: Batch, now: int) -> list[AnyRecord]:
        """Return the records to be made of a batch.

        Args:
            batch: the next one.
            now: nanoseconds since 1970-01-01 UTC, the gateway's clock.
        """
        self._set_clock(now)
        for record in batch.records:
            handler = self._handlers.get(type(record))
            if handler is not None:  # alarms are recorded as the events that raise and clear them
                handler(record)
        for logged, end in self._leaving.values():
            self._out.append(logged.end(end, self._ingest_ts))
        self._leaving.clear()
        return self._take()

    def login(self, report: LoginReport, now: int) -> list[AnyRecord]:
        """Return the records to be made of logins.

        Args:
            report: the report of a front end.
            now: nanoseconds since 1970-01-01 UTC, the gateway's clock.
        """
        self._set_clock(now)
        self._out.append(login_record(report, self._ingest_ts))
        return self._take()

    def heads_file(self, file: str, now: int) -> list[AnyRecord]:
        """Return the record to be made of the file that gets signed heads from now on; ``now`` as below."""
        self._set_clock(now)
        self._out.append(heads_file_record(self._ingest_ts, file))
        return self._take()

    def reloaded(
        self, reloaded: Reloaded, principal: str, changes: Sequence[str], now: int
    ) -> list[AnyRecord]:
        """Return the record to be made of a reload of the configuration.

        Args:
            reloaded: what was changed.
            principal: who requested it.
            changes: what differs, in words.
            now: nanoseconds since 1970-01-01 UTC, the gateway's clock.
        """
        self._set_clock(now)
        self._out.append(reload_record(self._ingest_ts, reloaded, principal, changes))
        return self._take()

    def tick(self, now: int) -> list[AnyRecord]:
        """Return the records that are due; only a part where they are many: then `wake_at` is past already.

        Args:
            now: nanoseconds since 1970-01-01 UTC, the gateway's clock.
        """
        self._set_clock(now)
        for source in self._sources.values():
            if source.pending and now - source.recorded_at >= self._settings.statistics_interval:
                self._out.append(source.recorded(self._ingest_ts, now))
        for former in self._former.vanished(STEP_OBJECTS):
            self._out.append(ended(former, self._ingest_ts))
        if self.pressure is not Pressure.FULL:
            for _ in range(STEP_OBJECTS):
                logged = self._schedule.take(now)
                if logged is None:
                    break
                self._record_due(logged)
        return self._take()

    def head(self, clock: Callable[[], int]) -> Iterator[AnyRecord]:
        """Yield the whole state for the head of a segment, made while it is read.

        Each record has the state of the time when it is made; an object that has ended by then has none. The
        waiting changes of an object stand before its snapshot, so that deltas still add up.

        Args:
            clock: returns the time, in nanoseconds since 1970-01-01 UTC.
        """
        # Classes that get their first objects while the head is written are left out: these have records of
        # their own.
        tables = tuple(self._objects.values())
        yield from self._operations.standing(clock)
        # Only classes with objects: each segment's head would otherwise repeat every version that was ever
        # received.
        self._schemas_recorded = {number for _, number in self._objects}
        for number in sorted(self._schemas_recorded):
            yield self._classes[number].schema_record(_text(clock()))
        for event in tuple(self._events.values()):
            yield event.schema_record(_text(clock()))
        for source in tuple(self._sources.values()):
            now = clock()
            yield source.recorded(_text(now), now)
        for agent in tuple(self._agents.values()):
            outdated = self._outdated.get((agent.source, agent.agent), ())
            yield agent_record(agent, self._source(agent.source), _text(clock()), outdated)
        for former in self._former:
            yield standing(former, _text(clock()))
        for rows in tables:
            for logged in tuple(rows.values()):
                yield from self._standing(logged, clock)

    def _standing(self, logged: LoggedObject, clock: Callable[[], int]) -> Iterator[AnyRecord]:
        while logged.alive:
            ingest_ts = _text(clock())
            change = logged.change(logged.pending, ingest_ts) if logged.pending else None
            if change is None:
                yield logged.whole(RecordKind.SNAPSHOT, ingest_ts)
                return
            yield change

    # ---- records of the feed --------------------------------------------------------------------------

    def _take_source(self, record: SourceRecord) -> None:
        source = self._sources.get(record.number)
        if source is None:
            source = self._sources[record.number] = LoggedSource(
                record, self._former.source(record.name), self._settings.same_as.get(record.name, "")
            )
        unheard_since = source.complete_until
        if source.update(record):
            self._out.append(source.recorded(self._ingest_ts, self._now))
        if unheard_since and source.complete_until != unheard_since and record.name in self._unheard:
            self._unheard.discard(record.name)
            # The source records by itself what is missed from there on.
            until = source.complete_until or self._now
            since = unheard_since - source.unproven
            self._out.append(absence_of(record, since, until, self._ingest_ts))
        agents = [one for (number, _), one in self._agents.items() if number == record.number]
        if record.state is SourceState.SYNCHRONISED:
            self._former.read_whole(record.name, {one.agent for one in agents if not one.fresh})
        elif record.state in TRUSTED:
            for one in agents:
                if one.fresh:
                    self._former.agent_read(record.name, one.agent)

    def _take_class(self, record: ClassRecord) -> None:
        if record.number in self._classes:
            return
        interval = self._settings.interval(str(record.schema.key))
        logged_class = self._classes[record.number] = LoggedClass(record, interval)
        self._record_schema(logged_class)

    def _record_schema(self, logged_class: LoggedClass) -> None:
        """Record the schema of a class, once in each segment that has objects of it."""
        if logged_class.number not in self._schemas_recorded:
            self._schemas_recorded.add(logged_class.number)
            self._out.append(logged_class.schema_record(self._ingest_ts))

    def _take_event_class(self, record: EventClassRecord) -> None:
        if record.number in self._events:
            return
        event = self._events[record.number] = LoggedEvent(record)
        self._out.append(event.schema_record(self._ingest_ts))

    def _take_agent(self, record: AgentRecord) -> None:
        key = (record.source, record.agent)
        former, was_outdated = self._agents.get(key), self._outdated.get(key, ())
        outdated = record.outdated_classes(self._now)
        self._agents[key], self._outdated[key] = record, outdated
        source = self._source(record.source)
        # A confirmation comes as a record, too: only a change of freshness is one for the log.
        is_known = former is not None and (former.fresh, former.since) == (record.fresh, record.since)
        if not is_known or was_outdated != outdated:
            self._out.append(agent_record(record, source, self._ingest_ts, outdated))
        is_read = source is not None and source.state in TRUSTED
        if not is_known and record.fresh and source is not None and is_read:
            self._former.agent_read(source.name, record.agent)

    def _agent_gone(self, record: AgentGoneRecord) -> None:
        self._outdated.pop((record.source, record.agent), None)
        if self._agents.pop((record.source, record.agent), None) is not None:
            self._out.append(agent_gone_record(record, self._source(record.source), self._ingest_ts))
        source = self._sources.get(record.source)
        if source is not None:
            # Objects of another agent under its name may be older, and have counted unobserved since.
            source.read_whole_since = source.read_whole_since and self._now
            self._former.agent_read(source.record.name, record.agent)

    def _take_object(self, record: ObjectRecord) -> None:
        logged_class = self._classes.get(record.class_number)
        source = self._sources.get(record.source)
        if logged_class is None or source is None:
            self.refused += 1
            return
        rows = self._objects.setdefault((record.source, record.class_number), {})
        logged = rows.get(record.row)
        if logged is None:
            self._record_schema(logged_class)
            logged = LoggedObject(record, logged_class, source.record.name, source.record.kind)
            rows[record.row] = logged
            before = self._leaving.pop((record.source, logged_class.name, record.row), None)
            if before is not None:
                bits = logged.succeed(before[0], record.counting, self._now)
                self._changed(logged, bits, at_once=bool(bits) or logged.moved)
                return
            met = self._former.meet(source.record.name, logged_class.name, record, self._ingest_ts)
            if met.ended is not None:
                self._out.append(met.ended)
            if met.former is not None:
                # Readers that pass over snapshots miss nothing of what counters gained.
                counting = _counting(record, met.former)
                presumed = _is_presumed(record, met.former)
                self._record(logged, logged.resume(met.former, counting, self._now, presumed=presumed))
            kind = met.kind or (RecordKind.CREATE if source.read_whole else RecordKind.SNAPSHOT)
            # One that only became visible now has a value that it had gained before.
            if kind is RecordKind.CREATE and 0 < source.read_whole_since <= record.created:
                logged.count_from_zero(record.counting)
            self._out.append(logged.whole(kind, self._ingest_ts))
            if logged.held:
                self._plan(logged)
            return
        if logged.is_cut_off(record, self._now):
            self._record_before(logged)
        bits = logged.refresh(record, self._now)
        self._changed(logged, bits, at_once=bool(bits) or logged.moved)

    def _object_updated(self, record: UpdateRecord) -> None:
        logged = self._objects.get((record.source, record.class_number), {}).get(record.row)
        if logged is None:
            self.refused += 1
            return
        if logged.is_cut_off(record, self._now):
            self._record_before(logged)
        bits = logged.update(record, self._now)
        self._changed(logged, bits, at_once=bool(bits))

    def _object_deleted(self, record: DeleteRecord) -> None:
        rows = self._objects.get((record.source, record.class_number), {})
        logged = rows.pop(record.row, None)
        if logged is None:
            self.refused += 1
            return
        logged.alive = False
        self._schedule.remove(logged)
        logged.settle()
        if logged.pending:
            self._record(logged, logged.pending)
        if record.number:
            self._out.append(logged.end(record, self._ingest_ts))
        else:
            self._leaving[record.source, logged.logged_class.name, record.row] = logged, record
        if not rows:
            del self._objects[record.source, record.class_number]

    def _take_event(self, record: EventRecord) -> None:
        event = self._events.get(record.class_number)
        if event is None:
            self.refused += 1
            return
        source = self._sources.get(record.source)
        if source is not None and record.agent and record.time:
            source.event_delays.note(self._now - record.time, self._now)
        published_by = None if source is None else source.record
        withheld = self._settings.withheld(record, "" if published_by is None else published_by.name)
        self._out.append(event_record(record, event, published_by, self._ingest_ts, withheld))

    def _take_gap(self, record: GapRecord) -> None:
        self._out.append(gap_record(record, self._source(record.source), self._ingest_ts))

    def _take_operation(self, record: OperationRecord) -> None:
        source = self._source(record.source)
        self._out.append(self._operations.record(record, source, self._ingest_ts, self._now))

    # ---- what waits -----------------------------------------------------------------------------------

    def _changed(self, logged: LoggedObject, bits: int, *, at_once: bool) -> None:
        """Record these ``bits`` at once, if requested and possible; the rest waits."""
        # It waits, merged to the latest, and is counted: the log says that changes are missing.
        if at_once and self.pressure is Pressure.FULL and not logged.urgent:
            self._merging_since = self._merging_since or self._now
            self._merged += 1
        elif at_once:
            self._record(logged, bits)
        waits = logged.pending & ~logged.held or logged.moved
        if waits and logged.logged_class.interval < SLOT and self.pressure is Pressure.NONE:
            self._record(logged, logged.pending)
        if logged.pending or logged.moved:
            self._plan(logged)

    def _plan(self, logged: LoggedObject) -> None:
        """Schedule an object for its next due time, if it has none: each has its own place in the interval.

        One of which only counters wait that fell is due when they are settled.
        """
        if logged.slot:
            return
        interval = max(logged.logged_class.interval, SLOT)
        waits = logged.pending & ~logged.held or logged.moved
        since = self._now if waits else max(self._now, logged.settles_at)
        self._schedule.add(logged, since + (logged.phase(interval) - since) % interval)

    def _record_due(self, logged: LoggedObject) -> None:
        if self.pressure is Pressure.MERGE:
            interval = max(logged.logged_class.interval, SLOT)
            # Another quarter of the objects in each interval, so that the load stays even.
            if (self._now - logged.phase(interval)) // interval % STRETCH != logged.row % STRETCH:
                self._plan(logged)
                return
        logged.settle_due(self._now)
        self._record(logged, logged.pending)
        if logged.held:
            self._plan(logged)

    def _record_before(self, logged: LoggedObject) -> None:
        """Record what waits, because a counter does not go on from it with the next change."""
        if logged.urgent or self.pressure is not Pressure.FULL:
            self._record(logged, logged.pending)

    def _record(self, logged: LoggedObject, bits: int) -> None:
        record = logged.change(bits, self._ingest_ts)
        if record is not None:
            self._out.append(record)

    # ---- time -----------------------------------------------------------------------------------------

    def _set_clock(self, now: int) -> None:
        back = now < self._now
        self._now, self._ingest_ts = now, _text(now)
        if back:  # what waits for a time that was must not wait until it comes again
            for logged in self._schedule.take_all():
                logged.settle_due(now)  # what fell at a time that was fell now
                self._plan(logged)
            for source in self._sources.values():
                source.recorded_at = min(source.recorded_at, now)
        if self._merged and self.pressure is not Pressure.FULL:
            self._out.append(merged_record(self._merged, self._merging_since, now, self._ingest_ts))
            self._merged = self._merging_since = 0

    def _source(self, number: int) -> SourceRecord | None:
        source = self._sources.get(number)
        return source.record if source is not None else None

    def _take(self) -> list[AnyRecord]:
        out, self._out = self._out, []
        return out


def _is_presumed(record: ObjectRecord, former: LogRecord) -> bool:
    """Return whether only its name shows that an object is the one that was recorded before."""
    return record.presumed or _is_other(record, former)


def _is_other(record: ObjectRecord, former: LogRecord) -> bool:
    """Return whether an object without a time of creation has another native id than before."""
    dated = record.created and former.create_ts is not None
    return not dated and record.native_id != former.native_id


def _counting(record: ObjectRecord, former: LogRecord) -> Counting:
    """Return how the counters of an object relate to the recorded ones; another agent may have counted.

    Those of another run of its broker have begun from zero.
    """
    if not _is_other(record, former):
        return record.counting
    kind = source_kind(former.dialect)
    run, before = kind.run_of(record.native_id), kind.run_of(former.native_id or "")
    return Counting.BEGAN if run and before and run != before else Counting.UNKNOWN


def _text(now: int) -> str:
    text = microseconds_text(now)
    assert text is not None, "the gateway's clock shows a year that RFC 3339 has no form for"
    return text


@dataclass(frozen=True, slots=True)
class Meeting:
    """A comparison of an object, seen for the first time since the log ended, with the end of the log.

    Attributes:
        kind: the kind of its record, ``create`` or ``snapshot``; ``None`` where the log does not show
            whether it is new.
        ended: the ``delete`` record of another object that had its name before, if there was one.
        former: the last record of this object, if it existed before.
    """

    kind: RecordKind | None = None
    ended: LogRecord | None = None
    former: LogRecord | None = None


class RestoredObjects:
    """The objects of some sources at the end of the log.

    Args:
        state: the state at the end of the log.
    """

    def __init__(self, state: LastState | None) -> None:
        state = state or LastState()
        self._complete_until = state.complete_until
        self._event_delay = state.event_delay
        self._unproven = state.unproven
        self._read_whole = state.read_whole
        # With a hole in what was read, an object that the log does not show may have been there.
        self._news = set(state.read_whole) if state.is_complete else set()
        self._sources: dict[str, dict[_Key, LogRecord]] = {source: {} for source in state.complete_until}
        self._passing: dict[str, dict[_Key, _Key]] = {}
        self._gone: dict[str, dict[_Key, LogRecord]] = {}
        for record in state.objects.values():
            source = record.source or ""
            key = f"{record.package}:{record.class_name}", record.object_name or ""
            self._sources.setdefault(source, {})[key] = record
            if source_kind(record.dialect).one_of_a_name and record.lifetime == Lifetime.TRANSIENT.value:
                # The stable name of a transient object ends in # and its creation time.
                self._passing.setdefault(source, {})[key[0], key[1].rpartition("#")[0]] = key

    def __iter__(self) -> Iterator[LogRecord]:
        """Yield the objects that have not been seen yet; others may be seen meanwhile."""
        for objects in (*self._sources.values(), *self._gone.values()):
            # A copy, because the head of a segment is written in slices, in between which objects are seen.
            for key in tuple(objects):
                if key in objects:
                    yield objects[key]

    @property
    def sources(self) -> set[str]:
        """The names of the sources in the log."""
        return set(self._complete_until)

    def source(self, name: str) -> RestoredSource:
        """Return the state of a source at the end of the log."""
        since = self._read_whole.get(name)
        return RestoredSource(
            self._complete_until.get(name, 0),
            since is not None,
            since or 0,
            self._event_delay.get(name, 0),
            self._unproven.get(name, 0),
        )

    def meet(self, source: str, class_name: str, record: ObjectRecord, ingest_ts: str) -> Meeting:
        """Compare an object that is seen for the first time since the log ended with the end of the log.

        Args:
            source: the name of its source.
            class_name: ``package:class``.
            record: its whole feed record.
            ingest_ts: now.
        """
        objects = self._sources.get(source)
        if objects is None:
            return Meeting()
        key = class_name, record.stable_name
        gone = self._gone.get(source, {}).pop(key, None)
        if gone is not None:
            return Meeting(RecordKind.CREATE, ended=ended(gone, ingest_ts))
        former = objects.pop(key, None)
        if former is None:
            other = self._of_that_name(source, class_name, record)
            kind = RecordKind.CREATE if source in self._news else None
            return Meeting(kind, ended=None if other is None else ended(other, ingest_ts))
        created = known_time(record.created)
        # Another creation time is another object, whatever its row is.
        if created is not None and former.create_ts is not None and created != former.create_ts:
            return Meeting(RecordKind.CREATE, ended=ended(former, ingest_ts))
        if former.object_id == object_id(source, class_name, record.row):
            return Meeting(RecordKind.SNAPSHOT, former=former)
        return Meeting(RecordKind.SNAPSHOT, ended=ended(former, ingest_ts))

    def _of_that_name(self, source: str, class_name: str, record: ObjectRecord) -> LogRecord | None:
        """Take out the former object of that name, where there is never more than one at a time."""
        passing = self._passing.get(source, {})
        lasts = record.lifetime is Lifetime.DURABLE
        name = record.stable_name if lasts else record.stable_name.rpartition("#")[0]
        for key in ((class_name, name), passing.get((class_name, name))):
            for objects in (self._sources[source], self._gone.get(source, {})):
                former = objects.get(key) if key is not None else None
                if key is not None and former is not None and source_kind(former.dialect).one_of_a_name:
                    return objects.pop(key)
        return None

    def read_whole(self, source: str, without: Collection[str] = ()) -> None:
        """Note that a source was read whole: its objects that were not seen are gone (`vanished`).

        Args:
            source: its name.
            without: agents that were not read, whose objects may still exist.
        """
        objects = self._sources.get(source, {})
        self._leave(source, [key for key, one in objects.items() if (one.agent or "") not in without])

    def agent_read(self, source: str, agent: str) -> None:
        """Note that an agent was read whole, or has ended: its objects that were not seen are gone."""
        objects = self._sources.get(source, {})
        self._leave(source, [key for key, one in objects.items() if (one.agent or "") == agent])

    def _leave(self, source: str, keys: Iterable[_Key]) -> None:
        for key in keys:
            self._gone.setdefault(source, {})[key] = self._sources[source].pop(key)

    @property
    def has_vanished(self) -> bool:
        """Whether `vanished` yields any object."""
        return bool(self._gone)

    def vanished(self, most: int) -> Iterator[LogRecord]:
        """Yield at most ``most`` of the objects that are gone, each once."""
        while most and self._gone:
            source = next(iter(self._gone))
            objects = self._gone[source]
            while most and objects:
                yield objects.pop(next(iter(objects)))
                most -= 1
            if not objects:
                del self._gone[source]


def standing(former: LogRecord, ingest_ts: str) -> LogRecord:
    """Return the last record of an object, with the present time."""
    return msgspec.structs.replace(former, ingest_ts=ingest_ts)


def ended(former: LogRecord, ingest_ts: str) -> LogRecord:
    """Return the inferred ``delete`` record of an object that is missing or replaced under its name."""
    return msgspec.structs.replace(
        former,
        kind=RecordKind.DELETE,
        ingest_ts=ingest_ts,
        inferred=True,
        sample_ts=None,
        sample_ns=None,
        reset_ts=None,
        values=None,
        absent=None,
        former=None,
    )
