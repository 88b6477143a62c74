"""Schema records: the part of an ``s`` message after the class key, to and from definitions.

A class is three counts (properties, statistics, methods) and one map each, a method followed by one map
per argument; an event is a count and one map per argument. Source: QMF AM2 protocol ("Schema Response").
Where peers deviate from it, their form is used: an event is a kind of its own and not part of a class,
``dir`` is text, and integers and strings have many type codes. All versions of QMF have the same
entries in the maps; they differ in the encoding of maps and in the types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition, schema_hash
from gateway.dialects.qmf.elements import AM2, ElementForms, TypeCode
from gateway.dialects.qmf.fields import Cursor
from gateway.dialects.qmf.typed_values import QmfValue, read_map, write_coded, write_map
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


@dataclass(frozen=True, slots=True)
class RecordForm:
    """The type codes with which a peer writes schema records; all peers read all of them.

    Attributes:
        text: the code of strings with a length of 16 bits.
        narrow: the fields whose integers have 8 bits; all others have 32.
        order: the order of the fields; alphabetical where it is empty.
        reference: the field with the class of a reference.
        of_events: additional fields of events' arguments.
    """

    text: int
    narrow: frozenset[str] = frozenset()
    order: tuple[str, ...] = ()
    reference: str = "references"
    of_events: tuple[tuple[str, int], ...] = ()


OURS: Final = RecordForm(0x95)
"""The form of agents of Apache Qpid 0.6, and of this gateway, whose class hashes are computed from it."""

QPIDD: Final = RecordForm(0x90, frozenset(("access", "type")))
"""The form of qpidd 0.34."""

JAVAS: Final = RecordForm(
    0x95,
    order=(
        *("name", "type", "argCount", "access", "index", "optional"),
        *("min", "max", "unit", "maxlen", "default", "desc", "dir", "refClass"),
    ),
    reference="refClass",
    of_events=(("access", 3), ("index", 0), ("optional", 0)),
)
"""The form of the Java broker of Apache Qpid 0.8, except for properties with a unit and a description."""


def read_class(cursor: Cursor, key: ClassKey) -> ClassDefinition:
    """Read the schema of a class.

    Raises:
        ProtocolError: a record is malformed, or has a type that AM2 lacks.
    """
    counts = [cursor.u16(f"{sort} count") for sort in ("property", "statistic", "method")]
    return read_members(cursor, key, counts, read_map, AM2)


def read_members(
    cursor: Cursor, key: ClassKey, counts: Sequence[int], read: ReadRecord, forms: ElementForms
) -> ClassDefinition:
    """Read the counted properties, statistics and methods of a class; raise as `read_element`."""
    properties = [read_element(cursor, read, forms, statistic=False) for _ in range(counts[0])]
    statistics = [read_element(cursor, read, forms, statistic=True) for _ in range(counts[1])]
    methods = [read_method(cursor, read, forms) for _ in range(counts[2])]
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
        forms,
    )


def read_event(cursor: Cursor, key: ClassKey) -> EventDefinition:
    """Read the schema of an event; raise as `read_class`."""
    count = cursor.u16("argument count")
    if not count and cursor.remaining > 1 and cursor.body[cursor.position : cursor.position + 3] != b"AM2":
        # Agent 0.6 writes an octet 0 ("no superclass") before the count.
        cursor.position -= 1
        count = cursor.u16("argument count")
    arguments = [read_argument(cursor, read_map, AM2) for _ in range(count)]
    schema = EventSchema(key, tuple(argument for argument, _ in arguments))
    return EventDefinition(schema, tuple(code for _, code in arguments))


def write_class(definition: ClassDefinition, form: RecordForm = OURS) -> bytes:
    """Encode the schema of a class in a peer's form.

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
        sent: dict[str, QmfValue] = {
            "access": access_code(element),
            "index": int(element.index),
            "optional": int(element.optional),
            form.reference: element.references,
        }
        parts.append(_write_record(sent | described(element, code, AM2), form))
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
    """Encode the schema of an event; raise as `write_class`."""
    arguments = zip(definition.schema.arguments, definition.codes, strict=True)
    records = [
        _write_record(dict(form.of_events) | default_of(argument) | described(argument, code, AM2), form)
        for argument, code in arguments
    ]
    return fields.u16(len(records)) + b"".join(records)


def _write_record(record: Record, form: RecordForm) -> bytes:
    order = form.order or sorted(record)
    sent = {name: record[name] for name in order if record.get(name) not in (None, "")}
    if form == OURS:
        return write_map(sent)
    content = b"".join(fields.str8(name) + _coded(name, value, form) for name, value in sent.items())
    return fields.u32(len(content) + 4) + fields.u32(len(sent)) + content


def _coded(name: str, value: QmfValue, form: RecordForm) -> bytes:
    if isinstance(value, str):
        return bytes((form.text,)) + fields.str16(value)
    if isinstance(value, int) and name in form.narrow:
        return b"\x02" + fields.u8(value)
    return write_coded(value)


def described_class(schema: ClassSchema) -> ClassDefinition:
    """Return the definition of a class of this gateway, with the hash of its schema in the key.

    Raises:
        LocalProtocolError: AM2 cannot express this class.
    """
    definition = ClassDefinition.of(schema)
    key = replace(schema.key, hash=schema_hash(schema.key, write_class(definition)))
    return ClassDefinition.of(replace(schema, key=key))


