"""The one clock: everything that needs the time is given one, so that tests can hold their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Returns the time."""

    def now(self) -> int:
        """Nanoseconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Nanoseconds since 1970-01-01 UTC."""
        return time.time_ns()
