"""From events of the feed, and from alarms that last, to notifications."""

from __future__ import annotations

from gateway.feed.records import AlarmRecord, EventClassRecord, EventRecord
from gateway.model.events import EventState
from gateway.snmp.ber import Oid
from gateway.snmp.cells import text
from gateway.snmp.event_bindings import BoundEvent, bind_event, bind_own_event
from gateway.snmp.notification import Notification
from gateway.snmp.notification_numbers import (
    NOTIFICATION_OBJECTS,
    NOTIFICATIONS,
    OWN_PACKAGE,
    NotificationObject,
    OwnNotification,
)
from gateway.snmp.schema_locks import SchemaLocks
from gateway.snmp.tables.classes import ClassTables


class Events:
    """Binds events to notifications.

    Args:
        locks: where each event stands.
        tables: the rows that events point to.
        root: the configured root.
    """

    def __init__(self, locks: SchemaLocks, tables: ClassTables, root: Oid) -> None:
        self._locks = locks
        self._tables = tables
        self._root = root

    def bind(self, record: EventClassRecord) -> BoundEvent | None:
        """Bind one version of an event; ``None`` (logged and counted) where there is no room for it."""
        schema = record.schema
        bound = bind_own_event(schema, self._root) if schema.key.package == OWN_PACKAGE else None
        if bound is None:
            found = self._locks.event_lock(schema)
            if found is None:
                return None
            bound = bind_event(schema, *found, self._root, self._tables.pointer)
        self._locks.report(schema.key, bound.not_shown)
        return bound

    def notification(
        self, record: EventRecord, bound: BoundEvent, source_name: str, epoch: int, *, repeated: bool = False
    ) -> Notification:
        """Return the notification of an event."""
        subject = record.subject
        return Notification(
            oid=bound.oid,
            name=bound.name,
            number=record.number,
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
            heard=record.heard,
            repeated=repeated,
            is_late=record.boot > 0,
        )


def alarm_notification(
    record: AlarmRecord, row: Oid, source_name: str, epoch: int, root: Oid
) -> Notification:
    """agAlarmRaised, with the event id of the event that raised the alarm.

    For a receiver that was not told of the alarm when it was raised. Its number is 0: it is no event of the
    core's.
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
