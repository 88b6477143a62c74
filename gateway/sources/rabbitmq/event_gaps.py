"""Gaps in the broker's events: times of which events may be missing.

Objects that were created and ended within a gap are recorded nowhere. Objects that exist are found by
listings. So a gap ends when everything has been listed since events arrived again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gateway.dialects.session import BacklogFollows, LinkUp
from gateway.model.observations import EventDelays, Gap
from gateway.model.source_kinds import source_kind
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.cluster import RECOVERY_LASTS
from gateway.sources.rabbitmq.events import Created
from gateway.sources.rabbitmq.object_lives import Overtaken, has_creation_event
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.source_events import BrokerEventReceived, EventsDropped, SourceEvent


class BacklogGap:
    """The time of which a durable subscription kept no events: until the first that it kept, or the backlog.

    Args:
        received_until: until when all events were received, before the start (ns); 0 for never.
    """

    def __init__(self, received_until: int) -> None:
        self._received_until = received_until
        self._missed = ""

    def received(self, until: int) -> None:
        """Note that all events until then were received, and recorded or passed on."""
        self._received_until = until

    def before(self, event: SourceEvent, now: int) -> EventsDropped | None:
        """Return the gap before ``event``, if it ends here; the source takes it first."""
        match event:
            case BacklogFollows(missed, waiting):
                self._missed = self._missed or missed
                return None if waiting else self._ended(now)
            case LinkUp():
                return self._ended(now)
            case BrokerEventReceived(time=time):
                return self._ended(min(time or now, now))
        return None

    def _ended(self, until: int) -> EventsDropped | None:
        missed, self._missed = self._missed, ""
        if not missed or not self._received_until:
            return None
        since, self._received_until = self._received_until, until
        return EventsDropped(since, until, missed)


class LateEvents:
    """Knows whether a broker's events arrive later than usual; the clocks of gateway and broker may differ.

    Args:
        delay: the delay beyond the usual one (ns) above which an event is late.
        limit: the time for which events may be late (ns); later ones mean that a clock was set.
    """

    def __init__(self, delay: int, limit: int) -> None:
        self._delay = delay
        self._limit = limit
        self._usual: int | None = None
        self._since = 0
        self._stood_still_until = 0

    def stood_still(self, now: int) -> int:
        """Take note that the gateway stood still; return until when events of that time may arrive (ns).

        The usual delay may be unknown then. So for the limit's time each event that happened ``delay`` before
        counts as late; no longer, because all do if the broker's clock is slow.
        """
        self._stood_still_until = now + self._limit
        return now + self._delay

    def late_by(self, time: int, now: int) -> int:
        """Return how much later than usual an event arrives that waited while the gateway stood still (ns).

        Without a standstill, an event that seems late for long comes from a broker whose clock was set.
        """
        if self._usual is None or now >= self._stood_still_until or not time:
            return 0
        return max(0, now - time - self._usual)

    def arrived(self, time: int, now: int) -> int:
        """Take note of an event that happened at ``time`` (ns).

        Returns:
            The time until which other late events may arrive (ns); 0 if this one is not late.
        """
        is_late = self._is_late(now - time, now)
        if now < self._stood_still_until and now - time > self._delay:
            return min(now + self._delay, self._stood_still_until)
        return now + self._delay if is_late else 0

    def _is_late(self, took: int, now: int) -> bool:
        """Return whether an event that took ``took`` ns came later than usual."""
        if self._usual is None or took <= self._usual + self._delay:
            self._usual = took if self._usual is None else min(self._usual, took)
            self._since = 0
            return False
        self._since = self._since or now
        if now - self._since <= self._limit:
            return True
        self._usual, self._since = took, 0
        return False


CREATION_OVERDUE = 60 * SECOND
"""Nanoseconds after an object was listed first from which on the event of its creation does not come.

