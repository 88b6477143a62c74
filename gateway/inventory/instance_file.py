"""The file of the instance index: its form in each version, opening, check, migration, copy, and summary.

It is an SQLite database in WAL mode. Committed changes outlive the process, because they are in the log's
file; synced changes outlive a power cut, too. Nothing is synced in passing: callers decide when, by `sync`
and `checkpoint`, so that one that must not wait for a disk can leave it to another thread.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from gateway.durable_files import PRIVATE, set_mode, sync_folder
from gateway.file_owners import reason_of
from gateway.file_systems import Ability, can, in_words

MAX_LOG_PAGES = 16_384
"""Pages of the write-ahead log (64 MiB) beyond which a checkpoint may hold up a writer."""

_BUSY_SECONDS = 20.0
_COPIED_PAGES = 2_500

_VERSION_1 = """
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

# The index knows whose it is and when it was last used, so that one file of a state folder cannot be
# replaced by an older one unnoticed; where numbering goes on after a restore; and it has every high-water
# mark twice, because the integrity check finds a damaged number by comparing an index with its table. Active
# alarms have numbers too, and keep them over a restart.
_VERSION_2 = """
CREATE TABLE about (
    only INTEGER PRIMARY KEY CHECK (only = 1), gateway TEXT NOT NULL, boot INTEGER NOT NULL,
    floor INTEGER NOT NULL, source_floor INTEGER NOT NULL
);
INSERT INTO about VALUES (1, '', 0, 0, 0);
CREATE INDEX counters_high_water ON counters (high_water);
CREATE TABLE alarms (number INTEGER PRIMARY KEY, source INTEGER NOT NULL, alarm TEXT NOT NULL);
"""

STEPS = (_VERSION_1, _VERSION_2)
"""Scripts from each version to the next; a new file takes all of them."""

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NOT_WRITTEN = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)

FAILURES = (sqlite3.Error, OSError, UnicodeDecodeError)
"""Exceptions of using the file; the last one for damaged text in a row, or in a message of SQLite."""


class InstanceIndexError(Exception):
    """The index cannot be used; the text says what to do."""


class IndexNotWrittenError(InstanceIndexError):
    """The disk does not take a change of the index now; what was committed before can be used on."""


def open_index(path: Path, *, must_exist: bool) -> sqlite3.Connection:
    """Open the index for its one writer: checked whole, and brought to the newest version.

    Args:
        path: the path of the file.
        must_exist: refuse a file that is missing or holds nothing, instead of beginning a new index.

    Raises:
        InstanceIndexError: it is missing, damaged, of a newer version, or cannot be used.
    """
    if must_exist and not path.exists():
        raise InstanceIndexError(f"{path}: the index of row numbers is missing: {_RESTORE}")
    with explained(path):
        if not path.exists():
            path.touch(mode=PRIVATE)
        database = connect(path)
        try:
            _bring_up_to_date(path, database, must_exist=must_exist)
        except BaseException:
            database.close()
            raise
    return database


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection to an existing file, which commits and syncs only when asked to.

    Raises:
        sqlite3.Error: it cannot be opened, or is not there (any more).
        InstanceIndexError: the file system cannot do what the index needs.
    """
    address = f"{path.absolute().as_uri()}?mode=rw"  # in an empty folder that took its place, none is made
    database = sqlite3.connect(address, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)
    try:
        _set_up(path, database)
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Convert errors of SQLite and of the system to one `InstanceIndexError` that says what to do."""
    try:
        yield
    except FAILURES as error:
        raise explanation(path, error) from error


