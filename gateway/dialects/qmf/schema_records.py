"""Schema records: what follows the class key in an ``s`` message, to and from definitions.

A class is three counts (properties, statistics, methods) and one map each, a method followed by one map
per argument; an event is a count and one map per argument. Source: QMF AM2 protocol ("Schema Response").
Where peers differ from it they are followed: an event is a kind of its own and not part of a class,
``dir`` is text, and integers and strings come under many type codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition, schema_hash
from gateway.dialects.qmf.element_types import TypeCode
from gateway.dialects.qmf.fields import Cursor
from gateway.dialects.qmf.typed_values import QmfValue, read_map, write_map
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    EventSchema,
    Method,
)

_Record = Mapping[str, QmfValue]

_ACCESS_CODES: Final = {Access.READ_CREATE: 1, Access.READ_WRITE: 2, Access.READ_ONLY: 3}
_ACCESSES: Final = {code: access for access, code in _ACCESS_CODES.items()}
_DIRECTION_TEXTS: Final = {Direction.IN: "I", Direction.OUT: "O", Direction.INOUT: "IO"}
# The specification says 1, 2, 3; every peer sends the text.
_DIRECTIONS: Final[dict[QmfValue, Direction]] = {
    "I": Direction.IN,
    "O": Direction.OUT,
    "IO": Direction.INOUT,
    1: Direction.IN,
    2: Direction.OUT,
    3: Direction.INOUT,
}
_TYPE_LIMITS: Final = {TypeCode.STR8: 0xFF, TypeCode.STR16: 0xFFFF}


def read_class(cursor: Cursor, key: ClassKey) -> ClassDefinition:
    """Read the schema of a class.

    Raises:
        ProtocolError: a record is malformed, has no name, or a type that AM2 does not have.
    """
    counts = (cursor.u16("property count"), cursor.u16("statistic count"), cursor.u16("method count"))
    properties = [_element(*_read_record(cursor), statistic=False) for _ in range(counts[0])]
    statistics = [_element(*_read_record(cursor), statistic=True) for _ in range(counts[1])]
    methods = [_method(cursor) for _ in range(counts[2])]
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
    arguments = [_argument(*_read_record(cursor)) for _ in range(count)]
    schema = EventSchema(key, tuple(argument for argument, _ in arguments))
    return EventDefinition(schema, tuple(code for _, code in arguments))


def _read_record(cursor: Cursor) -> tuple[_Record, int]:
    start = cursor.position
    return read_map(cursor), start


def _element(record: _Record, start: int, *, statistic: bool) -> tuple[Element, TypeCode]:
    code = _type(record, start)
    element = Element(
        name=_name(record, start),
        type=code.value_type,
        access=Access.READ_ONLY if statistic else _ACCESSES.get(_integer(record, "access"), Access.READ_ONLY),
        index=bool(_integer(record, "index")),
        optional=not statistic and bool(_integer(record, "optional")),
        unit=_text(record, "unit"),
        minimum=_number(record, "min"),
        maximum=_number(record, "max"),
        max_length=_length(record, code),
        references=_text(record, "references") or _text(record, "refClass"),  # the latter from Java
        description=_text(record, "desc"),
    )
    return element, code


def _argument(record: _Record, start: int) -> tuple[Argument, TypeCode]:
    code = _type(record, start)
    default = record.get("default")
    direction = record.get("dir")
    argument = Argument(
        name=_name(record, start),
        type=code.value_type,
        direction=_DIRECTIONS.get(direction, Direction.IN)
        if isinstance(direction, str | int)
        else Direction.IN,
        unit=_text(record, "unit"),
        minimum=_number(record, "min"),
        maximum=_number(record, "max"),
        max_length=_length(record, code),
        default=default if isinstance(default, bool | int | float | str) else None,
        description=_text(record, "desc"),
    )
    return argument, code


def _method(cursor: Cursor) -> tuple[Method, tuple[TypeCode, ...]]:
    record, start = _read_record(cursor)
    count = _integer(record, "argCount")
    if count < 0:
        raise ProtocolError("a count of arguments", f"{count}", start)
    arguments = [_argument(*_read_record(cursor)) for _ in range(count)]
    method = Method(
        _name(record, start), tuple(argument for argument, _ in arguments), description=_text(record, "desc")
    )
    return method, tuple(code for _, code in arguments)


def _type(record: _Record, start: int) -> TypeCode:
    code = record.get("type")
    try:
        return TypeCode(code)  # type: ignore[arg-type]  # whatever it is, the enumeration judges it
    except (ValueError, TypeError) as error:
        raise ProtocolError("a type code of AM2", repr(code)[:80], start) from error


def _name(record: _Record, start: int) -> str:
    name = _text(record, "name")
    if not name:
        raise ProtocolError("a record with a name", repr(record)[:80], start)
    return name


def _text(record: _Record, key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def _integer(record: _Record, key: str) -> int:
    value = record.get(key)
    return value if isinstance(value, int) else 0


def _number(record: _Record, key: str) -> int | float | None:
    value = record.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _length(record: _Record, code: TypeCode) -> int | None:
    told = record.get("maxlen")
    if isinstance(told, int) and told >= 0:
        return told
    # The model has one string type only, and what is written must fit the wire's.
    return _TYPE_LIMITS.get(code)


def write_class(definition: ClassDefinition) -> bytes:
    """Encode the schema of a class, keys in alphabetical order as qpidd has them.

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
            "access": _ACCESS_CODES[element.access],
            "index": int(element.index),
            "optional": int(element.optional),
            "references": element.references,
        }
        parts.append(_write_record(told | _described(element, code)))
    for element, code in zip(schema.statistics, definition.statistic_codes, strict=True):
        parts.append(_write_record(_described(element, code)))
    for method, codes in zip(schema.methods, definition.method_codes, strict=True):
        head: dict[str, QmfValue] = {
            "argCount": len(codes),
            "desc": method.description,
            "name": method.name,
        }
        parts.append(_write_record(head))
        for argument, code in zip(method.arguments, codes, strict=True):
            direction: dict[str, QmfValue] = {"dir": _DIRECTION_TEXTS[argument.direction]}
            parts.append(_write_record(direction | _default(argument) | _described(argument, code)))
    return b"".join(parts)


def write_event(definition: EventDefinition) -> bytes:
    """Encode the schema of an event; raises as `write_class`."""
    arguments = zip(definition.schema.arguments, definition.codes, strict=True)
    records = [_write_record(_default(argument) | _described(argument, code)) for argument, code in arguments]
    return fields.u16(len(records)) + b"".join(records)


def _described(item: Element | Argument, code: TypeCode) -> dict[str, QmfValue]:
    return {
        "desc": item.description,
        "max": item.maximum,
        "maxlen": None if item.max_length == _TYPE_LIMITS.get(code) else item.max_length,
        "min": item.minimum,
        "name": item.name,
        "type": int(code),
        "unit": item.unit,
    }


def _default(argument: Argument) -> dict[str, QmfValue]:
    default = argument.default
    return {"default": default if isinstance(default, bool | int | float | str) else None}


def _write_record(record: _Record) -> bytes:
    return write_map({key: record[key] for key in sorted(record) if record[key] not in (None, "")})


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
