"""Notifications that wait to be sent, the most urgent first."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gateway.model.events import Severity
from gateway.snmp.notifications.encoding import Version1Fields
from gateway.snmp.notifications.selection import Condition

MAX_WAITING: Final = 2_000
"""Notifications that wait for one receiver."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A notification on its way to one receiver.

    Attributes:
        number: ascending in the order of events.
        urgency: the most urgent is sent first, the least urgent makes room for others.
        name: ``package:event``.
        condition: what it begins or ends.
        request_id: of its PDU, the same however often it is sent.
        content: what the receiver's version has for its variable bindings.
        ends: it ends its condition.
    """

    number: int
    urgency: Severity
    name: str
    condition: Condition | None
    request_id: int
    content: bytes | Version1Fields
    ends: bool = False


class WaitingQueue:
    """By urgency, then in the order of events; those of one condition always in the order of events.

    So that an urgent beginning need not wait behind a less urgent end of the same condition, nor overtake it,
    what stands before it becomes as urgent. There is no bound here: whoever adds looks at the length.
    """

    def __init__(self) -> None:
        self._order: list[tuple[int, int]] = []  # urgency negated, number
        self._waiting: dict[int, Waiting] = {}
        self._numbers: dict[Condition, list[int]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting.values())

    def add(self, waiting: Waiting) -> None:
        """Take one in, at its place: one that comes back stands where it stood."""
        if waiting.condition is not None:
            numbers = self._numbers.setdefault(waiting.condition, [])
            place = bisect.bisect(numbers, waiting.number)
            urgency = max([waiting.urgency, *(self._waiting[number].urgency for number in numbers[place:])])
            for number in numbers[:place]:
                self._make_urgent(self._waiting[number], urgency)
            numbers.insert(place, waiting.number)
            waiting = replace(waiting, urgency=urgency)
        self._insert(waiting)

    def first(self) -> Waiting | None:
        """The oldest of the most urgent."""
        return self._waiting[self._order[0][1]] if self._order else None

    def least(self) -> Waiting | None:
        """The oldest of the least urgent."""
        if not self._order:
            return None
        place = bisect.bisect_left(self._order, (self._order[-1][0], 0))
        return self._waiting[self._order[place][1]]

    def remove(self, number: int) -> None:
        """Take out the one of this number, which must be there."""
        waiting = self._waiting[number]
        self._take_out(waiting)
        if waiting.condition is not None:
            numbers = self._numbers[waiting.condition]
            numbers.remove(number)
            if not numbers:
                del self._numbers[waiting.condition]

    def _make_urgent(self, waiting: Waiting, urgency: Severity) -> None:
        if waiting.urgency < urgency:
            self._take_out(waiting)
            self._insert(replace(waiting, urgency=urgency))

    def _insert(self, waiting: Waiting) -> None:
        bisect.insort(self._order, (-waiting.urgency, waiting.number))
        self._waiting[waiting.number] = waiting

    def _take_out(self, waiting: Waiting) -> None:
        del self._order[bisect.bisect_left(self._order, (-waiting.urgency, waiting.number))]
        del self._waiting[waiting.number]
