"""The conversion of a segment into a file of the lake: by our compactor, and by one statement of DuckDB."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import duckdb

from gateway.eventlog.compaction import MEMORY_MEBIBYTES, Compactor
from gateway.eventlog.segment import Segment


def by_us(segment: Segment, scratch: Path, records: int) -> tuple[float, int]:
    """Return the seconds until the file is in its place and the segment gone; and the size of the file.

    The segment is checked, and the file read back, before it takes its place.
    """
    copy = Segment(segment.first_seq, scratch / "segments" / segment.path.name, is_open=False)
    copy.path.parent.mkdir(parents=True)
    shutil.copy(segment.path, copy.path)
    start = time.perf_counter()
    with Compactor(scratch) as compactor:
        compacted = compactor.compact(copy)
    seconds = time.perf_counter() - start
    assert compacted is not None
    assert not compacted.problems, compacted.problems
    assert compacted.records == records, compacted
    shutil.rmtree(scratch)
    return seconds, compacted.file_octets


def by_duckdb(segment: Segment, scratch: Path, records: int, threads: int) -> float:
    """Return the seconds of plain DuckDB with as much memory as ours; commit lines become ordinary rows."""
    scratch.mkdir()
    target = scratch / "plain.parquet"
    start = time.perf_counter()
    with duckdb.connect(
        config={"threads": threads, "memory_limit": f"{MEMORY_MEBIBYTES}MiB", "temp_directory": str(scratch)}
    ) as database:
        database.execute(
            f"COPY (SELECT * FROM read_json('{segment.path}')) TO '{target}' "  # noqa: S608  our own paths
            "(FORMAT parquet, COMPRESSION zstd)"
        )
        seconds = time.perf_counter() - start
        found = database.execute(f"SELECT count(*) FROM '{target}' WHERE kind <> '_commit'").fetchone()  # noqa: S608
    assert found == (records,), f"{found} rows of {records} records"
    shutil.rmtree(scratch)
    return seconds


def all_processors() -> int:
    """Return the number of threads that DuckDB uses by default."""
    return os.cpu_count() or 1
