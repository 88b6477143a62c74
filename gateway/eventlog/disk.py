"""The operations of the log on a disk: each of them is complete, on the disk, when it returns.

Nothing here decides anything. Tests simulate a failing disk or a power cut by a subclass of `Disk`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.durable_files import sync_folder, write_durably
from gateway.file_systems import UNABLE, Ability, in_words


class EventLogError(Exception):
    """The log cannot be used; the text says what to do."""


class NewerLogError(EventLogError):
    """The log is of a newer version than this gateway knows."""


class EventLogClosedError(Exception):
    """The log was closed before the record was on the disk."""


_NAME: Final = "LOCK"


def try_lock(folder: Path) -> int | None:
    """Lock the folder; return the descriptor to be closed, or ``None`` while another process has the lock.

    Raises:
        OSError: the lock's file cannot be made or opened.
    """
    # To be read only: a lock needs no more, and so it can be had where another user made the file.
    lock = os.open(folder / _NAME, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError as error:
        os.close(lock)
        if error.errno in UNABLE:
            raise OSError(error.errno, in_words(folder, [Ability.LOCKS]), str(folder)) from error
        raise
    return lock


_LAKE_LOCK: Final = ".lock"


def lock_lake(lake: Path, *, wait: bool) -> int:
    """Lock the lake for a compactor; return the descriptor to be closed.

    The lock is a folder. The compactors of versions before the chain of the audit open it as a file: the
    system refuses that, and they change nothing. They look for a version in a ``start`` record, and would
    drop fields of segments that do not begin with one, as after trouble with the disk. A file that such a
    version left is replaced.

    Raises:
        BlockingIOError: another process has the lock, and ``wait`` is false.
        OSError: it cannot be made or opened.
    """
    path = lake / _LAKE_LOCK
    while True:
        with contextlib.suppress(FileExistsError):
            path.mkdir(FOLDER_MODE)
        try:
            lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # another process is replacing it
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if _is_lock_folder(path, lock):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _is_lock_folder(path: Path, lock: int) -> bool:
    """Return whether what was locked is the folder; delete the file of an older version."""
    found = os.fstat(lock)
    if stat.S_ISDIR(found.st_mode):
        return True
    with contextlib.suppress(FileNotFoundError):
        # Only the file that is locked: another process may have replaced it while this one waited.
        if os.path.samestat(found, path.lstat()):
            path.unlink()
    return False


FILE_MODE: Final = 0o640
"""The mode of the log's files, before the umask."""

MAX_TAIL: Final = 64 << 20
"""The maximum number of octets kept of a tail that recovery cuts off; no writer leaves so many."""

FOLDER_MODE: Final = 0o750
_PIECE: Final = 1 << 20
_MOST_PIECES: Final = 1024  # that a system takes at once (IOV_MAX)


class Disk:
    """The disk of the log's folder. Its methods block: call them in a thread that may wait.

    All methods raise `OSError`; their work may then be done, half done or not done.
    """

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, where they are missing."""
        if path.is_dir():
            return
        self.make_folder(path.parent)
        # Another process, such as the compactor, may make it at the same time.
        path.mkdir(FOLDER_MODE, exist_ok=True)
        sync_folder(path.parent)

    def create(self, path: Path) -> int:
        """Make an empty file that does not exist, and open it for writing; its name is on the disk."""
        # O_EXCL: an existing file may hold records, and is never written over.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            sync_folder(path.parent)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def write(self, descriptor: int, pieces: Sequence[bytes | bytearray]) -> None:
        """Write the pieces one behind the other; they are not on the disk before `sync`.

        It uses one system call where possible: after each, a thread has to wait for its turn again.
        """
        rest: list[bytes | bytearray | memoryview] = list(pieces)
        while rest:
            written = os.writev(descriptor, rest[:_MOST_PIECES])
            # A system may take less than it was given, also of one piece.
            while rest and written >= len(rest[0]):
                written -= len(rest.pop(0))
            if written:
                rest[0] = memoryview(rest[0])[written:]

    def sync(self, descriptor: int) -> None:
        """Bring the written octets to the disk.

        After an error it is no use to sync the same file again: the system may have dropped the octets that
        it could not write, and report success.
        """
        # It also brings the size to the disk, which is all that reading needs; times need not be there.
        os.fdatasync(descriptor)

    def close(self, descriptor: int) -> None:
        """Close the file."""
        os.close(descriptor)

    def shorten(self, path: Path, octets: int) -> None:
        """Cut a file to its first ``octets``, if it is longer, and bring it to the disk."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size > octets:
                os.ftruncate(descriptor, octets)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def copy_tail(self, path: Path, offset: int, target: Path) -> None:
        """Copy at most `MAX_TAIL` octets behind ``offset`` to a file, replacing it."""
        self.make_folder(target.parent)
        with path.open("rb") as source, target.open("wb") as file:
            source.seek(offset)
            left = MAX_TAIL
            while left and (octets := source.read(min(left, _PIECE))):
                file.write(octets)
                left -= len(octets)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(target.parent)

    def rename(self, path: Path, target: Path) -> None:
        """Give a file another name in the same folder."""
        path.rename(target)
        sync_folder(target.parent)

    def delete(self, path: Path) -> None:
        """Delete a file, if it is there."""
        path.unlink(missing_ok=True)
        sync_folder(path.parent)

    def replace_text(self, path: Path, text: str) -> None:
        """Replace the content of a file, whole or not at all."""
        write_durably(path, text, FILE_MODE)

    def check_free(self, folder: Path, octets: int) -> None:
        """Raise `OSError` (ENOSPC) while less than ``octets`` are free for ordinary users."""
        if not octets:
            return
        found = os.statvfs(folder)
        free = found.f_bavail * found.f_frsize
        if free < octets:
            raise OSError(
                errno.ENOSPC,
                f"{free >> 20} MiB are free, less than the {octets >> 20} MiB that the log leaves",
                str(folder),
            )
