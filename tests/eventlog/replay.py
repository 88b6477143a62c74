"""A reader of records that knows the published form only, as an analyst does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.eventlog.record import LogRecord, RecordKind

_WHOLE = (RecordKind.CREATE, RecordKind.SNAPSHOT)
_HAPPENINGS = (RecordKind.EVENT, RecordKind.OPERATION)
"""The kinds of records that name an object but do not have its values."""


@dataclass
class Replayed:
    """The objects that live after some records were read in order, by ``object_id``."""

    values: dict[str, dict[str, object]] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    created: int = 0
    deleted: int = 0

    def read(self, records: Iterable[LogRecord]) -> Replayed:
        """Read further records."""
        for record in records:
            self._read(record)
        return self

    def _read(self, record: LogRecord) -> None:
        identifier = record.object_id
        if identifier is None or record.kind in _HAPPENINGS:
            return
        if record.kind in _WHOLE:
            self.values[identifier] = dict(record.values or {})
            self.parents[identifier] = record.parent_id
            self.created += record.kind is RecordKind.CREATE
        elif record.kind is RecordKind.DELETE:
            self.values.pop(identifier, None)
            self.parents.pop(identifier, None)
            self.deleted += 1
        elif identifier in self.values:
            self.values[identifier].update(record.values or {})
            for name in record.absent or ():
                self.values[identifier].pop(name, None)
            if record.parent_id is not None:
                self.parents[identifier] = record.parent_id


def assert_deltas_add_up(records: Iterable[LogRecord]) -> int:
    """Check that each delta leads from the last recorded value to this one; return the number of deltas.

    A counter that is absent for a while goes on from what it had, also over the gateway's end. One of an
    object that was created since its source was read leads from zero. Where one did not go on, its delta has
    ``reset``, and is at most its value, or is left out. The schemas among the records define the counters.

    Raises:
        AssertionError: a delta does not, is negative without being ``undone``, or is missing.
    """
    reader = _CounterReader()
    return sum(map(reader.take, records))


class _CounterReader:
    def __init__(self) -> None:
        self._counters: dict[str, set[str]] = {}
        self._reported: dict[tuple[str, str], object] = {}
        self._read: dict[str | None, str] = {}
        self._since: dict[str, str] = {}
        self._ended: set[str] = set()
        self._resets: dict[str, str] = {}
        self._began: dict[tuple[str, str], str | None] = {}  # the `reset_ts` of the value reported last

    def take(self, record: LogRecord) -> int:
        """Return how many deltas the record has."""
        class_name = f"{record.package}:{record.class_name}"
        if record.kind is RecordKind.SCHEMA and record.class_name is not None:
            self._counters.setdefault(class_name, set()).update(_counters(record))
        elif record.kind is RecordKind.SOURCE and (record.values or {}).get("read_whole"):
            self._read.setdefault(record.source, record.ingest_ts)
        if record.object_id is None or record.kind in _HAPPENINGS:
            return 0
        assert (record.deltas or {}).keys() <= self._counters[class_name], "only of counters"
        return self._take_object(record, record.object_id, self._counters[class_name])

    def _take_object(self, record: LogRecord, identifier: str, counters: set[str]) -> int:
        read = self._read.get(record.source)
        if record.kind is RecordKind.CREATE:
            # Before its source was read whole, an object is known to be new only where the log has the end of
            # its predecessor, which another gateway had read.
            assert read is not None or identifier in self._ended, "a create at a source that was not read"
            if record.create_ts is not None:
                self._since[identifier] = record.create_ts
        if record.reset_ts is not None:
            self._resets[identifier] = record.reset_ts
        deltas = sum(self._take_counter(record, (identifier, name)) for name in counters)
        if record.kind is RecordKind.DELETE:
            self._since.pop(identifier, None)
            self._ended.add(identifier)
        return deltas

    def _take_counter(self, record: LogRecord, counter: tuple[str, str]) -> bool:
        identifier, name = counter
        reset, read = self._resets.get(identifier), self._read.get(record.source)
        former, value = self._reported.get(counter), (record.values or {}).get(name)
        if record.kind is RecordKind.CREATE:
            self._began[counter] = reset
        goes_on = self._began.get(counter) == reset
        if former is None and identifier in self._since:
            is_new = read is not None and self._since[identifier] > read
            has_delta = _leads_from_zero(record, name, value, must=is_new and goes_on)
        else:
            has_delta = _leads_on(record, name, former, value)
        if value is not None:
            self._began[counter], self._reported[counter] = reset, value
        elif record.kind is RecordKind.DELETE:
            self._reported.pop(counter, None)
        return has_delta


def _counters(schema: LogRecord) -> Iterable[str]:
    elements = (schema.values or {})["elements"]
    assert isinstance(elements, list)
    return (element["name"] for element in elements if element.get("kind") == "counter")


def _leads_on(record: LogRecord, name: str, former: object, value: object) -> bool:
    """Return whether there is a delta; check that it is right, or that there is none to record."""
    delta = (record.deltas or {}).get(name)
    if delta is not None:
        assert isinstance(value, int)
        assert isinstance(former, int)
        assert delta.interval_ns is None or delta.interval_ns > 0
        if delta.delta is None:
            assert (delta.reset, delta.undone) == (True, False), "what is not known is a break"
        elif delta.reset:
            assert 0 <= delta.delta <= value
        else:
            assert (value, delta.undone) == (former + delta.delta, delta.delta < 0)
    elif value is not None and former is not None:
        assert record.kind is RecordKind.SNAPSHOT
        assert value == former, "a snapshot adds nothing"
    return delta is not None


def _leads_from_zero(record: LogRecord, name: str, value: object, *, must: bool) -> bool:
    """Return and check the same for the first value of an object whose creation is known."""
    delta = (record.deltas or {}).get(name)
    if delta is not None and delta.delta is None:
        assert delta.reset, "it may go on with the counts of another object"
    elif delta is not None:
        assert (value, delta.interval_ns) == (delta.delta, None)
    elif must and value is not None:
        assert (record.kind in _WHOLE, value) == (True, 0), "what it counted since it was created"
    return delta is not None
