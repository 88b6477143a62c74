"""The file of a capture: JSON lines, readable by its owner only, bounded; see ``docs/capture.md``.

A capture must not disturb the session: a full disk ends the capture.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

import structlog

from gateway.durable_files import PRIVATE

log = structlog.get_logger(__name__)

VERSION: Final = 1
WARNING: Final = (
    "Bodies are recorded as they were on the wire: they may contain passwords and other secrets."
    " Check before you pass this on."
)
LARGEST_FILE: Final = 64 << 20
"""Octets of a file; the next record begins another file."""
FILES: Final = 4
"""Number of files of one capture that are kept."""

Fields: TypeAlias = Mapping[str, object]
"""The fields of one record, as JSON."""


@dataclass(frozen=True, slots=True)
class Directions:
    """The values of ``dir`` for received and sent messages."""

    received: str
    sent: str


AS_CONSOLE: Final = Directions(received="to-console", sent="to-agent")
AS_AGENT: Final = Directions(received="to-agent", sent="to-console")
AS_RELAY: Final = Directions(received="to-relay", sent="to-application")


@dataclass(frozen=True, slots=True)
class CaptureHead:
    """The contents of the first line of each file.

    Attributes:
        source: the name of the source or agent.
        dialect: the dialect of its session, as in the configuration.
        received: as in `Directions`.
        sent: as in `Directions`.
        part: the number of this file: 1 is the first one, in which the session begins.
        ns: the time at which the file was begun, nanoseconds since 1970.
    """

    source: str
    dialect: str
    received: str
    sent: str
    part: int = 1
    ns: int = 0


class CaptureFile:
    """Writes records, and begins another file when one is full.

    Args:
        path: the newest file, which must not exist. Older ones are ``PATH.1``, ``PATH.2`` and so on.
        source: the name of the source or agent.
        dialect: the dialect of its session.
        directions: the names of the directions.
        now: nanoseconds since 1970.
        about: further fields of the head of each file.
        largest_file: octets of a file.
        files: the number of files that are kept.

    Attributes:
        trouble: the reason why the capture ended by itself; empty while it goes on.
        records: records written so far.
        octets: octets written so far, of all files.

    Raises:
        OSError: the file cannot be created, or exists.
    """

    def __init__(
        self,
        path: Path,
        source: str,
        dialect: str,
        directions: Directions,
        now: int,
        *,
        about: Fields = MappingProxyType({}),
        largest_file: int = LARGEST_FILE,
        files: int = FILES,
    ) -> None:
        self.directions = directions
        self.trouble = ""
        self.records = 0
        self.octets = 0
        self._path = path
        self._about = about
        self._largest = largest_file
        self._files = files
        self._head = CaptureHead(source, dialect, directions.received, directions.sent)
        self._descriptor: int | None = None
        self._size = 0
        self._begin(1, now, {})

    def write(self, record: Fields, now: int, standing: Fields) -> None:
        """Append a record, unless the capture has ended.

        Args:
            record: the record, with ``ns``. Its ``body_b64`` is left out where it alone would fill a file.
            now: nanoseconds since 1970.
            standing: fields for the head of a new file, so that it can be replayed without earlier ones.
        """
        if self._descriptor is None:
            return
        line = _line(record)
        if len(line) > self._largest // 2:
            line = _line({**record, "body_b64": "", "omitted": True})
        try:
            if self._size + len(line) > self._largest:
                self._rotate(now, standing)
            self._append(line)
            self.records += 1
        except OSError as error:
            self.trouble = f"{self._path}: {error.strerror or error}: the capture has ended"
            log.warning("capture-ended", detail=self.trouble)
            self.close()

    def close(self) -> None:
        """End the capture."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _rotate(self, now: int, standing: Fields) -> None:
        self.close()
        make_room(self._path, self._files)
        self._begin(self._head.part + 1, now, standing)

    def _begin(self, part: int, now: int, standing: Fields) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, PRIVATE)
        self._size = 0
        self._head = CaptureHead(
            self._head.source, self._head.dialect, self._head.received, self._head.sent, part, now
        )
        self._append(
            _line({"capture": VERSION, "warning": WARNING, **asdict(self._head), **self._about, **standing})
        )

    def _append(self, line: bytes) -> None:
        """Write a whole line, unbuffered: the records before a crash are the interesting ones."""
        self._size += len(line)
        self.octets += len(line)
        left = memoryview(line)
        while left and self._descriptor is not None:
            left = left[os.write(self._descriptor, left) :]


def make_room(path: Path, files: int = FILES) -> None:
    """Rename every file of a capture to that of an older one, and keep one fewer than ``files``.

    Raises:
        OSError: a file cannot be renamed.
    """
    for number in range(files - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        newer = path if number == 1 else path.with_name(f"{path.name}.{number - 1}")
        if newer.exists():
            newer.replace(older)
    path.unlink(missing_ok=True)  # where only one file is kept


def _line(record: Fields) -> bytes:
    return (
        json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass") + b"\n"
    )
