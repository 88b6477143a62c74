"""Unix sockets of one user's processes: made at a path, reached by it, and the other end's user compared.

A socket's address holds 107 bytes of a path. A longer one is reached through a descriptor of its folder
(``/proc/self/fd/N/NAME``): to change the current folder for a moment would change it for all threads, an
abstract socket belongs to no user, and a link with a shorter path could be replaced.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from gateway.file_owners import peer
from gateway.file_systems import UNABLE, Ability, can, in_words

MAX_PATH_OCTETS: Final = 107
"""``sun_path`` holds 108 bytes, one of them NUL (unix(7))."""

BACKLOG: Final = 100
"""Connections that may wait until they are accepted."""

_OWN_ALONE: Final = 0o600
_LONGEST_DESCRIPTOR: Final = len("/proc/self/fd/1048576/")

OBJECTS_SUFFIX: Final = ".objects"
"""What the path of the objects' socket ends with, in the place of that of the feed's socket beside it."""

ARE_THERE: Final = b"?\n"
"""The question to the process with the metrics of objects whether it is there; it answers one byte."""

SocketFile: TypeAlias = tuple[int, int]
"""The file of a bound socket: device and inode, which no other file has while the socket is open.

Times are no part of it: `touch` changes them.
"""


def file_at(path: Path) -> SocketFile | None:
    """Return the socket's file at a path; ``None`` where there is none, or something else."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if not stat.S_ISSOCK(status.st_mode):
        return None
    return status.st_dev, status.st_ino


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """Provide a name of a path that a socket's address can hold, which is valid within the block.

    Raises:
        OSError: the folder of a long path cannot be opened, or the name of the socket alone is too long.
    """
    if len(os.fsencode(path)) <= MAX_PATH_OCTETS:
        yield os.fspath(path)
        return
    if text := _too_long(path):
        raise OSError(errno.ENAMETOOLONG, text, str(path))
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def bound_listener(path: Path) -> socket.socket:
    """Return a Unix socket at a path that only this user can connect to; an abandoned one is replaced.

    Raises:
        OSError: it cannot be made, or something else is there: a file, or a socket in use.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Its file begins with these rights. A mask (umask) would hold for the files of all threads.
        os.fchmod(listener.fileno(), _OWN_ALONE)
        with short_name(path) as name:
            _remove_abandoned(path, name)
            listener.bind(name)
    except OSError as error:
        listener.close()
        if error.errno in UNABLE:
            raise OSError(error.errno, in_words(path.parent, [Ability.SOCKETS]), str(path)) from error
        raise
    return listener


def trouble_at(path: Path, ours: SocketFile | None = None) -> str:
    """Return why this user cannot make a socket at a path; empty if nothing is known against it.

    What is tried there leaves nothing behind.

    Args:
        path: where the socket is to be.
        ours: the socket of those that are to make it again, which is not in their way.
    """
    if ours is not None and file_at(path) == ours:
        return ""
    if len(os.fsencode(path)) > MAX_PATH_OCTETS and (text := _too_long(path)):
        return text
    if text := _trouble_of_folder(next(each for each in path.absolute().parents if os.path.lexists(each))):
        return text
    try:
        with short_name(path) as name:
            return _occupied(path, name)
    except FileNotFoundError:  # the folder of a long path
        return ""
    except OSError as error:
        return error.strerror or str(error)


class SocketServer:
    """Accepts connections on a Unix socket, which may be exchanged for another while it runs.

    Args:
        path: where the socket is.
        accepted: serves a connection; it compares the other's user.
        limit: as of `asyncio.start_server`.
    """

    def __init__(
        self,
        path: Path,
        accepted: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        limit: int = 2**16,
    ) -> None:
        self._path = path
        self._accepted = accepted
        self._limit = limit
        self._server: asyncio.Server | None = None
        self._moves: set[asyncio.Task[None]] = set()
        self._has_made_socket = False

    async def start(self, listener: socket.socket | None = None) -> None:
        """Accept connections on a socket, in the place of the former one; what is connected stays so.

        Args:
            listener: a bound socket, which this object closes; its file is another's. ``None`` to make one.

        Raises:
            OSError: the socket cannot be made.
        """
        if listener is None:
            listener, self._has_made_socket = bound_listener(self._path), True
        # As a server of any address: that of Unix sockets would remove the file (from Python 3.13 on).
        server = await asyncio.start_server(self._accepted, sock=listener, limit=self._limit)
        former, self._server = self._server, server
        if former is not None:
            former.close()

    def move(self, listener: socket.socket) -> None:
        """Accept connections on another socket from now on, as `start` does; does not wait."""
        task = asyncio.get_running_loop().create_task(self.start(listener))
        self._moves.add(task)
        task.add_done_callback(self._moves.discard)

    def close(self) -> None:
        """Accept no more connections, and remove the socket if this object has made it."""
        for task in self._moves:
            task.cancel()
        if self._server is not None:
            self._server.close()
        if self._has_made_socket:
            self._path.unlink(missing_ok=True)


async def connected(path: Path, limit: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to the process of this user that listens at a path.

    Args:
        path: the path of the socket.
        limit: as of `asyncio.open_unix_connection`.

    Raises:
        OSError: no process listens there, or one of another user.
    """
    with short_name(path) as name:
        reader, writer = await asyncio.open_unix_connection(name, limit=limit)
    if peer(writer.get_extra_info("socket")) != os.getuid():
        writer.transport.abort()
        raise PermissionError(errno.EPERM, "a process of another user listens there", str(path))
    return reader, writer


def _too_long(path: Path) -> str:
    """Return why even a descriptor of its folder does not make a path short enough; else the empty text."""
    room, octets = MAX_PATH_OCTETS - _LONGEST_DESCRIPTOR, len(os.fsencode(path.name))
    return f"the name of a socket has at most {room} bytes, this one {octets}" if octets > room else ""


def _trouble_of_folder(folder: Path) -> str:
    """Return why this user can make neither a socket nor a folder in a folder; empty if nothing is known."""
    if not os.path.isdir(folder):  # noqa: PTH112  which does not raise
        return f"{folder} is no folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"this user cannot write in {folder}"
    return "" if can(folder, Ability.SOCKETS) else in_words(folder, [Ability.SOCKETS])


def _remove_abandoned(path: Path, name: str) -> None:
    """Remove a socket on which no process listens any more.

    Raises:
        OSError: a process listens on it, or it is no socket.
    """
    if not os.path.lexists(path):
        return
    if text := _occupied(path, name):
        raise OSError(errno.EADDRINUSE, text, str(path))
    path.unlink(missing_ok=True)


def _occupied(path: Path, name: str) -> str:
    """Return why what is at a path is not removed; empty for nothing, and for an abandoned socket.

    Args:
        path: the path.
        name: a name of it that a socket's address can hold.

    Raises:
        OSError: it cannot be looked at.
    """
    if not os.path.lexists(path):
        return ""
    if file_at(path) is None:
        return "something is there that is no socket"
    if os.geteuid() not in {0, path.lstat().st_uid}:
        return "a socket of another user is there"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(name)
        except (ConnectionRefusedError, FileNotFoundError):
            return ""
        except BlockingIOError:
            pass  # so many wait there that no more are taken
    return "another process listens there"
