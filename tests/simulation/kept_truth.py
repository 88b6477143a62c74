"""The true state of a durable subscription: the times at which its broker kept events, and did not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.sources.rabbitmq.source import RESUMING_LIMIT

_FOR_EVER = 2**63


@dataclass
class KeptTruth:
    """The true state of one source's durable subscription.

    All times are nanoseconds by the clock that is never set.

    Attributes:
        reported: serials of things whose end was reported by an event.
        absences: begin and end of times without a core, if the next core caught up before it listed anything.
    """

    reported: set[int] = field(default_factory=set)
    absences: list[tuple[int, int]] = field(default_factory=list)
    _lost: list[tuple[int, int]] = field(default_factory=list)
    _since: int = 0
    _killed_at: int = 0
    _began_at: int = 0

    def lost(self, time: int) -> None:
        """Record that an event of this time was not kept."""
        self._lost.append((time, time))

    def stops(self, time: int) -> None:
        """Record that events are not kept from now on: there is no queue, or the broker ends."""
        self._since = self._since or time

    def begins(self, time: int) -> None:
        """Record that events are kept from now on."""
        if self._since:
            self._lost.append((self._since, time))
            self._since = 0

    def unkept(self) -> Iterator[tuple[int, int]]:
        """Yield the begin and end of each time in which events were not kept."""
        yield from self._lost
        if self._since:
            yield self._since, _FOR_EVER

    def core_killed(self, time: int) -> None:
        """Record that no core runs from now on."""
        if not self._killed_at or time - self._began_at > RESUMING_LIMIT:
            self._killed_at = time

    def core_begins(self, time: int) -> None:
        """Record that a core runs, which has not received the waiting events."""
        self._began_at = time

    def caught_up(self, time: int) -> None:
        """Record that the core has received the waiting events; by then it may have listed things."""
        if self._killed_at and time - self._began_at <= RESUMING_LIMIT:
            self.absences.append((self._killed_at, self._began_at))
        self._killed_at = 0
