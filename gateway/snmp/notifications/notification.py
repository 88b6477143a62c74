"""Notifications of events of the feed, of active alarms, and of the SNMP agent itself.

A receiver may rely on the places of varbinds (RFC 2578 section 8.1: those of the OBJECTS clause, in its
order), so an argument without a value is sent with the empty value of its syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import msgspec

from gateway.feed.records import AlarmRecord, EventClassRecord, EventRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import EventState, Severity, SourceState
from gateway.model.schema import Argument, EventSchema
from gateway.model.times import MILLISECOND
from gateway.model.values import ValueType
from gateway.snmp import ber
from gateway.snmp.ber import NO_ROW, Oid
from gateway.snmp.cells import Encoder, date_and_time, float64, gauge32, text, value_encoder
from gateway.snmp.fixed_mib import (
    NOTIFICATION_OBJECTS,
    NOTIFICATIONS,
    OWN_PACKAGE,
    NotificationObject,
    OwnNotification,
    SourceStateNumber,
)
from gateway.snmp.oid_registry import ArgumentEntry, EventEntry, OidRegistry
from gateway.snmp.registry_growth import OidRegistries
from gateway.snmp.syntax import Syntax, argument_fits, argument_form
from gateway.snmp.tables.classes import ClassTables


@dataclass(frozen=True, slots=True)
class ActiveAlarms:
    """The active alarms of one source.

    Attributes:
        conditions: the conditions of its active alarms, with the ids of the events that raised them.
        complete: whether a condition that is not among them has ended for certain.
    """

    conditions: Mapping[str, str]
    complete: bool


class Notification(msgspec.Struct, frozen=True):
    """A notification, not yet encoded.

    It is a struct because a frozen data class of so many fields takes more than twice as long to make.

    Attributes:
        oid: the value of snmpTrapOID.0.
        name: ``package:event``, by which targets are configured.
        number: the number of the event within its epoch; 0 for one that the SNMP agent makes itself.
        epoch: the epoch of the core that numbered it.
        event_id: the event id, the same in SNMP, JMX and the event log.
        time: nanoseconds, by the agent's clock where the event carried a time.
        source: the name of the source; empty for none.
        class_name: ``package:class`` of the object concerned; empty for none.
        object_name: its stable name.
        row: the object identifier of its row, or former row.
        text: a description of one line.
        condition: the condition that a raising and a clearing notification share.
        arguments: names and BER values of the event's own arguments; none is a Counter64.
        received: when the gateway received it, nanoseconds of its clock; 0 if no core reported it.
        repeated: whether a snapshot contains it, so that it may have been sent before.
        is_late: whether it could not be sent when it happened.
        forms: what single receivers get instead of it, by name; ``None`` for nothing.
        again: returns what a receiver may get of it now, by its name; ``None`` for nothing. Without the
            function, every receiver may get it at any time.
    """

    oid: Oid
    name: str
    number: int
    epoch: int
    event_id: str
    severity: Severity
    time: int
    source: str
    class_name: str
    object_name: str
    row: Oid
    text: str
    state: EventState
    condition: str
    arguments: tuple[tuple[Oid, bytes], ...] = ()
    received: int = 0
    repeated: bool = False
    is_late: bool = False
    forms: Mapping[str, Notification | None] = msgspec.field(default_factory=dict)
    again: Callable[[str], Notification | None] | None = None


MAX_CONDITIONS: Final = 10_000
"""The maximum number of conditions remembered for a receiver; beyond it the oldest is forgotten."""


Condition: TypeAlias = tuple[str, str]
"""Source and condition, which together are unique."""


def condition_of(notification: Notification) -> Condition | None:
    """Return the condition that ``notification`` begins or ends; ``None`` if there is none."""
    if not notification.condition or notification.state is EventState.ONE_SHOT:
        return None
    return notification.source, notification.condition


@dataclass(frozen=True, slots=True)
class SuppressedSummary:
    """A summary of notifications that were not sent, or may have been lost.

    Attributes:
        count: their number.
        since: the time of the first one; nanoseconds since 1970-01-01 UTC.
        names: the number of each ``package:event``, the most frequent first.
        uncertain: those of ``count`` that may have been lost: the gateway does not know whether the receiver
            got them, or was to get them. Since version 3.
    """

    count: int
    since: int
    names: tuple[tuple[str, int], ...]
    uncertain: int = 0

    @property
    def text(self) -> str:
        """One line for people, which says of each number only what the gateway knows."""
        names = ", ".join(f"{name} {count}" for name, count in self.names)
        certain = self.count - self.uncertain
        if not self.uncertain:
            return f"{certain} notifications were not sent to this receiver: {names}"
        if not certain:
            return f"{self.uncertain} notifications to this receiver may have been lost: {names}"
        return (
            f"{certain} notifications were not sent to this receiver, "
            f"and {self.uncertain} may have been lost: {names}"
        )


class Receivers(Protocol):
    """The consumer of events for receivers of notifications."""

    def notify(self, notification: Notification) -> None:
        """Take an event; one that a snapshot repeats and that was taken before is ignored."""

    def events_made(self, epoch: int, number: int) -> None:
        """Record that a former core made events up to ``number``: no further one of it follows."""

    def policy_changing(self) -> None:
        """Send nothing that waits to receivers whose roles have changed, until `policy_changed`."""

    def policy_changed(self) -> None:
        """Decide again what of that they may get: the tables of the policy are complete."""


SYS_UP_TIME: Final[Oid] = (1, 3, 6, 1, 2, 1, 1, 3, 0)
"""sysUpTime.0, the first varbind."""

SNMP_TRAP_OID: Final[Oid] = (1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0)
"""snmpTrapOID.0, the second varbind."""

SNMP_TRAP_ENTERPRISE: Final[Oid] = (1, 3, 6, 1, 6, 3, 1, 1, 4, 3, 0)
"""snmpTrapEnterprise.0, the last varbind of a standard notification."""

SNMP_TRAPS: Final[Oid] = (1, 3, 6, 1, 6, 3, 1, 1, 5)
"""snmpTraps; the last arc of a notification below it is one more than its generic-trap in version 1."""

COLD_START: Final[Oid] = (*SNMP_TRAPS, 1)
"""The agent reinitialised itself, and its configuration may have been altered."""

WARM_START: Final[Oid] = (*SNMP_TRAPS, 2)
"""The agent reinitialised itself with its configuration unaltered."""

AUTHENTICATION_FAILURE: Final[Oid] = (*SNMP_TRAPS, 5)
"""A client sent a message with a community that is not known."""

STANDARD_NOTIFICATIONS: Final = frozenset((*SNMP_TRAPS, arc) for arc in range(1, 7))
"""coldStart, warmStart, linkDown, linkUp, authenticationFailure, egpNeighborLoss (RFC 3584 section 3)."""


Varbinds: TypeAlias = tuple[tuple[Oid, bytes], ...]
"""Names and values, in the order in which they are sent."""

ArgumentEncoder: TypeAlias = Callable[["FeedValue | None", int], Varbinds]
"""Returns the varbinds for the value of an argument (``None``: absent) of a source's event."""

