"""What a new subscriber is told of the past: the last events and the last ends of objects."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from gateway.feed.records import DeleteRecord, EventRecord, Record

MAX_EVENTS = 2_000
MAX_ENDS = 1_000


class History:
    """The last events and ends over all sources, the oldest first; older ones are forgotten."""

    def __init__(self) -> None:
        self._events: deque[EventRecord] = deque(maxlen=MAX_EVENTS)
        self._ends: deque[DeleteRecord] = deque(maxlen=MAX_ENDS)

    def note(self, records: Iterable[Record]) -> None:
        """Remember what of ``records`` is to be told again."""
        for record in records:
            if isinstance(record, EventRecord):
                self._events.append(record)
            elif isinstance(record, DeleteRecord):
                self._ends.append(record)

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
