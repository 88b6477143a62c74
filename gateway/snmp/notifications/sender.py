"""The sending of notifications to all receivers, and the processing of their answers."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec

from gateway.model.observations import Severity
from gateway.model.times import SECOND
from gateway.snmp import message
from gateway.snmp.ber import BerError, Oid
from gateway.snmp.notifications.alarm_check import (
    CHECK_INTERVAL,
    AlarmCheck,
    Begun,
    Difference,
    has_ended,
    is_active_and_unsent,
)
from gateway.snmp.notifications.delivery import RateLimit
from gateway.snmp.notifications.encoding import EncodedNotification, NotificationEncoder
from gateway.snmp.notifications.notification import ActiveAlarms, Condition, Notification, OwnNotifications
from gateway.snmp.notifications.receiver import Address, Target, TargetHealth, TargetSender
from gateway.snmp.notifications.saved import SavedNotifications, SavedTarget
from gateway.snmp.notifications.secured import ReplyKind
from gateway.snmp.standard_groups import NotificationCounts
from gateway.snmp.v3.messages import is_version_3

DATAGRAMS_A_TURN: Final = 64
"""The maximum number of datagrams of one `NotificationSender.work` (at least one to each receiver)."""

DIFFERENCES_A_TURN: Final = 20
"""The maximum number of unreported beginnings and ends that one call of it sends, in about a millisecond."""

_REPLAY: Final = 10 * SECOND
"""Nanoseconds after the start in which a running core may repeat events that the last process sent."""
_BUSY_PAUSE: Final = 2 * 10**6
AUTHENTICATION_FAILURE_PAUSE: Final = 60 * SECOND
"""The minimum of nanoseconds between two authenticationFailure that one address causes."""

MAX_OFFENDERS: Final = 256
"""The maximum number of such addresses remembered; all together cause `AUTHENTICATION_FAILURES` a second."""

AUTHENTICATION_FAILURES: Final = 1


class SendResult(enum.Enum):
    """The result of sending a datagram."""

    SENT = "sent"
    BUSY = "busy"
    """The system's queue is full; the datagram is sent again later."""
    FAILED = "failed"
    """The system refused the datagram, and would refuse it again."""


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """The settings of a sender.

    Attributes:
        root: the configured root of all object identifiers.
        object_id: sysObjectID.
        gateway: the uuid of the gateway.
        boot: the number of starts of its core when this process began.
        configuration: the digest of the configuration.
        targets: the receivers.
        late_after: the age in nanoseconds above which an event of a first snapshot is late.
    """

    root: Oid
    object_id: Oid
    gateway: str
    boot: int
    configuration: str
    targets: tuple[Target, ...]
    late_after: int = 5 * SECOND


@dataclass(frozen=True, slots=True)
class Outside:
    """The functions that a sender calls for I/O, times and alarms.

    Attributes:
        send: passes a datagram to the system; never waits, never raises.
        agent_address: returns our IPv4 address on the route to a receiver; else `NO_AGENT_ADDRESS`.
        request_id: returns a number from 0 to 2^31-1 that cannot be guessed.
        monotonic: returns monotonic nanoseconds.
        clock: returns nanoseconds since 1970-01-01 UTC.
        up_time: returns sysUpTime, hundredths of a second.
        active: returns the alarms of each source; ``None`` while they are unknown.
        alarm: returns the raising notification of an alarm by source and condition; ``None`` if it is over.
        wake: called when `NotificationSender.work` has something to do.
        failed: called with an internal error; limits its own rate.
        record: called once with each notification that is made, and with its octets, also if it is for no
            receiver.
        is_restricted: returns whether a receiver may not have everything, by its name.
        policy: returns what stands for the rules of a receiver, by its name: equal for equal rules; ``None``
            while none are known.
        receives_end: returns whether a receiver may get the end of an alarm that no event reported.
    """

    send: Callable[[Address, bytes], SendResult]
    agent_address: Callable[[Address], bytes]
    request_id: Callable[[], int]
    monotonic: Callable[[], int]
    clock: Callable[[], int]
    up_time: Callable[[], int]
    active: Callable[[], Mapping[str, ActiveAlarms] | None]
    alarm: Callable[[str, str], Notification | None]
    wake: Callable[[], None]
    failed: Callable[[Exception], None]
    record: Callable[[Notification, EncodedNotification], None] = lambda _notification, _encoded: None
    is_restricted: Callable[[str], bool] = lambda _: False
    policy: Callable[[str], str | None] = lambda _: None
    receives_end: Callable[[str, Condition], bool] = lambda _receiver, _condition: True


