"""The bounds of the log: the end of a segment, and the deletion of files for their age or the size of all.

The lake, complete segments and the files of ``lost/`` are treated alike. Open segments and hidden files
(drafts, locks) are never deleted, but are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
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
from gateway.file_owners import reason_of
from gateway.model.times import SECOND

_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class LogFileSettings:
    """The settings of the log's files. Times are in nanoseconds, sizes in octets.

    Attributes:
        commit_interval: the longest wait of records before they are written and synced together.
        segment_duration: the age at which a segment is closed.
        segment_size: the size at which it is closed, once its head is complete; one with a large head may
            have twice the size of its head. Never more than a quarter of ``max_size``, but for the head.
        max_size: the size of all files of the log and the lake beyond which the oldest are deleted.
        max_age: the age of all its records beyond which a file is deleted.
        min_free: the free space of the disk below which nothing is written.
        max_waiting: the number of records that may wait in memory, with at most 1 KiB for each; beyond it
            lost records are counted, and the count is recorded.
        retry_interval: the wait before a disk that failed is tried again.
    """

    commit_interval: int = 50 * 10**6
    segment_duration: int = 600 * SECOND
    segment_size: int = 64 * _MEBIBYTE
    max_size: int = 4096 * _MEBIBYTE
    max_age: int = 30 * 86_400 * SECOND
    min_free: int = 256 * _MEBIBYTE
    max_waiting: int = 200_000
    retry_interval: int = SECOND


MAX_CLOCK_STEP: Final = 10 * SECOND
"""Nanoseconds by which a clock may go back without a new segment: the times of records stand still then."""

_HOUR: Final = len("2026-11-20T14")
_NEVER: Final = 2**63
_LAST_SECOND: Final = "9999-12-31T23:59:59.999999Z"


class Why(enum.StrEnum):
    """The reason of a new segment.

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
        last_ts: ``ingest_ts`` of its last record; no following one is earlier.
        head_is_complete: its head with the whole state is complete.
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
        """Begin a segment.

        Args:
            ingest_ts: that of its first record.
            now: nanoseconds since 1970 UTC.
            octets: the size of all records before it, since the start of the process.
        """
        self.last_ts, self._hour = ingest_ts, ingest_ts[:_HOUR]
        self._began, self._began_octets = now, octets
        self.full_at = _NEVER
        self.head_is_complete = False

    def complete_head(self, octets: int) -> None:
        """Note that the head is complete: age and size count from now on. A large head raises the size limit.

        Args:
            octets: the size of all records so far.
        """
        self.full_at = self._began_octets + max(self._size, 2 * (octets - self._began_octets))
        self.head_is_complete = True

    def of_record(self, ingest_ts: str, octets: int, now: int) -> Why | None:
        """Return the reason to begin a segment before a record; ``None`` for none.

        Args:
            ingest_ts: that of the record.
            octets: the size of all records so far.
            now: nanoseconds since 1970 UTC.
        """
        if ingest_ts < self.last_ts:
            return self._of_clock(now)
        if ingest_ts[:_HOUR] != self._hour:
            return Why.HOUR
        return self._of_size(octets)

    def of_time(self, octets: int, now: int) -> Why | None:
        """Return the reason to begin a segment although no record requires it; ``None`` for none.

        Args:
            octets: the size of all records so far.
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
    """Return a time as ``2026-11-20T14:05:06.123456Z``; for times beyond the calendar its end.

    Args:
        now: nanoseconds since 1970 UTC.
    """
    return microseconds_text(now) or _LAST_SECOND


SLACK: Final = 32
"""A 32nd of the bound is deleted in addition, so that the bound is not exceeded again at once."""

_HOUR_NS: Final = 3600 * SECOND

_EARLIEST: Final = 1_735_689_600 * SECOND
"""2025-01-01 in nanoseconds since 1970 UTC: no log is older, and a clock that shows less has not been set."""

_LOST_NAME: Final = re.compile(r"(?P<seq>[0-9]{20})[-.].+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that may be deleted.

    Attributes:
        path: its path.
        octets: its size.
        newest: no record of it is newer, nanoseconds since 1970 UTC; for segments the time of the last write.
            It is by the clock of that time, which may have been wrong.
        log_id: the log of its records; empty where it is not known.
        first_seq: the seq of its first record, or of the segment that it comes from; 0 where it is not known.
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
    """The contents of the log's folder.

    Attributes:
        octets: the size of all files.
        segments: the number of files of ``segments/``.
        files: those that may be deleted, in any order.
    """

    octets: int
    segments: int
    files: tuple[StoredFile, ...]


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion of files.

    Attributes:
        files: the number of deleted files.
        octets: their size.
        because: the exceeded bounds: ``max_age``, ``max_size`` or both, with ``, `` between.
        until: no deleted record is newer; as on a line.
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
    """Return the contents of the log's folder; files that are removed meanwhile are passed over.

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
            newest = int(file.hour.timestamp()) * SECOND + _HOUR_NS
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
    """Return the files to delete, oldest first: for their age, and of the rest for the size of all.

    Of each log these are the first files, in the order of its records: the rest has no hole in it.

    Args:
        held: the contents of the log's folder.
        settings: the bounds.
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
    """Return each file and the time that counts as its newest; those of a log in the order of its records."""
    found: list[tuple[int, StoredFile]] = []
    for _, of_log in groupby(sorted(files, key=_in_log), attrgetter("log_id")):
        in_order = list(of_log)
        found.extend(zip(_times(in_order, now), in_order, strict=True))
    # Times never decrease within a log, and files with the same time keep their order.
    return sorted(found, key=itemgetter(0))


def _in_log(file: StoredFile) -> tuple[str, int, bool, int, str]:
    return file.log_id, file.first_seq, file.is_lost, file.newest, file.path.name


def _times(files: Sequence[StoredFile], now: int) -> list[int]:
    """Return the times of writing of files that are in order of writing, where clocks may have been wrong.

    No file was written before one that precedes it. A file with a time that no correct clock can have shown
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


