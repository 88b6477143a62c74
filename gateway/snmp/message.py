"""SNMPv1 and SNMPv2c messages (RFC 1157, RFC 1901, RFC 3416 section 3): requests read, responses written.

Reading has two steps, so that no PDU is read before its community is known. Octets after the variable
bindings inside a PDU, after the PDU and after the message are ignored, as net-snmp does; anything else inside
a list of variable bindings is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from gateway.snmp import ber
from gateway.snmp.ber import BerError

MAX_COMMUNITY_OCTETS: Final = 255
"""The longest community of a notification."""

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
# A Report (0xA8) of version 3 is a PDU, too: it is counted as one that is not handled, not as a parse error.
_KNOWN_PDUS: Final = range(0xA0, 0xA9)
# Compared as three octets: nearly every message has one of them in its shortest form.
_USUAL_VERSIONS: Final = {ber.encode_integer(version): version for version in (VERSION_1, VERSION_2C)}
_BESIDE_NAME: Final = 6  # octets of a variable binding with a NULL
_LONGEST_USUAL_NAME: Final = 0x7F - 4
_SEVERAL: Final = 100  # octets of names that are rather compared all at once
_REQUEST_ID_OCTETS: Final = 4
_LARGEST_OCTET: Final = 0x7F  # a number of one octet that is not negative
_BESIDE_VARBINDS: Final = 8  # octets of a response's PDU that are neither request id nor varbinds
LONGEST_SHORT: Final = 0x7F + 2
"""Octets of the longest message, or ScopedPDU, whose lengths all take one octet."""

PDU_OVERHEAD: Final = 2 * 4 + 6 + 3 + 4
"""The maximum number of octets of a response's PDU, without its varbinds: two lengths, three integers."""
RESPONSE_OVERHEAD: Final = 4 * 4 + 3 + 6 + 3 + 4
"""The maximum number of octets of a response, without its community and its varbinds.

Message, community, PDU and list have tags and lengths of up to 4 octets each; the integers 3, 6, 3 and 4.
"""

NO_ERROR: Final = 0
TOO_BIG: Final = 1
NO_SUCH_NAME: Final = 2
BAD_VALUE: Final = 3
GEN_ERR: Final = 5
NO_ACCESS: Final = 6
WRONG_TYPE: Final = 7
WRONG_LENGTH: Final = 8
WRONG_ENCODING: Final = 9
WRONG_VALUE: Final = 10
NO_CREATION: Final = 11
INCONSISTENT_VALUE: Final = 12
RESOURCE_UNAVAILABLE: Final = 13
COMMIT_FAILED: Final = 14
UNDO_FAILED: Final = 15
AUTHORIZATION_ERROR: Final = 16
NOT_WRITABLE: Final = 17
INCONSISTENT_NAME: Final = 18

STATUS_NAMES: Final[Mapping[int, str]] = {
    NO_ERROR: "noError",
    TOO_BIG: "tooBig",
    GEN_ERR: "genErr",
    NO_ACCESS: "noAccess",
    WRONG_TYPE: "wrongType",
    WRONG_LENGTH: "wrongLength",
    WRONG_VALUE: "wrongValue",
    NO_CREATION: "noCreation",
    INCONSISTENT_VALUE: "inconsistentValue",
    RESOURCE_UNAVAILABLE: "resourceUnavailable",
    COMMIT_FAILED: "commitFailed",
    UNDO_FAILED: "undoFailed",
    NOT_WRITABLE: "notWritable",
    INCONSISTENT_NAME: "inconsistentName",
}
"""Every error-status with which a SET in version 2c can be answered here, by its name in RFC 3416."""
FILLING: Final = (0x00, 0xFF)
"""The first octets of an integer that may have more of them than needed."""

_NO_ERROR_AT_ALL: Final = 2 * ber.encode_integer(NO_ERROR)

_READS: Final = frozenset({GET, GET_NEXT, GET_BULK})
# What stands before a content of so many octets, as long as its length takes one.
_SEQUENCE_HEADS: Final = tuple(bytes((ber.SEQUENCE, length)) for length in range(0x80))
_RESPONSE_HEADS: Final = tuple(bytes((RESPONSE, length)) for length in range(0x80))
_LIST_HEADS: Final = tuple(_NO_ERROR_AT_ALL + head for head in _SEQUENCE_HEADS)


