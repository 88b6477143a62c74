"""Values as they are told, against values as they are kept: references resolved, changes found."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import ObjectSeen
from gateway.model.schema import ClassSchema, Kind
from gateway.model.values import Reference, Value


@dataclass(frozen=True, slots=True)
class Change:
    """What one message changed.

    Attributes:
        values: new values by position in ``ClassSchema.elements``.
        absent: positions that had a value and have none now.
        property_changed: a property is among them.
        restarted: a counter fell, or came back after it was absent: rates must not span this moment.
    """

    values: Mapping[int, FeedValue]
    absent: tuple[int, ...]
    property_changed: bool
    restarted: bool


def told(schema: ClassSchema, seen: ObjectSeen) -> Iterator[tuple[int, Value | None]]:
    """Each element that this message tells: position and value, ``None`` where told to be absent."""
    properties = () if seen.properties is None else enumerate(seen.properties)
    if seen.statistics is None:
        return iter(properties)
    return chain(properties, enumerate(seen.statistics, start=len(schema.properties)))


def holds_references(seen: ObjectSeen) -> bool:
    """Whether this message tells a reference. Most tell none, and each message is asked: in C."""
    return Reference in map(type, seen.properties or ()) or Reference in map(type, seen.statistics or ())


def merged(earlier: ObjectSeen, later: ObjectSeen) -> ObjectSeen:
    """Two messages about one object as one: the later one's groups where it has them."""
    return dataclasses.replace(
        later,
        properties=later.properties if later.properties is not None else earlier.properties,
        statistics=later.statistics if later.statistics is not None else earlier.statistics,
    )


def resolved(
    schema: ClassSchema, seen: ObjectSeen, link: Callable[[str], ObjectLink | None]
) -> dict[int, FeedValue | None]:
    """What this message tells, references as links; one whose target is not known is absent."""
    if not holds_references(seen):
        return dict(told(schema, seen))
    return {
        position: link(value.native_id) if isinstance(value, Reference) else value
        for position, value in told(schema, seen)
    }


def changes(
    schema: ClassSchema,
    kept: Mapping[int, FeedValue],
    tells: Mapping[int, FeedValue | None],
    lost_counters: frozenset[int],
) -> Change:
    """Compare what is told with what is kept.

    Args:
        schema: of the object's class.
        kept: the values so far, by position.
        tells: as `resolved` gives it.
        lost_counters: positions of counters that had a value once and are absent now.
    """
    values: dict[int, FeedValue] = {}
    absent: list[int] = []
    restarted = False
    elements = schema.elements
    for position, value in [(p, v) for p, v in tells.items() if kept.get(p) != v]:
        if value is None:
            absent.append(position)
            continue
        values[position] = value
        if elements[position].kind is Kind.COUNTER:
            restarted = restarted or position in lost_counters or _fell(kept.get(position), value)
    properties = len(schema.properties)
    property_changed = any(position < properties for position in (*values, *absent))
    return Change(values, tuple(absent), property_changed, restarted)


def _fell(former: FeedValue | None, value: FeedValue) -> bool:
    return isinstance(former, int | float) and isinstance(value, int | float) and value < former
