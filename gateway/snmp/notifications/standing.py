"""Compares the conditions raised at receivers with the active ones, and finds what has to be sent.

Events carry beginnings and ends. One may never come: it was suppressed by the rate, the snapshot
of a feed repeats the last ones only, a new core does not report what ended while there was none, a receiver
is new. What differs in two checks in succession is sent; in one, its event may be on its way.

Ten thousand conditions and some receivers would hold the loop for 90 ms at a time, so a check is made in
slices. Each condition is judged by what is known at that moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeAlias

from gateway.snmp.notifications.notification import Condition, StandingAlarms
from gateway.snmp.notifications.receiver import Selection

CHECK_INTERVAL: Final = 30 * 10**9
"""Nanoseconds between two checks."""

AT_ONCE: Final = 200
"""Conditions that one check sends to a receiver at most; the rest is for the next ones."""

SLICE_CONDITIONS: Final = 1000
"""Conditions judged by one call, of one receiver each: a millisecond's worth."""

_NOTHING: Final = StandingAlarms({}, complete=True)
"""Of a source that is not there any more."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A condition is raised at some receivers, and has ended."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Begun:
    """A condition is active, and not raised at a receiver."""

    receiver: str
    condition: Condition


Difference: TypeAlias = Ended | Begun

_Standing: TypeAlias = Mapping[str, StandingAlarms]


@dataclass(slots=True)
class _Found:
    """What one check has found to be different."""

    ended: set[Condition] = field(default_factory=set)
    begun: set[tuple[str, Condition]] = field(default_factory=set)


class StandingCheck:
    """Makes one check after the other, and remembers what the last one found.

    Args:
        selections: which conditions are raised at each receiver, by its name.
    """

    def __init__(self, selections: Mapping[str, Selection]) -> None:
        self._selections = selections
        self._last = _Found()
        self._found = _Found()
        self._begun_counts: Counter[str] = Counter()
        self._steps: Iterator[Difference | None] | None = None
        self._standing: _Standing = {}

    @property
    def under_way(self) -> bool:
        """Whether a check was begun and has not come to its end."""
        return self._steps is not None

    def begin(self) -> None:
        """It is time for the next check; one that is under way goes on instead."""
        if self._steps is None:
            self._found, self._begun_counts = _Found(), Counter()
            self._steps = self._judged()

    def go_on(self, standing: Mapping[str, StandingAlarms] | None) -> list[Difference]:
        """The next slice of the check under way: what is different for the second time.

        Args:
            standing: the active conditions; ``None`` while they are unknown: then all checks begin again.
        """
        if standing is None:
            self._last, self._steps = _Found(), None
            return []
        if self._steps is None:
            return []
        self._standing = standing
        steps = list(islice(self._steps, SLICE_CONDITIONS))
        if len(steps) < SLICE_CONDITIONS:
            self._last, self._steps = self._found, None
        return [step for step in steps if step is not None]

    def _judged(self) -> Iterator[Difference | None]:
        """All conditions, one at a time: ``None``, or the difference that has to be sent."""
        for selection in self._selections.values():
            for condition, _ in selection.raised:
                yield self._ended(condition)
            for condition, _ in selection.declined:
                if has_ended(condition, self._standing):
                    selection.forget([condition])
                yield None
        for source in tuple(self._standing):
            for name in tuple(self._standing.get(source, _NOTHING).conditions):
                for receiver, selection in self._selections.items():
                    yield self._begun(receiver, selection, (source, name))

    def _ended(self, condition: Condition) -> Ended | None:
        found = self._found.ended
        if condition in found or not has_ended(condition, self._standing):
            return None
        found.add(condition)
        return Ended(condition) if condition in self._last.ended else None

    def _begun(self, receiver: str, selection: Selection, condition: Condition) -> Begun | None:
        if not is_active_and_unsent(condition, selection, self._standing):
            return None
        self._found.begun.add((receiver, condition))
        if (receiver, condition) not in self._last.begun or self._begun_counts[receiver] >= AT_ONCE:
            return None
        self._begun_counts[receiver] += 1
        return Begun(receiver, condition)


def has_ended(condition: Condition, standing: Mapping[str, StandingAlarms]) -> bool:
    """Whether it has ended for certain; a source that is not there any more has nothing that lasts."""
    source, name = condition
    alarms = standing.get(source, _NOTHING)
    return alarms.complete and name not in alarms.conditions


def is_active_and_unsent(
    condition: Condition, selection: Selection, standing: Mapping[str, StandingAlarms]
) -> bool:
    """Whether it is active, and its receiver was neither sent nor declined its beginning."""
    source, name = condition
    event_id = standing.get(source, _NOTHING).conditions.get(name)
    return event_id is not None and selection.is_unaware_of(condition, event_id)
