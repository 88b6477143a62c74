"""What the file system of a folder can do of what the gateway needs, tried there.

Shares of other machines (CIFS), USB disks (exFAT) and programs (FUSE) lack some of it.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import mmap
import os
import re
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")

UNABLE: Final = frozenset(
    {
        *(errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EMLINK, errno.ENOLCK),
        errno.EXDEV,  # of a union of folders, where the two names of a link lie in different ones
        errno.ENODEV,  # of memory that is to be shared
    }
)
"""The errors of a file system that lacks what it is asked for."""


class Ability(enum.Enum):
    """What the gateway needs of a file system; the value is what it costs where it is missing."""

    LOCKS = "no locks (flock), without which two gateways could write the same files"
    INDEX = "no record locks or no shared memory, which the index of row numbers needs"
    SOCKETS = "no Unix sockets, by which the gateway's processes and commands are connected"
    SYNCED_FOLDERS = "no syncing of folders: a power failure can lose what was acknowledged"
    MODES = "no modes of files: those of its mount say who can read secrets"
    LINKS = "no hard links: a power failure while a secret is made can leave it empty, to be removed by hand"


NEEDED: Final = frozenset({Ability.LOCKS, Ability.INDEX})
"""The abilities without which no state folder is made."""


def lacking(folder: Path, *, writes: bool = True) -> list[Ability]:
    """Return what the file system of a folder cannot do; what this user cannot try is not among it.

    Args:
        folder: an existing folder.
        writes: also try what needs hidden files in the folder, which are removed again.
    """
    tried = {**_READING, **(_WRITING if writes else {})}
    found = []
    for ability, attempt in tried.items():
        try:
            attempt(folder)
        except OSError as error:
            if error.errno in UNABLE:
                found.append(ability)
    return found


def can(folder: Path, ability: Ability) -> bool:
    """Return whether the file system of a folder can do one thing; also where this user cannot try it."""
    try:
        {**_READING, **_WRITING}[ability](folder)
    except OSError as error:
        return error.errno not in UNABLE
    return True


def described(folder: Path) -> str:
    """Return the file system of a folder: its type, and where it is mounted."""
    place, best = folder.resolve(), ("unknown", "")
    with contextlib.suppress(OSError):
        for line in _MOUNTS.read_text("utf-8", "surrogateescape").splitlines():
            fields, _, of_system = line.partition(" - ")
            mounted = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields.split()[4])
            if place.is_relative_to(mounted) and len(mounted) >= len(best[1]):
                best = (of_system.split()[0], mounted)
    return f"{best[0]}, mounted at {best[1]}" if best[1] else best[0]


def in_words(folder: Path, abilities: Sequence[Ability]) -> str:
    """Return one line on what the file system of a folder lacks, and what that costs."""
    return f"its file system ({described(folder)}) has {'; and '.join(each.value for each in abilities)}"


def _sync(folder: Path) -> None:
    with _open(folder) as descriptor:
        os.fsync(descriptor)


def _lock(folder: Path) -> None:
    with _open(folder) as descriptor, contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _lock_file(folder: Path) -> None:
    with _file(folder) as path, _open(path) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_LOCKED_BYTE: Final = 0x4000_0000


def _share(folder: Path) -> None:
    """Lock a byte, and share memory, as SQLite does (https://www.sqlite.org/wal.html)."""
    with _file(folder) as path, _open(path, os.O_RDWR) as descriptor:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LOCKED_BYTE)
        os.pwrite(descriptor, bytes(mmap.PAGESIZE), 0)
        mmap.mmap(descriptor, mmap.PAGESIZE).close()


def _mode(folder: Path) -> None:
    with _file(folder) as path, _open(path) as descriptor:
        os.fchmod(descriptor, 0o600)


def _link(folder: Path) -> None:
    with _file(folder) as path:
        other = path.with_name(f"{path.name}.link")
        try:
            other.hardlink_to(path)
        finally:
            other.unlink(missing_ok=True)


def _listen(folder: Path) -> None:
    path = folder / f".try.{secrets.token_hex(4)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            # By a short name: the path of a socket has a hundred bytes.
            with _open(folder) as descriptor:
                listener.bind(f"/proc/self/fd/{descriptor}/{path.name}")
        finally:
            path.unlink(missing_ok=True)


_READING: Final[Mapping[Ability, Callable[[Path], None]]] = {
    Ability.LOCKS: _lock,
    Ability.SYNCED_FOLDERS: _sync,
}
_WRITING: Final[Mapping[Ability, Callable[[Path], None]]] = {
    Ability.LOCKS: _lock_file,
    Ability.INDEX: _share,
    Ability.SOCKETS: _listen,
    Ability.MODES: _mode,
    Ability.LINKS: _link,
}


@contextlib.contextmanager
def _open(path: Path, how: int = os.O_RDONLY) -> Iterator[int]:
    descriptor = os.open(path, how | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _file(folder: Path) -> Iterator[Path]:
    path = folder / f".try.{secrets.token_hex(4)}"
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise OSError(f"{folder}: nothing can be tried there") from error  # as where it is immutable
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
