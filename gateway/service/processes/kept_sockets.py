"""The sockets of the core and of the objects: where they are, and that they stay there.

The place is decided once, by `run`, and noted in the state folder. The supervisor makes the sockets and each
process that serves one inherits it, so that its restart changes nothing at the path.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import importlib
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from gateway.durable_files import write_durably
from gateway.file_owners import reason_of
from gateway.file_systems import Ability, can
from gateway.local_sockets import (
    BACKLOG,
    OBJECTS_SUFFIX,
    SocketFile,
    bound_listener,
    file_at,
    trouble_at,
)
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import ProcessLine
from gateway.state_folder import FEED_PLACE, FEED_SOCKET, StateError
from gateway.temporary_folders import temporary_place

if TYPE_CHECKING:  # The supervisor has no model of the configuration.
    from gateway.config.files import LoadedConfiguration

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 3.0
"""Seconds between two looks at whether a socket is still at its path."""

_RUNTIME_FOLDER: Final = "RUNTIME_DIRECTORY"
"""The variable with the folder that systemd makes for a service (RuntimeDirectory=, systemd.exec(5))."""

_MADE_BY_SERVICES: Final = Path("/run")
"""The folder in which a service manager makes those of services when these start, and removes them."""

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_ANOTHER: Final = "name another path under feed.socket"


def note_feed_place(loaded: LoadedConfiguration) -> None:
    """Decide where the feed's socket is, and note it in the state folder, where all others look.

    It is as configured; else in the state folder; else, where that cannot hold a socket, in a folder of the
    user's own: the service's, or one among the temporary files. Not in ``$XDG_RUNTIME_DIR``, which is removed
    when the user logs out.

    Raises:
        CommandError: no folder of the user's own can be used.
        StateError: the note cannot be written.
    """
    state = loaded.state_folder
    place = _place(loaded, os.getuid(), makes=True)
    note = state / FEED_PLACE
    line = f"{place}\n".encode("utf-8", "surrogateescape")  # a path need not be UTF-8
    with suppress(OSError):
        if note.read_bytes() == line:
            return
    try:
        write_durably(note, line)
    except OSError as error:
        raise StateError(f"{note}: cannot be written: {reason_of(error, state)}") from error


def check_sockets(loaded: LoadedConfiguration, *, is_running: bool, user: int | None = None) -> None:
    """Check that a gateway that starts with a configuration can make its sockets; nothing is changed.

    Only its user and root can see that: for another user there is no error.

    Args:
        loaded: the configuration.
        is_running: whether this gateway runs: what listens at its noted place is its own then.
        user: the number of its user; by default the one whose the state folder is, without which there is no
            error either.

    Raises:
        CommandError: one cannot be made; the text has file and line of the key.
    """
    if user is None:
        try:
            user = loaded.state_folder.stat().st_uid
        except OSError:
            return
    if os.geteuid() not in {0, user} or not (text := _trouble(loaded, user, is_running=is_running)):
        return
    late = importlib.import_module("gateway.yaml_documents")
    raise CommandError(
        ExitCode.CONFIGURATION, str(late.complaint_at(loaded.path, [(("feed", "socket"), text)]))
    )


def _trouble(loaded: LoadedConfiguration, user: int, *, is_running: bool) -> str:
    """Return why a gateway of a user cannot make its sockets; empty if nothing is known against it."""
    is_usable = os.access(loaded.state_folder, os.W_OK | os.X_OK)
    if loaded.settings.feed.socket is None and (is_running or not is_usable):
        return ""  # where it runs, it has decided by variables of its own; another place mends no state
    try:
        feed = loaded.state_folder / _place(loaded, user, makes=False)
    except CommandError as error:
        return str(error)
    places = {feed: loaded.feed_socket}
    if loaded.settings.metrics.objects is not None:
        places[feed.with_suffix(OBJECTS_SUFFIX)] = loaded.objects_socket
    for path, noted in places.items():
        folder = Path(os.path.realpath(path.parent))
        if folder.is_relative_to(_MADE_BY_SERVICES) and not os.path.lexists(folder):
            continue
        if text := trouble_at(path, file_at(noted) if is_running else None):
            return f"{path}: {text}: {_ANOTHER}"
    return ""


def _place(loaded: LoadedConfiguration, user: int, *, makes: bool) -> str:
    """Return where the feed's socket of a user's gateway will be, absolute or relative to the state folder.

    Args:
        loaded: the configuration.
        user: the number of the user.
        makes: whether a folder of the user's own is made where one is needed.

    Raises:
        CommandError: no such folder can be used.
    """
    state, configured = loaded.state_folder, loaded.settings.feed.socket
    if configured is not None:
        return str(loaded.folder / configured)
    if can(state, Ability.SOCKETS):
        return FEED_SOCKET  # relative to the state, which a container may have elsewhere
    digest = hashlib.blake2b(os.fsencode(state.resolve()), digest_size=6).hexdigest()
    return str(_own_folder(user, makes=makes) / f"feed-{digest}.sock")


def _own_folder(user: int, *, makes: bool) -> Path:
    """Return a folder that only a user can enter, if it is there or is made.

    Raises:
        CommandError: it cannot be made, or another user made it before.
    """
    named = Path(os.environ.get(_RUNTIME_FOLDER, "").partition(":")[0])
    try:
        folder = named if named.is_absolute() else temporary_place() / f"amqp-gateway-{user}"
        if makes:
            folder.mkdir(mode=0o700, exist_ok=True)
        elif not os.path.lexists(folder):
            return folder
        found = folder.lstat()
    except OSError as error:
        text = f"no folder holds the feed's socket: {error}: name a path under feed.socket"
        raise CommandError(ExitCode.CONFIGURATION, text) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & _OTHERS:
        text = f"{folder}: is no folder that only its user can enter: {_ANOTHER}"
        raise CommandError(ExitCode.CONFIGURATION, text)
    return folder


@contextmanager
def socket_errors(path: Path) -> Iterator[None]:
    """Turn an error of making a socket in the block into that which ends a process.

    Raises:
        CommandError: it cannot be made.
    """
    try:
        yield
    except OSError as error:
        text = f"{path}: the socket cannot be made: {error.strerror}: {_ANOTHER}"
        raise CommandError(ExitCode.CONFIGURATION, text) from error


class KeptSocket:
    """The socket of one process, which stays at its path whichever process serves it, and while none does.

    While none does, what connects is closed at once: it would wait, unanswered, for the next one.

    Args:
        path: where the socket is.

    Raises:
        CommandError: it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line: ProcessLine | None = None
        self._is_owed = False
        self._trouble = ""
        with socket_errors(path):
            self.listener = self._made()
        self._file: SocketFile | None = file_at(path)
        self._owner = path.parent.stat().st_uid
        self._turn_away()

    async def keep(self) -> None:
        """Look every few seconds whether the socket is still at its path, and make it again, without end."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._file is None or file_at(self._path) != self._file:
                self._make_again()
            self._hand_over()

    def served(self, line: ProcessLine, inherited: socket.socket) -> None:
        """Note that a process serves the socket that it has inherited, and have it take a newer one.

        Args:
            line: to the process.
            inherited: the socket that it began with.
        """
        asyncio.get_running_loop().remove_reader(self.listener)
        self._line, self._is_owed = line, inherited is not self.listener
        self._hand_over()

    def left(self) -> None:
        """Note that no process serves the socket any more."""
        self._line = None
        self._turn_away()

    def close(self) -> None:
        """Close the socket, and remove it from its path, if it is there."""
        asyncio.get_running_loop().remove_reader(self.listener)
        if self._file is not None and file_at(self._path) == self._file:
            self._path.unlink(missing_ok=True)
        self.listener.close()  # last: until then no other socket has the number of its file

    def _made(self) -> socket.socket:
        listener = bound_listener(self._path)
        listener.setblocking(False)
        listener.listen(BACKLOG)
        return listener

    def _make_again(self) -> None:
        try:
            listener = self._made()
            if self._path.parent.stat().st_uid != self._owner:
                listener.close()
                raise PermissionError(errno.EPERM, "its folder belongs to another user now")
        except OSError as error:
            reason = error.strerror or str(error)
            if reason != self._trouble:  # once for each, not with every look
                log.warning("socket-lost", path=str(self._path), reason=reason)
            self._trouble = reason
            return
        log.warning("socket-made-again", path=str(self._path), reason="it was not at its path any more")
        asyncio.get_running_loop().remove_reader(self.listener)
        self.listener.close()
        self.listener, self._file, self._trouble = listener, file_at(self._path), ""
        self._is_owed = True
        if self._line is None:
            self._turn_away()

    def _hand_over(self) -> None:
        """Give the process that serves it the socket that was made again, as soon as it takes that."""
        if self._line is not None and self._is_owed:
            self._is_owed = not self._line.hand_over(self.listener)

    def _turn_away(self) -> None:
        asyncio.get_running_loop().add_reader(self.listener, _close_next, self.listener)


def _close_next(listener: socket.socket) -> None:
    with suppress(OSError):  # the process that starts has taken it
        listener.accept()[0].close()
