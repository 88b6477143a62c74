"""Basic Encoding Rules as SNMP uses them (RFC 3417 section 8, types of RFC 2578 and RFC 3416).

The module knows bytes only: no PDU, no table. Written encodings are canonical: definite lengths, and integers
in the fewest octets. Read encodings may be longer than needed, as real managers send them. Readers take a
buffer and offsets and raise nothing but `BerError`; writers take Python values and raise ``ValueError`` for
values that the type cannot hold. "TLV" is a whole encoding (tag, length, content), "content" the octets after
the length, and "name" the content of an OBJECT IDENTIFIER.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Final, TypeAlias

Oid: TypeAlias = tuple[int, ...]
"""An OBJECT IDENTIFIER as its sub-identifiers; also a part of one, such as the index of a row."""


def parse_oid(text: str) -> Oid:
    """Read an object identifier in its dotted form, with or without a dot before it.

    Raises:
        ValueError: it is not one.
    """
    return tuple(int(arc) for arc in text.strip(".").split("."))


def dotted(oid: Oid) -> str:
    """Return the dotted form of an object identifier."""
    return ".".join(map(str, oid))


NO_ROW: Final[Oid] = (0, 0)
"""zeroDotZero: the value of a RowPointer that points to no row."""


INTEGER: Final = 0x02
OCTET_STRING: Final = 0x04
NULL_TAG: Final = 0x05
OBJECT_IDENTIFIER: Final = 0x06
SEQUENCE: Final = 0x30
IP_ADDRESS: Final = 0x40
COUNTER32: Final = 0x41
GAUGE32: Final = 0x42
TIME_TICKS: Final = 0x43
OPAQUE: Final = 0x44
COUNTER64: Final = 0x46

NULL: Final = b"\x05\x00"
NO_SUCH_OBJECT: Final = b"\x80\x00"
NO_SUCH_INSTANCE: Final = b"\x81\x00"
END_OF_MIB_VIEW: Final = b"\x82\x00"

MAX_SUB_IDENTIFIERS: Final = 128  # RFC 2578 section 3.5
MAX_SUB_IDENTIFIER: Final = 0xFFFF_FFFF
_MAX_LENGTH_OCTETS: Final = 8
_MORE: Final = 0x80  # the first bit: a long length, or more octets of a sub-identifier
_INTEGER32_OCTETS: Final = 4
_MIN_INTEGER32: Final = -(2**31)
_MAX_INTEGER32: Final = 2**31 - 1
_MAX_OCTET: Final = 0xFF
_MAX_OCTETS: Final = 0xFFFF
_UNSIGNED_BITS: Final = {COUNTER32: 32, GAUGE32: 32, TIME_TICKS: 32, COUNTER64: 64}
# The exceptions (noSuchObject, noSuchInstance, endOfMibView) stand where values do, in responses that are
# read as a manager (RFC 3416 section 3).
_EMPTY_TAGS: Final = frozenset({NULL_TAG, 0x80, 0x81, 0x82})


class BerError(Exception):
    """The bytes are no encoding that SNMP permits.

    Args:
        expected: a description of the expected encoding.
        found: a description of the bytes found, shortened.
        offset: octets from the start of the buffer that was read.
    """

    def __init__(self, expected: str, found: str = "", offset: int = 0) -> None:
        self.expected = expected
        self.found = found
        self.offset = offset
        found_text = f", found {found}" if found else ""
        super().__init__(f"at offset {offset}: expected {expected}{found_text}")


# ---- writing ------------------------------------------------------------------------------------------


def encode_length(length: int) -> bytes:
    """Return the length octets of a content of ``length`` octets, in the shortest definite form."""
    if length < _MORE:
        return bytes((length,))
    octets = length.to_bytes((length.bit_length() + 7) >> 3, "big")
    return bytes((_MORE | len(octets),)) + octets


def encode_head(tag: int, length: int) -> bytes:
    """Return the tag and the length octets that stand before a content of ``length`` octets."""
    if length < _MORE:
        return bytes((tag, length))
    if length <= _MAX_OCTETS:
        if length <= _MAX_OCTET:
            return bytes((tag, _MORE | 1, length))
        return bytes((tag, _MORE | 2, length >> 8, length & _MAX_OCTET))
    return bytes((tag,)) + encode_length(length)


def content_room(octets: int) -> int:
    """Return the length of the longest content of a TLV of at most ``octets``; negative if there is none.

    ``octets`` are at most 2^24, for which a length takes four.
    """
    for head, too_long in ((2, _MORE), (3, _MAX_OCTET + 1), (4, _MAX_OCTETS + 1)):
        if octets - head < too_long:
            return octets - head
    return octets - 5


def encode_tlv(tag: int, content: bytes) -> bytes:
    """Return ``content`` with its tag and length in front."""
    return encode_head(tag, len(content)) + content


def encode_integer(value: int) -> bytes:
    """Return the TLV of an Integer32 or an enumeration. Raises ``ValueError`` outside -2^31 to 2^31-1."""
    if 0 <= value < len(_SMALL_INTEGERS):
        return _SMALL_INTEGERS[value]
    if not _MIN_INTEGER32 <= value <= _MAX_INTEGER32:
        raise ValueError(f"{value} does not fit Integer32")
    return _signed_tlv(value)


def encode_counter32(value: int) -> bytes:
    """Return the TLV of a Counter32. Raises ``ValueError`` outside 0 to 2^32-1."""
    return _unsigned_tlv(COUNTER32, value)


def encode_gauge32(value: int) -> bytes:
    """Return the TLV of a Gauge32 or Unsigned32. Raises ``ValueError`` outside 0 to 2^32-1."""
    return _unsigned_tlv(GAUGE32, value)


def encode_time_ticks(value: int) -> bytes:
    """Return the TLV of TimeTicks, hundredths of a second. Raises ``ValueError`` outside 0 to 2^32-1."""
    return _unsigned_tlv(TIME_TICKS, value)


def encode_counter64(value: int) -> bytes:
    """Return the TLV of a Counter64. Raises ``ValueError`` outside 0 to 2^64-1."""
    return _unsigned_tlv(COUNTER64, value)


def encode_octets(value: bytes) -> bytes:
    """Return the TLV of an OCTET STRING. Raises ``ValueError`` over 65,535 octets (RFC 2578 7.1.2)."""
    length = len(value)
    if length < _MORE:  # nearly all of them: two calls fewer for each cell
        return bytes((OCTET_STRING, length)) + value
    if length > _MAX_OCTETS:
        raise ValueError(f"{length} octets do not fit an OCTET STRING")
    return encode_tlv(OCTET_STRING, value)


def encode_ip_address(value: bytes) -> bytes:
    """Return the TLV of an IpAddress of 4 octets. Raises ``ValueError`` for any other size."""
    if len(value) != 4:  # noqa: PLR2004  an IPv4 address
        raise ValueError(f"an IpAddress has 4 octets, not {len(value)}")
    return encode_tlv(IP_ADDRESS, value)


def encode_opaque(value: bytes) -> bytes:
    """Return the TLV of an Opaque: ``value`` is the BER that it wraps."""
    return encode_tlv(OPAQUE, value)


def encode_oid(oid: Oid) -> bytes:
    """Return the TLV of an OBJECT IDENTIFIER. Raises ``ValueError`` as `encode_name`."""
    return encode_tlv(OBJECT_IDENTIFIER, encode_name(oid))


def encode_name(oid: Oid) -> bytes:
    """Return the content of an OBJECT IDENTIFIER.

    Raises ``ValueError`` for fewer than 2 or more than 128 sub-identifiers, and where one is out of range.
    """
    if not 2 <= len(oid) <= MAX_SUB_IDENTIFIERS:  # noqa: PLR2004  the first two share one octet
        raise ValueError(f"an OBJECT IDENTIFIER has 2 to 128 sub-identifiers, not {len(oid)}")
    top, second = oid[0], oid[1]
    if not 0 <= top <= 2 or (top < 2 and second >= 40) or not 0 <= second <= MAX_SUB_IDENTIFIER:  # noqa: PLR2004
        raise ValueError(f"no OBJECT IDENTIFIER starts with {top}.{second}")
    return _base128(top * 40 + second) + encode_sub_identifiers(oid[2:])


def encode_sub_identifiers(part: Oid) -> bytes:
    """Return the octets that ``part`` adds to a name. Raises ``ValueError`` where one is not 0 to 2^32-1."""
    small = _SMALL_SUB_IDENTIFIERS
    return b"".join(
        [small[number] if 0 <= number < _SMALL_NAMES else _sub_identifier(number) for number in part]
    )


def encode_varbind(name: bytes, value: bytes) -> bytes:
    """Return a VarBind of a name (content octets) and a value TLV (RFC 3416 section 3)."""
    name_length = len(name)
    length = name_length + len(value) + 2
    if length < _MORE:
        return bytes((SEQUENCE, length, OBJECT_IDENTIFIER, name_length)) + name + value
    return encode_tlv(SEQUENCE, encode_tlv(OBJECT_IDENTIFIER, name) + value)


def varbind_encoder(name: bytes) -> Callable[[bytes], bytes]:
    """Return `encode_varbind` of one name; it remembers what stands before short values, by their length."""
    heads: dict[int, bytes] = {}

    def encode(value: bytes) -> bytes:
        length = len(value)
        head = heads.get(length)
        if head is not None:
            return head + value
        varbind = encode_varbind(name, value)
        if length < _MORE:
            heads[length] = varbind[: len(varbind) - length]
        return varbind

    return encode


# Compiled for each length: `struct.pack` would look its format up for each row key.
_PACKERS: Final = tuple(struct.Struct(f">{count}I").pack for count in range(MAX_SUB_IDENTIFIERS + 1))


def sort_key(part: Oid) -> bytes:
    """Return octets that compare as the sub-identifiers do (big-endian u32 each); their BER does not.

    Raises ``ValueError`` for over 128 sub-identifiers or one that is not 0 to 2^32-1.
    """
    try:
        return _PACKERS[len(part)](*part)
    except (struct.error, IndexError):
        raise ValueError(f"not sub-identifiers: {part}") from None


def from_sort_key(key: bytes) -> Oid:
    """Return the sub-identifiers of which ``key`` is the `sort_key`."""
    return struct.unpack(f">{len(key) >> 2}I", key)


def _signed_tlv(value: int) -> bytes:
    # One bit more than the magnitude needs: the first bit is the sign.
    bits = value if value >= 0 else ~value
    size = (bits.bit_length() >> 3) + 1
    return bytes((INTEGER, size)) + value.to_bytes(size, "big", signed=True)


def _unsigned_tlv(tag: int, value: int) -> bytes:
    if 0 <= value < _SMALL:
        return _SMALL_UNSIGNED[tag][value]
    if not 0 <= value < _UNSIGNED_LIMITS[tag]:
        raise ValueError(f"{value} is not an unsigned number of {_UNSIGNED_BITS[tag]} bits")
    # These types are encoded as INTEGERs are: where the first bit would be set a zero octet stands before it.
    octets = (value.bit_length() >> 3) + 1
    return _UNSIGNED_HEADS[tag][octets] + value.to_bytes(octets, "big")


def _sub_identifier(number: int) -> bytes:
    if not 0 <= number <= MAX_SUB_IDENTIFIER:
        raise ValueError(f"{number} is not a sub-identifier")
    return _base128(number)


def _base128(number: int) -> bytes:
    octets = [number & 0x7F]
    while number := number >> 7:
        octets.append(_MORE | number & 0x7F)
    return bytes(reversed(octets))


# Most numbers are small, and a shared bytes object costs a cell 8 octets instead of 48.
_SMALL: Final = 1024
_SMALL_INTEGERS: Final = tuple(_signed_tlv(value) for value in range(_SMALL))
_SMALL_UNSIGNED: Final = {
    tag: tuple(bytes((tag,)) + tlv[1:] for tlv in _SMALL_INTEGERS) for tag in _UNSIGNED_BITS
}
_UNSIGNED_LIMITS: Final = {tag: 1 << bits for tag, bits in _UNSIGNED_BITS.items()}
_UNSIGNED_HEADS: Final = {
    tag: tuple(bytes((tag, octets)) for octets in range(bits // 8 + 2))
    for tag, bits in _UNSIGNED_BITS.items()
}
_SMALL_NAMES: Final = 1 << 14
# They have one octet or two. By `_base128` they take 4 ms longer, in commands that need few of them.
_SMALL_SUB_IDENTIFIERS: Final = (
    *(bytes((low,)) for low in range(_MORE)),
    *(bytes((_MORE | high, low)) for high in range(1, _MORE) for low in range(_MORE)),
)


# ---- reading ------------------------------------------------------------------------------------------


def read_header(data: bytes, offset: int, end: int) -> tuple[int, int, int]:
    """Return the tag at ``offset``, and the start and stop offsets of its content, all up to ``end``.

    Accepts lengths in more octets than needed, refuses the indefinite form (RFC 3417 section 8).
    """
    start = offset + 2
    if start > end:
        raise BerError("a tag and a length", "the end", offset)
    length = data[offset + 1]
    if length >= _MORE:
        size = length & 0x7F
        if not 0 < size <= _MAX_LENGTH_OCTETS or start + size > end:
            raise BerError("a definite length", f"0x{length:02x}", offset + 1)
        length = int.from_bytes(data[start : start + size], "big")
        start += size
    stop = start + length
    if stop > end:
        raise BerError(f"{length} octets of content", f"{end - start}", start)
    return data[offset], start, stop


def read_tagged(data: bytes, offset: int, end: int, tag: int) -> tuple[int, int]:
    """Return the start and stop offsets of the content of the TLV at ``offset``; its tag must be ``tag``."""
    start = offset + 2
    if (
        start <= end
        and data[offset] == tag
        and (length := data[offset + 1]) < _MORE
        and start + length <= end
    ):
        return start, start + length
    found, start, stop = read_header(data, offset, end)
    if found != tag:
        raise BerError(f"tag 0x{tag:02x}", f"0x{found:02x}", offset)
    return start, stop


def read_integer(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Return the Integer32 at ``offset`` and the offset after it. Redundant octets in front are accepted."""
    start, stop = read_tagged(data, offset, end, INTEGER)
    if start == stop:
        raise BerError("an integer of one octet or more", "none", offset)
    value = int.from_bytes(data[start:stop], "big", signed=True)
    # Four octets always fit. More may consist of repeated sign octets in front.
    if stop - start > _INTEGER32_OCTETS and not _MIN_INTEGER32 <= value <= _MAX_INTEGER32:
        raise BerError("an integer of 32 bits", f"{value.bit_length()} bits", offset)
    return value, stop


