"""The state at the end of the log, for a gateway's start: objects, sources, events, operations, deliveries.

Each segment's head has the whole state, so the records from the last whole head on are enough. Only the
requested sources are read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import structlog

from gateway.eventlog.block import DamageError
from gateway.eventlog.logged_events import EVENT_DELAY, READ_WHOLE, READ_WHOLE_SINCE, RECEIVED_UNTIL, UNHEARD
from gateway.eventlog.record import LogRecord, RecordKind, microseconds_text, nanoseconds_of
from gateway.eventlog.segment import Segment, list_segments, read_segment, standing_segments, standing_seq
from gateway.feed.operations import OperationState
from gateway.file_owners import reason_of
from gateway.model.observations import (
    EVENT_DELAY_BOUNDS,
    LONGEST_AGENT_DELAY,
    EventDelays,
    SourceState,
)
from gateway.model.source_kinds import source_kind
from gateway.model.times import SECOND

log = structlog.get_logger(__name__)

MAX_DELIVERIES: Final = 100_000
"""The maximum number of remembered identities of deliveries: many times what a broker delivers again."""

YOUNG: Final = 60 * SECOND
"""The maximum lag of a listing of a broker, in nanoseconds."""

_ATTEMPTS: Final = 3
_HEAD_SECONDS: Final = 60.0
"""The time span of a segment from which its head is whole, in a log of an earlier version."""

_UNHEARD: Final = frozenset(state.value for state in UNHEARD)
_MADE_AT_ONCE: Final = frozenset({RecordKind.EVENT, RecordKind.CREATE, RecordKind.DELETE})


@dataclass(slots=True)
class LastState:
    """The state of some sources at the end of the log.

    Attributes:
        objects: the living ones by ``object_id``, each with all its known fields; ``kind`` is ``snapshot``.
        complete_until: by source: the time up to which everything is recorded, nanoseconds since 1970 UTC.
            Absent where the source is not in the log.
        read_whole: sources all of whose objects were recorded at one time at least, and the first such time,
            nanoseconds since 1970 UTC, 0 where it is not known. An object of them that is not in the log
            is new.
        deliveries: of durable subscriptions of any source, with records in the log; the last ones, in order.
        is_complete: no object that lived is missing.
        event_delay: by source: the longest delay of the last events of an agent, in nanoseconds.
        unproven: by source: nanoseconds by which what was missed may begin earlier than `complete_until`,
            because no proof of that time was recorded (`SourceKind.unproven`).
        young: by ``object_id``: the time of creation, by the gateway's clock, of objects whose creation was
            recorded within `YOUNG` before the end.
    """

    objects: dict[str, LogRecord] = field(default_factory=dict)
    complete_until: dict[str, int] = field(default_factory=dict)
    read_whole: dict[str, int] = field(default_factory=dict)
    deliveries: dict[str, None] = field(default_factory=dict)
    is_complete: bool = True
    event_delay: dict[str, int] = field(default_factory=dict)
    unproven: dict[str, int] = field(default_factory=dict)
    young: dict[str, int] = field(default_factory=dict)

    def of(self, source: str) -> Iterator[LogRecord]:
        """Return an iterator over the living objects of a source."""
        return (record for record in self.objects.values() if record.source == source)

    def by_source(self) -> dict[str, LastState]:
        """Return a state for each source alone, without deliveries."""
        states = {
            name: LastState({}, {name: until}, is_complete=self.is_complete)
            for name, until in self.complete_until.items()
        }
        for name in states.keys() & self.read_whole.keys():
            states[name].read_whole[name] = self.read_whole[name]
        for name in states.keys() & self.unproven.keys():
            states[name].unproven[name] = self.unproven[name]
        for object_id, record in self.objects.items():
            state = states.get(record.source or "")
            if state is None:
                state = states[record.source or ""] = LastState(is_complete=self.is_complete)
            state.objects[object_id] = record
            if object_id in self.young:
                state.young[object_id] = self.young[object_id]
        return states


def last_state(folder: Path, sources: Collection[str]) -> LastState:
    """Return the state at the end of the log in ``folder``; damaged records are passed over.

    Args:
        folder: the log's folder; it need not exist.
        sources: names of the sources that are read.

    Raises:
        OSError: it cannot be read.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):  # a segment became Parquet in between
            first_seq = standing_seq(folder)
            return _read_state(standing_segments(folder, first_seq), first_seq, sources)
    return _read_state(list_segments(folder)[-1:], standing_seq(folder), sources)


