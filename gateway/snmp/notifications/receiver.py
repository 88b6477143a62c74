"""One receiver: which notifications are sent to it, when, and what it is owed."""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import msgspec

from gateway.model.observations import EventState, Severity
from gateway.model.times import SECOND
from gateway.snmp.fixed_mib import TargetKindNumber
from gateway.snmp.notifications.backlog import Owed, PastEvent, Range, missing, place_of
from gateway.snmp.notifications.delivery import (
    MAX_WAITING,
    WINDOW,
    Delivery,
    Dropped,
    InformDelivery,
    RateLimit,
    TrapDelivery,
    Waiting,
)
from gateway.snmp.notifications.encoding import (
    EncodedNotification,
    Version1Fields,
    inform_v2c,
    trap_v1,
    trap_v2c,
)
from gateway.snmp.notifications.notification import (
    MAX_CONDITIONS,
    Condition,
    Notification,
    SuppressedSummary,
    condition_of,
)
from gateway.snmp.notifications.saved import SavedInform, SavedTarget
from gateway.snmp.notifications.secured import OVERHEAD, Reply, ReplyKind, Secured
from gateway.snmp.notifications.selection import Selection
from gateway.snmp.notifications.suppression import OTHERS, Suppression, joined

Address: TypeAlias = tuple[str, int]
"""An IPv4 or IPv6 literal or a DNS name, as configured, and a UDP port."""


