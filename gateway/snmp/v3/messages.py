"""Messages of SNMP version 3 (RFC 3412 section 6) with the parameters of RFC 3414 section 2.4.

Reading has three steps, because what a message contains is not looked at before it is known who sent it: the
header, the security parameters, and the ScopedPDU, which may be encrypted. Octets after the message are
ignored, and are not authenticated; octets after the ScopedPDU are a cipher's padding.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.snmp import ber
from gateway.snmp.ber import BerError

VERSION_3: Final = 3
USER_BASED: Final = 3
"""The security model of RFC 3414."""

AUTHENTICATED: Final = 0x01
ENCRYPTED: Final = 0x02
REPORTABLE: Final = 0x04

REPORT: Final = 0xA8

MIN_MAX_SIZE: Final = 484
"""The minimum of msgMaxSize."""

_MAX_INTEGER: Final = 2**31 - 1
_MAX_ENGINE_ID: Final = 32
_MAX_USER_NAME: Final = 32
_MAX_CONTEXT_NAME: Final = 255
_PDUS: Final = range(0xA0, 0xA9)
_VERSION_TLV: Final = ber.encode_integer(VERSION_3)
_MODEL_TLV: Final = ber.encode_integer(USER_BASED)
_VERSION_AT: Final = tuple(range(2, 7))  # behind a tag and a length of one to five octets
_LARGEST_TIME: Final = 6  # octets of an integer of 32 bits


class Header(NamedTuple):
    """A message up to its security parameters, which are ``datagram[start:stop]``.

    msgData, a TLV, is between ``stop`` and ``end``, which is the end of the message.
    """

    message_id: int
    max_size: int
    flags: int
    security_model: int
    start: int
    stop: int
    end: int


class SecurityParameters(NamedTuple):
    """UsmSecurityParameters; ``mac_at`` is the offset of ``mac`` in the datagram."""

    engine_id: bytes
    boots: int
    time: int
    user: bytes
    mac: bytes
    mac_at: int
    salt: bytes


class ScopedPdu(NamedTuple):
    """A ScopedPDU; the content of its PDU is ``octets[start:stop]`` of what it was read from."""

    engine_id: bytes
    context: bytes
    pdu_type: int
    start: int
    stop: int


def is_version_3(datagram: bytes) -> bool:
    """Return whether a datagram begins as a message of version 3, which nothing else of it need be."""
    if len(datagram) < _VERSION_AT[0]:
        return False
    length = datagram[1]
    offset = 2 if length < 0x80 else 2 + (length & 0x7F)  # noqa: PLR2004  a length of more octets
    return offset in _VERSION_AT and datagram[offset : offset + 3] == _VERSION_TLV


def read_header(datagram: bytes) -> Header:
    """Return the header of a message. Raises `BerError` for anything that is no message of version 3."""
    offset, end = ber.read_tagged(datagram, 0, len(datagram), ber.SEQUENCE)
    version, offset = ber.read_integer(datagram, offset, end)
    if version != VERSION_3:
        raise BerError("version 3", f"{version}", offset)
    offset, global_end = ber.read_tagged(datagram, offset, end, ber.SEQUENCE)
    message_id, offset = _read_number(datagram, offset, global_end, 0)
    max_size, offset = _read_number(datagram, offset, global_end, MIN_MAX_SIZE)
    flags, offset = ber.read_octets(datagram, offset, global_end)
    if len(flags) != 1:
        raise BerError("msgFlags of one octet", f"{len(flags)}", offset)
    security_model, offset = _read_number(datagram, offset, global_end, 1)
    if offset != global_end:
        raise BerError("the end of msgGlobalData", f"{global_end - offset} octets", offset)
    start, stop = ber.read_tagged(datagram, offset, end, ber.OCTET_STRING)
    return Header(message_id, max_size, flags[0], security_model, start, stop, end)


def read_security_parameters(datagram: bytes, start: int, stop: int) -> SecurityParameters:
    """Return the parameters that a header says are at these offsets. Raises `BerError`."""
    offset, end = ber.read_tagged(datagram, start, stop, ber.SEQUENCE)
    if end != stop:
        raise BerError("the end of msgSecurityParameters", f"{stop - end} octets", end)
    engine_id, offset = _read_short(datagram, offset, end, _MAX_ENGINE_ID)
    boots, offset = _read_number(datagram, offset, end, 0)
    time, offset = _read_number(datagram, offset, end, 0)
    user, offset = _read_short(datagram, offset, end, _MAX_USER_NAME)
    mac_at, mac_stop = ber.read_tagged(datagram, offset, end, ber.OCTET_STRING)
    salt, offset = ber.read_octets(datagram, mac_stop, end)
    if offset != end:
        raise BerError("the end of UsmSecurityParameters", f"{end - offset} octets", offset)
    return SecurityParameters(engine_id, boots, time, user, datagram[mac_at:mac_stop], mac_at, salt)


def read_scoped_pdu(octets: bytes, offset: int, end: int) -> ScopedPdu:
    """Return the ScopedPDU at ``offset``. Raises `BerError`, also for the tag of no PDU."""
    offset, end = ber.read_tagged(octets, offset, end, ber.SEQUENCE)
    engine_id, offset = _read_short(octets, offset, end, _MAX_ENGINE_ID)
    context, offset = _read_short(octets, offset, end, _MAX_CONTEXT_NAME)
    pdu_type, start, stop = ber.read_header(octets, offset, end)
    if pdu_type not in _PDUS:
        raise BerError("a PDU", f"tag 0x{pdu_type:02x}", offset)
    return ScopedPdu(engine_id, context, pdu_type, start, stop)


def encode_scoped_pdu(engine_id: bytes, context: bytes, pdu: bytes) -> bytes:
    """Return a ScopedPDU of a PDU with its tag and length."""
    return ber.encode_tlv(
        ber.SEQUENCE,
        ber.encode_tlv(ber.OCTET_STRING, engine_id) + ber.encode_tlv(ber.OCTET_STRING, context) + pdu,
    )


def encode_header(message_id: int, max_size: int, flags: int) -> bytes:
    """Return the octets of a message between its length and its security parameters."""
    content = b"".join(
        (
            ber.encode_integer(message_id),
            ber.encode_integer(max_size),
            bytes((ber.OCTET_STRING, 1, flags)),
            _MODEL_TLV,
        )
    )
    return _VERSION_TLV + bytes((ber.SEQUENCE, len(content))) + content


def encode_identity(engine_id: bytes, boots: int, time: int, user: bytes) -> bytes:
    """Return the octets of the security parameters before msgAuthenticationParameters."""
    return b"".join(
        (
            bytes((ber.OCTET_STRING, len(engine_id))),
            engine_id,
            ber.encode_integer(boots),
            ber.encode_integer(time),
            bytes((ber.OCTET_STRING, len(user))),
            user,
        )
    )


def encode_message(header: bytes, identity: bytes, mac: bytes, salt: bytes, data: bytes) -> tuple[bytes, int]:
    """Return a message, and the offset of its message authentication code.

    Args:
        header: of `encode_header`.
        identity: of `encode_identity`.
        mac: the code, or as many zeros, or nothing.
        salt: msgPrivacyParameters.
        data: a ScopedPDU, or an OCTET STRING with an encrypted one.
    """
    mac_head = bytes((ber.OCTET_STRING, len(mac)))
    tail = mac + bytes((ber.OCTET_STRING, len(salt))) + salt
    length = len(identity) + 2 + len(tail)
    sequence = ber.encode_head(ber.SEQUENCE, length)
    before = b"".join(
        (header, ber.encode_head(ber.OCTET_STRING, len(sequence) + length), sequence, identity, mac_head)
    )
    outer = ber.encode_head(ber.SEQUENCE, len(before) + len(tail) + len(data))
    return b"".join((outer, before, tail, data)), len(outer) + len(before)


def pdu_room(octets: int, scope: int, user: int, engine_id: int, mac: int, padding: int) -> int:
    """Return the maximum length of a PDU in a message.

    Args:
        octets: the maximum length of the message.
        scope: the lengths of the context's engine id and name together.
        user: the length of the user's name.
        engine_id: the length of the authoritative engine's id.
        mac: the length of the message authentication code; 0 for none.
        padding: 0 without encryption, else the multiple in octets to which the cipher pads; 1 for none.
    """
    # Header: version 3, msgID and msgMaxSize 6 each, flags and model 3 each, and one head. Parameters: boots
    # and time, four heads, and the heads of the OCTET STRING and the SEQUENCE, which take 3 each at most.
    header = 3 + 2 + 2 * _LARGEST_TIME + 2 * 3
    parameters = engine_id + user + mac + 2 * _LARGEST_TIME + 4 * 2 + 2 * 3 + (8 if padding else 0)
    room = ber.content_room(octets) - header - parameters
    if padding:
        room = ber.content_room(room) // padding * padding
    return ber.content_room(room) - scope - 2 - 3  # a context's name may have 255 octets


def _read_number(data: bytes, offset: int, end: int, minimum: int) -> tuple[int, int]:
    value, after = ber.read_integer(data, offset, end)
    if value < minimum:
        raise BerError(f"{minimum} to {_MAX_INTEGER}", f"{value}", offset)
    return value, after


def _read_short(data: bytes, offset: int, end: int, maximum: int) -> tuple[bytes, int]:
    value, after = ber.read_octets(data, offset, end)
    if len(value) > maximum:
        raise BerError(f"at most {maximum} octets", f"{len(value)}", offset)
    return value, after
