"""SQL queries of the log: lake, complete segments and the committed part of the open one, as one table.

Each record is there once by ``log_id`` and ``seq``, also while the log is written, compacted and cut: a
segment beside the file made of it is passed over, and files are held open, so that they can be read to their
end although they are removed meanwhile. Of very many files some are not: where one of them is removed, the
query is repeated, as long as nothing was returned yet.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import duckdb
import msgspec

from gateway.eventlog.disk import EventLogError, NewerLogError
from gateway.eventlog.parquet import (
    database,
    files_as_table,
    form_of_file,
    lines_as_table,
    literal,
    no_records,
)
from gateway.eventlog.segment import (
    LakeFile,
    Segment,
    check_form,
    copy_whole_lines,
    form_of_segment,
    lake_files,
    list_segments,
    read_identity,
)
from gateway.temporary_folders import temporary_folder

_JSON = frozenset({"values", "deltas", "former", "found", "resend"})


def line_of_row(columns: Sequence[str], row: Iterable[object]) -> bytes:
    """Return the line of a record, without its end: fields in the order of columns, absent ones left out.

    Args:
        columns: names, `gateway.eventlog.parquet.COLUMNS` or a part of them.
        row: their values as DuckDB gives them.
    """
    fields = zip(columns, row, strict=True)
    return msgspec.json.encode({name: _form(name, value) for name, value in fields if value is not None})


def json_of_row(columns: Sequence[str], row: Iterable[object]) -> str:
    """Return a row of any query as an object of JSON, on one line: absent is null, times are as on lines.

    Integers keep all their digits. A value without a form in JSON is text.
    """
    fields = zip(columns, row, strict=True)
    return json.dumps({name: _in_json(name, value) for name, value in fields}, ensure_ascii=False)


def text_of_value(value: object) -> str:
    """Return a value as text in a table: absent is empty, times are as on lines, nested values are JSON."""
    if value is None:
        return ""
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def is_json(name: str, value: object) -> bool:
    """Return whether `text_of_value` gives JSON for a value of this column."""
    return name in _JSON or isinstance(value, Mapping | list | tuple)


def time_on_line(time: dt.datetime) -> str:
    """Return a time as on lines: RFC 3339, UTC, six digits of a second; without zone where it has none."""
    if time.tzinfo is None:
        return time.isoformat(timespec="microseconds")
    return f"{time.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _form(name: str, value: object) -> object:
    if isinstance(value, dt.datetime):
        return time_on_line(value)
    return msgspec.Raw(value.encode()) if name in _JSON and isinstance(value, str) else value


def _in_json(name: str, value: object) -> object:
    if name in _JSON and isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value  # another column that is called so
    return _plain(value)


def _plain(value: object) -> object:  # noqa: PLR0911  one line for each type
    """Return a value in a form that JSON has."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dt.datetime):
        return time_on_line(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return str(value)


TABLE: Final = "log"

_ATTEMPTS: Final = 5
_FORM_MEBIBYTES: Final = 128
_HELD: Final = 128
"""The number of files of each kind that are held open; a process may have some 1,000 open files."""

_DESCRIPTORS: Final = Path("/proc/self/fd")
"""What is opened by a name below it is the open file itself, also where that has no name any more."""

_ROWS_AT_A_TIME: Final = 1_000
_INTERRUPT_AGAIN_SECONDS: Final = 0.05
_HOUR: Final = dt.timedelta(hours=1)


_T = TypeVar("_T")


class QueryError(Exception):
    """A query cannot be carried out; the text says why."""


class LogReadError(Exception):
    """The log cannot be read; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files that hold the log at an instant, each record in one of them.

    Attributes:
        lake: Parquet files.
        complete: segments that are not in the lake yet.
        open: segments that are written, or were when their writer ended.
        copies: files of the lake that are passed over: another one has their log and first seq.
    """

    lake: tuple[LakeFile, ...]
    complete: tuple[Segment, ...]
    open: tuple[Segment, ...]
    copies: tuple[LakeFile, ...] = ()

    @property
    def are_all_there(self) -> bool:
        """Whether all of them still exist under their names."""
        paths = [file.path for file in self.lake] + [segment.path for segment in (*self.complete, *self.open)]
        return all(path.exists() for path in paths)


def log_files(folder: Path, after: dt.datetime | None = None, before: dt.datetime | None = None) -> LogFiles:
    """Look up the files of the log in ``folder``; of the lake those that may have records of that time.

    Raises:
        OSError: a folder cannot be read.
    """
    segments = list_segments(folder)
    # Then the lake: a segment goes after its file has come, so each record is found in one of the lists.
    lake = lake_files(folder)
    compacted = {file.first_seq for file in lake}
    waiting = [segment for segment in segments if segment.first_seq not in compacted]
    of_time = [
        file
        for file in lake
        if (after is None or file.hour + _HOUR > after) and (before is None or file.hour < before)
    ]
    # Of that time only: a copy in the folder of another hour must not stand for the one in its own.
    once = {(file.log_id, file.first_seq): file for file in of_time}
    return LogFiles(
        tuple(once.values()),
        tuple(segment for segment in waiting if not segment.is_open),
        tuple(segment for segment in waiting if segment.is_open),
        tuple(file for file in of_time if once[file.log_id, file.first_seq] is not file),
    )


def check_version(folder: Path) -> None:
    """Check that this gateway knows the form of a log: of ``LOG``, of the newest segment and of the lake.

    What cannot be read is no newer form; reading it reports the error.

    Raises:
        NewerLogError: a later version of the gateway wrote it.
    """
    try:
        read_identity(folder)
    except NewerLogError:
        raise
    except EventLogError:
        pass
    with contextlib.suppress(OSError):
        for segment in list_segments(folder)[-1:]:
            check_form(str(segment.path), form_of_segment(segment))
        for file in sorted(lake_files(folder), key=lambda file: file.hour)[-1:]:
            with database(folder, memory_mebibytes=_FORM_MEBIBYTES, threads=1) as opened:
                check_form(str(file.path), form_of_file(opened, file.path))


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows that a query found; to be read once, while the query's block lasts.

    Attributes:
        columns: names of the columns.
        rows: values, in the order of the columns.
        copies: as of `LogFiles`.
    """

    columns: tuple[str, ...]
    rows: Iterator[tuple[object, ...]]
    copies: tuple[LakeFile, ...] = ()


@contextlib.contextmanager
def ask(
    folder: Path,
    sql: str,
    parameters: Mapping[str, object] | None = None,
    *,
    after: dt.datetime | None = None,
    before: dt.datetime | None = None,
    memory_mebibytes: int = 1024,
    threads: int = 2,
) -> Iterator[Answer]:
    """Yield the answer to one query of the table `TABLE`, whose columns are those of the lake.

    Args:
        folder: the log's folder.
        sql: one statement that reads (``SELECT``, ``FROM``, ``DESCRIBE``, ``EXPLAIN`` ...), as of DuckDB. It
            can read files of the log's folder and no others, and write nothing.
        parameters: values by name, for ``$name``.
        after: the table has records ingested then or later only.
        before: the table has records ingested before then only.
        memory_mebibytes: for data; data beyond it goes into a temporary folder.
        threads: the maximum number of threads.

    Raises:
        QueryError: it is not one statement that reads, or is wrong.
        LogReadError: a file of the log is damaged or cannot be read.
    """
    statement = _statement(sql)
    with contextlib.ExitStack() as last:
        for attempt in range(1, _ATTEMPTS + 1):
            with contextlib.ExitStack() as stack:
                files = _look_up(folder, after, before)
                scratch = stack.enter_context(temporary_folder())
                try:
                    opened = stack.enter_context(
                        database(folder, memory_mebibytes=memory_mebibytes, threads=threads, scratch=scratch)
                    )
                    _make_table(opened, files, stack, scratch, after, before)
                    execute = partial(opened.execute, statement, dict(parameters or {}) or None)
                    found = _interruptible(opened, execute)
                    columns = tuple(column[0] for column in found.description or ())
                    first = _interruptible(opened, partial(found.fetchmany, _ROWS_AT_A_TIME))
                except (duckdb.Error, OSError) as error:
                    # Compaction or retention took a file away after it was listed. Nothing was returned yet:
                    # all is looked up again.
                    if not files.are_all_there and attempt < _ATTEMPTS:
                        continue
                    raise _recorded(error, scratch) from error
                # From here on the database and the copies live until the caller's block ends.
                last.enter_context(stack.pop_all())
                break
        yield Answer(columns, _rows(first, opened, files, scratch), files.copies)


def _look_up(folder: Path, after: dt.datetime | None, before: dt.datetime | None) -> LogFiles:
    try:
        return log_files(folder, after, before)
    except OSError as error:
        raise _recorded(error) from error


def _statement(sql: str) -> duckdb.Statement:
    try:
        # DuckDB itself would carry out several, and statements that write.
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(str(error).strip()) from error
    if len(statements) != 1:
        raise QueryError(f"one statement is carried out at a time, here are {len(statements)}")
    (statement,) = statements
    if statement.type not in {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}:
        raise QueryError(
            f"the log is only read: {statement.type.name} is refused; the table to ask is {TABLE!r}"
        )
    return statement


def _make_table(
    opened: duckdb.DuckDBPyConnection,
    files: LogFiles,
    stack: contextlib.ExitStack,
    scratch: Path,
    after: dt.datetime | None,
    before: dt.datetime | None,
) -> None:
    lines = _held([segment.path for segment in files.complete], stack, scratch)
    for segment in files.open:
        # A copy: DuckDB would read on, beyond what is committed.
        copy = scratch / f"{segment.first_seq:020}.jsonl"
        if copy_whole_lines(segment, copy).records:
            lines.append(copy)
    parts = [no_records()]
    if files.lake:
        parts.append(files_as_table(_held([file.path for file in files.lake], stack, scratch)))
    if lines:
        parts.append(lines_as_table(lines))
    every = " UNION ALL ".join(f"FROM {part}" for part in parts)
    bounds = [
        f"ingest_ts {comparison} {literal(time.isoformat())}::TIMESTAMPTZ"
        for comparison, time in ((">=", after), ("<", before))
        if time is not None
    ]
    where = f" WHERE {' AND '.join(bounds)}" if bounds else ""
    opened.execute(f"CREATE VIEW {TABLE} AS FROM ({every}){where}")


def _held(paths: Sequence[Path], stack: contextlib.ExitStack, scratch: Path) -> list[Path]:
    """Return names for files that can be read although they are removed: of the first ones, which go first.

    Raises:
        OSError: one of them cannot be opened, perhaps because it was removed already.
    """
    held = []
    for path in paths[:_HELD]:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        name = scratch / path.name
        if name.is_symlink():  # no two files of the log have the same name, but one may have been copied
            name = scratch / f"{descriptor}-{path.name}"
        name.symlink_to(_DESCRIPTORS / str(descriptor))
        held.append(name)
    return [*held, *paths[_HELD:]]


def _rows(
    first: Sequence[tuple[object, ...]], opened: duckdb.DuckDBPyConnection, files: LogFiles, scratch: Path
) -> Iterator[tuple[object, ...]]:
    rows = first
    while rows:
        yield from rows
        try:
            rows = _interruptible(opened, partial(opened.fetchmany, _ROWS_AT_A_TIME))
        except duckdb.Error as error:
            # Files that are held may go, too: any other error has its own cause.
            if isinstance(error, duckdb.IOException) and not files.are_all_there:
                raise LogReadError(
                    "files of the log were compacted or deleted while they were read: ask again"
                ) from error
            raise _recorded(error, scratch) from error


def _interruptible(opened: duckdb.DuckDBPyConnection, work: Callable[[], _T]) -> _T:
    """Run ``work`` of the database so that Ctrl-C ends it: DuckDB itself would go on to the end."""
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        try:
            return working.result()
        except BaseException:
            # Again and again: an interruption that comes before the work has begun does nothing.
            while not working.done() and not working.cancel():
                opened.interrupt()
                wait([working], timeout=_INTERRUPT_AGAIN_SECONDS)
            raise


def _recorded(error: Exception, scratch: Path | None = None) -> QueryError | LogReadError:
    """Return the exception for a mistake in the query, or for a problem with the files.

    Files of the log are called by their own names, not by those that they have in ``scratch``.
    """
    text = str(error).strip()
    if scratch is not None:
        text = text.replace(f"{scratch}{os.sep}", "")
    first, _, _ = text.partition("\n")
    if isinstance(error, duckdb.OutOfMemoryException):
        return QueryError(f"{first}: allow more memory, or ask for less")
    if isinstance(error, OSError | duckdb.IOException):
        return LogReadError(f"the log cannot be read: {first}")
    if isinstance(error, duckdb.InvalidInputException) and "JSON" in text:
        return LogReadError(
            f"{first}: amqp-gateway log compact sets a damaged segment aside and keeps what is whole in it"
        )
    return QueryError(text)