def is_name(host: str) -> bool:
    """Return whether the host of an address is a DNS name, and no literal."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def zone_of(host: str) -> str:
    """Return the zone of an IPv6 literal, such as ``eth0`` in ``fe80::1%eth0``; empty for none."""
    return "" if is_name(host) else host.partition("%")[2]


def is_looked_up(host: str) -> bool:
    """Return whether only the system knows where a host is now: a DNS name, or a literal with a zone.

    The number of an interface is not known before there is one of that name, and changes with it.
    """
    return is_name(host) or bool(zone_of(host))


@dataclass(frozen=True, slots=True)
class Target:
    """The settings of a receiver.

    Attributes:
        name: its configured name.
        address: the address on which it listens.
        kind: the SNMP version, and whether it acknowledges.
        community: sent with each notification; never shown.
        severity: the lowest severity that is sent.
        patterns: patterns of ``package:event``, one of which an event must match (`fnmatch.fnmatchcase`).
        rate: notifications a second.
        window: the maximum number of informs without an answer.
        backlog_rate: notifications a second of what could not be sent at its time.
        backlog: the number of events of that; beyond it the oldest are counted, and not sent.
        secured: encloses its notifications in messages of version 3; ``None`` in versions 1 and 2c.
    """

    name: str
    address: Address
    kind: TargetKindNumber
    community: bytes = field(repr=False)
    severity: Severity = Severity.INFO
    patterns: tuple[str, ...] = ("*",)
    rate: int = 100
    window: int = WINDOW
    backlog_rate: int = 100
    backlog: int = 100_000
    secured: Secured | None = field(default=None, repr=False)

    @property
    def is_inform(self) -> bool:
        """Whether the receiver answers its notifications."""
        return self.kind in {TargetKindNumber.INFORM_V2C, TargetKindNumber.INFORM_V3}

    @property
    def overhead(self) -> int:
        """The maximum number of octets that stand in a message in the place of a community."""
        return len(self.community) if self.secured is None else OVERHEAD


class TargetHealth(msgspec.Struct, frozen=True):
    """The state of a receiver; counters are since the start of the SNMP agent.

    Attributes:
        sent: notifications that were sent, each counted once, without retransmissions.
        acknowledged: informs that were answered.
        suppressed: traps that were not sent because of the configured rate.
        failed: all other notifications that were given up: informs that were not delivered, for whatever
            reason, and traps that the system did not send and that are no events.
        waiting: informs not answered yet.
        last_sent: nanoseconds since 1970-01-01 UTC, 0 for never.
        lost: events that this receiver missed: the event log does not have them, and it is not known which
            of them were for it.
        owed: events that are still to be sent from the event log.
    """

    sent: int = 0
    acknowledged: int = 0
    suppressed: int = 0
    failed: int = 0
    waiting: int = 0
    last_sent: int = 0
    lost: int = 0
    owed: int = 0


PAST_PAUSE: Final = SECOND
"""Nanoseconds until the system is asked again to send an event that is late, after it refused that."""


class TargetSender:
    """The sender for one receiver: it decides which notifications are sent, and when.

    Args:
        target: the receiver.
        request_id: returns a new request id, which cannot be guessed from outside.
        monotonic: returns monotonic nanoseconds; all times but those shown are of this clock.
        clock: returns nanoseconds since 1970-01-01 UTC.
        saved: the state of this receiver that the last process saved.
        policy: what stands for its rules (`Outside.policy`).
        epoch: that of the present core: a new receiver begins with its events.
        restricted: they do not let it have everything, or are not known yet.

    Attributes:
        is_new: the last process did not have this receiver, and it gets what comes from now on.
        since: the epoch of the core with whose events it began.
    """

    def __init__(
        self,
        target: Target,
        request_id: Callable[[], int],
        monotonic: Callable[[], int],
        clock: Callable[[], int],
        saved: SavedTarget | None = None,
        policy: str | None = None,
        *,
        epoch: int = 0,
        restricted: bool = False,
    ) -> None:
        self.target = target
        self._request_id = request_id
        self._monotonic = monotonic
        self._clock = clock
        self.is_new = saved is None
        saved = saved or SavedTarget(target.name, since=epoch)
        self.since = saved.since
        now = monotonic()
        self._owed = Owed(saved.owed)
        self._past: deque[PastEvent] = deque()
        self._past_limit = RateLimit(target.backlog_rate, now)
        self._past_not_before = now
        self._number = 0
        self._selection = Selection(
            target.severity, target.patterns, saved.conditions, saved.declined, saved.uncertain
        )
        self._suppression = Suppression(now, saved.suppressed)
        self._sent = self._acknowledged = self._suppressed = self._failed = self._last_sent = self._lost = 0
        self._is_refused = False
        self._delivery: Delivery = TrapDelivery()
        self._limit: RateLimit | None = RateLimit(target.rate, now)
        if target.is_inform:
            self._limit = None  # they wait, and leave at that rate
            restored = [
                self._waiting(
                    *(inform.urgency, inform.name, inform.condition, inform.varbinds),
                    event_id=inform.event_id,
                )
                for inform in saved.informs
            ]
            self._delivery = InformDelivery(target.rate, now, restored, target.window)
        else:
            self._make_traps_of(saved.informs)
        self._policy = saved.policy
        self._is_held = False
        self.policy_changing(policy, restricted=restricted)

    def redirect(self, target: Target) -> bool:
        """Send to another address, or by another community or user; return whether no more has changed."""
        former = self.target
        if former != replace(
            target, address=former.address, community=former.community, secured=former.secured
        ):
            return False
        self.target = target
        return True

    def go_on_counting(self, former: TargetSender) -> None:
        """Go on with the counts of the sender to the same receiver before."""
        before = former.health
        self._sent, self._acknowledged = before.sent, before.acknowledged
        self._suppressed, self._last_sent, self._lost = before.suppressed, before.last_sent, before.lost
        self._failed += before.failed
        self.is_new = former.is_new

    def _make_traps_of(self, informs: Sequence[SavedInform]) -> None:
        """Owe what a receiver that gets traps now was sent as informs, and has not answered."""
        for inform in informs:
            if not self._owe_again(inform.event_id, inform.condition, inform.urgency):
                self._failed += 1
                self._suppression.count(inform.name, self._monotonic(), self._clock(), uncertain=True)

    @property
    def health(self) -> TargetHealth:
        """The state of the receiver."""
        return TargetHealth(
            self._sent,
            self._acknowledged,
            self._suppressed,
            self._failed,
            len(self._delivery),
            self._last_sent,
            self._lost,
            len(self._owed),
        )

    @property
    def selection(self) -> Selection:
        """The filter of the receiver, and the conditions that were raised at it."""
        return self._selection

    def can_take(self, notification: Notification) -> bool:
        """Return whether nothing that is known would hold up ``notification`` now: no rate, no full queue."""
        if self._is_refused and self._owed:
            return False  # what is owed is tried again and again, and finds out when there is a way
        urgency = self._selection.urgency(notification)
        if urgency is None:
            return True
        if self._limit is None:
            return len(self._delivery) < MAX_WAITING
        is_end = self._selection.ends_a_raised_condition(notification)  # the rate holds up none
        return is_end or self._limit.allows(urgency, self._monotonic())

    @property
    def sends_at_once(self) -> bool:
        """Whether a notification that is taken now is a trap, and none waits before it."""
        return self._limit is not None and not len(self._delivery)

    def admit(self, notification: Notification, *, perhaps_sent: bool) -> Severity | None:
        """Return the urgency of a notification for this receiver; ``None`` if it is not to be sent.

        It is sent if it is for this receiver and the rate allows: `take` or `sent_at_once` must follow.

        Args:
            notification: the notification.
            perhaps_sent: the last process may have sent it, and ended before that was saved. The receiver may
                then have the condition raised, also where the rate does not allow to send it again.
        """
        urgency = self._selection.urgency(notification)
        if urgency is None:
            self._selection.decline(notification)
            return None
        if not self._is_allowed(notification, urgency):
            self._suppress(notification.name, uncertain=perhaps_sent)
            if perhaps_sent:
                # The last process may have been killed between sending and saving: the end of this condition
                # must go to the receiver.
                self._selection.note_sent(notification, perhaps=True)
            return None
        return urgency

    def take(self, notification: Notification, urgency: Severity, encoded: EncodedNotification) -> None:
        """Send a notification that was admitted, when `next` returns it."""
        self._selection.note_sent(notification)
        self._take(notification, urgency, encoded)

    def trap(self, encoded: EncodedNotification, agent_address: Callable[[Address], bytes]) -> bytes:
        """Return the datagram of a trap that is sent at once; ``agent_address`` as for `datagram`."""
        return self._datagram(self._content(encoded), self._request_id(), agent_address)

    def sent_at_once(self, notification: Notification, *, accepted: bool) -> None:
        """Record that a trap was sent without waiting, or refused by the system: an event is owed then."""
        if accepted:
            self._selection.note_sent(notification)
            self._is_refused = False
            self._sent += 1
            self._last_sent = self._clock()
            return
        urgency = self._selection.urgency(notification) or Severity.INFO
        self._selection.note_sent(notification)
        self._refused(_event_id(notification), condition_of(notification), urgency)

    def _refused(self, event_id: str, condition: Condition | None, urgency: Severity) -> None:
        """Owe an event that the system refused to send, and count what is none."""
        self.past_refused()
        if not self._owe_again(event_id, condition, urgency):
            self._failed += 1

    def _owe_again(self, event_id: str, condition: Condition | None, urgency: Severity) -> bool:
        """Owe what was not sent after all, if it is an event; return whether it is one.

        Its condition is in doubt: the end is still for a receiver whose severity excludes ends, and where
        the log does not have the event, the comparison of conditions makes up for it.
        """
        if condition is not None:
            self._selection.doubt(condition, urgency)
        place = place_of(event_id)
        if place is not None:
            self._owed.add(*place, place[1])
        return place is not None

    # ---- what is sent late --------------------------------------------------------------------------------

    @property
    def owed(self) -> int:
        """The number of events that are still to be sent late."""
        return len(self._owed)

    def is_owed(self, event_id: str) -> bool:
        """Return whether an event is still to be sent late."""
        return place_of(event_id) in self._owed

    def owe(self, epoch: int, first: int, last: int) -> None:
        """Note events of a core that are to be sent from the event log."""
        self._owed.add(epoch, first, last)

    def wanted(self) -> Range | None:
        """Return the events to fetch now, for `fetched`; ``None`` for none."""
        return None if self._past else self._owed.first

    def fetched(self, wanted: Range, events: Sequence[PastEvent], through: int) -> list[tuple[int, int]]:
        """Take events that were fetched.

        Args:
            wanted: the range from `wanted`.
            events: those of it that are known, in order.
            through: the number up to which no more of them are known.

        Returns:
            The ranges of numbers up to there that are not known: the receiver has missed these events.
        """
        epoch, first, last = wanted
        last = min(last, through)
        self._past.extend(events)
        found = []
        for begin, end in missing([event.place[1] for event in events], first, last):
            missed = self._owed.remove(epoch, begin, end)
            self._lost += missed
            found += [(begin, end)] if missed else []
        return found

    def miss(self, first: str, last: str, events: int) -> None:
        """Report events that are missed, from one event id to another."""
        self._suppression.miss(first, last, self._monotonic(), self._clock(), events)

    def miss_unknown(self, first: str) -> None:
        """Report that events are missed whose number is not known, from an event id on."""
        self._suppression.miss_unknown(first, self._monotonic(), self._clock())

    def next_past(self) -> PastEvent | None:
        """Return the event that is to be sent late now, if any; call `past_done` when it is on its way."""
        while self._past:
            past = self._past[0]
            notification = past.notification
            urgency = None if notification is None else self._selection.urgency(notification)
            if notification is None or urgency is None:
                if notification is not None:
                    self._selection.decline(notification)
                elif past.is_meant:
                    self._give_up(OTHERS, past.condition)  # its roles do not permit it any more
            elif len(self._owed) > self.target.backlog:
                self._give_up(past.name, None)
            else:
                due, now = self.past_due(), self._monotonic()
                return past if due is not None and due <= now else None
            self.past_done(past)
        return None

    def past_done(self, past: PastEvent, *, was_sent: bool = False) -> None:
        """Note that an event is finished, or waits with others, or was given up."""
        if was_sent:
            self._past_limit.take_anyway(self._monotonic())
        self._past.popleft()
        epoch, number = past.place
        self._owed.remove(epoch, number, number)

    def past_refused(self) -> None:
        """Note that the system refused a trap: what is late may wait until there is a way again."""
        self._is_refused = True
        self._past_not_before = self._monotonic() + PAST_PAUSE

    def past_due(self) -> int | None:
        """Return when `next_past` may have something, if nothing happens before; monotonic."""
        now = self._monotonic()
        spare_at = self._delivery.spare_at(now)
        if not self._past or spare_at is None:
            return None
        allowed_at = self._past_limit.allowed_at(Severity.CRITICAL, now)
        return max(allowed_at, self._past_not_before, spare_at)

    def _give_up(self, name: str, condition: Condition | None) -> None:
        self._failed += 1
        self._suppression.count(name, self._monotonic(), self._clock())
        if condition is not None and self._selection.has_raised(condition):
            self._selection.doubt(condition, Severity.INFO)

    def send_anyway(self, notification: Notification, encoded: EncodedNotification) -> None:
        """Send ``notification`` regardless of the receiver's filter and rate."""
        self._take(notification, max(notification.severity, Severity.INFO), encoded)

    def policy_changing(self, policy: str | None, *, restricted: bool) -> None:
        """Send nothing that waits until `policy_changed`, unless it was made by the same rules.

        Args:
            policy: what stands for its rules; ``None`` while they are not known.
            restricted: they do not let it have everything.
        """
        is_same = policy is not None and policy == self._policy
        if not is_same:
            self._past.clear()  # they are fetched again, as the roles then permit
        self._is_held = restricted and not is_same and len(self._delivery) > 0
        if not self._is_held:
            self._policy = policy

    def policy_changed(
        self, policy: str | None, encode: Callable[[Notification], EncodedNotification]
    ) -> bool:
        """Send what waits again, as far as its present rules permit; what they do not is counted.

        Returns whether anything was held.
        """
        was_held, self._is_held = self._is_held, False
        self._policy = policy
        if not was_held:
            return False
        for dropped in self._delivery.revise(lambda waiting: self._permitted(waiting, encode)):
            waiting = dropped.waiting
            if waiting.form is None and self._owe_again(waiting.event_id, waiting.condition, waiting.urgency):
                continue  # the last process made it by other roles: it is made again, from the event log
            self._drop(dropped)
        return True

    def _permitted(
        self, waiting: Waiting, encode: Callable[[Notification], EncodedNotification]
    ) -> Waiting | None:
        """Return a notification that waits as the receiver may get it now; ``None`` for not at all."""
        form = waiting.form
        if form is None:
            return None  # of what the last process made, only the octets are known
        now = form if form.again is None else form.again(self.target.name)
        if now is None:
            return None
        if (now.text, now.arguments) == (form.text, form.arguments):
            return waiting
        now = msgspec.structs.replace(now, is_late=form.is_late, again=form.again)
        try:
            return waiting._replace(content=self._content(encode(now)), form=now)
        except ValueError:  # a value that BER cannot say
            return None

    def next(self) -> Waiting | None:
        """Return the notification to send now; call `sent` or `unsent` with it before the next call."""
        return None if self._is_held else self._delivery.next(self._monotonic())

    def datagram(self, waiting: Waiting, agent_address: Callable[[Address], bytes]) -> bytes:
        """Return the datagram to send; ``agent_address`` is called in version 1 only."""
        return self._datagram(waiting.content, waiting.request_id, agent_address)

    @property
    def asks_for_engine(self) -> bool:
        """Whether `datagram` returns the question for the engine of the receiver, and no notification."""
        return self.target.secured is not None and self.target.secured.asks_for_engine

    def sent(self, waiting: Waiting) -> bool:
        """Record that the system accepted the datagram; return whether for the first time."""
        is_first = self._delivery.sent(waiting, self._monotonic())
        self._is_refused = False
        if is_first:
            self._sent += 1
        self._last_sent = self._clock()
        return is_first

    def unsent(self, waiting: Waiting) -> bool:
        """Record that the system could not send it: a trap is owed, an inform is sent again later.

        Returns whether that was tried for the first time.
        """
        is_first = self._delivery.sent(waiting, self._monotonic())
        if is_first and self.target.is_inform:
            self._sent += 1
        elif is_first and (summary := _summary_of(waiting)) is not None:
            self._suppression.not_reported(summary, self._monotonic())
        elif is_first:
            self._refused(waiting.event_id, waiting.condition, waiting.urgency)
        return is_first

    def moved(self) -> None:
        """Send informs without an answer again at once: the address leads to another host now."""
        self._delivery.hasten(self._monotonic())

    def answered(self, request_id: int, *, accepted: bool) -> bool:
        """Record an answer, ``accepted`` if without an error-status; return whether it answers an inform."""
        waiting = self._delivery.answered(request_id, self._monotonic())
        if waiting is None:
            return False
        if accepted:
            self._acknowledged += 1
        else:
            self._failed += 1  # it would say the same again
        return True

    def received(self, datagram: bytes) -> Reply | None:
        """Take a message of version 3; return what it says, ``None`` if it answers no inform."""
        secured, now = self.target.secured, self._monotonic()
        reply = None if secured is None else secured.receive(datagram, self._delivery, now)
        if reply is None:
            return None
        if reply.kind is ReplyKind.RESEND:
            self._delivery.resend(reply.request_id, now)
            return reply
        is_answer = self.answered(reply.request_id, accepted=reply.kind is ReplyKind.ACCEPTED)
        return reply if is_answer else None

    def due(self) -> int | None:
        """Return when `next` or `suppressed` may have something, if nothing happens before; monotonic."""
        if self._is_held:
            return None
        delivery = self._delivery.due(self._monotonic())
        summary = self._suppression.due()
        if summary is None or not self._delivery.is_reachable:
            return delivery
        return summary if delivery is None else min(delivery, summary)

    def suppressed(self) -> SuppressedSummary | None:
        """Return the summary that agEventsSuppressed should report now, if any, and start counting again."""
        due = None if self._is_held else self._suppression.due()
        if due is None or due > self._monotonic() or not self._delivery.is_reachable:
            return None
        summary = self._suppression.summary()
        self._suppression.reset()
        return summary

    def saved(self) -> SavedTarget:
        """Return the state that must outlive the process."""
        informs = tuple(
            SavedInform(
                *(waiting.urgency, waiting.name, waiting.condition, waiting.content), waiting.event_id
            )
            for waiting in self._delivery.unfinished()
            if isinstance(waiting.content, bytes)
        )
        lost = self._delivery.lost_at_an_end()
        suppressed = self._suppression.summary()
        for waiting in lost:
            if (summary := _summary_of(waiting)) is not None:
                suppressed = joined(summary, suppressed)
        places = [place for waiting in lost if (place := place_of(waiting.event_id)) is not None]
        owed = Owed((*self._owed.ranges, *((*place, place[1]) for place in places)))
        return SavedTarget(
            self.target.name,
            self._raised_conditions(),
            self._selection.declined,
            self._selection.uncertain,
            suppressed,
            informs,
            self._policy,
            owed.ranges,
            self.since,
        )

    def _raised_conditions(self) -> tuple[tuple[Condition, Severity], ...]:
        """Return the conditions that stay raised at the receiver if nothing is sent to it any more."""
        raised = dict(self._selection.raised)
        # From the newest back to the oldest, as each undoes what `note_sent` did.
        for waiting in reversed(self._delivery.lost_at_an_end()):
            if waiting.condition is None:
                continue
            if waiting.ends:
                raised[waiting.condition] = waiting.urgency
            else:
                raised.pop(waiting.condition, None)
        return tuple(raised.items())[:MAX_CONDITIONS]

    def _take(self, notification: Notification, urgency: Severity, encoded: EncodedNotification) -> None:
        content = self._content(encoded)
        ends = notification.state is EventState.CLEARED
        waiting = self._waiting(
            *(urgency, notification.name, condition_of(notification), content),
            ends=ends,
            form=notification,
            event_id=_event_id(notification),
        )
        dropped = self._delivery.add(waiting)
        if dropped is not None:
            self._drop(dropped)

    def _drop(self, dropped: Dropped) -> None:
        """Count a notification that is not sent any more; its condition is compared again."""
        waiting = dropped.waiting
        # Never as suppressed, whether or not the receiver answers: the rate only delays an inform.
        self._failed += 1
        summary = _summary_of(waiting)
        if summary is not None and not dropped.perhaps_sent:
            self._suppression.not_reported(summary, self._monotonic())
            return
        # The receiver may have got one that was sent, and its answer was lost.
        self._suppression.count(
            waiting.name, self._monotonic(), self._clock(), uncertain=dropped.perhaps_sent
        )
        if dropped.is_last and waiting.condition is not None:
            self._selection.doubt(waiting.condition, waiting.urgency)

    def _content(self, encoded: EncodedNotification) -> bytes | Version1Fields:
        is_version_1 = self.target.kind is TargetKindNumber.TRAP_V1
        return encoded.version_1() if is_version_1 else encoded.version_2c()

    def _datagram(
        self, content: bytes | Version1Fields, request_id: int, agent_address: Callable[[Address], bytes]
    ) -> bytes:
        target = self.target
        if isinstance(content, Version1Fields):
            return trap_v1(target.community, agent_address(target.address), content)
        if target.secured is not None:
            return target.secured.datagram(request_id, content, self._monotonic())
        # Informs wait, and so have no rate limit of their own.
        make = inform_v2c if self._limit is None else trap_v2c
        return make(target.community, request_id, content)

    def _is_allowed(self, notification: Notification, urgency: Severity) -> bool:
        """Return whether the rate allows a trap; an inform waits instead.

        The end of a condition that was raised at the receiver is never held up: without it the alarm would
        stay there for ever. There cannot be more of them than of beginnings that were let pass.
        """
        if self._limit is None:
            return True
        now = self._monotonic()
        if self._selection.ends_a_raised_condition(notification):
            self._limit.take_anyway(now)
            return True
        return self._limit.take(urgency, now)

    def _suppress(self, name: str, *, uncertain: bool) -> None:
        self._suppressed += 1
        self._suppression.count(name, self._monotonic(), self._clock(), uncertain=uncertain)

    def _waiting(
        self,
        urgency: Severity,
        name: str,
        condition: Condition | None,
        content: bytes | Version1Fields,
        *,
        ends: bool = False,
        form: Notification | None = None,
        event_id: str = "",
    ) -> Waiting:
        self._number += 1
        return Waiting(
            self._number, urgency, name, condition, self._request_id(), content, ends, form, event_id
        )


def _summary_of(waiting: Waiting) -> SuppressedSummary | None:
    return None if waiting.form is None else waiting.form.summary


def _event_id(notification: Notification) -> str:
    # The end of a condition that no event reported, and the beginning sent again, are no event.
    return notification.event_id if notification.number else ""
