"""What the log takes of its disk: looked at, kept within the bounds, and counted, while it is written."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.clock import Clock
from gateway.eventlog.retention import Deleted, Stored, keep_within
from gateway.eventlog.settings import LogFileSettings


class Upkeep:
    """The bounds of one log.

    Args:
        folder: of the log.
        settings: the bounds.
        clock: the gateway's.

    Attributes:
        trouble: why the bounds could not be kept the last time; empty where they were.
        segments: files of ``segments/``, as they were looked at last.
        deleted_files: since the start.
        deleted_octets: of these.
    """

    def __init__(self, folder: Path, settings: LogFileSettings, clock: Clock) -> None:
        self.trouble = ""
        self.segments = 0
        self.deleted_files = 0
        self.deleted_octets = 0
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._stored = Stored(0, 0, ())
        self._written = 0  # when it was looked at
        self._untold: Deleted | None = None

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
        now = self._clock.now()
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
