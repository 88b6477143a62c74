"""The clock: everything that needs the time is given one, so that tests can supply their own.

Sessions plan by the time that they are given. After the machine's clock was set back by a day, what is due in
a second is due in a day: a broker would be read no more, and its last values shown as current. So a core
watches the clock. When it was set, the core starts again, as after a kill, and goes on from the event log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from gateway.model.times import SECOND

log = structlog.get_logger(__name__)

STEP: Final = 10 * SECOND
"""The largest accepted step in nanoseconds: deadlines allow for the delay that it causes."""

LOOK_SECONDS = 1.0
"""Seconds between two looks at the clock: nothing reports that it was set."""


class Clock(Protocol):
    """The protocol of a clock."""

    def now(self) -> int:
        """Return the time in nanoseconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Return the time in nanoseconds since 1970-01-01 UTC."""
        return time.time_ns()


class ClockWatch:
    """Compares a clock with the monotonic one.

    Args:
        clock: a clock that may be set.
        monotonic: nanoseconds of a clock that is never set.

    Attributes:
        was_set: whether the clock was set by more than `STEP` between two looks.
    """

    def __init__(self, clock: Clock, monotonic: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self.was_set = False

    async def until_set(self) -> None:
        """Wait until the clock is set."""
        ahead = self._clock.now() - self._monotonic()
        while not self.was_set:
            await asyncio.sleep(LOOK_SECONDS)
            before, ahead = ahead, self._clock.now() - self._monotonic()
            if abs(ahead - before) > STEP:
                self.was_set = True
                log.warning(
                    "clock-set", seconds=round((ahead - before) / SECOND), next="the core starts again"
                )
