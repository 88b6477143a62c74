"""Notifications that wait to be sent, the most urgent first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.model.events import Severity
from gateway.snmp.notifications.encoding import Version1Fields
from gateway.snmp.notifications.selection import Condition

MAX_WAITING: Final = 2_000
"""Notifications that wait for one receiver."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """A notification on its way to one receiver.

    Attributes:
        number: ascending in the order of events.
        urgency: the most urgent is sent first, the least urgent makes room for others.
        name: ``package:event``.
        condition: what it begins or ends.
        request_id: of its PDU, the same however often it is sent.
        content: what the receiver's version has for its variable bindings.
    """

    number: int
    urgency: Severity
    name: str
    condition: Condition | None
    request_id: int
    content: bytes | Version1Fields


class WaitingQueue:
    """By urgency, then in the order of events. It knows no bound: whoever adds looks at the length."""

    def __init__(self) -> None:
        self._heaps: dict[Severity, list[tuple[int, Waiting]]] = {
            severity: [] for severity in sorted(Severity, reverse=True)
        }
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Waiting]:
        return (waiting for heap in self._heaps.values() for _, waiting in heap)

    def add(self, waiting: Waiting) -> None:
        """Take one in, at its place: one that comes back stands where it stood."""
        heapq.heappush(self._heaps[waiting.urgency], (waiting.number, waiting))
        self._length += 1

    def first(self) -> Waiting | None:
        """The oldest of the most urgent."""
        return next((heap[0][1] for heap in self._heaps.values() if heap), None)

    def least(self) -> Waiting | None:
        """The oldest of the least urgent."""
        return next((heap[0][1] for heap in reversed(self._heaps.values()) if heap), None)

    def remove(self, waiting: Waiting) -> None:
        """Take out one that is in it; at once if it is `first` or `least`."""
        heap = self._heaps[waiting.urgency]
        if heap[0][1] is waiting:
            heapq.heappop(heap)
        else:
            heap.remove((waiting.number, waiting))
            heapq.heapify(heap)
        self._length -= 1
