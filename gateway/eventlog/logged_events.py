"""Records of the log about all but objects and what users did: sources, schemas, events, gaps, starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple

import msgspec

from gateway.eventlog.record import (
    VERSION,
    Convert,
    Delta,
    LogRecord,
    RecordKind,
    converter,
    known_time,
    link_text,
    microseconds_text,
)
from gateway.eventlog.retention import Deleted, Why
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    ClassRecord,
    EventClassRecord,
    EventRecord,
    GapRecord,
    SourceRecord,
)
from gateway.feed.values import FeedValue, as_json, links_in
from gateway.model.observations import TRUSTED, EventDelays, EventState, SourceState
from gateway.model.schema import Argument, Element, Kind
from gateway.model.times import utc_time
from gateway.shipped_files import version

RECEIVED_UNTIL: Final = "heard_until"
READ_WHOLE: Final = "read_whole"
READ_WHOLE_SINCE: Final = "read_whole_since"
EVENT_DELAY: Final = "event_delay_ns"
"""Names of values of a ``source`` record that the next start reads."""

SAME_AS: Final = "same_as"
"""Name of a value of a ``source`` record: another source that reads the same broker."""

UNHEARD: Final = frozenset({SourceState.CONNECTING, SourceState.DOWN})
"""States in which a source is not observed."""


@dataclass(frozen=True, slots=True)
class RestoredSource:
    """The state of a source in the log before the gateway's start.

    Attributes:
        complete_until: the time up to which nothing was missed, nanoseconds since 1970 UTC; 0 where it is not
            known.
        read_whole: all of its objects were recorded at one time at least.
        read_whole_since: the first such time, nanoseconds since 1970 UTC; 0 where it is not known.
        event_delay: the longest delay of the last events of an agent, in nanoseconds; 0 if there were none.
        unproven: nanoseconds by which what was missed may begin earlier than ``complete_until``.
    """

    complete_until: int = 0
    read_whole: bool = False
    read_whole_since: int = 0
    event_delay: int = 0
    unproven: int = 0


class LoggedSource:
    """A source in the log.

    Args:
        record: its feed record.
        former: its state in the log before the start.
        same_as: another source that reads the same broker, as the configuration says; empty for none.

    Attributes:
        record: its present feed record.
        read_whole: all of its objects were read since the start, so an object seen for the first time is new.
        complete_until: while it is not observed: the end of its observation, nanoseconds since 1970 UTC. 0
            while it is observed, and where it never was.
        unproven: as in `RestoredSource`, of the time before the start.
        read_whole_since: the first time when all of its objects were recorded, nanoseconds since 1970 UTC, by
            this gateway or one before it: an object that was created since counts from zero. 0 for never.
        recorded_at: the time of its last record, nanoseconds of the gateway's clock; 0 for never.
        event_delays: those of the last events of an agent.
    """

    __slots__ = (
        "_former",
        "_recorded",
        "_same_as",
        "complete_until",
        "event_delays",
        "read_whole",
        "read_whole_since",
        "record",
        "recorded_at",
        "unproven",
    )

    def __init__(
        self, record: SourceRecord, former: RestoredSource = RestoredSource(), same_as: str = ""
    ) -> None:
        self._former = former
        self._same_as = same_as
        self._recorded: SourceRecord | None = None
        self.record = record
        self.read_whole = False
        self.complete_until = former.complete_until
        self.unproven = former.unproven
        # Logs of earlier versions do not say since when; until their end is later than that.
        self.read_whole_since = (former.read_whole_since or former.complete_until) if former.read_whole else 0
        self.recorded_at = 0
        self.event_delays = EventDelays(former.event_delay)
        self._stands(record)

    def _stands(self, record: SourceRecord) -> None:
        if record.state in TRUSTED:
            self.read_whole = True
            self.read_whole_since = self.read_whole_since or record.since
            self.complete_until = record.complete_until
        elif self.read_whole and (record.complete_until or record.state in UNHEARD):
            # A source that is down by its requests may find only later that its events ceased before that.
            known = filter(None, (self.complete_until, record.complete_until))
            self.complete_until = min(known, default=record.since)

    def update(self, record: SourceRecord) -> bool:
        """Take the present feed record of the source; return whether it is to be recorded at once."""
        self.record = record
        self._stands(record)
        recorded = self._recorded
        return recorded is None or (
            recorded.state,
            recorded.detail,
            recorded.since,
            recorded.complete_until,
        ) != (
            record.state,
            record.detail,
            record.since,
            record.complete_until,
        )

    @property
    def pending(self) -> bool:
        """Whether its state differs from the recorded one."""
        return self.record is not self._recorded and self.record != self._recorded

    def recorded(self, ingest_ts: str, now: int) -> LogRecord:
        """Return the ``source`` record of its present state, and note that it is recorded."""
        record, former = self.record, self._recorded
        counters = dict(record.counters)
        deltas: dict[str, Delta] = {}
        for name, value in counters.items() if former is not None else ():
            recorded = former.counters.get(name) if former is not None else None
            if recorded is not None and recorded != value:
                began_again = value < recorded
                interval = now - self.recorded_at
                deltas[name] = Delta(
                    value if began_again else value - recorded,
                    interval if interval > 0 else None,
                    began_again,
                )
        self._recorded, self.recorded_at = record, now
        values: dict[str, object] = dict(counters)
        values |= {
            name: utc_time(time)
            for name, time in (
                ("since", record.since),
                ("last_heard", record.last_received),
                (RECEIVED_UNTIL, self.complete_until),
                (READ_WHOLE_SINCE, self.read_whole_since),
            )
            if time
        }
        if self.read_whole or self._former.read_whole:
            values[READ_WHOLE] = True
        if self.event_delays.longest > 0:
            values[EVENT_DELAY] = self.event_delays.longest
        if self._same_as:
            values[SAME_AS] = self._same_as
        return LogRecord(
            kind=RecordKind.SOURCE,
            ingest_ts=ingest_ts,
            source=record.name,
            dialect=record.kind,
            state=record.state.value,
            text=record.detail or None,
            values=values,
            deltas=deltas or None,
        )


def absence_of(record: SourceRecord, complete_until: int, until: int, ingest_ts: str) -> LogRecord:
    """Return the ``gap`` record of a source from the end of its observation before the gateway's start.

    Args:
        record: the source.
        complete_until: the end of its observation in the log, nanoseconds since 1970 UTC.
        until: the time when everything had been read again, nanoseconds since 1970 UTC.
        ingest_ts: now.
    """
    return msgspec.structs.replace(
        absence_record(ingest_ts, ingest_ts),
        source=record.name,
        dialect=record.kind,
        from_ts=microseconds_text(min(complete_until, until)),
        to_ts=microseconds_text(until),
    )


def agent_record(
    record: AgentRecord, source: SourceRecord | None, ingest_ts: str, outdated: tuple[str, ...] = ()
) -> LogRecord:
    """Return the ``agent`` record of the present state of an agent.

    Args:
        record: the agent.
        source: its source.
        ingest_ts: now.
        outdated: its classes whose values are stale although it is fresh, as
            `AgentRecord.outdated_classes` returns them.
    """
    state = "fresh" if record.fresh else "stale"
    logged = _agent(record.agent, state, source, ingest_ts, since=record.since, confirmed=record.confirmed)
    if not outdated or logged.values is None:
        return logged
    classes = ", ".join(name or "all others" for name in outdated)
    return msgspec.structs.replace(logged, values={**logged.values, "stale_classes": classes})


def agent_gone_record(record: AgentGoneRecord, source: SourceRecord | None, ingest_ts: str) -> LogRecord:
    """Return the ``agent`` record of the end of an agent."""
    return _agent(record.agent, "gone", source, ingest_ts, since=record.gone)


def _agent(agent: str, state: str, source: SourceRecord | None, ingest_ts: str, **times: int) -> LogRecord:
    return LogRecord(
        kind=RecordKind.AGENT,
        ingest_ts=ingest_ts,
        source=source.name if source is not None else None,
        dialect=source.kind if source is not None else None,
        agent=agent,
        state=state,
        values={name: utc_time(time) for name, time in times.items() if time},
    )


def start_record(
    ingest_ts: str, why: Why, facts: Mapping[str, object], deleted: Deleted | None = None
) -> LogRecord:
    """Return the first record of a segment.

    Args:
        ingest_ts: now.
        why: the reason of the segment.
        facts: further values.
        deleted: the files deleted because of the log's bounds since the last such record.
    """
    values: dict[str, object] = {
        "version": VERSION,
        "gateway_version": version(),
        "why": why.value,
        **facts,
    }
    if deleted is not None:
        values["deleted"] = {
            "files": deleted.files,
            "octets": deleted.octets,
            "because": deleted.because,
            "until": deleted.until,
        }
    return LogRecord(kind=RecordKind.START, ingest_ts=ingest_ts, values=values)


def absence_record(ingest_ts: str, last_ts: str, covered: Collection[str] = ()) -> LogRecord:
    """Return the ``gap`` record from the last record of the last writer to now.

    Args:
        ingest_ts: now.
        last_ts: ``ingest_ts`` of that record.
        covered: names of sources that record gaps of their own for what they missed.
    """
    return LogRecord(
        kind=RecordKind.GAP,
        ingest_ts=ingest_ts,
        text="the gateway was not running, or what it recorded last was not yet on the disk",
        from_ts=last_ts,
        to_ts=ingest_ts,
        values={"covered": sorted(covered)} if covered else None,
    )


_STATES: Final[Mapping[EventState, str]] = {
    EventState.ONE_SHOT: "one-shot",
    EventState.RAISED: "raised",
    EventState.CLEARED: "cleared",
}


NAMES: Final = "names"
CLASSES: Final = "classes"
QUOTED: Final = "quoted"
QUOTED_ELEMENTS: Final = "elements"
QUOTED_LINKS: Final = "links"
QUOTED_EVENT: Final = "event"
WITHHELD: Final = "withheld"
"""Names in ``resend`` of an event: the names of the objects to which it refers, by ``object_id``; the classes
of those that never had a row, by name; what the text quotes beside arguments; the receivers of notifications
to whom their roles did not let it be sent when it happened."""


def resend_value(record: EventRecord, source: str, withheld: Collection[str]) -> dict[str, object]:
    """Return what is needed beside the other fields to send an event later; empty where it is nothing."""
    quoted = record.quoted
    found: dict[str, object] = {}
    names: dict[str, str] = {}
    classes: dict[str, str] = {}
    for link in links_in((record.subject, *record.values.values(), *(quoted.links if quoted else ()))):
        if not link.row:
            classes[link.stable_name] = link.class_name
        elif link != record.subject:
            names[link_text(link, source)] = link.stable_name
    if quoted is not None:
        links = [link_text(link, source) for link in quoted.links]
        parts = {QUOTED_ELEMENTS: list(quoted.elements), QUOTED_LINKS: links, QUOTED_EVENT: quoted.event}
        # Of a text that quotes nothing this is empty, and not absent: absent is what is not known.
        found[QUOTED] = {name: part for name, part in parts.items() if part}
    further = {NAMES: names, CLASSES: classes, WITHHELD: sorted(withheld)}
    return found | {name: value for name, value in further.items() if value}


def event_record(
    record: EventRecord,
    event: LoggedEvent,
    source: SourceRecord | None,
    ingest_ts: str,
    withheld: Collection[str] = (),
) -> LogRecord:
    """Return the ``event`` record of an event; one of the gateway itself has no source.

    Args:
        record: the event.
        event: its version.
        source: its source.
        ingest_ts: now.
        withheld: the receivers of notifications to whom their roles do not let it be sent.
    """
    name = source.name if source is not None else ""
    subject = record.subject
    return LogRecord(
        kind=RecordKind.EVENT,
        ingest_ts=ingest_ts,
        source=name or None,
        dialect=source.kind if source is not None else None,
        package=event.package,
        class_name=subject.class_name.rpartition(":")[2] if subject is not None else None,
        object_id=link_text(subject, name) if subject is not None and subject.row else None,
        object_name=subject.stable_name if subject is not None else None,
        row=(subject.row or None) if subject is not None else None,
        agent=record.agent or None,
        event_id=record.event_id,
        event=event.name,
        severity=record.severity.name.lower(),
        state=_STATES[record.state],
        condition=record.condition or None,
        text=record.text or None,
        sample_ts=known_time(record.time),
        sample_ns=record.time or None,
        values=event.values(record.values, name) or None,
        resend=resend_value(record, name, withheld) or None,
    )


def gap_record(record: GapRecord, source: SourceRecord | None, ingest_ts: str) -> LogRecord:
    """Return the ``gap`` record of a time in which something of a source was missed."""
    return LogRecord(
        kind=RecordKind.GAP,
        ingest_ts=ingest_ts,
        source=source.name if source is not None else None,
        dialect=source.kind if source is not None else None,
        text=record.reason or None,
        from_ts=known_time(record.start),
        to_ts=known_time(record.end),
    )


def merged_record(changes: int, since: int, now: int, ingest_ts: str) -> LogRecord:
    """Return the ``gap`` record of changes of properties that were not recorded one by one.

    Args:
        changes: the number of changes.
        since: the time of the first of them, nanoseconds since 1970 UTC.
        now: the time at which they are recorded as one.
        ingest_ts: the same as text.
    """
    return LogRecord(
        kind=RecordKind.GAP,
        ingest_ts=ingest_ts,
        text="changes of properties were merged to the latest: the log could not be written fast enough",
        from_ts=known_time(since),
        to_ts=known_time(now),
        lost=changes,
    )


_PROPERTY, _STATISTIC = "property", "statistic"


class LoggedElement(NamedTuple):
    """An element of a class; a tuple, because it is taken apart for each recorded value.

    Attributes:
        name: of the element.
        convert: converts its values to JSON; ``None`` where JSON can hold them as they are.
        counter: its index among the object's counters; -1 where it is none.
    """

    name: str
    convert: Convert | None
    counter: int


class LoggedClass:
    """One version of a class.

    Args:
        record: its feed record.
        interval: nanoseconds between two records of one object's statistics, at least.

    Attributes:
        number: its number in the feed.
        name: ``package:class``.
        elements: its elements, by position.
        properties: the bits of the positions of properties.
        counter_bits: the bits of the positions of counters.
        places: by position the index among the object's counters; -1 where it is none.
    """

    __slots__ = (
        "class_name",
        "counter_bits",
        "elements",
        "interval",
        "name",
        "number",
        "package",
        "places",
        "properties",
        "record",
    )

    def __init__(self, record: ClassRecord, interval: int) -> None:
        schema = record.schema
        elements = schema.elements
        self.record: Final = record
        self.number: Final = record.number
        self.package: Final = schema.key.package
        self.class_name: Final = schema.key.name
        self.name: Final = str(schema.key)
        self.interval: Final = interval
        places = count()
        self.elements: Final = tuple(
            LoggedElement(e.name, converter(e.type), next(places) if e.kind is Kind.COUNTER else -1)
            for e in elements
        )
        self.properties: Final = (1 << len(schema.properties)) - 1
        self.places: Final = tuple(element.counter for element in self.elements)
        self.counter_bits: Final = sum(1 << p for p, e in enumerate(self.elements) if e.counter >= 0)

    def schema_record(self, ingest_ts: str) -> LogRecord:
        """Return the ``schema`` record of the class."""
        schema = self.record.schema
        elements = [_element(e, _PROPERTY) for e in schema.properties]
        elements += [_element(e, _STATISTIC) for e in schema.statistics]
        values: dict[str, object] = {
            "hash": schema.key.hash.hex(),
            "label": schema.label,
            "description": schema.description,
            "name_element": self.record.name_element,
            "parent_element": self.record.parent_element,
        }
        return LogRecord(
            kind=RecordKind.SCHEMA,
            ingest_ts=ingest_ts,
            package=self.package,
            class_name=self.class_name,
            values=_recorded(values) | {"elements": elements},
        )


class LoggedEvent:
    """One version of an event.

    Args:
        record: its feed record.

    Attributes:
        names: the names of its arguments, by position.
        converters: their converters, likewise; ``None`` where JSON can hold the values as they are.
    """

    __slots__ = ("converters", "name", "names", "package", "record")

    def __init__(self, record: EventClassRecord) -> None:
        schema = record.schema
        self.record: Final = record
        self.package: Final = schema.key.package
        self.name: Final = schema.key.name
        self.names: Final = tuple(argument.name for argument in schema.arguments)
        self.converters: Final[tuple[Convert | None, ...]] = tuple(
            converter(a.type) for a in schema.arguments
        )

    def values(self, found: Mapping[int, FeedValue], source: str) -> dict[str, object]:
        """Return the arguments by name; those without a value are left out."""
        values = {}
        for position, value in found.items():
            convert = self.converters[position]
            shown = value if convert is None else convert(value, source)
            if shown is not None:
                values[self.names[position]] = shown
        return values

    def schema_record(self, ingest_ts: str) -> LogRecord:
        """Return the ``schema`` record of the event."""
        schema = self.record.schema
        values: dict[str, object] = {
            "hash": schema.key.hash.hex(),
            "label": schema.label,
            "description": schema.description,
        }
        arguments = [_argument(argument) for argument in schema.arguments]
        return LogRecord(
            kind=RecordKind.SCHEMA,
            ingest_ts=ingest_ts,
            package=self.package,
            event=self.name,
            values=_recorded(values) | {"arguments": arguments},
        )


_OF_PROPERTIES: Final = frozenset({Kind.GAUGE, Kind.NONE})
"""The kinds that are not recorded of a property."""


def _element(element: Element, group: str) -> dict[str, object]:
    return {"name": element.name, "group": group, "type": element.type.value} | _recorded(
        {
            "kind": element.kind.value if group == _STATISTIC or element.kind not in _OF_PROPERTIES else "",
            "index": element.index,
            "optional": element.optional,
            "access": element.access.value,
            **_described(element),
        }
    )


def _argument(argument: Argument) -> dict[str, object]:
    return {"name": argument.name, "type": argument.type.value} | _recorded(
        {"optional": argument.optional, **_described(argument)}
    )


def _described(element: Element | Argument) -> dict[str, object]:
    return {
        "unit": element.unit,
        "references": element.references,
        "label": element.label,
        "description": element.description,
        "minimum": as_json(element.minimum),
        "maximum": as_json(element.maximum),
        "values": [{"label": named.label, "value": named.value} for named in element.values],
    }


def _recorded(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values that are neither empty nor false; zero stays."""
    return {name: value for name, value in values.items() if value or (value == 0 and value is not False)}