def _read_state(segments: list[Segment], first_seq: int, sources: Collection[str]) -> LastState:
    reader = _StateReader(frozenset(sources))
    for segment in segments:
        reader.read(segment)
    return reader.result(segments, first_seq)


class _StateReader:
    def __init__(self, sources: frozenset[str]) -> None:
        self._sources = sources
        self._state = LastState()
        self._unheard: dict[str, int] = {}
        self._unproven: dict[str, int] = {}
        self._took: defaultdict[str, EventDelays] = defaultdict(EventDelays)
        self._last_received: dict[str, int] = {}
        self._arrived: dict[str, int] = {}
        self._known: set[str] = set()
        self._with_agents: set[str] = set()
        self._created: dict[str, str] = {}
        self._first_ts = self._last_ts = ""

    def read(self, segment: Segment) -> None:
        # Of each segment: the last one decides whether it spans enough time for a whole head.
        self._first_ts = ""
        try:
            for block in read_segment(segment):
                for record in _DECODER.decode_lines(block.lines):
                    self._take(record)
        except (DamageError, msgspec.MsgspecError):
            self._state.is_complete = False

    def result(self, segments: list[Segment], first_seq: int) -> LastState:
        state = self._state
        lasted = nanoseconds_of(self._last_ts) - nanoseconds_of(self._first_ts)
        if first_seq:
            whole = bool(segments) and segments[0].first_seq == first_seq
        else:
            whole = len(segments) > 1 or lasted >= _HEAD_SECONDS * SECOND
        if not whole and segments and segments[0].first_seq > 1:  # a log's first segment has no head
            state.is_complete = False
        until = nanoseconds_of(self._last_ts)
        since = microseconds_text(until - YOUNG) or ""  # texts of the log's own form are in order of time
        state.young = {key: nanoseconds_of(at) for key, at in self._created.items() if at > since}
        for source in self._known:
            longest = LONGEST_AGENT_DELAY if source in self._with_agents else EVENT_DELAY_BOUNDS[1]
            delays = self._took[source]
            took = delays.allowed(longest)
            # As long as nothing of the source was recorded at the end, the process may have stood still.
            silent = until - (self._arrived.get(source, 0) or until)
            complete_until = self._unheard.get(source, until - max(took, min(silent, EVENT_DELAY_BOUNDS[1])))
            if source in self._last_received:
                # What happened before the last message may have been under way in an agent that ended then.
                complete_until = min(complete_until, self._last_received[source] - took)
            state.complete_until[source] = complete_until
            if unproven := self._unproven.get(source):
                state.unproven[source] = unproven
            if delays.longest > 0:
                state.event_delay[source] = delays.longest
        return state

    def _take(self, record: LogRecord) -> None:
        self._first_ts = self._first_ts or record.ingest_ts
        self._last_ts = record.ingest_ts
        if record.delivery is not None:
            self._note_delivery(record.delivery)
        elif record.kind is RecordKind.START:
            for delivery in deliveries_in(record.values or {}):
                self._note_delivery(delivery)
        if record.source not in self._sources:
            return
        self._note_arrival(record)
        match record.kind:
            case RecordKind.EVENT if record.sample_ns and record.agent:  # the gateway's own take no time
                arrived = nanoseconds_of(record.ingest_ts)
                self._took[record.source].note(arrived - record.sample_ns, arrived)
            case RecordKind.SOURCE:
                self._take_source(record.source, record)
            case _:
                self._take_object(record)

    def _note_arrival(self, record: LogRecord) -> None:
        """Note the time of arrival for a record that is made at once when a message arrives."""
        is_at_once = record.kind in _MADE_AT_ONCE and record.agent and not record.inferred
        if not is_at_once or record.source is None:
            return
        arrived = self._arrived[record.source] = nanoseconds_of(record.ingest_ts)
        if record.source in self._last_received:
            self._last_received[record.source] = max(self._last_received[record.source], arrived)

    def _take_object(self, record: LogRecord) -> None:
        match record.kind:
            case RecordKind.CREATE | RecordKind.SNAPSHOT if record.object_id is not None:
                self._state.objects[record.object_id] = _standing(record)
                if record.kind is RecordKind.CREATE:
                    self._created[record.object_id] = record.ingest_ts
            case RecordKind.UPDATE if record.object_id is not None:
                former = self._state.objects.get(record.object_id)
                if former is not None:
                    self._state.objects[record.object_id] = _updated(former, record)
            case RecordKind.DELETE if record.object_id is not None:
                self._state.objects.pop(record.object_id, None)
                self._created.pop(record.object_id, None)

    def _note_delivery(self, identity: str) -> None:
        deliveries = self._state.deliveries
        # Taken out first, so that it moves to the end: the oldest are forgotten.
        deliveries.pop(identity, None)
        deliveries[identity] = None
        if len(deliveries) > MAX_DELIVERIES:
            del deliveries[next(iter(deliveries))]

    def _take_source(self, source: str, record: LogRecord) -> None:
        self._known.add(source)
        if source_kind(record.dialect).with_agents:
            self._with_agents.add(source)
        values = record.values or {}
        last_received = nanoseconds_of(values.get("last_heard"))
        self._arrived[source] = max(self._arrived.get(source, 0), last_received)
        if record.state == SourceState.SYNCHRONISED.value:
            last_received = last_received or nanoseconds_of(values.get("since"))
        if last_received and source_kind(record.dialect).over_one_link:
            # The link may have been dead since: nothing is written of a link that is silent.
            self._last_received[source] = last_received
        event_delay = values.get(EVENT_DELAY)
        if isinstance(event_delay, int):
            # Its events may be in a segment before this one.
            self._took[source].note(event_delay, nanoseconds_of(record.ingest_ts))
        if values.get(READ_WHOLE) is True:
            self._state.read_whole[source] = nanoseconds_of(values.get(READ_WHOLE_SINCE))
        until = nanoseconds_of(values.get(RECEIVED_UNTIL))
        self._unproven[source] = 0 if until else source_kind(record.dialect).unproven
        if until or record.state not in _UNHEARD:
            self._unheard.pop(source, None)
        if until:
            self._unheard[source] = until
        elif record.state in _UNHEARD and source not in self._unheard:
            since = values.get("since")
            self._unheard[source] = nanoseconds_of(since) or nanoseconds_of(record.ingest_ts)