RowPointers: TypeAlias = Callable[[ObjectLink, int], bytes | None]
"""Returns the TLV of a RowPointer to an object of the source with that number, if it has a row."""

NO_POINTER = ber.encode_oid(NO_ROW)
_EMPTY = ber.encode_octets(b"")
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


@dataclass(frozen=True, slots=True)
class BoundEvent:
    """One version of an event with the encoders of its arguments.

    Attributes:
        name: ``package:event``.
        oid: the object identifier of its notification.
        encoders: by place in the notification, each with the position of its argument in the schema, -1
            where this version has none.
        not_shown: the names of arguments without a number in the registry.
        label: the event in a few words.
    """

    name: str
    oid: Oid
    encoders: tuple[tuple[int, ArgumentEncoder], ...]
    not_shown: tuple[str, ...] = ()
    label: str = ""

    def varbinds(self, values: Mapping[int, FeedValue], source: int) -> Varbinds:
        """Return the varbinds that follow the common objects in a notification of this event."""
        varbinds: list[tuple[Oid, bytes]] = []
        for position, encode in self.encoders:
            varbinds += encode(values.get(position), source)
        return tuple(varbinds)


def bind_event(
    schema: EventSchema, registry: OidRegistry, event_entry: EventEntry, root: Oid, pointer: RowPointers
) -> BoundEvent:
    """Match the arguments of ``schema`` to those that the registry has numbered."""
    encoders = []
    shown = set()
    for argument_entry in registry.arguments_of(event_entry):
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
    )


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
        # Without a row zeroDotZero: the varbinds behind keep their places.
        return ((oid, pointer(value, source) or NO_POINTER), (name_oid, text(value.stable_name)))

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


