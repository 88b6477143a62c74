"""Durable writing of files: after any failure a file has its whole old content or its whole new one.

The new content is written beside the file, brought to the disk, and put in its place by one rename; then the
folder is brought to the disk too. A kill or a power cut leaves at most a hidden draft, which no program
reads; the next writer of that file removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from gateway.file_systems import UNABLE

PRIVATE = 0o600
"""The mode of files that only the gateway's user may read; the default."""

PUBLIC = 0o644
"""The mode of files that others may read, too."""

_OTHERS: Final = 0o077

_Result = TypeVar("_Result")

RESERVE: Final = "reserve"
"""The name of the reserve for a full disk in a folder that has one."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

_MACHINE_START: Final = Path("/proc/sys/kernel/random/boot_id")


def machine_start() -> str:
    """Return the UUID that the system gives to its present start: what was not synced before it may be lost.

    Raises:
        OSError: the system does not say it.
        ValueError: it is no text.
    """
    return _MACHINE_START.read_text(encoding="ascii").strip()


def write_durably(path: Path, content: str | bytes, mode: int = PRIVATE, *, leaves: int = 0) -> None:
    """Replace a file, or make it; on a full disk with room of the reserve of its folder, if that has one.

    Args:
        path: the file.
        content: what it will contain, a text as UTF-8.
        mode: its mode.
        leaves: bytes of the reserve that are not for it; `FOR_STARTS` for what running processes write,
            `ALL` for what a full disk does not get.

    Raises:
        OSError: it cannot be written, or is no regular file; it is as it was then.
    """

    def write() -> None:
        with replaced_durably(path, mode, keeps_owner=True) as draft:
            draft.write(content if isinstance(content, bytes) else content.encode())

    _with_room_of(path.parent, write, leaves)


def create_durably(path: Path, text: str) -> None:
    """Make a file, mode 0600; one that is there stays as it is, also if it was made a moment ago.

    Where the file system has no hard links it is made at its place: a power failure may leave it empty.

    Raises:
        OSError: it cannot be made.
    """

    def create() -> None:
        with _draft(path, PRIVATE) as (draft, file):
            file.write(text.encode())
            _sync(file)
            try:
                path.hardlink_to(draft)
            except FileExistsError:
                _await_content(path)
            except OSError as error:
                if error.errno not in UNABLE:
                    raise
                _create_in_place(path, text)

    _with_room_of(path.parent, create, leaves=0)
    sync_folder(path.parent)


def has_content(path: Path) -> bool:
    """Return whether a file is there, and is not just being made by another process."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


_LOOKS: Final = 50
_LOOK_SECONDS: Final = 0.02


