"""Values that do not fit the types of their attributes: each element is told of once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MAX_LOGGED: Final = 1000
"""Elements that are told apart."""


class UnfitValues:
    """The elements of which one was seen.

    Args:
        log: an event name, and a detail for people.
    """

    def __init__(self, log: Callable[[str, str], None]) -> None:
        self._log = log
        self._seen: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def seen(self, class_name: str, element: str, value: object) -> None:
        """A value cannot be shown."""
        if (class_name, element) not in self._seen and len(self._seen) < MAX_LOGGED:
            self._seen.add((class_name, element))
            self._log(
                "value-not-shown", f"{class_name}.{element}: {str(value)[:100]!r} does not fit its type"
            )
