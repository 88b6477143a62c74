"""The clock: everything that needs the time is given one, so that tests can supply their own."""

from __future__ import annotations

import time
from typing import Protocol


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