def _standing(record: LogRecord) -> LogRecord:
    """Return a record that has a whole object as its ``snapshot``."""
    if record.kind is RecordKind.SNAPSHOT and record.delivery is None and not record.inferred:
        return record
    return msgspec.structs.replace(
        record, kind=RecordKind.SNAPSHOT, deltas=None, delivery=None, inferred=None
    )


def _updated(former: LogRecord, update: LogRecord) -> LogRecord:
    """Return the ``snapshot`` of an object after an update."""
    updated, gone = update.values or {}, frozenset(update.absent or ())
    values = {name: value for name, value in (former.values or {}).items() if name not in gone}
    absent = {name for name in former.absent or () if name not in updated} | gone
    unread = {
        name: value for name, value in (former.former or {}).items() if name not in (updated.keys() | gone)
    } | (update.former or {})
    return msgspec.structs.replace(
        former,
        values=values | updated,
        former=unread or None,
        absent=sorted(absent) or None,
        parent_id=update.parent_id or former.parent_id,
        native_id=update.native_id or former.native_id,
        agent=update.agent or former.agent,
        sample_ts=update.sample_ts or former.sample_ts,
        sample_ns=update.sample_ns or former.sample_ns,
        create_ts=update.create_ts or former.create_ts,
        reset_ts=update.reset_ts or former.reset_ts,
    )


_DECODER: Final = msgspec.json.Decoder(LogRecord)


_EVENT: Final = b'"kind":"event"'
_KIND: Final = RecordKind.EVENT.value
_SCHEMA: Final = b'"kind":"schema"'
_START: Final = b'"kind":"start"'

EVENTS: Final = "events"
"""Among the values of a ``start`` record: the number of the last event by epoch of the core that made it."""

MAX_CORES: Final = 100
"""The maximum number of cores in that value: the last ones that made events."""


class _EventLine(msgspec.Struct):
    """The fields that decide whether a line is kept."""

    kind: str = ""
    source: str = ""
    event_id: str = ""


class _StartValues(msgspec.Struct):
    gateway: str = ""
    events: dict[str, int] = {}


class _Start(msgspec.Struct):
    """The content of a ``start`` record about events."""

    kind: str = ""
    values: _StartValues = msgspec.field(default_factory=_StartValues)


@dataclass(slots=True)
class LastEvents:
    """The events at the end of the log.

    Attributes:
        schemas: of events, by ``package:event``, in their last known version.
        classes: likewise those of classes, by ``package:class``.
        events: in the order of their records.
        made: the number of the last event that a core is known to have made, by the core's epoch.
    """

    schemas: dict[str, LogRecord] = field(default_factory=dict)
    events: list[LogRecord] = field(default_factory=list)
    made: dict[int, int] = field(default_factory=dict)
    classes: dict[str, LogRecord] = field(default_factory=dict)