def explanation(path: Path, error: Exception) -> InstanceIndexError:
    """Return an error that explains ``error`` to an operator of the gateway."""
    if isinstance(error, OSError):
        return IndexNotWrittenError(f"{path}: cannot be written: {reason_of(error, path.parent)}: {_CHECK}")
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF  # the rest is the kind
    # SQLite says of some that the file is in use, of others that it cannot be read.
    if code in _BUSY | _NOT_WRITTEN and path.exists() and not can(path.parent, Ability.INDEX):
        return _without_abilities(path)
    if code in _BUSY:
        return InstanceIndexError(f"{path}: cannot be used: another program holds it ({error}): let that end")
    if path.exists() and not os.access(path, _needed_access(path), effective_ids=True):
        denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return InstanceIndexError(f"{path}: cannot be used: {reason_of(denied, path.parent)}")
    if code in _NOT_WRITTEN:
        text = f"cannot be used: {error}: {_CHECK}" if path.exists() else _GONE
        return IndexNotWrittenError(f"{path}: {text}")
    is_short = code == sqlite3.SQLITE_NOMEM
    text = f"cannot be used: {error}: {_CHECK}" if is_short else f"is damaged ({error}): {_RESTORE}"
    return InstanceIndexError(f"{path}: {text}")


def _without_abilities(path: Path) -> InstanceIndexError:
    words = in_words(path.parent, [Ability.INDEX])
    return InstanceIndexError(f"{path}: {words}: put the state folder on a local disk (state.folder)")


def _needed_access(path: Path) -> int:
    """Return the rights that a file needs; on a read-only disk no user has that of writing."""
    return os.R_OK if is_read_only(path) else os.R_OK | os.W_OK


def is_read_only(path: Path) -> bool:
    """Return whether the file system of a file takes no changes."""
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


_GONE = "is not there any more: put the state folder back to its place"
_CHECK = "see to space on the disk and to the rights of file and folder"
_RESTORE = (
    "restore a backup with `amqp-gateway state restore`. It is not begun again, because every row number "
    "would change: make a new gateway in a new folder with `amqp-gateway init`"
)


