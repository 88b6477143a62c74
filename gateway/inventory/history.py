"""The past that a new subscriber gets: the last events, ends and operations of each source."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from gateway.feed.latest import HistoryLimits, Latest, memory_of
from gateway.feed.operations import OperationRecord, OperationState
from gateway.feed.records import DeleteRecord, EventRecord, EventsMadeRecord, ObjectRecord, Record

_Ended = TypeVar("_Ended", DeleteRecord, EventRecord)


class History:
    """The last events, ends and operations of each source, the oldest first; older ones are dropped.

    Operations in progress are kept: their number is limited where they begin.

    Args:
        limits: of each source; the gateway itself counts as one.
    """

    def __init__(self, limits: HistoryLimits | None = None) -> None:
        limits = limits or HistoryLimits()
        self._events: _LatestRecords[EventRecord] = _LatestRecords(limits.events, limits.octets)
        self._ends: _LatestRecords[DeleteRecord] = _LatestRecords(limits.ends, limits.octets)
        self._made: tuple[EventsMadeRecord, ...] = ()
        self._under_way: dict[int, OperationRecord] = {}
        self._operations: dict[int, OperationRecord] = {}
        self._latest_operations: Latest[int] = Latest(limits.operations, limits.octets)

    def note(self, records: Iterable[Record]) -> None:
        """Keep those of ``records`` that later snapshots contain."""
        for record in records:
            if isinstance(record, EventRecord):
                self._events.note(record)
            elif isinstance(record, DeleteRecord):
                if record.number:  # otherwise it continues in another version of its class
                    self._ends.note(record)
            elif isinstance(record, OperationRecord):
                self._note_operation(record)

    def recall(self, events: Iterable[EventRecord], made: Mapping[int, int], uncertain: int) -> None:
        """Take events of earlier cores: see `Inventory.recall`."""
        self.note(events)
        self._made = tuple(EventsMadeRecord(*each, each[0] == uncertain) for each in sorted(made.items()))

    def _note_operation(self, record: OperationRecord) -> None:
        if record.state is OperationState.BEGUN:
            self._under_way[record.number] = record
            return
        self._under_way.pop(record.number, None)
        self._operations[record.number] = record
        for left in self._latest_operations.put(record.source, record.number, memory_of(record)):
            del self._operations[left]

    def operations(self) -> list[OperationRecord]:
        """Return the last operations, each in its last state, in the order of their numbers."""
        known = self._operations | self._under_way
        return [known[number] for number in sorted(known)]

    def last_events(self) -> list[EventRecord]:
        """Return the last events, in the order in which they came."""
        return self._events.all()

    def events(self) -> list[EventRecord | EventsMadeRecord]:
        """Return the last events, in order; the number of a core's events follows them."""
        return list(self._with_made())

    def _with_made(self) -> Iterator[EventRecord | EventsMadeRecord]:
        made = deque(self._made)
        for event in self._events.all():
            while made and (not event.boot or made[0].boot < event.boot):
                yield made.popleft()
            yield event
        yield from made

    def ends(self) -> list[DeleteRecord]:
        """Return the last ends of objects, in order."""
        return self._ends.all()

    def ended_since(self, end: int, record: ObjectRecord, is_same: Callable[[int, int], bool]) -> bool:
        """Return whether an object has ended after that end that had the row of ``record``.

        ``is_same`` says whether two numbers of classes are those of versions of one class.
        """
        return any(
            one.number > end
            and (one.source, one.row, one.stable_name) == (record.source, record.row, record.stable_name)
            and is_same(one.class_number, record.class_number)
            for one in self._ends.all()
        )

    def forget(self, source: int) -> None:
        """Drop everything of a source that was removed: a new subscriber could not know the source."""
        self._events.forget(source)
        self._ends.forget(source)
        for number in self._latest_operations.forget(source):
            del self._operations[number]
        for number in [n for n, operation in self._under_way.items() if operation.source == source]:
            del self._under_way[number]


class _LatestRecords(Generic[_Ended]):
    """Records of one kind over all sources, in the order in which they came."""

    def __init__(self, most: int, octets: int) -> None:
        self._records: dict[int, _Ended] = {}
        self._latest: Latest[int] = Latest(most, octets)
        self._came = 0

    def note(self, record: _Ended) -> None:
        self._came += 1
        self._records[self._came] = record
        for left in self._latest.put(record.source, self._came, memory_of(record)):
            del self._records[left]

    def all(self) -> list[_Ended]:
        return list(self._records.values())

    def forget(self, source: int) -> None:
        for left in self._latest.forget(source):
            del self._records[left]
