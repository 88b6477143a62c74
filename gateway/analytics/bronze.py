"""Bronze: the log's records as they were recorded, each once, as one DataFrame with typed columns.

The columns are those of ``docs/event-log.md``. A column that older files lack is null in them; one that a
newer gateway added is left out until it is in `RECORD`. Records are in the lake (Parquet) or still in
segments (JSON lines), for a moment in both. ``_commit`` lines are left out, and so are lines behind a file's
last commit line: they were never acknowledged. ``amqp-gateway log verify`` checks checksums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
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

from gateway.analytics import coverage
from gateway.analytics.coverage import Period, Stretch
from gateway.analytics.session import (
    SPARK_ERRORS,
    AnalyticsError,
    NoLogError,
    Storage,
    below,
    is_file_gone,
    reason,
)

EXACT: Final = DecimalType(20, 0)
"""A type for every integer of 64 bits, signed and unsigned: 2^64-1 has 20 digits."""

COMMIT_KIND: Final = "_commit"
"""``kind`` of the line after each block; no record."""

VALUE_KINDS: Final = ("snapshot", "create", "update")
"""Kinds of records with values of an object."""

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
    ("audit", _LONG),
    ("audit_hash", _TEXT),
    ("resend", _TEXT),
)

RECORD: Final = StructType([StructField(name, type_) for name, type_ in _FIELDS])
"""Columns of a file of the lake, in order."""

PLACE: Final = StructType([StructField("dt", DateType()), StructField("hour", IntegerType())])
"""Day and hour of ``ingest_ts``, UTC: in the lake the names of the folders."""

LAKE: Final = StructType([*RECORD.fields, *PLACE.fields])
"""Columns of the whole lake, and of everything that `gateway.analytics.bronze` returns."""

LAKE_FOLDER: Final = "lake"
SEGMENT_FOLDER: Final = "segments"

_LEAST_SEQ: Final = -(2**63)
_FILE: Final = "file"
_UNREADABLE: Final = "unreadable"
_LINE: Final = StructType([*RECORD.fields, StructField(_UNREADABLE, StringType())])
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Bronze:
    """The records of a log in a period.

    Attributes:
        records: columns of `gateway.analytics.bronze.LAKE`; each record once by (``log_id``, ``seq``).
        standing: records of the period, and those before it that the same files hold, from the begin of its
            first hour on at least: there stands the head of a segment, which has the schemas and what lives.
        held: the records that the files of these hours hold, as stretches of seq.
        duplicates: the number of records that stood in the files once more.
        uncommitted: the number of lines behind the last commit line of their segment.
        unreadable: the number of lines of segments that are no JSON object of ours.
    """

    records: DataFrame
    standing: DataFrame
    held: tuple[Stretch, ...]
    duplicates: int
    uncommitted: int
    unreadable: int

    @property
    def missing(self) -> int:
        """The number of records missing between the first and the last of each log."""
        return sum(len(hole) for hole in coverage.holes(self.held))


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """The contents of a segment.

    Attributes:
        file: its path.
        committed: the seq of the last record that a commit line confirms; ``None`` where there is none.
        last: the highest seq of a record, confirmed or not; ``None`` where there is none.
        records: the number of lines that are records, confirmed or not.
        unreadable: the number of lines that are no JSON object of ours.
    """

    file: str
    committed: int | None
    last: int | None
    records: int
    unreadable: int

    @property
    def uncommitted_from(self) -> int | None:
        """The lowest seq behind the last commit line; ``None`` where all records are confirmed."""
        if self.last is None or (self.committed is not None and self.last <= self.committed):
            return None
        return _LEAST_SEQ if self.committed is None else self.committed + 1


@contextmanager
def bronze(spark: SparkSession, log: str, period: Period) -> Iterator[Bronze]:
    """Yield the records of the log folder ``log`` in ``period``, lake and segments; also of a live log.

    Records in segments are read here and kept by Spark for as long as the block lasts, because segments
    turn into files of the lake meanwhile.

    Raises:
        NoLogError: there is none.
        AnalyticsError: its segments cannot be read.
    """
    storage = Storage(spark)
    if not any(storage.exists(below(log, name)) for name in (LAKE_FOLDER, SEGMENT_FOLDER)):
        raise NoLogError(f"{log} holds no event log: it has neither {LAKE_FOLDER}/ nor {SEGMENT_FOLDER}/")
    # Segments first: one that is compacted in between is then read twice, not never.
    lines, segments = _lines(spark, storage, log)
    try:
        records = segment_records(lines, segments)
        if storage.exists(below(log, LAKE_FOLDER)):
            lake = lake_records(spark, log).where(period.may_hold_hour())
            records = records.unionByName(lake.select("*", F.col("_metadata.file_path").alias(_FILE)))
        files = coverage.contents(records)
        count = sum(file.records for file in files)
        held = coverage.union(stretch for file in files for stretch in file.stretches)
        duplicates = count - coverage.size(held)
        wanted = records.where(period.holds()).drop(_FILE)
        standing = records.where(F.col("ingest_ts") < F.lit(period.end)).drop(_FILE)
        committed = sum(file.records for file in files if file.file in {segment.file for segment in segments})
        yield Bronze(
            # To compare all records costs a shuffle of the whole log, so it is left out where the files do
            # not overlap.
            records=once(wanted) if duplicates else wanted,
            standing=once(standing) if duplicates else standing,
            held=tuple(held),
            duplicates=duplicates,
            uncommitted=sum(segment.records for segment in segments) - committed,
            unreadable=sum(segment.unreadable for segment in segments),
        )
    finally:
        lines.unpersist()


def once(records: DataFrame) -> DataFrame:
    """Return each record once; all copies of a record are the same."""
    return records.dropDuplicates(["log_id", "seq"])


def segment_records(lines: DataFrame, segments: Sequence[SegmentFile]) -> DataFrame:
    """Return the committed records among the ``lines`` of ``segments``."""
    records = lines.where((F.col("kind") != COMMIT_KIND) & F.col("seq").isNotNull())
    # A line behind the last commit line was never acknowledged, and a gateway that recovers cuts it off: few
    # segments have one. As literals, because a join would begin each question with a job of its own, and a
    # DataFrame that PySpark makes of Python's values with Python processes, too.
    uncommitted = {segment.file: segment.uncommitted_from for segment in segments}
    entries = [F.lit(value) for entry in uncommitted.items() if entry[1] is not None for value in entry]
    if entries:
        begin = F.create_map(*entries)[F.col(_FILE)]
        records = records.where(begin.isNull() | (F.col("seq") < begin))
    placed = records.withColumns({"dt": F.to_date("ingest_ts"), "hour": F.hour("ingest_ts")})
    return placed.select(*LAKE.fieldNames(), _FILE)


def lake_records(spark: SparkSession, log: str) -> DataFrame:
    """Return all records of the lake; a filter by ``dt`` and ``hour`` reads only folders of these hours."""
    return spark.read.schema(LAKE).parquet(below(log, LAKE_FOLDER))


def lake_stream(spark: SparkSession, log: str, max_files_per_trigger: int = 64) -> DataFrame:
    """Return the lake as a stream: each file once, in the order in which files appeared.

    Files of the lake are never rewritten. Copies of a file under another name come again: see `once_within`,
    and `gateway.analytics.pipeline`, which needs no memory of single records. ``file`` is the file of a
    record.
    """
    return (
        spark.readStream.schema(LAKE)
        .option("maxFilesPerTrigger", max_files_per_trigger)
        # A file that was copied keeps its age: none is too old (by default one of 7 days is passed over).
        .option("maxFileAge", "100000d")
        .parquet(below(log, LAKE_FOLDER))
        .select("*", F.col("_metadata.file_path").alias(_FILE))
    )


def once_within(records: DataFrame, lateness: str) -> DataFrame:
    """Return each record of a stream once, remembered for ``lateness`` of ``ingest_ts`` (``2 hours``).

    Records that come later than that behind the newest are dropped: choose it longer than any gateway's files
    are on their way.
    """
    return records.withWatermark("ingest_ts", lateness).dropDuplicatesWithinWatermark(["log_id", "seq"])


def _lines(spark: SparkSession, storage: Storage, log: str) -> tuple[DataFrame, list[SegmentFile]]:
    """Return all lines of all segments, read and kept, and the contents of each segment."""
    folder = below(log, SEGMENT_FOLDER)
    folders = [folder] if storage.exists(folder) else []
    for attempt in range(_ATTEMPTS):
        lines = (
            spark.read.schema(_LINE)
            # A line that is cut or foreign must not fail the whole report: it is counted.
            .option("columnNameOfCorruptRecord", _UNREADABLE)
            .option("pathGlobFilter", "*.jsonl")
            .json(folders)
            .select("*", F.col("_metadata.file_path").alias(_FILE))
            # Read once, because the segments may be gone when they are read again.
            .persist(StorageLevel.MEMORY_AND_DISK)
        )
        try:
            return lines, _segments(lines)
        except SPARK_ERRORS as error:
            lines.unpersist()
            # Compacted, or given its final name, between listing and reading.
            if not is_file_gone(error) or attempt == _ATTEMPTS - 1:
                raise AnalyticsError(f"{folder} cannot be read: {reason(error)}") from error
    raise AssertionError


def _segments(lines: DataFrame) -> list[SegmentFile]:
    is_record = F.col("seq").isNotNull() & F.col("kind").isNotNull()
    is_commit = is_record & (F.col("kind") == COMMIT_KIND)
    found = lines.groupBy(_FILE).agg(
        F.max(F.when(is_commit, F.col("seq"))).alias("committed"),
        F.max(F.when(is_record & ~is_commit, F.col("seq"))).alias("last"),
        F.count_if(is_record & ~is_commit).alias("records"),
        F.count_if(~is_record).alias("unreadable"),
    )
    return [
        SegmentFile(row[_FILE], row["committed"], row["last"], row["records"], row["unreadable"])
        for row in found.collect()
    ]
