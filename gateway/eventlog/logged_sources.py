"""Sources and agents as the log has told them: states at once, counters now and then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from gateway.eventlog.own_records import absence_record
from gateway.eventlog.record import Delta, LogRecord, RecordKind
from gateway.eventlog.timestamps import microseconds_text, nanoseconds_text
from gateway.feed.records import AgentGoneRecord, AgentRecord, SourceRecord
from gateway.model.observations import BELIEVED, SourceState

HEARD_UNTIL: Final = "heard_until"
READ_WHOLE: Final = "read_whole"
"""Values of a ``source`` record, for the next start."""

SAME_AS: Final = "same_as"
"""Value of a ``source`` record: another source that reads the same broker."""

UNHEARD: Final = frozenset({SourceState.CONNECTING, SourceState.DOWN})
"""States of a source that is not listened to."""


@dataclass(frozen=True, slots=True)
class FormerSource:
    """What the log knows of a source from before the start.

    Attributes:
        heard_until: until when it was listened to, nanoseconds since 1970 UTC; 0 where it is not known.
        read_whole: all of its objects were told at one time at least.
    """

    heard_until: int = 0
    read_whole: bool = False


class LoggedSource:
    """One source.

    Args:
        record: it as it stands.
        former: what the log knows of it from before the start.
        same_as: another source that reads the same broker, as the configuration says; empty for none.

    Attributes:
        record: it as it stands now.
        read_whole: everything of it was read since the start, so what is told for the first time is new.
        heard_until: while it is not listened to: until when it was, nanoseconds since 1970 UTC. 0 while it
            is, and where it never was.
        told_at: when it was recorded, nanoseconds of the gateway's clock; 0 for never.
    """

    __slots__ = ("_former", "_same_as", "_told", "heard_until", "read_whole", "record", "told_at")

    def __init__(
        self, record: SourceRecord, former: FormerSource = FormerSource(), same_as: str = ""
    ) -> None:
        self._former = former
        self._same_as = same_as
        self._told: SourceRecord | None = None
        self.record = record
        self.read_whole = False
        self.heard_until = former.heard_until
        self.told_at = 0
        self._stands(record)

    def _stands(self, record: SourceRecord) -> None:
        if record.state in BELIEVED:
            self.read_whole = True
            self.heard_until = record.heard_until
        elif self.read_whole and (record.heard_until or record.state in UNHEARD):
            self.heard_until = self.heard_until or record.heard_until or record.since

    def tell(self, record: SourceRecord) -> bool:
        """The source as it stands now; whether that is to be recorded at once."""
        self.record = record
        self._stands(record)
        told = self._told
        return told is None or (told.state, told.detail, told.since, told.heard_until) != (
            record.state,
            record.detail,
            record.since,
            record.heard_until,
        )

    @property
    def pending(self) -> bool:
        """Whether it stands otherwise than the log has told."""
        return self.record is not self._told and self.record != self._told

    def told(self, ingest_ts: str, now: int) -> LogRecord:
        """It as it stands, as ``source``."""
        record, former = self.record, self._told
        counters = dict(record.counters)
        deltas: dict[str, Delta] = {}
        for name, value in counters.items() if former is not None else ():
            told = former.counters.get(name) if former is not None else None
            if told is not None and told != value:
                began_again = value < told
                interval = now - self.told_at
                deltas[name] = Delta(
                    value if began_again else value - told, interval if interval > 0 else None, began_again
                )
        self._told, self.told_at = record, now
        values: dict[str, object] = dict(counters)
        values |= {
            name: nanoseconds_text(time)
            for name, time in (
                ("since", record.since),
                ("last_heard", record.last_heard),
                (HEARD_UNTIL, self.heard_until),
            )
            if time
        }
        if self.read_whole or self._former.read_whole:
            values[READ_WHOLE] = True
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


def absence_of(record: SourceRecord, heard_until: int, until: int, ingest_ts: str) -> LogRecord:
    """A gap: from when a source was heard last before the gateway was started.

    Args:
        record: the source.
        heard_until: by it the log ends, nanoseconds since 1970 UTC.
        until: when everything had been read again, nanoseconds since 1970 UTC.
        ingest_ts: now.
    """
    return msgspec.structs.replace(
        absence_record(ingest_ts, ingest_ts),
        source=record.name,
        dialect=record.kind,
        from_ts=microseconds_text(min(heard_until, until)),
        to_ts=microseconds_text(until),
    )


def agent_record(record: AgentRecord, source: SourceRecord | None, ingest_ts: str) -> LogRecord:
    """An agent as it stands, as ``agent``."""
    state = "fresh" if record.fresh else "stale"
    return _agent(record.agent, state, source, ingest_ts, since=record.since, confirmed=record.confirmed)


def agent_gone_record(record: AgentGoneRecord, source: SourceRecord | None, ingest_ts: str) -> LogRecord:
    """An agent that is no more, as ``agent``."""
    return _agent(record.agent, "gone", source, ingest_ts, since=record.gone)


def _agent(agent: str, state: str, source: SourceRecord | None, ingest_ts: str, **times: int) -> LogRecord:
    return LogRecord(
        kind=RecordKind.AGENT,
        ingest_ts=ingest_ts,
        source=source.name if source is not None else None,
        dialect=source.kind if source is not None else None,
        agent=agent,
        state=state,
        values={name: nanoseconds_text(time) for name, time in times.items() if time},
    )