class UnknownVersionError(Exception):
    """The version of a message is not supported; the only argument is its number."""


class Message(NamedTuple):
    """A message up to its PDU, whose content is ``datagram[start:stop]``; ``pdu_type`` is its tag.

    A named tuple, as `Request`: one is made for every datagram, and it is the cheapest frozen value.
    """

    version: int
    community: bytes
    pdu_type: int
    start: int
    stop: int

    def __repr__(self) -> str:
        """Return it without the community."""
        return f"Message(version={self.version}, pdu_type={self.pdu_type:#x}, {self.start}:{self.stop})"


class Request(NamedTuple):
    """A PDU: names are canonical content octets, values canonical TLVs.

    ``first`` and ``second`` are error-status and error-index, or non-repeaters and max-repetitions.
    """

    request_id: int
    first: int
    second: int
    names: list[bytes]
    values: list[bytes]


UsualRead: TypeAlias = "tuple[bytes, int, bytes, int, int, list[bytes]]"
"""The result of `read_usual`: preamble, PDU type, TLV of the request id, then as the fields of a `Request`.

The preamble is the content before the PDU, which was not checked: version and community, if it is that of a
known community. A plain tuple is the cheapest to make.
"""


def read_usual(datagram: bytes) -> UsualRead | None:
    """Return a read (GET, GETNEXT, GETBULK) in the form in which managers send nearly all of them.

    All is canonical but the lengths of the message, its PDU and the list, and each value is NULL. Returns
    ``None`` for anything else, which may be a valid request, too: `read_message` and `read_request` decide.
    """
    size = len(datagram)
    try:
        if size > LONGEST_SHORT:
            places = _places_of_long(datagram)
            if places is None:
                return None
            start, pdu, id_at, offset = places
            id_end = id_at + 2 + datagram[id_at + 1]
        else:
            start, pdu = 2, 7 + datagram[6]  # behind 30 length, 02 01 version, 04 length and community
            id_at = pdu + 2
            id_end = id_at + 2 + datagram[id_at + 1]
            offset = id_end + 8  # 02 01 and a number, twice, and the list's 30 length
            if (
                datagram[0] != ber.SEQUENCE
                or datagram[1] != size - 2
                or datagram[pdu + 1] != size - id_at
                or datagram[id_end + 6] != ber.SEQUENCE
                or datagram[id_end + 7] != size - offset
            ):
                return None
        pdu_type, first, second = datagram[pdu], datagram[id_end + 2], datagram[id_end + 5]
        if (
            pdu_type not in _READS
            or datagram[id_at] != ber.INTEGER
            or not 0 < id_end - id_at - 2 <= _REQUEST_ID_OCTETS
            or datagram[id_at + 2] in FILLING  # perhaps an octet too many: rare, and not decided here
            or not (datagram[id_end] == datagram[id_end + 3] == ber.INTEGER)
            or not (datagram[id_end + 1] == datagram[id_end + 4] == 1)
            # Negative numbers, which GETBULK takes as 0 (RFC 3416 section 4.2.3), are not decided here.
            or first > _LARGEST_OCTET
            or second > _LARGEST_OCTET
        ):
            return None
        names = _read_usual_names(datagram, offset, size)
    except IndexError:
        # A datagram that ends within one of the parts. The general reader reports what is wrong with it, and
        # a check of each length before would cost every good request.
        return None
    if not names:
        return None
    return datagram[start:pdu], pdu_type, datagram[id_at:id_end], first, second, names


