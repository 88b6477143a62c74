"""Sources and agents as the log has told them: states at once, counters now and then."""

from __future__ import annotations

from typing import Final

from gateway.eventlog.record import Delta, LogRecord, RecordKind
from gateway.eventlog.timestamps import nanoseconds_text
from gateway.feed.records import AgentGoneRecord, AgentRecord, SourceRecord
from gateway.model.observations import SourceState

_BELIEVED: Final = frozenset({SourceState.SYNCHRONISED, SourceState.DEGRADED})


class LoggedSource:
    """One source.

    Args:
        record: it as it stands.

    Attributes:
        record: it as it stands now.
        known: everything of it was read once, so what is told for the first time from then on is new.
        told_at: when it was recorded, nanoseconds of the gateway's clock; 0 for never.
    """

    __slots__ = ("_told", "known", "record", "told_at")

    def __init__(self, record: SourceRecord) -> None:
        self.record = record
        self.known = record.state in _BELIEVED
        self.told_at = 0
        self._told: SourceRecord | None = None

    def tell(self, record: SourceRecord) -> bool:
        """The source as it stands now; whether that is to be recorded at once."""
        self.record = record
        self.known = self.known or record.state in _BELIEVED
        told = self._told
        return told is None or (told.state, told.detail, told.since) != (
            record.state,
            record.detail,
            record.since,
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
            for name, time in (("since", record.since), ("last_heard", record.last_heard))
            if time
        }
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