# A receiver may send any number as its error-status.
_STATUSES: Final = range(message.INCONSISTENT_NAME + 1)
_OTHER_STATUS: Final = -1


class NotificationSender:
    """The sender of notifications to all receivers.

    An event is handled once: its epoch and number are remembered, and events that a snapshot of the feed
    repeats are ignored. All receivers are handled together, so they share one position in the sequence of
    events; a new receiver begins there, too.

    Args:
        settings: the settings.
        outside: the functions for I/O, times and alarms.
        saved: the state that the last process saved.
    """

    def __init__(
        self, settings: SenderSettings, outside: Outside, saved: SavedNotifications | None = None
    ) -> None:
        self._settings = settings
        self._outside = outside
        longest = max((target.overhead for target in settings.targets), default=0)
        # With the longest community of all receivers: one encoding must fit into a datagram for each of them.
        self._encoder = NotificationEncoder(settings.root, settings.object_id, longest)
        self._last = saved or SavedNotifications()
        self._own = OwnNotifications(settings.root, settings.gateway, settings.boot, self._last.own)
        self._epoch, self._handled = self._last.epoch, self._last.number
        self._received_epoch = self._epoch
        self._has_begun = self._epoch > 0
        kept: Mapping[str, SavedTarget] = {
            target.name: self._with_late_informs(target) for target in self._last.targets
        }
        self._targets = [
            TargetSender(
                target,
                outside.request_id,
                outside.monotonic,
                outside.clock,
                kept.get(target.name),
                outside.policy(target.name),
                restricted=outside.is_restricted(target.name),
            )
            for target in settings.targets
        ]
        self._offenders: OrderedDict[str, int] = OrderedDict()
        self._failures_limit = RateLimit(AUTHENTICATION_FAILURES, outside.monotonic())
        self._began = outside.monotonic()
        self._next_check = self._began + CHECK_INTERVAL
        self._by_address: dict[Address, list[TargetSender]] = {}
        for each in self._targets:
            # Several receivers of the configuration may have one address.
            self._by_address.setdefault(each.target.address, []).append(each)
        self._active = AlarmCheck({each.target.name: each.selection for each in self._targets})
        self._unsent: deque[Difference] = deque()
        self.counts = NotificationCounts()
        """The messages that were sent and received."""
        self.revision = 0
        """A number that changes whenever the result of `saved` changes."""

    @property
    def health(self) -> Mapping[str, TargetHealth]:
        """The state of each receiver, by its name."""
        return {target.target.name: target.health for target in self._targets}

    def start(self) -> None:
        """Notify receivers of the start of the agent.

        The notification is warmStart after a restart within the same boot of the gateway and with the same
        configuration, else coldStart (RFC 3418).
        """
        last, settings = self._last, self._settings
        warm = (last.boot, last.configuration) == (settings.boot, settings.configuration)
        self._offer(self._own.started(self._outside.clock(), warm=warm))

    def notify(self, notification: Notification) -> None:
        """Send an event to the receivers that it is for; one that was handled before is ignored.

        An event of a former core is ignored where no event was handled yet: no SNMP agent was running then.
        """
        if notification.number:
            if not self._comes_to(notification.epoch, notification.number, repeated=notification.repeated):
                return
            if notification.is_late and not self._has_begun:
                return
            self._has_begun = True
            if not notification.repeated:
                self._received_epoch = notification.epoch
            elif self._is_late(notification):
                notification = msgspec.structs.replace(notification, is_late=True)
        self._offer(notification)

    def _is_late(self, notification: Notification) -> bool:
        """Return whether an event of a snapshot could not be sent when it happened.

        The first snapshot of a core contains the events since its start, which are not late at once.
        """
        age = self._outside.clock() - notification.received if notification.received else 0
        return (
            notification.is_late
            or notification.epoch == self._received_epoch
            or age > self._settings.late_after
        )

    def _comes_to(self, epoch: int, number: int, *, repeated: bool) -> bool:
        """Return whether an event follows the last one that was handled; if so, it becomes the last one.

        Events are numbered without holes, so those that a snapshot leaves out may have been lost: the core
        has dropped them, or no notification could be made of them.
        """
        if (epoch, number) <= (self._epoch, self._handled):
            return False
        if repeated:
            self._lose(epoch, number - 1)
        self._epoch, self._handled = epoch, number
        return True

    def events_made(self, epoch: int, number: int) -> None:
        """Record that a former core made events up to ``number``; those not handled by now may be lost.

        In a snapshot this follows the events of that core that are still known.
        """
        if self._has_begun and (epoch, number) > (self._epoch, self._handled):
            self._lose(epoch, number)
            self._epoch, self._handled = epoch, number
            self._changed()

    def policy_changing(self) -> None:
        """Send nothing that waits to receivers whose roles have changed, until `policy_changed`."""
        outside = self._outside
        for target in self._targets:
            name = target.target.name
            target.policy_changing(outside.policy(name), restricted=outside.is_restricted(name))

    def policy_changed(self) -> None:
        """Send what waits as far as the present roles of each receiver permit."""
        were_held = [
            target.policy_changed(self._outside.policy(target.target.name), self._encoded)
            for target in self._targets
        ]
        if any(were_held):
            self._changed()

    def _lose(self, epoch: int, number: int) -> None:
        """Count the events up to ``number`` that were not handled: they may have been lost."""
        lost = number - (self._handled if epoch == self._epoch else 0)
        # Before the first event nothing was missed: there was no SNMP agent then.
        if lost and self._has_begun:
            for target in self._targets:
                target.lose(lost)

    def test(self, name: str) -> Notification:
        """Send agTest to one receiver, regardless of its filter. Raises ``KeyError`` for an unknown one."""
        target = {target.target.name: target for target in self._targets}[name]
        notification = self._own.test(self._outside.clock(), name)
        self._send_anyway(target, notification)
        return notification

    def wrong_community(self, sender: str) -> None:
        """Notify receivers of a request with an unknown community, from the address ``sender``."""
        now = self._outside.monotonic()
        last = self._offenders.get(sender)
        if last is not None and now < last + AUTHENTICATION_FAILURE_PAUSE:
            return
        if not self._failures_limit.take(Severity.CRITICAL, now):
            return  # addresses can be forged: many of them are no reason for many notifications
        self._offenders[sender] = now
        self._offenders.move_to_end(sender)
        if len(self._offenders) > MAX_OFFENDERS:
            self._offenders.popitem(last=False)
        # It names an address, which is private.
        targets = [each for each in self._targets if not self._outside.is_restricted(each.target.name)]
        self._offer(self._own.authentication_failure(self._outside.clock(), sender), targets)

    def received(self, datagram: bytes, address: Address) -> None:
        """Take a receiver's answer; a datagram that answers no inform of this agent is ignored."""
        self.counts.received += 1
        if is_version_3(datagram):
            self._received_secured(datagram, address)
            return
        try:
            envelope = message.read_message(datagram)
            if envelope.version != message.VERSION_2C or envelope.pdu_type != message.RESPONSE:
                return
            request_id, status = message.read_status(datagram, envelope.start, envelope.stop)
        except (BerError, message.UnknownVersionError):
            return
        accepted = status == message.NO_ERROR
        for target in self._by_address.get(address, ()):
            # The request id says which of them it was.
            if target.answered(request_id, accepted=accepted):
                self._count_answer(status)
                self._changed()
                return

    def _received_secured(self, datagram: bytes, address: Address) -> None:
        """Take a message of version 3."""
        for target in self._by_address.get(address, ()):
            reply = target.received(datagram)
            if reply is not None:
                if reply.kind is not ReplyKind.RESEND:
                    self._count_answer(reply.status)
                self._changed()
                return

    def _count_answer(self, status: int) -> None:
        self.counts.statuses[status if status in _STATUSES else _OTHER_STATUS] += 1

    def work(self) -> int | None:
        """Send all datagrams that are due, up to `DATAGRAMS_A_TURN`.

        Returns when to call again if nothing happens before, monotonic nanoseconds; ``None`` for not at all.
        """
        for target in self._targets:
            summary = target.suppressed()
            if summary is not None:
                notification = self._own.suppressed(self._outside.clock(), target.target.name, summary)
                self._send_anyway(target, notification)
        self._check_alarms()
        # An equal share for each, so that a receiver with a long queue does not hold up the others.
        share = max(1, DATAGRAMS_A_TURN // max(1, len(self._targets)))
        busy = [not self._send(target, share) for target in self._targets]
        dues = [due for target in self._targets if (due := target.due()) is not None]
        due = min([*dues, self._next_check]) if self._targets else None
        if due is None:
            return None
        soon = self._outside.monotonic() + _BUSY_PAUSE
        if any(busy):
            due = max(due, soon)
        return min(due, soon) if self._active.under_way or self._unsent else due

    def _send_anyway(self, target: TargetSender, notification: Notification) -> None:
        encoded = self._encoded(notification)
        target.send_anyway(notification, encoded)
        self._outside.record(notification, encoded)
        self._changed()

    def saved(self) -> SavedNotifications:
        """Return the state that must outlive the process."""
        return SavedNotifications(
            self._epoch,
            self._handled,
            self._settings.boot,
            self._settings.configuration,
            self._own.last,
            tuple(target.saved() for target in self._targets),
        )

    def _check_alarms(self) -> None:
        """Send, a few at a time, beginnings and ends that no event reported."""
        now = self._outside.monotonic()
        if now >= self._next_check:
            self._next_check = now + CHECK_INTERVAL
            self._active.begin()
        if not (self._active.under_way or self._unsent):
            return
        active = self._outside.active()
        self._unsent.extend(self._active.go_on(active))
        if active is None:
            # The alarms are unknown: what was found out before may not be so any more.
            self._unsent.clear()
            return
        for _ in range(min(DIFFERENCES_A_TURN, len(self._unsent))):
            self._settle(self._unsent.popleft(), active)

    def _settle(self, difference: Difference, active: Mapping[str, ActiveAlarms]) -> None:
        """Send a notification of a difference, unless an event has resolved it meanwhile."""
        condition = difference.condition
        if isinstance(difference, Begun):
            target = next(each for each in self._targets if each.target.name == difference.receiver)
            if is_active_and_unsent(condition, target.selection, active):
                begun = self._outside.alarm(*condition)
                if begun is not None and target.can_take(begun):
                    self._offer(begun, [target])
            return
        receives_end = self._outside.receives_end
        concerned = [
            target
            for target in self._targets
            if target.selection.has_raised(condition) and receives_end(target.target.name, condition)
        ]
        # Looked at once more, because an event may have begun it again since the check.
        if concerned and has_ended(condition, active):
            ended = self._own.cleared(self._outside.clock(), condition)
            again = partial(_if_permitted, ended, condition, receives_end)
            self._offer(msgspec.structs.replace(ended, again=again), concerned)

    def _send(self, target: TargetSender, share: int) -> bool:
        """Send up to ``share`` datagrams to one receiver; return whether the system took them."""
        address = target.target.address
        for _ in range(share):
            waiting = target.next()
            if waiting is None:
                break
            asks = target.asks_for_engine
            datagram = target.datagram(waiting, self._outside.agent_address)
            result = self._outside.send(address, datagram)
            if result is SendResult.BUSY:
                return False
            if result is SendResult.SENT:
                target.sent(waiting)
                self._count_datagram(target, asks=asks)
            else:
                target.unsent(waiting)
        return True

    def _offer(self, notification: Notification, targets: Sequence[TargetSender] | None = None) -> None:
        """Offer ``notification`` to these receivers, by default to all; encoded once, if at all."""
        whole, forms = notification, notification.forms
        if forms:
            whole = msgspec.structs.replace(notification, forms={})
            if notification.is_late:
                forms = {name: form and _late(form) for name, form in forms.items()}
        perhaps_sent = self._is_perhaps_sent(notification)
        whole_encoded = self._encoded(whole)
        encodings = {id(whole): whole_encoded}
        try:
            for target in self._targets if targets is None else targets:
                form = forms.get(target.target.name, whole) if forms else whole
                if form is None:
                    target.selection.decline(whole)
                    continue
                urgency = target.admit(form, perhaps_sent=perhaps_sent)
                if urgency is None:
                    continue
                encoded = encodings.get(id(form))
                if encoded is None:
                    encoded = encodings[id(form)] = self._encoded(form)
                encoded.objects()  # before the receiver counts as notified: it may raise
                if not (target.sends_at_once and self._send_at_once(target, form, encoded)):
                    target.take(form, urgency, encoded)
        except ValueError as error:  # a value that BER cannot say: one event less, not the end of all
            self._outside.failed(error)
        self._outside.record(whole, whole_encoded)
        self._changed()

    def _send_at_once(
        self, target: TargetSender, notification: Notification, encoded: EncodedNotification
    ) -> bool:
        """Send a trap before which none waits; return whether the system took or refused it."""
        outside = self._outside
        datagram = target.trap(encoded, outside.agent_address)
        result = outside.send(target.target.address, datagram)
        if result is SendResult.BUSY:
            return False
        target.sent_at_once(notification, accepted=result is SendResult.SENT)
        if result is SendResult.SENT:
            self._count_datagram(target)
        return True

    def _count_datagram(self, target: TargetSender, *, asks: bool = False) -> None:
        self.counts.datagrams += 1
        self.counts.traps += not target.target.is_inform
        self.counts.engine_questions += asks

    def _is_perhaps_sent(self, notification: Notification) -> bool:
        """Return whether the last process may have handled ``notification`` after it last saved its state."""
        last = self._last
        follows = notification.epoch == last.epoch and notification.number > last.number > 0
        return follows and self._outside.monotonic() < self._began + _REPLAY

    def _with_late_informs(self, target: SavedTarget) -> SavedTarget:
        """Mark the informs that the last process left without an answer as late."""
        informs = (replace(each, varbinds=self._encoder.late(each.varbinds)) for each in target.informs)
        return replace(target, informs=tuple(informs))

    def _encoded(self, notification: Notification) -> EncodedNotification:
        return EncodedNotification(self._encoder, notification, self._outside.up_time())

    def _changed(self) -> None:
        self.revision += 1
        self._outside.wake()


def _if_permitted(
    ended: Notification,
    condition: Condition,
    receives_end: Callable[[str, Condition], bool],
    receiver: str,
) -> Notification | None:
    return ended if receives_end(receiver, condition) else None


def _late(notification: Notification) -> Notification:
    return msgspec.structs.replace(notification, is_late=True)
