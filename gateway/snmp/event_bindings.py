"""How one version of an event fills its notification: what the lock says, made into functions once.

A receiver may count on the places of varbinds (RFC 2578 section 8.1: those of the OBJECTS clause, in its
order), so an argument without a value is told as nothing, as its syntax allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import SourceState
from gateway.model.schema import Argument, EventSchema
from gateway.model.values import ValueType
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import Encoder, date_and_time, float64, gauge32, text, value_encoder
from gateway.snmp.fixed_mib import SourceStateNumber
from gateway.snmp.lock import Lock
from gateway.snmp.lock_entries import ArgumentLock, EventLock
from gateway.snmp.notification import NO_ROW
from gateway.snmp.notification_numbers import (
    NOTIFICATION_OBJECTS,
    NOTIFICATIONS,
    NotificationObject,
    OwnNotification,
)
from gateway.snmp.syntax import Syntax, argument_fits, argument_form

Varbinds: TypeAlias = tuple[tuple[Oid, bytes], ...]
"""Names and values, in the order in which they travel."""

ArgumentEncoder: TypeAlias = Callable[["FeedValue | None", int], Varbinds]
"""From the value of an argument (``None``: absent) of a source's event to what is sent of it."""

RowPointers: TypeAlias = Callable[[ObjectLink, int], bytes | None]
"""The TLV of a RowPointer to an object of the source with that number, if it has a row."""

NO_POINTER = ber.encode_oid(NO_ROW)
_EMPTY = ber.encode_octets(b"")
_NO_TIME = ber.encode_octets(bytes(8))  # as RFC 3165 and others tell a DateAndTime that is not known
_NOTHING: Mapping[Syntax, bytes] = {
    Syntax.TEXT: _EMPTY,
    Syntax.OCTETS: _EMPTY,
    Syntax.JSON: _EMPTY,
    Syntax.UUID: _EMPTY,
    Syntax.DECIMAL: _EMPTY,
    Syntax.FLOAT_TEXT: _EMPTY,
    Syntax.ROW_POINTER: NO_POINTER,
    Syntax.ENUMERATION: ber.encode_integer(1),
    Syntax.DATE_AND_TIME: _NO_TIME,
    Syntax.FLOAT64: float64(float("nan")),
    Syntax.GAUGE32: gauge32(0),
    Syntax.INTEGER32: ber.encode_integer(0),
    Syntax.UNSIGNED32: gauge32(0),
}
"""What is sent for an absent value; a TruthValue has nothing of the kind and is left out."""


@dataclass(frozen=True, slots=True)
class BoundEvent:
    """One version of an event, ready to be sent.

    Attributes:
        name: ``package:event``.
        oid: of its notification.
        encoders: by place in the notification, each with the position of its argument in the schema, -1
            where this version has none.
        not_shown: names of arguments that the lock has no number for.
    """

    name: str
    oid: Oid
    encoders: tuple[tuple[int, ArgumentEncoder], ...]
    not_shown: tuple[str, ...] = ()

    def varbinds(self, values: Mapping[int, FeedValue], source: int) -> Varbinds:
        """What follows the common objects in a notification of this event."""
        return tuple(
            varbind for position, encode in self.encoders for varbind in encode(values.get(position), source)
        )


def bind_event(
    schema: EventSchema, lock: Lock, event_lock: EventLock, root: Oid, pointer: RowPointers
) -> BoundEvent:
    """Match the arguments of ``schema`` to those that the lock has numbered."""
    encoders = []
    shown = set()
    for argument_lock in lock.arguments_of(event_lock):
        position = _position(schema, argument_lock)
        if position >= 0:
            shown.add(position)
        argument = schema.arguments[position] if position >= 0 else None
        oids = tuple(lock.argument_oid(root, arc) for arc in argument_lock.arcs)
        encoders.append((position, _encoder(argument_lock, argument, oids, pointer)))
    return BoundEvent(
        str(schema.key),
        lock.notification_oid(root, event_lock),
        tuple(encoders),
        tuple(argument.name for n, argument in enumerate(schema.arguments) if n not in shown),
    )


def bind_own_event(schema: EventSchema, root: Oid) -> BoundEvent | None:
    """The same for an event that the gateway makes itself; ``None`` where the fixed module lacks it."""
    found = _OWN_EVENTS.get(schema.key.name)
    if found is None:
        return None
    notification, objects = found
    positions = {argument.name: position for position, argument in enumerate(schema.arguments)}
    return BoundEvent(
        str(schema.key),
        (*root, *NOTIFICATIONS, notification),
        tuple(
            (
                positions.get(name, -1),
                _value_encoder((*root, *NOTIFICATION_OBJECTS, number, 0), encode, nothing),
            )
            for name, number, encode, nothing in objects
        ),
        tuple(name for name in positions if name not in {name for name, *_ in objects}),
    )