class Events:
    """The binding of events to notifications.

    Args:
        registries: the registries that have the numbers of events.
        tables: the rows that events point to.
        root: the configured root.
    """

    def __init__(self, registries: OidRegistries, tables: ClassTables, root: Oid) -> None:
        self._registries = registries
        self._tables = tables
        self._root = root

    def bind(self, record: EventClassRecord) -> BoundEvent | None:
        """Bind one version of an event; ``None`` (logged and counted) where there is no room for it."""
        schema = record.schema
        bound = bind_own_event(schema, self._root) if schema.key.package == OWN_PACKAGE else None
        if bound is None:
            found = self._registries.event_entry(schema)
            if found is None:
                return None
            bound = bind_event(schema, *found, self._root, self._tables.pointer)
        self._registries.report(schema.key, bound.not_shown)
        return bound

    def notification(
        self,
        record: EventRecord,
        bound: BoundEvent,
        source_name: str,
        epoch: int,
        *,
        repeated: bool = False,
        again: Callable[[str], Notification | None] | None = None,
    ) -> Notification:
        """Return the notification of an event; ``again`` as in `Notification`."""
        subject = record.subject
        return Notification(
            oid=bound.oid,
            name=bound.name,
            number=record.number,
            # The records of an earlier core that a snapshot repeats have its boot; the present core's have
            # none.
            epoch=record.boot or epoch,
            event_id=record.event_id,
            severity=record.severity,
            time=record.time,
            source=source_name,
            class_name=subject.class_name if subject else "",
            object_name=subject.stable_name if subject else "",
            row=self._tables.row_oid(subject, record.source),
            text=record.text,
            state=record.state,
            condition=record.condition,
            arguments=bound.varbinds(record.values, record.source),
            received=record.received,
            repeated=repeated,
            is_late=record.boot > 0,
            again=again,
        )


def alarm_notification(
    record: AlarmRecord, row: Oid, source_name: str, epoch: int, root: Oid
) -> Notification:
    """Return agAlarmRaised, with the event id of the event that raised the alarm.

    It is for a receiver that was not sent the alarm when it was raised. Its number is 0, because the core did
    not make it.
    """
    subject = record.subject
    return Notification(
        oid=(*root, *NOTIFICATIONS, OwnNotification.ALARM_RAISED),
        name=f"{OWN_PACKAGE}:alarmRaised",
        number=0,
        epoch=epoch,
        event_id=record.event_id,
        severity=record.severity,
        time=record.raised,
        source=source_name,
        class_name=subject.class_name if subject else "",
        object_name=subject.stable_name if subject else "",
        row=row,
        text=record.text,
        state=EventState.RAISED,
        condition=record.condition,
        arguments=(((*root, *NOTIFICATION_OBJECTS, NotificationObject.ALARM, 0), text(record.name)),),
    )


