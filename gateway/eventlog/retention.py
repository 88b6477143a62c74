"""The bounds of the log: when a segment is closed, and what is deleted for its age or for the size of all.

The lake, complete segments, and what was cut off or set aside in ``lost/`` count alike. Open segments are
never deleted, hidden files (drafts, locks) neither, but all are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Final

from gateway.clock import Clock
from gateway.durable_files import sync_folder
from gateway.eventlog.disk import EventLogError
from gateway.eventlog.record import microseconds_text
from gateway.eventlog.segment import LAKE, LOST, lake_files, list_segments, read_identity

_SECOND = 10**9
_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class LogFileSettings:
    """Times in nanoseconds, sizes in octets.

    Attributes:
        commit_interval: records wait for so long at most before they are written and synced together.
        segment_duration: a segment is closed at this age.
        segment_size: or when it has so many octets, once its head is complete; one with a large head may
            have twice as many as its head. Never more than a quarter of ``max_size``, but for the head.
        max_size: of all files of the log and the lake; beyond it the oldest are deleted.
        max_age: files whose records are all older are deleted.
        min_free: nothing is written while the disk has less than this.
        max_waiting: records that wait in memory, with at most 1 KiB for each; beyond it what is lost is
            counted and recorded.
        retry_interval: how long to wait before a disk that failed is tried again.
    """

    commit_interval: int = 50 * 10**6
    segment_duration: int = 600 * _SECOND
    segment_size: int = 64 * _MEBIBYTE
    max_size: int = 4096 * _MEBIBYTE
    max_age: int = 30 * 86_400 * _SECOND
    min_free: int = 256 * _MEBIBYTE
    max_waiting: int = 200_000
    retry_interval: int = _SECOND


MAX_CLOCK_STEP: Final = 10 * 10**9
"""Nanoseconds by which a clock may go back without a new segment: times wait for it then."""

_HOUR: Final = len("2026-11-20T14")
_NEVER: Final = 2**63
_LAST_SECOND: Final = "9999-12-31T23:59:59.999999Z"


class Why(enum.StrEnum):
    """Why a segment begins.

    ``began``: the gateway started. ``recovered``: likewise, after a writer that left an open segment.
    ``age``, ``size``: of the former segment. ``hour``: a full hour of the clock. ``clock``: it was set back.
    ``trouble``: the disk did not take what was written, or records were lost.
    """

    BEGAN = "began"
    RECOVERED = "recovered"
    AGE = "age"
    SIZE = "size"
    HOUR = "hour"
    CLOCK = "clock"
    TROUBLE = "trouble"


class Rotation:
    """The segment that takes records: its hour, its age, its size.

    Attributes:
        last_ts: ``ingest_ts`` of its last record; none that follows is earlier.
        head_is_complete: it has the whole state.
        full_at: octets of all records since the start of the process at which it is full.
    """

    def __init__(self, settings: LogFileSettings) -> None:
        self.last_ts = ""
        self.head_is_complete = False
        self._duration = settings.segment_duration
        # Open segments are never deleted: one must not be a large part of what all may take.
        self._size = min(settings.segment_size, settings.max_size // 4)
        self.full_at = _NEVER
        self._began = 0
        self._began_octets = 0
        self._hour = ""

    def begin(self, ingest_ts: str, now: int, octets: int) -> None:
        """A segment begins.

        Args:
            ingest_ts: of its first record.
            now: nanoseconds since 1970 UTC.
            octets: of all records before it, since the start of the process.
        """
        self.last_ts, self._hour = ingest_ts, ingest_ts[:_HOUR]
        self._began, self._began_octets = now, octets
        self.full_at = _NEVER
        self.head_is_complete = False

    def complete_head(self, octets: int) -> None:
        """The head is written: from here on age and size count; a large head is worth more records behind it.

        Args:
            octets: of all records so far.
        """
        self.full_at = self._began_octets + max(self._size, 2 * (octets - self._began_octets))
        self.head_is_complete = True

    def of_record(self, ingest_ts: str, octets: int, now: int) -> Why | None:
        """Return whether a segment has to begin before a record.

        Args:
            ingest_ts: of the record.
            octets: of all records so far.
            now: nanoseconds since 1970 UTC.
        """
        if ingest_ts < self.last_ts:
            return self._of_clock(now)
        if ingest_ts[:_HOUR] != self._hour:
            return Why.HOUR
        return self._of_size(octets)

    def of_time(self, octets: int, now: int) -> Why | None:
        """Return whether a segment has to begin although no record makes it.

        Args:
            octets: of all records so far.
            now: nanoseconds since 1970 UTC.
        """
        text = time_text(now)
        if text < self.last_ts:
            return self._of_clock(now)
        if text[:_HOUR] != self._hour:
            return Why.HOUR
        if self.head_is_complete and now - self._began >= self._duration:
            return Why.AGE
        return self._of_size(octets)

    def _of_size(self, octets: int) -> Why | None:
        return Why.SIZE if octets >= self.full_at else None

    def _of_clock(self, now: int) -> Why | None:
        return Why.CLOCK if time_text(now + MAX_CLOCK_STEP) < self.last_ts else None


def time_text(now: int) -> str:
    """``2026-11-20T14:05:06.123456Z``; times beyond the calendar are its end.

    Args:
        now: nanoseconds since 1970 UTC.
    """
    return microseconds_text(now) or _LAST_SECOND


SLACK: Final = 32
"""Beyond the bound a 32nd of it is deleted too, so that it is not exceeded again at once."""

_HOUR_NS: Final = 3600 * 10**9

_EARLIEST: Final = 1_735_689_600 * 10**9
"""2025-01-01, in nanoseconds since 1970 UTC: no log is older. A clock that shows less has not been set."""

_LOST_NAME: Final = re.compile(r"(?P<seq>[0-9]{20})[-.].+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that may be deleted.

    Attributes:
        path: of the file.
        octets: of it.
        newest: no record of it is newer, nanoseconds since 1970 UTC; of segments when it was last written.
            By the clock of then, which may have been wrong.
        log_id: of the log whose records it holds; empty where that is not known.
        first_seq: of its first record, or of the segment that it comes from; 0 where that is not known.
        is_lost: it lies in ``lost/``.
    """

    path: Path
    octets: int
    newest: int
    log_id: str
    first_seq: int
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """What the log's folder holds.

    Attributes:
        octets: of all files.
        segments: files of ``segments/``.
        files: those that may be deleted, in any order.
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
    """Return what the log in ``folder`` holds; files that go meanwhile are passed over.

    Raises:
        OSError: a folder cannot be read.
    """
    log_id = _log_id(folder)
    segments = list_segments(folder)
    complete = {segment.path: segment.first_seq for segment in segments if not segment.is_open}
    lake = {file.path: file for file in lake_files(folder)}
    total, files = 0, []
    for path, status in _all_files(folder):
        octets, written = status.st_size, status.st_mtime_ns
        total += octets
        if path in complete:
            files.append(StoredFile(path, octets, written, log_id, complete[path]))
        elif (file := lake.get(path)) is not None:
            newest = int(file.hour.timestamp()) * 10**9 + _HOUR_NS
            files.append(StoredFile(path, octets, newest, file.log_id, file.first_seq))
        elif path.parent.name == LOST and not path.name.startswith("."):
            name = _LOST_NAME.fullmatch(path.name)
            of = ("", 0) if name is None else (log_id, int(name["seq"]))
            files.append(StoredFile(path, octets, written, *of, is_lost=True))
    return Stored(total, len(segments), tuple(files))


def _log_id(folder: Path) -> str:
    with contextlib.suppress(EventLogError):  # opening the log reports what is wrong
        identity = read_identity(folder)
        return identity.log_id if identity is not None else ""
    return ""


def too_much(held: Stored, settings: LogFileSettings, now: int) -> tuple[list[StoredFile], list[StoredFile]]:
    """Return what has to go, oldest first: for its age, and of the rest for the size of all.

    Of each log it is the beginning, in the order of its records: what remains has no hole in it.

    Args:
        held: by the log.
        settings: with the bounds.
        now: nanoseconds since 1970 UTC.
    """
    files = _oldest_first(held.files, now)
    old = [file for newest, file in files if newest + settings.max_age < now]
    octets = held.octets - sum(file.octets for file in old)
    large: list[StoredFile] = []
    if octets > settings.max_size:
        for _, file in files[len(old) :]:
            if octets <= settings.max_size - settings.max_size // SLACK:
                break
            large.append(file)
            octets -= file.octets
    return old, large


def _oldest_first(files: Sequence[StoredFile], now: int) -> list[tuple[int, StoredFile]]:
    """Each file behind the time that counts as its newest; those of one log in the order of its records."""
    found: list[tuple[int, StoredFile]] = []
    for _, of_log in groupby(sorted(files, key=_in_log), attrgetter("log_id")):
        in_order = list(of_log)
        found.extend(zip(_times(in_order, now), in_order, strict=True))
    # Times never decrease within a log, and files with the same time keep their order.
    return sorted(found, key=itemgetter(0))


def _in_log(file: StoredFile) -> tuple[str, int, bool, int, str]:
    return file.log_id, file.first_seq, file.is_lost, file.newest, file.path.name


def _times(files: Sequence[StoredFile], now: int) -> list[int]:
    """When files that were written one after the other were written, where clocks may have been wrong.

    None was written before a file that precedes it. One that has a time that no right clock can have shown
    is as young as the next one.
    """
    times, least = [], 0
    for file in files:
        is_possible = _EARLIEST <= file.newest <= now
        times.append(max(file.newest if is_possible else now, least))
        # What lies in lost/ may have been put there after the records that follow it.
        if is_possible and not file.is_lost:
            least = times[-1]
    return list(accumulate(reversed(times), min))[::-1]


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
    # In this order what remains after a kill has no hole in it either.
    for file in (*old, *large):
        file.path.unlink(missing_ok=True)
    _remove_empty_hours(folder)
    for name in ("segments", LAKE, LOST):
        with contextlib.suppress(FileNotFoundError):
            sync_folder(folder / name)
    # Looked up again, because the log is written and compacted meanwhile.
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
                # Not removed with what is in it: a folder into which the compactor has just put a file is not
                # empty, and stays.
                path.rmdir()


TRUSTED_AFTER: Final = 3600 * 10**9
"""A clock that was set is trusted when it has agreed with the monotonic clock for so many nanoseconds."""

_AGREEMENT: Final = 60 * 10**9
"""Nanoseconds by which a clock that is adjusted slowly may differ from the monotonic clock in that time."""


class AgeClock:
    """The time that ages of files are counted from: a clock that jumps forward does not make them old.

    It is the gateway's clock, but never ahead of the last trusted time and the time that has passed
    since by the monotonic clock. A clock that was set forward, also while no gateway ran, is trusted after
    `TRUSTED_AFTER`.

    Args:
        trusted: nanoseconds since 1970 UTC: the clock was this far at least, say the records of the log.
        monotonic: nanoseconds of the monotonic clock, now.
    """

    def __init__(self, trusted: int, monotonic: int) -> None:
        self._trusted = trusted, monotonic  # one value, because another thread reads it
        self._agrees, self._agrees_since = 0, 0

    def now(self, clock: int, monotonic: int) -> int:
        """The time to count from.

        Args:
            clock: of the gateway, nanoseconds since 1970 UTC.
            monotonic: nanoseconds of the monotonic clock.
        """
        if abs(clock - monotonic - self._agrees) > _AGREEMENT or not self._agrees_since:
            self._agrees, self._agrees_since = clock - monotonic, monotonic
        least = self.least(monotonic)
        if clock <= least + _AGREEMENT or monotonic - self._agrees_since >= TRUSTED_AFTER:
            self._trusted = clock, monotonic
            return clock
        return least

    def least(self, monotonic: int) -> int:
        """The last trusted time and what has passed since; ``monotonic`` as for `now`."""
        trusted, at = self._trusted
        return trusted + monotonic - at


class Upkeep:
    """The bounds of one log.

    Args:
        folder: of the log.
        settings: the bounds.
        clock: the gateway's.
        monotonic: nanoseconds of a clock that is never set.

    Attributes:
        trouble: why the bounds could not be kept the last time; empty where they were.
        segments: files of ``segments/``, as they were looked at last.
        deleted_files: since the start.
        deleted_octets: of these.
    """

    def __init__(
        self,
        folder: Path,
        settings: LogFileSettings,
        clock: Clock,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.trouble = ""
        self.segments = 0
        self.deleted_files = 0
        self.deleted_octets = 0
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._monotonic = monotonic
        self._ages = AgeClock(clock.now(), monotonic())
        self._stored = Stored(0, 0, ())
        self._written = 0  # when it was looked at
        self._unrecorded: Deleted | None = None

    def ends_at(self, last: int, trusted: int) -> None:
        """Take note of where the log ends.

        Args:
            last: when its last record was made, nanoseconds since 1970 UTC. The clock was there for certain;
                one that was set forward while no gateway ran is not trusted at once.
            trusted: what `trusted` was at the end of the log; 0 where that is not known. The last records
                may have been made while the clock was ahead.
        """
        self._ages = AgeClock(min(last, trusted or last), self._monotonic())

    @property
    def trusted(self) -> int:
        """The time that ages are counted from at least, nanoseconds since 1970 UTC; from any thread."""
        return self._ages.least(self._monotonic())

    def octets(self, written: int) -> int:
        """Of all files of the log.

        Args:
            written: octets that the writer has written so far.
        """
        return self._stored.octets + written - self._written

    async def keep(self, written: int) -> None:
        """Look at all files, and delete what is beyond the bounds.

        Args:
            written: octets that the writer has written so far.
        """
        now = self._ages.now(self._clock.now(), self._monotonic())
        try:
            stored, deleted = await asyncio.to_thread(keep_within, self._folder, self._settings, now)
        except OSError as error:
            self.trouble = f"{error.filename or self._folder}: {error.strerror}"
            return
        self.trouble = ""
        self.segments = stored.segments
        self._stored, self._written = stored, written
        if deleted is not None:
            self._unrecorded = deleted if self._unrecorded is None else self._unrecorded + deleted
            self.deleted_files += deleted.files
            self.deleted_octets += deleted.octets

    def take_unrecorded(self) -> Deleted | None:
        """Return what was deleted since this was asked last, for the log's own record of it."""
        unrecorded, self._unrecorded = self._unrecorded, None
        return unrecorded
