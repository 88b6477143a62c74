"""Operations whose outcome is unknown, until it is known: by a late answer, or by what the object is then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.feed.operations import OperationRecord
from gateway.operations.operation import Operation

MAX_UNSETTLED: Final = 256
"""The oldest stays unknown for ever when another comes."""

READ_AFTER: Final = tuple(seconds * 10**9 for seconds in (2, 35, 90, 300))
"""Nanoseconds after which a set's object is read to see what came of it; reading changes nothing."""

CERTAIN_AFTER: Final = 30 * 10**9
"""Nanoseconds for which an object must have been seen without a value before that was not set.

What is on its way when the time is up may still arrive, and is refused as late only by who has a clock.
"""

ObjectKey: TypeAlias = tuple[int, str, int]
"""Number of the source, ``package:class``, row."""


@dataclass(slots=True)
class PendingOutcome:
    """One operation whose outcome is unknown.

    Attributes:
        operation: it.
        record: as it was told last.
        call_token: of the call without an answer.
        sampled: when the object's properties were read that are known, by its agent's clock.
        since: when the outcome became unknown, or when reading was postponed last.
        reported: who manages the object has answered, so that nothing is on its way any more.
        readings: how often it was read since.
        read_token: of the reading under way; 0 for none.
        doubtful_since: when the object was first seen without the values asked for; 0 for never.
    """

    operation: Operation
    record: OperationRecord
    call_token: int
    sampled: int
    since: int
    reported: bool
    readings: int = 0
    read_token: int = 0
    doubtful_since: int = 0

    @property
    def number(self) -> int:
        """Of the operation."""
        return self.record.number

    @property
    def key(self) -> ObjectKey:
        """Of the object."""
        return self.record.source, self.record.class_name, self.record.row

    @property
    def read_at(self) -> int | None:
        """When to read the object; ``None`` for not any more."""
        is_enough = self.readings >= len(READ_AFTER)
        if not self.operation.can_be_read or self.read_token or is_enough:
            return None
        return self.since + READ_AFTER[self.readings]

    def postponed(self, now: int) -> None:
        """Reading the object would show nothing now: begin with it as if the outcome became unknown now."""
        self.since, self.readings, self.doubtful_since = now, 0, 0


class PendingOutcomes:
    """All of them."""

    def __init__(self) -> None:
        self._by_number: dict[int, PendingOutcome] = {}
        self._by_token: dict[int, PendingOutcome] = {}
        self._sets: dict[ObjectKey, dict[int, PendingOutcome]] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[PendingOutcome]:
        """The oldest first; they may be removed meanwhile."""
        return iter(list(self._by_number.values()))

    def add(self, one: PendingOutcome) -> None:
        """Another one; the oldest is forgotten where they are too many."""
        self._by_number[one.number] = one
        if one.call_token:
            self._by_token[one.call_token] = one
        if one.operation.can_be_read:
            self._sets.setdefault(one.key, {})[one.number] = one
        if len(self._by_number) > MAX_UNSETTLED:
            self.remove(next(iter(self._by_number.values())))

    def remove(self, one: PendingOutcome) -> None:
        """It is settled, or will never be."""
        del self._by_number[one.number]
        self._by_token.pop(one.call_token, None)
        self._by_token.pop(one.read_token, None)
        sets = self._sets.get(one.key)
        if sets is not None:
            sets.pop(one.number, None)
            if not sets:
                del self._sets[one.key]

    def of_token(self, token: int) -> PendingOutcome | None:
        """Whose call or reading this is."""
        return self._by_token.get(token)

    def read(self, one: PendingOutcome, token: int) -> None:
        """Its object is being read."""
        self._by_token.pop(one.read_token, None)
        one.readings += 1
        one.read_token = token
        self._by_token[token] = one

    def was_read(self, one: PendingOutcome) -> None:
        """The reading was answered."""
        self._by_token.pop(one.read_token, None)
        one.read_token = 0

    def sets_of(self, key: ObjectKey) -> list[PendingOutcome]:
        """Sets of an object that can be read."""
        return list(self._sets.get(key, {}).values())

    @property
    def wake_at(self) -> int | None:
        """When the first object is to be read."""
        times = [one.read_at for one in self._by_number.values()]
        return min((time for time in times if time is not None), default=None)
