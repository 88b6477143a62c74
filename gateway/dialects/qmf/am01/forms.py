"""How values travel before AM2: references of 64 bits, and long strings behind a length of 32 bits."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, cast

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.element_forms import (
    NUMBERS,
    STR8_WRITER,
    ElementForms,
    WriteOne,
    read_str8,
    read_text,
)
from gateway.dialects.qmf.element_types import TypeCode
from gateway.dialects.qmf.object_id import NULL, ObjectId
from gateway.dialects.qmf.typed_values import QmfValue

_U32: Final = struct.Struct(">I")
_U64: Final = struct.Struct(">Q")
OBJECT_ID_LENGTH: Final = 8
"""Octets of an object id."""


@lru_cache(maxsize=8192)
def object_id_of(octets: bytes) -> ObjectId:
    """Return the object id of 8 octets; ``struct.error`` for another length."""
    return ObjectId(0, _U64.unpack(octets)[0])


def object_id_octets(object_id: ObjectId) -> bytes:
    """Return the 8 octets of an object id.

    Raises:
        LocalProtocolError: it has a prefix, which only AM2 can tell.
    """
    if object_id.prefix:
        raise LocalProtocolError(f"object id {object_id} does not fit 64 bits")
    return fields.u64(object_id.number)


def _read_long_text(body: bytes, position: int, values: list[QmfValue]) -> int:
    start = position + 4
    return read_text(body, start, start + _U32.unpack_from(body, position)[0], values)


def _write_long_text(value: QmfValue) -> bytes:
    octets = fields.encode_text(cast("str", value), 0xFFFFFFFF)
    return fields.u32(len(octets)) + octets


def _read_reference(body: bytes, position: int, values: list[QmfValue]) -> int:
    end = position + OBJECT_ID_LENGTH
    values.append(object_id_of(body[position:end]))
    return end


AM01: Final = ElementForms(
    fixed=NUMBERS,
    readers={
        TypeCode.STR8: read_str8,
        TypeCode.STR16: _read_long_text,
        TypeCode.REFERENCE: _read_reference,
    },
    writers={
        TypeCode.STR8: STR8_WRITER,
        TypeCode.STR16: (_write_long_text, ""),
        TypeCode.REFERENCE: (cast("WriteOne", object_id_octets), NULL),
    },
    object_id=object_id_of,
    object_id_length=OBJECT_ID_LENGTH,
    text_lengths={TypeCode.STR8: "B", TypeCode.STR16: "I"},
    text_limits={TypeCode.STR8: 0xFF},
)
"""The forms of AM01 and AM1; floating point is from February 2008 on."""
