"""The columns of the log as tables have them: the fields of a record behind its place, each with one type.

They are the same in each file of the lake, also where a column is absent throughout, so that any files of it
can be read together. The form is published in ``docs/event-log.md``.
"""

from __future__ import annotations

from typing import Final

TEXT: Final = "VARCHAR"
INTEGER: Final = "BIGINT"
TIME: Final = "TIMESTAMPTZ"
"""Microseconds; in Parquet ``TIMESTAMP(isAdjustedToUTC=true, MICROS)``."""

COLUMNS: Final = {
    "log_id": TEXT,
    "seq": INTEGER,
    "kind": TEXT,
    "ingest_ts": TIME,
    "source": TEXT,
    "dialect": TEXT,
    "package": TEXT,
    "class": TEXT,
    "object_id": TEXT,
    "object_name": TEXT,
    "parent_id": TEXT,
    "row": INTEGER,
    "native_id": TEXT,
    "agent": TEXT,
    "lifetime": TEXT,
    "event_id": TEXT,
    "event": TEXT,
    "severity": TEXT,
    "state": TEXT,
    "condition": TEXT,
    "text": TEXT,
    "sample_ts": TIME,
    "sample_ns": INTEGER,
    "create_ts": TIME,
    "delete_ts": TIME,
    "reset_ts": TIME,
    "inferred": "BOOLEAN",
    "from_ts": TIME,
    "to_ts": TIME,
    "lost": INTEGER,
    "principal": TEXT,
    "outcome": TEXT,
    "values": TEXT,  # JSON as it stood on the line, so that 2^64-1 and each float stay what they are
    "absent": f"{TEXT}[]",
    "deltas": TEXT,  # JSON likewise
    "delivery": TEXT,
    "operation_id": TEXT,
    "operation": TEXT,
    "origin": TEXT,
    "method": TEXT,
    "element": TEXT,
    "code": INTEGER,
    "latency_ns": INTEGER,
    "former": TEXT,  # JSON likewise
    "found": TEXT,  # JSON likewise
    "attempts": INTEGER,
}
"""Types by name, in order; in the words of DuckDB."""
