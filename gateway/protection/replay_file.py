"""The file of a replay window: no body is accepted again after the gateway was killed.

Each acceptance is appended, by one write, before the body is delivered. What was written survives the end of
the process, however it ended, since the kernel has it; only the end of the machine can lose it. So nothing is
synced, and the file names the boot of the machine: after another boot, or without a usable file, only bodies
that are signed after the start of the gateway are accepted.

Where bodies wait in a durable queue it is the other way round: a body is delivered first, and written and
synced when the event log has on its disk what followed from it (`commit`), before it is acknowledged. After a
kill the broker delivers the others again, and they are accepted. What the log has already of those is known
by the signed identity of each (`gateway.links.durable_queue.Ledger`).
"""

from __future__ import annotations

import errno
import os
import secrets
import struct
import threading
import uuid
import weakref
import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.durable_files import machine_start, sync_folder
from gateway.protection.envelope import BodyRefusedError, Refusal
from gateway.protection.replay_window import WINDOW, Acceptance, ReplayWindow, SenderRow

MAX_APPENDED: Final = 1 << 15
"""Acceptances in the file, after which it is written again with one row for each sender."""

_HEAD: Final = struct.Struct(">8s16sQ")
_MAGIC: Final = b"AGREPLA1"
_ROW: Final = struct.Struct(f">c16sQQQ{WINDOW // 8}s")
_ACCEPTANCE: Final = struct.Struct(">c16sQQQ")
_CHECK: Final = struct.Struct(">I")
_FORMS: Final = {b"R": _ROW, b"A": _ACCEPTANCE}
_MAX_OCTETS: Final = 4 << 20
_ANY_BOOT: Final = b"\xff" * 16
"""In the place of the machine's boot: everything in the file was synced."""


def machine_boot_id() -> bytes:
    """Return 16 bytes that identify this boot of the machine."""
    return uuid.UUID(machine_start()).bytes


