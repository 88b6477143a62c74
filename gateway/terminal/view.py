"""The contents of the feed, by key, and the changes in it while a command watches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from gateway.feed.access import EVERYTHING
from gateway.feed.cleared import ClearedFeed
from gateway.feed.freshness import Group
from gateway.feed.operations import OperationRecord, OperationState
from gateway.feed.records import (
    AlarmRecord,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventLogRecord,
    EventRecord,
    FeedMessage,
    GapRecord,
    Hello,
    ObjectRecord,
    SnapshotBegan,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.replica import GATEWAY, FeedReplica, FeedView, ShownObject
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.schema import Element


def path_of(source: str, class_name: str, stable_name: str) -> str:
    """Make the path ``SOURCE/PACKAGE:CLASS/NAME``, by which an object is named at the command line.

    Args:
        source: name of its source.
        class_name: ``package:class``.
        stable_name: the stable name of the object; it may contain slashes.
    """
    return f"{source}/{class_name}/{stable_name}"


class ObjectKey(NamedTuple):
    """The number of the source, ``package:class`` and row of an object. No other object ever has the same."""

    source: int
    class_name: str
    row: int


@dataclass(frozen=True, slots=True)
class KnownObject:
    """An object as it was received last.

    Attributes:
        source: name of its source.
        in_class: the version of its class.
        record: the object with all its values.
        mask: what is read of it: bit *n* stands for the element at position *n*.
    """

    source: str
    in_class: ClassRecord
    record: ObjectRecord
    mask: int = EVERYTHING

    @property
    def class_name(self) -> str:
        """``package:class``."""
        return str(self.in_class.schema.key)

    @property
    def key(self) -> ObjectKey:
        """The key of the object."""
        return ObjectKey(self.record.source, self.class_name, self.record.row)

    @property
    def path(self) -> str:
        """The path by which it is named at the command line."""
        return path_of(self.source, self.class_name, self.record.stable_name)

    @property
    def elements(self) -> tuple[Element, ...]:
        """The elements that are read, in their order; no other exists here."""
        return self.read(self.in_class.schema.elements)

    def read(self, elements: Iterable[Element]) -> tuple[Element, ...]:
        """Return those of the elements that are read."""
        positions = self.in_class.schema.positions
        return tuple(element for element in elements if self.mask >> positions[element.name] & 1)

    def value(self, element: str) -> FeedValue | None:
        """Return the value of an element; ``None`` where it is absent."""
        return self.record.values.get(self.in_class.schema.positions[element])


@dataclass(frozen=True, slots=True)
class ValueChange:
    """An element whose value changed; ``None`` is absent."""

    element: Element
    former: FeedValue | None
    value: FeedValue | None


@dataclass(frozen=True, slots=True)
class Created:
    """An object was created."""

    object: KnownObject


@dataclass(frozen=True, slots=True)
class Changed:
    """Values of an object changed."""

    object: KnownObject
    changes: tuple[ValueChange, ...]


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object was deleted; ``record`` is ``None`` where its end was not received, but it is missing."""

    source: str
    class_name: str
    stable_name: str
    record: DeleteRecord | None = None

    @property
    def path(self) -> str:
        """The path by which it was named at the command line."""
        return path_of(self.source, self.class_name, self.stable_name)


@dataclass(frozen=True, slots=True)
class EventOccurred:
    """An event occurred; ``source`` is empty for the gateway's own."""

    source: str
    in_class: EventClassRecord
    record: EventRecord


@dataclass(frozen=True, slots=True)
class AlarmChanged:
    """An alarm was raised or cleared."""

    source: str
    record: AlarmRecord


@dataclass(frozen=True, slots=True)
class SourceChanged:
    """The state of a source, or the reason for it, changed."""

    record: SourceRecord


@dataclass(frozen=True, slots=True)
class GapFound:
    """Something of a source was not received."""

    source: str
    record: GapRecord


@dataclass(frozen=True, slots=True)
class OperationChanged:
    """An operation began, ended or was settled."""

    source: str
    record: OperationRecord


@dataclass(frozen=True, slots=True)
class EventLogChanged:
    """The state of the event log changed."""

    record: EventLogRecord


@dataclass(frozen=True, slots=True)
class CoreChanged:
    """The core cannot be reached, for a ``reason``; where that is empty, it can be reached again."""

    reason: str = field(default="")