def sync(path: Path) -> None:
    """Bring all committed changes to the disk.

    SQLite could do it in the commit, but holds its lock meanwhile: a writer in another thread would wait for
    the disk. The log's file may be opened beside SQLite; the database's may not, for closing it would drop
    SQLite's locks (POSIX file locks belong to the process).

    Raises:
        OSError: it cannot be done.
    """
    descriptor = os.open(f"{path}-wal", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(path.parent)


def checkpoint(database: sqlite3.Connection) -> bool:
    """Move committed changes into the database file, synced.

    No writer waits for it, unless the log, written all the time, has grown beyond `MAX_LOG_PAGES`.

    Returns:
        Whether the log has no more: the next writer then begins it again, and syncs its head.

    Raises:
        sqlite3.Error: it cannot be done.
    """
    _, logged, moved = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    if logged > MAX_LOG_PAGES:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return True
    return bool(logged == moved)


def read_index(path: Path) -> sqlite3.Connection:
    """Open the index to read only, also while a gateway writes it, and also from a read-only disk.

    Raises:
        InstanceIndexError: it is missing, damaged or of a newer version.
    """
    if not path.exists():
        raise InstanceIndexError(f"{path}: the index of row numbers is missing: {_RESTORE}")
    with explained(path):
        # On a disk that was mounted to be read only, shared memory cannot be made, and no process can write.
        alone = not Path(f"{path}-wal").exists() and not os.access(path.parent, os.W_OK)
        address = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
        database = sqlite3.connect(address, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)
        try:
            _version(path, database)
        except BaseException:
            database.close()
            raise
    return database


def copy_index(path: Path, to: Path, progress: Callable[[int, int], None]) -> None:
    """Copy the index as it is at one moment, whole and checked, also while a gateway writes it.

    Args:
        path: the path of the index.
        to: the path of a new file.
        progress: called with pages done and pages in all, now and then.

    Raises:
        InstanceIndexError: it is missing, damaged or of a newer version, or cannot be copied.
    """
    with closing(read_index(path)) as source, explained(to), _new_database(to) as copy:
        source.execute("BEGIN")
        source.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()  # this is the moment
        source.backup(
            copy, pages=_COPIED_PAGES, progress=lambda _, left, pages: progress(pages - left, pages)
        )
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, complete in itself
        _check(path, copy, _version(path, copy))


@contextmanager
def _new_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Make a file for its owner alone, and open it."""
    # Before SQLite has it open: see `sync`.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, PRIVATE), "wb") as file:
        set_mode(file.fileno(), PRIVATE, path)
    with closing(sqlite3.connect(path)) as database:
        yield database


def _set_up(path: Path, database: sqlite3.Connection) -> None:
    (mode,) = database.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise _without_abilities(path)
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute("PRAGMA wal_autocheckpoint=0")  # it would sync in the middle of a commit


def _bring_up_to_date(path: Path, database: sqlite3.Connection, *, must_exist: bool) -> None:
    version = _version(path, database)
    if version == 0 and must_exist:
        raise InstanceIndexError(f"{path}: the index of row numbers is empty: {_RESTORE}")
    _check(path, database, version)
    for number, step in enumerate(STEPS[version:], start=version + 1):
        database.executescript(f"BEGIN IMMEDIATE; {step} PRAGMA user_version={number}; COMMIT;")
    if version < len(STEPS):
        sync(path)


def _version(path: Path, database: sqlite3.Connection) -> int:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= len(STEPS):
        raise InstanceIndexError(
            f"{path}: instance index of version {version}, this gateway knows {len(STEPS)}: "
            "use the gateway that wrote it, or a newer one"
        )
    return int(version)


def _check(path: Path, database: sqlite3.Connection, version: int) -> None:
    """Raise unless the file is whole and has the form of its version: half an index would move rows."""
    (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        line = " ".join(str(found).split())
        raise InstanceIndexError(f"{path}: is damaged ({line}): {_RESTORE}")
    with closing(sqlite3.connect(":memory:")) as example:
        example.executescript("".join(STEPS[:version]))
        if _form(example) != _form(database):
            raise InstanceIndexError(f"{path}: is not an index of row numbers: {_RESTORE}")
    if version > 1 and database.execute("SELECT COUNT(*) FROM about").fetchone() != (1,):
        raise InstanceIndexError(f"{path}: is damaged (it does not say whose it is): {_RESTORE}")


def _form(database: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = database.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
    return [(name, " ".join(sql.split())) for name, sql in rows]


class ClassRows(msgspec.Struct, frozen=True):
    """The row numbers of one class of a source.

    Attributes:
        source: its number; 0 for series of the gateway's own.
        class_name: ``package:class``.
        durable: the number of objects that keep their number, and lived when last reported.
        retired: the number of objects that are gone, and whose number waits for their return.
        high_water: no number above this one has been given since the numbers began, or last wrapped.
    """

    source: int
    class_name: str
    durable: int
    retired: int
    high_water: int


class IndexSummary(msgspec.Struct, frozen=True):
    """A summary of an instance index.

    Attributes:
        version: the version of the file's form.
        sources: the number of every source that ever was, by name.
        classes: the row numbers of classes, ordered by source and class.
    """

    version: int
    sources: Mapping[str, int]
    classes: tuple[ClassRows, ...]


def summary(path: Path) -> IndexSummary:
    """Return a summary of the committed state, also while a gateway writes.

    Raises:
        InstanceIndexError: the file is missing, damaged or of a newer version.
    """
    with closing(read_index(path)) as database, explained(path):
        database.execute("BEGIN")  # one moment for all
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version == 0:
            return IndexSummary(0, {}, ())
        sources = dict(database.execute("SELECT name, number FROM sources ORDER BY number").fetchall())
        rows = database.execute(
            "SELECT counters.source, counters.class, COUNT(name) - COUNT(NULLIF(retired, 0)), "
            "COUNT(NULLIF(retired, 0)), high_water FROM counters LEFT JOIN durable USING (source, class) "
            "GROUP BY counters.source, counters.class ORDER BY counters.source, counters.class"
        )
        return IndexSummary(version, sources, tuple(ClassRows(*row) for row in rows))
