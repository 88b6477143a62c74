"""What the log takes of its disk: looked at, kept within the bounds, and counted, while it is written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.clock import Clock
from gateway.eventlog.retention import Deleted, Stored, keep_within
from gateway.eventlog.settings import LogFileSettings

BELIEVED_AFTER: Final = 3600 * 10**9
"""A clock that was set is believed when it has agreed with the monotonic clock for so many nanoseconds."""

_AGREEMENT: Final = 60 * 10**9
"""Nanoseconds by which a clock that is adjusted slowly may differ from the monotonic clock in that time."""


class AgeClock:
    """The time that ages of files are counted from: a clock that jumps forward does not make them old.

    It is the gateway's clock, but never ahead of the last time that was believed and the time that has passed
    since by the monotonic clock. A clock that was set forward, also while no gateway ran, is believed after
    `BELIEVED_AFTER`.

    Args:
        believed: nanoseconds since 1970 UTC: the clock was this far at least, say the records of the log.
        monotonic: nanoseconds of the monotonic clock, now.
    """

    def __init__(self, believed: int, monotonic: int) -> None:
        self._believed, self._at = believed, monotonic
        self._agrees, self._agrees_since = 0, 0

    def now(self, clock: int, monotonic: int) -> int:
        """The time to count from.

        Args:
            clock: of the gateway, nanoseconds since 1970 UTC.
            monotonic: nanoseconds of the monotonic clock.
        """
        if abs(clock - monotonic - self._agrees) > _AGREEMENT or not self._agrees_since:
            self._agrees, self._agrees_since = clock - monotonic, monotonic
        least = self._believed + monotonic - self._at
        if clock <= least + _AGREEMENT or monotonic - self._agrees_since >= BELIEVED_AFTER:
            self._believed, self._at = clock, monotonic
            return clock
        return least


class Upkeep:
    """The bounds of one log.

    Args:
        folder: of the log.
        settings: the bounds.
        clock: the gateway's.
        monotonic: nanoseconds of a clock that nobody sets.

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
        self._untold: Deleted | None = None

    def ends_at(self, last: int) -> None:
        """The last record that the log has is of then, nanoseconds since 1970 UTC."""
        self._ages = AgeClock(last, self._monotonic())

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
            self._untold = deleted if self._untold is None else self._untold + deleted
            self.deleted_files += deleted.files
            self.deleted_octets += deleted.octets

    def take_untold(self) -> Deleted | None:
        """What was deleted since this was asked last, for the log's own record of it."""
        untold, self._untold = self._untold, None
        return untold