def events_value(made: Mapping[int, int]) -> dict[str, int]:
    """Return the value of a ``start`` record about the events so far.

    Args:
        made: the number of the last event by the core's epoch; 0 where there is none.
    """
    cores = sorted(epoch for epoch, number in made.items() if number)[-MAX_CORES:]
    return {str(epoch): made[epoch] for epoch in cores}


def last_events(folder: Path, most: int, gateway: str) -> LastEvents:
    """Return the last events of the log; damaged records are passed over.

    Args:
        folder: the log's folder; it need not exist.
        most: the number of the last events of each source; the gateway itself counts as one.
        gateway: uuid of the gateway whose cores count as having made events.

    Raises:
        OSError: it cannot be read.
    """
    reader = _EventReader(most, gateway)
    standing = standing_segments(folder, standing_seq(folder))
    # A head does not repeat events: where it was written just now, the last ones are in the segment before
    # it.
    before = [
        each for each in list_segments(folder) if not standing or each.first_seq < standing[0].first_seq
    ]
    for segment in (*before[-1:], *standing):
        reader.read(segment)
    return reader.result()


class _EventReader:
    """Keeps undecoded lines: of very many events only the last ones are decoded."""

    def __init__(self, most: int, gateway: str) -> None:
        self._most = most
        self._gateway = gateway
        self._lines: dict[str, deque[tuple[int, bytes]]] = {}
        self._seen = 0
        self._found = LastEvents()

    def read(self, segment: Segment) -> None:
        try:
            for block in read_segment(segment):
                if any(kind in block.lines for kind in (_EVENT, _SCHEMA, _START)):  # few have any
                    for line in block.split():
                        self._take(line)
        except (FileNotFoundError, DamageError, msgspec.MsgspecError):
            return  # it became Parquet meanwhile, or is damaged

    def result(self) -> LastEvents:
        lines = sorted(line for kept in self._lines.values() for line in kept)
        self._found.events = [_RECORD.decode(line) for _, line in lines]
        return self._found

    def _take(self, line: bytes) -> None:
        if _EVENT in line:
            updated = _EVENT_LINES.decode(line)
            if updated.kind == _KIND:
                self._seen += 1
                self._made(*updated.event_id.split("."))
                kept = self._lines.get(updated.source)
                if kept is None:
                    kept = self._lines[updated.source] = deque(maxlen=self._most)
                kept.append((self._seen, line))
        elif _START in line:
            start = _STARTS.decode(line)
            if start.kind == RecordKind.START.value:
                for epoch, number in start.values.events.items():
                    self._made(start.values.gateway, epoch, str(number))
        elif _SCHEMA in line:
            schema = _RECORD.decode(line)
            if schema.kind is RecordKind.SCHEMA and schema.event is not None:
                self._found.schemas[f"{schema.package}:{schema.event}"] = schema
            elif schema.kind is RecordKind.SCHEMA and schema.class_name is not None:
                self._found.classes[f"{schema.package}:{schema.class_name}"] = schema

    def _made(self, gateway: str, epoch: str = "", number: str = "", *_more: str) -> None:
        if gateway == self._gateway and epoch.isdecimal() and number.isdecimal():
            made = self._found.made
            made[int(epoch)] = max(made.get(int(epoch), 0), int(number))


_RECORD: Final = msgspec.json.Decoder(LogRecord)
_EVENT_LINES: Final = msgspec.json.Decoder(_EventLine)
_STARTS: Final = msgspec.json.Decoder(_Start)


MAX_UNFINISHED: Final = 10_000
"""The maximum number of unfinished operations: many times what a core has under way."""

_OPERATION: Final = b'"kind":"operation"'


def unfinished_operations(folder: Path) -> list[LogRecord]:
    """Return the ``begun`` records of unfinished operations, oldest first; damaged records are passed over.

    Args:
        folder: the log's folder; it need not exist.

    Raises:
        OSError: it cannot be read.
    """
    begun: dict[str, LogRecord] = {}
    for segment in standing_segments(folder, standing_seq(folder)):
        try:
            _read_operations(segment, begun)
        except FileNotFoundError:
            continue  # it became Parquet meanwhile: the next one repeats what was under way
        except (DamageError, msgspec.MsgspecError):
            continue
    return list(begun.values())


