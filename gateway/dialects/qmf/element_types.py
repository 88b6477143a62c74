"""The types that elements and arguments can have: their codes in schema records, and the model's types.

Sources: QMF AM2 protocol (type codes); list and array as qpidd has them.
"""

from __future__ import annotations

import enum
from typing import Final

from gateway.dialects.errors import LocalProtocolError
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
    """Return how a model type travels: strings of at most 255 octets as str8, all others as str16.

    Raises:
        LocalProtocolError: QMF has no such type (octets).
    """
    if value_type is ValueType.STRING and max_length is not None and max_length <= 0xFF:  # noqa: PLR2004
        return TypeCode.STR8
    code = _CODES.get(value_type)
    if code is None:
        raise LocalProtocolError(f"QMF has no type for {value_type.value}")
    return code
