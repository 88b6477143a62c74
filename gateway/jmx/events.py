"""Events of the feed as notifications: what each carries, and which were told already."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.feed.records import EventClassRecord, EventRecord
from gateway.feed.values import ObjectLink
from gateway.jmx import types
from gateway.jmx.classes import Resolve, Unfit, event_type
from gateway.jmx.commands import AttributeType, Emit, JmxValue
from gateway.jmx.info import unlike
from gateway.model.schema import EventSchema
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
)
"""What the user data of every notification has; an argument of the same name has ``_`` behind it."""


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of the user data that an argument fills; of a reference there are two, the second its name."""

    position: int
    name: str
    type: AttributeType
    convert: types.Converter
    is_link: bool


class ShownEvent:
    """One version of an event.

    Args:
        record: as the core told it.
    """

    def __init__(self, record: EventClassRecord) -> None:
        self.schema: EventSchema = record.schema
        self._type = types.text(event_type(record.schema))
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

    def emit(
        self, record: EventRecord, emitters: tuple[int, ...], source: str, resolve: Resolve, unfit: Unfit
    ) -> Emit:
        """The notification of one event.

        Args:
            record: the event.
            emitters: the MBeans that it comes from.
            source: name of its source; empty for the gateway itself.
            resolve: what references lead to; called with position -1 for the subject, else the argument's.
            unfit: told of arguments that cannot be shown.
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
            types.time(record.heard),
        )
        data = [(name, type_, value) for (name, type_), value in zip(COMMON_ITEMS, common, strict=True)]
        data += [(item.name, item.type, self._value(item, record, resolve, unfit)) for item in self._items]
        return Emit(
            emitters,
            self._type,
            types.text(record.text) or self._type,
            types.time(record.time) or types.time(record.heard) or 0,
            record.number,
            tuple(data),
        )

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


class EventCursor:
    """Which events the clients were told: outlives virtual machines and projections.

    A snapshot repeats the last events. Those that were told are passed over; those of the first snapshot
    that this process hears happened before anybody could listen, and are only remembered.
    """

    def __init__(self) -> None:
        self._epoch = 0
        self._number = 0
        self._heard_snapshot = False

    def is_new(self, epoch: int, number: int, *, repeated: bool) -> bool:
        """Whether an event is to be told now; it counts as told from then on.

        Args:
            epoch: of the core that made it.
            number: of the event within the epoch, ascending.
            repeated: whether a snapshot tells it.
        """
        if epoch != self._epoch:
            self._epoch, self._number = epoch, 0
        if number <= self._number and (number or repeated):
            return False
        self._number = max(self._number, number)
        return self._heard_snapshot or not repeated

    def snapshot_ended(self) -> None:
        """A snapshot was heard to its end."""
        self._heard_snapshot = True