def _read_operations(segment: Segment, begun: dict[str, LogRecord]) -> None:
    for block in read_segment(segment):
        if _OPERATION not in block.lines:  # few have any
            continue
        for line in block.split():
            if _OPERATION not in line:  # most lines are something else: they need not be taken apart
                continue
            record = _DECODER.decode(line)
            if record.kind is not RecordKind.OPERATION or record.operation_id is None:
                continue
            if record.state != OperationState.BEGUN.value:
                begun.pop(record.operation_id, None)
            elif len(begun) < MAX_UNFINISHED:
                begun.setdefault(record.operation_id, record)


DELIVERIES: Final = "deliveries"
"""Among the values of a ``start`` record: identities by source, without the source's name, in order."""

MIN_OF_SOURCE: Final = 1_000
"""The number of deliveries always kept of a source: as many as a consumer may have unacknowledged."""

MAX_OF_SOURCE: Final = 20_000
"""The maximum number of deliveries kept of a source, however short the time in which they came."""

# A RabbitMQ that is killed has forgotten acknowledgements of minutes before, each time again, and delivers
# those messages once more.
KEPT_FOR: Final = 600 * SECOND
"""The time for which deliveries are kept, in nanoseconds."""

_MAX_IN_RECORD: Final = 20_000
"""The maximum number of deliveries in one record, of all sources: 400 kB."""


class RecordedDeliveries:
    """The last deliveries of each source.

    Args:
        known: earlier deliveries, ``SOURCE:IDENTITY``, in order.
        now: the time, in nanoseconds.
    """

    def __init__(self, known: Iterable[str] = (), now: int = 0) -> None:
        self._of_source: dict[str, OrderedDict[str, int]] = {}
        for delivery in known:
            self.add(delivery, now)

    def add(self, delivery: str, now: int) -> None:
        """Add a delivery that was recorded or came again; not before all of its records are appended."""
        source, _, identity = delivery.rpartition(":")
        known = self._of_source.setdefault(source, OrderedDict())
        known.pop(identity, None)
        known[identity] = now
        while len(known) > MIN_OF_SOURCE and self._is_over(known, now):
            known.popitem(last=False)

    def _is_over(self, known: OrderedDict[str, int], now: int) -> bool:
        return len(known) > MAX_OF_SOURCE or now - next(iter(known.values())) > KEPT_FOR

    def values(self) -> dict[str, object]:
        """Return the value for the first record of a segment; empty where there are no deliveries."""
        if not self._of_source:
            return {}
        share = max(1, _MAX_IN_RECORD // len(self._of_source))
        return {DELIVERIES: {source: list(known)[-share:] for source, known in self._of_source.items()}}


def deliveries_in(values: Mapping[str, object]) -> Iterator[str]:
    """Yield the deliveries in the values of a ``start`` record; anything else is passed over."""
    by_source = values.get(DELIVERIES)
    if isinstance(by_source, Mapping):
        for source, identities in by_source.items():
            if isinstance(identities, list):
                yield from (f"{source}:{identity}" for identity in identities if isinstance(identity, str))


def read_last_state(folder: Path, sources: list[str]) -> LastState:
    """Read the end of the log in ``folder``; a state that cannot be read is reported, and is not complete."""
    try:
        return last_state(folder, sources)
    except OSError as error:  # what is wrong with the log is said when it is opened
        log.warning("event-log-not-read", path=error.filename, reason=reason_of(error, folder))
        return LastState(is_complete=False)


class LastStates:
    """The states of all sources that go on where the log ended.

    Args:
        last: the states of all of them, at the start.
        folder: the folder of the log.
    """

    def __init__(self, last: LastState, folder: Path) -> None:
        self._states = last.by_source()
        self._taken: set[str] = set()
        self._complete_until = dict(last.complete_until)
        self._folder = folder

    def complete_until(self, source: str) -> int:
        """Return the time until which a source was recorded before the start; 0 where it is not known."""
        return self._complete_until.get(source, 0)

    def at_start(self, source: str) -> LastState:
        """Return the state of a source at the start; it is empty once it was released."""
        return self._states.get(source) or LastState()

    def release(self, source: str) -> None:
        """Drop the state of a source that does not need it any more."""
        self._taken.add(source)
        self._states.pop(source, None)

    async def take(self, source: str) -> LastState:
        """Return the state of a source, and release it: that of the start once, then that of now."""
        if source in self._taken:
            return await asyncio.to_thread(read_last_state, self._folder, [source])
        state = self.at_start(source)
        self.release(source)
        return state
