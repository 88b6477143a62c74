"""The feed as one principal reads it: what its clearance does not read is in no record.

A front end that serves a single principal puts this before its replica. An object whose name is not read does
not exist here: the front ends that use this identify objects by their names. So what is found, counted,
suggested and listed from the records that are left contains nothing of others.

What no table permits is left out. That includes, for every restricted clearance, counters of a source that
count objects. A text that quotes what is not read is replaced: that of an alarm by its condition, that of an
event by its label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from gateway.feed.access import (
    EVERYTHING,
    GATEWAY_NAME,
    AccessTables,
    ClassAccessRecord,
    EventAccessRecord,
    OperationShown,
    PolicyRecord,
    Received,
)
from gateway.feed.operations import OperationKind, OperationRecord
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    AlarmRecord,
    Batch,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventLogRecord,
    EventRecord,
    EventsMadeRecord,
    FeedMessage,
    GapRecord,
    Hello,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.values import FeedValue, ObjectLink

COUNTERS_OF_ALL: Final = frozenset(
    {"messages", "octets", "protocol_errors", "refused", "resyncs", "gaps", "unknown_class"}
)
"""Counters of a source that count no objects, events or alarms."""

_GATEWAY: Final = 0
_MAX_DEPTH: Final = 100
"""The maximum depth of maps and lists in which references are looked for; what is deeper is not shown."""


def shown_alarm(tables: AccessTables, clearance: int, record: AlarmRecord, source: str) -> AlarmRecord | None:
    """Return an alarm as a clearance is shown it; ``None`` for nothing.

    A text that quotes what is not read is the condition.

    Args:
        tables: the tables of the policy.
        clearance: the number of the clearance.
        record: the alarm.
        source: the name of its source; ``gateway`` for the gateway itself.
    """
    if not tables.sees_alarm(clearance, record.name, source, record.subject):
        return None
    if tables.reads_text(clearance, source, record.subject, record.quoted):
        return record
    return msgspec.structs.replace(record, text=record.condition, quoted=None)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What is read of an object, and the name of its source."""

    mask: int
    source: str


