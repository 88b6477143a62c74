"""One receiver: its filter, its rate limit, and the reports of suppressed notifications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from gateway.model.observations import EventState, Severity
from gateway.model.times import SECOND
from gateway.snmp.fixed_mib import TargetKindNumber
from gateway.snmp.notifications.delivery import (
    MAX_WAITING,
    WINDOW,
    Delivery,
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
from gateway.snmp.notifications.selection import MAX_NAMES, Selection

Address: TypeAlias = tuple[str, int]
"""An IPv4 or IPv6 literal and a UDP port."""


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
    secured: Secured | None = field(default=None, repr=False)

    @property
    def is_inform(self) -> bool:
        """Whether the receiver answers its notifications."""
        return self.kind in {TargetKindNumber.INFORM_V2C, TargetKindNumber.INFORM_V3}

    @property
    def overhead(self) -> int:
        """The maximum number of octets that stand in a message in the place of a community."""
        return len(self.community) if self.secured is None else OVERHEAD


@dataclass(frozen=True, slots=True)
class TargetHealth:
    """The state of a receiver; counters are since the start of the SNMP agent.

    Attributes:
        sent: notifications that were sent, each counted once, without retransmissions.
        acknowledged: informs that were answered.
        suppressed: traps that were not sent because of the configured rate.
        failed: all other notifications that were given up: informs that were not delivered, for whatever
            reason, and traps that the system did not send.
        waiting: informs not answered yet.
        last_sent: nanoseconds since 1970-01-01 UTC, 0 for never.
        lost: events that may have been lost to this receiver: the core no longer had them when the SNMP agent
            connected, and it is not known which were for it.
    """

    sent: int = 0
    acknowledged: int = 0
    suppressed: int = 0
    failed: int = 0
    waiting: int = 0
    last_sent: int = 0
    lost: int = 0


QUIET: Final = SECOND
"""Nanoseconds without a suppressed notification after which a flood has ended."""

LONGEST_SILENCE: Final = 10 * SECOND
"""Nanoseconds after which the receiver gets agEventsSuppressed while the flood lasts."""

OTHERS: Final = "*:*"
"""The name under which further names are counted, and lost events whose names are not known."""


class Suppression:
    """The count of suppressed notifications; ``restored`` is what the last process had not reported yet."""

    def __init__(self, now: int, restored: SuppressedSummary | None = None) -> None:
        self._names: Counter[str] = Counter(dict(restored.names) if restored else {})
        self._uncertain = restored.uncertain if restored else 0
        self._since = restored.since if restored else 0
        self._first = self._last = now

    def count(self, name: str, now: int, wall: int, times: int = 1, *, uncertain: bool = False) -> None:
        """Count suppressed ones; ``uncertain`` if they only may have been lost.

        Args:
            name: ``package:event``.
            now: monotonic nanoseconds.
            wall: nanoseconds since 1970-01-01 UTC.
            times: their number.
            uncertain: it is not known whether the receiver got them, or was to get them.
        """
        if not self._names:
            self._since, self._first = wall, now
        self._last = now
        self._names[name if name in self._names or len(self._names) < MAX_NAMES else OTHERS] += times
        if uncertain:
            self._uncertain += times

    def due(self) -> int | None:
        """Return when to send agEventsSuppressed, monotonic nanoseconds; ``None`` if none was suppressed."""
        return min(self._last + QUIET, self._first + LONGEST_SILENCE) if self._names else None

    def summary(self) -> SuppressedSummary | None:
        """Return the summary to be reported; ``None`` if nothing was suppressed."""
        if not self._names:
            return None
        return SuppressedSummary(
            self._names.total(), self._since, tuple(self._names.most_common()), self._uncertain
        )

    def reset(self) -> None:
        """Start counting again, because agEventsSuppressed is on its way."""
        self._names.clear()
        self._uncertain = 0


class TargetSender:
    """The sender for one receiver: it decides which notifications are sent, and when.

    Args:
        target: the receiver.
        request_id: returns a new request id, which cannot be guessed from outside.
        monotonic: returns monotonic nanoseconds; all times but those shown are of this clock.
        clock: returns nanoseconds since 1970-01-01 UTC.
        saved: the state of this receiver that the last process saved.
        policy: what stands for its rules (`Outside.policy`).
        restricted: they do not let it have everything, or are not known yet.
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
        restricted: bool = False,
    ) -> None:
        self.target = target
        self._request_id = request_id
        self._monotonic = monotonic
        self._clock = clock
        saved = saved or SavedTarget(target.name)
        now = monotonic()
        self._number = 0
        self._selection = Selection(
            target.severity, target.patterns, saved.conditions, saved.declined, saved.uncertain
        )
        self._suppression = Suppression(now, saved.suppressed)
        self._delivery: Delivery = TrapDelivery()
        self._limit: RateLimit | None = RateLimit(target.rate, now)
        if target.is_inform:
            self._limit = None  # they wait, and leave at that rate
            restored = [
                self._waiting(inform.urgency, inform.name, inform.condition, inform.varbinds)
                for inform in saved.informs
            ]
            self._delivery = InformDelivery(target.rate, now, restored, target.window)
        self._policy = saved.policy
        self._is_held = False
        self.policy_changing(policy, restricted=restricted)
        self._sent = self._acknowledged = self._suppressed = self._failed = self._last_sent = self._lost = 0

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
        )

    @property
    def selection(self) -> Selection:
        """The filter of the receiver, and the conditions that were raised at it."""
        return self._selection

    def can_take(self, notification: Notification) -> bool:
        """Return whether neither the rate nor a full queue would hold up ``notification`` now."""
        urgency = self._selection.urgency(notification)
        if urgency is None:
            return True
        if self._limit is None:
            return len(self._delivery) < MAX_WAITING
        return self._limit.allows(urgency, self._monotonic())

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
        """Record that a trap was sent without waiting, or that the system could not send it."""
        self._selection.note_sent(notification)
        if accepted:
            self._sent += 1
            self._last_sent = self._clock()
        else:
            self._failed += 1

    def lose(self, events: int) -> None:
        """Count events that are not known any more: notifications of them may have been lost."""
        self._lost += events
        self._suppression.count(OTHERS, self._monotonic(), self._clock(), events, uncertain=True)

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
            self._failed += 1
            self._suppression.count(
                waiting.name, self._monotonic(), self._clock(), uncertain=dropped.perhaps_sent
            )
            if waiting.condition is not None:
                self._selection.doubt(waiting.condition, waiting.urgency)
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

    def sent(self, waiting: Waiting) -> None:
        """Record that the system accepted the datagram."""
        if self._delivery.sent(waiting, self._monotonic()):
            self._sent += 1
        self._last_sent = self._clock()

    def unsent(self, waiting: Waiting) -> None:
        """Record that the system could not send it: a trap is lost, an inform is sent again later."""
        if self._delivery.sent(waiting, self._monotonic()):
            if self.target.is_inform:
                self._sent += 1
            else:
                self._failed += 1

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
            SavedInform(waiting.urgency, waiting.name, waiting.condition, waiting.content)
            for waiting in self._delivery.unfinished()
            if isinstance(waiting.content, bytes)
        )
        return SavedTarget(
            self.target.name,
            self._raised_conditions(),
            self._selection.declined,
            self._selection.uncertain,
            self._suppression.summary(),
            informs,
            self._policy,
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
            urgency, notification.name, condition_of(notification), content, ends=ends, form=notification
        )
        dropped = self._delivery.add(waiting)
        if dropped is not None:
            # Never as suppressed, whether or not the receiver answers: the rate only delays an inform.
            self._failed += 1
            # The receiver may have got one that was sent, and its answer was lost.
            self._suppression.count(
                dropped.waiting.name, self._monotonic(), self._clock(), uncertain=dropped.perhaps_sent
            )

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
    ) -> Waiting:
        self._number += 1
        return Waiting(self._number, urgency, name, condition, self._request_id(), content, ends, form)
