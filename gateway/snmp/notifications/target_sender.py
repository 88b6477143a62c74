"""One receiver: what it gets, what it is spared, and what is on its way to it."""

from __future__ import annotations

from collections.abc import Callable

from gateway.model.events import EventState, Severity
from gateway.snmp.notification import Notification
from gateway.snmp.notification_numbers import TargetKindNumber
from gateway.snmp.notifications.delivery import Delivery, InformDelivery, TrapDelivery
from gateway.snmp.notifications.encoding import (
    EncodedNotification,
    Version1Fields,
    inform_v2c,
    trap_v1,
    trap_v2c,
)
from gateway.snmp.notifications.rate_limit import RateLimit
from gateway.snmp.notifications.saved import SavedInform, SavedTarget
from gateway.snmp.notifications.selection import MAX_CONDITIONS, Condition, Selection, condition_of
from gateway.snmp.notifications.suppression import OTHERS, SuppressedSummary, Suppression
from gateway.snmp.notifications.target import Target
from gateway.snmp.notifications.waiting import MAX_WAITING, Waiting
from gateway.snmp.tables.targets import TargetHealth


class TargetSender:
    """Decides what is sent to one receiver, and when.

    Args:
        target: the receiver.
        request_id: a new one for each notification; not to be guessed from outside.
        monotonic: nanoseconds; all times but those shown to people are of this clock.
        clock: nanoseconds since 1970-01-01 UTC.
        saved: what the last process left of this receiver.
    """

    def __init__(
        self,
        target: Target,
        request_id: Callable[[], int],
        monotonic: Callable[[], int],
        clock: Callable[[], int],
        saved: SavedTarget | None = None,
    ) -> None:
        self.target = target
        self._request_id = request_id
        self._monotonic = monotonic
        self._clock = clock
        saved = saved or SavedTarget(target.name)
        now = monotonic()
        self._number = 0
        self._selection = Selection(target.severity, target.patterns, saved.conditions, saved.declined)
        self._suppression = Suppression(now, saved.suppressed)
        self._delivery: Delivery = TrapDelivery()
        self._limit: RateLimit | None = RateLimit(target.rate, now)
        if target.kind is TargetKindNumber.INFORM_V2C:
            self._limit = None  # they wait, and leave at that rate
            restored = [
                self._waiting(inform.urgency, inform.name, inform.condition, inform.varbinds)
                for inform in saved.informs
            ]
            self._delivery = InformDelivery(target.rate, now, restored)
        self._sent = self._acknowledged = self._suppressed = self._failed = self._last_sent = self._lost = 0

    @property
    def health(self) -> TargetHealth:
        """How the receiver stands."""
        return TargetHealth(
            self._sent,
            self._acknowledged,
            self._suppressed,
            self._failed,
            len(self._delivery),
            self._last_sent,
            self._lost,
        )

    @property
    def selection(self) -> Selection:
        """What is for the receiver, and what it was told to last."""
        return self._selection

    def can_take(self, notification: Notification) -> bool:
        """Whether the rate would not hold up ``notification`` now."""
        urgency = self._selection.urgency(notification)
        if urgency is None:
            return True
        if self._limit is None:
            return len(self._delivery) < MAX_WAITING
        return self._limit.allows(urgency, self._monotonic())

    def offer(
        self, notification: Notification, encoded: Callable[[], EncodedNotification], *, perhaps_sent: bool
    ) -> None:
        """Send ``notification`` if it is for this receiver and the rate allows.

        Args:
            notification: what is told.
            encoded: its octets, made when they are needed.
            perhaps_sent: the last process may have sent it, and ended before that was saved. The receiver may
                then believe in what it begins, also where the rate does not allow to say so again.
        """
        urgency = self._selection.urgency(notification)
        if urgency is None:
            self._selection.decline(notification)
            return
        if not self._is_allowed(notification, urgency):
            self._suppress(notification.name)
            if perhaps_sent:
                self._selection.tell(notification, perhaps=True)
            return
        octets = encoded()
        self._selection.tell(notification)
        self._take(notification, urgency, octets)

    def lose(self, events: int) -> None:
        """So many events are not known any more: the receiver is told of them as of what was suppressed."""
        self._lost += events
        self._suppression.count(OTHERS, self._monotonic(), self._clock(), events)

    def send_anyway(self, notification: Notification, encoded: EncodedNotification) -> None:
        """Send what the receiver did not choose and no rate holds up."""
        self._take(notification, max(notification.severity, Severity.INFO), encoded)

    def next(self) -> Waiting | None:
        """What should be sent now; `sent` or `failed` must be told of it before the next call."""
        return self._delivery.next(self._monotonic())

    def datagram(self, waiting: Waiting, agent_address: Callable[[], bytes]) -> bytes:
        """What to send; ``agent_address`` is asked for in version 1."""
        community, content = self.target.community, waiting.content
        if isinstance(content, Version1Fields):
            return trap_v1(community, agent_address(), content)
        make = inform_v2c if self.target.kind is TargetKindNumber.INFORM_V2C else trap_v2c
        return make(community, waiting.request_id, content)

    def sent(self, waiting: Waiting) -> None:
        """The system took it."""
        if self._delivery.sent(waiting, self._monotonic()):
            self._sent += 1
        self._last_sent = self._clock()

    def unsent(self, waiting: Waiting) -> None:
        """The system could not send it: a trap is lost, an inform tried again as if it were not answered."""
        if self._delivery.sent(waiting, self._monotonic()):
            if self.target.kind is TargetKindNumber.INFORM_V2C:
                self._sent += 1
            else:
                self._failed += 1

    def answered(self, request_id: int, *, accepted: bool) -> bool:
        """The receiver answered; whether it had been asked that. ``accepted``: without an error-status."""
        waiting = self._delivery.answered(request_id, self._monotonic())
        if waiting is None:
            return False
        if accepted:
            self._acknowledged += 1
        else:
            self._failed += 1  # it would say the same again
        return True

    def due(self) -> int | None:
        """When `next` or `suppressed` may have something, if nothing happens before; monotonic."""
        delivery = self._delivery.due(self._monotonic())
        summary = self._suppression.due() if self._delivery.can_be_told else None
        return min((due for due in (delivery, summary) if due is not None), default=None)

    def suppressed(self) -> SuppressedSummary | None:
        """What the receiver should be told now that it was not sent; counting begins again then."""
        due = self._suppression.due()
        if due is None or due > self._monotonic() or not self._delivery.can_be_told:
            return None
        summary = self._suppression.summary()
        self._suppression.told()
        return summary

    def saved(self) -> SavedTarget:
        """What must outlive the process."""
        informs = tuple(
            SavedInform(waiting.urgency, waiting.name, waiting.condition, waiting.content)
            for waiting in self._delivery.unfinished()
            if isinstance(waiting.content, bytes)
        )
        return SavedTarget(
            self.target.name, self._told(), self._selection.declined, self._suppression.summary(), informs
        )

    def _told(self) -> tuple[tuple[Condition, Severity], ...]:
        """What the receiver believes to last, if nothing is sent to it any more."""
        told = dict(self._selection.told)
        for waiting in reversed(self._delivery.lost_at_an_end()):
            if waiting.condition is None:
                continue
            if waiting.ends:
                told[waiting.condition] = waiting.urgency
            else:
                told.pop(waiting.condition, None)
        return tuple(told.items())[:MAX_CONDITIONS]

    def _take(self, notification: Notification, urgency: Severity, encoded: EncodedNotification) -> None:
        is_version_1 = self.target.kind is TargetKindNumber.TRAP_V1
        content = encoded.version_1() if is_version_1 else encoded.version_2c()
        ends = notification.state is EventState.CLEARED
        waiting = self._waiting(urgency, notification.name, condition_of(notification), content, ends=ends)
        dropped = self._delivery.add(waiting)
        if dropped is None:
            return
        if self._delivery.answering:
            self._suppress(dropped.name)
        else:
            self._failed += 1
            self._suppression.count(dropped.name, self._monotonic(), self._clock())

    def _is_allowed(self, notification: Notification, urgency: Severity) -> bool:
        """Whether the rate allows a trap; an inform waits instead.

        The end of a condition that the receiver was told of is never held up: without it an alarm would stand
        there for ever. There cannot be more of them than of beginnings that were let pass.
        """
        if self._limit is None:
            return True
        now = self._monotonic()
        if self._selection.ends_what_was_told(notification):
            self._limit.take_anyway(now)
            return True
        return self._limit.take(urgency, now)

    def _suppress(self, name: str) -> None:
        self._suppressed += 1
        self._suppression.count(name, self._monotonic(), self._clock())

    def _waiting(
        self,
        urgency: Severity,
        name: str,
        condition: Condition | None,
        content: bytes | Version1Fields,
        *,
        ends: bool = False,
    ) -> Waiting:
        self._number += 1
        return Waiting(self._number, urgency, name, condition, self._request_id(), content, ends)
