"""What applications and the gateway said to each other, in files that an application asked for.

An application of AMI may ask that its session is logged (option LOG). What is written, where and how much is
ours to say: files below one folder of the gateway's, named after the application in a form that leads nowhere
else, turned over when they are long, and few. Nobody waits for the disk: what arrives faster than it is
written is left out, and the file says how many lines.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

FOLDER: Final = "sessions"
"""In the state folder; below it one for each source."""

MAX_LINE_OCTETS: Final = 8192
"""Of one line; the rest is left out, and told."""

SETTLING_SECONDS: Final = 0.2
"""Lines are written together."""

_MAX_NAME: Final = 60
_SUFFIX: Final = ".log"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9-]")
_UNPRINTABLE: Final = re.compile(rb"[^\x20-\x7e]")
_MILLISECONDS: Final = 10**6


@dataclass(frozen=True, slots=True)
class SessionLogLimits:
    """How much is kept.

    Attributes:
        octets: of one file; then it is turned over, behind what was written together.
        files: of one application, the one that is written included.
        applications: with files; the one that was silent longest makes room for a new one.
        waiting: octets that wait for the disk, of all applications together.
    """

    octets: int = 1 << 20
    files: int = 3
    applications: int = 32
    waiting: int = 1 << 20


class SessionLogs:
    """The files of one source.

    Args:
        folder: where they lie; made when it is needed.
        limits: how much is kept.
    """

    def __init__(self, folder: Path, limits: SessionLogLimits | None = None) -> None:
        self._folder = folder
        self._limits = limits or SessionLogLimits()
        self._waiting: dict[str, list[bytes]] = {}
        self._octets = 0
        self._left_out: dict[str, int] = {}
        self._something = asyncio.Event()

    def take(self, application: str, line: bytes, now: int, *, outgoing: bool) -> None:
        r"""Have a line written: as it travelled, without its end.

        Args:
            application: whose session it is of, as it calls itself.
            line: what is not printable ASCII is written as ``\xNN``.
            now: nanoseconds since 1970 UTC.
            outgoing: whether the gateway said it.
        """
        name = file_name(application)
        written = _written(line, now, outgoing=outgoing)
        if self._octets + len(written) > self._limits.waiting:
            if name in self._left_out or len(self._left_out) < self._limits.applications:
                self._left_out[name] = self._left_out.get(name, 0) + 1
            return
        self._octets += len(written)
        self._waiting.setdefault(name, []).append(written)
        self._something.set()

    async def keep(self) -> None:
        """Write what was taken, soon; ends by cancellation only, and writes what is left then."""
        try:
            while True:
                await self._something.wait()
                await asyncio.sleep(SETTLING_SECONDS)
                self._something.clear()
                waiting = self._taken()
                await asyncio.to_thread(self._write, waiting)
        finally:
            self._write(self._taken())

    def _taken(self) -> dict[str, bytes]:
        waiting = {name: b"".join(lines) for name, lines in self._waiting.items()}
        for name, count in self._left_out.items():
            told = f"# {count} lines were left out here: they came faster than they could be written\n"
            waiting[name] = waiting.get(name, b"") + told.encode()
        self._waiting.clear()
        self._left_out.clear()
        self._octets = 0
        return waiting

    def _write(self, waiting: dict[str, bytes]) -> None:
        try:
            for name, octets in waiting.items():
                self._append(self._folder / name, octets)
        except OSError as error:
            log.warning("session-not-logged", path=str(error.filename or self._folder), detail=str(error))

    def _append(self, path: Path, octets: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        size = path.stat().st_size if path.exists() else None
        if size is None:
            self._make_room()
        elif size and size + len(octets) > self._limits.octets:
            self._turn_over(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(octets)

    def _turn_over(self, path: Path) -> None:
        """``x.log`` becomes ``x.log.1``, that one ``x.log.2``; the last one goes."""
        names = [path, *(path.with_name(f"{path.name}.{n}") for n in range(1, self._limits.files))]
        names[-1].unlink(missing_ok=True)
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            if newer.exists():
                newer.replace(older)

    def _make_room(self) -> None:
        """A new application: those that were silent longest go."""
        logs = sorted(self._folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
        for path in logs[: max(0, len(logs) + 1 - self._limits.applications)]:
            for one in (path, *self._folder.glob(f"{path.name}.[0-9]*")):
                one.unlink(missing_ok=True)


def file_name(application: str) -> str:
    """The name of an application's file: of letters, digits, ``-`` and ``_``, the same for no other one.

    What else there is in its name is written as ``_`` and its UTF-8 octets in hexadecimal digits; a long name
    is cut off, and ends with a digest of the whole.
    """
    octets = application.encode("utf-8", "backslashreplace")
    name = _UNSAFE.sub(lambda found: f"_{ord(found[0]):02x}", octets.decode("latin-1"))
    if len(name) > _MAX_NAME or not name:
        name = f"{name[:_MAX_NAME]}_-{hashlib.blake2b(octets, digest_size=8).hexdigest()}"
    return name + _SUFFIX


def _written(line: bytes, now: int, *, outgoing: bool) -> bytes:
    time = dt.datetime.fromtimestamp(now // 10**9, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    shown = _UNPRINTABLE.sub(lambda found: b"\\x%02x" % found[0][0], line[:MAX_LINE_OCTETS])
    rest = len(line) - MAX_LINE_OCTETS
    end = f" ... and {rest} octets\n" if rest > 0 else "\n"
    return (
        f"{time}.{now % 10**9 // _MILLISECONDS:03d}Z {'>' if outgoing else '<'} ".encode()
        + shown
        + end.encode()
    )