def _places_of_long(datagram: bytes) -> tuple[int, int, int, int] | None:
    """Return where the parts of a read begin whose lengths take several octets, as that of many objects.

    They are the content, the PDU, the request id, and the first variable binding. Returns ``None`` if the
    lengths do not agree.
    """
    size = len(datagram)
    try:
        start, end = ber.read_tagged(datagram, 0, size, ber.SEQUENCE)
        pdu = start + 5 + datagram[start + 4]  # behind 02 01 version, 04 length and community
        _, id_at, pdu_end = ber.read_header(datagram, pdu, end)
        numbers_end = id_at + 8 + datagram[id_at + 1]
        offset, list_end = ber.read_tagged(datagram, numbers_end, pdu_end, ber.SEQUENCE)
    except BerError:
        return None
    return (start, pdu, id_at, offset) if end == pdu_end == list_end == size else None


def read_message(datagram: bytes) -> Message:
    """Return the envelope of a datagram's message.

    Raises `BerError` if it is no message, or has a PDU tag that no version of SNMP knows, and
    `UnknownVersionError` for versions other than 1 and 2c.
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
    """Return the content of a request's PDU. Raises `BerError`."""
    request_id, offset = ber.read_integer(datagram, start, stop)
    if datagram[offset : offset + len(_NO_ERROR_AT_ALL)] == _NO_ERROR_AT_ALL:  # all but GETBULK say so
        first = second = 0
        offset += len(_NO_ERROR_AT_ALL)
    else:
        first, offset = ber.read_integer(datagram, offset, stop)
        second, offset = ber.read_integer(datagram, offset, stop)
    offset, end = ber.read_tagged(datagram, offset, stop, ber.SEQUENCE)
    # Nearly every request is a read, whose values are all NULL. A SET takes the way below.
    names = _read_usual_names(datagram, offset, end)
    if names is not None:
        return Request(request_id, first, second, names, [ber.NULL] * len(names))
    names, values = [], []
    while offset < end:
        name, value, offset = _read_varbind(datagram, offset, end)
        names.append(name)
        values.append(value)
    return Request(request_id, first, second, names, values)


def read_status(datagram: bytes, start: int, stop: int) -> tuple[int, int]:
    """Return request id and error-status of a response's PDU, not its varbinds. Raises `BerError`."""
    request_id, offset = ber.read_integer(datagram, start, stop)
    status, _ = ber.read_integer(datagram, offset, stop)
    return request_id, status


def encode_get(community: bytes, request_id: int, names: list[bytes]) -> bytes:
    """Return a GET in version 2c of the names (content octets), as a manager sends it."""
    pdu = encode_pdu(GET, request_id, 0, 0, [ber.encode_varbind(name, ber.NULL) for name in names])
    return ber.encode_tlv(ber.SEQUENCE, preamble(VERSION_2C, community) + pdu)


def read_response(datagram: bytes) -> Request:
    """Return the response in a datagram; ``first`` and ``second`` are error-status and error-index.

    Raises:
        BerError: it is no response in version 2c.
        UnknownVersionError: its version is not supported.
    """
    envelope = read_message(datagram)
    if envelope.version != VERSION_2C or envelope.pdu_type != RESPONSE:
        raise BerError("a response in version 2c", f"PDU 0x{envelope.pdu_type:02x}")
    return read_request(datagram, envelope.start, envelope.stop)


def encode_response_pdu(request_id: int, status: int, index: int, varbinds: list[bytes]) -> bytes:
    """Return a response's PDU with its tag and length: error-status, error-index and encoded varbinds."""
    return encode_pdu(RESPONSE, request_id, status, index, varbinds)


def encode_pdu(pdu_type: int, request_id: int, first: int, second: int, varbinds: list[bytes]) -> bytes:
    """Return any PDU of version 2 with its tag and length; the arguments are as in `Request`."""
    content = b"".join(varbinds)
    errors = ber.encode_integer(first) + ber.encode_integer(second) if first or second else _NO_ERROR_AT_ALL
    numbers = ber.encode_integer(request_id) + errors + ber.encode_head(ber.SEQUENCE, len(content))
    return ber.encode_head(pdu_type, len(numbers) + len(content)) + numbers + content


def enclose(message: Message, pdu: bytes) -> bytes:
    """Return the datagram that answers ``message`` with a PDU."""
    return ber.encode_tlv(ber.SEQUENCE, preamble(message.version, message.community) + pdu)


