"""Whose turn it is: so many operations of a source at once, so many more wait, sets of an object in order."""

from __future__ import annotations

from collections.abc import Hashable


class Turns:
    """The operations of one source by their numbers.

    Args:
        limit: that are under way at once; as many more may wait.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: dict[int, Hashable] = {}
        self._waiting: dict[int, Hashable] = {}

    @property
    def is_full(self) -> bool:
        """Whether no other operation may come in."""
        return len(self._waiting) >= self._limit

    @property
    def running(self) -> int:
        """Operations under way."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Operations that wait for their turn."""
        return len(self._waiting)

    def enter(self, number: int, alone_with: Hashable = None) -> None:
        """Another operation; it is not full.

        Args:
            number: of the operation.
            alone_with: no other one with the same is under way while this one is; ``None`` for any.
        """
        self._waiting[number] = alone_with

    def leave(self, number: int) -> None:
        """An operation is over, or will never be tried."""
        self._running.pop(number, None)
        self._waiting.pop(number, None)

    def take(self) -> list[int]:
        """The operations whose turn has come, in order; they are under way from now on."""
        taken: list[int] = []
        held = {key for key in self._running.values() if key is not None}
        for number, key in list(self._waiting.items()):
            if len(self._running) >= self._limit:
                break
            if key is not None:
                if key in held:
                    continue
                held.add(key)
            del self._waiting[number]
            self._running[number] = key
            taken.append(number)
        return taken
