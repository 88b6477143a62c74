"""The bounds of the simulated log in age and size, while its clock is set by hours and days.

Only the times of files follow that clock; the gateway's timers and the times of records do not.
"""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from random import Random

from gateway.eventlog.retention import AgeClock, LogFileSettings, keep_within, stored
from gateway.eventlog.segment import Segment, lake_file
from gateway.model.times import HOUR, SECOND
from tests.eventlog.records import LOG_ID
from tests.simulation.scheduler import FURTHEST_OFF, Scheduler
from tests.simulation.violations import demand

MAX_AGE = 90 * SECOND
_SIZES = (100_000, 400_000, 1 << 40)
_YEAR = 365 * 24 * HOUR
_STEPS = (HOUR, 5 * HOUR, 24 * HOUR, 40 * 24 * HOUR)
_STEPPED = 0.3
"""The probability that the clock is set between two checks."""


class LogBounds:
    """The deletion of old files, checked against the true times.

    Args:
        random: its own source of chance.
        scheduler: the source of the true time.
        folder: the folder of the log.

    Attributes:
        deleted: the number of files deleted so far.
    """

    def __init__(self, random: Random, scheduler: Scheduler, folder: Path) -> None:
        self.deleted = 0
        self._random = random
        self._scheduler = scheduler
        self._folder = folder
        self._settings = LogFileSettings(max_age=MAX_AGE, max_size=random.choice(_SIZES))
        self._steps = random.random() < 0.5
        self._offsets = [(0, self._some_offset() if self._steps else 0)]
        self._written: dict[int, int] = {}
        self._trusted = 0
        self._ages = AgeClock(self._shown(scheduler.now), scheduler.now)

    def core_begins(self) -> None:
        """Open the log with a core; the time of the last record is a lower bound of the clock."""
        now = self._scheduler.now
        last = max(self._written, default=0)
        until = self._shown(self._written[last]) if last else self._shown(now)
        self._ages = AgeClock(self.trusted(until, self._trusted), now)

    def trusted(self, last: int, trusted: int) -> int:
        """Return the trusted time, as `gateway.eventlog.retention.Upkeep.ends_at` does."""
        return min(last, trusted or last)

    def written(self, path: Path, first_seq: int, time: int) -> None:
        """Record that a segment is complete, with the time of its last record."""
        self._written[first_seq] = time
        shown = self._shown(time)
        os.utime(path, ns=(shown, shown))

    def compacted(self, segment: Segment) -> None:
        """Move a segment to the lake."""
        shown = dt.datetime.fromtimestamp(self._shown(self._written[segment.first_seq]) // SECOND, dt.UTC)
        target = lake_file(self._folder, LOG_ID, segment.first_seq, shown).path
        target.parent.mkdir(parents=True, exist_ok=True)
        segment.path.replace(target)

    def keep(self) -> None:
        """Delete the files beyond the bounds, as a core does at intervals, and check them."""
        if self._steps and self._random.random() < _STEPPED:
            self._offsets.append((self._scheduler.now, self._some_offset()))
        now = self._scheduler.now
        before = {file.first_seq for file in stored(self._folder).files}
        octets = stored(self._folder).octets
        self._trusted = self._ages.least(now)
        _, deleted = keep_within(self._folder, self._settings, self._ages.now(self._shown(now), now))
        if deleted is None:
            return
        left = {file.first_seq for file in stored(self._folder).files}
        gone = before - left
        self.deleted += len(gone)
        # What is left has no hole in it, whatever clocks said.
        demand(max(gone) < min(left, default=2**63), f"the log lost {sorted(gone)}, and has {sorted(left)}")
        # Nothing is taken for old that is not, whatever clocks said.
        # Only of a log that has nothing older that can be unknown: it begins while its clock is behind.
        known = [self._written[seq] for seq in gone if not self._was_behind(self._written[seq])]
        youngest = now - max(known, default=now - MAX_AGE)
        too_large = "max_size" in deleted.because and octets > self._settings.max_size
        is_old = youngest > MAX_AGE - FURTHEST_OFF
        demand(
            is_old or too_large, f"records that are {youngest / SECOND:.0f} s old were deleted for their age"
        )

    def _shown(self, time: int) -> int:
        """Return the time that the clock showed at a true time."""
        return next(time + offset for since, offset in reversed(self._offsets) if since <= time)

    def _was_behind(self, time: int) -> bool:
        """Return whether the clock was behind without a sign of it; a time of 1970 is known to be wrong."""
        return _YEAR < self._shown(time) < time

    def _some_offset(self) -> int:
        """Return an offset: none, hours or days ahead or behind, or to 1970 as of a missing clock."""
        step = self._random.choice(_STEPS)
        return self._random.choice((0, 0, step, -step, -self._scheduler.now))
