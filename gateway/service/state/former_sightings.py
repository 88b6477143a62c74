"""Objects as the log last told them, for sources that are told of an object only when it changes.

An application tells what it has to tell once. A gateway that is started again shows what it knew, as stale,
until the application speaks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from gateway.eventlog.last_state import LastState
from gateway.eventlog.record import LogRecord
from gateway.feed.records import Lifetime
from gateway.model.observations import ObjectSeen
from gateway.model.schema import ClassSchema, Element
from gateway.model.values import Reference, Value, ValueType
from gateway.service.state.former_objects import nanoseconds

_MICROSECOND: Final = 1_000


def former_sightings(last: LastState, source: str, schemas: Iterable[ClassSchema]) -> Iterator[ObjectSeen]:
    """The objects of a source that lived when the log ended, but for those of classes that are not known.

    Args:
        last: where the log ended.
        source: its name.
        schemas: of the classes, as the source told them.
    """
    known = {str(schema.key): schema for schema in schemas}
    for record in last.of(source):
        schema = known.get(f"{record.package}:{record.class_name}")
        if schema is not None and record.native_id:
            yield _sighting(schema, record, last)


def worth_knowing(
    schemas: Sequence[ClassSchema], last: LastState | None, source: str, at_most: int
) -> tuple[ClassSchema, ...]:
    """The classes that a source should know again: all of them, unless they are more than ``at_most``.

    Then those that had objects when the log ended, so that types that were used once, long ago, do not take
    the room of new ones for ever.
    """
    if len(schemas) <= at_most or last is None:
        return tuple(schemas)
    used = {f"{record.package}:{record.class_name}" for record in last.of(source)}
    return tuple(schema for schema in schemas if str(schema.key) in used)


def _sighting(schema: ClassSchema, record: LogRecord, last: LastState) -> ObjectSeen:
    told = record.values or {}
    return ObjectSeen(
        schema.key,
        record.agent or "",
        record.native_id or "",
        record.sample_ns or nanoseconds(record.sample_ts),
        _created(record),
        0,
        tuple(_value(element, told.get(element.name), last) for element in schema.properties),
        tuple(_value(element, told.get(element.name), last) for element in schema.statistics),
        record.lifetime == Lifetime.TRANSIENT.value,
    )


def _created(record: LogRecord) -> int:
    """When it came into being: to the microsecond, or as exactly as the name of a transient one has it."""
    created = nanoseconds(record.create_ts)
    _, _, exactly = (record.object_name or "").rpartition("#")
    if record.lifetime == Lifetime.TRANSIENT.value and re.fullmatch("[0-9]{1,19}", exactly):
        return int(exactly) if 0 <= int(exactly) - created < _MICROSECOND else created
    return created


def _value(element: Element, told: object, last: LastState) -> Value | None:
    """A value as the source told it; ``None`` for one that the element cannot have."""
    if element.type is ValueType.REFERENCE:
        target = last.objects.get(told) if isinstance(told, str) else None
        return Reference(target.native_id) if target is not None and target.native_id else None
    read = _READERS.get(element.type, _integer if element.type.integer_bits else _nothing)
    return read(told)


def _nothing(_: object) -> None:
    return None


def _integer(told: object) -> int | None:
    return told if isinstance(told, int) and not isinstance(told, bool) else None


def _boolean(told: object) -> bool | None:
    return told if isinstance(told, bool) else None


def _text(told: object) -> str | None:
    return told if isinstance(told, str) else None


def _time(told: object) -> int | None:
    return _integer(told) or nanoseconds(told) or None


def _octets(told: object) -> bytes | None:
    try:
        return bytes.fromhex(told) if isinstance(told, str) else None
    except ValueError:
        return None


def _float(told: object) -> float | None:
    if isinstance(told, str):
        return _NOT_FINITE.get(told)
    return float(told) if isinstance(told, int | float) and not isinstance(told, bool) else None


_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_READERS: Final[Mapping[ValueType, Callable[[object], Value | None]]] = {
    ValueType.BOOL: _boolean,
    ValueType.STRING: _text,
    ValueType.BYTES: _octets,
    ValueType.F32: _float,
    ValueType.F64: _float,
    ValueType.TIME: _time,
    ValueType.DURATION: _integer,
}
