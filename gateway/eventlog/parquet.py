"""One Parquet file of the lake: made of lines, and read back to the last value to see what it holds."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from gateway.eventlog.block import MAX_RECORD_OCTETS
from gateway.eventlog.columns import COLUMNS
from gateway.eventlog.parquet_checksum import METADATA, seal
from gateway.eventlog.record import COMMIT_KIND, VERSION

_GROUP_OCTETS: Final = 64 << 20
_MIN_GROUP_ROWS, _MAX_GROUP_ROWS = 2_048, 122_880
"""Rows that lie together in a file: as many as DuckDB likes best, fewer where lines are long, because a group
is held in memory while it is made."""

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

FILE_METADATA: Final = {"amqp_gateway_log_version": str(VERSION), **METADATA}
"""Entries of each file's metadata, by name."""


class ParquetError(Exception):
    """A file is no whole Parquet file with the columns of the log; the text says why."""


class UnreadableError(ParquetError):
    """DuckDB cannot read the file, whatever is in it."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file holds.

    Attributes:
        log_ids: whose records these are; one, in a file of ours.
        records: how many there are.
        first_seq: the lowest.
        last_seq: the highest.
        sum_of_seqs: of all; with the others it tells whether one is missing or there twice.
        earliest: the lowest ``ingest_ts``.
        latest: the highest.
    """

    log_ids: tuple[str, ...]
    records: int
    first_seq: int
    last_seq: int
    sum_of_seqs: int
    earliest: dt.datetime
    latest: dt.datetime

    @property
    def is_contiguous(self) -> bool:
        """Whether each seq from the first to the last is there once."""
        return (
            self.records == self.last_seq - self.first_seq + 1
            and 2 * self.sum_of_seqs == (self.first_seq + self.last_seq) * self.records
        )

    @property
    def is_of_one_hour(self) -> bool:
        """Whether all was ingested in one hour of UTC."""
        return _hour(self.earliest) == _hour(self.latest)


def lines_as_table(paths: list[Path]) -> str:
    """The part of a query that reads files of record lines as a table; commit lines are left out."""
    columns = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in COLUMNS.items())
    files = ", ".join(literal(str(path)) for path in paths)
    return (
        f"(FROM read_json([{files}], format = 'newline_delimited', columns = {{{columns}}}, "
        f"maximum_object_size = {MAX_RECORD_OCTETS}) WHERE kind <> {literal(COMMIT_KIND)})"
    )


def files_as_table(paths: list[Path]) -> str:
    """The part of a query that reads files of the lake as a table that has all columns.

    Columns that came to the form after a file was made are absent in its rows.
    """
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    files = ", ".join(literal(str(path)) for path in paths)
    return (
        f"(FROM (FROM {no_records()} UNION ALL BY NAME "
        f"FROM read_parquet([{files}], union_by_name = true, hive_partitioning = false)) SELECT {names})"
    )


def no_records() -> str:
    """The part of a query that is a table with all columns and no rows."""
    nothing = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in COLUMNS.items())
    return f"(SELECT {nothing} WHERE false)"


def write_parquet(
    database: duckdb.DuckDBPyConnection, lines: Path, target: Path, octets_of_a_line: int
) -> None:
    """Make ``target`` of the records in ``lines``, in their order, with its checksum.

    It is not brought to the disk.

    Args:
        database: that may use both files.
        lines: of a segment, with or without its commit lines.
        target: a new file.
        octets_of_a_line: about.

    Raises:
        duckdb.DataError: a line is no record.
        duckdb.Error: it cannot be done: files, memory, interrupted.
        ChecksumError: DuckDB wrote the file's metadata otherwise than it does.
        OSError: the file cannot be read or written.
    """
    metadata = ", ".join(f"{name}: {literal(value)}" for name, value in FILE_METADATA.items())
    rows = min(max(_GROUP_OCTETS // max(octets_of_a_line, 1), _MIN_GROUP_ROWS), _MAX_GROUP_ROWS)
    database.execute(
        f"COPY {lines_as_table([lines])} TO {literal(str(target))} (FORMAT parquet, COMPRESSION zstd, "
        f"ROW_GROUP_SIZE {rows}, KV_METADATA {{{metadata}}})"
    )
    seal(target)


def contents(database: duckdb.DuckDBPyConnection, path: Path) -> Contents:
    """Read a file whole, each column of it.

    Raises:
        UnreadableError: it is no such file, or damaged, or something else keeps DuckDB from reading it.
        ParquetError: it is empty, or its records have no place or time.
        OSError: it cannot be read.
    """
    with path.open("rb"):
        pass  # DuckDB's errors do not tell a file that is missing from one that is damaged
    query = (
        "SELECT list(DISTINCT log_id), count(*), min(seq), max(seq), sum(seq), epoch_us(min(ingest_ts)), "  # noqa: S608  a literal
        "epoch_us(max(ingest_ts)), count(*) FILTER (log_id IS NULL OR seq IS NULL OR ingest_ts IS NULL), "
        f"bit_xor(hash(file)) FROM read_parquet({literal(str(path))}) AS file"
    )
    try:
        found = database.execute(query).fetchone()
    except (duckdb.InterruptException, duckdb.OutOfMemoryException):
        raise
    except (duckdb.Error, UnicodeDecodeError) as error:  # the latter of a name of a column that is damaged
        raise UnreadableError(first_line_of(error)) from error
    assert found is not None
    log_ids, records, first, last, total, earliest, latest, nameless, _ = found
    if not records or nameless:
        raise ParquetError(
            f"{nameless} of {records} records have no place or no time" if records else "empty"
        )
    try:
        times = _EPOCH + dt.timedelta(microseconds=earliest), _EPOCH + dt.timedelta(microseconds=latest)
    except OverflowError as error:
        raise ParquetError("records of a time beyond all calendars") from error
    return Contents(tuple(sorted(log_ids)), records, first, last, total, *times)


def literal(text: str) -> str:
    """``text`` as it stands in SQL."""
    return "'" + text.replace("'", "''") + "'"


def first_line_of(error: Exception) -> str:
    """What DuckDB says, without where in the query."""
    return str(error).partition("\n")[0].strip()


def _hour(time: dt.datetime) -> dt.datetime:
    return time.astimezone(dt.UTC).replace(minute=0, second=0, microsecond=0)
