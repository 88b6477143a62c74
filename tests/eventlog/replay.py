"""Reads records as an analyst would who has nothing but the published form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.eventlog.record import LogRecord, RecordKind

_WHOLE = (RecordKind.CREATE, RecordKind.SNAPSHOT)


@dataclass
class Replayed:
    """What some records, read in order, say of the objects that live after them, by ``object_id``."""

    values: dict[str, dict[str, object]] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    created: int = 0
    deleted: int = 0

    def read(self, records: Iterable[LogRecord]) -> Replayed:
        """Go on with these."""
        for record in records:
            self._read(record)
        return self

    def _read(self, record: LogRecord) -> None:
        identifier = record.object_id
        if identifier is None or record.kind is RecordKind.EVENT:
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
    """Each delta leads from the value told last to the one told now; returns how many there are.

    Raises:
        AssertionError: one does not, is negative, or is missing.
    """
    told: dict[tuple[str, str], object] = {}
    deltas = 0
    for record in records:
        identifier = record.object_id
        if identifier is None or record.kind is RecordKind.EVENT:
            continue
        for name in ("published", "delivered"):
            value = (record.values or {}).get(name)
            former = told.get((identifier, name))
            delta = (record.deltas or {}).get(name)
            if delta is not None:
                deltas += 1
                assert isinstance(value, int)
                assert isinstance(former, int)
                assert delta.delta >= 0
                assert delta.interval_ns is None or delta.interval_ns > 0
                assert value == (delta.delta if delta.reset else former + delta.delta)
            elif value is not None and former is not None:
                assert record.kind is RecordKind.SNAPSHOT
                assert value == former, "a snapshot adds nothing"
            if value is not None:
                told[identifier, name] = value
            elif name in (record.absent or ()) or record.kind is RecordKind.DELETE:
                told.pop((identifier, name), None)
    return deltas
