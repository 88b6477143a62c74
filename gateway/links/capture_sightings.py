"""Objects that a session knew from before a restart, in a capture: as JSON and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.links.capture_operations import plain_value, value_of
from gateway.links.capture_reading import CaptureError, Record
from gateway.model.observations import ObjectSeen
from gateway.model.schema import ClassKey
from gateway.model.values import Values

LONGEST: Final = 128 << 10
"""Characters of the objects in one record, about: half of the smallest file that a capture can have."""


def recorded(sightings: Iterable[ObjectSeen]) -> Iterator[tuple[dict[str, Any], list[ObjectSeen]]]:
    """Objects in as many parts as they need records, each with the fields of its record.

    One that would fill a record alone is left out of that, and counted there in ``left_out``.
    """
    part = _Part()
    for seen in sightings:
        fields = _fields(seen)
        size = len(json.dumps(fields))
        if size <= LONGEST < part.size + size:
            yield part.record(), part.sightings
            part = _Part()
        part.sightings.append(seen)
        if size > LONGEST:
            part.left_out += 1
        else:
            part.told.append(fields)
            part.size += size
    yield part.record(), part.sightings


@dataclass(slots=True)
class _Part:
    told: list[dict[str, Any]] = field(default_factory=list)
    sightings: list[ObjectSeen] = field(default_factory=list)
    size: int = 0
    left_out: int = 0

    def record(self) -> dict[str, Any]:
        return {"objects": self.told, **({"left_out": self.left_out} if self.left_out else {})}


def read_sightings(record: Record) -> list[ObjectSeen]:
    """The objects of a record that `recorded` made.

    Raises:
        CaptureError: it tells none.
    """
    try:
        return [_sighting(one) for one in record.records("objects")]
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"line {record.line}: these are no objects: {error}") from error


def _fields(seen: ObjectSeen) -> dict[str, Any]:
    return {
        "package": seen.key.package,
        "class": seen.key.name,
        "hash": seen.key.hash.hex(),
        "agent": seen.agent,
        "native_id": seen.native_id,
        "sampled": seen.sampled,
        "created": seen.created,
        "properties": [plain_value(one) for one in seen.properties or ()],
        "statistics": [plain_value(one) for one in seen.statistics or ()],
        "transient": seen.transient,
    }


def _sighting(told: Record) -> ObjectSeen:
    package, name, digest = (told.value(field, str) for field in ("package", "class", "hash"))
    return ObjectSeen(
        ClassKey(package, name, bytes.fromhex(digest)),
        told.value("agent", str),
        told.value("native_id", str),
        told.value("sampled", int),
        told.value("created", int),
        0,
        _values(told, "properties"),
        _values(told, "statistics"),
        told.value("transient", bool),
    )


def _values(told: Record, name: str) -> Values:
    values = told.told.get(name)
    if not isinstance(values, list):
        raise ValueError(f"'{name}' is no list")  # noqa: TRY004  of the input, not of a caller
    return tuple(value_of(one) for one in values)
