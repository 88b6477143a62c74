"""When a segment ends and the next begins. No clock of its own: the time comes in."""

from __future__ import annotations

import enum
from typing import Final

from gateway.eventlog.settings import LogFileSettings
from gateway.eventlog.timestamps import microseconds_text

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
        head_is_complete: it tells how everything stands.
        full_at: octets of all records since the start of the process at which it is full.
    """

    def __init__(self, settings: LogFileSettings) -> None:
        self.last_ts = ""
        self.head_is_complete = False
        self._duration = settings.segment_duration
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
        """Whether a segment has to begin before a record.

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
        """Whether a segment has to begin although no record makes it.

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
