"""How fast a console may ask so that the broker hardly notices: by rate, in flight, share of its time."""

from __future__ import annotations

from typing import Final

from gateway.dialects.cml.console_config import SECOND, Budget
from gateway.dialects.outbox import NEVER

_BURST: Final = 0.1
"""Seconds whose requests may be sent at once."""
_LONGEST_DEBT: Final = 1.0
"""Seconds: however long an answer took, what it cost is no more."""
_LEAST: Final = 0.001
_SLOWER: Final = 4
"""Answers that take so many times as long as the quickest ones show that the broker has much to do."""
_SLACK: Final = 1_000_000
"""Nanoseconds that an answer may take in any case."""


class Pace:
    """Says when the next request may leave. Times are nanoseconds.

    Args:
        budget: what may be used up.
    """

    def __init__(self, budget: Budget) -> None:
        self._rate = max(budget.rate, _LEAST)
        self._share = max(budget.share, _LEAST)
        self._longest_window = max(1, budget.in_flight)
        self._window = 1.0
        self._most_requests = max(1.0, self._rate * _BURST)
        self._requests = self._most_requests
        self._time = self._share * _LONGEST_DEBT
        self._at = 0
        self._quickest = 0.0
        self._usual = 0.0
        self.in_flight = 0

    def one_at_a_time(self) -> None:
        """Never more than one request in flight."""
        self._longest_window = 1
        self._window = 1.0

    def may_ask(self, now: int) -> bool:
        """Whether a request may be sent now."""
        self._refill(now)
        has_time = self._time > 0 or self._share >= 1
        return has_time and self.in_flight < int(self._window) and self._requests >= 1

    def asked(self) -> int:
        """A request was sent; returns how many are in flight with it."""
        self.charge()
        self.in_flight += 1
        return self.in_flight

    def charge(self) -> None:
        """An operation was sent: it does not wait for its turn, but what follows does."""
        self._requests = max(self._requests - 1, -self._most_requests)

    def answered(self, latency: int, alongside: int) -> None:
        """An answer came after so many nanoseconds, to a request that was sent as one of ``alongside``.

        Requests that are under way together share the broker's time.
        """
        self.in_flight -= 1
        each = max(latency, 0) / alongside
        self._time = max(self._time - each / SECOND, -_LONGEST_DEBT)
        self._usual = self._usual + (each - self._usual) / 16 if self._usual else each
        # The quickest is forgotten slowly: what was so once need not be possible for ever.
        self._quickest = min(each, self._quickest * 1.001) if self._quickest else each
        if self._usual > _SLOWER * self._quickest + _SLACK:
            self._window = max(1.0, self._window * 0.9)
        else:
            self._window = min(self._longest_window, self._window + 1 / self._window)

    def missed(self) -> None:
        """No answer came: the broker has too much to do, or is gone."""
        self.in_flight -= 1
        self._window = 1.0

    def next_time(self, now: int) -> int:
        """When `may_ask` holds if nothing arrives meanwhile; `NEVER` where an answer is needed first."""
        if self.in_flight >= int(self._window):
            return NEVER
        missing = max((1 - self._requests) / self._rate, -self._time / self._share, 0.0)
        return now + int(missing * SECOND) + 1

    def _refill(self, now: int) -> None:
        # A clock that was set back gives nothing.
        passed = max(0, now - self._at) / SECOND
        self._at = now
        self._requests = min(self._requests + passed * self._rate, self._most_requests)
        self._time = min(self._time + passed * self._share, self._share * _LONGEST_DEBT)
