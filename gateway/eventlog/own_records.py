"""Records that the log tells of itself."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection, Mapping
from functools import cache

from gateway.eventlog.record import VERSION, LogRecord, RecordKind
from gateway.eventlog.retention import Deleted
from gateway.eventlog.rotation import Why

_DISTRIBUTION = "amqp-management-gateway"


def start_record(
    ingest_ts: str, why: Why, facts: Mapping[str, object], deleted: Deleted | None = None
) -> LogRecord:
    """The first record of a segment.

    Args:
        ingest_ts: now.
        why: the segment begins.
        facts: further values.
        deleted: what the bounds of the log cost since the last such record.
    """
    values: dict[str, object] = {
        "version": VERSION,
        "gateway_version": _gateway_version(),
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
    """A gap: from the last record of the last writer to now.

    Args:
        ingest_ts: now.
        last_ts: ``ingest_ts`` of that record.
        covered: names of sources that tell by gaps of their own what of theirs was missed, if anything was.
    """
    return LogRecord(
        kind=RecordKind.GAP,
        ingest_ts=ingest_ts,
        text="the gateway was not running, or what it recorded last was not yet on the disk",
        from_ts=last_ts,
        to_ts=ingest_ts,
        values={"covered": sorted(covered)} if covered else None,
    )


@cache
def _gateway_version() -> str:
    return importlib.metadata.version(_DISTRIBUTION)
