"""What happened, and what was missed, as records: events and gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.eventlog.logged_schemas import LoggedEvent
from gateway.eventlog.logged_values import link_text
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.timestamps import known_time
from gateway.feed.records import EventRecord, GapRecord, SourceRecord
from gateway.model.events import EventState

_STATES: Final[Mapping[EventState, str]] = {
    EventState.ONE_SHOT: "one-shot",
    EventState.RAISED: "raised",
    EventState.CLEARED: "cleared",
}


def event_record(
    record: EventRecord, event: LoggedEvent, source: SourceRecord | None, ingest_ts: str
) -> LogRecord:
    """An event, as ``event``; one of the gateway itself has no source."""
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
    )


def gap_record(record: GapRecord, source: SourceRecord | None, ingest_ts: str) -> LogRecord:
    """From when to when something of a source was not heard, as ``gap``."""
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
    """So many changes of properties were not recorded one by one, as ``gap``.

    Args:
        changes: how many.
        since: when the first of them came, nanoseconds since 1970 UTC.
        now: when they are recorded as one.
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
