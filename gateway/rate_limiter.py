"""A rate limiter of log lines that strangers or a virtual machine in trouble can cause."""

from __future__ import annotations

import time
from collections.abc import Callable


class RateLimiter:
    """Admits a number of lines in each period; the others are counted.

    Args:
        lines: the number of lines admitted in each period.
        seconds: the length of a period, which begins with its first line.
        clock: returns seconds that never go back.
    """

    def __init__(self, lines: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines = lines
        self._seconds = seconds
        self._clock = clock
        self._end = float("-inf")
        self._admitted = 0
        self._left_out = 0

    def admit(self) -> int | None:
        """Return the number of lines left out before this one; `None` when this one is to be left out too."""
        now = self._clock()
        if now >= self._end:
            self._end = now + self._seconds
            self._admitted = 0
        if self._admitted >= self._lines:
            self._left_out += 1
            return None
        self._admitted += 1
        left_out, self._left_out = self._left_out, 0
        return left_out
