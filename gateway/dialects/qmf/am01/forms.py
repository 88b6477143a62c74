"""The encoding of values before AM2: elements, field tables, and the bodies of get and set.

References have 64 bits, and long strings have a length of 32 bits. A field table is ``u32 length,
(str8 name, u8 code, value)...``, without the count of AM2's maps; tables with a count (0-10 maps) are read,
too. Agents use two codes, 0xA4 (text
with a length of 32 bits) and 0x21 (32-bit integer); all others of AMQP 0-10 are read, too. Sources: messages
of agents of February and March 2008; Apache Qpid management design notes.

The design notes reserve routing keys for get and set without defining bodies: this gateway's are
used only with peers that are configured for them. Both are calls (M, answered by R) under the keys
``method.<package>.<class>.get`` and ``.set``. A get has no arguments; its answer has the values of all
configuration elements, then those of all instrumentation elements, as in content records. A set has, for
each element to change, its name (str8) and the new value in the form of its type, until the end of
the body; its answer has no arguments, and its status says whether all were set or none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, cast

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.elements import (
    NUMBERS,
    STR8_WRITER,
    ElementForms,
    TypeCode,
    WriteOne,
    read_str8,
    read_text,
)
from gateway.dialects.qmf.fields import NULL, Cursor, ObjectId
from gateway.dialects.qmf.layout import Layout
from gateway.dialects.qmf.typed_values import QmfValue, QmfValues, read_coded, write_coded

_U32: Final = struct.Struct(">I")
_U64: Final = struct.Struct(">Q")
OBJECT_ID_LENGTH: Final = 8
"""Octets of an object id."""


@lru_cache(maxsize=8192)
def object_id_of(octets: bytes) -> ObjectId:
    """Return the object id of 8 octets; raise ``struct.error`` for another length."""
    return ObjectId(0, _U64.unpack(octets)[0])


def object_id_octets(object_id: ObjectId) -> bytes:
    """Return the 8 octets of an object id.

    Raises:
        LocalProtocolError: it has a prefix, which only AM2 can express.
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
"""The encodings of AM01 and AM1; floating point is from February 2008 on."""


_TEXT: Final = b"\xa4"
_LONGEST: Final = 0xFFFFFFFF


def read_table(cursor: Cursor) -> dict[str, QmfValue]:
    """Read a table, with or without a leading count; of equal names the last one counts.

    It has a count if, read so, it has as many entries as that says and ends with the last one. A table
    without one would have to begin with an empty name for that.

    Raises:
        ProtocolError: it is longer than the body, or a value does not end where the table does.
    """
    start = cursor.position
    length = cursor.u32("the length of a table")
    if length > cursor.remaining:
        raise ProtocolError(f"a table of {length} octets", f"{cursor.remaining}", start)
    position, end = cursor.position, cursor.position + length
    entries = None
    if cursor.body[position : position + 1] == b"\0":
        entries = _counted(Cursor(cursor.body, position, end))
    if entries is None:
        entries = dict(_entries(Cursor(cursor.body, position, end)))
    cursor.position = end
    return entries


def _counted(inner: Cursor) -> dict[str, QmfValue] | None:
    """Return the entries of a table with a leading count; ``None`` where it is none."""
    try:
        count = inner.u32("a count")
        # Not more than the octets permit, whatever the count says.
        entries = list(_entries(inner)) if count <= inner.remaining else []
    except ProtocolError:
        return None
    return dict(entries) if len(entries) == count else None


def _entries(inner: Cursor) -> Iterator[tuple[str, QmfValue]]:
    while inner.remaining:
        name = inner.str8("a field name")
        yield name, read_coded(inner, inner.u8("a type code"))


def write_table(entries: Mapping[str, QmfValue]) -> bytes:
    """Encode a table in the given order.

    Raises:
        LocalProtocolError: a name or value cannot be encoded.
    """
    content = b"".join(fields.str8(name) + _coded(value) for name, value in entries.items())
    return fields.u32(len(content)) + content


def _coded(value: QmfValue) -> bytes:
    if isinstance(value, str):
        octets = fields.encode_text(value, _LONGEST)
        return _TEXT + fields.u32(len(octets)) + octets
    return write_coded(value)


GET: Final = "get"
"""The method's name in the routing key."""

SET: Final = "set"
"""The method's name in the routing key."""


def write_object(definition: ClassDefinition, properties: QmfValues, statistics: QmfValues) -> bytes:
    """Encode the arguments of the answer to a get; raise as `Layout.write`."""
    return definition.properties.write(properties) + definition.statistics.write(statistics)


def read_object(definition: ClassDefinition, arguments: bytes) -> tuple[QmfValues, QmfValues]:
    """Return properties and statistics of the answer to a get.

    Raises:
        ProtocolError: the arguments are not exactly the values of this class.
    """
    properties, middle = definition.properties.read(arguments, 0)
    statistics, end = definition.statistics.read(arguments, middle)
    if end != len(arguments):
        raise ProtocolError("the end of the values", f"{len(arguments) - end} more octets", end)
    return properties, tuple(statistics)


def write_changes(definition: ClassDefinition, changes: Mapping[str, QmfValue]) -> bytes:
    """Encode the arguments of a set.

    Raises:
        LocalProtocolError: the class has no such property, or a value does not fit its type.
    """
    layouts = _layouts(definition)
    unknown = changes.keys() - layouts.keys()
    if unknown:
        raise LocalProtocolError(f"class {definition.key} has no property {min(unknown)}")
    return b"".join(fields.str8(name) + layouts[name].write((value,)) for name, value in changes.items())


def read_changes(definition: ClassDefinition, arguments: bytes) -> dict[str, QmfValue]:
    """Return the new values of a set, by property.

    Raises:
        ProtocolError: a name is not a property of the class or occurs twice, or a value is malformed.
    """
    layouts = _layouts(definition)
    cursor = Cursor(arguments)
    changes: dict[str, QmfValue] = {}
    while cursor.remaining:
        start = cursor.position
        name = cursor.name("a property's name")
        if name not in layouts or name in changes:
            raise ProtocolError(f"a property of {definition.key}, once", repr(name), start)
        (changes[name],), cursor.position = layouts[name].read(arguments, cursor.position)
    return changes


def _layouts(definition: ClassDefinition) -> dict[str, Layout]:
    elements = zip(definition.schema.properties, definition.property_codes, strict=True)
    return {element.name: Layout((code,), definition.forms) for element, code in elements}
