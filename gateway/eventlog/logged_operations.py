"""Operations as the log tells them: when they begin, when they end, and when an unknown outcome is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gateway.eventlog.logged_values import json_value, object_id
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.timestamps import microseconds_text
from gateway.feed.operations import OperationRecord, OperationState
from gateway.feed.records import SourceRecord
from gateway.feed.values import FeedValue


class LoggedOperations:
    """Those that are under way, which each segment tells again: its last segments tell what has no end."""

    def __init__(self) -> None:
        self._under_way: dict[int, tuple[OperationRecord, SourceRecord | None]] = {}

    def tell(
        self, record: OperationRecord, source: SourceRecord | None, ingest_ts: str, now: int
    ) -> LogRecord:
        """An operation as it stands now."""
        if record.state is OperationState.BEGUN:
            self._under_way[record.number] = (record, source)
        else:
            self._under_way.pop(record.number, None)
        return operation_record(record, source, ingest_ts, now)

    def standing(self, clock: Callable[[], int]) -> Iterator[LogRecord]:
        """Those that are under way, told again at a segment's head."""
        for number, (record, source) in tuple(self._under_way.items()):
            if number in self._under_way:
                now = clock()
                yield operation_record(record, source, microseconds_text(now) or "", now)


def operation_record(
    record: OperationRecord, source: SourceRecord | None, ingest_ts: str, now: int
) -> LogRecord:
    """An operation as it stands, as ``operation``; its ``latency_ns`` until now where it is under way."""
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
        former=_values(record.former, name),
        found=_values(record.found, name),
        attempts=record.attempts if record.attempts > 1 else None,
    )


def _values(values: Mapping[str, FeedValue], source: str) -> dict[str, object] | None:
    return {name: json_value(value, source) for name, value in values.items()} or None
