"""Listings without statistics: what they show of an object, beside what was known of it.

``disable_stats=true`` costs the broker an eighth of a whole listing. It lacks statistics, and the properties
that RabbitMQ works out together with them. ``enable_queue_totals=true`` is not asked for: the broker then
questions every queue's process, which costs as much as the statistics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway.model.schema import ClassSchema
from gateway.sources.rabbitmq.known_objects import KnownObject
from gateway.sources.rabbitmq.reading import Reading

_STATE: Final = "state"
_LIVE: Final = frozenset({"live", "running"})
"""States that such a listing shows of everything that is not down, stopped, crashed or in a minority."""
_AT_WORK: Final = frozenset({"running", "idle", "flow", "syncing"})
"""What these are in a whole listing."""


def completed_lean(reading: Reading, known: KnownObject | None, schema: ClassSchema) -> Reading:
    """What a listing without statistics shows of an object, completed by what was ``known`` of it."""
    properties = list(reading.properties)
    position = schema.positions.get(_STATE)
    if position is not None and properties[position] in _LIVE:
        state = known.properties[position] if known is not None else None
        properties[position] = state if state in _AT_WORK else "running"
    if known is None:
        return replace(reading, properties=tuple(properties), statistics=(None,) * len(reading.statistics))
    completed = (old if new is None else new for old, new in zip(known.properties, properties, strict=True))
    return replace(reading, properties=tuple(completed), statistics=known.statistics)
