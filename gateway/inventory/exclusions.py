"""The exclusion of classes, elements, events and arguments by overrides, from the observations of one source.

Positions in observations are those of the schema as learnt; behind this module they are those of what is
left of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from gateway.inventory.classes import ClassRegistry
from gateway.model.observations import (
    ClassLearned,
    EventLearned,
    EventSeen,
    ObjectSeen,
    Observation,
    RecordLost,
)
from gateway.model.schema import Argument, ClassKey, Element
from gateway.model.values import Values


class _Left(msgspec.Struct, frozen=True):
    """The positions that are left of the values of a class, or of an event (in ``properties``)."""

    properties: tuple[int, ...]
    statistics: tuple[int, ...] = ()


class Exclusions:
    """Drops what is excluded from the observations of one source.

    Args:
        classes: says what is excluded.
    """

    def __init__(self, classes: ClassRegistry) -> None:
        self._classes = classes
        # By kind, too: a class and an event may have the same key.
        self._excluded: set[tuple[type, ClassKey]] = set()
        self._cut: dict[tuple[type, ClassKey], _Left] = {}

    def shown(self, observation: Observation) -> Observation | None:
        """Return what is left of an observation; ``None`` if all of it is excluded."""
        match observation:
            case ClassLearned():
                return self._class_learned(observation)
            case EventLearned():
                return self._event_learned(observation)
            case RecordLost():
                lost = {(ObjectSeen, observation.key), (EventSeen, observation.key)} & self._excluded
                return None if lost else observation
            case ObjectSeen() | EventSeen():
                return self._seen(observation)
        return observation

    def _seen(self, seen: ObjectSeen | EventSeen) -> ObjectSeen | EventSeen | None:
        key = (type(seen), seen.key)
        if key in self._excluded:
            return None
        left = self._cut.get(key)
        if left is None:
            return seen
        if isinstance(seen, EventSeen):
            return replace(seen, arguments=_values(seen.arguments, left.properties) or ())
        return replace(
            seen,
            properties=_values(seen.properties, left.properties),
            statistics=_values(seen.statistics, left.statistics),
        )

    def _class_learned(self, learned: ClassLearned) -> ClassLearned | None:
        schema, cut = learned.schema, self._classes.class_cut(learned.schema)
        key = (ObjectSeen, schema.key)
        self._forget(key)
        if cut is None:
            self._excluded.add(key)
            return None
        if cut is schema:
            return learned
        self._cut[key] = _Left(
            _positions(schema.properties, cut.properties), _positions(schema.statistics, cut.statistics)
        )
        return replace(learned, schema=cut)

    def _event_learned(self, learned: EventLearned) -> EventLearned | None:
        schema, cut = learned.schema, self._classes.event_cut(learned.schema)
        key = (EventSeen, schema.key)
        self._forget(key)
        if cut is None:
            self._excluded.add(key)
            return None
        if cut is schema:
            return learned
        self._cut[key] = _Left(_positions(schema.arguments, cut.arguments))
        return replace(learned, schema=cut)

    def _forget(self, key: tuple[type, ClassKey]) -> None:
        # A later schema of the same key replaces the earlier one.
        self._excluded.discard(key)
        self._cut.pop(key, None)


def _positions(learnt: Sequence[Element | Argument], left: Sequence[Element | Argument]) -> tuple[int, ...]:
    names = {one.name for one in left}
    return tuple(position for position, one in enumerate(learnt) if one.name in names)


def _values(values: Values | None, positions: tuple[int, ...]) -> Values | None:
    if values is None:
        return None
    return tuple(values[position] for position in positions if position < len(values))
