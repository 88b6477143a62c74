"""Schema records: what follows the class key in an ``s`` message, to and from definitions.

A class is three counts (properties, statistics, methods) and one map each, a method followed by one map
per argument; an event is a count and one map per argument. Source: QMF AM2 protocol ("Schema Response").
Where peers differ from it they are followed: an event is a kind of its own and not part of a class,
``dir`` is text, and integers and strings come under many type codes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gateway.dialects.qmf import fields
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition, schema_hash
from gateway.dialects.qmf.element_forms import AM2
from gateway.dialects.qmf.fields import Cursor
from gateway.dialects.qmf.schema_elements import (
    Record,
    access_code,
    default_of,
    described,
    direction_text,
    read_argument,
    read_element,
    read_method,
)
from gateway.dialects.qmf.typed_values import QmfValue, read_map, write_coded, write_map
from gateway.model.schema import ClassKey, ClassSchema, EventSchema


@dataclass(frozen=True, slots=True)
class RecordForm:
    """Under which codes a peer writes the values of schema records; all peers read all.

    Attributes:
        text: of strings, behind a length of 16 bits.
        narrow: the fields whose integers are octets; all others have 32 bits.
        order: in which the fields stand; alphabetical where there is none.
        reference: the field that tells the class of a reference.
        of_events: what arguments of events have beside what tells of them.
    """

    text: int
    narrow: frozenset[str] = frozenset()
    order: tuple[str, ...] = ()
    reference: str = "references"
    of_events: tuple[tuple[str, int], ...] = ()


OURS: Final = RecordForm(0x95)
"""As agents of Apache Qpid 0.6 have it, and all of ours; hashes of our classes are made of it."""

QPIDD: Final = RecordForm(0x90, frozenset(("access", "type")))
"""As qpidd 0.34 has it."""

JAVAS: Final = RecordForm(
    0x95,
    order=(
        *("name", "type", "argCount", "access", "index", "optional"),
        *("min", "max", "unit", "maxlen", "default", "desc", "dir", "refClass"),
    ),
    reference="refClass",
    of_events=(("access", 3), ("index", 0), ("optional", 0)),
)
"""As the Java broker of Apache Qpid 0.8 has it, but for properties with a unit and a description."""


def read_class(cursor: Cursor, key: ClassKey) -> ClassDefinition:
    """Read the schema of a class.

    Raises:
        ProtocolError: a record is malformed, has no name, or a type that AM2 does not have.
    """
    counts = (cursor.u16("property count"), cursor.u16("statistic count"), cursor.u16("method count"))
    properties = [read_element(cursor, read_map, AM2, statistic=False) for _ in range(counts[0])]
    statistics = [read_element(cursor, read_map, AM2, statistic=True) for _ in range(counts[1])]
    methods = [read_method(cursor, read_map, AM2) for _ in range(counts[2])]
    schema = ClassSchema(
        key,
        tuple(element for element, _ in properties),
        tuple(element for element, _ in statistics),
        tuple(method for method, _ in methods),
    )
    return ClassDefinition(
        schema,
        tuple(code for _, code in properties),
        tuple(code for _, code in statistics),
        tuple(codes for _, codes in methods),
    )


def read_event(cursor: Cursor, key: ClassKey) -> EventDefinition:
    """Read the schema of an event; raises as `read_class`."""
    count = cursor.u16("argument count")
    if not count and cursor.remaining > 1 and cursor.body[cursor.position : cursor.position + 3] != b"AM2":
        # Agent 0.6 writes an octet 0 ("no superclass") before the count.
        cursor.position -= 1
        count = cursor.u16("argument count")
    arguments = [read_argument(cursor, read_map, AM2) for _ in range(count)]
    schema = EventSchema(key, tuple(argument for argument, _ in arguments))
    return EventDefinition(schema, tuple(code for _, code in arguments))


def write_class(definition: ClassDefinition, form: RecordForm = OURS) -> bytes:
    """Encode the schema of a class, as ``form`` has it.

    Raises:
        LocalProtocolError: a name is longer than 255 octets, or there are more than 65,535 of a sort.
    """
    schema = definition.schema
    parts = [
        fields.u16(len(schema.properties)),
        fields.u16(len(schema.statistics)),
        fields.u16(len(schema.methods)),
    ]
    for element, code in zip(schema.properties, definition.property_codes, strict=True):
        told: dict[str, QmfValue] = {
            "access": access_code(element),
            "index": int(element.index),
            "optional": int(element.optional),
            form.reference: element.references,
        }
        parts.append(_write_record(told | described(element, code, AM2), form))
    for element, code in zip(schema.statistics, definition.statistic_codes, strict=True):
        parts.append(_write_record(described(element, code, AM2), form))
    for method, codes in zip(schema.methods, definition.method_codes, strict=True):
        head: dict[str, QmfValue] = {
            "argCount": len(codes),
            "desc": method.description,
            "name": method.name,
        }
        parts.append(_write_record(head, form))
        for argument, code in zip(method.arguments, codes, strict=True):
            direction: dict[str, QmfValue] = {"dir": direction_text(argument)}
            parts.append(
                _write_record(direction | default_of(argument) | described(argument, code, AM2), form)
            )
    return b"".join(parts)


def write_event(definition: EventDefinition, form: RecordForm = OURS) -> bytes:
    """Encode the schema of an event; raises as `write_class`."""
    arguments = zip(definition.schema.arguments, definition.codes, strict=True)
    records = [
        _write_record(dict(form.of_events) | default_of(argument) | described(argument, code, AM2), form)
        for argument, code in arguments
    ]
    return fields.u16(len(records)) + b"".join(records)


def _write_record(record: Record, form: RecordForm) -> bytes:
    order = form.order or sorted(record)
    told = {name: record[name] for name in order if record.get(name) not in (None, "")}
    if form == OURS:
        return write_map(told)
    content = b"".join(fields.str8(name) + _coded(name, value, form) for name, value in told.items())
    return fields.u32(len(content) + 4) + fields.u32(len(told)) + content


def _coded(name: str, value: QmfValue, form: RecordForm) -> bytes:
    if isinstance(value, str):
        return bytes((form.text,)) + fields.str16(value)
    if isinstance(value, int) and name in form.narrow:
        return b"\x02" + fields.u8(value)
    return write_coded(value)


def described_class(schema: ClassSchema) -> ClassDefinition:
    """Return the definition of a class of our own, its key completed by the hash of its schema.

    Raises:
        LocalProtocolError: AM2 cannot carry this class.
    """
    definition = ClassDefinition.of(schema)
    key = replace(schema.key, hash=schema_hash(schema.key, write_class(definition)))
    return ClassDefinition.of(replace(schema, key=key))


def described_event(schema: EventSchema) -> EventDefinition:
    """Return the definition of an event of our own; as `described_class`."""
    definition = EventDefinition.of(schema)
    key = replace(schema.key, hash=schema_hash(schema.key, write_event(definition)))
    return EventDefinition.of(replace(schema, key=key))
