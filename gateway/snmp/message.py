"""SNMPv1 and SNMPv2c messages: requests read, responses written (RFC 1157, RFC 1901, RFC 3416 section 3).

Reading goes in two steps, so that nothing of a PDU is looked at before its community is known. What stands
behind the variable bindings inside a PDU, behind the PDU and behind the message is ignored, as net-snmp does;
anything else inside a list of variable bindings is refused.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from gateway.snmp import ber
from gateway.snmp.ber import BerError

VERSION_1: Final = 0
VERSION_2C: Final = 1

GET: Final = 0xA0
GET_NEXT: Final = 0xA1
RESPONSE: Final = 0xA2
SET: Final = 0xA3
TRAP_V1: Final = 0xA4
GET_BULK: Final = 0xA5
INFORM: Final = 0xA6
TRAP_V2: Final = 0xA7
_KNOWN_PDUS: Final = range(0xA0, 0xA9)
_USUAL_VERSIONS: Final = {ber.encode_integer(version): version for version in (VERSION_1, VERSION_2C)}
# The first octets of a varbind with a NULL, by the length of its name; no match for one with long lengths.
_USUAL_VARBINDS: Final = tuple(
    bytes((ber.SEQUENCE, length + 4, ber.OBJECT_IDENTIFIER)) if length + 4 < 0x80 else b""  # noqa: PLR2004
    for length in range(0x100)
)
_LARGEST_HEADERS: Final = 4 * 4 + 3 + 6 + 3 + 4

NO_ERROR: Final = 0
TOO_BIG: Final = 1
NO_SUCH_NAME: Final = 2
GEN_ERR: Final = 5
NO_ACCESS: Final = 6
NOT_WRITABLE: Final = 17
_NO_ERROR_AT_ALL: Final = 2 * ber.encode_integer(NO_ERROR)


class UnknownVersionError(Exception):
    """The message is of a version that is not spoken here; the only argument is its number."""


class Message(NamedTuple):
    """A message up to its PDU, whose content is ``datagram[start:stop]``; ``pdu_type`` is its tag.

    A named tuple, as `Request`: one is made for every datagram, and it is the cheapest frozen value.
    """

    version: int
    community: bytes
    pdu_type: int
    start: int
    stop: int


class Request(NamedTuple):
    """A PDU: names are canonical content octets, values canonical TLVs.

    ``first`` and ``second`` are error-status and error-index, or non-repeaters and max-repetitions.
    """

    request_id: int
    first: int
    second: int
    names: list[bytes]
    values: list[bytes]


def read_message(datagram: bytes) -> Message:
    """The envelope of a datagram's message.

    Raises `BerError` for what is no message and `UnknownVersionError` for a version but 1 and 2c. A PDU tag
    that no version of SNMP knows is a `BerError` too.
    """
    offset, end = ber.read_tagged(datagram, 0, len(datagram), ber.SEQUENCE)
    version = _USUAL_VERSIONS.get(datagram[offset : offset + 3])
    if version is not None:
        offset += 3
    else:
        version, offset = ber.read_integer(datagram, offset, end)
        if version not in (VERSION_1, VERSION_2C):
            raise UnknownVersionError(version)
    community, offset = ber.read_octets(datagram, offset, end)
    pdu_type, start, stop = ber.read_header(datagram, offset, end)
    if pdu_type not in _KNOWN_PDUS:
        raise BerError("a PDU", f"tag 0x{pdu_type:02x}", offset)
    return Message(version, community, pdu_type, start, stop)


def read_request(datagram: bytes, start: int, stop: int) -> Request:
    """The content of a request's PDU. Raises `BerError`."""
    request_id, offset = ber.read_integer(datagram, start, stop)
    if datagram[offset : offset + len(_NO_ERROR_AT_ALL)] == _NO_ERROR_AT_ALL:  # all but GETBULK say so
        first = second = 0
        offset += len(_NO_ERROR_AT_ALL)
    else:
        first, offset = ber.read_integer(datagram, offset, stop)
        second, offset = ber.read_integer(datagram, offset, stop)
    offset, end = ber.read_tagged(datagram, offset, stop, ber.SEQUENCE)
    names: list[bytes] = []
    values: list[bytes] = []
    while offset < end:
        name_start = offset + 4
        name_end = name_start + datagram[offset + 3] if name_start < end else end
        if (
            # Nearly every varbind of a read: short lengths, NULL for a value, a name in canonical form.
            name_end + 2 <= end
            and datagram[name_end : name_end + 2] == ber.NULL
            and datagram[offset : offset + 3] == _USUAL_VARBINDS[name_end - name_start]
            and ber.is_canonical_name(name := datagram[name_start:name_end])
        ):
            names.append(name)
            values.append(ber.NULL)
            offset = name_end + 2
        else:
            name, value, offset = _read_varbind(datagram, offset, end)
            names.append(name)
            values.append(value)
    return Request(request_id, first, second, names, values)


def read_status(datagram: bytes, start: int, stop: int) -> tuple[int, int]:
    """Request id and error-status of a response's PDU; its varbinds are not looked at. Raises `BerError`."""
    request_id, offset = ber.read_integer(datagram, start, stop)
    status, _ = ber.read_integer(datagram, offset, stop)
    return request_id, status


def encode_response(
    message: Message, request_id: int, status: int, index: int, varbinds: list[bytes]
) -> bytes:
    """The datagram that answers ``message``: error-status, error-index and encoded varbinds."""
    content = b"".join(varbinds)
    head = ber.encode_integer(request_id)
    head += ber.encode_integer(status) + ber.encode_integer(index) if status or index else _NO_ERROR_AT_ALL
    pdu = ber.encode_tlv(RESPONSE, head + ber.encode_tlv(ber.SEQUENCE, content))
    return ber.encode_tlv(ber.SEQUENCE, preamble(message.version, message.community) + pdu)


@lru_cache(maxsize=64)  # messages are made for known communities only, and of those there are few
def preamble(version: int, community: bytes) -> bytes:
    """Version and community, with which the content of every message begins."""
    return ber.encode_integer(version) + ber.encode_tlv(ber.OCTET_STRING, community)


def response_overhead(message: Message) -> int:
    """At most how many octets a response to ``message`` has beside its varbinds.

    Message, community, PDU and list have tags and lengths of up to 4 octets each; the integers 3, 6, 3 and 4.
    """
    return len(message.community) + _LARGEST_HEADERS


def _read_varbind(datagram: bytes, offset: int, end: int) -> tuple[bytes, bytes, int]:
    """The name and value of any variable binding, and the offset after it."""
    offset, end = ber.read_tagged(datagram, offset, end, ber.SEQUENCE)
    name, offset = ber.read_name(datagram, offset, end)
    value, offset = ber.read_value(datagram, offset, end)
    if offset != end:
        raise BerError("the end of a variable binding", f"{end - offset} octets", offset)
    return name, value, end
