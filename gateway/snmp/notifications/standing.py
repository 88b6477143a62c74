"""Compares what receivers believe to last with what does, and finds what they have to be told.

Events tell receivers of beginnings and ends. One may never come: it was suppressed by the rate, the snapshot
of a feed repeats the last ones only, a new core tells nothing of what ended while there was none, a receiver
is new. What is different in two checks in succession is told; in one, its event may be on its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from gateway.snmp.notification import StandingAlarms
from gateway.snmp.notifications.selection import Condition, Selection

CHECK_INTERVAL: Final = 30 * 10**9
"""Nanoseconds between two checks."""

AT_ONCE: Final = 200
"""Conditions that one check tells a receiver of at most; the rest is for the next ones."""


@dataclass(frozen=True, slots=True)
class Differences:
    """What receivers have to be told.

    Attributes:
        ended: what some of them believe to last, and does not.
        begun: what lasts and was not told, by the name of the receiver.
    """

    ended: tuple[Condition, ...]
    begun: Mapping[str, tuple[Condition, ...]]


class StandingCheck:
    """Remembers the last check."""

    def __init__(self) -> None:
        self._ended: frozenset[Condition] = frozenset()
        self._begun: dict[str, frozenset[Condition]] = {}

    def compare(
        self, selections: Mapping[str, Selection], standing: Mapping[str, StandingAlarms] | None
    ) -> Differences:
        """What is different for the second time; ``standing`` is ``None`` while nobody can tell."""
        if standing is None:
            self._ended, self._begun = frozenset(), {}
            return Differences((), {})
        lasting = {
            (source, condition): event_id
            for source, alarms in standing.items()
            for condition, event_id in alarms.conditions.items()
        }
        ended: set[Condition] = set()
        begun: dict[str, frozenset[Condition]] = {}
        for name, selection in selections.items():
            ended.update(_ended((condition for condition, _ in selection.told), standing))
            selection.forget(_ended((condition for condition, _ in selection.declined), standing))
            begun[name] = frozenset(
                condition
                for condition, event_id in lasting.items()
                if selection.is_unaware_of(condition, event_id)
            )
        differences = Differences(
            tuple(sorted(ended & self._ended)),
            {
                name: tuple(islice(sorted(missing & self._begun.get(name, frozenset())), AT_ONCE))
                for name, missing in begun.items()
            },
        )
        self._ended, self._begun = frozenset(ended), begun
        return differences


def _ended(conditions: Iterable[Condition], standing: Mapping[str, StandingAlarms]) -> list[Condition]:
    """Those that have ended for certain; a source that is not there any more has nothing that lasts."""
    nothing = StandingAlarms({}, complete=True)
    ended = []
    for source, condition in conditions:
        alarms = standing.get(source, nothing)
        if alarms.complete and condition not in alarms.conditions:
            ended.append((source, condition))
    return ended
