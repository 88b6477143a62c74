"""What is true of a durable subscription: what its broker did not keep, and what it kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.sources.rabbitmq.source import RESUMING_LIMIT

_FOR_EVER = 2**63


@dataclass
class KeptTruth:
    """Of one source. All times are nanoseconds by the clock that nobody can set.

    Attributes:
        reported: serials of things whose end an event told.
        absences: from when to when no core ran that then caught up before it could list anything.
    """

    reported: set[int] = field(default_factory=set)
    absences: list[tuple[int, int]] = field(default_factory=list)
    _lost: list[tuple[int, int]] = field(default_factory=list)
    _since: int = 0
    _killed_at: int = 0
    _began_at: int = 0

    def lost(self, time: int) -> None:
        """An event of this time was not kept."""
        self._lost.append((time, time))

    def stops(self, time: int) -> None:
        """From now on nothing is kept: there is no queue, or the broker ends."""
        self._since = self._since or time

    def begins(self, time: int) -> None:
        """Events are kept from now on."""
        if self._since:
            self._lost.append((self._since, time))
            self._since = 0

    def unkept(self) -> Iterator[tuple[int, int]]:
        """From when to when events were not kept."""
        yield from self._lost
        if self._since:
            yield self._since, _FOR_EVER

    def core_killed(self, time: int) -> None:
        """No core runs."""
        if not self._killed_at or time - self._began_at > RESUMING_LIMIT:
            self._killed_at = time

    def core_begins(self, time: int) -> None:
        """A core runs, and has not received what waits."""
        self._began_at = time

    def caught_up(self, time: int) -> None:
        """It has. If that took long it has listed things meanwhile."""
        if self._killed_at and time - self._began_at <= RESUMING_LIMIT:
            self.absences.append((self._killed_at, self._began_at))
        self._killed_at = 0