def read_octets(data: bytes, offset: int, end: int) -> tuple[bytes, int]:
    """Return the content of the OCTET STRING at ``offset`` and the offset after it."""
    start, stop = read_tagged(data, offset, end, OCTET_STRING)
    return data[start:stop], stop


# The first number of a name carries two sub-identifiers, so 127 encoded ones make 128.
is_canonical_name: Final = re.compile(
    rb"(?:[\x00-\x7f]|[\x81-\xff][\x80-\xff]{0,2}[\x00-\x7f]|[\x81-\x8f][\x80-\xff]{3}[\x00-\x7f]){1,127}"
).fullmatch
"""Matches the content of an OBJECT IDENTIFIER without redundant octets and with every number in range."""

# No possessive quantifiers: Python 3.11.2 (Debian 12) matches too much with them: b"\x81" here.
# Nothing is lost without: an octet decides alone what it belongs to, so going back never goes far.
is_short_name: Final = re.compile(rb"[\x00-\x7f]*(?:[\x81-\xff][\x80-\xff]{0,2}[\x00-\x7f]+)*").fullmatch
"""Matches most canonical names, and no other content of 1 to 127 octets; quicker to check.

Numbers from 2^28, which take five octets, are left to `is_canonical_name`.
"""


def read_name(data: bytes, offset: int, end: int) -> tuple[bytes, int]:
    """Return the content of the OBJECT IDENTIFIER at ``offset``, made canonical, and the offset after it.

    Peers send ``06 00`` for 0.0 (net-snmp and others accept it), and sub-identifiers with zeros in front.
    """
    start, stop = read_tagged(data, offset, end, OBJECT_IDENTIFIER)
    name = data[start:stop]
    if is_canonical_name(name):
        return name, stop
    try:
        return encode_name(decode_name(name)), stop
    except BerError as error:
        raise BerError(error.expected, error.found, start + error.offset) from None


