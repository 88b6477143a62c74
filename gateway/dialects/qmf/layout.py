"""The values of content records, events and methods: in schema order, without codes, by element type.

A `Layout` is compiled once per class: neighbouring elements of fixed size are unpacked by one struct, so
that a record costs a few calls whatever its number of elements. Source: QMF AM2 protocol ("Configuration
and Instrumentation Content Messages", type codes); types 20 and up as qpidd has them.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final, cast
from uuid import UUID

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.fields import Cursor, decode_text
from gateway.dialects.qmf.object_id import NULL, ObjectId
from gateway.dialects.qmf.typed_values import (
    QmfValue,
    QmfValues,
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

_STRUCT_CODES: Final = {
    TypeCode.U8: "B",
    TypeCode.U16: "H",
    TypeCode.U32: "I",
    TypeCode.U64: "Q",
    TypeCode.ABSOLUTE_TIME: "Q",
    TypeCode.DELTA_TIME: "Q",
    TypeCode.BOOL: "?",
    TypeCode.F32: "f",
    TypeCode.F64: "d",
    TypeCode.S8: "b",
    TypeCode.S16: "h",
    TypeCode.S32: "i",
    TypeCode.S64: "q",
}
_OBJECT_ID: Final = struct.Struct(">QQ")

_ReadStep = Callable[[bytes, int, "list[QmfValue]"], int]
_WriteStep = Callable[[QmfValues], bytes]


def type_code(value_type: ValueType, max_length: int | None) -> TypeCode:
    """Return how a model type travels: strings of at most 255 octets as str8, all others as str16.

    Raises:
        LocalProtocolError: AM2 has no such type (octets).
    """
    if value_type is ValueType.STRING and max_length is not None and max_length <= 0xFF:  # noqa: PLR2004
        return TypeCode.STR8
    code = _CODES.get(value_type)
    if code is None:
        raise LocalProtocolError(f"AM2 has no type for {value_type.value}")
    return code


class Layout:
    """Reads and writes the values of elements of the given types, one after the other."""

    __slots__ = ("_read_steps", "_write_steps", "codes")

    def __init__(self, codes: Sequence[TypeCode]) -> None:
        self.codes = tuple(codes)
        self._read_steps: list[_ReadStep] = []
        self._write_steps: list[_WriteStep] = []
        position = 0
        for fixed, run in groupby(self.codes, _STRUCT_CODES.__contains__):
            run_codes = tuple(run)
            if fixed:
                self._add_run(run_codes, position)
            else:
                for offset, code in enumerate(run_codes):
                    self._read_steps.append(_READERS[code])
                    self._write_steps.append(_single_writer(code, position + offset))
            position += len(run_codes)

    def _add_run(self, codes: tuple[TypeCode, ...], start: int) -> None:
        form = struct.Struct(">" + "".join(_STRUCT_CODES[code] for code in codes))
        unpack, size, stop = form.unpack_from, form.size, start + len(codes)

        def read(body: bytes, position: int, values: list[QmfValue]) -> int:
            values.extend(unpack(body, position))
            return position + size

        def write(values: QmfValues) -> bytes:
            return form.pack(*(0 if value is None else value for value in values[start:stop]))

        self._read_steps.append(read)
        self._write_steps.append(write)

    def read(self, body: bytes, position: int) -> tuple[list[QmfValue], int]:
        """Return the values found at ``position`` of ``body``, and where they end.

        Raises:
            ProtocolError: the body ends before the values do, or one is malformed.
        """
        values: list[QmfValue] = []
        try:
            for step in self._read_steps:
                position = step(body, position, values)
        except (struct.error, IndexError) as error:
            raise ProtocolError(
                f"{len(self.codes)} values", f"the end of the body after {len(values)}", position
            ) from error
        return values, position

    def write(self, values: QmfValues) -> bytes:
        """Encode one value per element; ``None`` travels as zero, empty or null.

        Raises:
            LocalProtocolError: a value does not fit its element's type.
        """
        if len(values) != len(self.codes):
            raise LocalProtocolError(f"{len(values)} values for {len(self.codes)} elements")
        try:
            return b"".join([step(values) for step in self._write_steps])
        except (struct.error, OverflowError, TypeError, AttributeError) as error:
            raise LocalProtocolError(f"a value does not fit its type: {error}") from error


class OptionalLayout:
    """A layout some of whose elements may be missing, as a presence mask in front of the values tells.

    The mask has one bit per optional element, in schema order, least significant bit of the first octet
    first; it has no octets where nothing is optional.
    """

    __slots__ = ("_by_mask", "_codes", "_mask_length", "_optional")

    _CACHED_MASKS = 64  # an agent uses a few of them; a hostile one shall not fill the memory

    def __init__(self, codes: Sequence[TypeCode], optional: Sequence[bool]) -> None:
        self._codes = tuple(codes)
        self._optional = tuple(optional)
        self._mask_length = (sum(self._optional) + 7) // 8
        self._by_mask: dict[bytes, tuple[Layout, tuple[int, ...] | None]] = {}

    def read(self, body: bytes, position: int) -> tuple[QmfValues, int]:
        """Return one value per element (``None`` where absent), and where they end; errors as `Layout`."""
        after_mask = position + self._mask_length
        if after_mask > len(body):
            raise ProtocolError(f"{self._mask_length} octets of presence mask", "less", position)
        layout, positions = self._for(body[position:after_mask])
        values, end = layout.read(body, after_mask)
        if positions is None:
            return tuple(values), end
        spread: list[QmfValue] = [None] * len(self._codes)
        for index, value in zip(positions, values, strict=True):
            spread[index] = value
        return tuple(spread), end

    def write(self, values: QmfValues) -> bytes:
        """Encode mask and values.

        Raises:
            LocalProtocolError: a value does not fit, or one that is not optional is ``None``.
        """
        if len(values) != len(self._codes):
            raise LocalProtocolError(f"{len(values)} values for {len(self._codes)} elements")
        bits = 0
        bit = 1
        for index, (value, optional) in enumerate(zip(values, self._optional, strict=True)):
            if optional:
                bits |= bit if value is not None else 0
                bit <<= 1
            elif value is None:
                raise LocalProtocolError(f"element {index} is absent and not optional")
        mask = bits.to_bytes(self._mask_length, "little")
        layout, positions = self._for(mask)
        present = values if positions is None else tuple(values[index] for index in positions)
        return mask + layout.write(present)

    def _for(self, mask: bytes) -> tuple[Layout, tuple[int, ...] | None]:
        known = self._by_mask.get(mask)
        if known is not None:
            return known
        bits = int.from_bytes(mask, "little")
        positions = []
        for index, optional in enumerate(self._optional):
            if not optional:
                positions.append(index)
                continue
            if bits & 1:
                positions.append(index)
            bits >>= 1
        layout = Layout([self._codes[index] for index in positions])
        made = (layout, None if len(positions) == len(self._codes) else tuple(positions))
        if len(self._by_mask) >= self._CACHED_MASKS:
            self._by_mask.clear()
        self._by_mask[mask] = made
        return made


def _read_str8(body: bytes, position: int, values: list[QmfValue]) -> int:
    start = position + 1
    end = start + body[position]
    return _read_text(body, start, end, values)


def _read_str16(body: bytes, position: int, values: list[QmfValue]) -> int:
    start = position + 2
    end = start + (body[position] << 8 | body[position + 1])
    return _read_text(body, start, end, values)


def _read_text(body: bytes, start: int, end: int, values: list[QmfValue]) -> int:
    if end > len(body):
        raise ProtocolError(f"a string of {end - start} octets", f"{max(0, len(body) - start)}", start)
    values.append(decode_text(body[start:end]))
    return end


def _read_reference(body: bytes, position: int, values: list[QmfValue]) -> int:
    values.append(ObjectId(*_OBJECT_ID.unpack_from(body, position)))
    return position + 16


def _read_uuid(body: bytes, position: int, values: list[QmfValue]) -> int:
    cursor = Cursor(body, position)
    values.append(cursor.uuid())
    return cursor.position


def _reader_of(read: Callable[[Cursor], QmfValue]) -> _ReadStep:
    def step(body: bytes, position: int, values: list[QmfValue]) -> int:
        cursor = Cursor(body, position)
        values.append(read(cursor))
        return cursor.position

    return step


_READERS: Final[dict[TypeCode, _ReadStep]] = {
    TypeCode.STR8: _read_str8,
    TypeCode.STR16: _read_str16,
    TypeCode.REFERENCE: _read_reference,
    TypeCode.UUID: _read_uuid,
    TypeCode.MAP: _reader_of(read_map),
    TypeCode.LIST: _reader_of(read_list),
    TypeCode.ARRAY: _reader_of(read_array),
}

# The casts hold no promise: a value of another type raises in the writer, and `Layout.write` says so.
_WRITERS: Final[dict[TypeCode, tuple[Callable[[QmfValue], bytes], QmfValue]]] = {
    TypeCode.STR8: (lambda value: fields.str8(cast("str", value)), ""),
    TypeCode.STR16: (lambda value: fields.str16(cast("str", value)), ""),
    TypeCode.REFERENCE: (lambda value: cast("ObjectId", value).to_octets(), NULL),
    TypeCode.UUID: (lambda value: cast("UUID", value).bytes, UUID(int=0)),
    TypeCode.MAP: (lambda value: write_map(cast("dict[str, QmfValue]", value)), {}),
    TypeCode.LIST: (lambda value: write_list(cast("QmfValues", value)), ()),
    TypeCode.ARRAY: (lambda value: write_array(cast("QmfValues", value)), ()),
}


def _single_writer(code: TypeCode, position: int) -> _WriteStep:
    write, empty = _WRITERS[code]

    def step(values: QmfValues) -> bytes:
        value = values[position]
        return write(empty if value is None else value)

    return step
