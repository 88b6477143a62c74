"""What a new subscriber is told of the past: the last events, ends of objects and operations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from gateway.feed.latest import HistoryLimits, Latest, memory_of
from gateway.feed.operations import OperationRecord, OperationState
from gateway.feed.records import DeleteRecord, EventRecord, EventsMadeRecord, Record

Told = TypeVar("Told", DeleteRecord, EventRecord)


class History:
    """The last events, ends and operations of each source, the oldest first; older ones are forgotten.

    Operations that are under way are not: who begins them bounds them.

    Args:
        limits: of each source; the gateway itself counts as one.
    """

    def __init__(self, limits: HistoryLimits | None = None) -> None:
        limits = limits or HistoryLimits()
        self._events: _Told[EventRecord] = _Told(limits.events, limits.octets)
        self._ends: _Told[DeleteRecord] = _Told(limits.ends, limits.octets)
        self._made: tuple[EventsMadeRecord, ...] = ()
        self._under_way: dict[int, OperationRecord] = {}
        self._operations: dict[int, OperationRecord] = {}
        self._latest_operations: Latest[int] = Latest(limits.operations, limits.octets)

    def note(self, records: Iterable[Record]) -> None:
        """Remember what of ``records`` is to be told again."""
        for record in records:
            if isinstance(record, EventRecord):
                self._events.note(record)
            elif isinstance(record, DeleteRecord):
                if record.number:  # else it is told again in another version of its class
                    self._ends.note(record)
            elif isinstance(record, OperationRecord):
                self._note_operation(record)

    def recall(self, events: Iterable[EventRecord], made: Mapping[int, int]) -> None:
        """Remember what cores before this one told; `made` is the last number of each, by epoch."""
        self.note(events)
        self._made = tuple(EventsMadeRecord(*each) for each in sorted(made.items()))

    def _note_operation(self, record: OperationRecord) -> None:
        if record.state is OperationState.BEGUN:
            self._under_way[record.number] = record
            return
        self._under_way.pop(record.number, None)
        self._operations[record.number] = record
        for left in self._latest_operations.put(record.source, record.number, memory_of(record)):
            del self._operations[left]

    def operations(self) -> list[OperationRecord]:
        """The last operations, each as it stands, in the order of their numbers."""
        known = self._operations | self._under_way
        return [known[number] for number in sorted(known)]

    def events(self) -> list[EventRecord | EventsMadeRecord]:
        """The last events, in the order in which they were told; how many a core made behind its own."""
        return list(self._with_made())

    def _with_made(self) -> Iterator[EventRecord | EventsMadeRecord]:
        made = deque(self._made)
        for event in self._events.all():
            while made and (not event.boot or made[0].boot < event.boot):
                yield made.popleft()
            yield event
        yield from made

    def ends(self) -> list[DeleteRecord]:
        """The last ends of objects, in the order in which they were told."""
        return self._ends.all()

    def forget(self, source: int) -> None:
        """A source was taken out: a new subscriber could not know whose these are."""
        self._events.forget(source)
        self._ends.forget(source)
        for number in self._latest_operations.forget(source):
            del self._operations[number]
        for number in [n for n, operation in self._under_way.items() if operation.source == source]:
            del self._under_way[number]


class _Told(Generic[Told]):
    """Records of one kind over all sources, in the order in which they came."""

    def __init__(self, most: int, octets: int) -> None:
        self._records: dict[int, Told] = {}
        self._latest: Latest[int] = Latest(most, octets)
        self._came = 0

    def note(self, record: Told) -> None:
        self._came += 1
        self._records[self._came] = record
        for left in self._latest.put(record.source, self._came, memory_of(record)):
            del self._records[left]

    def all(self) -> list[Told]:
        return list(self._records.values())

    def forget(self, source: int) -> None:
        for left in self._latest.forget(source):
            del self._records[left]