RabbitMQ lists a quorum queue or stream before it starts the replicas, and publishes the event after that.
"""
COMPARE_AGAIN = 60 * SECOND
"""Nanoseconds until the next gap for that reason; twice as long each time, as where a node publishes none."""
COMPARE_AT_LONGEST = 3600 * SECOND
_MOST_WAITING = 1_000


@dataclass(frozen=True, slots=True)
class WithoutEvent:
    """An object that is new, and of whose creation no event came.

    Attributes:
        since: when the first listing began that showed it (ns).
        lacked: when the first of two listings began that lacked it (ns).
        made_after: the last time (ns) at which it was not there, as the second one shows.
    """

    since: int
    lacked: int
    made_after: int


class CreationsWithoutEvent:
    """New objects whose creation no event reported, which proves that events are missing.

    Such an object is missing from two complete listings in a row in which its virtual host could be read, and
    is then listed over `CREATION_OVERDUE`, as nothing is whose event is only late.
    """

    def __init__(self) -> None:
        self._complete: dict[str, tuple[tuple[int, int, frozenset[str]], ...]] = {}  # the last two of a class
        self._waiting: dict[ObjectName, WithoutEvent] = {}
        self._proved: list[WithoutEvent] = []

    def shown(self, name: ObjectName, began: int) -> None:
        """Take an object that is not known, of a listing that began then (ns)."""
        complete = self._complete.get(name.class_name, ())
        is_new = len(complete) == 2 and all(name.parts[0] in hosts for _, _, hosts in complete)  # noqa: PLR2004  both
        if is_new and has_creation_event(name) and len(self._waiting) < _MOST_WAITING:
            self._waiting.setdefault(name, WithoutEvent(began, complete[0][0], complete[1][1]))

    def reported(self, name: ObjectName) -> None:
        """Note that an event was about an object of this name."""
        self._waiting.pop(name, None)

    def listed(
        self, class_name: str, seen: Collection[ObjectName], began: int, lag: int, hosts: frozenset[str]
    ) -> None:
        """Take a listing that showed all objects of a class.

        Args:
            class_name: the class.
            seen: the objects.
            began: when it began (ns).
            lag: nanoseconds by which it may lag behind events.
            hosts: the virtual hosts that could be read.
        """
        for name, one in [each for each in self._waiting.items() if each[0].class_name == class_name]:
            if name not in seen:
                del self._waiting[name]
            elif began >= one.since + CREATION_OVERDUE:
                del self._waiting[name]
                self._proved = [*self._proved, one][:_MOST_WAITING]
        self._complete[class_name] = (*self._complete.get(class_name, ()), (began, began - lag, hosts))[-2:]

    def incomplete(self, class_name: str) -> None:
        """Note that a listing of a class did not show all objects, or not what they are."""
        self._complete.pop(class_name, None)

    def take(self, received_since: int) -> list[WithoutEvent]:
        """Return the objects that prove that events are missing, since the last call.

        Args:
            received_since: since when all events should have been received (ns); 0 while they are not.
        """
        found, self._proved = self._proved, []
        return [one for one in found if 0 < received_since <= one.lacked]


_MOST_UNSEEN = 10_000


class UnseenCreations:
    """Events that reported creations in virtual hosts that may not be read any more.

    If one may be read again, a listing shows the new objects, of which only these events have the time. Of a
    virtual host that was never read, an event of a node or queue that is started may report what was there
    before: none are kept.
    """

    def __init__(self) -> None:
        self._events: dict[str, dict[ObjectName, Created]] = {}  # by virtual host

    def begin(self, host: str) -> None:
        """Note that a virtual host whose contents were read may not be read any more."""
        self._events.setdefault(host, {})

    def created(self, event: Created) -> None:
        """Take the event of an object that is not known, and not shown; the first one is of its creation."""
        name = event.reading.name
        inside = self._events.get(name.parts[0])
        if inside is not None and has_creation_event(name) and len(inside) < _MOST_UNSEEN:
            inside.setdefault(name, event)

    def shown(self, name: ObjectName) -> Created | None:
        """Remove and return the event of an object that a listing shows."""
        return self._events.get(name.parts[0], {}).pop(name, None)

    def ended(self, name: ObjectName) -> None:
        """Drop the event of an object that ended, or those of all in a virtual host."""
        self.shown(name)
        if name.class_name == "vhost":
            self._events.pop(name.leaf, None)

    def forget(self) -> None:
        """Drop all: events were lost, so others may have the names."""
        self._events.clear()


PROOF_OVERDUE = source_kind("rabbitmq").unproven
"""Nanoseconds after the last proof from which on events count as missing; proofs are made every 5 s, and an
event shortly after one proof is all that the next one may be made with. Each takes its time besides.
"""


_UNTIL_CLIENTS = 2**63


class GapTracker:
    """Knows which of one broker's events may be missing. All times are nanoseconds since 1970 UTC.

    Attributes:
        since: when the last event before the open gap was received; 0 while there is no gap.
        listed_from: listings that began earlier may be incomplete.
        interrupted_at: since when events wait in the queue of a durable subscription (ns); 0 if none do.
        resumed_at: when a durable subscription was resumed; 0 once it is known what was missed before.
        recovering: events may be about what a node recovered that was started.
        received_until: the last time up to which all events are proven to be received; 0 for never. What
            arrived after that may have waited while the gateway stood still.
        proof_took: nanoseconds that the last proof of that took, as where the management API is slow.
    """

    def __init__(self) -> None:
        self.received_until = self.proof_took = 0
        self.since = 0
        self.listed_from = 0
        self.resumed_at = 0
        self.recovering = False
        self._reason = ""
        self.interrupted_at = 0
        self._uninterrupted_until = 0  # as much earlier as events may have been under way
        self._reported = (0, 0)  # the last gap: since, until
        self._last_event = 0
        self._recovers_until = 0
        self._caught_up_at = 0
        self._delays = EventDelays()

    def complete_until(self, now: int) -> int:
        """Return the time until which all events were received; 0 while they are received."""
        is_overdue = 0 < self.received_until < now - PROOF_OVERDUE - 3 * self.proof_took
        unproven = self.received_until - self._delays.allowed() if is_overdue else 0
        return min(filter(None, (self.since, self._uninterrupted_until, unproven)), default=0)

    def event_arrived(self, happened: int, now: int) -> None:
        """Note that an event arrived that happened then, 0 for unknown: the next may be as late.

        The broker collects events before it publishes them; broker and gateway may have little time.
        """
        if not self.interrupted_at:  # what waited in the queue is no measure
            self._delays.note(now - happened if happened else 0, now)

    def missed(self, now: int, reason: str, since: int = 0) -> None:
        """Note that events may be missing which were not received at ``since``, or after the last proof.

        Everything has to be listed from now on.
        """
        known = filter(None, (since, self.received_until, now))
        self._open(min(known) - self._delays.allowed(), now, reason)

    def _open(self, since: int, now: int, reason: str) -> None:
        if not self.since:
            self.since, self._reason = since, reason
        self.since = min(self.since, since)
        self.listed_from = max(self.listed_from, now)

    def close(self, now: int) -> list[Gap]:
        """Close the gap, because everything has been listed since."""
        since, self.since = self.since, 0
        return self._gap(since, now, self._reason)

    # A durable subscription, whose events are received long after they happened.

    def interrupted(self) -> None:
        """Note that events wait in the queue from now on.

        If some still wait from an earlier interruption, its time counts.
        """
        if not self.interrupted_at:
            self.interrupted_at = self.received_until
            self._uninterrupted_until = self.received_until - self._delays.allowed()

    def interrupted_before(self, complete_until: int) -> None:
        """Note that events wait in the queue since a former gateway; it had all until ``complete_until``."""
        self.interrupted_at = self._uninterrupted_until = complete_until

    def resumed(self, now: int) -> None:
        """Note that events arrive again, first those that waited."""
        self.resumed_at = now

    def event_happened(self, time: int, starts: Iterable[tuple[int, int]], *, connects: bool) -> None:
        """Note that an event happened at ``time``, by the broker's clock.

        A node that is started reports everything that it recovers as if it had just been created, and accepts
        clients meanwhile. So such events follow a silence, and come no later than `RECOVERY_LASTS` after the
        first connection.

        Args:
            time: the time of the event.
            starts: `BrokerView.starts_since`, since when events wait.
            connects: a connection was opened.
        """
        last = self._last_event or self.interrupted_at
        is_silent = bool(self.interrupted_at) and time - last >= SECOND
        if is_silent and any(earliest <= time and last < latest for earliest, latest in starts):
            self._recovers_until = _UNTIL_CLIENTS
        if connects:
            self._recovers_until = min(self._recovers_until, time + RECOVERY_LASTS)
        self.recovering = time <= self._recovers_until
        self._last_event = max(self._last_event, time)

    def dropped(self, since: int, until: int, reason: str) -> list[Gap]:
        """Report a time whose events were not kept by the queue, or were dropped from it."""
        return self._gap(since, until, reason)

    def overtaken(self, one: Overtaken) -> list[Gap]:
        """Report a time in which an object came and went that is not published.

        A gap that is open will cover it; otherwise it begins with what a later one would begin with.
        """
        since = min(one.since, self.complete_until(one.until) or one.since)
        if self.since:
            self.since = min(self.since, since)
            return []
        return self._gap(since, one.until, one.reason)

    def caught_up(self, now: int) -> None:
        """Note that all events that waited were received; listings from now on are complete."""
        self._caught_up_at = now

    def nodes_listed(self, starts: Collection[tuple[int, int]]) -> bool:
        """Note that all events that waited were received, and since when each node runs.

        A node that was killed has lost some of the events that it had stored, not necessarily the last ones,
        and reported no ends of its objects.

        Args:
            starts: `BrokerView.starts_since`, since when events waited.

        Returns:
            Whether a node was started again while events waited.
        """
        interrupted_at, since = self.interrupted_at, self._uninterrupted_until
        self.interrupted_at = self._uninterrupted_until = 0
        self._last_event = self.resumed_at = self._recovers_until = 0
        self.recovering = False
        restarted = bool(interrupted_at and starts)
        if restarted:
            self._open(since, self._caught_up_at, "a node of the broker was started again")
        return restarted

    def _gap(self, since: int, until: int, reason: str) -> list[Gap]:
        """Report a gap, except for its first part if the last gap had that.

        One that begins before the last gap is reported whole: only an object that was overtaken may have been
        found before the end of the connection that made the gap.
        """
        reported_since, reported_until = self._reported
        if reported_since <= since < reported_until:
            since = reported_until
        if not since or since >= until:
            return []
        self._reported = since, until
        return [Gap(since, until, reason)]
