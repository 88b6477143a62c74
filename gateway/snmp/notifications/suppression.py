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
        self._names: Counter[str] = Counter(dict(restored.names) if restored else {})
        self._uncertain = restored.uncertain if restored else 0
        self._since = restored.since if restored else 0
        self._missed = (
            (restored.missed, restored.missed_from, restored.missed_to) if restored else (0, "", "")
        )
        self._unknown_from = restored.unknown_from if restored else ""
        self._first = self._last = now

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
        self._names[name if name in self._names or len(self._names) < MAX_NAMES else OTHERS] += times
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
