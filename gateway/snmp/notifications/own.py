"""The notifications that the SNMP agent makes itself: no event of the inventory is behind them."""

from __future__ import annotations

from dataclasses import replace

from gateway.model.events import EventState, Severity
from gateway.snmp.ber import Oid
from gateway.snmp.cells import date_and_time, gauge32, text
from gateway.snmp.notification import NO_ROW, Notification
from gateway.snmp.notification_numbers import (
    NOTIFICATION_OBJECTS,
    NOTIFICATIONS,
    NotificationObject,
    OwnNotification,
)
from gateway.snmp.notifications.selection import Condition
from gateway.snmp.notifications.standard import AUTHENTICATION_FAILURE, COLD_START, WARM_START
from gateway.snmp.notifications.suppression import SuppressedSummary

_MILLISECOND = 10**6


class OwnNotifications:
    """Makes them.

    Their event ids are ``<gateway uuid>.<boot>.s<milliseconds since 1970>``: unlike those of events, which
    end in a number alone, they are known to SNMP only.

    Args:
        root: the configured root.
        gateway: uuid of the gateway.
        boot: how often its core had been started.
        last: in whose event id the last process stopped, so that none comes twice if the clock was set back.
    """

    def __init__(self, root: Oid, gateway: str, boot: int, last: int = 0) -> None:
        self._root = root
        self._prefix = f"{gateway}.{boot}.s"
        self._boot = boot
        self.last = last

    def started(self, now: int, *, warm: bool) -> Notification:
        """ColdStart, or warmStart where the configuration is known to be what it was (RFC 3418)."""
        if warm:
            return self._made(
                now, WARM_START, "snmp:warmStart", Severity.INFO, "The SNMP agent of the gateway restarted"
            )
        return self._made(now, COLD_START, "snmp:coldStart", Severity.WARNING, "The SNMP agent started")

    def authentication_failure(self, now: int, sender: str) -> Notification:
        """Somebody at the address ``sender`` used a community that is not known (RFC 3418)."""
        return self._made(
            now,
            AUTHENTICATION_FAILURE,
            "snmp:authenticationFailure",
            Severity.WARNING,
            f"SNMP request from {sender} with a community that is not known",
        )

    def suppressed(self, now: int, target: str, summary: SuppressedSummary) -> Notification:
        """AgEventsSuppressed: what the receiver ``target`` was not sent."""
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
            f"{summary.count} notifications were not sent to this receiver: {names}",
            tuple(
                ((*self._root, *NOTIFICATION_OBJECTS, number, 0), value)
                for number, value in values.items()
                if value is not None
            ),
        )

    def cleared(self, now: int, condition: Condition) -> Notification:
        """AgAlarmCleared, for a condition of whose end no event told."""
        source, name = condition
        alarm = ((*self._root, *NOTIFICATION_OBJECTS, NotificationObject.ALARM, 0), text(name.split(" ")[0]))
        notification = self._made(
            now,
            self._own(OwnNotification.ALARM_CLEARED),
            "gateway:alarmCleared",
            Severity.CLEARED,
            f"{name}: has ended while nobody could tell",
            (alarm,),
        )
        return replace(notification, source=source, state=EventState.CLEARED, condition=name)

    def test(self, now: int, target: str) -> Notification:
        """AgTest: somebody tries whether notifications arrive."""
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
        self.last = max(self.last + 1, now // _MILLISECOND)
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