EVERYTHING: Final = _NEVER - 1
"""The seq before which all records of a log are deleted where no file of it remains."""


@dataclass(frozen=True, slots=True)
class Excess:
    """The files beyond the bounds, oldest first.

    Attributes:
        old: those that are too old.
        large: of the others those beyond the size of all.
        begins: by ``log_id`` of the logs that lose records: the first seq that remains of it, or is recorded
            next; of a former log without a file `EVERYTHING`.
    """

    old: tuple[StoredFile, ...]
    large: tuple[StoredFile, ...]
    begins: Mapping[str, int]


def keep_within(folder: Path, settings: LogFileSettings, now: int) -> tuple[Stored, Deleted | None]:
    """Delete the files beyond the bounds.

    Args:
        folder: the log's folder.
        settings: the bounds.
        now: nanoseconds since 1970 UTC.

    Returns:
        The remaining contents, and the result of the deletion; ``None`` where nothing was deleted.

    Raises:
        OSError: something cannot be read or deleted.
    """
    held, excess = look_at(folder, settings, now)
    return (held, None) if excess is None else delete(folder, excess)


def look_at(folder: Path, settings: LogFileSettings, now: int) -> tuple[Stored, Excess | None]:
    """Look for files beyond the bounds.

    Args:
        folder: the log's folder.
        settings: the bounds.
        now: nanoseconds since 1970 UTC.

    Returns:
        The contents, and the files beyond the bounds; ``None`` for none.

    Raises:
        OSError: a folder cannot be read.
    """
    held = stored(folder)
    old, large = too_much(held, settings, now)
    if not old and not large:
        return held, None
    return held, Excess(tuple(old), tuple(large), _begins(folder, held, {*old, *large}))


def _begins(folder: Path, held: Stored, gone: Collection[StoredFile]) -> dict[str, int]:
    left = [(file.log_id, file.first_seq) for file in held.files if file not in gone and not file.is_lost]
    # Open segments are not among these, and are never deleted.
    left += [(_log_id(folder), segment.first_seq) for segment in list_segments(folder) if segment.is_open]
    begins = {file.log_id: EVERYTHING for file in gone if file.log_id and not file.is_lost}
    for log_id, first_seq in left:
        if log_id in begins:
            begins[log_id] = min(begins[log_id], first_seq)
    with contextlib.suppress(EventLogError):
        identity = read_identity(folder)
        # The present log goes on, even if no file of it is left: what it records later is not deleted.
        if identity is not None and identity.log_id in begins:
            begins[identity.log_id] = min(begins[identity.log_id], identity.next_seq)
    return begins


