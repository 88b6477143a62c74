"""References to objects that were not told yet: attributes that wait for an ObjectName."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Target(NamedTuple):
    """An object by its row."""

    source: int
    class_name: str
    row: int


class WaitingLinks:
    """Who waits for whom: attributes, by object number and position."""

    def __init__(self) -> None:
        self._by_target: dict[Target, set[tuple[int, int]]] = {}
        self._by_referrer: dict[int, dict[int, Target]] = {}

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._by_target.values())

    def wait(self, referrer: int, position: int, target: Target) -> None:
        """An attribute has no value until ``target`` is there."""
        self._by_target.setdefault(target, set()).add((referrer, position))
        self._by_referrer.setdefault(referrer, {})[position] = target

    def settle(self, referrer: int, position: int) -> None:
        """An attribute has another value now."""
        targets = self._by_referrer.get(referrer)
        target = targets.pop(position, None) if targets else None
        if target is not None:
            self._leave(referrer, position, target)
        if targets is not None and not targets:
            del self._by_referrer[referrer]

    def settle_all(self, referrer: int, positions: Iterable[int]) -> None:
        """Several attributes have other values now."""
        if referrer in self._by_referrer:
            for position in positions:
                self.settle(referrer, position)

    def forget(self, referrer: int) -> None:
        """An object is gone, or told again."""
        for position, target in self._by_referrer.pop(referrer, {}).items():
            self._leave(referrer, position, target)

    def arrived(self, target: Target) -> list[tuple[int, int]]:
        """``target`` is there: the attributes that waited for it, which wait no longer."""
        waiting = sorted(self._by_target.get(target, ()))
        for referrer, position in waiting:
            self.settle(referrer, position)
        return waiting

    def _leave(self, referrer: int, position: int, target: Target) -> None:
        waiting = self._by_target[target]
        waiting.discard((referrer, position))
        if not waiting:
            del self._by_target[target]
