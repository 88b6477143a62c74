"""The file of a replay window: no body is accepted again after the gateway was killed.

Each acceptance is appended, by one write, before the body is delivered. What was written survives the end of
the process, however it ended, since the kernel has it; only the end of the machine can lose it. So nothing is
synced, and the file names the boot of the machine: after another boot, or without a usable file, only bodies
that are signed after the start of the gateway are accepted.
"""

from __future__ import annotations

import errno
import os
import secrets
import struct
import uuid
import weakref
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

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
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def machine_boot_id() -> bytes:
    """Return 16 bytes that identify this boot of the machine."""
    return uuid.UUID(_BOOT_ID.read_text(encoding="ascii").strip()).bytes


class ReplayFile:
    """A replay window whose acceptances are in a file.

    Only one process may use the file: the holder of its state folder.

    Args:
        path: the file; its folder is made if it is missing.
        late: as of `ReplayWindow`.
        now: milliseconds since 1970.
        machine_boot: identifies this boot of the machine.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(
        self, path: Path, late: int, now: int, machine_boot: Callable[[], bytes] = machine_boot_id
    ) -> None:
        self._path = path
        self._boot = machine_boot()
        self._window = ReplayWindow(late)
        self._appended = 0
        self._file = -1
        self._closing: weakref.finalize[..., ReplayFile] | None = None
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._restored():
            self._window.floor = max(self._window.floor, now)
        self._write_again(now)

    @property
    def floor(self) -> int:
        """Milliseconds since 1970: nothing that was signed until then is accepted."""
        return self._window.floor

    def accept(self, body: Acceptance, now: int) -> None:
        """Accept a body at ``now`` (milliseconds since 1970), and write that down.

        Raises:
            BodyRefusedError: it is not accepted.
        """
        self._window.check(body, now)
        try:
            if self._appended >= MAX_APPENDED:
                self._write_again(now)
            self._append(_acceptance(body))
        except OSError as error:
            text = f"cannot be accepted, because {self._path} cannot be written: {error.strerror}"
            raise BodyRefusedError(Refusal.NOT_RECORDED, text) from error
        self._window.add(body)
        self._appended += 1

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
        rows = b"".join(map(_row, self._window.rows(now)))
        draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            head = _checked(_HEAD.pack(_MAGIC, self._boot, self._window.floor))
            _write_whole(descriptor, head + rows)
            draft.replace(self._path)
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
        self._window.floor = floor
        return self._restore_records(content[head_size:]) and boot == self._boot

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
        if kind == b"A":
            self._window.add(Acceptance(name, *numbers))
        else:
            boot, highest, newest, bits = numbers
            self._window.restore(SenderRow(name, boot, highest, newest, int.from_bytes(bits, "big")))
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
