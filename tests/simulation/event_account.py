"""What becomes of each event on its way to a receiver that loses nothing: told, or counted as not told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.simulation.violations import demand

Place = tuple[int, int]
"""Of an event: epoch of the core that made it, and its number."""


def place_of(event_id: str) -> Place | None:
    """Read it from an event id; ``None`` where no core made the event."""
    made_by, _, number = event_id.rpartition(".")
    epoch = made_by.rpartition(".")[2]
    return (int(epoch), int(number)) if epoch.isdecimal() and number.isdecimal() else None


class EventAccount:
    """Keeps account of one receiver's events over all runs of the SNMP process.

    Attributes:
        begun: the last event that was handled when a process first saved that; nobody counts those before.
    """

    def __init__(self) -> None:
        self.begun: Place | None = None
        self._told: set[Place] = set()
        self._counted: set[Place] = set()
        self._saved: Place = (0, 0)

    def process_begins(self, saved: Place) -> None:
        """An SNMP process begins; the last one had saved that it had handled events up to this one."""
        self._saved = saved

    def saved(self, place: Place) -> None:
        """The SNMP process saves how far it has come."""
        if self.begun is None and place[0]:
            self.begun = place

    def told(self, event_id: str, *, is_alarm: bool) -> None:
        """A notification arrives; that of an alarm that lasts is told to whoever may not know of it."""
        place = place_of(event_id)
        if place is None:
            return
        # What was told and saved is not told again by a later process.
        again = place in self._told and place <= self._saved
        demand(is_alarm or not again, f"event {event_id} is told again, and was handled up to {self._saved}")
        self._told.add(place)

    def counted(self, events: Iterable[Place]) -> None:
        """The receiver is told of so many that it was not told."""
        self._counted.update(events)

    def differences(self, made: Iterable[str]) -> Iterator[str]:
        """Which events nobody was told of, and no count has, of those that the event log has."""
        if self.begun is None:
            return
        for event_id in made:
            place = place_of(event_id)
            is_counted = place is None or place <= self.begun or place in self._told | self._counted
            if not is_counted:
                yield f"event {event_id} was neither told nor counted as lost"