FeedChange: TypeAlias = (
    Created
    | Changed
    | Deleted
    | EventOccurred
    | AlarmChanged
    | SourceChanged
    | GapFound
    | OperationChanged
    | EventLogChanged
    | CoreChanged
)

KINDS: Mapping[type[FeedChange], str] = {
    Created: "created",
    Changed: "changed",
    Deleted: "deleted",
    EventOccurred: "event",
    AlarmChanged: "alarm",
    SourceChanged: "source",
    GapFound: "gap",
    OperationChanged: "operation",
    EventLogChanged: "event-log",
    CoreChanged: "core",
}
"""The name of each kind of change, in lines and in documents."""


GATEWAY_NAME = "gateway"
"""Stands for the gateway itself in place of the name of a source."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_KEPT = 10_000
"""The number of the last ends, events and operations that are remembered, each; a snapshot contains fewer."""


@dataclass(slots=True, eq=False)
class _Shown(ShownObject[Group]):
    """The replica's data of an object."""

    key: ObjectKey


class TerminalView(FeedView[ClassRecord, EventClassRecord, _Shown, Group]):
    """The contents of the feed, for as long as a command runs.

    Args:
        clock: returns the time, in nanoseconds since 1970-01-01 UTC.
        cleared: leaves out what its principal does not read; ``None`` shows everything.

    Attributes:
        hello: the first message of the core; ``None`` before it was received.
        sources: the sources by number.
        classes: the last version of each that was received, by ``package:class``.
        event_classes: likewise, by ``package:event``.
        versions: all versions of classes and events, by their numbers.
        objects: the objects by key.
        ends: the last ends of objects, by number.
        events: the last events, by id.
        alarms: the active alarms, by number.
        operations: the last operations, by id.
        event_log: the state of the event log; ``None`` before it was received.
    """

    def __init__(self, clock: Callable[[], int], cleared: ClearedFeed | None = None) -> None:
        self._clock = clock
        self._cleared = cleared
        self._policies = 0
        self.hello: Hello | None = None
        self._began: SnapshotBegan | None = None
        self._is_first = True
        self._is_away = False
        self._begin()

    def _begin(self) -> None:
        """Forget everything."""
        self.sources: dict[int, SourceRecord] = {}
        self.classes: dict[str, ClassRecord] = {}
        self.event_classes: dict[str, EventClassRecord] = {}
        self.versions: dict[int, ClassRecord | EventClassRecord] = {}
        self.objects: dict[ObjectKey, KnownObject] = {}
        self.ends: dict[int, Deleted] = {}
        self.events: dict[str, EventOccurred] = {}
        self.alarms: dict[int, AlarmRecord] = {}
        self.operations: dict[str, OperationRecord] = {}
        self.event_log: EventLogRecord | None = None
        self._replica = FeedReplica(self, serve_stale_for=0, now=self._clock())
        self._shown: dict[ObjectKey, _Shown] = {}
        self._alarm_generations: dict[int, int] = {}
        self._was_whole = False
        self._happened: list[FeedChange] = []

    @property
    def is_whole(self) -> bool:
        """Whether a whole snapshot was received on this connection."""
        return self._replica.is_complete

    def received(self, message: FeedMessage) -> list[FeedChange]:
        """Apply a message; return the changes.

        The first snapshot is no change, nor is the first one of a policy that lets other things be read.
        """
        now = self._clock()
        if isinstance(message, Hello):
            self.hello = message
            self.versions.clear()  # numbers are valid for one connection
        elif isinstance(message, SnapshotBegan):
            self._began = message
        if self._cleared is not None:
            message = self._cleared.received(message)
            if self._cleared.changes != self._policies:
                self._policies = self._cleared.changes
                self._begin_again(now)
        self._replica.received(message, now)
        self._replica.work_off(now)
        happened, self._happened = self._happened, []
        if self.is_whole and not self._was_whole:
            self._was_whole = True
            was_away, self._is_away = self._is_away, False
            if self._is_first:
                self._is_first, happened = False, []
            return [*happened, CoreChanged()] if was_away else happened
        # The first snapshot is how things stand: nothing in it has happened while the command watched.
        return [] if self._is_first else happened

    def _begin_again(self, now: int) -> None:
        """Forget what the former policy permitted: a snapshot of what the new one permits has begun."""
        self._begin()
        self._is_first = True
        for message in (self.hello, self._began):
            if message is not None:
                self._replica.received(message, now)

    def disconnected(self, reason: str) -> list[FeedChange]:
        """Mark everything stale. Return the change, once."""
        self._replica.disconnected(self._clock())
        was_whole, self._was_whole = self._was_whole, False
        # Once: attempts to connect again fail for as long as the core is away.
        if not was_whole:
            return []
        self._is_away = True
        return [CoreChanged(reason)]

    def source_name(self, number: int) -> str:
        """Return the name of a source; 0 is the gateway itself."""
        known = self.sources.get(number)
        if number == GATEWAY:
            return GATEWAY_NAME
        return known.name if known is not None else f"source {number}"

    def linked(self, link: ObjectLink, source: int) -> KnownObject | None:
        """Return the object that a link of that source leads to, if it exists."""
        return self.objects.get(ObjectKey(source, link.class_name, link.row))

    def stale_since(self, known: KnownObject) -> int:
        """Return the time since which an object is stale, in nanoseconds since 1970; 0 while it is fresh.

        For an object that was deleted, this is the time of its class and agent.
        """
        shown = self._shown.get(known.key)
        if shown is not None and shown.group.stale_since:
            return shown.group.stale_since
        # A group is judged as messages arrive, and nothing may have arrived since.
        record = known.record
        now, class_name = self._clock(), known.class_name
        return self._replica.stale_since(record.source, record.agent, class_name, now, record.unread_since)

    def counts(self) -> dict[tuple[int, str], int]:
        """Count objects by number of the source and ``package:class``, in this order."""
        counts: dict[tuple[int, str], int] = {}
        for key in sorted(self.objects):
            place = (key.source, key.class_name)
            counts[place] = counts.get(place, 0) + 1
        return counts

    # ---- what the replica calls ---------------------------------------------------------------------------

    def new_group(self, source: int, agent: str, class_name: str) -> Group:
        """Make the group of the objects of an agent and class."""
        return Group(source, agent, class_name)

    def source_changed(self, record: SourceRecord) -> None:
        """Report a source that is new, or has another state or detail."""
        former = self.sources.get(record.number)
        self.sources[record.number] = record
        # A record comes with each change of a counter as well.
        if former is None or (former.state, former.detail) != (record.state, record.detail):
            self._happened.append(SourceChanged(record))

    def source_removed(self, number: int) -> None:
        """Forget a source."""
        del self.sources[number]

    def version_of(self, record: ClassRecord) -> ClassRecord:
        """Keep a version of a class."""
        self.classes[str(record.schema.key)] = self.versions[record.number] = record
        return record

    def event_version_of(self, record: EventClassRecord) -> EventClassRecord:
        """Keep a version of an event."""
        self.event_classes[str(record.schema.key)] = self.versions[record.number] = record
        return record

    def find(self, source: int, version: ClassRecord, row: int) -> _Shown | None:
        """Find an object."""
        return self._shown.get(ObjectKey(source, str(version.schema.key), row))

    def objects_of(self, source: int) -> list[_Shown]:
        """List the objects of a source."""
        return [shown for key, shown in self._shown.items() if key.source == source]

    def show(self, record: ObjectRecord, version: ClassRecord, shown: _Shown | None, group: Group) -> _Shown:
        """Report an object that is new, or its changed values."""
        mask = (
            EVERYTHING
            if self._cleared is None
            else self._cleared.mask(record.source, record.class_number, record.row)
        )
        known = KnownObject(self.sources[record.source].name, version, record, mask)
        former = self.objects.get(known.key)
        self.objects[known.key] = known
        if former is None:
            self._happened.append(Created(known))
        else:
            self._happened += _changed(former, known, range(len(version.schema.elements)))
        if shown is None:
            shown = self._shown[known.key] = _Shown(group, known.key)
        return shown

    def change(self, record: UpdateRecord, version: ClassRecord, shown: _Shown) -> None:  # noqa: ARG002
        """Report the changed values of an object."""
        former = self.objects[shown.key]
        # An update has what changed only, and a record here has all values.
        values = {**former.record.values, **record.values}
        for position in record.absent:
            values.pop(position, None)
        whole = msgspec.structs.replace(
            former.record,
            properties_sampled=record.properties_sampled,
            statistics_sampled=record.statistics_sampled,
            reset=record.reset,
            changed=record.changed,
            values=values,
        )
        known = self.objects[shown.key] = dataclasses.replace(former, record=whole)
        self._happened += _changed(former, known, sorted({*record.values, *record.absent}))

    def remove(self, shown: _Shown) -> None:
        """Report that an object is gone, where its end was not reported."""
        del self._shown[shown.key]
        if known := self.objects.pop(shown.key, None):
            self._happened.append(Deleted(known.source, known.class_name, known.record.stable_name))

    def object_ended(self, record: DeleteRecord, version: ClassRecord | None) -> None:
        """Report an end that was not reported yet."""
        if version is None or record.number in self.ends:
            return
        class_name = str(version.schema.key)
        deleted = Deleted(self.source_name(record.source), class_name, record.stable_name, record)
        _remember(self.ends, record.number, deleted)
        self.objects.pop(ObjectKey(record.source, class_name, record.row), None)  # one that lives follows
        self._happened.append(deleted)

    def event_occurred(self, record: EventRecord, version: EventClassRecord | None) -> None:
        """Report an event that was not reported yet."""
        if version is not None and record.event_id not in self.events:
            event = EventOccurred(self.source_name(record.source), version, record)
            _remember(self.events, record.event_id, event)
            self._happened.append(event)

    def alarm_changed(self, record: AlarmRecord) -> None:
        """Report an alarm that was raised or cleared."""
        former = self.alarms.pop(record.number, None)
        if not record.cleared:
            self.alarms[record.number] = record
            self._alarm_generations[record.number] = self._replica.generation
        # A snapshot repeats alarms, which is no change.
        if record.cleared or former is None:
            self._happened.append(AlarmChanged(self.source_name(record.source), record))

    def alarms_swept(self, source: int) -> None:
        """Report the end of alarms that the last snapshot did not contain."""
        for number, record in tuple(self.alarms.items()):
            if record.source == source and self._alarm_generations[number] < self._replica.generation:
                del self.alarms[number]
                # No record says when it was cleared: any time that is not 0 says that it is.
                ended = msgspec.structs.replace(record, cleared=record.raised)
                self._happened.append(AlarmChanged(self.source_name(source), ended))
        self._alarm_generations = {number: self._alarm_generations[number] for number in self.alarms}

    def gap_found(self, record: GapRecord) -> None:
        """Report a gap."""
        self._happened.append(GapFound(self.source_name(record.source), record))

    def event_log_changed(self, record: EventLogRecord) -> None:
        """Report another state of the event log."""
        former, self.event_log = self.event_log, record
        # The record comes with each change of its numbers as well.
        if former is None or former.state is not record.state:
            self._happened.append(EventLogChanged(record))

    def operation_changed(self, record: OperationRecord) -> None:
        """Report an operation that is new, or has changed."""
        former = self.operations.get(record.operation_id)
        # A core gives up what has no end in the log, also if a former core has reported its end.
        if former is not None and former.outcome is not None and record.state is not OperationState.SETTLED:
            return
        _remember(self.operations, record.operation_id, record)
        if former != record:
            self._happened.append(OperationChanged(self.source_name(record.source), record))


def _changed(former: KnownObject, known: KnownObject, positions: Iterable[int]) -> Iterator[Changed]:
    """Compare two states of an object, whose class may have another version now, by the names of elements."""
    elements = known.in_class.schema.elements
    changes: list[ValueChange] = []
    for position in positions:
        if not 0 <= position < len(elements):
            continue
        element = elements[position]
        before = _value_of(former, element.name)
        after = known.record.values.get(position)
        if before != after:
            changes.append(ValueChange(element, before, after))
    if changes:
        yield Changed(known, tuple(changes))


def _value_of(known: KnownObject, element: str) -> FeedValue | None:
    return known.value(element) if element in known.in_class.schema.positions else None


def _remember(known: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Keep ``value`` as the newest of the last ones."""
    # Taken out first, so that it moves to the end.
    known.pop(key, None)
    known[key] = value
    if len(known) > _KEPT:
        del known[next(iter(known))]
