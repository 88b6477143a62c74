"""Gaps in the broker's events: times of which events may be missing, and objects whose end was not reported.

Objects that were created and ended within a gap are recorded nowhere. Objects that exist are found by
listings. So a gap ends when everything has been listed since events arrived again.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.dialects.session import BacklogFollows, Effect, LinkUp
from gateway.model.observations import Gap, delay_allowed
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.cluster import START_LATENESS
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.observation_stream import ObservationStream
from gateway.sources.rabbitmq.source_events import BrokerEventReceived, EventsDropped, SourceEvent
from gateway.sources.rabbitmq.status import Visibility


class BacklogGap:
    """The time of which a durable subscription kept no events: until the first that it kept, or the backlog.

    Args:
        received_until: when the last event was received, before the start (ns); 0 for never.
    """

    def __init__(self, received_until: int) -> None:
        self._received_until = received_until
        self._missed = ""

    def event_taken(self, now: int) -> None:
        """Note that an event was received, and recorded or passed on."""
        self._received_until = now

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


class GapTracker:
    """Knows which of one broker's events may be missing. All times are nanoseconds since 1970 UTC.

    Attributes:
        since: when the last event before the open gap was received; 0 while there is no gap.
        listed_from: listings that began earlier may be incomplete.
        resumed_at: when a durable subscription was resumed; 0 once it is known what was missed before.
        recovering: events come from a node that no client could reach yet.
    """

    def __init__(self) -> None:
        self.since = 0
        self.listed_from = 0
        self.resumed_at = 0
        self.recovering = False
        self._reason = ""
        self._interrupted_at = 0
        self._uninterrupted_until = 0  # as much earlier as events may have been under way
        self._stood_still_since = 0
        self._reported_until = 0
        self._last_event = 0
        self._caught_up_at = 0
        self._delay = delay_allowed(0)

    @property
    def complete_until(self) -> int:
        """The time until which all events were received; 0 while they are received."""
        known = (self.since, self._uninterrupted_until, self._stood_still_since)
        return min(filter(None, known), default=0)

    def event_arrived(self, happened: int, now: int) -> None:
        """Note that an event arrived that happened then, 0 for unknown: the next may be as late.

        The broker collects events before it publishes them; broker and gateway may have little time.
        """
        if not self._interrupted_at:  # what waited in the queue is no measure
            self._delay = delay_allowed(now - happened if happened else 0)

    def missed(self, since: int, now: int, reason: str) -> None:
        """Note that events which were not received at ``since`` may be missing.

        Everything has to be listed from now on.
        """
        self._open(min(since, now) - self._delay, now, reason)

    def _open(self, since: int, now: int, reason: str) -> None:
        if not self.since:
            self.since, self._reason = since, reason
        self.since = min(self.since, since)
        self.listed_from = max(self.listed_from, now)

    def stood_still(self, since: int) -> None:
        """Note that the gateway ran last at ``since`` (ns): events from then on may still arrive."""
        self._stood_still_since = self._stood_still_since or since - self._delay

    def read_again(self) -> None:
        """Note that everything has been read since the gateway stood still."""
        self._stood_still_since = 0

    def close(self, now: int) -> list[Gap]:
        """Close the gap, because everything has been listed since."""
        since, self.since = self.since, 0
        return self._gap(since, now, self._reason)

    # A durable subscription, whose events are received long after they happened.

    def interrupted(self, received_until: int) -> None:
        """Note that events wait in the queue from now on; the last one was received at ``received_until``.

        If some still wait from an earlier interruption, its time counts.
        """
        if not self._interrupted_at:
            self._interrupted_at, self._uninterrupted_until = received_until, received_until - self._delay

    def interrupted_before(self, complete_until: int) -> None:
        """Note that events wait in the queue since a former gateway; it had all until ``complete_until``."""
        self._interrupted_at = self._uninterrupted_until = complete_until

    def resumed(self, now: int) -> None:
        """Note that events arrive again, first those that waited."""
        self.resumed_at = now

    def event_happened(self, time: int, starts: Iterable[int], *, connects: bool) -> None:
        """Note that an event happened at ``time``, by the broker's clock.

        A node that is started reports everything that it recovers as if it had just been created, and accepts
        clients after that. So such events follow a silence, and come before any connection.

        Args:
            time: the time of the event.
            starts: the starts of nodes, by the gateway's clock; up to `START_LATENESS` too late.
            connects: a connection was opened.
        """
        silence = time - (self._last_event or self._interrupted_at)
        started = any(0 < self._interrupted_at < start and time >= start - START_LATENESS for start in starts)
        self.recovering = not connects and started and (self.recovering or silence >= SECOND)
        self._last_event = max(self._last_event, time)

    def dropped(self, since: int, until: int, reason: str) -> list[Gap]:
        """Report a time whose events were not kept by the queue, or were dropped from it."""
        return self._gap(since, until, reason)

    def overtaken(self, since: int, until: int) -> list[Gap]:
        """Report a time in which an object came and went, of which events come too late to publish it.

        A gap that is open will cover it; otherwise it begins with what a later one would begin with.
        """
        since = min(since, self.complete_until or since)
        if self.since:
            self.since = min(self.since, since)
            return []
        return self._gap(since, until, "an object was read before the events of an earlier one of its name")

    def caught_up(self, now: int) -> None:
        """Note that all events that waited were received; listings from now on are complete."""
        self._caught_up_at = now

    def nodes_listed(self, starts: Iterable[int]) -> bool:
        """Note that all events that waited were received, and since when each node runs.

        A node that was killed has lost some of the events that it had stored, not necessarily the last ones,
        and reported no ends of its objects.

        Args:
            starts: the starts of nodes, by the gateway's clock, never too early.

        Returns:
            Whether a node was started again while events waited.
        """
        interrupted_at, since = self._interrupted_at, self._uninterrupted_until
        self._interrupted_at = self._uninterrupted_until = 0
        self._last_event = self.resumed_at = 0
        self.recovering = False
        restarted = any(0 < interrupted_at < start for start in starts)
        if restarted:
            self._open(since, self._caught_up_at, "a node of the broker was started again")
        return restarted

    def _gap(self, since: int, until: int, reason: str) -> list[Gap]:
        """Report a gap, except for parts that were reported before."""
        since = max(since, self._reported_until)
        if not since or since >= until:
            return []
        self._reported_until = until
        return [Gap(since, until, reason)]


class MissedDeletions:
    """Keeps a source stale while objects may have ended whose end nothing reports.

    Their class cannot be listed, and events may be missing. Everything is stale until the class is requested
    once more. Objects that cannot be listed then either are removed, so that the rest is fresh again.
    Everything stays stale, and nothing is removed, where a durable subscription keeps the events, which will
    report what ended; and where nodes and virtual hosts cannot be listed, unless the broker refuses that.

    Args:
        known: all objects.
        visibility: says which classes cannot be listed, and since when events are complete.
        stream: publishes what changes.

    Attributes:
        awaited: classes with such objects, which are requested once more.
    """

    def __init__(self, known: KnownObjects, visibility: Visibility, stream: ObservationStream) -> None:
        self.awaited: set[str] = set()
        self._known = known
        self._visibility = visibility
        self._stream = stream

    def listed(self, class_name: str) -> None:
        """Note that a whole listing of the class arrived."""
        self.awaited.discard(class_name)

    def judge(self, now: int, refused: str = "") -> list[Effect]:
        """Find such objects: events are missing or were lost, or the class ``refused`` was just refused."""
        former = self.awaited
        unconfirmed = {name: self._unconfirmed(name) for name in self._visibility.unread}
        self.awaited = {name for name, objects in unconfirmed.items() if objects}
        effects: list[Effect] = []
        visibility = self._visibility
        to_come = visibility.events_are_kept and (visibility.events_missing or visibility.catching_up)
        if refused in former & self.awaited and not to_come:
            self.awaited.discard(refused)
            for known in unconfirmed[refused]:
                if self._known.get(known.name) is not None:  # it may have ended with another one
                    effects += self._stream.apply(self._known.ended(known.name, now))
        if self.awaited:
            self._visibility.complete = False
            effects += self._stream.mark_stale(
                "objects may have ended unnoticed: their class cannot be listed"
            )
        return effects

    def _unconfirmed(self, class_name: str) -> list[KnownObject]:
        """Return the objects of a class that neither a listing nor an event has confirmed since a loss."""
        since = self._visibility.unbroken_since
        if since and self._visibility.listed_since(class_name, since):
            return []
        return [known for known in self._known.of_class(class_name) if not since or known.first_seen < since]
