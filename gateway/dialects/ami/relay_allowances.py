"""What all applications of a relay share, so that none of them uses up what others need."""

from __future__ import annotations

from collections import Counter


class Allowance:
    """Something of which there is so much for all applications together.

    Whoever takes of it leaves at least as much as it has taken itself: the first one can have half, and one
    that comes behind several greedy ones still finds some.

    Args:
        most: that there is.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._by: Counter[str] = Counter()

    def has(self, who: str, amount: int = 1) -> bool:
        """Whether an application may take so much."""
        return self._taken + self._by[who] + amount <= self._most

    def take(self, who: str, amount: int = 1) -> None:
        """It has taken this, whether it might or not; a negative amount is given back."""
        self._taken += amount
        self._by[who] += amount
        if not self._by[who]:
            del self._by[who]
