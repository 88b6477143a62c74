"""Notifications of events and of operations: their contents, and the memory of those sent already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import msgspec

from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.feed.records import EventClassRecord, EventRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.jmx import types
from gateway.jmx.audience import TEXT, Hidden
from gateway.jmx.classes import Resolve, Unfit, described, event_type, unlike
from gateway.jmx.commands import NOTHING, AttributeType, Emit, EventData, JmxValue
from gateway.jmx.names import DOMAIN
from gateway.model.schema import EventSchema
from gateway.model.times import SECOND
from gateway.model.values import ValueType

COMMON_ITEMS: tuple[tuple[str, AttributeType], ...] = (
    ("eventId", AttributeType.STRING),
    ("severity", AttributeType.STRING),
    ("source", AttributeType.STRING),
    ("agent", AttributeType.STRING),
    ("class", AttributeType.STRING),
    ("object", AttributeType.STRING),
    ("objectName", AttributeType.OBJECT_NAME),
    ("state", AttributeType.STRING),
    ("condition", AttributeType.STRING),
    ("heard", AttributeType.DATE),
    ("late", AttributeType.BOOLEAN),
)
"""The items of the user data of each event; an argument of the same name gets a ``_`` at its end."""


_TEXT_ALONE: Final = frozenset({TEXT})

_Datum: TypeAlias = tuple[str, AttributeType, JmxValue]


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of the user data for an argument; a reference has two, the second for its name."""

    position: int
    name: str
    type: AttributeType
    convert: types.Converter
    is_link: bool


class ShownEvent:
    """One version of an event.

    Args:
        record: the record as it was received.

    Attributes:
        schema: its schema.
        references: the positions of the arguments that refer to objects.
    """

    def __init__(self, record: EventClassRecord) -> None:
        self.schema: EventSchema = record.schema
        self._type = types.text(event_type(record.schema))
        # A CompositeData has each item once.
        taken = {name for name, _ in COMMON_ITEMS}
        items: list[_Item] = []
        for position, argument in enumerate(record.schema.arguments):
            name = types.text(argument.name).strip() or f"argument{position}"
            is_link = argument.type is ValueType.REFERENCE
            kinds = [(name, types.attribute_type(argument), types.converter(argument), is_link)]
            if is_link:
                kinds.append((f"{name}Name", AttributeType.STRING, types.link_name, False))
            for wanted, type_, convert, link in kinds:
                items.append(_Item(position, unlike(wanted, taken), type_, convert, link))
                taken.add(items[-1].name)
        self._items = tuple(items)
        self._label = described(record.schema.label, str(record.schema.key))
        self.references = tuple(item.position for item in items if item.is_link)

    def emit(
        self,
        record: EventRecord,
        emitters: tuple[int, ...],
        source: str,
        resolve: Resolve,
        unfit: Unfit,
        *,
        hidden: tuple[Hidden, ...] = (),
        is_late: bool = False,
    ) -> Emit:
        """Return the notification of one event.

        Where arguments are hidden from a user, text and condition, which may contain them, are, too: the text
        is the event's label, as it is where the text alone is hidden.

        Args:
            record: the event.
            emitters: the MBeans that emit it.
            source: the name of its source; empty for the gateway itself.
            resolve: resolves references; called with position -1 for the subject, else the argument's.
            unfit: called with arguments that cannot be shown.
            hidden: the arguments that are hidden, by user; ``None`` where the event is. Without any,
                everybody receives everything.
            is_late: whether it could not be sent when it happened.
        """
        subject = record.subject
        common: tuple[JmxValue, ...] = (
            record.event_id,
            record.severity.name.lower(),
            source or None,
            types.text(record.agent) or None,
            None if subject is None else types.text(subject.class_name),
            None if subject is None else types.text(subject.stable_name),
            None if subject is None else resolve(-1, subject),
            record.state.value,
            types.text(record.condition) or None,
            types.time(record.received),
            is_late,
        )
        data = [(name, type_, value) for (name, type_), value in zip(COMMON_ITEMS, common, strict=True)]
        values = [(item.name, item.type, self._value(item, record, resolve, unfit)) for item in self._items]
        distinct = tuple(dict.fromkeys(each for each in hidden if each))
        choices = tuple(
            NOTHING if each is None else distinct.index(each) + 1 if each else 0 for each in hidden
        )
        return Emit(
            emitters,
            self._type,
            types.text(record.text) or self._type,
            # An agent need not report when an event happened: then it is the time of its arrival.
            types.time(record.time) or types.time(record.received) or 0,
            record.number,
            (*data, *values),
            tuple(
                (
                    self._label,
                    (
                        *(data if each == _TEXT_ALONE else _without_condition(data)),
                        *self._shown(values, each),
                    ),
                )
                for each in distinct
            ),
            choices if any(choices) else (),
        )

    def _shown(self, values: Sequence[_Datum], hidden: frozenset[int]) -> list[_Datum]:
        return [
            (name, type_, None if item.position in hidden else value)
            for item, (name, type_, value) in zip(self._items, values, strict=True)
        ]

    def _value(self, item: _Item, record: EventRecord, resolve: Resolve, unfit: Unfit) -> JmxValue:
        value = record.values.get(item.position)
        if value is None:
            return None
        if item.is_link and isinstance(value, ObjectLink):
            return resolve(item.position, value)
        try:
            return item.convert(value)
        except types.UnfitValueError:
            unfit(str(self.schema.key), self.schema.arguments[item.position].name, value)
            return None


