"""Logins that were accepted, for the event log: the first at once, further ones as a count.

A program that logs in every few seconds makes one record in ten minutes. What the core has not taken, because
it cannot be reached, is counted until it does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

import structlog

from gateway.feed.operations import LoginReport
from gateway.model.operations import Principal
from gateway.model.times import SECOND
from gateway.tasks import every

log = structlog.get_logger(__name__)

PERIOD: Final = 600 * SECOND
"""Nanoseconds between two reports of one user from one address."""

MAX_PAIRS: Final = 200
"""Users with their addresses that are counted separately. Further addresses are counted as `OTHERS`."""

OTHERS: Final = "(others)"

TICK_SECONDS: Final = 1.0

ReportLogin: TypeAlias = Callable[[LoginReport], bool]
"""Sends a report to the core; returns whether the core can be reached."""


@dataclass(slots=True)
class _Pair:
    """A user with an address: the logins that were not reported yet, and when they are to be."""

    principal: Principal
    due_at: int
    times: int = 0


class Logins:
    """Reports accepted logins to the core.

    Args:
        report: sends a report to the core.
        clock: returns nanoseconds that never decrease.
    """

    def __init__(self, report: ReportLogin, clock: Callable[[], int]) -> None:
        self._report = report
        self._clock = clock
        self._pairs: dict[tuple[str, str], _Pair] = {}

    def accepted(self, principal: Principal) -> None:
        """Count a login of a user from an address, and report it unless there was one before."""
        pair = self._pair(principal)
        pair.times += 1
        self._report_due(pair)

    def tick(self) -> None:
        """Report the counts whose period has ended; called about once a second."""
        now = self._clock()
        for pair in list(self._pairs.values()):
            if not pair.times and pair.due_at <= now:
                del self._pairs[pair.principal.name, pair.principal.origin]
            else:
                self._report_due(pair)

    async def run(self) -> NoReturn:
        """Tick until cancelled; then report the counts, if the core still takes them."""
        try:
            await every(TICK_SECONDS, self.tick)
        finally:
            self.close()

    def close(self) -> None:
        """Report the counts; where the core is gone already, the log of this process has them."""
        for pair in self._pairs.values():
            if pair.times and not self._report(LoginReport(pair.principal, pair.times)):
                log.warning(
                    "logins-not-recorded",
                    user=pair.principal.name,
                    client=pair.principal.origin,
                    logins=pair.times,
                )
        self._pairs.clear()

    def _pair(self, principal: Principal) -> _Pair:
        key = principal.name, principal.origin
        if key not in self._pairs and len(self._pairs) >= MAX_PAIRS:
            principal = Principal(principal.front_end, principal.name, OTHERS)
            key = principal.name, OTHERS
        return self._pairs.setdefault(key, _Pair(principal, self._clock()))

    def _report_due(self, pair: _Pair) -> None:
        now = self._clock()
        if pair.times and pair.due_at <= now and self._report(LoginReport(pair.principal, pair.times)):
            pair.times, pair.due_at = 0, now + PERIOD