def response_room(message: Message, octets: int) -> int:
    """Return the maximum length of a PDU that answers ``message`` in a datagram of at most ``octets``."""
    return ber.content_room(octets) - len(preamble(message.version, message.community))


def encode_success(preamble: bytes, request_id: bytes, varbinds: list[bytes]) -> bytes:
    """Return a response without error; ``request_id`` is a TLV."""
    content = b"".join(varbinds)
    length = len(content)
    pdu_length = length + len(request_id) + _BESIDE_VARBINDS
    whole_length = pdu_length + len(preamble) + 2
    if whole_length < 0x80:  # noqa: PLR2004  all lengths take one octet
        return b"".join(
            (
                _SEQUENCE_HEADS[whole_length],
                preamble,
                _RESPONSE_HEADS[pdu_length],
                request_id,
                _LIST_HEADS[length],
                content,
            )
        )
    numbers = request_id + _NO_ERROR_AT_ALL + ber.encode_head(ber.SEQUENCE, length)
    head = preamble + ber.encode_head(RESPONSE, length + len(numbers)) + numbers
    return ber.encode_head(ber.SEQUENCE, length + len(head)) + head + content


@lru_cache(maxsize=64)  # messages are made for known communities only, and of those there are few
def preamble(version: int, community: bytes) -> bytes:
    """Return version and community, with which the content of every message begins."""
    return ber.encode_integer(version) + ber.encode_tlv(ber.OCTET_STRING, community)


def _read_usual_names(datagram: bytes, offset: int, end: int) -> list[bytes] | None:
    """Return the names in a usual list of a read's variable bindings; ``None`` for any other list.

    A usual list has short lengths, NULL for each value, and names in canonical form.
    """
    if end - offset >= _SEVERAL:
        equal = _read_equal_names(datagram, offset, end)
        if equal is not None:
            return equal
    names = []
    while end - offset > _BESIDE_NAME:
        length = datagram[offset + 3]
        start = offset + 4
        stop = start + length
        offset = stop + 2
        if (
            offset > end
            or not 0 < length <= _LONGEST_USUAL_NAME
            or datagram[start - 4] != ber.SEQUENCE
            or datagram[start - 3] != length + 4
            or datagram[start - 2] != ber.OBJECT_IDENTIFIER
            or datagram[stop] != ber.NULL_TAG
            or datagram[stop + 1] != 0
        ):
            return None
        name = datagram[start:stop]
        if not ber.is_short_name(name):
            return None
        names.append(name)
    return names if offset == end else None


def _read_equal_names(datagram: bytes, offset: int, end: int) -> list[bytes] | None:
    """Return the names as `_read_usual_names` does, if all are of the same length; ``None`` otherwise.

    So are most columns of one row. An octet beside the names is then at equal distances.
    """
    step = datagram[offset + 1] + 2
    length = step - _BESIDE_NAME
    count, rest = divmod(end - offset, step)
    if rest or not 0 < length <= _LONGEST_USUAL_NAME:
        return None
    beside = zip(
        (offset, offset + 1, offset + 2, offset + 3, offset + step - 2, offset + step - 1),
        (ber.SEQUENCE, step - 2, ber.OBJECT_IDENTIFIER, length, ber.NULL_TAG, 0),
        strict=True,
    )
    for place, octet in beside:
        if datagram[place:end:step].count(octet) != count:
            return None
    names = [datagram[start : start + length] for start in range(offset + 4, end, step)]
    # No name ends within a number, so that all of them are checked at once.
    ends = datagram[offset + 3 + length : end : step]
    return names if ends.isascii() and ber.is_short_name(b"".join(names)) else None


def _read_varbind(datagram: bytes, offset: int, end: int) -> tuple[bytes, bytes, int]:
    """Return the name and value of any variable binding, and the offset after it."""
    offset, end = ber.read_tagged(datagram, offset, end, ber.SEQUENCE)
    name, offset = ber.read_name(datagram, offset, end)
    value, offset = ber.read_value(datagram, offset, end)
    if offset != end:
        raise BerError("the end of a variable binding", f"{end - offset} octets", offset)
    return name, value, end
