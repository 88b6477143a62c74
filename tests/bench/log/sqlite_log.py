"""The same records as rows of SQLite: a column for each field, WAL mode, synced at each commit."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from gateway.eventlog.record import LogRecord
from gateway.eventlog.retention import LogFileSettings

_FIELDS: Final = LogRecord.__struct_encode_fields__
_AS_JSON: Final = tuple(_FIELDS.index(name) for name in ("values", "absent", "deltas"))
_COLUMNS: Final = ", ".join(f'"{name}"' for name in _FIELDS)
_CREATE: Final = f"CREATE TABLE records (seq INTEGER PRIMARY KEY, {_COLUMNS})"
_INSERT: Final = f"INSERT INTO records ({_COLUMNS}) VALUES ({', '.join('?' * len(_FIELDS))})"  # noqa: S608  our own


def create(path: Path, *, checkpoints: bool = True) -> sqlite3.Connection:
    """Return a new database, to be closed. Without checkpoints its WAL keeps everything committed."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    if not checkpoints:
        database.execute("PRAGMA wal_autocheckpoint = 0")
    database.execute("PRAGMA synchronous = FULL")  # else a commit is not on the disk
    database.execute(_CREATE)
    return database


def fill(database: sqlite3.Connection, groups: Iterable[Sequence[LogRecord]]) -> float:
    """Return the seconds to insert all groups, with transactions as long as our commit interval."""
    interval = LogFileSettings().commit_interval / 10**9
    records = 0
    start = time.perf_counter()
    commit_at = start + interval
    for group in groups:
        database.executemany(_INSERT, map(_row, group))
        records += len(group)
        if time.perf_counter() >= commit_at:
            database.commit()
            commit_at = time.perf_counter() + interval
    database.commit()
    seconds = time.perf_counter() - start
    (found,) = database.execute("SELECT count(*) FROM records").fetchone()
    assert found == records, f"{found} rows of {records} records"
    return seconds


def copy_open(path: Path, target: Path) -> None:
    """Copy the files of a database that is not closed, as a killed writer leaves them."""
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{target}{suffix}")


def reopen(path: Path) -> tuple[float, int]:
    """Return the seconds until a database returns its last seq; and that seq."""
    start = time.perf_counter()
    with closing(sqlite3.connect(path)) as database:
        last_seq = int(database.execute("SELECT max(seq) FROM records").fetchone()[0])
        return time.perf_counter() - start, last_seq


def _row(record: LogRecord) -> list[object]:
    row = list(msgspec.structs.astuple(record))
    for field in _AS_JSON:
        if row[field] is not None:
            row[field] = msgspec.json.encode(row[field]).decode()
    return row