class ReplayFile:
    """A replay window whose acceptances are in a file.

    Only one process may use the file: the holder of its state folder.

    Args:
        path: the file; its folder is made if it is missing.
        late: as of `ReplayWindow`.
        now: milliseconds since 1970.
        machine_boot: identifies this boot of the machine.
        waits: as of `ReplayWindow`; with it acceptances are written by `commit`.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(
        self,
        path: Path,
        late: int,
        now: int,
        machine_boot: Callable[[], bytes] = machine_boot_id,
        waits: int = 0,
    ) -> None:
        self._path = path
        self._boot = machine_boot()
        self._is_synced = waits > 0
        self._window = ReplayWindow(late, waits=waits)
        # What the file has; with `commit` that is less, and its thread's.
        self._written = ReplayWindow(late, waits=waits) if self._is_synced else self._window
        self._pending: deque[Acceptance] = deque()
        self._accepted = self._committed = 0
        self._committing = threading.Lock()
        self._appended = 0
        self._file = -1
        self._closing: weakref.finalize[..., ReplayFile] | None = None
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.has_forgotten = not self._restored()
        if self.has_forgotten:
            self._window.floor = self._written.floor = max(self._window.floor, now)
        self._write_again(now)

    has_forgotten: bool
    """Whether it is not known what was accepted before the start, so that this is refused."""

    @property
    def floor(self) -> int:
        """Milliseconds since 1970: nothing that was signed until then is accepted."""
        return self._window.floor

    def has_waited(self, body: Acceptance, now: int) -> bool:
        """Return whether a body would be accepted only as one that waited in a durable queue."""
        return self._window.has_waited(body, now)

    def remember(self, body: Acceptance) -> None:
        """Remember a body of which the event log has what followed from it: it was accepted before a kill."""
        self._window.add(body)
        self._pending.append(body)
        self._accepted += 1

    def commit(self, now: int) -> Callable[[], None]:
        """Return what writes all acceptances so far, for another thread; it raises `OSError`.

        It may be called again, and beside another one that has not ended.
        """
        accepted = self._accepted

        def write() -> None:
            with self._committing:
                if accepted > self._committed:
                    self._commit(accepted - self._committed, now)
                    self._committed = accepted

        return write

    def _commit(self, count: int, now: int) -> None:
        bodies = [self._pending[place] for place in range(count)]
        if self._appended >= MAX_APPENDED:
            for body in bodies:
                self._written.add(body)
            self._write_again(now)
        else:
            self._append(b"".join(map(_acceptance, bodies)))
            os.fsync(self._file)
            for body in bodies:
                self._written.add(body)
            self._appended += count
        for _ in bodies:
            self._pending.popleft()

    def accept_before_commit(self, body: Acceptance, now: int, *, waited: bool) -> None:
        """Accept a body of a durable queue, which `commit` writes down.

        Args:
            body: the body.
            now: milliseconds since 1970.
            waited: as of `ReplayWindow.check`.

        Raises:
            BodyRefusedError: it is not accepted.
        """
        self._window.check(body, now, waited=waited)
        self.remember(body)

    def accept(self, body: Acceptance, now: int) -> None:
        """Accept a body at ``now`` (milliseconds since 1970), and write that down.

        Raises:
            BodyRefusedError: it is not accepted.
        """
        self._window.check(body, now)
        with self._committing:
            try:
                if self._appended >= MAX_APPENDED:
                    self._write_again(now)
                self._append(_acceptance(body))
                if self._is_synced:
                    os.fsync(self._file)
            except OSError as error:
                text = f"cannot be accepted, because {self._path} cannot be written: {error.strerror}"
                raise BodyRefusedError(Refusal.NOT_RECORDED, text) from error
            self._written.add(body)
            self._appended += 1
        if self._written is not self._window:
            self._window.add(body)

    def close(self) -> None:
        """Close the file; nothing can be accepted any more."""
        if self._closing is not None:
            self._closing()
            self._closing, self._file = None, -1

    def _append(self, record: bytes) -> None:
        size = os.lseek(self._file, 0, os.SEEK_END)
        try:
            _write_whole(self._file, record)
        except OSError:
            os.ftruncate(self._file, size)  # later records must begin where readers expect them
            raise

    def _write_again(self, now: int) -> None:
        """Replace the file by one with a row for each sender."""
        rows = b"".join(map(_row, self._written.rows(now)))
        draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            boot = _ANY_BOOT if self._is_synced else self._boot
            head = _checked(_HEAD.pack(_MAGIC, boot, self._written.floor))
            _write_whole(descriptor, head + rows)
            if self._is_synced:
                os.fsync(descriptor)
            draft.replace(self._path)
            if self._is_synced:
                sync_folder(self._path.parent)
        except OSError:
            os.close(descriptor)
            draft.unlink(missing_ok=True)
            raise
        self.close()
        self._file, self._appended = descriptor, 0
        self._closing = weakref.finalize(self, os.close, descriptor)

    def _restored(self) -> bool:
        """Read the file; return whether all that this boot of the machine accepted is known from it."""
        try:
            with self._path.open("rb") as file:
                content = file.read(_MAX_OCTETS + 1)
        except OSError:
            return False
        head_size = _HEAD.size + _CHECK.size
        head = _unchecked(content[:head_size])
        if len(content) > _MAX_OCTETS or head is None:
            return False
        magic, boot, floor = _HEAD.unpack(head)
        if magic != _MAGIC:
            return False
        self._window.floor = self._written.floor = floor
        return self._restore_records(content[head_size:]) and boot in {self._boot, _ANY_BOOT}

    def _restore_records(self, content: bytes) -> bool:
        """Take the records; return whether all are whole, but a last one whose writing was cut off."""
        at = 0
        while at < len(content):
            form = _FORMS.get(content[at : at + 1])
            if form is None:
                return False
            end = at + form.size + _CHECK.size
            if end > len(content):
                return True
            record = _unchecked(content[at:end])
            if record is None or not self._restore_record(form, record):
                return False
            at = end
        return True

    def _restore_record(self, form: struct.Struct, record: bytes) -> bool:
        kind, sender, *numbers = form.unpack(record)
        if not sender.isascii():
            return False
        name = sender.decode("ascii")
        for window in {self._window, self._written}:
            if kind == b"A":
                window.add(Acceptance(name, *numbers))
            else:
                boot, highest, newest, bits = numbers
                window.restore(SenderRow(name, boot, highest, newest, int.from_bytes(bits, "big")))
        return True


def _write_whole(descriptor: int, content: bytes) -> None:
    if os.write(descriptor, content) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _acceptance(body: Acceptance) -> bytes:
    packed = _ACCEPTANCE.pack(b"A", body.sender.encode("ascii"), body.boot, body.number, body.issued)
    return _checked(packed)


def _row(row: SenderRow) -> bytes:
    bits = row.bits.to_bytes(WINDOW // 8, "big")
    return _checked(_ROW.pack(b"R", row.sender.encode("ascii"), row.boot, row.highest, row.newest, bits))


def _checked(record: bytes) -> bytes:
    return record + _CHECK.pack(zlib.crc32(record))


def _unchecked(record: bytes) -> bytes | None:
    """Return a record without its checksum; ``None`` if that is wrong."""
    content, check = record[: -_CHECK.size], record[-_CHECK.size :]
    return content if len(record) > _CHECK.size and _CHECK.pack(zlib.crc32(content)) == check else None
