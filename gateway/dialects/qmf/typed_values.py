"""Values with type codes: AMQP 0-10 maps, lists and arrays, as AM2 uses them.

They are schema records, selectors of get queries and values of the element types map, list
and array. A map is ``u32 size, u32 count, count x (str8 key, u8 code, value)`` where size counts the
octets after it. Source: AMQP 0-10, section 3 ("Formal notation, types"); sizes of unknown codes follow from
their upper four bits there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias
from uuid import UUID

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.fields import Cursor, ObjectId, decode_text

Scalar: TypeAlias = bool | int | float | str | bytes | UUID | ObjectId | None

QmfValue: TypeAlias = "Scalar | Mapping[str, QmfValue] | tuple[QmfValue, ...]"
"""The value of an element, argument or map entry; ``None`` is absent, in a map void. An object id has no
code of its own in maps and lists: it is sent as its text."""

QmfValues: TypeAlias = "tuple[QmfValue, ...]"


class Int64(int):
    """An integer that maps and lists encode in 64 bits, signed, however small it is."""

    __slots__ = ()

    @staticmethod
    def fits(value: int) -> bool:
        """Return whether ``value`` fits 64 bits, signed."""
        return -(1 << 63) <= value < 1 << 63


MAX_NESTING: Final = 16
"""Largest depth of nested maps, lists and arrays, including the outermost one."""

_UUID, _MAP, _LIST, _ARRAY = 0x48, 0xA8, 0xA9, 0xAA
_EMPTY: Final = {0xF0: None, 0xF1: True}  # void, and "bit", whose presence means true

_NUMBERS: Final[dict[int, struct.Struct]] = {
    0x01: struct.Struct(">b"),
    0x02: struct.Struct(">B"),
    0x08: struct.Struct(">?"),
    0x11: struct.Struct(">h"),
    0x12: struct.Struct(">H"),
    0x21: struct.Struct(">i"),
    0x22: struct.Struct(">I"),
    0x23: struct.Struct(">f"),
    0x31: struct.Struct(">q"),
    0x32: struct.Struct(">Q"),
    0x33: struct.Struct(">d"),
    0x38: struct.Struct(">Q"),
}
_TEXTS: Final = frozenset((0x84, 0x85, 0x94, 0x95, 0xA4, 0xA5))
# C++ peers send text without an encoding as vbin; octets that are not UTF-8 stay octets.
_TEXTS_OR_OCTETS: Final = frozenset((0x80, 0x90, 0xA0))
_FIXED_WIDTHS: Final = {0x0: 1, 0x1: 2, 0x2: 4, 0x3: 8, 0x4: 16, 0x5: 32, 0x6: 64, 0x7: 128, 0xC: 5, 0xD: 9}


_U32_PAIR: Final = struct.Struct(">II")
_NUMBER_READERS: Final = {code: (form.unpack_from, form.size) for code, form in _NUMBERS.items()}
_USUAL_TEXTS: Final = frozenset((0x90, 0x94, 0x95))


def plain_map(body: bytes, position: int) -> tuple[dict[str, QmfValue], int] | None:
    """Read a map of numbers and short texts, as most are; return it and the position behind it.

    Returns ``None`` if it contains anything else or is malformed: `read_map` then reads it, more slowly.
    """
    entries: dict[str, QmfValue] = {}
    try:
        size, count = _U32_PAIR.unpack_from(body, position)
        end = position + 4 + size
        position += _U32_PAIR.size
        while count and position < end:
            start = position + 1
            position = start + body[position]
            key = body[start:position].decode()
            code = body[position]
            position += 1
            if code in _NUMBER_READERS:
                unpack, width = _NUMBER_READERS[code]
                (entries[key],) = unpack(body, position)
                position += width
            elif code in _USUAL_TEXTS:
                start = position + 2
                position = start + (body[position] << 8 | body[position + 1])
                entries[key] = body[start:position].decode()
            else:
                return None
            count -= 1
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    return None if count or position != end or end > len(body) else (entries, end)


def read_map(cursor: Cursor, depth: int = 1) -> dict[str, QmfValue]:
    """Read a map; of equal keys the last one counts.

    Raises:
        ProtocolError: size, count or a value contradict each other, or the nesting is too deep.
    """
    plain = plain_map(cursor.body, cursor.position) if depth == 1 else None
    if plain is not None and plain[1] <= cursor.end:
        cursor.position = plain[1]
        return plain[0]
    end, count = _read_bounds(cursor, "a map", depth)
    if end == cursor.position and not count:
        return {}
    inner = Cursor(cursor.body, cursor.position, end)
    entries: dict[str, QmfValue] = {}
    for _ in range(count):
        key = inner.str8("a map key")
        entries[key] = read_coded(inner, inner.u8("a type code"), depth)
    _close(cursor, inner, "a map")
    return entries


def read_list(cursor: Cursor, depth: int = 1) -> QmfValues:
    """Read a list: ``u32 size, u32 count, count x (u8 code, value)``; raise as `read_map`."""
    end, count = _read_bounds(cursor, "a list", depth)
    inner = Cursor(cursor.body, cursor.position, end)
    values = tuple(read_coded(inner, inner.u8("a type code"), depth) for _ in range(count))
    _close(cursor, inner, "a list")
    return values


def read_array(cursor: Cursor, depth: int = 1) -> QmfValues:
    """Read an array: ``u32 size, u8 code, u32 count, count x value``; raise as `read_map`."""
    size = cursor.u32("the size of an array")
    if not size:
        return ()
    _check_depth(cursor, depth)
    inner = Cursor(cursor.body, cursor.position, _end(cursor, size, "an array"))
    code = inner.u8("the type code of an array")
    count = inner.u32("the count of an array")
    if count > inner.remaining:
        raise ProtocolError("an array no longer than its octets", f"count {count}", inner.position)
    values = tuple(read_coded(inner, code, depth) for _ in range(count))
    _close(cursor, inner, "an array")
    return values


def _read_bounds(cursor: Cursor, what: str, depth: int) -> tuple[int, int]:
    _check_depth(cursor, depth)
    size = cursor.u32(f"the size of {what}")
    if not size:
        return cursor.position, 0  # AMQP has 00000004 00000000 for empty, qpidd accepts 00000000, too
    end = _end(cursor, size, what)
    inner = Cursor(cursor.body, cursor.position, end)
    count = inner.u32(f"the count of {what}")
    if count > inner.remaining:
        raise ProtocolError(f"{what} no longer than its octets", f"count {count}", cursor.position)
    cursor.position = inner.position
    return end, count


def _end(cursor: Cursor, size: int, what: str) -> int:
    if size > cursor.remaining:
        raise ProtocolError(f"{what} of {size} octets", f"{cursor.remaining}", cursor.position)
    return cursor.position + size


def _check_depth(cursor: Cursor, depth: int) -> None:
    if depth > MAX_NESTING:
        raise ProtocolError(f"at most {MAX_NESTING} levels of nesting", "more", cursor.position)


def _close(cursor: Cursor, inner: Cursor, what: str) -> None:
    if inner.remaining:
        raise ProtocolError(f"the end of {what}", f"{inner.remaining} more octets", inner.position)
    cursor.position = inner.end


_CONTAINERS: Final[dict[int, Callable[[Cursor, int], QmfValue]]] = {
    _MAP: read_map,
    _LIST: read_list,
    _ARRAY: read_array,
}


def read_coded(cursor: Cursor, code: int, depth: int = 0) -> QmfValue:
    """Read a value of a type code, nested ``depth`` levels deep; raise as `read_map`."""
    form = _NUMBERS.get(code)
    if form is not None:
        number: bool | int | float = form.unpack(cursor.octets(form.size, "a number"))[0]
        return number
    container = _CONTAINERS.get(code)
    if container is not None:
        return container(cursor, depth + 1)
    if code in _EMPTY:
        return _EMPTY[code]
    octets = cursor.octets(_width(cursor, code), "a value")
    if code in _TEXTS:
        return decode_text(octets)
    if code in _TEXTS_OR_OCTETS:
        return _text_or_octets(octets)
    return UUID(bytes=octets) if code == _UUID else octets


def _text_or_octets(octets: bytes) -> str | bytes:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets


def _width(cursor: Cursor, code: int) -> int:
    family = code >> 4
    fixed = _FIXED_WIDTHS.get(family)
    if fixed is not None:
        return fixed
    if family == 0x8:  # noqa: PLR2004  families 8, 9 and a carry their length
        return cursor.u8("a length")
    if family == 0x9:  # noqa: PLR2004
        return cursor.u16("a length")
    if family == 0xA:  # noqa: PLR2004
        return cursor.u32("a length")
    raise ProtocolError("an AMQP 0-10 type code", f"0x{code:02x}", cursor.position - 1)


def write_map(entries: Mapping[str, QmfValue], depth: int = 1) -> bytes:
    """Encode a map in the given order.

    Raises:
        LocalProtocolError: a key or value cannot be encoded, or the nesting is too deep.
    """
    _check_local_depth(depth)
    content = b"".join(fields.str8(key) + write_coded(value, depth) for key, value in entries.items())
    return fields.u32(len(content) + 4) + fields.u32(len(entries)) + content


def write_list(values: QmfValues, depth: int = 1) -> bytes:
    """Encode a list; raise as `write_map`."""
    _check_local_depth(depth)
    content = b"".join(write_coded(value, depth) for value in values)
    return fields.u32(len(content) + 4) + fields.u32(len(values)) + content


def write_array(values: QmfValues, depth: int = 1) -> bytes:
    """Encode an array; raise `LocalProtocolError` if its values need different type codes."""
    if not values:
        return fields.u32(0)
    _check_local_depth(depth)
    coded = [write_coded(value, depth) for value in values]
    codes = {octets[0] for octets in coded}
    if len(codes) != 1:
        raise LocalProtocolError("the values of an array are not of one type")
    content = coded[0][:1] + fields.u32(len(values)) + b"".join(octets[1:] for octets in coded)
    return fields.u32(len(content)) + content


def _check_local_depth(depth: int) -> None:
    if depth > MAX_NESTING:
        raise LocalProtocolError(f"a value is nested deeper than {MAX_NESTING} levels")


def write_coded(value: QmfValue, depth: int = 0) -> bytes:
    """Encode a type code and value.

    Integers use the smallest of i32, i64 and u64; text is str16 UTF-8 (vbin32 where longer), which all
    known peers read; an object id is its text.

    Raises:
        LocalProtocolError: the value cannot be encoded.
    """
    if isinstance(value, str | ObjectId):
        return _write_octets(fields.encode_text(str(value), 0xFFFFFFFF), 0x95)
    if isinstance(value, bytes):
        return _write_octets(value, 0x90)
    if isinstance(value, Mapping):
        return bytes((_MAP,)) + write_map(value, depth + 1)
    if isinstance(value, tuple):
        return bytes((_LIST,)) + write_list(value, depth + 1)
    return _write_scalar(value)


def _write_scalar(value: bool | float | UUID | None) -> bytes:  # noqa: FBT001  a value, not a switch
    if value is None:
        return b"\xf0"
    if isinstance(value, bool):
        return b"\x08\x01" if value else b"\x08\x00"
    if isinstance(value, int):
        return _write_integer(value)
    if isinstance(value, UUID):
        return bytes((_UUID,)) + value.bytes
    return b"\x33" + _NUMBERS[0x33].pack(value)


def _write_integer(value: int) -> bytes:
    if isinstance(value, Int64):
        return b"\x31" + _NUMBERS[0x31].pack(value)
    for code, low, high in ((0x21, -(1 << 31), 1 << 31), (0x31, -(1 << 63), 1 << 63), (0x32, 0, 1 << 64)):
        if low <= value < high:
            return bytes((code,)) + _NUMBERS[code].pack(value)
    raise LocalProtocolError(f"{value} does not fit 64 bits")


def _write_octets(octets: bytes, code: int) -> bytes:
    if len(octets) <= 0xFFFF:  # noqa: PLR2004  the largest length of 16 bits
        return bytes((code,)) + fields.u16(len(octets)) + octets
    return b"\xa0" + fields.u32(len(octets)) + octets
