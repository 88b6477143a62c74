"""When whose statistics are due: in slots of a tenth of a second, bounded by the objects there are."""

from __future__ import annotations

import heapq
from typing import Final

from gateway.eventlog.logged_objects import LoggedObject

SLOT: Final = 100_000_000
"""Nanoseconds; what is due at some instant is recorded up to so much later."""

_FEW: Final = 64


class Schedule:
    """Objects by slot; each is in one at most, which `LoggedObject.slot` tells."""

    def __init__(self) -> None:
        self._slots: dict[int, dict[LoggedObject, None]] = {}
        self._order: list[int] = []

    @property
    def wake_at(self) -> int | None:
        """When the first slot is due, in nanoseconds; ``None`` while there is none."""
        while self._order:
            if self._slots.get(self._order[0]):
                return self._order[0] * SLOT
            self._slots.pop(heapq.heappop(self._order), None)
        return None

    def add(self, logged: LoggedObject, due: int) -> None:
        """Put an object that is in no slot into that of ``due`` (nanoseconds)."""
        number = -(-due // SLOT)
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = {}
            heapq.heappush(self._order, number)
        slot[logged] = None
        logged.slot = number

    def remove(self, logged: LoggedObject) -> None:
        """Take an object out, if it is in a slot."""
        if not logged.slot:
            return
        slot = self._slots[logged.slot]
        del slot[logged]
        if not slot:
            del self._slots[logged.slot]
            if len(self._order) > _FEW + 2 * len(self._slots):
                self._order = sorted(self._slots)  # else short-lived objects would fill it for an interval
        logged.slot = 0

    def take(self, now: int) -> LoggedObject | None:
        """Take out one that is due."""
        due = self.wake_at
        if due is None or due > now:
            return None
        logged, _ = self._slots[self._order[0]].popitem()
        logged.slot = 0
        return logged

    def take_all(self) -> list[LoggedObject]:
        """Take out all of them."""
        taken = [logged for slot in self._slots.values() for logged in slot]
        for logged in taken:
            logged.slot = 0
        self._slots.clear()
        self._order.clear()
        return taken
