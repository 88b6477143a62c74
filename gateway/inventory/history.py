"""What a new subscriber is told of the past: the last events, ends of objects and operations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from gateway.feed.operations import OperationRecord, OperationState
from gateway.feed.records import DeleteRecord, EventRecord, Record

MAX_EVENTS = 2_000
MAX_ENDS = 1_000
MAX_OPERATIONS = 1_000


class History:
    """The last events, ends and operations over all sources, the oldest first; older ones are forgotten.

    Operations that are under way are not: who begins them bounds them.
    """

    def __init__(self) -> None:
        self._events: deque[EventRecord] = deque(maxlen=MAX_EVENTS)
        self._ends: deque[DeleteRecord] = deque(maxlen=MAX_ENDS)
        self._under_way: dict[int, OperationRecord] = {}
        self._operations: dict[int, OperationRecord] = {}

    def note(self, records: Iterable[Record]) -> None:
        """Remember what of ``records`` is to be told again."""
        for record in records:
            if isinstance(record, EventRecord):
                self._events.append(record)
            elif isinstance(record, DeleteRecord):
                if record.number:  # else it is told anew in another version of its class
                    self._ends.append(record)
            elif isinstance(record, OperationRecord):
                self._note_operation(record)

    def _note_operation(self, record: OperationRecord) -> None:
        if record.state is OperationState.BEGUN:
            self._under_way[record.number] = record
            return
        self._under_way.pop(record.number, None)
        self._operations[record.number] = record
        if len(self._operations) > MAX_OPERATIONS:
            del self._operations[next(iter(self._operations))]

    def operations(self) -> list[OperationRecord]:
        """The last operations, each as it stands, in the order of their numbers."""
        known = self._operations | self._under_way
        return [known[number] for number in sorted(known)]

    def events(self) -> list[EventRecord]:
        """The last events."""
        return list(self._events)

    def ends(self) -> list[DeleteRecord]:
        """The last ends of objects."""
        return list(self._ends)

    def forget(self, source: int) -> None:
        """A source was taken out: a new subscriber could not know whose these are."""
        self._events = deque((e for e in self._events if e.source != source), maxlen=MAX_EVENTS)
        self._ends = deque((e for e in self._ends if e.source != source), maxlen=MAX_ENDS)
        for operations in (self._operations, self._under_way):
            for number in [n for n, operation in operations.items() if operation.source == source]:
                del operations[number]
