"""Versions of events with the encoders of their arguments, as a notification has them.

A receiver may rely on the places of varbinds (RFC 2578 section 8.1: those of the OBJECTS clause, in its
order), so an argument without a value is sent with the empty value of its syntax.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import SourceState
from gateway.model.schema import Argument, EventSchema
from gateway.model.values import ValueType
from gateway.snmp import ber
from gateway.snmp.ber import NO_ROW, Oid
from gateway.snmp.cells import Encoder, date_and_time, float64, gauge32, text, value_encoder
from gateway.snmp.fixed_mib import (
    NOTIFICATION_OBJECTS,
    NOTIFICATIONS,
    NotificationObject,
    OwnNotification,
    SourceStateNumber,
)
from gateway.snmp.oid_registry import ArgumentEntry, EventEntry, OidRegistry
from gateway.snmp.syntax import Syntax, argument_fits, argument_form

Varbinds: TypeAlias = tuple[bytes, ...]
"""Encoded variable bindings, in the order in which they are sent."""

ArgumentEncoder: TypeAlias = Callable[["FeedValue | None", int], Varbinds]
"""Returns the varbinds for the value of an argument (``None``: absent) of a source's event."""

RowPointers: TypeAlias = Callable[[ObjectLink, int], bytes | None]
"""Returns the TLV of a RowPointer to an object of the source with that number, if it has a row."""

NO_POINTER = ber.encode_oid(NO_ROW)
_EMPTY = ber.encode_octets(b"")
_TRUTH = ber.encode_integer(1)
_NO_TIME = ber.encode_octets(bytes(8))  # as in RFC 3165 and others for a DateAndTime that is not known
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
"""The values that stand for an absent one, by syntax; a TruthValue has none and is left out."""


class BoundEvent(msgspec.Struct, frozen=True):
    """One version of an event with the encoders of its arguments.

    Attributes:
        name: ``package:event``.
        oid: the object identifier of its notification.
        encoders: by place in the notification, each with the position of its argument in the schema, -1
            where this version has none.
        not_shown: the names of arguments without a number in the registry.
        label: the event in a few words.
        types: a bit for the type (the tag) of each value; a value that stands for an absent one has the same.
    """

    name: str
    oid: Oid
    encoders: tuple[tuple[int, ArgumentEncoder], ...]
    not_shown: tuple[str, ...] = ()
    label: str = ""
    types: int = 0

    def varbinds(self, values: Mapping[int, FeedValue], source: int) -> Varbinds:
        """Return the varbinds that follow the common objects in a notification of this event."""
        varbinds: list[bytes] = []
        for position, encode in self.encoders:
            varbinds += encode(values.get(position), source)
        return tuple(varbinds)


def bind_event(
    schema: EventSchema, registry: OidRegistry, event_entry: EventEntry, root: Oid, pointer: RowPointers
) -> BoundEvent:
    """Match the arguments of ``schema`` to those that the registry has numbered."""
    encoders = []
    shown = set()
    argument_entries = registry.arguments_of(event_entry)
    for argument_entry in argument_entries:
        position = _position(schema, argument_entry)
        if position >= 0:
            shown.add(position)
        argument = schema.arguments[position] if position >= 0 else None
        oids = tuple(registry.argument_oid(root, arc) for arc in argument_entry.arcs)
        encoders.append((position, _encoder(argument_entry, argument, oids, pointer)))
    return BoundEvent(
        str(schema.key),
        registry.notification_oid(root, event_entry),
        tuple(encoders),
        tuple(argument.name for n, argument in enumerate(schema.arguments) if n not in shown),
        schema.label or schema.key.name,
        _types(_NOTHING.get(entry.syntax, _TRUTH) for entry in argument_entries),
    )


def bind_own_event(schema: EventSchema, root: Oid) -> BoundEvent | None:
    """Bind an event that the gateway makes itself; ``None`` where the fixed module lacks it."""
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
        schema.label or schema.key.name,
        _types(nothing for *_, nothing in objects),
    )


def _types(values: Iterable[bytes]) -> int:
    """Return a bit for the type of each of these TLVs."""
    return functools.reduce(operator.or_, (1 << value[0] for value in values), 0)


