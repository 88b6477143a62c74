"""Conditions that last, of a source or of the gateway itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.feed.records import AlarmRecord
from gateway.model.events import Severity


@dataclass(frozen=True, slots=True)
class _Told:
    record: AlarmRecord
    generation: int


class ShownAlarms:
    """One of each name.

    Attributes:
        changed: whether they are others than when this was last set to ``False``; at first they are.
    """

    def __init__(self) -> None:
        self.changed = True
        self._told: dict[str, _Told] = {}

    def __len__(self) -> int:
        return len(self._told)

    def __iter__(self) -> Iterator[AlarmRecord]:
        return (told.record for told in self._told.values())

    @property
    def worst(self) -> Severity:
        """Of all of them; cleared where there is none."""
        return max((record.severity for record in self), default=Severity.CLEARED)

    def tell(self, record: AlarmRecord, generation: int) -> None:
        """A condition has begun, changed or ended; a later one of its name replaces it.

        Args:
            record: what the core says of it.
            generation: of the last snapshot.
        """
        former = self._told.get(record.condition)
        if record.cleared:
            if former is not None and former.record.number <= record.number:
                del self._told[record.condition]
                self.changed = True
            return
        self.changed |= former is None or former.record != record
        self._told[record.condition] = _Told(record, generation)

    def drop_before(self, generation: int) -> None:
        """Conditions that the snapshot ``generation`` did not tell have ended."""
        for condition in [c for c, told in self._told.items() if told.generation < generation]:
            del self._told[condition]
            self.changed = True