def described_event(schema: EventSchema) -> EventDefinition:
    """Return the definition of an event of this gateway; as `described_class`."""
    definition = EventDefinition.of(schema)
    key = replace(schema.key, hash=schema_hash(schema.key, write_event(definition)))
    return EventDefinition.of(replace(schema, key=key))


Record: TypeAlias = "Mapping[str, QmfValue]"
ReadRecord: TypeAlias = "Callable[[Cursor], Record]"
"""Reads one encoded record."""

_ACCESS_CODES: Final = {Access.READ_CREATE: 1, Access.READ_WRITE: 2, Access.READ_ONLY: 3}
_ACCESSES: Final = {code: access for access, code in _ACCESS_CODES.items()}
_DIRECTION_TEXTS: Final = {Direction.IN: "I", Direction.OUT: "O", Direction.INOUT: "IO"}
# The specification has 1, 2, 3; every peer sends the text.
_DIRECTIONS: Final[dict[QmfValue, Direction]] = {
    "I": Direction.IN,
    "O": Direction.OUT,
    "IO": Direction.INOUT,
    1: Direction.IN,
    2: Direction.OUT,
    3: Direction.INOUT,
}


def read_element(
    cursor: Cursor, read: ReadRecord, forms: ElementForms, *, statistic: bool
) -> tuple[Element, TypeCode]:
    """Read a property or statistic.

    Raises:
        ProtocolError: the record is malformed, or has a type that the version lacks.
    """
    start = cursor.position
    record = read(cursor)
    code = _type(record, start, forms)
    element = Element(
        name=_text(record, "name"),
        type=code.value_type,
        access=Access.READ_ONLY if statistic else _ACCESSES.get(_integer(record, "access"), Access.READ_ONLY),
        index=bool(_integer(record, "index")),
        optional=not statistic and bool(_integer(record, "optional")),
        unit=_text(record, "unit"),
        minimum=_number(record, "min"),
        maximum=_number(record, "max"),
        max_length=_length(record, forms.text_limits.get(code)),
        references=_text(record, "references") or _text(record, "refClass"),  # the latter from Java
        description=_text(record, "desc"),
    )
    return element, code


def read_argument(cursor: Cursor, read: ReadRecord, forms: ElementForms) -> tuple[Argument, TypeCode]:
    """Read an argument of a method or event; raise as `read_element`."""
    start = cursor.position
    record = read(cursor)
    code = _type(record, start, forms)
    default = record.get("default")
    direction = record.get("dir")
    argument = Argument(
        name=_text(record, "name"),
        type=code.value_type,
        direction=_DIRECTIONS.get(direction, Direction.IN)
        if isinstance(direction, str | int)
        else Direction.IN,
        unit=_text(record, "unit"),
        minimum=_number(record, "min"),
        maximum=_number(record, "max"),
        max_length=_length(record, forms.text_limits.get(code)),
        default=default if isinstance(default, bool | int | float | str) else None,
        description=_text(record, "desc"),
    )
    return argument, code


def read_method(cursor: Cursor, read: ReadRecord, forms: ElementForms) -> tuple[Method, tuple[TypeCode, ...]]:
    """Read a method and its arguments; raise as `read_element`."""
    start = cursor.position
    record = read(cursor)
    count = _integer(record, "argCount")
    if count < 0:
        raise ProtocolError("a count of arguments", f"{count}", start)
    arguments = [read_argument(cursor, read, forms) for _ in range(count)]
    method = Method(
        _text(record, "name"), tuple(argument for argument, _ in arguments), description=_text(record, "desc")
    )
    return method, tuple(code for _, code in arguments)


def _type(record: Record, start: int, forms: ElementForms) -> TypeCode:
    sent = record.get("type")
    try:
        code = TypeCode(sent)  # type: ignore[arg-type]  # whatever it is, the enumeration judges it
    except (ValueError, TypeError) as error:
        raise ProtocolError("a type code", repr(sent)[:80], start) from error
    if code not in forms:
        raise ProtocolError("a type code of the version in use", f"{code:d}", start)
    return code


def _text(record: Record, key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def _integer(record: Record, key: str) -> int:
    value = record.get(key)
    return value if isinstance(value, int) else 0


def _number(record: Record, key: str) -> int | float | None:
    value = record.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _length(record: Record, limit: int | None) -> int | None:
    sent = record.get("maxlen")
    if isinstance(sent, int) and sent >= 0:
        return sent
    # The model has only one string type, and written values must fit the wire's.
    return limit


def access_code(element: Element) -> int:
    """Return the code of an element's access."""
    return _ACCESS_CODES[element.access]


def direction_text(argument: Argument) -> str:
    """Return the text of an argument's direction."""
    return _DIRECTION_TEXTS[argument.direction]


def described(item: Element | Argument, code: TypeCode, forms: ElementForms) -> dict[str, QmfValue]:
    """Return the entries that elements and arguments share; unknown ones are ``None`` or empty."""
    return {
        "desc": item.description,
        "max": item.maximum,
        "maxlen": None if item.max_length == forms.text_limits.get(code) else item.max_length,
        "min": item.minimum,
        "name": item.name,
        "type": int(code),
        "unit": item.unit,
    }


def default_of(argument: Argument) -> dict[str, QmfValue]:
    """Return the entry with an argument's default, ``None`` where it has none."""
    return {"default": argument.default}
