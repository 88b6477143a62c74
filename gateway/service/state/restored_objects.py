"""Objects that lived when the event log ended: their records in the forms that other parts need.

The inventory restores names and rows by them. A RabbitMQ's source, which has no memory of its own, can report
the end of one: the broker's event says little of what ended. A source whose peers report an object only when
it changes restores the object itself, as stale, until the peer reports it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from uuid import UUID

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.fields import ObjectId
from gateway.eventlog.last_state import LastState
from gateway.eventlog.record import LogRecord, nanoseconds_of, time_value
from gateway.feed.records import Lifetime
from gateway.inventory.restored_objects import RestoredObject
from gateway.inventory.source import SourceInventory
from gateway.mapping.files import class_schemas
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.observations import ObjectSeen
from gateway.model.schema import ClassSchema, Element
from gateway.model.source_kinds import source_kind
from gateway.model.stable_names import parts
from gateway.model.times import MICROSECOND
from gateway.model.values import Reference, Value, Values, ValueType
from gateway.sources.rabbitmq.object_names import ObjectName, number_of, object_number, recorded_name

if TYPE_CHECKING:  # not every core has a RabbitMQ
    from gateway.sources.rabbitmq.object_lives import KnownObject


def restore_source(source: SourceInventory, last: LastState, *, by_native_id: bool) -> None:
    """Give the inventory of a source the objects, and agents, that it had when the log ended.

    Args:
        source: the source; nothing of it has been reported.
        last: the state when the log ended.
        by_native_id: as `SourceInventory.restore` has it.
    """
    name, kind = source.identity.name, source.identity.kind
    source.restore(restored_identities(last, name, kind), by_native_id=by_native_id)
    for record in last.of(name):
        values = record.values or {}
        source.restore_peer(f"{record.package}:{record.class_name}", record.agent or "", values)
    if source_kind(kind).with_agents:
        agents = sorted({record.agent for record in last.of(name) if record.agent})
        source.restore_agents(agents, last.complete_until.get(name, 0))


def restored_identities(last: LastState, source: str, kind: str) -> Iterator[RestoredObject]:
    """Yield the objects of a source that lived when the log ended, as the inventory restores them.

    Args:
        last: the state when the log ended.
        source: name of the source.
        kind: the kind of the source.
    """
    with_agents = source_kind(kind).with_agents
    for record in last.of(source):
        if record.native_id and record.object_name and record.row:
            durable, created = record.lifetime == Lifetime.DURABLE.value, nanoseconds_of(record.create_ts)
            persistent_id = with_agents and _is_persistent(kind, record.native_id)
            yield RestoredObject(
                f"{record.package}:{record.class_name}",
                record.object_name,
                record.row,
                record.native_id,
                durable,
                agent=record.agent or "",
                identified=durable or not with_agents or persistent_id or _is_named_after(created, record),
                persistent_id=persistent_id,
                created=created,
            )


def _is_persistent(kind: str, native_id: str) -> bool:
    """Return whether no other object of the source has this id, in any run of its agent."""
    prefix, _, number = native_id.rpartition("-")
    agent = _prefix(prefix)
    if agent is None or not number.isdecimal():
        return False
    if kind != "am01":
        return agent.is_persistent
    from gateway.dialects.qmf.am01.session_state import is_unique  # noqa: PLC0415  few cores speak that dialect

    return is_unique(ObjectId(agent.prefix, int(number)))


@lru_cache(maxsize=1024)
def _prefix(text: str) -> ObjectId | None:
    """Return the common part of the object ids of one run of an agent; ``None`` for a text that is none."""
    try:
        return ObjectId.parse(f"{text}-0")
    except ProtocolError:
        return None


def _is_named_after(created: int, record: LogRecord) -> bool:
    """Return whether the name of a transient object contains its creation time."""
    _, _, behind = (record.object_name or "").rpartition("#")
    return bool(created) and re.fullmatch("[0-9]{1,19}", behind) is not None


def restored_rabbitmq_objects(mapping: MappingFile, last: LastState, source: str) -> Iterator[KnownObject]:
    """Yield the objects of a RabbitMQ that lived when the log ended; what cannot be read is left out.

    Args:
        mapping: the mapping of the package ``rabbitmq``.
        last: the state when the log ended.
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
    from gateway.sources.rabbitmq.object_lives import KnownObject  # noqa: PLC0415  see above

    values = record.values or {}
    properties = tuple(_value(element, values.get(element.name), last) for element in schema.properties)
    properties = _with_names(schema, properties, record.object_name or "")
    indexes = _indexes(schema, properties)
    if indexes is None:
        return None
    name = ObjectName(schema.key.name, indexes)
    created = nanoseconds_of(record.create_ts)
    number = number_of(record.native_id or "")
    return KnownObject(
        name=name,
        number=object_number(name, created) if number is None else number,
        created=created,
        first_seen=0,
        properties=properties,
        statistics=_statistics(schema, values),
        sampled=record.sample_ns or 0,
        announced=last.young.get(record.object_id or "", 0),
    )


def _statistics(schema: ClassSchema, values: Mapping[str, object]) -> Values:
    """Return the statistics of a node, which show whether it counted on; of other classes none are needed."""
    if schema.key.name != "node":
        return (None,) * len(schema.statistics)
    return tuple(plain_value(values.get(element.name)) for element in schema.statistics)


def _with_names(schema: ClassSchema, properties: Values, object_name: str) -> Values:
    """Return properties with the names of those index references whose targets were not recorded yet.

    The name of an object has them from its own document: its virtual host may be listed later, or never.
    """
    named = parts(object_name)
    positions = schema.index_positions
    if len(named) != len(positions):
        return properties
    completed = list(properties)
    for position, target in zip(positions, named, strict=True):
        element = schema.properties[position]
        if element.type is ValueType.REFERENCE and completed[position] is None and target is not None:
            leaf = parts(target)[-1]
            completed[position] = None if leaf is None else recorded_name(leaf)
    return tuple(completed)


