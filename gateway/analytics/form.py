"""The record of the event log as Spark reads it: the published columns with their types, and nothing else.

The form is that of ``docs/event-log.md``. It is additive: a column that older files lack is null in them, one
that a newer gateway added is passed over until it stands here.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

EXACT: Final = DecimalType(20, 0)
"""Holds every integer of 64 bits, signed and unsigned: 2^64-1 has 20 digits."""

COMMIT_KIND: Final = "_commit"
"""``kind`` of the line after each block; no record."""

VALUE_KINDS: Final = ("snapshot", "create", "update")
"""Records with values of an object."""

_TEXT, _LONG, _TIME = StringType(), LongType(), TimestampType()

_FIELDS: Final[tuple[tuple[str, DataType], ...]] = (
    ("log_id", _TEXT),
    ("seq", _LONG),
    ("kind", _TEXT),
    ("ingest_ts", _TIME),
    ("source", _TEXT),
    ("dialect", _TEXT),
    ("package", _TEXT),
    ("class", _TEXT),
    ("object_id", _TEXT),
    ("object_name", _TEXT),
    ("parent_id", _TEXT),
    ("row", _LONG),
    ("native_id", _TEXT),
    ("agent", _TEXT),
    ("lifetime", _TEXT),
    ("event_id", _TEXT),
    ("event", _TEXT),
    ("severity", _TEXT),
    ("state", _TEXT),
    ("condition", _TEXT),
    ("text", _TEXT),
    ("sample_ts", _TIME),
    ("sample_ns", _LONG),
    ("create_ts", _TIME),
    ("delete_ts", _TIME),
    ("reset_ts", _TIME),
    ("inferred", BooleanType()),
    ("from_ts", _TIME),
    ("to_ts", _TIME),
    ("lost", _LONG),
    ("principal", _TEXT),
    ("outcome", _TEXT),
    ("values", _TEXT),
    ("absent", ArrayType(_TEXT)),
    ("deltas", _TEXT),
    ("delivery", _TEXT),
    ("operation_id", _TEXT),
    ("operation", _TEXT),
    ("origin", _TEXT),
    ("method", _TEXT),
    ("element", _TEXT),
    ("code", _LONG),
    ("latency_ns", _LONG),
    ("former", _TEXT),
    ("found", _TEXT),
    ("attempts", _LONG),
)

RECORD: Final = StructType([StructField(name, type_) for name, type_ in _FIELDS])
"""Columns of a file of the lake, in order."""

PLACE: Final = StructType([StructField("dt", DateType()), StructField("hour", IntegerType())])
"""Day and hour of ``ingest_ts``, UTC: in the lake the names of the folders."""

LAKE: Final = StructType([*RECORD.fields, *PLACE.fields])
"""Columns of the whole lake, and of everything that `gateway.analytics.bronze` returns."""
