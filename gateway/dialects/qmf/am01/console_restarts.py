"""Whether an agent was restarted, by the ids of its objects.

Agents of 2008 number their objects from the nanosecond of their own start on, one after the other: a number
that is far from all others is of another start.
"""

from __future__ import annotations

from typing import Final

_ERA: Final = 10**18
"""Numbers below are no times: 2001 in nanoseconds since 1970."""
_FAR: Final = 10**9
"""No agent makes so many objects in one go, and none starts twice within a second."""


class ObjectNumbers:
    """The numbers of an agent's objects since its start, as far as they were told."""

    def __init__(self) -> None:
        self._lowest = 0
        self._highest = 0

    def forget(self) -> None:
        """Those of before mean nothing any more."""
        self._lowest = self._highest = 0

    def show_restart(self, number: int) -> bool:
        """Whether this number is the first that shows a restart."""
        if number < _ERA:
            return False
        known = self._highest != 0
        if known and self._lowest - _FAR < number < self._highest + _FAR:
            self._lowest, self._highest = min(self._lowest, number), max(self._highest, number)
            return False
        self._lowest = self._highest = number
        return known
