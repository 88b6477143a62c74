"""The events that one receiver was not sent yet: which they are, and those that were fetched to be sent late.

The event log is the outbox. What a receiver is owed is known by places alone (epoch and number), however many
they are, and is saved with its state; the events themselves are fetched from the core, a page at a time.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from gateway.feed.records import Place
from gateway.snmp.notifications.notification import Condition, Notification

PAGE: Final = 100
"""The maximum number of events that are fetched at a time."""

Range: TypeAlias = tuple[int, int, int]
"""Events of one core: its epoch, the first number and the last one."""


class PastEvent(NamedTuple):
    """An event that was fetched.

    Attributes:
        place: its place.
        name: ``package:event``.
        notification: what the receiver gets of it; ``None`` for nothing.
        is_meant: its roles let it be sent to the receiver when it happened.
        condition: the condition that it begins or ends.
    """

    place: Place
    name: str
    notification: Notification | None
    is_meant: bool = True
    condition: Condition | None = None


class Owed:
    """A set of places, as ranges in their order."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._ranges: deque[Range] = deque()
        self._count = 0
        for each in sorted(ranges):
            self.add(*each)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, place: Place | None) -> bool:
        return place is not None and any(
            (epoch, first) <= place <= (epoch, last) for epoch, first, last in self._ranges
        )

    @property
    def ranges(self) -> tuple[Range, ...]:
        """All of them."""
        return tuple(self._ranges)

    @property
    def first(self) -> Range | None:
        """The first range."""
        return self._ranges[0] if self._ranges else None

    def add(self, epoch: int, first: int, last: int) -> None:
        """Add the numbers from ``first`` to ``last`` of a core, none of which is among them already."""
        if last < first:
            return
        self._count += last - first + 1
        ranges = self._ranges
        place = len(ranges)
        if ranges and (epoch, first) < ranges[-1][:2]:
            place = bisect.bisect(ranges, (epoch, first, last))
        if place and ranges[place - 1][0] == epoch and ranges[place - 1][2] == first - 1:
            place -= 1
            first = ranges[place][1]
            del ranges[place]
        if place < len(ranges) and ranges[place][0] == epoch and ranges[place][1] == last + 1:
            last = ranges[place][2]
            del ranges[place]
        ranges.insert(place, (epoch, first, last))

    def remove(self, epoch: int, first: int, last: int) -> int:
        """Remove the numbers from ``first`` to ``last`` of a core; return how many were among them."""
        removed = 0
        kept: list[Range] = []
        ranges = self._ranges
        # They are removed in their order, so that the first range is the one.
        while ranges and ranges[0][:2] <= (epoch, last):
            each = ranges.popleft()
            if each[0] != epoch or each[2] < first:
                kept.append(each)
                continue
            begin, end = max(first, each[1]), min(last, each[2])
            removed += end - begin + 1
            kept += [
                (epoch, *part) for part in ((each[1], begin - 1), (end + 1, each[2])) if part[0] <= part[1]
            ]
        ranges.extendleft(reversed(kept))
        self._count -= removed
        return removed


def place_of(event_id: str) -> Place | None:
    """Return the place in the id of an event; ``None`` for what is no event of a core."""
    made_by, _, number = event_id.rpartition(".")
    epoch = made_by.rpartition(".")[2]
    return (int(epoch), int(number)) if epoch.isdecimal() and number.isdecimal() else None


def missing(numbers: Sequence[int], first: int, last: int) -> list[tuple[int, int]]:
    """Return the ranges from ``first`` to ``last`` without these numbers, which ascend."""
    found = []
    for number in (*numbers, last + 1):
        if number > first:
            found.append((first, min(number - 1, last)))
        first = max(first, number + 1)
    return found
