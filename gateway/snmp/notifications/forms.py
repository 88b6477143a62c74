"""What receivers of notifications get that may not have everything, by the policy's tables of the feed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from gateway.feed.access import GATEWAY_NAME, AccessTables, Received
from gateway.feed.cleared import shown_alarm
from gateway.feed.records import AlarmRecord, EventRecord
from gateway.feed.values import ObjectLink, links_in
from gateway.snmp.notifications.bound_events import BoundEvent
from gateway.snmp.notifications.notification import Condition, Notification

FRONT_END: Final = "notify"

_CONDITION: Final = re.compile(
    r'(?P<alarm>[^ ]+)(?: (?P<class>[^ "]+:[^"]*?) "(?P<name>(?s:.*))"| "(?s:.*)")?'
)
"""The form of a whole condition; one that was cut ends in a digest."""


class NotificationForms:
    """The forms of notifications for restricted receivers.

    Args:
        receivers: the names of all receivers.
    """

    def __init__(self, receivers: Sequence[str]) -> None:
        self._receivers = tuple(receivers)
        self.change(AccessTables())

    def change(self, access: AccessTables, receivers: Sequence[str] | None = None) -> None:
        """Use these tables; call it again whenever their policy, or the receivers, have changed."""
        self._access = access
        if receivers is not None:
            self._receivers = tuple(receivers)
        # Every event needs the list, which is usually empty.
        self._restricted = tuple(
            (receiver, access.clearance(f"{FRONT_END}:{receiver}"))
            for receiver in self._receivers
            if self.is_restricted(receiver)
        )

    @property
    def has_restricted(self) -> bool:
        """Whether there is a receiver that may not have everything."""
        return bool(self._restricted)

    def is_restricted(self, receiver: str) -> bool:
        """Return whether a receiver may not have everything; while no policy is known, none may."""
        clearance = self._access.clearance(f"{FRONT_END}:{receiver}")
        return clearance is None or not self._access.clearances[clearance].unrestricted

    def policy(self, receiver: str) -> str | None:
        """Return what stands for the rules of a receiver: equal for equal rules; ``None`` for none."""
        clearance = self._access.clearance(f"{FRONT_END}:{receiver}")
        return None if clearance is None else self._access.clearances[clearance].digest.hex()

    def receives_end(self, receiver: str, condition: Condition) -> bool:
        """Return whether a receiver may get the end of an alarm, of which only the condition is known.

        A restricted receiver does not get the end of a condition that is too long to contain the whole name
        of the object: without it nothing says whether the receiver sees the object.
        """
        access, clearance = self._access, self._access.clearance(f"{FRONT_END}:{receiver}")
        if clearance is None or access.clearances[clearance].unrestricted:
            return clearance is not None
        source, text = condition
        known = _CONDITION.fullmatch(text)
        if known is None:
            return False
        subject = None if known["class"] is None else ObjectLink(known["class"], 0, known["name"])
        return access.sees_alarm(clearance, known["alarm"], source or GATEWAY_NAME, subject)

    def again(
        self,
        receiver: str,
        record: EventRecord,
        bound: BoundEvent,
        source: str,
        make: Callable[[EventRecord], Notification],
        *,
        in_epoch: bool,
    ) -> Notification | None:
        """Return what a receiver may get of an event now; ``None`` for nothing.

        Args:
            receiver: its name.
            record: the event.
            bound: its version.
            source: the name of its source.
            make: makes the notification.
            in_epoch: the present core made the event: the number of its class is valid.
        """
        if not self.is_restricted(receiver):
            return make(record)
        clearance = self._access.clearance(f"{FRONT_END}:{receiver}")
        if in_epoch or clearance is None:
            return self._event_for(clearance, record, bound, source or GATEWAY_NAME, make)
        number = self._access.event_named(bound.name)
        if number is None:
            return None
        record = msgspec.structs.replace(record, class_number=number)
        made = self._event_for(clearance, record, bound, source or GATEWAY_NAME, make)
        # Another version may have what is private at other places.
        return made if made is not None and made.text == record.text else None

    def alarm_again(
        self, receiver: str, record: AlarmRecord, source: str, notification: Notification
    ) -> Notification | None:
        """Return what a receiver may get of an alarm now; ``None`` for nothing."""
        if not self.is_restricted(receiver):
            return notification
        clearance = self._access.clearance(f"{FRONT_END}:{receiver}")
        return self._alarm_for(clearance, record, source or GATEWAY_NAME, notification)

    def of_event(
        self,
        record: EventRecord,
        bound: BoundEvent,
        source: str,
        make: Callable[[EventRecord], Notification],
    ) -> Mapping[str, Notification | None]:
        """Return the forms of an event by receiver, ``None`` for nothing; other receivers get the whole.

        An argument that refers to an object whose name is not read is absent. Without all arguments, or
        where it quotes elements that are not read, the text is the label of the event.
        """
        return {
            receiver: self._event_for(clearance, record, bound, source or GATEWAY_NAME, make)
            for receiver, clearance in self._restricted
        }

    def of_alarm(
        self, record: AlarmRecord, source: str, notification: Notification
    ) -> Mapping[str, Notification | None]:
        """Return the forms of an alarm by receiver; a text that quotes what is not read is the condition."""
        return {
            receiver: self._alarm_for(clearance, record, source or GATEWAY_NAME, notification)
            for receiver, clearance in self._restricted
        }

    def _alarm_for(
        self, clearance: int | None, record: AlarmRecord, source: str, notification: Notification
    ) -> Notification | None:
        shown = None if clearance is None else shown_alarm(self._access, clearance, record, source)
        if shown is None:
            return None
        return notification if shown is record else msgspec.structs.replace(notification, text=shown.text)

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
        received = access.receives_event(
            clearance, record.class_number, source, record.subject, record.condition, record.quoted
        )
        if received is Received.NOTHING:
            return None
        private = 0
        if received is Received.WITHOUT_PRIVATE:
            private = access.private_arguments(record.class_number)
        values = {
            position: value
            for position, value in record.values.items()
            if not private >> position & 1
            and all(access.reads_named(clearance, source, link) for link in links_in(value))
        }
        # A text may quote what is left out.
        is_whole = received is Received.WHOLE and len(values) == len(record.values)
        return make(
            msgspec.structs.replace(record, values=values, text=record.text if is_whole else bound.label)
        )
