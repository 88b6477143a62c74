"""The types of elements and arguments: their codes, the model's types, and their encodings.

A value of an element is encoded without a code, in a form that depends on the version of QMF.
Sources: QMF AM2 protocol (type codes); list and array as in qpidd.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast
from uuid import UUID

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.fields import NULL, Cursor, ObjectId, decode_text, object_id_of
from gateway.dialects.qmf.typed_values import (
    QmfValue,
    plain_map,
    read_array,
    read_list,
    read_map,
    write_array,
    write_list,
    write_map,
)
from gateway.model.values import ValueType


class TypeCode(enum.IntEnum):
    """Codes of element types in schema records."""

    U8 = 1
    U16 = 2
    U32 = 3
    U64 = 4
    STR8 = 6
    STR16 = 7
    ABSOLUTE_TIME = 8
    DELTA_TIME = 9
    REFERENCE = 10
    BOOL = 11
    F32 = 12
    F64 = 13
    UUID = 14
    MAP = 15
    S8 = 16
    S16 = 17
    S32 = 18
    S64 = 19
    LIST = 21
    ARRAY = 22

    @property
    def value_type(self) -> ValueType:
        """The model's type; str8 and str16 are both STRING, list and array both LIST."""
        return _VALUE_TYPES[self]


_VALUE_TYPES: Final = {
    TypeCode.U8: ValueType.U8,
    TypeCode.U16: ValueType.U16,
    TypeCode.U32: ValueType.U32,
    TypeCode.U64: ValueType.U64,
    TypeCode.STR8: ValueType.STRING,
    TypeCode.STR16: ValueType.STRING,
    TypeCode.ABSOLUTE_TIME: ValueType.TIME,
    TypeCode.DELTA_TIME: ValueType.DURATION,
    TypeCode.REFERENCE: ValueType.REFERENCE,
    TypeCode.BOOL: ValueType.BOOL,
    TypeCode.F32: ValueType.F32,
    TypeCode.F64: ValueType.F64,
    TypeCode.UUID: ValueType.UUID,
    TypeCode.MAP: ValueType.MAP,
    TypeCode.S8: ValueType.S8,
    TypeCode.S16: ValueType.S16,
    TypeCode.S32: ValueType.S32,
    TypeCode.S64: ValueType.S64,
    TypeCode.LIST: ValueType.LIST,
    TypeCode.ARRAY: ValueType.LIST,
}
_CODES: Final = {
    value_type: code
    for code, value_type in _VALUE_TYPES.items()
    if code not in (TypeCode.STR8, TypeCode.ARRAY)
}


def type_code(value_type: ValueType, max_length: int | None) -> TypeCode:
    """Return the type code for a type of the model: str8 for strings of at most 255 octets, else str16.

    Raises:
        LocalProtocolError: QMF has no such type (it has none for octets).
    """
    if value_type is ValueType.STRING and max_length is not None and max_length <= 0xFF:  # noqa: PLR2004
        return TypeCode.STR8
    code = _CODES.get(value_type)
    if code is None:
        raise LocalProtocolError(f"QMF has no type for {value_type.value}")
    return code


ReadStep: TypeAlias = "Callable[[bytes, int, list[QmfValue]], int]"
"""Appends the value at a position of a body, and returns the position behind it.

It may raise ``struct.error`` or ``IndexError`` at a premature end of the body, which `layout` converts.
"""

WriteOne: TypeAlias = "Callable[[QmfValue], bytes]"


@dataclass(frozen=True, slots=True, eq=False)
class ElementForms:
    """The encodings of one version of QMF.

    Attributes:
        fixed: struct codes of the types of fixed length.
        readers: the readers of all other types of the version.
        writers: the writers of these types, each with the substitute for an absent value.
        object_id: decodes an object id; raises ``struct.error`` if there are too few octets.
        object_id_length: octets of an object id.
        text_lengths: struct codes of the length before each string type.
        text_limits: largest number of octets of a string type, where that is less than a body.
    """

    fixed: Mapping[TypeCode, str]
    readers: Mapping[TypeCode, ReadStep]
    writers: Mapping[TypeCode, tuple[WriteOne, QmfValue]]
    object_id: Callable[[bytes], ObjectId]
    object_id_length: int
    text_lengths: Mapping[TypeCode, str]
    text_limits: Mapping[TypeCode, int]

    def __contains__(self, code: TypeCode) -> bool:
        """Return whether the version has this type."""
        return code in self.fixed or code in self.readers


