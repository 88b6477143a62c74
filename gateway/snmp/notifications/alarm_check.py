"""The comparison of conditions that are raised at receivers with the active ones, in slices.

A receiver may never get an event: the rate suppressed it, the snapshot of a feed repeats the last ones only,
a new core does not report ends during its absence, the receiver is new. A difference that two checks in
succession find is sent; one that a single check finds may be on its way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from gateway.model.times import SECOND
from gateway.snmp.notifications.notification import ActiveAlarms, Condition
from gateway.snmp.notifications.selection import Selection

CHECK_INTERVAL: Final = 30 * SECOND
"""Nanoseconds between two checks."""

AT_ONCE: Final = 200
"""The maximum number of conditions that one check sends to a receiver; the next checks send the rest."""

SLICE_CONDITIONS: Final = 1000
"""The maximum number of conditions that one call judges, each for one receiver, in about a millisecond."""

_NOTHING: Final = ActiveAlarms({}, complete=True)
"""The alarms of a source that does not exist any more."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A condition that is raised at some receivers, and has ended."""

    condition: Condition


class Begun(msgspec.Struct, frozen=True):
    """A condition that is active, and not raised at a receiver."""

    receiver: str
    condition: Condition


Difference: TypeAlias = Ended | Begun

_AlarmsOfSources: TypeAlias = Mapping[str, ActiveAlarms]


class _Found(msgspec.Struct):
    """The differences that one check has found."""

    ended: set[Condition] = msgspec.field(default_factory=set)
    begun: set[tuple[str, Condition]] = msgspec.field(default_factory=set)


class AlarmCheck:
    """Successive checks of the conditions at receivers; the findings of the last one are remembered.

    Args:
        selections: the conditions that are raised at each receiver, by its name.
    """

    def __init__(self, selections: Mapping[str, Selection]) -> None:
        self._selections = selections
        self._last = _Found()
        self._found = _Found()
        self._begun_counts: Counter[str] = Counter()
        self._steps: Iterator[Difference | None] | None = None
        self._active: _AlarmsOfSources = {}

    @property
    def under_way(self) -> bool:
        """Whether a check was begun and has not ended."""
        return self._steps is not None

    def begin(self) -> None:
        """Begin the next check, unless one is under way."""
        if self._steps is None:
            self._found, self._begun_counts = _Found(), Counter()
            # A generator, so that the check goes on in slices: ten thousand alarms at once held the loop for
            # up to 90 ms.
            self._steps = self._judged()

    def go_on(self, active: Mapping[str, ActiveAlarms] | None) -> list[Difference]:
        """Continue the check under way by one slice; return the differences found for the second time.

        Args:
            active: the active conditions; ``None`` while they are unknown: then all checks begin again.
        """
        if active is None:
            # What an earlier core reported proves nothing: two checks in succession must agree again.
            self._last, self._steps = _Found(), None
            return []
        if self._steps is None:
            return []
        self._active = active
        steps = list(islice(self._steps, SLICE_CONDITIONS))
        if len(steps) < SLICE_CONDITIONS:
            self._last, self._steps = self._found, None
        return [step for step in steps if step is not None]

    def _judged(self) -> Iterator[Difference | None]:
        """Yield all conditions, one at a time: ``None``, or the difference that has to be sent."""
        for selection in self._selections.values():
            # Copies, here and below: events change them while a check goes on in slices.
            for condition, _ in selection.raised:
                yield self._ended(condition)
            for condition, _ in selection.declined:
                if has_ended(condition, self._active):
                    selection.forget([condition])
                yield None
        for source in tuple(self._active):
            for name in tuple(self._active.get(source, _NOTHING).conditions):
                for receiver, selection in self._selections.items():
                    yield self._begun(receiver, selection, (source, name))

    def _ended(self, condition: Condition) -> Ended | None:
        found = self._found.ended
        if condition in found or not has_ended(condition, self._active):
            return None
        found.add(condition)
        return Ended(condition) if condition in self._last.ended else None

    def _begun(self, receiver: str, selection: Selection, condition: Condition) -> Begun | None:
        if not is_active_and_unsent(condition, selection, self._active):
            return None
        self._found.begun.add((receiver, condition))
        if (receiver, condition) not in self._last.begun or self._begun_counts[receiver] >= AT_ONCE:
            return None
        self._begun_counts[receiver] += 1
        return Begun(receiver, condition)


def has_ended(condition: Condition, active: Mapping[str, ActiveAlarms]) -> bool:
    """Return whether a condition has ended for certain; a source that no longer exists has none."""
    source, name = condition
    alarms = active.get(source, _NOTHING)
    return alarms.complete and name not in alarms.conditions


def is_active_and_unsent(
    condition: Condition, selection: Selection, active: Mapping[str, ActiveAlarms]
) -> bool:
    """Return whether a condition is active, and its receiver was neither sent nor declined its beginning."""
    source, name = condition
    event_id = active.get(source, _NOTHING).conditions.get(name)
    return event_id is not None and selection.is_unaware_of(condition, event_id)