def _create_in_place(path: Path, text: str) -> None:
    """Make a file that no other process makes: of several at the same time, one does."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, PRIVATE)
    except FileExistsError:
        _await_content(path)
        return
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            _sync(file)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _await_content(path: Path) -> None:
    """Wait for a moment while another process makes a file; one that stays empty is left to the caller."""
    for _ in range(_LOOKS):
        if has_content(path):
            return
        time.sleep(_LOOK_SECONDS)


FOR_STARTS: Final = 1 << 20
"""The bytes of a reserve that are left for starts of the gateway and its processes."""
ALL: Final = 1 << 62
"""More bytes than a reserve has: what is large, and can be done without, takes none of it."""
_START_STEP: Final = 64 << 10
"""The bytes of one step for a start, which writes little: other programs may use what it releases."""


class DiskReserve:
    """A file whose bytes are kept for what must be written although the disk is full.

    They are released in steps, so that what other programs write at the same time takes little of them. Only
    bytes that are zero are released: another file of that name stays as it is.

    Args:
        path: the path of the file; made by `refill`.
        octets: its size while nothing is released.
        step: the bytes of one step.
        leaves: the bytes that are not released here.

    Attributes:
        leaves: the bytes that are not released here.
    """

    def __init__(self, path: Path, octets: int = 8 << 20, step: int = 512 << 10, leaves: int = 0) -> None:
        self.leaves = leaves
        self._path = path
        self._octets = octets
        self._step = step

    @property
    def left(self) -> int:
        """The bytes that are not released, and may be."""
        return max(0, self._size - self.leaves)

    @property
    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    @property
    def is_whole(self) -> bool:
        """Whether it was made, and nothing is released."""
        return self._size >= self._octets

    @property
    def is_in_use(self) -> bool:
        """Whether some of it is released."""
        return os.path.lexists(self._path) and not self.is_whole

    def release(self) -> bool:
        """Give a step back to the disk; return whether there was one."""
        size, left = self._size, self.left
        step = self._step if size > FOR_STARTS else min(self._step, _START_STEP)
        cut = min(left, step)
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode) or any(os.pread(descriptor, cut, size - cut)):
                return False
            os.ftruncate(descriptor, size - cut)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return cut > 0

    def refill(self) -> bool:
        """Take the bytes again, if the disk has twice as many; return whether the reserve is whole."""
        size = self._size
        if size >= self._octets:
            return True
        try:
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < 2 * self._octets - size:
                return False
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            try:
                os.posix_fallocate(descriptor, 0, self._octets)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        return True


@contextmanager
def replaced_durably(path: Path, mode: int = PRIVATE, *, keeps_owner: bool = False) -> Iterator[BinaryIO]:
    """Yield a file for the new content of ``path``, which it replaces when the block ends without error.

    Args:
        path: the file.
        mode: its mode.
        keeps_owner: a file of another user that root replaces stays that user's.

    Raises:
        OSError: it cannot be written, or is no regular file; ``path`` is as it was then.
    """
    former = check_replaceable(path)
    with _draft(path, mode) as (draft, file):
        if keeps_owner and former is not None and os.geteuid() == 0:
            os.fchown(file.fileno(), former.st_uid, former.st_gid)
        yield file
        _sync(file)
        check_replaceable(path)
        draft.replace(path)
    sync_folder(path.parent)


def check_replaceable(path: Path) -> os.stat_result | None:
    """Refuse to replace what is no regular file: a link, also one that leads nowhere, or a device.

    Returns:
        The status of the file that is there; ``None`` if there is none.

    Raises:
        OSError: there is something else, or it cannot be looked at.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISREG(status.st_mode):
        return status
    raise OSError(errno.EEXIST, "is no regular file, and is not replaced: name another", str(path))


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk.

    Where the file system cannot do that, nothing more can be done: `amqp-gateway init` and the log of the
    core say what it costs.

    Raises:
        OSError: it failed.
    """
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in UNABLE:
            raise
    finally:
        os.close(folder)


def with_room(
    reserve: DiskReserve | None,
    do: Callable[[], _Result],
    is_full: Callable[[Exception], bool],
    released: Callable[[], None] = lambda: None,
) -> _Result:
    """Return what ``do`` returns, which is tried again with more and more room of a reserve.

    Args:
        reserve: room for a full disk; ``None`` for none.
        do: writes; what it has begun is undone when it fails.
        is_full: whether an error is that of a full disk.
        released: called after each step that is given back to the disk.

    Raises:
        Exception: that of ``do``, which is another one, or nothing of the reserve is left.
    """
    while True:
        try:
            return do()
        except Exception as error:
            if not is_full(error) or reserve is None or not reserve.release():
                raise
            released()


def _with_room_of(folder: Path, write: Callable[[], None], leaves: int) -> None:
    """Write, on a full disk with room of the reserve of the folder."""
    with_room(DiskReserve(folder / RESERVE, leaves=leaves), write, _is_full)


def _is_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in _FULL


def set_mode(descriptor: int, mode: int, path: Path) -> None:
    """Give an open file a mode; where its file system takes none, that of the mount has to permit no more.

    Raises:
        OSError: it is not permitted, or others could do more with the file than the mode says.
    """
    try:
        os.fchmod(descriptor, mode)
    except OSError as error:
        if error.errno not in UNABLE:
            raise
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & _OTHERS & ~mode:
            text = "its file system takes no modes, and others could use the file: mount it with umask=077"
            raise OSError(error.errno, text, str(path)) from error


_DRAFT_OCTETS: Final = 8


@contextmanager
def _draft(path: Path, mode: int) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield a new file beside ``path``; it is removed at the end unless it was renamed."""
    _remove_left_drafts(path)
    draft, descriptor = _locked_draft(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            set_mode(descriptor, mode, path)  # whatever the umask is
            yield draft, file
    finally:
        draft.unlink(missing_ok=True)


def _locked_draft(path: Path) -> tuple[Path, int]:
    """Make a draft that its lock shows to be written, where the file system has locks."""
    while True:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(_DRAFT_OCTETS)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if draft.exists():
            return draft, descriptor
        os.close(descriptor)  # before it was locked, another writer took it for one that was left


def _remove_left_drafts(path: Path) -> None:
    """Remove the drafts of this file that are not locked: those who wrote them were killed."""
    with suppress(OSError):
        for other in path.parent.iterdir():
            before, _, number = other.name.rpartition(".")
            if before == f".{path.name}" and len(number) == 2 * _DRAFT_OCTETS:
                _remove_unless_locked(other)


def _remove_unless_locked(draft: Path) -> None:
    with suppress(OSError):  # another writer has it, or it is gone by now
        descriptor = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.unlink()
        finally:
            os.close(descriptor)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