def name_of_varbind(varbind: bytes) -> bytes:
    """Return the name (content octets) in a whole VarBind."""
    _, start, stop = read_header(varbind, 0, len(varbind))
    return read_name(varbind, start, stop)[0]


def read_value(data: bytes, offset: int, end: int) -> tuple[bytes, int]:
    """Return the TLV of any SNMP value at ``offset``, made canonical, and the offset after it."""
    tag, start, stop = read_header(data, offset, end)
    if tag in _EMPTY_TAGS:
        if start != stop:
            raise BerError("no content", f"{stop - start} octets", start)
        return bytes((tag, 0)), stop
    if tag == INTEGER:
        value, stop = read_integer(data, offset, end)
        return encode_integer(value), stop
    if tag == OBJECT_IDENTIFIER:
        name, stop = read_name(data, offset, end)
        return encode_tlv(OBJECT_IDENTIFIER, name), stop
    if tag in _UNSIGNED_BITS:
        return _unsigned_tlv(tag, _read_unsigned(data, start, stop, _UNSIGNED_BITS[tag])), stop
    if tag in (OCTET_STRING, OPAQUE) or (tag == IP_ADDRESS and stop - start == 4):  # noqa: PLR2004  IPv4
        return encode_tlv(tag, data[start:stop]), stop
    raise BerError("a value that SNMP knows", f"tag 0x{tag:02x}, {stop - start} octets", offset)


