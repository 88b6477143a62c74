"""A Parquet file of the lake: made of lines, and read back to the last value to check its contents."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import duckdb

from gateway.eventlog.block import MAX_RECORD_OCTETS
from gateway.eventlog.record import COMMIT_KIND, VERSION
from gateway.model.times import EPOCH
from gateway.temporary_folders import temporary_folder

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
    "audit": INTEGER,
    "audit_hash": TEXT,
    "resend": TEXT,  # JSON likewise
}
"""DuckDB's types of the columns by name, in order."""


_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
}
"""Settings of DuckDB: all we need is built in; nothing is ever fetched, no file of the user's is read."""

_INTERRUPTED: Final = "Query interrupted"
"""DuckDB's error while it waits for a result, and a handler of signals has raised an exception."""


@contextmanager
def database(
    readable: Path, *, memory_mebibytes: int, threads: int, scratch: Path | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield an empty database that ends with the block.

    It can use files below ``readable`` and those of ``scratch``; its settings cannot be changed any more, and
    times are in UTC.

    Args:
        readable: a folder; DuckDB's ``COPY`` can write there, too.
        memory_mebibytes: for data; the process takes some 100 MiB more.
        threads: the maximum number of threads.
        scratch: a folder for data beyond the memory; default: a new one that is removed with the block.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    with ExitStack() as stack, _interrupted():
        if scratch is None:
            scratch = stack.enter_context(temporary_folder())
        opened = stack.enter_context(duckdb.connect(":memory:", config=_OFFLINE))
        # The machine's own zone would move the hours of records.
        opened.execute("SET TimeZone = 'UTC'")
        opened.execute(f"SET threads = {threads:d}")
        opened.execute(f"SET memory_limit = '{memory_mebibytes:d}MiB'")
        opened.execute("SET temp_directory = $1", [str(scratch)])
        folders = sorted(
            {str(folder) for given in (readable, scratch) for folder in (given, given.resolve())}
        )
        opened.execute("SET allowed_directories = $1", [folders])
        # Last but one: from here on only the folders above are open, and the next line makes that final.
        opened.execute("SET enable_external_access = false")
        opened.execute("SET lock_configuration = true")
        yield opened


@contextmanager
def _interrupted() -> Iterator[None]:
    """Raise the ``KeyboardInterrupt`` of Ctrl-C, which DuckDB replaces by an error of its own."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != _INTERRUPTED:
            raise
        raise KeyboardInterrupt from error


KEY: Final = "amqp_gateway_log_crc32"
"""The key of the checksum's entry in the file's metadata."""

_ALGORITHM_KEY: Final = "amqp_gateway_log_checksum"
_DIGITS: Final = 8
_BLANK: Final = "0" * _DIGITS

METADATA: Final = {_ALGORITHM_KEY: "crc32", KEY: _BLANK}
"""The metadata that a file is to be written with before it is sealed."""

_MARK: Final = KEY.encode() + bytes((0x18, _DIGITS))
"""The key in the footer (Thrift's compact protocol), and the mark of a text of eight octets behind it."""

_ALGORITHM_ENTRY: Final = _ALGORITHM_KEY.encode() + bytes((0x18, 5)) + b"crc32"
"""The entry in the footer that shows that there is a checksum."""

_TAIL_OCTETS: Final = 64 << 10
"""The size of the searched end of a file: only the writer's name and column orders follow metadata."""

_PIECE: Final = 1 << 20


class ChecksumError(Exception):
    """A file is not octet for octet what was written; the text says what was expected."""


def seal(path: Path) -> None:
    """Write the checksum into a file that was written with `METADATA`. It is not brought to the disk.

    Raises:
        ChecksumError: the file was not written so.
        OSError: it cannot be read or written.
    """
    with path.open("r+b") as file:
        place = _place(file)
        # The checksum is in the file that it is of, so it is made with zeros in its own place.
        digits = f"{_crc(file, place):08x}".encode()
        file.seek(place)
        file.write(digits)


def check(database: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """Compare a file with its checksum.

    Returns:
        Whether it has one: those of earlier versions, and of other programs, have none.

    Raises:
        ChecksumError: it is damaged, or was rewritten by a program that kept the checksum.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        try:
            found = database.execute("SELECT key, value FROM parquet_kv_metadata($1)", [str(path)]).fetchall()
        except duckdb.InterruptException:
            raise
        except (duckdb.Error, UnicodeDecodeError) as error:
            path.stat()  # gone meanwhile, which DuckDB's errors do not show
            raise ChecksumError(f"its metadata cannot be read: {error}") from error
        metadata: dict[bytes, bytes] = dict(found)
        if metadata.keys().isdisjoint(key.encode() for key in METADATA):
            # DuckDB finds no metadata at all behind some damage, and does not complain.
            if _tail(file)[1].rfind(_ALGORITHM_ENTRY) >= 0:
                raise ChecksumError("its metadata cannot be read any more")
            return False
        expected = metadata.get(KEY.encode(), b"none").decode(errors="replace")
        actual = f"{_crc(file, _place(file)):08x}"
    if expected != actual:
        raise ChecksumError(f"expected octets with CRC {expected}, found {actual}")
    return True


def _place(file: IO[bytes]) -> int:
    """Return the offset of the digits of the checksum, in octets.

    The statistics in a footer may contain strangers' names, before its metadata: the last mark is ours.
    """
    begin, octets = _tail(file)
    found = octets.rfind(_MARK)
    if found < 0:
        raise ChecksumError("its checksum is not where it should be")
    return begin + found + len(_MARK)


def _tail(file: IO[bytes]) -> tuple[int, bytes]:
    """Return the offset of the last octets, which contain the metadata, and these octets."""
    size = file.seek(0, 2)
    begin = max(size - _TAIL_OCTETS, 0)
    file.seek(begin)
    return begin, file.read()


def _crc(file: IO[bytes], place: int) -> int:
    """Return the CRC of the whole file, with zeros for the digits at ``place``."""
    file.seek(0)
    crc = 0
    left = place
    while left and (octets := file.read(min(left, _PIECE))):
        crc = zlib.crc32(octets, crc)
        left -= len(octets)
    crc = zlib.crc32(_BLANK.encode(), crc)
    file.seek(place + _DIGITS)
    while octets := file.read(_PIECE):
        crc = zlib.crc32(octets, crc)
    return crc


_GROUP_OCTETS: Final = 64 << 20
_MIN_GROUP_ROWS, _MAX_GROUP_ROWS = 2_048, 122_880
"""The bounds of the rows of a row group: as many as DuckDB likes best, fewer where lines are long, because a
group is held in memory while it is made."""


_FORM_KEY: Final = "amqp_gateway_log_version"

FILE_METADATA: Final = {_FORM_KEY: str(VERSION), **METADATA}
"""Entries of each file's metadata, by name."""


def form_of_file(database: duckdb.DuckDBPyConnection, path: Path) -> int:
    """Return the version of the records' form in a file; 0 where it is not known."""
    try:
        found = database.execute(
            "SELECT value FROM parquet_kv_metadata($1) WHERE key = $2", [str(path), _FORM_KEY.encode()]
        ).fetchone()
        return 0 if found is None else int(found[0])
    except (duckdb.Error, ValueError):  # damaged, which those report who read it
        return 0


class ParquetError(Exception):
    """A file is no whole Parquet file with the columns of the log; the text says why."""


class UnreadableError(ParquetError):
    """DuckDB cannot read the file, whatever is in it."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a file.

    Attributes:
        log_ids: the logs of the records; one, in a file of ours.
        records: the number of records.
        first_seq: the lowest seq.
        last_seq: the highest seq.
        sum_of_seqs: the sum of all seqs; with the others it shows whether one is missing or there twice.
        earliest: the lowest ``ingest_ts``.
        latest: the highest ``ingest_ts``.
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
    """Return the part of a query that reads files of record lines as a table; commit lines are left out."""
    columns = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in COLUMNS.items())
    files = ", ".join(literal(str(path)) for path in paths)
    return (
        f"(FROM read_json([{files}], format = 'newline_delimited', columns = {{{columns}}}, "
        f"maximum_object_size = {MAX_RECORD_OCTETS}) WHERE kind <> {literal(COMMIT_KIND)})"
    )


def files_as_table(paths: list[Path]) -> str:
    """Return the part of a query that reads files of the lake as a table that has all columns.

    Columns that came to the form after a file was made are absent in its rows.
    """
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    files = ", ".join(literal(str(path)) for path in paths)
    return (
        f"(FROM (FROM {no_records()} UNION ALL BY NAME "
        f"FROM read_parquet([{files}], union_by_name = true, hive_partitioning = false)) SELECT {names})"
    )


def no_records() -> str:
    """Return the part of a query that is a table with all columns and no rows."""
    nothing = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in COLUMNS.items())
    return f"(SELECT {nothing} WHERE false)"


def write_parquet(
    database: duckdb.DuckDBPyConnection, lines: Path, target: Path, octets_of_a_line: int
) -> None:
    """Make ``target`` of the records in ``lines``, in their order, with its checksum.

    It is not brought to the disk.

    Args:
        database: a database that may use both files.
        lines: the file of a segment, with or without its commit lines.
        target: a new file.
        octets_of_a_line: the approximate size of a line.

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
        pass  # DuckDB's errors do not distinguish a missing file from a damaged one
    query = (
        "SELECT list(DISTINCT log_id), count(*), min(seq), max(seq), sum(seq), epoch_us(min(ingest_ts)), "  # noqa: S608  a literal
        # Times as microseconds: for a TIMESTAMPTZ in Python DuckDB needs pytz, which need not be installed.
        "epoch_us(max(ingest_ts)), count(*) FILTER (log_id IS NULL OR seq IS NULL OR ingest_ts IS NULL), "
        # The hash of whole rows has DuckDB decode each value of each column.
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
        times = EPOCH + dt.timedelta(microseconds=earliest), EPOCH + dt.timedelta(microseconds=latest)
    except OverflowError as error:
        raise ParquetError("records of a time beyond all calendars") from error
    return Contents(tuple(sorted(log_ids)), records, first, last, total, *times)


def literal(text: str) -> str:
    """Return ``text`` as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


_INNER_MESSAGE: Final = re.compile(r'"exception_message":("(?:[^"\\]|\\.)*")')


def first_line_of(error: Exception) -> str:
    """Return DuckDB's message without the place in the query; of one that encloses another, the inner one."""
    text = str(error)
    inner = _INNER_MESSAGE.search(text)
    with contextlib.suppress(ValueError):
        text = json.loads(inner[1]) if inner is not None else text
    return text.partition("\n")[0].strip()


def _hour(time: dt.datetime) -> dt.datetime:
    return time.astimezone(dt.UTC).replace(minute=0, second=0, microsecond=0)