def _position(schema: EventSchema, entry: ArgumentEntry) -> int:
    if not entry.current:
        return -1
    for position, argument in enumerate(schema.arguments):
        if argument.name != entry.name:
            continue
        # The feed does not carry the unit that a mapping names: the registry has kept it.
        timed = argument.type in (ValueType.DURATION, ValueType.TIME)
        if argument_fits(argument_form(argument, entry.unit if timed else ""), entry.form):
            return position
    return -1


def _encoder(
    entry: ArgumentEntry, argument: Argument | None, oids: tuple[Oid, ...], pointer: RowPointers
) -> ArgumentEncoder:
    if entry.syntax is Syntax.ROW_POINTER:
        return _reference_encoder(oids[0], oids[1], pointer)
    named = argument.values if argument is not None else ()
    single = argument is not None and argument.type is ValueType.F32
    numbers = {value.value: entry.numbers.get(value.label, 1) for value in named}
    encode = value_encoder(entry.form, numbers, single=single)
    return _value_encoder(oids[0], encode, _NOTHING.get(entry.syntax))


def _value_encoder(oid: Oid, encode: Encoder, nothing: bytes | None) -> ArgumentEncoder:
    varbind = ber.varbind_encoder(ber.encode_name(oid))
    absent: Varbinds = () if nothing is None else (varbind(nothing),)

    def encoded(value: FeedValue | None, _source: int) -> Varbinds:
        tlv = None if value is None else encode(value)
        return absent if tlv is None else (varbind(tlv),)

    return encoded


def _reference_encoder(oid: Oid, name_oid: Oid, pointer: RowPointers) -> ArgumentEncoder:
    row, name = (ber.varbind_encoder(ber.encode_name(each)) for each in (oid, name_oid))
    absent: Varbinds = (row(NO_POINTER), name(_EMPTY))

    def encoded(value: FeedValue | None, source: int) -> Varbinds:
        if not isinstance(value, ObjectLink):
            return absent
        # Without a row zeroDotZero: the varbinds behind keep their places.
        return row(pointer(value, source) or NO_POINTER), name(text(value.stable_name))

    return encoded


def _text(value: FeedValue) -> bytes | None:
    return text(value) if isinstance(value, str) else None


def _line(value: FeedValue) -> bytes | None:
    return text(value, MAX_LINE_OCTETS) if isinstance(value, str) else None


def _time(value: FeedValue) -> bytes | None:
    return date_and_time(value) if isinstance(value, int) and value else None


def _count(value: FeedValue) -> bytes | None:
    return gauge32(value) if isinstance(value, int) else None


MAX_LINE_OCTETS: Final = 1024
"""The maximum size of agEventHead, in octets: a head that is cut off proves nothing."""

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
_REASON_OBJECT: _Object = ("reason", NotificationObject.REASON, _text, _EMPTY)
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
    "processEnded": (
        OwnNotification.PROCESS_ENDED,
        (("process", NotificationObject.PROCESS, _text, _EMPTY), _REASON_OBJECT),
    ),
    "gatewayStopping": (OwnNotification.GATEWAY_STOPPING, (_REASON_OBJECT,)),
    "accessRefused": (
        OwnNotification.ACCESS_REFUSED,
        (
            ("principal", NotificationObject.PRINCIPAL, _text, _EMPTY),
            ("origin", NotificationObject.ORIGIN, _text, _EMPTY),
            ("attempts", NotificationObject.ATTEMPTS, _count, gauge32(0)),
            _REASON_OBJECT,
        ),
    ),
    "auditHead": (
        OwnNotification.AUDIT_HEAD,
        (
            ("audit", NotificationObject.AUDIT, _count, gauge32(0)),
            ("hash", NotificationObject.HASH, _text, _EMPTY),
            ("head", NotificationObject.HEAD, _line, _EMPTY),
        ),
    ),
    "policyChanged": (
        OwnNotification.POLICY_CHANGED,
        (("principal", NotificationObject.PRINCIPAL, _text, _EMPTY), _REASON_OBJECT),
    ),
    "mappingsChanged": (
        OwnNotification.MAPPINGS_CHANGED,
        (("principal", NotificationObject.PRINCIPAL, _text, _EMPTY), _REASON_OBJECT),
    ),
}
