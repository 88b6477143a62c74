"""The count of notifications that a receiver was not sent, which agEventsSuppressed reports."""

from __future__ import annotations

from collections import Counter
from typing import Final

from gateway.model.times import SECOND
from gateway.snmp.notifications.notification import SuppressedSummary
from gateway.snmp.notifications.selection import MAX_NAMES

QUIET: Final = SECOND
"""Nanoseconds without a suppressed notification after which a flood has ended."""

LONGEST_SILENCE: Final = 10 * SECOND
"""Nanoseconds after which the receiver gets agEventsSuppressed while the flood lasts."""

OTHERS: Final = "*:*"
"""The name under which further names are counted, and lost events whose names are not known."""


class Suppression:
    """The count of suppressed notifications; ``restored`` is what the last process had not reported yet."""

    def __init__(self, now: int, restored: SuppressedSummary | None = None) -> None:
        self._names: Counter[str] = Counter()
        self._uncertain = 0
        self._since = 0
        self._missed = (0, "", "")
        self._unknown_from = ""
        self._first = self._last = now
        if restored is not None:
            self.begin_with(restored)

    def not_reported(self, summary: SuppressedSummary, now: int) -> None:
        """Count again what `summary` returned before: the receiver was not sent it, and is after a while."""
        self.begin_with(summary)
        self._first, self._last = now, now + LONGEST_SILENCE

    def begin_with(self, former: SuppressedSummary) -> None:
        """Count what was counted before the present ones."""
        for name, times in former.names:
            self._names[self._counted_as(name)] += times
        self._uncertain += former.uncertain
        self._since = former.since
        missed, first, last = self._missed
        self._missed = (
            former.missed + missed,
            former.missed_from or first,
            last or former.missed_to,
        )
        self._unknown_from = former.unknown_from or self._unknown_from

    def count(self, name: str, now: int, wall: int, times: int = 1, *, uncertain: bool = False) -> None:
        """Count suppressed ones; ``uncertain`` if they only may have been lost.

        Args:
            name: ``package:event``.
            now: monotonic nanoseconds.
            wall: nanoseconds since 1970-01-01 UTC.
            times: their number.
            uncertain: it is not known whether the receiver got them, or was to get them.
        """
        self._begin(now, wall)
        self._names[self._counted_as(name)] += times
        if uncertain:
            self._uncertain += times

    def miss(self, first: str, last: str, now: int, wall: int, times: int) -> None:
        """Count events that the event log does not have, from the event id ``first`` to ``last``."""
        missed, known, _ = self._missed
        self._missed = (missed + times, known or first, last)
        self.count(OTHERS, now, wall, times)

    def miss_unknown(self, first: str, now: int, wall: int) -> None:
        """Note that events were missed whose number is not known, from the event id ``first`` on."""
        self._begin(now, wall)
        self._unknown_from = self._unknown_from or first

    def _counted_as(self, name: str) -> str:
        return name if name in self._names or len(self._names) < MAX_NAMES else OTHERS

    def _begin(self, now: int, wall: int) -> None:
        if self._is_empty:
            self._since, self._first = wall, now
        self._last = now

    @property
    def _is_empty(self) -> bool:
        return not self._names and not self._unknown_from

    def due(self) -> int | None:
        """Return when to send agEventsSuppressed, monotonic nanoseconds; ``None`` if none was suppressed."""
        return None if self._is_empty else min(self._last + QUIET, self._first + LONGEST_SILENCE)

    def summary(self) -> SuppressedSummary | None:
        """Return the summary to be reported; ``None`` if nothing was suppressed."""
        if self._is_empty:
            return None
        return SuppressedSummary(
            self._names.total(),
            self._since,
            tuple(self._names.most_common()),
            self._uncertain,
            *self._missed,
            self._unknown_from,
        )

    def reset(self) -> None:
        """Start counting again, because agEventsSuppressed is on its way."""
        self._names.clear()
        self._uncertain = 0
        self._missed = (0, "", "")
        self._unknown_from = ""


def joined(former: SuppressedSummary, latter: SuppressedSummary | None) -> SuppressedSummary | None:
    """Return one summary of both."""
    both = Suppression(0, latter)
    both.begin_with(former)
    return both.summary()
