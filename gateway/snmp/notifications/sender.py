"""The sending of notifications to all receivers, and the processing of their answers."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

import msgspec

from gateway.feed.records import Place
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
from gateway.snmp.notifications.backlog import PastEvent, Range
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


class SenderSettings(msgspec.Struct, frozen=True):
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
        unanswered: called with the address of a receiver that did not answer an inform, which is sent again.
        missed: called with the name of a receiver, the ids of the first and the last event that it has missed
            because the event log does not have them, and their number; ``None`` where that is not known, with
            the last id empty.
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
    unanswered: Callable[[Address], None] = lambda _address: None
    missed: Callable[[str, str, str, int | None], None] = lambda _receiver, _first, _last, _number: None


class Wanted(NamedTuple):
    """Events that are fetched for a receiver: its name, and their places."""

    receiver: str
    range: Range


# A receiver may send any number as its error-status.
_STATUSES: Final = range(message.INCONSISTENT_NAME + 1)
_OTHER_STATUS: Final = -1


class NotificationSender:
    """The sender of notifications to all receivers.

    An event is handled once: its epoch and number are remembered, and events that a snapshot of the feed
    repeats are ignored. All receivers are handled together, so they share one position in the sequence of
    events; a new receiver begins with the events of the present core. Events before that position that could
    not be sent are owed to each receiver: they are fetched from the event log (`wanted`, `fetched`), and sent
    late.

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
        self._encoder = _encoder(settings)
        self._last = saved or SavedNotifications()
        self._own = OwnNotifications(settings.root, settings.gateway, settings.boot, self._last.own)
        self._epoch, self._handled = self._last.epoch, self._last.number
        if saved is not None and not self._epoch:
            # The last process ended before it had saved that it handled an event: those of the core that it
            # began with are owed.
            self._epoch = saved.boot
        self._received_epoch = self._epoch
        self._has_begun = self._epoch > 0
        kept: Mapping[str, SavedTarget] = {
            target.name: self._with_late_informs(target) for target in self._last.targets
        }
        self._targets = [self._sender_of(target, kept.get(target.name)) for target in settings.targets]
        self._logged: Place = (0, 0)  # the last event of those that were sent late
        self._offenders: OrderedDict[str, int] = OrderedDict()
        self._failures_limit = RateLimit(AUTHENTICATION_FAILURES, outside.monotonic())
        self._began = outside.monotonic()
        self._next_check = self._began + CHECK_INTERVAL
        self._find_targets()
        self.counts = NotificationCounts()
        """The messages that were sent and received."""
        self.revision = 0
        """A number that changes whenever the result of `saved` changes."""

    def _sender_of(self, target: Target, saved: SavedTarget | None) -> TargetSender:
        outside, name = self._outside, target.name
        return TargetSender(
            target,
            outside.request_id,
            outside.monotonic,
            outside.clock,
            saved,
            outside.policy(name),
            epoch=max(self._settings.boot, self._epoch if saved is None else 0),
            restricted=outside.is_restricted(name),
        )

    def _find_targets(self) -> None:
        """Make what is found by the receivers, which have changed."""
        self._by_address: dict[Address, list[TargetSender]] = {}
        for each in self._targets:
            # Several receivers of the configuration may have one address.
            self._by_address.setdefault(each.target.address, []).append(each)
        self._active = AlarmCheck({each.target.name: each.selection for each in self._targets})
        self._unsent: deque[Difference] = deque()

    def change(self, settings: SenderSettings) -> list[SavedTarget]:
        """Send to other receivers from now on; return those that were removed, with what they are not sent.

        A receiver of the same name goes on with what waits for it, and with its counts. One that is new gets
        what comes from now on, and the alarms that last.
        """
        former = {each.target.name: each for each in self._targets}
        self._settings, self._encoder = settings, _encoder(settings)
        self._targets = []
        for target in settings.targets:
            known = former.pop(target.name, None)
            if known is None:
                known = self._sender_of(target, None)
            elif not known.redirect(target):
                known, before = self._sender_of(target, known.saved()), known
                known.go_on_counting(before)
            self._targets.append(known)
        self._find_targets()
        self._changed()
        return [each.saved() for each in former.values()]

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
                self._owe(notification.epoch, notification.number, notification.number)
                self._changed()
                return
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

        Events are numbered without holes, so those that a snapshot leaves out are owed: the core has dropped
        them.
        """
        if (epoch, number) <= (self._epoch, self._handled):
            return False
        if repeated and self._has_begun:
            self._owe(epoch, self._handled + 1 if epoch == self._epoch else 1, number - 1)
        self._epoch, self._handled = epoch, number
        return True

    def events_made(self, epoch: int, number: int, *, more: bool = False) -> None:
        """Record that a former core made events up to ``number``; those not handled by now are owed.

        In a snapshot this follows the events of that core that are still known. ``more`` if it may have made
        further ones, whose number is not known: each receiver is sent that, once.
        """
        if self._has_begun and (epoch, number) > (self._epoch, self._handled):
            self._owe(epoch, self._handled + 1 if epoch == self._epoch else 1, number)
            self._epoch, self._handled = epoch, number
            self._changed()
        if self._has_begun and more and epoch >= self._epoch:
            self._miss_unknown(self._epoch, f"{self._settings.gateway}.{self._epoch}.{self._handled + 1}")
            self._epoch, self._handled = epoch + 1, 0  # so that no later snapshot reports it again
            self._changed()

    def _miss_unknown(self, epoch: int, first: str) -> None:
        for target in self._targets:
            if not target.is_new and epoch >= target.since:
                target.miss_unknown(first)
                self._outside.missed(target.target.name, first, "", None)

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
        for target in self._targets:
            target.is_new = False
        if any(were_held):
            self._changed()

    def _owe(self, epoch: int, first: int, last: int) -> None:
        """Note for each receiver that events are to be sent from the event log."""
        for target in self._targets:
            # A new one begins with what comes from now on, and not where the last process ended.
            if epoch >= target.since and not (target.is_new and epoch <= self._last.epoch):
                target.owe(epoch, first, last)

    def wanted(self) -> Wanted | None:
        """Return the events to fetch now, for `fetched`; ``None`` for none."""
        for place, target in enumerate(self._targets):
            wanted = target.wanted()
            if wanted is not None:
                # The next time another one is the first.
                self._targets.append(self._targets.pop(place))
                return Wanted(target.target.name, wanted)
        return None

    def fetched(self, wanted: Wanted, events: Sequence[PastEvent], through: Place) -> None:
        """Take events that were fetched, to send them late.

        Args:
            wanted: what `wanted` returned.
            events: those that are known, in order, as the receiver gets them.
            through: the place up to which no more of them are known.
        """
        target = next((each for each in self._targets if each.target.name == wanted.receiver), None)
        if target is None or target.wanted() != wanted.range:
            return  # its roles have changed meanwhile, or more is owed, or it was removed
        epoch, _, last = wanted.range
        number = last if through[0] > epoch else through[1] if through[0] == epoch else 0
        for begin, end in target.fetched(wanted.range, events, number):
            gateway = self._settings.gateway
            first_id, last_id = f"{gateway}.{epoch}.{begin}", f"{gateway}.{epoch}.{end}"
            target.miss(first_id, last_id, end - begin + 1)
            self._outside.missed(wanted.receiver, first_id, last_id, end - begin + 1)
        self._changed()

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

    def moved(self, address: Address) -> None:
        """Send informs without an answer again at once: an address leads to another host now."""
        for target in self._by_address.get(address, ()):
            target.moved()
        self._outside.wake()

    def received(self, datagram: bytes, *addresses: Address) -> None:
        """Take a receiver's answer; a datagram that answers no inform of this agent is ignored.

        Args:
            datagram: the answer.
            addresses: those of receivers from which it may come: a name may lead to the address of another.
        """
        self.counts.received += 1
        if is_version_3(datagram):
            self._received_secured(datagram, self._at(addresses))
            return
        try:
            envelope = message.read_message(datagram)
            if envelope.version != message.VERSION_2C or envelope.pdu_type != message.RESPONSE:
                return
            request_id, status = message.read_status(datagram, envelope.start, envelope.stop)
        except (BerError, message.UnknownVersionError):
            return
        accepted = status == message.NO_ERROR
        for target in self._at(addresses):
            # The request id says which of them it was.
            if target.answered(request_id, accepted=accepted):
                self._count_answer(status)
                self._changed()
                return

    def _at(self, addresses: Iterable[Address]) -> Iterator[TargetSender]:
        return (target for address in addresses for target in self._by_address.get(address, ()))

    def _received_secured(self, datagram: bytes, targets: Iterable[TargetSender]) -> None:
        """Take a message of version 3."""
        for target in targets:
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
        busy = [
            not (self._send(target, share) and self._send_past(target, share)) for target in self._targets
        ]
        dues = [
            due for target in self._targets for due in (target.due(), target.past_due()) if due is not None
        ]
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
                if begun is not None and not target.is_owed(begun.event_id) and target.can_take(begun):
                    self._offer(begun, [target])
            return
        # Looked at once more, because an event may have begun it again since the check.
        if not has_ended(condition, active):
            return
        receives_end = self._outside.receives_end
        ended = self._own.cleared(self._outside.clock(), condition)
        # Not into a full queue: what would be dropped for it might be another end.
        concerned = [
            target
            for target in self._targets
            if target.selection.has_raised(condition)
            and receives_end(target.target.name, condition)
            and target.can_take(ended)
        ]
        if concerned:
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
                is_first = target.sent(waiting)
                self._count_datagram(target, asks=asks)
            else:
                is_first = target.unsent(waiting)
                self._changed()
            if not is_first:
                self._outside.unanswered(address)
        return True

    def _send_past(self, target: TargetSender, share: int) -> bool:
        """Send up to ``share`` events late to one receiver; return whether the system took them."""
        owed = target.owed
        if owed:
            was_taken = self._send_some_past(target, share)
            if target.owed != owed:
                self._changed()
            return was_taken
        return True

    def _send_some_past(self, target: TargetSender, share: int) -> bool:
        for _ in range(share):
            past = target.next_past()
            if past is None or past.notification is None:
                break
            encoded = self._encoded(past.notification)
            urgency = target.selection.urgency(past.notification) or Severity.INFO
            try:
                encoded.objects()
                if target.sends_at_once:
                    result = self._sent_late(target, past.notification, encoded)
                    if result is SendResult.FAILED:
                        target.past_refused()
                        break
                    if result is SendResult.BUSY:
                        return False
                else:
                    target.take(past.notification, urgency, encoded)
            except ValueError as error:  # a value that BER cannot say
                self._outside.failed(error)
            target.past_done(past, was_sent=True)
            if past.place > self._logged:
                self._logged = past.place
                self._outside.record(past.notification, encoded)
        return True

    def _sent_late(
        self, target: TargetSender, notification: Notification, encoded: EncodedNotification
    ) -> SendResult:
        """Send a trap that is late; what the system refuses is still owed."""
        result = self._outside.send(target.target.address, target.trap(encoded, self._outside.agent_address))
        if result is SendResult.SENT:
            target.sent_at_once(notification, accepted=True)
            self._count_datagram(target)
        return result

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


def _encoder(settings: SenderSettings) -> NotificationEncoder:
    # With the longest community of all receivers: one encoding must fit into a datagram for each of them.
    longest = max((target.overhead for target in settings.targets), default=0)
    return NotificationEncoder(settings.root, settings.object_id, longest)


def _if_permitted(
    ended: Notification,
    condition: Condition,
    receives_end: Callable[[str, Condition], bool],
    receiver: str,
) -> Notification | None:
    return ended if receives_end(receiver, condition) else None


def _late(notification: Notification) -> Notification:
    return msgspec.structs.replace(notification, is_late=True)
