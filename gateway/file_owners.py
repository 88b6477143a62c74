"""Whose files are trusted: those of the user who runs a command, and of root, as ssh and git have it.

A configuration names programs that are run, and addresses to which passwords are sent; a state folder has
secrets. One that belongs to another user, or that everybody can write, is refused, with the command that
mends it. A group's right to write is no reason: containers whose user has a random number need it. Root may
work on the state of another user, and then acts as that user.
"""

from __future__ import annotations

import errno
import os
import pwd
import shlex
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from gateway.file_systems import described

TRUSTED_OWNERS: Final = "AMQP_GATEWAY_TRUST_OWNER"
"""The variable with the further users whose files are trusted, by names or numbers, with commas between.

It is a variable, so that the processes that a command starts have it, too.
"""

_ROOT: Final = 0
_CREDENTIALS: Final = struct.Struct("3i")


def user_name(number: int) -> str:
    """Return the name of a user of the system; the number as text where it has no name, as in a container."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def user_number(name: str) -> int:
    """Return the number of a user; a number as text stands for itself.

    Raises:
        KeyError: there is no such user.
    """
    return int(name) if name.isascii() and name.isdecimal() else pwd.getpwnam(name).pw_uid


def distrust(path: Path, *further: int) -> str:
    """Return why a file or folder is not trusted, and the command that mends that; empty if it is.

    What cannot be looked at is not judged: who reads it meets the error.

    Args:
        path: the file or folder; of a link both the link and what it leads to are judged.
        further: numbers of users whose files are trusted, too.
    """
    try:
        looked = [path.lstat(), path.stat()]
    except OSError:
        return ""
    for status in looked:
        if not is_trusted(status.st_uid) and status.st_uid not in further:
            name, number = user_name(status.st_uid), further[0] if further else os.geteuid()
            ours = user_name(number)
            whose = "not to root" if number == _ROOT else f"neither to {ours} nor to root"
            return (
                f"belongs to the user {name}, {whose}: look at what is in it, then "
                f"{shlex.join(['chown', '-h', ours, str(path)])}, or trust that user: "
                f"amqp-gateway --trust-owner {name}"
            )
    mode = looked[-1].st_mode
    if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        mends = shlex.join(["chmod", "o-w", str(path)])
        return f"can be written by everybody: look at what is in it, then {mends}"
    return ""


def is_trusted(number: int) -> bool:
    """Return whether the files of a user are trusted."""
    return number in {os.geteuid(), _ROOT, *_trusted()}


def owner_for_root(path: Path) -> tuple[int, ...]:
    """Return the owner of a file or folder where root asks, who may use what is another user's."""
    try:
        return (path.stat().st_uid,) if os.geteuid() == _ROOT else ()
    except OSError:
        return ()


def is_writable_by_group(path: Path) -> bool:
    """Return whether a group other than root's may write a file, or replace files of others in a folder."""
    try:
        status = path.stat()
    except OSError:
        return False
    keeps_files = stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)
    return bool(status.st_mode & stat.S_IWGRP) and status.st_gid != _ROOT and not keeps_files


@contextmanager
def as_owner(folder: Path) -> Iterator[None]:
    """Act as the owner of a folder within the block, where root works on what is another user's.

    So the files that are made are that user's, and no link leads root elsewhere.

    Raises:
        OSError: the folder cannot be looked at.
    """
    owner = folder.stat()
    if os.geteuid() != _ROOT or owner.st_uid == _ROOT:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    os.setgroups([owner.st_gid])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(_ROOT)
        os.setegid(group)
        os.setgroups(groups)


def existing(folder: Path) -> Path:
    """Return a folder that is to be made, or is there: itself, or the nearest one above it that is there."""
    whole = folder.absolute()
    return next(one for one in (whole, *whole.parents) if one.is_dir())


def reason_of(error: OSError, folder: Path) -> str:
    """Return why a file of the gateway cannot be used.

    Where permission is missing, or the disk takes no changes, it has what mends that.

    Args:
        error: the error.
        folder: its folder, or one above, whose owner the gateway runs as.
    """
    reason = error.strerror or str(error)
    if error.errno == errno.EROFS:
        return f"{reason}: mount it so that it can be written ({described(folder)})"
    if not isinstance(error, PermissionError):
        return reason
    try:
        owner = folder.stat().st_uid
    except OSError:
        return reason
    name = user_name(owner)
    if owner == os.geteuid():
        mends = shlex.join(["chown", "-R", name, str(folder)])
        return f"{reason}: it belongs to another user, such as root, who ran a command here: {mends}, as root"
    return f"{reason}: it belongs to the user {name}, as whom the gateway runs: try sudo -u {name}"


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file to be read; a pipe, for whose writer it would wait, or a device is refused.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)  # `os.fdopen` would leave that of a folder open
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    with os.fdopen(descriptor, "rb") as file:
        yield file


def peer(connection: socket.socket) -> int:
    """Return the number of the user whose process is at the other end of a Unix socket.

    Of a listener it is the user who began to listen (SO_PEERCRED, unix(7)).
    """
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(credentials)[1]
    return uid


def _trusted() -> Iterator[int]:
    for name in filter(None, os.environ.get(TRUSTED_OWNERS, "").split(",")):
        try:
            yield user_number(name)
        except KeyError:
            continue
