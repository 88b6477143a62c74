"""Counts what a receiver was not sent, until it can be told."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

_SECOND: Final = 10**9
QUIET: Final = _SECOND
"""Nanoseconds without a suppressed notification after which a flood has ended."""

LONGEST_SILENCE: Final = 10 * _SECOND
"""Nanoseconds after which the receiver is told while the flood lasts."""

MAX_NAMES: Final = 100
"""Names that are counted one by one; all further ones count as `OTHERS`."""

OTHERS: Final = "*:*"
"""So do events that were lost before anybody could tell their names."""


@dataclass(frozen=True, slots=True)
class SuppressedSummary:
    """What was not sent.

    Attributes:
        count: how many.
        since: the first of them; nanoseconds since 1970-01-01 UTC.
        names: how many of which ``package:event``, the most frequent first.
    """

    count: int
    since: int
    names: tuple[tuple[str, int], ...]


class Suppression:
    """The count for one receiver; ``restored`` was not told yet when the process ended."""

    def __init__(self, now: int, restored: SuppressedSummary | None = None) -> None:
        self._names: Counter[str] = Counter(dict(restored.names) if restored else {})
        self._since = restored.since if restored else 0
        self._first = self._last = now

    def count(self, name: str, now: int, wall: int, times: int = 1) -> None:
        """So many were not sent; ``now`` is monotonic, ``wall`` since 1970-01-01 UTC, in nanoseconds."""
        if not self._names:
            self._since, self._first = wall, now
        self._last = now
        self._names[name if name in self._names or len(self._names) < MAX_NAMES else OTHERS] += times

    def due(self) -> int | None:
        """When the receiver should be told, monotonic nanoseconds; ``None`` if there is nothing to tell."""
        return min(self._last + QUIET, self._first + LONGEST_SILENCE) if self._names else None

    def summary(self) -> SuppressedSummary | None:
        """What is to be told; ``None`` if nothing is."""
        if not self._names:
            return None
        return SuppressedSummary(self._names.total(), self._since, tuple(self._names.most_common()))

    def told(self) -> None:
        """The receiver is told; counting begins again."""
        self._names.clear()