def _indexes(schema: ClassSchema, properties: Values) -> tuple[str, ...] | None:
    indexed = zip(schema.properties, properties, strict=True)
    found = [value for element, value in indexed if element.index]
    texts = tuple(recorded_name(one) for one in found if isinstance(one, str))
    return texts if found and len(texts) == len(found) else None


def _value(element: Element, logged: object, last: LastState) -> Value | None:
    """Return a property as the agent keeps it: a reference as the name of its target."""
    match element.type:
        case ValueType.REFERENCE:
            target = last.objects.get(logged) if isinstance(logged, str) else None
            return None if target is None else _leaf(target)
        case ValueType.TIME:
            return _time(logged)
        case ValueType.BYTES:
            return _octets(logged)
        case ValueType.UUID:
            return _uuid(logged)
    return plain_value(logged)


def _leaf(target: LogRecord) -> str | None:
    """Return the name of an object that references lead to: these have one index, which is their name."""
    name = (target.values or {}).get("name")
    return recorded_name(name) if isinstance(name, str) else None


def plain_value(value: object) -> Value | None:
    """Return a value as it was before it became JSON; ``None`` for none."""
    if isinstance(value, Mapping):
        inner = {str(name): plain_value(one) for name, one in value.items()}
        return {name: one for name, one in inner.items() if one is not None}
    if isinstance(value, list):
        return tuple(one for one in map(plain_value, value) if one is not None)
    return value if isinstance(value, bool | int | float | str) else None


def restored_reports(last: LastState, source: str, schemas: Iterable[ClassSchema]) -> Iterator[ObjectSeen]:
    """Yield the objects of a source that lived when the log ended, as reports, but for unknown classes.

    Args:
        last: the state when the log ended.
        source: its name.
        schemas: of the classes, as the source reported them.
    """
    known = {str(schema.key): schema for schema in schemas}
    for record in last.of(source):
        schema = known.get(f"{record.package}:{record.class_name}")
        if schema is not None and record.native_id:
            yield _report(schema, record, last)


def classes_to_restore(
    schemas: Sequence[ClassSchema], last: LastState | None, source: str, at_most: int
) -> tuple[ClassSchema, ...]:
    """Return the classes that a source restores: all of them, unless they are more than ``at_most``.

    Then those that had objects when the log ended, so that types that were used once, long ago, do not take
    the room of new ones for ever.
    """
    if len(schemas) <= at_most or last is None:
        return tuple(schemas)
    used = {f"{record.package}:{record.class_name}" for record in last.of(source)}
    return tuple(schema for schema in schemas if str(schema.key) in used)


def _report(schema: ClassSchema, record: LogRecord, last: LastState) -> ObjectSeen:
    logged = record.values or {}
    return ObjectSeen(
        schema.key,
        record.agent or "",
        record.native_id or "",
        record.sample_ns or nanoseconds_of(record.sample_ts),
        _created(record),
        0,
        tuple(_reported(element, logged.get(element.name), last) for element in schema.properties),
        tuple(_reported(element, logged.get(element.name), last) for element in schema.statistics),
        record.lifetime == Lifetime.TRANSIENT.value,
    )


def _created(record: LogRecord) -> int:
    """Return the creation time: to the microsecond, or as exactly as the name of a transient one has it."""
    created = nanoseconds_of(record.create_ts)
    _, _, exactly = (record.object_name or "").rpartition("#")
    if record.lifetime == Lifetime.TRANSIENT.value and re.fullmatch("[0-9]{1,19}", exactly):
        return int(exactly) if 0 <= int(exactly) - created < MICROSECOND else created
    return created


def _reported(element: Element, logged: object, last: LastState) -> Value | None:
    """Return a value as the source reported it; ``None`` for one that the element cannot have."""
    if element.type is ValueType.REFERENCE:
        target = last.objects.get(logged) if isinstance(logged, str) else None
        return Reference(target.native_id) if target is not None and target.native_id else None
    read = _READERS.get(element.type, _integer if element.type.integer_bits else _nothing)
    return read(logged)


def _nothing(_: object) -> None:
    return None


def _integer(logged: object) -> int | None:
    return logged if isinstance(logged, int) and not isinstance(logged, bool) else None


def _boolean(logged: object) -> bool | None:
    return logged if isinstance(logged, bool) else None


def _text(logged: object) -> str | None:
    return logged if isinstance(logged, str) else None


def _time(logged: object) -> int | None:
    number = _integer(logged)  # a time beyond all calendars
    return time_value(logged) if number is None else number


def _octets(logged: object) -> bytes | None:
    try:
        return bytes.fromhex(logged) if isinstance(logged, str) else None
    except ValueError:
        return None


def _uuid(logged: object) -> UUID | None:
    try:
        return UUID(logged) if isinstance(logged, str) else None
    except ValueError:
        return None


def _float(logged: object) -> float | None:
    if isinstance(logged, str):
        return _NOT_FINITE.get(logged)
    return float(logged) if isinstance(logged, int | float) and not isinstance(logged, bool) else None


_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_READERS: Final[Mapping[ValueType, Callable[[object], Value | None]]] = {
    ValueType.BOOL: _boolean,
    ValueType.STRING: _text,
    ValueType.BYTES: _octets,
    ValueType.UUID: _uuid,
    ValueType.F32: _float,
    ValueType.F64: _float,
    ValueType.TIME: _time,
    ValueType.DURATION: _integer,
}