def _without_condition(data: Iterable[_Datum]) -> Iterator[_Datum]:
    for name, type_, value in data:
        yield name, type_, None if name == "condition" else value


class EventCursor:
    """The events that were sent to clients. The cursor outlives virtual machines and projections.

    A snapshot repeats the last events. Those that were sent are ignored. Those in the first snapshot of this
    process happened before a client could listen, and are only remembered.

    Args:
        epoch: the epoch of the core that made the last event that the process before sent; 0 for none.
        number: the number of that event.
        late_after: the age in nanoseconds above which an event in the first snapshot of a core is late.

    Attributes:
        lost: later events that could not be sent.
        lost_unknown: there may be more of them, whose number is not known.
    """

    def __init__(self, epoch: int = 0, number: int = 0, late_after: int = 5 * SECOND) -> None:
        self._late_after = late_after
        self._epoch, self._number = epoch, number
        self._known_epoch = epoch
        self._snapshot_received = False
        self._has_begun = epoch > 0
        self.lost = 0
        self.lost_unknown = False

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and number of the last event."""
        return self._epoch, self._number

    def is_new(self, epoch: int, number: int, *, repeated: bool) -> bool:
        """Return whether an event is to be sent now; it counts as sent from then on.

        Args:
            epoch: the epoch of the core that made it.
            number: the number of the event within the epoch, ascending.
            repeated: whether it is part of a snapshot.
        """
        if not number:
            return not repeated
        if (epoch, number) <= (self._epoch, self._number):
            return False
        is_sent = self._snapshot_received or not repeated
        if repeated:
            # An event that is not sent is itself lost; one that is sent is not.
            self._lose(epoch, number - is_sent)
        self._epoch, self._number = epoch, number
        if not repeated:
            self._known_epoch, self._has_begun = epoch, True
        return is_sent

    def events_made(self, epoch: int, number: int, *, more: bool = False) -> None:
        """Count the events up to ``number`` of a former core that were not sent as lost.

        In a snapshot this follows the events of that core that are still known. ``more`` if it may have made
        further ones, whose number is not known.
        """
        if (epoch, number) > self.place:
            self._lose(epoch, number)
            self._epoch, self._number = epoch, number
        if self._has_begun and more and epoch >= self._epoch:
            self.lost_unknown = True
            self._epoch, self._number = epoch + 1, 0  # so that no later snapshot says it again

    def _lose(self, epoch: int, number: int) -> None:
        """Count events up to ``number`` that were not sent and can no longer be."""
        if self._has_begun:
            self.lost += number - (self._number if epoch == self._epoch else 0)

    def is_late(self, epoch: int, age: int) -> bool:
        """Return whether an event in a snapshot could not be sent when it happened.

        Args:
            epoch: the epoch of the core that made it. The first snapshot of a core contains the events since
                its start, which are not late at once.
            age: nanoseconds since the gateway received it.
        """
        return epoch <= self._known_epoch or age > self._late_after

    def snapshot_ended(self) -> None:
        """Record that a snapshot was received completely."""
        self._snapshot_received = self._has_begun = True


OPERATION: Final = f"{DOMAIN}.operation"
"""The prefix of the types of these notifications; ``.set``, ``.invoke`` or ``.read`` follows."""

OPERATION_ITEMS: Final = (
    ("operationId", AttributeType.STRING),
    ("kind", AttributeType.STRING),
    ("state", AttributeType.STRING),
    ("outcome", AttributeType.STRING),
    ("principal", AttributeType.STRING),
    ("origin", AttributeType.STRING),
    ("source", AttributeType.STRING),
    ("class", AttributeType.STRING),
    ("object", AttributeType.STRING),
    ("objectName", AttributeType.OBJECT_NAME),
    ("method", AttributeType.STRING),
    ("values", AttributeType.MAP),
    ("former", AttributeType.MAP),
    ("found", AttributeType.MAP),
    ("element", AttributeType.STRING),
    ("code", AttributeType.LONG),
    ("text", AttributeType.STRING),
    ("began", AttributeType.DATE),
    ("ended", AttributeType.DATE),
    ("attempts", AttributeType.LONG),
)
"""The items of the user data of each operation."""

_VALUES: Final = frozenset({"values", "former", "found", "element", "text"})
"""Those that are absent for users who do not see the elements."""


MAX_SENT: Final = 10_000
"""The maximum number of operations whose states are remembered, unless snapshots contain more."""


def operation_notice(
    record: OperationRecord, emitter: int, source: str, object_name: str | None, choices: tuple[int, ...] = ()
) -> Emit:
    """Return the notification of an operation that has ended.

    Args:
        record: the record of the core.
        emitter: the MBean that emits it.
        source: the name of the source; empty where it is not known.
        object_name: the ObjectName of the object's MBean, where there is one.
        choices: how much of it is shown, by user (`gateway.jmx.audience.Audience.of_operation`); without any,
            everything is.
    """
    message, data = _message_and_data(record, source, object_name)
    variants: tuple[tuple[str, EventData], ...] = ()
    if any(choices):
        short = tuple((name, type_, None if name in _VALUES else value) for name, type_, value in data)
        line = f"{types.text(record.leaf_name)}: {operation_line(record, with_values=False)}"
        variants = (line, short), _message_and_data(record.without_object(), "", None)
    return Emit(
        (emitter,),
        f"{OPERATION}.{record.kind.value}",
        message,
        types.time(record.ended) or 0,
        record.number,
        data,
        variants,
        choices if any(choices) else (),
    )


def _message_and_data(record: OperationRecord, source: str, object_name: str | None) -> tuple[str, EventData]:
    values: tuple[JmxValue, ...] = (
        types.text(record.operation_id),
        record.kind.value,
        record.state.value,
        None if record.outcome is None else record.outcome.value,
        types.text(str(record.principal)),
        types.text(record.principal.origin) or None,
        types.text(source) or None,
        types.text(record.class_name) or None,
        types.text(record.stable_name) or None,
        object_name,
        types.text(record.method) or None,
        _map(record.values),
        _map(record.previous),
        _map(record.found),
        types.text(record.element) or None,
        record.code,
        types.text(record.text),
        types.time(record.began),
        types.time(record.ended),
        record.attempts,
    )
    data = tuple((name, type_, value) for (name, type_), value in zip(OPERATION_ITEMS, values, strict=True))
    return f"{types.text(record.leaf_name)}: {operation_line(record)}", data


def operation_line(record: OperationRecord, *, with_values: bool = True) -> str:
    """Return one line on an operation: outcome, kind and elements, principal, time and reason.

    Without values it has neither elements nor the reason, which may contain them.
    """
    what = record.kind.value
    if not with_values:
        record = msgspec.structs.replace(record, text="")
    elif record.kind is OperationKind.SET:
        what += f" {', '.join((*record.values, *record.absent))}"
    if record.kind is OperationKind.INVOKE:
        what += f" {record.method}"
    outcome = "under way" if record.outcome is None else record.outcome.value
    why = f": {record.text}" if record.text else ""
    code = "" if record.code is None else f" (code {record.code})"
    when = types.moment(record.ended or record.began)
    return types.text(f"{outcome}: {what} by {record.principal} at {when}{why}{code} [{record.operation_id}]")


def _map(values: Mapping[str, FeedValue]) -> JmxValue:
    try:
        return types.map_value(values)
    except types.UnfitValueError:
        return None


class _SentOperation(NamedTuple):
    """An operation that was sent: the core that reported it, its number there, and its state."""

    epoch: int
    number: int
    state: OperationState


class OperationCursor:
    """The operations that were sent to clients, with their states.

    The cursor outlives virtual machines, projections and cores: each core gives up the operations that have
    no end in the event log, also those of which a former core has reported the end, and was killed before it
    was in the log. A snapshot repeats the last operations. Those that were sent are ignored, also those that
    are not remembered any more. Those in the first snapshot of this process ended before a client could
    listen, and are only remembered. Outside of snapshots a core reports each state once: there an operation
    of any age is new, as one that was unknown and is settled late.

    Args:
        most: the maximum number that is remembered: more than a snapshot contains.
    """

    def __init__(self, most: int = MAX_SENT) -> None:
        self._most = most
        self._epoch = 0
        self._sent: dict[str, _SentOperation] = {}
        self._forgotten = 0
        self._snapshot_received = False

    def is_new(self, epoch: int, record: OperationRecord, *, repeated: bool) -> bool:
        """Return whether the state of an operation is to be sent; it counts as sent from then on.

        Args:
            epoch: the epoch of the core.
            record: the record of the operation; while it is under way, it is not sent.
            repeated: whether it is part of a snapshot.
        """
        if record.outcome is None:
            return False
        # A core numbers its operations from 1.
        if epoch != self._epoch:
            self._epoch, self._forgotten = epoch, 0
        if repeated and record.number <= self._forgotten:
            return False
        sent = self._sent.get(record.operation_id)
        if sent is not None and sent.state in (record.state, OperationState.SETTLED):
            return False
        self._sent[record.operation_id] = _SentOperation(epoch, record.number, record.state)
        if len(self._sent) > self._most:
            forgotten = self._sent.pop(next(iter(self._sent)))
            if forgotten.epoch == epoch:
                self._forgotten = max(self._forgotten, forgotten.number)
        return self._snapshot_received or not repeated

    def snapshot_ended(self) -> None:
        """Record that a snapshot was received completely."""
        self._snapshot_received = True
