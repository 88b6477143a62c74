"""All that the feed told, by key, and what changes in it while somebody watches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from gateway.feed.operations import OperationRecord
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
    SnapshotBegan,
    SnapshotEnded,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import BELIEVED
from gateway.terminal.happenings import (
    AlarmTold,
    Changed,
    CoreTold,
    Created,
    Deleted,
    EventLogTold,
    EventTold,
    GapTold,
    Happening,
    KnownObject,
    ObjectKey,
    OperationTold,
    SourceTold,
    ValueChange,
)

GATEWAY_NAME = "gateway"
"""What the gateway itself is called where a source's name stands."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_KEPT = 10_000
"""Ends, events and operations that are remembered of each kind, the last ones; the core tells fewer."""


class Picture:
    """What the gateway knows, for as long as a command runs.

    Attributes:
        hello: of the core; ``None`` before it said anything.
        is_whole: whether a snapshot was told to its end on this connection.
        sources: by number.
        classes: the last version of each that was told, by ``package:class``.
        event_classes: likewise, by ``package:event``.
        objects: by key.
        ends: of objects, the last ones, by number.
        events: the last ones, by id.
        alarms: the active ones, by number.
        operations: the last ones, by id.
        event_log: how it is; ``None`` before that was told.
    """

    def __init__(self) -> None:
        self.hello: Hello | None = None
        self.is_whole = False
        self.sources: dict[int, SourceRecord] = {}
        self.classes: dict[str, ClassRecord] = {}
        self.event_classes: dict[str, EventClassRecord] = {}
        self.objects: dict[ObjectKey, KnownObject] = {}
        self.ends: dict[int, Deleted] = {}
        self.events: dict[str, EventTold] = {}
        self.alarms: dict[int, AlarmRecord] = {}
        self.operations: dict[str, OperationRecord] = {}
        self.event_log: EventLogRecord | None = None
        self._by_number: dict[int, ClassRecord] = {}
        self._events_by_number: dict[int, EventClassRecord] = {}
        self._agents: dict[tuple[int, str], AgentRecord] = {}
        self._told: set[ObjectKey] = set()
        self._told_alarms: set[int] = set()
        self._told_sources: set[int] = set()
        self._unswept: set[int] = set()
        self._in_snapshot = False
        self._is_first = True
        self._handlers: dict[type, Callable[..., Iterator[Happening]]] = {
            SourceRecord: self._source,
            ClassRecord: self._class,
            EventClassRecord: self._event_class,
            ObjectRecord: self._object,
            UpdateRecord: self._update,
            DeleteRecord: self._delete,
            AgentRecord: self._agent,
            AgentGoneRecord: self._agent_gone,
            EventRecord: self._event,
            EventsMadeRecord: lambda _record: iter(()),
            AlarmRecord: self._alarm,
            GapRecord: self._gap,
            EventLogRecord: self._log,
            OperationRecord: self._operation,
        }

    def received(self, message: FeedMessage) -> list[Happening]:
        """Take a message; what it changed, but for the first snapshot: that is how things stand."""
        happened = list(self._received(message))
        return [] if self._is_first else happened

    def disconnected(self, reason: str) -> list[Happening]:
        """The core cannot be reached; told once."""
        was_whole, self.is_whole = self.is_whole, False
        return [CoreTold(reason)] if was_whole else []

    def source_name(self, number: int) -> str:
        """Of the source of this number; 0 is the gateway itself."""
        known = self.sources.get(number)
        return GATEWAY_NAME if number == 0 else known.name if known is not None else f"source {number}"

    def linked(self, link: ObjectLink, source: int) -> KnownObject | None:
        """The object that a link of that source leads to, if it is there."""
        return self.objects.get(ObjectKey(source, link.class_name, link.row))

    def stale_since(self, known: KnownObject) -> int:
        """Since when nobody vouches for an object's values, nanoseconds since 1970; 0 while somebody does."""
        source = self.sources[known.record.source]
        agent = self._agents.get((known.record.source, known.record.agent))
        reasons = (
            source.since if source.state not in BELIEVED else 0,
            agent.since if agent is not None and not agent.fresh else 0,
        )
        return min((since for since in reasons if since), default=0)

    def counts(self) -> dict[tuple[int, str], int]:
        """How many objects there are, by number of the source and ``package:class``, in this order."""
        counts: dict[tuple[int, str], int] = {}
        for key in sorted(self.objects):
            place = (key.source, key.class_name)
            counts[place] = counts.get(place, 0) + 1
        return counts

    # ---- messages ---------------------------------------------------------------------------------------

    def _received(self, message: FeedMessage) -> Iterator[Happening]:
        if isinstance(message, Batch):
            for record in message.records:
                yield from self._handlers[type(record)](record)
        elif isinstance(message, Hello):
            if self.hello is not None and self.hello.epoch != message.epoch:
                self._by_number.clear()
                self._events_by_number.clear()
                self._agents.clear()
            self.hello = message
        elif isinstance(message, SnapshotBegan):
            self._told, self._told_alarms, self._told_sources = set(), set(), set()
            self._in_snapshot = True
        elif isinstance(message, SnapshotEnded):
            yield from self._snapshot_ended()

    def _snapshot_ended(self) -> Iterator[Happening]:
        self._in_snapshot = False
        was_whole, self.is_whole = self.is_whole, True
        for number in [number for number in self.sources if number not in self._told_sources]:
            yield from self._sweep(number)
            del self.sources[number]
        self._unswept = set(self.sources)
        for number in sorted(self._unswept):
            yield from self._sweep_if_believed(number)
        for number in self.alarms.keys() - self._told_alarms:
            ended = self.alarms.pop(number)
            yield AlarmTold(
                self.source_name(ended.source), msgspec.structs.replace(ended, cleared=ended.raised)
            )
        if self._is_first:
            self._is_first = False
        elif not was_whole:
            yield CoreTold()

    def _sweep_if_believed(self, number: int) -> Iterator[Happening]:
        """What the last snapshot did not tell is gone, once its source is believed."""
        if number in self._unswept and not self._in_snapshot and self.sources[number].state in BELIEVED:
            self._unswept.discard(number)
            yield from self._sweep(number)

    def _sweep(self, number: int) -> Iterator[Happening]:
        gone = [key for key in self.objects if key.source == number and key not in self._told]
        for key in gone:
            known = self.objects.pop(key)
            yield Deleted(known.source, key.class_name, known.record.stable_name)

    # ---- records ----------------------------------------------------------------------------------------

    def _source(self, record: SourceRecord) -> Iterator[Happening]:
        former = self.sources.get(record.number)
        self.sources[record.number] = record
        self._told_sources.add(record.number)
        if former is None or (former.state, former.detail) != (record.state, record.detail):
            yield SourceTold(record)
        yield from self._sweep_if_believed(record.number)

    def _class(self, record: ClassRecord) -> Iterator[Happening]:
        self._by_number[record.number] = record
        self.classes[str(record.schema.key)] = record
        return _nothing()

    def _event_class(self, record: EventClassRecord) -> Iterator[Happening]:
        self._events_by_number[record.number] = record
        self.event_classes[str(record.schema.key)] = record
        return _nothing()

    def _agent(self, record: AgentRecord) -> Iterator[Happening]:
        self._agents[record.source, record.agent] = record
        return _nothing()

    def _agent_gone(self, record: AgentGoneRecord) -> Iterator[Happening]:
        self._agents.pop((record.source, record.agent), None)  # its objects went before
        return _nothing()

    def _object(self, record: ObjectRecord) -> Iterator[Happening]:
        in_class = self._by_number.get(record.class_number)
        if in_class is None or record.source not in self.sources:
            return
        known = KnownObject(self.sources[record.source].name, in_class, record)
        self._told.add(known.key)
        former = self.objects.get(known.key)
        self.objects[known.key] = known
        if former is None:
            yield Created(known)
        else:
            yield from _changed(former, known, range(len(in_class.schema.elements)))

    def _update(self, record: UpdateRecord) -> Iterator[Happening]:
        in_class = self._by_number.get(record.class_number)
        former = (
            self.objects.get(ObjectKey(record.source, str(in_class.schema.key), record.row))
            if in_class is not None
            else None
        )
        if former is None:
            return
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
        known = dataclasses.replace(former, record=whole)
        self.objects[known.key] = known
        yield from _changed(former, known, sorted({*record.values, *record.absent}))

    def _delete(self, record: DeleteRecord) -> Iterator[Happening]:
        in_class = self._by_number.get(record.class_number)
        if in_class is None or record.number in self.ends or not record.number:
            return  # or it follows in another version of its class, and is compared with what it was
        class_name = str(in_class.schema.key)
        deleted = Deleted(self.source_name(record.source), class_name, record.stable_name, record)
        _remember(self.ends, record.number, deleted)
        self.objects.pop(ObjectKey(record.source, class_name, record.row), None)  # one that lives follows
        yield deleted

    def _event(self, record: EventRecord) -> Iterator[Happening]:
        in_class = self._events_by_number.get(record.class_number)
        if in_class is None or record.event_id in self.events:
            return
        told = EventTold(self.source_name(record.source), in_class, record)
        _remember(self.events, record.event_id, told)
        yield told

    def _alarm(self, record: AlarmRecord) -> Iterator[Happening]:
        self._told_alarms.add(record.number)
        former = self.alarms.pop(record.number, None)
        if not record.cleared:
            self.alarms[record.number] = record
        if record.cleared or former is None:
            yield AlarmTold(self.source_name(record.source), record)

    def _gap(self, record: GapRecord) -> Iterator[Happening]:
        yield GapTold(self.source_name(record.source), record)

    def _log(self, record: EventLogRecord) -> Iterator[Happening]:
        former, self.event_log = self.event_log, record
        if former is None or former.state is not record.state:
            yield EventLogTold(record)

    def _operation(self, record: OperationRecord) -> Iterator[Happening]:
        former = self.operations.get(record.operation_id)
        _remember(self.operations, record.operation_id, record)
        if former != record:
            yield OperationTold(self.source_name(record.source), record)


def _changed(former: KnownObject, known: KnownObject, positions: Iterable[int]) -> Iterator[Changed]:
    """What is another value now; nothing of an object under a new version of its class but its elements."""
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


def _nothing() -> Iterator[Happening]:
    return iter(())


def _remember(known: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Keep ``value`` as the newest of the last ones."""
    known.pop(key, None)
    known[key] = value
    if len(known) > _KEPT:
        del known[next(iter(known))]