def read_text(body: bytes, start: int, end: int, values: list[QmfValue]) -> int:
    """Append the string from ``start`` to ``end``, as the last step of every reader of strings."""
    if end > len(body):
        raise ProtocolError(f"a string of {end - start} octets", f"{max(0, len(body) - start)}", start)
    values.append(decode_text(body[start:end]))
    return end


def read_str8(body: bytes, position: int, values: list[QmfValue]) -> int:
    """Read a string after a length of 8 bits."""
    start = position + 1
    return read_text(body, start, start + body[position], values)


def _read_str16(body: bytes, position: int, values: list[QmfValue]) -> int:
    start = position + 2
    return read_text(body, start, start + (body[position] << 8 | body[position + 1]), values)


def _read_reference(body: bytes, position: int, values: list[QmfValue]) -> int:
    end = position + 16
    values.append(object_id_of(body[position:end]))
    return end


def _read_uuid(body: bytes, position: int, values: list[QmfValue]) -> int:
    cursor = Cursor(body, position)
    values.append(cursor.uuid())
    return cursor.position


def _read_map(body: bytes, position: int, values: list[QmfValue]) -> int:
    plain = plain_map(body, position)
    if plain is not None:
        values.append(plain[0])
        return plain[1]
    cursor = Cursor(body, position)
    values.append(read_map(cursor))
    return cursor.position


def _reader_of(read: Callable[[Cursor], QmfValue]) -> ReadStep:
    def step(body: bytes, position: int, values: list[QmfValue]) -> int:
        cursor = Cursor(body, position)
        values.append(read(cursor))
        return cursor.position

    return step


NUMBERS: Final[Mapping[TypeCode, str]] = {
    TypeCode.U8: "B",
    TypeCode.U16: "H",
    TypeCode.U32: "I",
    TypeCode.U64: "Q",
    TypeCode.ABSOLUTE_TIME: "Q",
    TypeCode.DELTA_TIME: "Q",
    TypeCode.BOOL: "?",
    TypeCode.F32: "f",
    TypeCode.F64: "d",
}
"""The types that every version has."""

# The casts are not checked: a value of another type raises in the writer, which `Layout.write` converts.
STR8_WRITER: Final[tuple[WriteOne, QmfValue]] = (cast("WriteOne", fields.str8), "")
"""The writer of a string after a length of 8 bits."""

AM2: Final = ElementForms(
    fixed={
        **NUMBERS,
        TypeCode.S8: "b",
        TypeCode.S16: "h",
        TypeCode.S32: "i",
        TypeCode.S64: "q",
    },
    readers={
        TypeCode.STR8: read_str8,
        TypeCode.STR16: _read_str16,
        TypeCode.REFERENCE: _read_reference,
        TypeCode.UUID: _read_uuid,
        TypeCode.MAP: _read_map,
        TypeCode.LIST: _reader_of(read_list),
        TypeCode.ARRAY: _reader_of(read_array),
    },
    writers={
        TypeCode.STR8: STR8_WRITER,
        TypeCode.STR16: (cast("WriteOne", fields.str16), ""),
        TypeCode.REFERENCE: (cast("WriteOne", ObjectId.to_octets), NULL),
        TypeCode.UUID: (lambda value: cast("UUID", value).bytes, UUID(int=0)),
        TypeCode.MAP: (cast("WriteOne", write_map), {}),
        TypeCode.LIST: (cast("WriteOne", write_list), ()),
        TypeCode.ARRAY: (cast("WriteOne", write_array), ()),
    },
    object_id=object_id_of,
    object_id_length=16,
    text_lengths={TypeCode.STR8: "B", TypeCode.STR16: "H"},
    text_limits={TypeCode.STR8: 0xFF, TypeCode.STR16: 0xFFFF},
)
"""The encodings of AM2 (QMF AM2 protocol, type codes)."""
