"""The account of the events for a receiver that loses nothing: each is either notified or counted as lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tests.simulation.violations import demand

Place = tuple[int, int]
"""The position of an event: the epoch of the core that made it, and its number."""


def place_of(event_id: str) -> Place | None:
    """Return the place in an event id, or ``None`` if the event was not made by a core."""
    made_by, _, number = event_id.rpartition(".")
    epoch = made_by.rpartition(".")[2]
    return (int(epoch), int(number)) if epoch.isdecimal() and number.isdecimal() else None


class EventAccount:
    """The account of one receiver's events over all runs of the SNMP process.

    Attributes:
        begun: the last event that was handled when a process first saved its place; earlier events are not
            counted.
    """

    def __init__(self) -> None:
        self.begun: Place | None = None
        self._reported: set[Place] = set()
        self._counted: set[Place] = set()
        self._saved: Place = (0, 0)
        self._owed: frozenset[Place] = frozenset()

    def process_begins(self, saved: Place, owed: Collection[Place] = ()) -> None:
        """Record the start of an SNMP process.

        Args:
            saved: the place up to which the former one handled events.
            owed: those up to there that it had not sent when it saved this.
        """
        self._saved, self._owed = saved, frozenset(owed)

    def saved(self, place: Place) -> None:
        """Record the place that the SNMP process saves."""
        if self.begun is None and place[0]:
            self.begun = place

    def reported(self, event_id: str, *, is_alarm: bool) -> None:
        """Record a notification; the notification of a lasting alarm may be repeated."""
        place = place_of(event_id)
        if place is None:
            return
        # What was told and saved is not told again by a later process.
        again = place in self._reported and place <= self._saved and place not in self._owed
        demand(is_alarm or not again, f"event {event_id} is told again, and was handled up to {self._saved}")
        self._reported.add(place)

    def counted(self, events: Iterable[Place]) -> None:
        """Record events that were reported to the receiver as lost."""
        self._counted.update(events)

    def differences(self, made: Iterable[str]) -> Iterator[str]:
        """Yield the events of the event log that were neither notified nor counted as lost."""
        if self.begun is None:
            return
        for event_id in made:
            place = place_of(event_id)
            is_counted = place is None or place <= self.begun or place in self._reported | self._counted
            if not is_counted:
                yield f"event {event_id} was neither told nor counted as lost"