def decode_name(name: bytes) -> Oid:
    """Return the sub-identifiers of an OBJECT IDENTIFIER's content; none at all stands for 0.0."""
    if not name:
        return (0, 0)
    # The first number is 40 times the first sub-identifier, which is at most 2, plus the second one.
    first, *rest = _decode_base128(name, MAX_SUB_IDENTIFIER + 80)
    if len(rest) > MAX_SUB_IDENTIFIERS - 2:
        raise BerError("at most 128 sub-identifiers", f"{len(rest) + 2}")
    if rest and max(rest) > MAX_SUB_IDENTIFIER:
        raise BerError("sub-identifiers up to 2^32-1", f"{max(rest)}")
    # Below 2 the second sub-identifier may be 40 or more (X.690 section 8.19.4).
    top = min(first // 40, 2)
    return (top, first - top * 40, *rest)


def decode_sub_identifiers(part: bytes) -> Oid:
    """Return the sub-identifiers of a part of a name; the reverse of `encode_sub_identifiers`."""
    return tuple(_decode_base128(part, MAX_SUB_IDENTIFIER))


def _decode_base128(octets: bytes, maximum: int) -> list[int]:
    numbers = []
    number = 0
    for offset, octet in enumerate(octets):
        number = number << 7 | octet & 0x7F
        if number > maximum:  # at each octet, so that a hostile name never makes a huge number
            raise BerError("sub-identifiers up to 2^32-1", f"{number} or more", offset)
        if octet < _MORE:
            numbers.append(number)
            number = 0
    if octets and octets[-1] >= _MORE:
        raise BerError("the last octet of a sub-identifier", "the end", len(octets))
    return numbers


def _read_unsigned(data: bytes, start: int, stop: int, bits: int) -> int:
    if start == stop:
        raise BerError("an integer of one octet or more", "none", start)
    # Old agents leave out the zero in front, so a set first bit is no sign here; net-snmp reads it so too.
    value = int.from_bytes(data[start:stop], "big")
    if value >> bits:
        raise BerError(f"an unsigned integer of {bits} bits", f"{value.bit_length()} bits", start)
    return value