def _position(schema: EventSchema, lock: ArgumentLock) -> int:
    if not lock.current:
        return -1
    for position, argument in enumerate(schema.arguments):
        # The feed does not carry the unit that a mapping names: the lock has kept it.
        timed = argument.type in (ValueType.DURATION, ValueType.TIME)
        form = argument_form(argument, lock.unit if timed else "")
        if argument.name == lock.name and argument_fits(form, lock.form):
            return position
    return -1


def _encoder(
    lock: ArgumentLock, argument: Argument | None, oids: tuple[Oid, ...], pointer: RowPointers
) -> ArgumentEncoder:
    if lock.syntax is Syntax.ROW_POINTER:
        return _reference_encoder(oids[0], oids[1], pointer)
    named = argument.values if argument is not None else ()
    single = argument is not None and argument.type is ValueType.F32
    numbers = {entry.value: lock.numbers.get(entry.label, 1) for entry in named}
    encode = value_encoder(lock.form, numbers, single=single)
    return _value_encoder(oids[0], encode, _NOTHING.get(lock.syntax))


def _value_encoder(oid: Oid, encode: Encoder, nothing: bytes | None) -> ArgumentEncoder:
    absent: Varbinds = () if nothing is None else ((oid, nothing),)

    def encoded(value: FeedValue | None, _source: int) -> Varbinds:
        tlv = None if value is None else encode(value)
        return absent if tlv is None else ((oid, tlv),)

    return encoded


def _reference_encoder(oid: Oid, name_oid: Oid, pointer: RowPointers) -> ArgumentEncoder:
    absent: Varbinds = ((oid, NO_POINTER), (name_oid, _EMPTY))

    def encoded(value: FeedValue | None, source: int) -> Varbinds:
        if not isinstance(value, ObjectLink):
            return absent
        return ((oid, pointer(value, source) or NO_POINTER), (name_oid, text(value.stable_name)))

    return encoded


def _text(value: FeedValue) -> bytes | None:
    return text(value) if isinstance(value, str) else None


def _time(value: FeedValue) -> bytes | None:
    return date_and_time(value) if isinstance(value, int) and value else None


def _count(value: FeedValue) -> bytes | None:
    return gauge32(value) if isinstance(value, int) else None


_STATES = {state.value: ber.encode_integer(SourceStateNumber[state.name]) for state in SourceState}


def _state(value: FeedValue) -> bytes | None:
    return _STATES.get(value) if isinstance(value, str) else None


_Object: TypeAlias = tuple[str, NotificationObject, Encoder, bytes]
_SOURCE_OBJECTS: Iterable[_Object] = (
    ("state", NotificationObject.SOURCE_STATE, _state, ber.encode_integer(SourceStateNumber.UNKNOWN)),
    ("detail", NotificationObject.SOURCE_DETAIL, _text, _EMPTY),
)
_ALARM_OBJECTS: Iterable[_Object] = (("alarm", NotificationObject.ALARM, _text, _EMPTY),)
_GAP_OBJECTS: Iterable[_Object] = (
    ("start", NotificationObject.GAP_START, _time, _NO_TIME),
    ("end", NotificationObject.GAP_END, _time, _NO_TIME),
    ("reason", NotificationObject.GAP_REASON, _text, _EMPTY),
)
_LOST_OBJECT: _Object = ("lost", NotificationObject.LOG_LOST, _count, gauge32(0))
_LOG_OBJECTS: Iterable[_Object] = (
    ("trouble", NotificationObject.LOG_TROUBLE, _text, _EMPTY),
    ("detail", NotificationObject.LOG_DETAIL, _text, _EMPTY),
    _LOST_OBJECT,
)
_AGENT_OBJECT: _Object = ("agent", NotificationObject.AGENT, _text, _EMPTY)
_OWN_EVENTS: Mapping[str, tuple[OwnNotification, Iterable[_Object]]] = {
    "sourceUp": (OwnNotification.SOURCE_UP, _SOURCE_OBJECTS),
    "sourceDown": (OwnNotification.SOURCE_DOWN, _SOURCE_OBJECTS),
    "alarmRaised": (OwnNotification.ALARM_RAISED, _ALARM_OBJECTS),
    "alarmCleared": (OwnNotification.ALARM_CLEARED, _ALARM_OBJECTS),
    "gap": (OwnNotification.GAP, _GAP_OBJECTS),
    "logTrouble": (OwnNotification.LOG_TROUBLE, _LOG_OBJECTS),
    "logWritten": (OwnNotification.LOG_WRITTEN, (_LOST_OBJECT,)),
    "agentLost": (
        OwnNotification.AGENT_LOST,
        (_AGENT_OBJECT, ("detail", NotificationObject.AGENT_DETAIL, _text, _EMPTY)),
    ),
    "agentBack": (OwnNotification.AGENT_BACK, (_AGENT_OBJECT,)),
}
