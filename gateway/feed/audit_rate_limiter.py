"""A limiter of recorded refused attempts: the first ones are recorded singly, further ones as a count."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from gateway.feed.operations import OperationKind
from gateway.model.operations import Outcome, Principal
from gateway.model.times import SECOND

RECORDED_IN_FULL: Final = 20
"""Attempts of one principal and outcome within `PERIOD` that are recorded one by one. The bound is per
outcome, so that a flood of mistakes does not hide that something was not permitted."""

PERIOD: Final = 60 * SECOND
"""Length of a period in nanoseconds. It begins with a principal's first attempt."""

MAX_PRINCIPALS: Final = 200
"""Principals that are counted separately. All further ones of a front end are counted as `OTHERS`."""

OTHERS: Final = "(others)"

MAX_ORIGINS: Final = 5
"""Origins that are named for each principal and period."""


class Attempt(msgspec.Struct, frozen=True):
    """A refused attempt, as it is counted.

    Attributes:
        principal: the requester.
        kind: the kind of the operation.
        outcome: the outcome of the refusal.
        text: the reason, one line for people.
        times: the number of attempts that it stands for; more than one are never recorded one by one.
    """

    principal: Principal
    kind: OperationKind
    outcome: Outcome
    text: str
    times: int = 1


class CountedAttempts(msgspec.Struct, frozen=True):
    """Attempts of one principal that were not recorded one by one.

    Attributes:
        principal: the requester; its origin names several.
        kind: the kind of the last attempt.
        attempts: the number of attempts.
        outcomes: the number of attempts of each outcome, the most frequent first.
        text: the reason of the last attempt.
        since: the beginning of the principal's period, nanoseconds of the counting process's clock.
    """

    principal: Principal
    kind: OperationKind
    attempts: int
    outcomes: tuple[tuple[Outcome, int], ...]
    text: str
    since: int


class _Period(msgspec.Struct):
    principal: Principal
    began: int
    recorded: Counter[Outcome] = msgspec.field(default_factory=Counter)
    outcomes: Counter[Outcome] = msgspec.field(default_factory=Counter)
    origins: list[str] = msgspec.field(default_factory=list)
    last: Attempt | None = None

    def count(self, attempt: Attempt) -> None:
        self.outcomes[attempt.outcome] += attempt.times
        self.last = attempt
        origin = attempt.principal.origin
        if origin and origin not in self.origins and len(self.origins) <= MAX_ORIGINS:
            self.origins.append(origin)

    def has_ended(self, now: int) -> bool:
        """Return whether the period is over. It also is where the clock was set back before its beginning."""
        return not self.began <= now < self.began + PERIOD

    def counted(self, last: Attempt) -> CountedAttempts:
        origin = ", ".join(self.origins[:MAX_ORIGINS])
        if len(self.origins) > MAX_ORIGINS:
            origin += " and others"
        return CountedAttempts(
            Principal(self.principal.front_end, self.principal.name, origin),
            last.kind,
            self.outcomes.total(),
            tuple(self.outcomes.most_common()),
            last.text,
            self.began,
        )


class AuditRateLimiter:
    """Decides which refused attempts are recorded singly, and counts the others by principal; without I/O.

    Args:
        recorded_in_full: attempts of one principal and outcome that are recorded singly in a period.
    """

    def __init__(self, recorded_in_full: int = RECORDED_IN_FULL) -> None:
        self._recorded_in_full = recorded_in_full
        self._periods: dict[str, _Period] = {}

    @property
    def due_at(self) -> int | None:
        """The time at which `due` returns something, in nanoseconds; ``None`` where nothing is counted."""
        return min(
            (one.began + PERIOD for one in self._periods.values() if one.last is not None), default=None
        )

    def admit(self, attempt: Attempt, now: int) -> bool:
        """Return whether an attempt is to be recorded singly. Otherwise it is counted."""
        period = self._period(attempt.principal, now)
        if attempt.times == 1 and period.recorded[attempt.outcome] < self._recorded_in_full:
            period.recorded[attempt.outcome] += 1
            return True
        period.count(attempt)
        return False

    def count(self, attempt: Attempt, now: int) -> None:
        """Count an attempt that could not be recorded by itself."""
        self._period(attempt.principal, now).count(attempt)

    def due(self, now: int, *, ending: bool = False) -> list[CountedAttempts]:
        """Return the counts of the periods that have ended; of all periods if the process is ``ending``."""
        ended = [name for name, period in self._periods.items() if ending or period.has_ended(now)]
        periods = [self._periods.pop(name) for name in ended]
        return [period.counted(period.last) for period in periods if period.last is not None]

    def _period(self, principal: Principal, now: int) -> _Period:
        period = self._periods.get(str(principal))
        if period is None and len(self._periods) >= MAX_PRINCIPALS:
            self._forget_quiet(now)
            if len(self._periods) >= MAX_PRINCIPALS:
                principal = Principal(principal.front_end, OTHERS)
                period = self._periods.get(str(principal))
        if period is None or (period.last is None and period.has_ended(now)):
            period = self._periods[str(principal)] = _Period(principal, now)
        return period

    def _forget_quiet(self, now: int) -> None:
        """Forget the principals with nothing to report."""
        for name in [n for n, one in self._periods.items() if one.last is None and one.has_ended(now)]:
            del self._periods[name]
