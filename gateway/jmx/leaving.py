"""MBeans that are to go, found and taken away in slices: there may be a hundred thousand of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.jmx.sources import ShownObject, ShownSource

SLICE_OBJECTS: Final = 1000
"""Objects that one call takes away at most: a millisecond's worth."""

SLICE_LOOKS: Final = 5000
"""Objects of which one call finds out at most whether they are to go: likewise."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a class of a source, of which those go that were told by no snapshot since this one."""

    source: ShownSource
    class_name: str
    rows: list[int]
    generation: int


class Leaving:
    """All that is to go.

    Args:
        take_away: takes an object away; it is none of its source's any more.
    """

    def __init__(self, take_away: Callable[[ShownObject], None]) -> None:
        self._take_away = take_away
        self._waiting: deque[_Rows] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def sweep(self, source: ShownSource, generation: int) -> None:
        """What the snapshot ``generation`` did not tell of a source goes."""
        self._waiting.extend(
            _Rows(source, class_name, list(rows), generation) for class_name, rows in source.objects.items()
        )

    def work(self) -> None:
        """Take a slice away."""
        looks, objects = SLICE_LOOKS, SLICE_OBJECTS
        while self._waiting and looks and objects:
            part = self._waiting[0]
            shown = part.source.objects[part.class_name]
            while part.rows and looks and objects:
                looks -= 1
                row = part.rows.pop()
                candidate = shown.get(row)
                if candidate is not None and candidate.generation < part.generation:
                    objects -= 1
                    del shown[row]
                    self._take_away(candidate)
            if not part.rows:
                self._waiting.popleft()
