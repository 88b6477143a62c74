"""The instance index: which row number each object has, kept in SQLite in the state folder.

Durable objects keep their number by stable name. Transient ones draw from the same counter and are not
stored: only the counter's high-water mark is, in blocks, so that a million short-lived objects cost a few
hundred writes. A number is not used again before the counter has passed 2^31-1 and wraps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

MAX_ROW = 2**31 - 1
"""Largest row number: ``Integer32 (1..2147483647)`` in every generated table (RFC 2578, 7.7)."""

BLOCK = 4096
"""Numbers reserved at a time: what a crash may waste, and how rarely the counter is written."""

VERSION = 1
MAX_RETIRED = 1_000_000
"""Numbers of gone objects that are kept: some 100 MB on the disk."""

_RETIRED_KEPT = 400 * 24 * 3600 * 10**9
"""Nanoseconds for which the number of a durable object that is gone is kept for its return."""

_SCHEMA = """
CREATE TABLE sources (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE counters (
    source INTEGER NOT NULL, class TEXT NOT NULL, high_water INTEGER NOT NULL,
    PRIMARY KEY (source, class)
) WITHOUT ROWID;
CREATE TABLE durable (
    source INTEGER NOT NULL, class TEXT NOT NULL, name TEXT NOT NULL,
    number INTEGER NOT NULL, retired INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (source, class, name)
) WITHOUT ROWID;
CREATE UNIQUE INDEX durable_number ON durable (source, class, number);
CREATE INDEX durable_retired ON durable (retired) WHERE retired > 0;
"""


class InstanceIndexError(Exception):
    """The index cannot be used; the text says what to do."""


class InstanceIndex:
    """Row numbers by (source, class, stable name).

    Changes are gathered in one transaction until `commit`, which callers owe before they publish: a number
    that was seen by anyone survives the death of the process. A block reservation is synced to the disk at
    once, and with it everything before it, so that a power cut cannot make a number be used twice.

    Raises:
        InstanceIndexError: the file is damaged or of another version.
    """

    def __init__(self, path: Path) -> None:
        self._next: dict[tuple[int, str], int] = {}
        self._reserved: dict[tuple[int, str], int] = {}
        self._path = path
        try:
            self._database = sqlite3.connect(path, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute("PRAGMA wal_autocheckpoint=0")  # it would sync in the middle of a commit
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
            if version == 0:
                self._database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={VERSION}; COMMIT;")
            elif version != VERSION:
                raise InstanceIndexError(
                    f"{path}: instance index of version {version}, this gateway knows {VERSION}: "
                    "use the gateway that wrote it, or restore a backup"
                )
        except sqlite3.DatabaseError as error:
            raise InstanceIndexError(
                f"{path}: {error}: restore a backup, or move the file away to number all rows anew"
            ) from error

    def source_number(self, name: str) -> int:
        """The number of a source, given at its first appearance and kept for its name for ever."""
        row = self._database.execute("SELECT number FROM sources WHERE name = ?", (name,)).fetchone()
        if row is None:
            self._begin()
            cursor = self._database.execute("INSERT INTO sources (name) VALUES (?)", (name,))
            self.commit()
            return int(cursor.lastrowid or 0)
        return int(row[0])

    def durable_row(self, source: int, class_name: str, name: str) -> int:
        """The number of a durable object: the one it had before, or a new one, kept from now on."""
        row = self._database.execute(
            "SELECT number, retired FROM durable WHERE source = ? AND class = ? AND name = ?",
            (source, class_name, name),
        ).fetchone()
        if row is not None:
            if row[1]:
                self._set_retired(source, class_name, name, 0)
            return int(row[0])
        number = self.transient_row(source, class_name)
        self._begin()
        self._database.execute(
            "INSERT INTO durable (source, class, name, number) VALUES (?, ?, ?, ?)",
            (source, class_name, name, number),
        )
        return number

    def transient_row(
        self, source: int, class_name: str, in_use: Callable[[int], bool] = lambda _: False
    ) -> int:
        """A number that no other object of this source and class has, or had since the last wrap.

        ``in_use`` tells of transient objects that live now: after a wrap they keep their numbers too.
        """
        key = (source, class_name)
        while True:
            number = self._next.get(key) or self._after_high_water(key)
            if number > self._reserved.get(key, 0):
                self._reserve(key, number)
            if number < MAX_ROW:
                self._next[key] = number + 1
            else:
                self._next[key], self._reserved[key] = 1, 0
            if not self._taken(key, number) and not in_use(number):
                return number

    def retire(self, source: int, class_name: str, name: str, now: int) -> None:
        """A durable object is gone: its number waits for its return, for about a year."""
        self._set_retired(source, class_name, name, now)

    def forget_retired(self, now: int, limit: int = 500) -> int:
        """Give up numbers of durable objects gone for too long, or too many of them, the oldest first.

        Args:
            now: nanoseconds.
            limit: at most so many in one call, so that it does not hold its caller.

        Returns:
            How many were given up; call again soon where it is ``limit``.
        """
        (retired,) = self._database.execute("SELECT COUNT(*) FROM durable WHERE retired > 0").fetchone()
        too_many = retired - MAX_RETIRED
        self._begin()
        cursor = self._database.execute(
            "DELETE FROM durable WHERE (source, class, name) IN (SELECT source, class, name FROM durable "
            "WHERE retired > 0 AND retired < ? ORDER BY retired LIMIT ?)",
            (now if too_many > 0 else now - _RETIRED_KEPT, min(limit, too_many) if too_many > 0 else limit),
        )
        self.commit()
        return cursor.rowcount

    def commit(self) -> None:
        """End the gathered changes; call before publishing them."""
        if self._database.in_transaction:
            self._database.execute("COMMIT")

    def checkpoint(self) -> None:
        """Move what was committed into the database file and sync it; for another thread, now and then."""
        database = sqlite3.connect(self._path)
        try:
            database.execute("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            database.close()

    def close(self) -> None:
        """Commit and close."""
        self.commit()
        self._database.close()

    def _begin(self) -> None:
        if not self._database.in_transaction:
            self._database.execute("BEGIN")

    def _set_retired(self, source: int, class_name: str, name: str, retired: int) -> None:
        self._begin()
        self._database.execute(
            "UPDATE durable SET retired = ? WHERE source = ? AND class = ? AND name = ?",
            (retired, source, class_name, name),
        )

    def _after_high_water(self, key: tuple[int, str]) -> int:
        """The first number not reserved by an earlier run."""
        row = self._database.execute(
            "SELECT high_water FROM counters WHERE source = ? AND class = ?", key
        ).fetchone()
        high_water = int(row[0]) if row else 0
        return high_water + 1 if high_water < MAX_ROW else 1

    def _reserve(self, key: tuple[int, str], number: int) -> None:
        mark = min(number + BLOCK - 1, MAX_ROW)
        self.commit()
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute(
            "INSERT INTO counters VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET high_water = excluded.high_water",
            (*key, mark),
        )
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._reserved[key] = mark

    def _taken(self, key: tuple[int, str], number: int) -> bool:
        row = self._database.execute(
            "SELECT 1 FROM durable WHERE source = ? AND class = ? AND number = ?", (*key, number)
        ).fetchone()
        return row is not None