def delete(folder: Path, excess: Excess) -> tuple[Stored, Deleted]:
    """Delete the files beyond the bounds.

    Args:
        folder: the log's folder.
        excess: as `look_at` returned it; files that are gone meanwhile are passed over.

    Returns:
        The remaining contents, and the result of the deletion.

    Raises:
        OSError: something cannot be read or deleted.
    """
    old, large = excess.old, excess.large
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
    """Remove folders of the lake without a file; the compactor makes them again where it needs them."""
    for pattern in ("dt=*/hour=*", "dt=*"):
        for path in (folder / LAKE).glob(pattern):
            with contextlib.suppress(OSError):
                # Not removed with what is in it: a folder into which the compactor has just put a file is not
                # empty, and stays.
                path.rmdir()


TRUSTED_AFTER: Final = 3600 * SECOND
"""Nanoseconds for which a clock that was set has to agree with the monotonic clock before it is trusted."""

_AGREEMENT: Final = 60 * SECOND
"""Nanoseconds by which a clock that is adjusted slowly may differ from the monotonic clock in that time."""


class AgeClock:
    """The clock for the ages of files: a clock that jumps forward does not make them old.

    It is the gateway's clock, but never ahead of the last trusted time and the time that has passed
    since by the monotonic clock. A clock that was set forward, also while no gateway ran, is trusted after
    `TRUSTED_AFTER`.

    Args:
        trusted: a time that the clock has reached by the records of the log, nanoseconds since 1970 UTC.
        monotonic: nanoseconds of the monotonic clock, now.
    """

    def __init__(self, trusted: int, monotonic: int) -> None:
        self._trusted = trusted, monotonic  # one value, because another thread reads it
        self._agrees, self._agrees_since = 0, 0

    def now(self, clock: int, monotonic: int) -> int:
        """Return the time for the ages of files.

        Args:
            clock: the time of the gateway's clock, nanoseconds since 1970 UTC.
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
        """Return the last trusted time plus the time that has passed since; ``monotonic`` as for `now`."""
        trusted, at = self._trusted
        return trusted + monotonic - at


class Upkeep:
    """Keeps one log within its bounds.

    Args:
        folder: the log's folder.
        settings: the bounds.
        clock: the gateway's clock.
        monotonic: nanoseconds of a clock that is never set.

    Attributes:
        trouble: the last error that kept the bounds from being kept; empty for none.
        segments: the number of files of ``segments/`` when they were looked at last.
        deleted_files: the number of files deleted since the start.
        deleted_octets: their size.
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
        """Set the trusted time from the end of the log.

        Args:
            last: the time of its last record, nanoseconds since 1970 UTC. The clock was there for certain;
                one that was set forward while no gateway ran is not trusted at once.
            trusted: the value of `trusted` at the end of the log; 0 where it is not known. The last records
                may have been made while the clock was ahead.
        """
        self._ages = AgeClock(min(last, trusted or last), self._monotonic())

    @property
    def trusted(self) -> int:
        """The least time for the ages of files, nanoseconds since 1970 UTC; for any thread."""
        return self._ages.least(self._monotonic())

    def octets(self, written: int) -> int:
        """Return the size of all files of the log.

        Args:
            written: the number of octets that the writer has written so far.
        """
        return self._stored.octets + written - self._written

    async def keep(
        self, written: int, announce: Callable[[Mapping[str, int]], Awaitable[None]] | None = None
    ) -> None:
        """Look at all files, and delete those beyond the bounds.

        Args:
            written: the number of octets that the writer has written so far.
            announce: awaited before files are deleted, with `Excess.begins`.
        """
        now = self._ages.now(self._clock.now(), self._monotonic())
        deleted: Deleted | None = None
        try:
            stored, excess = await asyncio.to_thread(look_at, self._folder, self._settings, now)
            if excess is not None:
                if announce is not None and excess.begins:
                    await announce(excess.begins)
                stored, deleted = await asyncio.to_thread(delete, self._folder, excess)
        except OSError as error:
            self.trouble = f"{error.filename or self._folder}: {reason_of(error, self._folder)}"
            return
        self.trouble = ""
        self.segments = stored.segments
        self._stored, self._written = stored, written
        if deleted is not None:
            self._unrecorded = deleted if self._unrecorded is None else self._unrecorded + deleted
            self.deleted_files += deleted.files
            self.deleted_octets += deleted.octets

    def take_unrecorded(self) -> Deleted | None:
        """Return the deletions since the last call, for the log's own record of them."""
        unrecorded, self._unrecorded = self._unrecorded, None
        return unrecorded