class ClearedFeed:
    """Leaves out of each message what a principal does not read.

    Args:
        principal: who reads (``front end:name``).
        keeps_names: a reference that is part of an object's own name is shown with it, whether or not its
            target is read.

    Attributes:
        changes: the number of policies, of different content, that restricted the principal or no longer did.
            After each, everything that was received before is invalid.
    """

    def __init__(self, principal: str, *, keeps_names: bool = False) -> None:
        self._principal = principal
        self._keeps_names = keeps_names
        self._tables = AccessTables()
        self._clearance: int | None = None
        self._epoch = 0
        self._sources: dict[int, str] = {_GATEWAY: GATEWAY_NAME}
        self._classes: dict[int, ClassRecord] = {}
        self._events: dict[int, EventClassRecord] = {}
        self._shown: dict[tuple[int, int, int], _Shown] = {}
        self.changes = 0

    @property
    def is_unrestricted(self) -> bool:
        """Whether the principal reads everything; not before the first policy was received."""
        number = self._clearance
        return number is not None and self._tables.clearances[number].unrestricted

    def sees_source(self, name: str) -> bool:
        """Return whether a source exists for the principal."""
        number = self._clearance
        return number is not None and self._tables.sees_source(number, name)

    def received(self, message: FeedMessage) -> FeedMessage:
        """Return a message of the core as the principal reads it."""
        match message:
            case Hello():
                if message.epoch != self._epoch:
                    self._epoch = message.epoch
                    self._classes.clear()
                    self._events.clear()
                    self._shown.clear()
                    self._tables.core_restarted()
            case SnapshotBegan():
                self._shown.clear()
            case Batch():
                records = tuple(read for record in message.records for read in self._read(record))
                return msgspec.structs.replace(message, records=records)
        return message

    def mask(self, source: int, class_number: int, row: int) -> int:
        """Return what is read of an object that was received: bit *n* stands for the element at *n*."""
        if self.is_unrestricted:
            return EVERYTHING
        shown = self._shown.get((source, class_number, row))
        return 0 if shown is None else shown.mask

    # ---- records ------------------------------------------------------------------------------------------

    def _read(self, record: Record) -> Iterator[Record]:
        self._note(record)
        if self.is_unrestricted:
            yield record
        elif self._clearance is not None:
            read = self._restricted(record, self._clearance)
            if read is not None:
                yield read

    def _note(self, record: Record) -> None:
        match record:
            case PolicyRecord():
                was_restricted = not self.is_unrestricted
                has_changed = self._tables.take(record)
                self._clearance = self._tables.clearance(self._principal)
                if has_changed and (was_restricted or not self.is_unrestricted):
                    self.changes += 1
                    self._shown.clear()
            case ClassAccessRecord() | EventAccessRecord():
                self._tables.take(record)
            case SourceRecord(number, name):
                self._sources[number] = name
            case ClassRecord(number):
                self._classes[number] = record
            case EventClassRecord(number):
                self._events[number] = record

    def _restricted(self, record: Record, clearance: int) -> Record | None:  # noqa: C901, PLR0911  one case for each kind
        match record:
            case UpdateRecord():
                return self._update(record, clearance)
            case ObjectRecord():
                return self._object(record, clearance)
            case DeleteRecord():
                return self._end(record, clearance)
            case EventRecord():
                return self._event(record, clearance)
            case AlarmRecord():
                return self._alarm(record, clearance)
            case OperationRecord():
                return self._operation(record, clearance)
            case SourceRecord():
                counts = self._tables.clearances[clearance].counts
                counters = {
                    name: number
                    for name, number in record.counters.items()
                    if counts or name in COUNTERS_OF_ALL
                }
                seen = self._sees(clearance, record.number)
                return msgspec.structs.replace(record, counters=counters) if seen else None
            case AgentRecord() | AgentGoneRecord() | GapRecord():
                return record if self._sees(clearance, record.source) else None
            case EventLogRecord():
                return record if self._sees(clearance, _GATEWAY) else None
            case ClassRecord() | EventClassRecord() | EventsMadeRecord():
                return record
            case PolicyRecord() | ClassAccessRecord() | EventAccessRecord():
                return record
        return None

    def _sees(self, clearance: int, source: int) -> bool:
        name = self._sources.get(source)
        return name is not None and self._tables.sees_source(clearance, name)

    def _links_to(self, clearance: int, source: str, link: ObjectLink) -> bool:
        return self._tables.reads_named(clearance, source, link)

    # ---- objects ------------------------------------------------------------------------------------------

    def _named(self, class_number: int, source: str, object_name: str, clearance: int) -> int:
        """Return what is read of an object; 0 for one whose name is not read."""
        access = self._tables.of_class(class_number)
        if access is None:
            return 0
        mask = access.vector(source, object_name)[clearance]
        return mask if access.names(mask) else 0

    def _object(self, record: ObjectRecord, clearance: int) -> ObjectRecord | None:
        key = (record.source, record.class_number, record.row)
        source = self._sources.get(record.source)
        if source is None or not self._tables.sees_source(clearance, source):
            return None
        mask = self._named(record.class_number, source, record.stable_name, clearance)
        if not mask:
            self._shown.pop(key, None)
            return None
        self._shown[key] = _Shown(mask, source)
        parent = record.parent
        access = self._tables.of_class(record.class_number)
        may_show = access is not None and access.shows_parent(mask)
        if parent is not None and not (may_show and self._links_to(clearance, source, parent)):
            parent = None
        values = self._values(record.values, record.class_number, mask, source, clearance)
        return msgspec.structs.replace(record, parent=parent, values=values)

    def _update(self, record: UpdateRecord, clearance: int) -> UpdateRecord | None:
        shown = self._shown.get((record.source, record.class_number, record.row))
        if shown is None:
            return None
        values = self._values(record.values, record.class_number, shown.mask, shown.source, clearance)
        gone = {*record.absent, *(record.values.keys() - values.keys())}
        absent = tuple(sorted(position for position in gone if shown.mask >> position & 1))
        return msgspec.structs.replace(record, values=values, absent=absent)

    def _end(self, record: DeleteRecord, clearance: int) -> DeleteRecord | None:
        self._shown.pop((record.source, record.class_number, record.row), None)
        source = self._sources.get(record.source)
        if source is None or not self._tables.sees_source(clearance, source):
            return None
        named = self._named(record.class_number, source, record.stable_name, clearance)
        return record if named else None

    def _values(
        self, values: Mapping[int, FeedValue], class_number: int, mask: int, source: str, clearance: int
    ) -> dict[int, FeedValue]:
        access = self._tables.of_class(class_number)
        name = access.name if access is not None and self._keeps_names else 0
        return {
            position: value
            for position, value in values.items()
            if mask >> position & 1 and (name >> position & 1 or self._is_shown(value, source, clearance))
        }

    def _is_shown(self, value: object, source: str, clearance: int, depth: int = 0) -> bool:
        """Return whether every reference in a value leads to an object whose name is read."""
        if isinstance(value, ObjectLink):
            return self._links_to(clearance, source, value)
        if not isinstance(value, Mapping | tuple | list):
            return True
        inner = value.values() if isinstance(value, Mapping) else value
        return depth < _MAX_DEPTH and all(self._is_shown(one, source, clearance, depth + 1) for one in inner)

    # ---- events, alarms, operations -----------------------------------------------------------------------

    def _event(self, record: EventRecord, clearance: int) -> EventRecord | None:
        source, in_class = self._sources.get(record.source), self._events.get(record.class_number)
        if source is None or in_class is None:
            return None
        received = self._tables.receives_event(
            clearance, record.class_number, source, record.subject, record.condition, record.quoted
        )
        if received is Received.NOTHING:
            return None
        private = 0
        if received is Received.WITHOUT_PRIVATE:
            private = self._tables.private_arguments(record.class_number)
        values = {
            position: value
            for position, value in record.values.items()
            if not private >> position & 1 and self._is_shown(value, source, clearance)
        }
        text, quoted = record.text, record.quoted
        if received is not Received.WHOLE or len(values) < len(record.values):
            # It may quote what is left out.
            text, quoted = in_class.schema.label or in_class.schema.key.name, None
        return msgspec.structs.replace(record, values=values, text=text, quoted=quoted)

    def _alarm(self, record: AlarmRecord, clearance: int) -> AlarmRecord | None:
        source = self._sources.get(record.source)
        return None if source is None else shown_alarm(self._tables, clearance, record, source)

    def _operation(self, record: OperationRecord, clearance: int) -> OperationRecord | None:
        source = self._sources.get(record.source)
        if source is None:
            return None
        link, requester = ObjectLink(record.class_name, record.row, record.stable_name), str(record.principal)
        match self._tables.shown_operation(clearance, self._principal, requester, source, link):
            case OperationShown.NOTHING:
                return None
            case OperationShown.WITHOUT_OBJECT:
                return record.without_object()
        values, previous, found = (
            {name: value for name, value in named.items() if self._is_shown(value, source, clearance)}
            for named in (record.values, record.previous, record.found)
        )
        absent, text = record.absent, record.text
        if requester != self._principal and record.kind is not OperationKind.INVOKE:
            read = self._elements_read(clearance, source, link)
            values, previous, found = (
                {name: value for name, value in named.items() if name in read}
                for named in (values, previous, found)
            )
            absent = tuple(name for name in absent if name in read)
            # It may quote any value of the operation.
            text = text if read.issuperset((*record.values, *record.previous, *record.found)) else ""
        return msgspec.structs.replace(
            record, values=values, previous=previous, found=found, absent=absent, text=text
        )

    def _elements_read(self, clearance: int, source: str, link: ObjectLink) -> frozenset[str]:
        """Return the elements that are read of an object in every version of its class."""
        read: frozenset[str] | None = None
        for number, record in self._classes.items():
            if str(record.schema.key) == link.class_name:
                mask = self._tables.vector(number, source, link.stable_name)[clearance]
                names = frozenset(
                    element.name
                    for position, element in enumerate(record.schema.elements)
                    if mask >> position & 1
                )
                read = names if read is None else read & names
        return read or frozenset()
