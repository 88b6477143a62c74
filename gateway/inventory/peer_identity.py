"""Which peer a source reads: it is noticed when another one answers under the source's name.

A mapping says which elements of a class identify its peer: an id, and a place such as the name of its machine
(`gateway.mapping.rules.IdentityRule`). Another peer is one with another id, and in none of the known places.
Without that, objects of the same names would be the same ones, with counters that go on.

From a lost connection or a restart on, and after the gateway's start, reports wait until such an object has
shown that the peer is the same, or a complete reading that it is another one: then those of the former one
end first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.inventory.classes import ClassRegistry
from gateway.mapping.rules import IdentityRule
from gateway.model.observations import (
    ClassLearned,
    EventLearned,
    EventSeen,
    HeartbeatSeen,
    ObjectSeen,
    Observation,
    PeerReplaced,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey, ClassSchema
from gateway.model.times import SECOND

PATIENCE: Final = 60 * SECOND
"""Nanoseconds that reports wait at most for an object that identifies the peer."""
MOST_WAITING: Final = 50_000
"""Reports that wait at most, also if another peer is suspected."""

_LOST: Final = frozenset({SourceState.CONNECTING, SourceState.DOWN})
_PASSES: Final = (ClassLearned, EventLearned, SourceStateSeen)


@dataclass(slots=True)
class Peer:
    """What objects of one class show of the peer.

    Attributes:
        ids: the ids, as texts.
        places: the places, as texts.
        agents: the agents that reported these objects.
    """

    ids: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        places = f" at {', '.join(sorted(self.places))}" if self.places else ""
        return f"{', '.join(sorted(self.ids))}{places}"

    def is_other_than(self, known: Peer) -> bool:
        """Return whether all ids and places are others than those of ``known``; places may be unknown."""
        by_id = bool(self.ids and known.ids) and self.ids.isdisjoint(known.ids)
        return by_id and self.places.isdisjoint(known.places)

    def add(self, other: Peer) -> None:
        """Add what other objects show."""
        self.ids |= other.ids
        self.places |= other.places
        self.agents |= other.agents


class PeerWatch:
    """Holds reports back until it is known whose they are.

    Args:
        classes: knows which classes identify a peer.
    """

    def __init__(self, classes: ClassRegistry) -> None:
        self._classes = classes
        self._identifying: dict[ClassKey, ClassSchema] = {}
        self._known: dict[str, Peer] = {}  # by class (``package:name``)
        self._shown: dict[str, Peer] = {}
        self._held: deque[Observation] = deque()
        self._suspected_at = 0
        self._is_suspected = False

    def restore(self, class_name: str, agent: str, values: Mapping[str, object]) -> None:
        """Take an object of before the gateway's start, with the values of its elements as texts."""
        rule = self._classes.identity_rule(class_name)
        if rule is not None:
            shown = _peer(rule, values.get(rule.id), values.get(rule.place), agent)
            self._known.setdefault(class_name, Peer()).add(shown)
            self._is_suspected = True

    def is_indifferent_to(self, observation: Observation) -> bool:
        """Return whether `passed` would return just this observation, as nearly always."""
        return (
            not self._is_suspected
            and isinstance(observation, ObjectSeen | EventSeen | HeartbeatSeen)
            and (not isinstance(observation, ObjectSeen) or observation.key not in self._identifying)
        )

    def passed(self, observation: Observation, now: int) -> Collection[Observation]:
        """Return what is to be applied now of this observation and of earlier ones that wait."""
        if isinstance(observation, ClassLearned) and self._rule(observation.schema.key) is not None:
            self._identifying[observation.schema.key] = observation.schema
        if isinstance(observation, SourceStateSeen) and observation.state in _LOST:
            released = self._decided()
            self._is_suspected = bool(self._known)
            return [*released, observation]
        if isinstance(observation, ResyncBegan) and observation.restarted:
            self._is_suspected = self._is_suspected or bool(self._known)
        shown = self._identified(observation) if isinstance(observation, ObjectSeen) else None
        if not self._is_suspected and not self._is_foreign(shown):
            if shown is not None:
                self._known.setdefault(shown[0], Peer()).add(shown[1])
            return (observation,)
        if isinstance(observation, _PASSES):
            return (observation,)
        self._is_suspected = True
        self._suspected_at = self._suspected_at if self._held else now
        self._held.append(observation)
        if shown is not None:
            self._shown.setdefault(shown[0], Peer()).add(shown[1])
        if self._is_settled(observation):
            return self._decided()
        return ()

    def overdue(self, now: int) -> Collection[Observation]:
        """Return what has waited too long for an object that would identify the peer."""
        waits = self._held and not self._foreign()
        return self._decided() if waits and now - self._suspected_at > PATIENCE else ()

    def _identified(self, seen: ObjectSeen) -> tuple[str, Peer] | None:
        """Return what an object shows of the peer, with its class; ``None`` for all but few objects."""
        schema, rule = self._identifying.get(seen.key), self._rule(seen.key)
        if schema is None or rule is None or seen.deleted or seen.properties is None:
            return None
        positions = (schema.positions.get(name, len(seen.properties)) for name in (rule.id, rule.place))
        values = (*seen.properties, None)
        identity, place = (values[min(position, len(seen.properties))] for position in positions)
        return schema.class_name, _peer(rule, identity, place, seen.agent)

    def _rule(self, key: ClassKey) -> IdentityRule | None:
        return self._classes.identity_rule(f"{key.package}:{key.name}")

    def _is_foreign(self, shown: tuple[str, Peer] | None) -> bool:
        return shown is not None and shown[1].is_other_than(self._known.get(shown[0], Peer()))

    def _foreign(self) -> dict[str, Peer]:
        """Return the classes that show another peer than the known one, and none of its objects."""
        known = self._known
        return {name: one for name, one in self._shown.items() if one.is_other_than(known.get(name, Peer()))}

    def _is_settled(self, last: Observation) -> bool:
        if self._shown and not self._foreign():
            return True
        ends = isinstance(last, ResyncEnded) and last.complete and not last.class_name
        return ends or len(self._held) >= MOST_WAITING

    def _decided(self) -> list[Observation]:
        """Return what waited, behind the ends of another peer's objects if it is of another one."""
        held, foreign = list(self._held), self._foreign()
        out: list[Observation] = []
        for name, shown in foreign.items():
            known = self._known.pop(name)
            text = f"another broker, or another run of it, is read, {shown}, in the place of {known}"
            out.append(PeerReplaced(frozenset(known.agents), text))
        for name, shown in self._shown.items():
            self._known.setdefault(name, Peer()).add(shown)
        self._held.clear()
        self._shown.clear()
        self._is_suspected = False
        return [*out, *held]


def _peer(rule: IdentityRule, identity: object, place: object, agent: str) -> Peer:
    """Return what one object shows, by its values in the model or in the log."""
    ids, places = (
        set() if value is None or str(value) in {"", *rule.unknown} else {str(value)}
        for value in (identity, place)
    )
    return Peer(ids, places, {agent})
