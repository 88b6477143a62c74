"""Records of the log about what users did, and what the gateway states of the log: the audited ones.

`gateway.eventlog.record.AUDITED_KINDS` has their kinds; their numbers and hashes they get where they are
written (`gateway.eventlog.audit_chain`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from gateway.eventlog.record import LogRecord, RecordKind, json_value, microseconds_text, object_id
from gateway.feed.operations import LoginReport, OperationRecord, OperationState
from gateway.feed.records import SourceRecord
from gateway.feed.values import FeedValue

MAX_CHANGES: Final = 100
"""The number of changes that the record of a reload has, at most."""


class LoggedOperations:
    """The operations under way; each segment's head repeats them, so that unfinished ones can be found."""

    def __init__(self) -> None:
        self._under_way: dict[int, tuple[OperationRecord, SourceRecord | None]] = {}

    def record(
        self, record: OperationRecord, source: SourceRecord | None, ingest_ts: str, now: int
    ) -> LogRecord:
        """Note the present state of an operation; return its record."""
        if record.state is OperationState.BEGUN:
            self._under_way[record.number] = (record, source)
        else:
            self._under_way.pop(record.number, None)
        return operation_record(record, source, ingest_ts, now)

    def standing(self, clock: Callable[[], int]) -> Iterator[LogRecord]:
        """Yield the operations under way for a segment's head."""
        # A copy: other records are appended between two slices of a head.
        for number, (record, source) in tuple(self._under_way.items()):
            if number in self._under_way:
                now = clock()
                yield operation_record(record, source, microseconds_text(now) or "", now)


def operation_record(
    record: OperationRecord, source: SourceRecord | None, ingest_ts: str, now: int
) -> LogRecord:
    """Return the ``operation`` record of an operation; while under way, its ``latency_ns`` is until now."""
    package, _, class_name = record.class_name.rpartition(":")
    name = source.name if source is not None else ""
    until = record.ended or now
    return LogRecord(
        kind=RecordKind.OPERATION,
        ingest_ts=ingest_ts,
        source=name or None,
        dialect=source.kind if source is not None else None,
        package=package or None,
        class_name=class_name or None,
        object_id=object_id(name, record.class_name, record.row) if name and record.row else None,
        object_name=record.stable_name or None,
        row=record.row or None,
        state=record.state.value,
        text=record.text or None,
        principal=str(record.principal),
        outcome=record.outcome.value if record.outcome is not None else None,
        values=_values(record.values, name),
        absent=list(record.absent) or None,
        operation_id=record.operation_id,
        operation=record.kind.value,
        origin=record.principal.origin or None,
        method=record.method or None,
        element=record.element or None,
        code=record.code,
        latency_ns=max(0, until - record.began) if record.began else None,
        former=_values(record.previous, name),
        found=_values(record.found, name),
        attempts=record.attempts if record.attempts > 1 else None,
    )


def login_record(report: LoginReport, ingest_ts: str) -> LogRecord:
    """Return the ``login`` record of logins of one user from one address."""
    principal = report.principal
    place = f" from {principal.origin}" if principal.origin else ""
    what = "logged in" if report.times == 1 else f"{report.times} logins"
    return LogRecord(
        kind=RecordKind.LOGIN,
        ingest_ts=ingest_ts,
        text=f"{what}{place}",
        principal=str(principal),
        origin=principal.origin or None,
        attempts=report.times if report.times > 1 else None,
    )


def _values(values: Mapping[str, FeedValue], source: str) -> dict[str, object] | None:
    return {name: json_value(value, source) for name, value in values.items()} or None


def adoption_record(ingest_ts: str, principal: str, statement: str) -> LogRecord:
    """Return the ``audit`` record of a log that begins in the place of another gateway's.

    Args:
        ingest_ts: now.
        principal: the principal who requested it.
        statement: what the gateway states of the former log, signed (`audit_statements.Adoption`).
    """
    return LogRecord(
        kind=RecordKind.AUDIT,
        ingest_ts=ingest_ts,
        state="adoption",
        text="a new log begins in this folder: the former one is of another gateway, or was set back",
        principal=principal,
        values={"statement": statement},
    )


HEADS_FILE: Final = "heads"
"""The state of the record of `heads_file_record`."""


class Reloaded(enum.StrEnum):
    """What a reload of the configuration changes."""

    POLICY = "policy"
    MAPPINGS = "mappings"


_RELOADED_TEXTS = {
    Reloaded.POLICY: "roles of principals, or clients of SNMP, were changed: {} changes",
    Reloaded.MAPPINGS: "mappings and override files were changed: {} changes",
}


def reload_record(ingest_ts: str, reloaded: Reloaded, principal: str, changes: Sequence[str]) -> LogRecord:
    """Return the ``audit`` record of a reload.

    Args:
        ingest_ts: now.
        reloaded: what was changed.
        principal: who requested it.
        changes: the rules that principals gained or lost, or what differs in the files, in words; the first
            of them are recorded.
    """
    return LogRecord(
        kind=RecordKind.AUDIT,
        ingest_ts=ingest_ts,
        state=reloaded.value,
        text=_RELOADED_TEXTS[reloaded].format(len(changes)),
        principal=principal,
        values={"changes": list(changes[:MAX_CHANGES])},
    )


def heads_file_record(ingest_ts: str, file: str) -> LogRecord:
    """Return the ``audit`` record of the file to which signed heads are written from now on.

    It is in the chain before the first head of a start: by it a log knows that there were heads elsewhere.
    """
    return LogRecord(
        kind=RecordKind.AUDIT,
        ingest_ts=ingest_ts,
        state=HEADS_FILE,
        text=f"signed heads are written to {file}",
        values={"file": file},
    )


def deletion_record(ingest_ts: str, log_id: str, before_seq: int, statement: str) -> LogRecord:
    """Return the ``audit`` record of a deletion by the bounds of the log.

    Args:
        ingest_ts: now.
        log_id: the log that loses records.
        before_seq: the records of that log before it are deleted.
        statement: the signed statement (`gateway.eventlog.audit_statements.Deletion`).
    """
    return LogRecord(
        kind=RecordKind.AUDIT,
        ingest_ts=ingest_ts,
        state="deletion",
        text=f"the oldest records of log {log_id}, before seq {before_seq}, are deleted for its bounds",
        values={"statement": statement},
    )
