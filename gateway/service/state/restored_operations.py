"""Operations that a core before this one began and did not end, from the event log to the feed's form."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gateway.eventlog.record import LogRecord
from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.feed.values import FeedValue
from gateway.model.operations import Principal
from gateway.model.stable_names import parts

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def restored_operations(begun: Iterable[LogRecord], sources: Mapping[str, int]) -> Iterator[OperationRecord]:
    """Yield them as they stood; without a number, which the next core gives.

    Args:
        begun: what the log says of them.
        sources: numbers by name; of a source that is not configured any more, the object is left out.
    """
    for record in begun:
        source = sources.get(record.source or "", 0)
        north, _, name = (record.principal or "").partition(":")
        stable_name = (record.object_name or "") if source else ""
        yield OperationRecord(
            number=0,
            operation_id=record.operation_id or "",
            kind=_kind(record.operation),
            state=OperationState.BEGUN,
            principal=Principal(north, name, record.origin or ""),
            source=source,
            class_name=f"{record.package}:{record.class_name}" if record.class_name else "",
            row=(record.row or 0) if source else 0,
            stable_name=stable_name,
            leaf_name=(parts(stable_name)[-1] or "") if stable_name else "",
            method=record.method or "",
            values=_values(record.values),
            former=_values(record.former),
            absent=tuple(record.absent or ()),
            began=_nanoseconds(record.ingest_ts) - (record.latency_ns or 0),
        )


def _kind(text: str | None) -> OperationKind:
    try:
        return OperationKind(text)
    except ValueError:
        return OperationKind.INVOKE


def _values(values: Mapping[str, object] | None) -> dict[str, FeedValue]:
    """Values as the log has them; lists are tuples in the feed."""
    return {name: _value(value) for name, value in (values or {}).items() if value is not None}


def _value(value: object) -> FeedValue:
    if isinstance(value, Mapping):
        return {str(key): _value(inner) for key, inner in value.items() if inner is not None}  # type: ignore[misc]  # no links: JSON has none
    if isinstance(value, list):
        return tuple(_value(inner) for inner in value if inner is not None)  # type: ignore[misc]  # likewise
    return value if isinstance(value, bool | int | float | str) else str(value)


def _nanoseconds(text: str) -> int:
    try:
        since = dt.datetime.fromisoformat(text) - _EPOCH
    except (ValueError, TypeError):
        return 0
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000
