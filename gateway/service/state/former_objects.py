"""What the log says of objects that lived when it ended, for those who must know them again.

The inventory finds their names and rows by it. A RabbitMQ's agent, which has no memory of its own, can tell
the end of one: the broker's event tells little of what ended.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID

from gateway.agents.rabbitmq.known_objects import KnownObject
from gateway.agents.rabbitmq.object_names import ObjectName, number_of, object_number
from gateway.eventlog.last_state import LastState
from gateway.eventlog.record import LogRecord
from gateway.feed.records import Lifetime
from gateway.inventory.restored_objects import RestoredObject
from gateway.mapping.files import class_schemas
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.schema import ClassSchema, Element
from gateway.model.values import Value, Values, ValueType

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DIGITS: Final = 9


def former_identities(last: LastState, source: str) -> Iterator[RestoredObject]:
    """The objects of a source that lived when the log ended, as the inventory remembers them."""
    for record in last.of(source):
        if record.native_id and record.object_name and record.row:
            yield RestoredObject(
                f"{record.package}:{record.class_name}",
                record.object_name,
                record.row,
                record.native_id,
                record.lifetime == Lifetime.DURABLE.value,
            )


def former_objects(mapping: MappingFile, last: LastState, source: str) -> Iterator[KnownObject]:
    """The objects of a source that lived when the log ended; what cannot be understood is left out.

    Args:
        mapping: of the package ``rabbitmq``.
        last: where the log ended.
        source: name of the source.
    """
    schemas = class_schemas(mapping)
    for record in last.of(source):
        schema = schemas.get(record.class_name or "")
        if schema is not None and record.package == mapping.package:
            known = _known(schema, record, last)
            if known is not None:
                yield known


def _known(schema: ClassSchema, record: LogRecord, last: LastState) -> KnownObject | None:
    values = record.values or {}
    properties = tuple(_value(element, values.get(element.name), last) for element in schema.properties)
    parts = _parts(schema, properties)
    if parts is None:
        return None
    name = ObjectName(schema.key.name, parts)
    created = nanoseconds(record.create_ts)
    number = number_of(record.native_id or "")
    return KnownObject(
        name=name,
        number=object_number(name, created) if number is None else number,
        created=created,
        heard=0,
        properties=properties,
        statistics=(None,) * len(schema.statistics),
        sampled=record.sample_ns or 0,
    )


def _parts(schema: ClassSchema, properties: Values) -> tuple[str, ...] | None:
    indexed = zip(schema.properties, properties, strict=True)
    parts = [value for element, value in indexed if element.index]
    texts = tuple(part for part in parts if isinstance(part, str))
    return texts if parts and len(texts) == len(parts) else None


def _value(element: Element, told: object, last: LastState) -> Value | None:
    """A property as the agent keeps it: a reference as the name of what it leads to."""
    match element.type:
        case ValueType.REFERENCE:
            target = last.objects.get(told) if isinstance(told, str) else None
            return None if target is None else _leaf(target)
        case ValueType.TIME:
            return told if isinstance(told, int) else nanoseconds(told) or None
        case ValueType.BYTES:
            return bytes.fromhex(told) if isinstance(told, str) else None
        case ValueType.UUID:
            return UUID(told) if isinstance(told, str) else None
    return plain_value(told)


def _leaf(target: LogRecord) -> str | None:
    """The name of an object that references lead to: these have one index, which is their name."""
    name = (target.values or {}).get("name")
    return name if isinstance(name, str) else None


def plain_value(value: object) -> Value | None:
    """A value as it was before the log had it as JSON; ``None`` for none."""
    if isinstance(value, Mapping):
        inner = {str(name): plain_value(one) for name, one in value.items()}
        return {name: one for name, one in inner.items() if one is not None}
    if isinstance(value, list):
        return tuple(one for one in map(plain_value, value) if one is not None)
    return value if isinstance(value, bool | int | float | str) else None


def nanoseconds(text: object) -> int:
    """Of a time as the log has it, exactly; 0 for what is none."""
    if not isinstance(text, str):
        return 0
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    try:
        time = dt.datetime.fromisoformat(seconds).replace(tzinfo=dt.UTC)
        return int((time - _EPOCH).total_seconds()) * 10**_DIGITS + int(fraction.ljust(_DIGITS, "0"))
    except ValueError:
        return 0
