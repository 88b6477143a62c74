"""Schemas: four counts (configuration, instrumentation, methods, events), then their records as field tables.

A method's or an event's record is followed by one for each argument. No agent sends events; they are read
and written by the design notes. Source: Apache Qpid management design notes ("Schema Messages").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.am01.forms import AM01, read_table, write_table
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition, schema_hash
from gateway.dialects.qmf.elements import TypeCode
from gateway.dialects.qmf.fields import Cursor
from gateway.dialects.qmf.schema_records import (
    access_code,
    default_of,
    described,
    direction_text,
    read_members,
    read_method,
)
from gateway.dialects.qmf.typed_values import QmfValue
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema, Method

_SORTS: Final = ("configuration", "instrumentation", "method", "event")
_EVENT_FIELDS: Final = ("name", "type", "unit", "desc")
"""The fields of an event's argument that are written; all fields are read."""


def event_key(owner: ClassKey, name: str) -> ClassKey:
    """Return the key of the event ``name`` of a class."""
    return ClassKey(owner.package, f"{owner.name}.{name}", owner.hash)


def event_name(key: ClassKey) -> tuple[str, str]:
    """Return class and event of an event's key."""
    owner, _, name = key.name.rpartition(".")
    return owner, name


def read_schema(cursor: Cursor, key: ClassKey) -> tuple[ClassDefinition, tuple[EventDefinition, ...]]:
    """Read the schema of a class.

    Raises:
        ProtocolError: a record is malformed, has no name, or a type that AM01 lacks.
    """
    counts = [cursor.u16(f"{sort} count") for sort in _SORTS]
    definition = read_members(cursor, key, counts, read_table, AM01)
    events = [_event(cursor, key) for _ in range(counts[3])]
    # Only AM2 has presence masks: whatever a record declares, the value is always present.
    properties = tuple(replace(one, optional=False) for one in definition.schema.properties)
    return replace(definition, schema=replace(definition.schema, properties=properties)), tuple(events)


def _event(cursor: Cursor, owner: ClassKey) -> EventDefinition:
    method, codes = read_method(cursor, read_table, AM01)
    schema = EventSchema(event_key(owner, method.name), method.arguments, description=method.description)
    return EventDefinition(schema, codes, AM01)


def write_schema(definition: ClassDefinition, events: Sequence[EventDefinition] = ()) -> bytes:
    """Encode the schema of a class, with field names in alphabetical order, as in agents.

    Raises:
        LocalProtocolError: a name is too long, there are too many of a sort, an element is optional, or
            AM01 lacks a type.
    """
    schema = definition.schema
    sorts = (schema.properties, schema.statistics, schema.methods, events)
    parts = [fields.u16(len(sort)) for sort in sorts]
    for element, code in zip(schema.properties, definition.property_codes, strict=True):
        if element.optional:
            raise LocalProtocolError(f"{element.name} of {schema.key} is optional, which only AM2 supports")
        entries: dict[str, QmfValue] = {
            "access": access_code(element),
            "index": int(element.index),
            "references": element.references,
        }
        parts.append(_write_record(entries | _described(element, code)))
    for element, code in zip(schema.statistics, definition.statistic_codes, strict=True):
        parts.append(_write_record(_described(element, code)))
    for method, codes in zip(schema.methods, definition.method_codes, strict=True):
        parts += _write_arguments(method, codes, directed=True)
    for event in events:
        described_event = Method(
            event_name(event.key)[1], event.schema.arguments, description=event.schema.description
        )
        parts += _write_arguments(described_event, event.codes, directed=False)
    return b"".join(parts)


def _write_arguments(method: Method, codes: Sequence[TypeCode], *, directed: bool) -> list[bytes]:
    head: dict[str, QmfValue] = {
        "argCount": len(codes),
        "desc": method.description,
        "name": method.name,
    }
    records = [_write_record(head)]
    for argument, code in zip(method.arguments, codes, strict=True):
        entries = _described(argument, code)
        if directed:
            entries["dir"] = direction_text(argument)
            records.append(_write_record(entries, default_of(argument)))
        else:
            records.append(_write_record({name: entries[name] for name in _EVENT_FIELDS}))
    return records


def _described(item: Element | Argument, code: TypeCode) -> dict[str, QmfValue]:
    if code not in AM01:
        raise LocalProtocolError(f"AM01 has no type for {item.name}: {code.name}")
    return described(item, code, AM01)


def _write_record(record: Mapping[str, QmfValue], default: Mapping[str, QmfValue] | None = None) -> bytes:
    # An empty default is written, other empty texts are not.
    entries = {name: value for name, value in record.items() if value not in (None, "")}
    entries |= {name: value for name, value in (default or {}).items() if value is not None}
    return write_table({name: entries[name] for name in sorted(entries)})


def described_class(
    schema: ClassSchema, events: Sequence[EventSchema] = ()
) -> tuple[ClassDefinition, tuple[EventDefinition, ...]]:
    """Return a class of this gateway and its events, with the hash of its schema in their keys.

    Raises:
        LocalProtocolError: AM01 cannot express this class.
    """
    definition = ClassDefinition.of(schema, AM01)
    described_events = [EventDefinition.of(event, AM01) for event in events]
    digest = schema_hash(schema.key, write_schema(definition, described_events))
    key = replace(schema.key, hash=digest)
    return ClassDefinition.of(replace(schema, key=key), AM01), tuple(
        EventDefinition.of(replace(event, key=event_key(key, event_name(event.key)[1])), AM01)
        for event in events
    )
