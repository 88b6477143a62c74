"""Segments of a log, written as the writer writes them, with records that can be identified."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from gateway.eventlog.block import BlockDraft
from gateway.eventlog.parquet import check
from gateway.eventlog.record import AnyRecord, Delta, LogRecord, RecordKind
from gateway.eventlog.segment import Segment, list_segments, segment_path

LOG_ID = "0b0e6c2e-1111-4222-8333-444455556666"
HOUR = dt.datetime(2026, 11, 20, 8, tzinfo=dt.UTC)
HOUR_FOLDER = Path("lake/dt=2026-11-20/hour=08")


def update(number: int, hour: dt.datetime = HOUR) -> LogRecord:
    """Record ``number`` of a queue, one each millisecond."""
    time = f"{hour + dt.timedelta(milliseconds=number % 3_600_000):%Y-%m-%dT%H:%M:%S.%fZ}"
    return LogRecord(
        kind=RecordKind.UPDATE,
        ingest_ts=time,
        source="orders",
        package="rabbitmq",
        class_name="queue",
        object_id=f"orders/rabbitmq:queue/{number % 7}",
        object_name=f"/|queue-{number % 7}",
        row=number % 7,
        sample_ts=time,
        sample_ns=1_700_000_000_000_000_000 + number,
        values={"messages": number, "published": 2**64 - 1 - number},
        absent=["consumerUtilisation"] if number % 5 == 0 else None,
        deltas={"published": Delta(number, 10**9)},
    )


def segment(
    folder: Path,
    first_seq: int,
    records: Iterable[AnyRecord],
    *,
    is_open: bool = False,
    log_id: str = LOG_ID,
    of_a_block: int = 10,
) -> Segment:
    """Write a segment into the log in ``folder``; blocks of ``of_a_block`` records."""
    path = segment_path(folder, first_seq, is_open=is_open)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(blocks(first_seq, records, log_id=log_id, of_a_block=of_a_block)))
    return Segment(first_seq, path, is_open)


def blocks(
    first_seq: int, records: Iterable[AnyRecord], *, log_id: str = LOG_ID, of_a_block: int = 10
) -> Iterator[bytes]:
    """Sealed blocks."""
    draft = BlockDraft(log_id, first_seq)
    for record in records:
        draft.add(record)
        if draft.records == of_a_block:
            yield bytes(draft.seal())
            draft = BlockDraft(log_id, draft.next_seq)
    if draft.records:
        yield bytes(draft.seal())


def some_segments(folder: Path, count: int, records: int = 25) -> list[Segment]:
    """``count`` complete segments of ``records`` records each, and an open one behind them that is empty."""
    made = [
        segment(folder, 1 + i * records, map(update, range(1 + i * records, 1 + (i + 1) * records)))
        for i in range(count)
    ]
    segment(folder, 1 + count * records, (), is_open=True)
    return made


def written_again(file: Path) -> None:
    """Replace a file of the lake by one with the same records, as a program that is not ours writes it."""
    draft = file.with_suffix(".draft")
    with duckdb.connect() as database:
        database.read_parquet(str(file), hive_partitioning=False).write_parquet(str(draft))
    draft.replace(file)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The records of a segment, without commit lines."""
    lines = (json.loads(line) for line in path.read_bytes().splitlines())
    return [line for line in lines if line["kind"] != "_commit"]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The records of Parquet files as they would stand on lines, by seq; read by DuckDB without our code."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = database.execute(
            "SELECT * FROM read_parquet($1, hive_partitioning = false) ORDER BY seq", [str(path)]
        )
        names = [column[0] for column in found.description]
        return [_as_line(dict(zip(names, row, strict=True))) for row in found.fetchall()]


def _as_line(row: Mapping[str, object]) -> dict[str, Any]:
    line = {name: value for name, value in row.items() if value is not None}
    for name, value in line.items():
        if isinstance(value, dt.datetime):
            line[name] = value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        elif name in {"values", "deltas", "former", "resend"}:
            line[name] = json.loads(str(value))
    return line


def everything(folder: Path) -> list[dict[str, Any]]:
    """Return all records of segments and lake, in order; one that is in both is there twice."""
    in_segments = [line for segment in list_segments(folder) for line in lines_of(segment.path)]
    files = sorted((folder / "lake").glob("*/*/*.parquet"))
    in_lake = [row for file in files for row in rows_of(file)]
    return sorted(in_lake + in_segments, key=lambda line: int(line["seq"]))


def file_of(folder: Path, first_seq: int) -> Path:
    """Return the Parquet file of the segment of `HOUR` that begins with ``first_seq``."""
    return folder / HOUR_FOLDER / f"{LOG_ID}-{first_seq:020}.parquet"


def entries(folder: Path) -> set[str]:
    """Return the names of a folder's entries; none where there is no folder."""
    return {entry.name for entry in folder.iterdir()} if folder.exists() else set()


def has_right_checksum(file: Path) -> bool:
    """Return whether a Parquet file is as it was written."""
    with duckdb.connect() as database:
        return check(database, file)
