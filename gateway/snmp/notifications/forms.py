"""What receivers of notifications get that may not have everything, by the policy's tables of the feed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from gateway.feed.access import AccessTables, Received
from gateway.feed.records import AlarmRecord, EventRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.snmp.fixed_mib import OWN_PACKAGE
from gateway.snmp.notifications.notification import BoundEvent, Notification

FRONT_END: Final = "notify"

_ALARM_EVENTS: Final = frozenset({f"{OWN_PACKAGE}:alarmRaised", f"{OWN_PACKAGE}:alarmCleared"})


class NotificationForms:
    """The forms of notifications for restricted receivers.

    Args:
        receivers: the names of all receivers.
    """

    def __init__(self, receivers: Sequence[str]) -> None:
        self._receivers = tuple(receivers)
        self._access = AccessTables()

    def change(self, access: AccessTables) -> None:
        """Use these tables."""
        self._access = access

    def is_restricted(self, receiver: str) -> bool:
        """Return whether a receiver may not have everything; while no policy is known, none may."""
        clearance = self._access.clearance(f"{FRONT_END}:{receiver}")
        return clearance is None or not self._access.clearances[clearance].unrestricted

    def of_event(
        self,
        record: EventRecord,
        bound: BoundEvent,
        source: str,
        make: Callable[[EventRecord], Notification],
    ) -> Mapping[str, Notification | None]:
        """Return the forms of an event by receiver, ``None`` for nothing; other receivers get the whole.

        Without private arguments the text, which may contain them, is the label of the event. An argument
        that refers to an object whose name is not read is absent.
        """
        return {
            receiver: self._event_for(clearance, record, bound, source, make)
            for receiver, clearance in self._restricted()
        }

    def of_alarm(
        self, record: AlarmRecord, source: str, notification: Notification
    ) -> Mapping[str, Notification | None]:
        """Return the forms of an alarm by receiver."""
        return {
            receiver: (
                notification
                if clearance is not None
                and self._access.sees_alarm(clearance, record.name, source, record.subject)
                else None
            )
            for receiver, clearance in self._restricted()
        }

    def _restricted(self) -> Iterator[tuple[str, int | None]]:
        for receiver in self._receivers:
            if self.is_restricted(receiver):
                yield receiver, self._access.clearance(f"{FRONT_END}:{receiver}")

    def _event_for(
        self,
        clearance: int | None,
        record: EventRecord,
        bound: BoundEvent,
        source: str,
        make: Callable[[EventRecord], Notification],
    ) -> Notification | None:
        access = self._access
        if clearance is None:
            return None
        received = access.receives_event(clearance, record.class_number, source, record.subject)
        if received is Received.NOTHING:
            return None
        if bound.name in _ALARM_EVENTS:
            # A condition's name begins with that of its alarm.
            alarm = record.condition.split(" ")[0]
            if not access.sees_alarm(clearance, alarm, source, record.subject):
                return None
        private = 0
        if received is Received.WITHOUT_PRIVATE:
            private = access.private_arguments(record.class_number)
        values = {
            position: value
            for position, value in record.values.items()
            if not private >> position & 1 and self._is_read(clearance, source, value)
        }
        text = bound.label if received is Received.WITHOUT_PRIVATE else record.text
        return make(msgspec.structs.replace(record, values=values, text=text))

    def _is_read(self, clearance: int, source: str, value: FeedValue) -> bool:
        waiting: list[object] = [value]
        while waiting:
            each = waiting.pop()
            if isinstance(each, ObjectLink):
                if not self._access.reads_named(clearance, source, each):
                    return False
            elif isinstance(each, Mapping):
                waiting += each.values()
            elif isinstance(each, tuple | list):
                waiting += each
        return True
