"""Event logs whose contents are known by construction, written in the published form."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics.bronze import COMMIT_KIND, RECORD
from gateway.eventlog.block import MAX_BLOCK_RECORDS, BlockDraft
from gateway.eventlog.compaction import Compactor
from gateway.eventlog.record import Delta, LogRecord, RecordKind
from gateway.eventlog.segment import Segment, segment_path

LOG_ID = "0b6b7e4c-2f5d-4a58-9a55-1c5d1a2e8f10"
NOON = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def text(time: dt.datetime) -> str:
    """Return the time as on a line of the log."""
    return f"{time:%Y-%m-%dT%H:%M:%S.%fZ}"


def after(seconds: float) -> dt.datetime:
    """Return the time so many seconds after noon."""
    return NOON + dt.timedelta(seconds=seconds)


@dataclass
class WrittenLog:
    """A log on disk, segment by segment; ``next_seq`` goes on over all of them."""

    folder: Path
    log_id: str = LOG_ID
    next_seq: int = 1
    records: list[tuple[int, LogRecord]] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The path as Spark takes it."""
        return str(self.folder)

    def segment(self, records: Sequence[LogRecord], *, is_open: bool = False, tail: bytes = b"") -> Path:
        """Write a segment; ``tail`` stands behind its last commit line."""
        path = segment_path(self.folder, self.next_seq, is_open=is_open)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for start in range(0, len(records), MAX_BLOCK_RECORDS):
                block = BlockDraft(self.log_id, self.next_seq)
                for record in records[start : start + MAX_BLOCK_RECORDS]:
                    self.records.append((block.next_seq, record))
                    block.add(record)
                self.next_seq = block.next_seq
                file.write(block.seal())
            file.write(tail)
        return path

    def lake(self, records: Sequence[LogRecord]) -> Path:
        """Write a segment and compact it; return the path of its file."""
        first = self.next_seq
        path = self.segment(records)
        with Compactor(self.folder) as compactor:
            done = compactor.compact(Segment(first, path, is_open=False))
        assert done is not None
        return next((self.folder / "lake").rglob(f"{self.log_id}-{first:020}.parquet"))

    def copy(self, file: Path, name: str) -> Path:
        """Copy a file of the lake under another name."""
        return Path(shutil.copy(file, file.with_name(name)))


def of_object(
    kind: RecordKind, seconds: float, row: int, class_name: str = "queue", name: str = ""
) -> LogRecord:
    """Return a record with the fields that every record of an object has."""
    return LogRecord(
        kind=kind,
        ingest_ts=text(after(seconds)),
        source="rabbitmq",
        dialect="rabbitmq",
        package="rabbitmq",
        class_name=class_name,
        object_id=f"rabbitmq/rabbitmq:{class_name}/{row}",
        object_name=name or f"{class_name}-{row}",
        row=row,
        agent="agent",
        lifetime="durable",
    )


def reported(
    record: LogRecord, sampled: float | None = None, absent: list[str] | None = None, /, **values: object
) -> LogRecord:
    """Return the record with these values, sampled so many seconds after noon."""
    sample = None if sampled is None else after(sampled)
    return replace(
        record,
        values=values or None,
        absent=absent,
        sample_ts=None if sample is None else text(sample),
        sample_ns=None if sample is None else round(sample.timestamp() * 1e9),
    )


def counted(record: LogRecord, **deltas: Delta) -> LogRecord:
    """Return the record with these deltas of counters."""
    return replace(record, deltas=deltas)


def event(seconds: float, name: str, number: int, **fields: object) -> LogRecord:
    """An event of the source."""
    known: dict[str, object] = {"severity": "info", "state": "one-shot"} | fields
    return replace(
        LogRecord(
            kind=RecordKind.EVENT,
            ingest_ts=text(after(seconds)),
            source="rabbitmq",
            package="rabbitmq",
            event=name,
            event_id=f"6f1c.1.{number}",
        ),
        **known,
    )


def frame(spark: SparkSession, log: WrittenLog, records: Sequence[LogRecord]) -> DataFrame:
    """Return the records as bronze has them, without the way through lake and commit lines."""
    lines = spark.read.schema(RECORD).json(str(log.segment(records)))
    return lines.where(F.col("kind") != COMMIT_KIND).withColumns(
        {"dt": F.to_date("ingest_ts"), "hour": F.hour("ingest_ts")}
    )