class OwnNotifications:
    """The notifications that the SNMP agent makes itself.

    Their event ids are ``<gateway uuid>.<boot>.s<milliseconds since 1970>``: unlike those of events, which
    end in a number alone, they are known to SNMP only.

    Args:
        root: the configured root.
        gateway: the uuid of the gateway.
        boot: the number of starts of its core.
        last: the number in the last process's last event id: none is repeated if the clock was set back.
    """

    def __init__(self, root: Oid, gateway: str, boot: int, last: int = 0) -> None:
        self._root = root
        self._prefix = f"{gateway}.{boot}.s"
        self._boot = boot
        self.last = last

    def started(self, now: int, *, warm: bool) -> Notification:
        """Return coldStart, or warmStart where the configuration is known to be unchanged (RFC 3418)."""
        if warm:
            return self._made(
                now, WARM_START, "snmp:warmStart", Severity.INFO, "The SNMP agent of the gateway restarted"
            )
        return self._made(now, COLD_START, "snmp:coldStart", Severity.WARNING, "The SNMP agent started")

    def authentication_failure(self, now: int, sender: str) -> Notification:
        """Return authenticationFailure: a client at ``sender`` used an unknown community (RFC 3418)."""
        return self._made(
            now,
            AUTHENTICATION_FAILURE,
            "snmp:authenticationFailure",
            Severity.WARNING,
            f"SNMP request from {sender} with a community that is not known",
        )

    def suppressed(self, now: int, target: str, summary: SuppressedSummary) -> Notification:
        """Return agEventsSuppressed, on notifications that were not sent to the receiver ``target``."""
        names = ", ".join(f"{name} {count}" for name, count in summary.names)
        values = {
            NotificationObject.SUPPRESSED_TARGET: text(target),
            NotificationObject.SUPPRESSED_COUNT: gauge32(summary.count),
            NotificationObject.SUPPRESSED_SINCE: date_and_time(summary.since) or date_and_time(0),
            NotificationObject.SUPPRESSED_NAMES: text(names),
        }
        return self._made(
            now,
            self._own(OwnNotification.EVENTS_SUPPRESSED),
            "gateway:eventsSuppressed",
            Severity.WARNING,
            summary.text,
            tuple(
                ((*self._root, *NOTIFICATION_OBJECTS, number, 0), value)
                for number, value in values.items()
                if value is not None
            ),
        )

    def cleared(self, now: int, condition: Condition) -> Notification:
        """Return agAlarmCleared for a condition whose end no event reported."""
        source, name = condition
        # A condition's name begins with that of its alarm.
        alarm = ((*self._root, *NOTIFICATION_OBJECTS, NotificationObject.ALARM, 0), text(name.split(" ")[0]))
        notification = self._made(
            now,
            self._own(OwnNotification.ALARM_CLEARED),
            "gateway:alarmCleared",
            Severity.CLEARED,
            f"{name}: has ended unnoticed",
            (alarm,),
        )
        return msgspec.structs.replace(notification, source=source, state=EventState.CLEARED, condition=name)

    def test(self, now: int, target: str) -> Notification:
        """Return agTest, which a user sends to try a receiver."""
        return self._made(
            now,
            self._own(OwnNotification.TEST),
            "gateway:test",
            Severity.INFO,
            f"A test of the receiver {target}: nothing happened",
        )

    def _own(self, number: OwnNotification) -> Oid:
        return (*self._root, *NOTIFICATIONS, number)

    def _made(
        self,
        now: int,
        oid: Oid,
        name: str,
        severity: Severity,
        words: str,
        arguments: tuple[tuple[Oid, bytes], ...] = (),
    ) -> Notification:
        self.last = max(self.last + 1, now // MILLISECOND)
        return Notification(
            oid=oid,
            name=name,
            number=0,
            epoch=self._boot,
            event_id=f"{self._prefix}{self.last}",
            severity=severity,
            time=now,
            source="",
            class_name="",
            object_name="",
            row=NO_ROW,
            text=words,
            state=EventState.ONE_SHOT,
            condition="",
            arguments=arguments,
        )
