"""Notifications of events of the feed, of active alarms, and of the SNMP agent itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import msgspec

from gateway.feed.records import AlarmRecord, EventClassRecord, EventRecord
from gateway.model.observations import EventState, Severity
from gateway.model.times import MILLISECOND
from gateway.snmp.ber import GAUGE32, Oid, encode_name, encode_varbind
from gateway.snmp.cells import date_and_time, gauge32, text
from gateway.snmp.fixed_mib import (
    NOTIFICATION_OBJECTS,
    NOTIFICATIONS,
    OWN_PACKAGE,
    NotificationObject,
    OwnNotification,
)
from gateway.snmp.notifications.bound_events import NO_POINTER, BoundEvent, bind_event, bind_own_event
from gateway.snmp.registry_lookup import OidRegistries
from gateway.snmp.tables.classes import ClassTables


class ActiveAlarms(msgspec.Struct, frozen=True):
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
        row: the TLV of a RowPointer to its row, or former row; zeroDotZero without one.
        text: a description of one line.
        condition: the condition that a raising and a clearing notification share.
        arguments: the encoded varbinds of the event's own arguments; none has a Counter64.
        types: a bit for the type (the tag) of each value in them; there may be more bits.
        received: when the gateway received it, nanoseconds of its clock; 0 if no core reported it.
        repeated: whether a snapshot contains it, so that it may have been sent before.
        is_late: whether it could not be sent when it happened.
        forms: what single receivers get instead of it, by name; ``None`` for nothing.
        again: returns what a receiver may get of it now, by its name; ``None`` for nothing. Without the
            function, every receiver may get it at any time.
        summary: what it reports, if it is agEventsSuppressed.
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
    row: bytes
    text: str
    state: EventState
    condition: str
    arguments: tuple[bytes, ...] = ()
    types: int = 0
    received: int = 0
    repeated: bool = False
    is_late: bool = False
    forms: Mapping[str, Notification | None] = msgspec.field(default_factory=dict)
    again: Callable[[str], Notification | None] | None = None
    summary: SuppressedSummary | None = None


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
        missed: those of ``count`` that the event log does not have; which of them the receiver was to get is
            not known. Since version 5, as the next two.
        missed_from: the event id of the first of them.
        missed_to: that of the last.
        unknown_from: not empty if events were missed whose number is not known, and so are not counted: the
            event id that the first of them has. Since version 6.
    """

    count: int
    since: int
    names: tuple[tuple[str, int], ...]
    uncertain: int = 0
    missed: int = 0
    missed_from: str = ""
    missed_to: str = ""
    unknown_from: str = ""

    @property
    def shown_names(self) -> str:
        """The names and their numbers, as text."""
        names = [f"{name} {count}" for name, count in self.names]
        return ", ".join(names + ["*:* unknown"] * bool(self.unknown_from))

    @property
    def text(self) -> str:
        """One line for people, which says of each number only what the gateway knows."""
        certain = self.count - self.uncertain - self.missed
        parts = [
            f"{certain} notifications were not sent to this receiver" if certain else "",
            f"{self.uncertain} may have been lost" if certain and self.uncertain else "",
            f"{self.uncertain} notifications to this receiver may have been lost"
            if self.uncertain and not certain
            else "",
            f"{self.missed} events from {self.missed_from} to {self.missed_to} cannot be sent: "
            "the event log does not have them"
            if self.missed
            else "",
            f"an unknown number of events from {self.unknown_from} on cannot be sent: "
            "neither an event log nor a count of them is on the disk"
            if self.unknown_from
            else "",
        ]
        return f"{', and '.join(part for part in parts if part)}: {self.shown_names}"


class Receivers(Protocol):
    """The consumer of events for receivers of notifications."""

    def notify(self, notification: Notification) -> None:
        """Take an event; one that a snapshot repeats and that was taken before is ignored."""

    def events_made(self, epoch: int, number: int, *, more: bool = False) -> None:
        """Record that a former core made events up to ``number``: no further one of it follows.

        ``more`` if it may have made further ones, whose number is not known.
        """

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
            row=self._tables.pointer(subject, record.source) or NO_POINTER if subject else NO_POINTER,
            text=record.text,
            state=record.state,
            condition=record.condition,
            arguments=bound.varbinds(record.values, record.source),
            types=bound.types,
            received=record.received,
            repeated=repeated,
            is_late=record.boot > 0,
            again=again,
        )


def alarm_notification(
    record: AlarmRecord, row: bytes, source_name: str, epoch: int, root: Oid
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
        arguments=(_object(root, NotificationObject.ALARM, text(record.name)),),
    )


def _object(root: Oid, number: NotificationObject, value: bytes) -> bytes:
    """Return the varbind of an object of the fixed module."""
    return encode_varbind(encode_name((*root, *NOTIFICATION_OBJECTS, number, 0)), value)


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
        values = {
            NotificationObject.SUPPRESSED_TARGET: text(target),
            NotificationObject.SUPPRESSED_COUNT: gauge32(summary.count),
            NotificationObject.SUPPRESSED_SINCE: date_and_time(summary.since) or date_and_time(0),
            NotificationObject.SUPPRESSED_NAMES: text(summary.shown_names),
        }
        notification = self._made(
            now,
            self._own(OwnNotification.EVENTS_SUPPRESSED),
            "gateway:eventsSuppressed",
            Severity.WARNING,
            summary.text,
            tuple(
                _object(self._root, number, value) for number, value in values.items() if value is not None
            ),
            1 << GAUGE32,
        )
        return msgspec.structs.replace(notification, summary=summary)

    def cleared(self, now: int, condition: Condition) -> Notification:
        """Return agAlarmCleared for a condition whose end no event reported."""
        source, name = condition
        # A condition's name begins with that of its alarm.
        alarm = _object(self._root, NotificationObject.ALARM, text(name.split(" ")[0]))
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
        arguments: tuple[bytes, ...] = (),
        types: int = 0,
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
            row=NO_POINTER,
            text=words,
            state=EventState.ONE_SHOT,
            condition="",
            arguments=arguments,
            types=types,
        )
