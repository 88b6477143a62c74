"""A token bucket in which the last tokens are kept for what is urgent."""

from __future__ import annotations

from typing import Final

from gateway.model.events import Severity

_SECOND: Final = 10**9
SMALLEST_BURST: Final = 4
"""Tokens that a bucket holds at least, so that there is one to keep for each degree of urgency."""

_KEPT: Final = {
    # The share of a full bucket that is kept for what is more urgent, and the least number of tokens.
    Severity.INFO: (1 / 2, 3),
    Severity.WARNING: (1 / 4, 2),
    Severity.MINOR: (1 / 4, 2),
    Severity.MAJOR: (1 / 8, 1),
    Severity.CRITICAL: (0, 0),
}


class RateLimit:
    """Lets so many a second pass, and as many at once after a quiet second (at least `SMALLEST_BURST`).

    A flood of one severity leaves tokens for every higher one: half of the bucket is never spent on `INFO`, a
    quarter never on `WARNING` or `MINOR`, an eighth never on `MAJOR`. What is refilled while a flood lasts
    goes to whoever may take it, so the whole rate is used whatever the severity.

    Args:
        rate: tokens a second.
        now: monotonic nanoseconds.
    """

    def __init__(self, rate: int, now: int) -> None:
        capacity = max(rate, SMALLEST_BURST)
        # In units of a token's billionth: a nanosecond refills `rate` of them, exactly.
        self._rate = rate
        self._capacity = capacity * _SECOND
        self._level = self._capacity
        self._needed = {
            severity: (1 + max(int(share * capacity), least)) * _SECOND
            for severity, (share, least) in _KEPT.items()
        }
        self._needed[Severity.CLEARED] = self._needed[Severity.INFO]
        self._filled = now

    def take(self, urgency: Severity, now: int) -> bool:
        """Whether one of this urgency may pass; it takes a token then."""
        if not self.allows(urgency, now):
            return False
        self._level -= _SECOND
        return True

    def take_anyway(self, now: int) -> None:
        """One passes that may not be held up; it takes a token if there is one."""
        self._refill(now)
        self._level = max(0, self._level - _SECOND)

    def allows(self, urgency: Severity, now: int) -> bool:
        """Whether one of this urgency could pass now."""
        self._refill(now)
        return self._level >= self._needed[urgency]

    def allowed_at(self, urgency: Severity, now: int) -> int:
        """When one of this urgency can pass if nothing else does before; monotonic nanoseconds."""
        self._refill(now)
        missing = max(0, self._needed[urgency] - self._level)
        return now - (-missing // self._rate)

    def _refill(self, now: int) -> None:
        elapsed = max(0, now - self._filled)
        self._filled = max(now, self._filled)
        self._level = min(self._capacity, self._level + elapsed * self._rate)
