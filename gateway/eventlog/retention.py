"""The log within its bounds: of all that is complete, the oldest goes when it is too old or all is too much.

The lake, complete segments, and what was cut off or set aside in ``lost/`` count alike. Open segments are
never deleted, hidden files (drafts, locks) neither, but all are counted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.durable_files import sync_folder
from gateway.eventlog.lake import LAKE, lake_files
from gateway.eventlog.rotation import time_text
from gateway.eventlog.segment import LOST, list_segments
from gateway.eventlog.settings import LogFileSettings

SLACK: Final = 32
"""Beyond the bound a 32nd of it is deleted too, so that it is not exceeded again at once."""

_HOUR_NS: Final = 3600 * 10**9


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that may be deleted.

    Attributes:
        path: of the file.
        octets: of it.
        newest: no record of it is newer, nanoseconds since 1970 UTC; of segments when it was last written.
    """

    path: Path
    octets: int
    newest: int


@dataclass(frozen=True, slots=True)
class Stored:
    """What the log's folder holds.

    Attributes:
        octets: of all files.
        segments: files of ``segments/``.
        files: those that may be deleted, oldest first.
    """

    octets: int
    segments: int
    files: tuple[StoredFile, ...]


@dataclass(frozen=True, slots=True)
class Deleted:
    """What was deleted.

    Attributes:
        files: how many.
        octets: of them.
        because: ``max_age``, ``max_size`` or both, with ``, `` between.
        until: nothing that was deleted is newer; as on a line.
    """

    files: int
    octets: int
    because: str
    until: str

    def __add__(self, other: Deleted) -> Deleted:
        because = ", ".join(sorted({*self.because.split(", "), *other.because.split(", ")}))
        return Deleted(
            self.files + other.files,
            self.octets + other.octets,
            because,
            max(self.until, other.until),
        )


def stored(folder: Path) -> Stored:
    """What the log in ``folder`` holds; files that go meanwhile are passed over.

    Raises:
        OSError: a folder cannot be read.
    """
    segments = list_segments(folder)
    hours = {file.path: int(file.hour.timestamp()) * 10**9 + _HOUR_NS for file in lake_files(folder)}
    deletable = {segment.path for segment in segments if not segment.is_open} | hours.keys()
    total, files = 0, []
    for path, status in _all_files(folder):
        total += status.st_size
        if path in deletable or (path.parent.name == LOST and not path.name.startswith(".")):
            files.append(StoredFile(path, status.st_size, hours.get(path, status.st_mtime_ns)))
    files.sort(key=lambda file: (file.newest, file.path.name))
    return Stored(total, len(segments), tuple(files))


def too_much(held: Stored, settings: LogFileSettings, now: int) -> tuple[list[StoredFile], list[StoredFile]]:
    """What has to go, oldest first: for its age, and of the rest for the size of all.

    Args:
        held: by the log.
        settings: with the bounds.
        now: nanoseconds since 1970 UTC.
    """
    old = [file for file in held.files if file.newest + settings.max_age < now]
    octets = held.octets - sum(file.octets for file in old)
    large: list[StoredFile] = []
    if octets > settings.max_size:
        for file in held.files[len(old) :]:
            if octets <= settings.max_size - settings.max_size // SLACK:
                break
            large.append(file)
            octets -= file.octets
    return old, large


def keep_within(folder: Path, settings: LogFileSettings, now: int) -> tuple[Stored, Deleted | None]:
    """Delete what is too much.

    Args:
        folder: of the log.
        settings: with the bounds.
        now: nanoseconds since 1970 UTC.

    Returns:
        What is left, and what was deleted.

    Raises:
        OSError: something cannot be read or deleted.
    """
    held = stored(folder)
    old, large = too_much(held, settings, now)
    if not old and not large:
        return held, None
    for file in (*old, *large):
        file.path.unlink(missing_ok=True)
    _remove_empty_hours(folder)
    for name in ("segments", LAKE, LOST):
        with contextlib.suppress(FileNotFoundError):
            sync_folder(folder / name)
    return stored(folder), _deleted(old, large)


def _deleted(old: Sequence[StoredFile], large: Sequence[StoredFile]) -> Deleted:
    gone = (*old, *large)
    because = ", ".join(name for name, files in (("max_age", old), ("max_size", large)) if files)
    until = time_text(max(file.newest for file in gone))
    return Deleted(len(gone), sum(file.octets for file in gone), because, until)


def _all_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for name, _, names in os.walk(folder):
        for file in names:
            path = Path(name, file)
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat(follow_symlinks=False)


def _remove_empty_hours(folder: Path) -> None:
    """Folders of the lake without a file; who puts one in meanwhile makes them again."""
    for pattern in ("dt=*/hour=*", "dt=*"):
        for path in (folder / LAKE).glob(pattern):
            with contextlib.suppress(OSError):
                path.rmdir()
