"""Whether the machine's clock was set while a process ran.

Sessions plan by the time that they are given. After a clock was set back by a day, what is due in a second is
due in a day: a broker would be read no more, and its last values shown as current. So a core starts again, as
after a kill, and goes on from the event log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from gateway.clock import Clock

log = structlog.get_logger(__name__)

STEP: Final = 10 * 10**9
"""Nanoseconds: smaller steps delay something by as much, which deadlines allow for."""

LOOK_SECONDS = 1.0
"""Between two looks at the clock: nothing says that it was set."""


class ClockWatch:
    """Compares a clock with the monotonic one.

    Args:
        clock: that may be set.
        monotonic: nanoseconds of a clock that is never set.

    Attributes:
        was_set: the clock was set by more than `STEP` between two looks.
    """

    def __init__(self, clock: Clock, monotonic: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self.was_set = False

    async def until_set(self) -> None:
        """Return when the clock was set."""
        ahead = self._clock.now() - self._monotonic()
        while not self.was_set:
            await asyncio.sleep(LOOK_SECONDS)
            before, ahead = ahead, self._clock.now() - self._monotonic()
            if abs(ahead - before) > STEP:
                self.was_set = True
                log.warning("clock-set", seconds=round((ahead - before) / 1e9), next="the core starts again")
