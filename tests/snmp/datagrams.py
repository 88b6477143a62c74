"""Writing of requests and reading of answers, octet by octet, in which every field may be wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.requests import Response

COMMUNITY = b"monitoring"


@dataclass(frozen=True)
class Answer:
    """All fields of a response."""

    version: int
    community: bytes
    request_id: int
    status: int
    index: int
    varbinds: list[tuple[Oid, bytes]]


def request(
    pdu_type: int,
    oids: Iterable[Oid] | Mapping[Oid, bytes],
    *,
    version: int = message.VERSION_2C,
    community: bytes = COMMUNITY,
    request_id: int = 1,
    first: int = 0,
    second: int = 0,
    value: bytes = ber.NULL,
) -> bytes:
    """Return a request; ``first`` and ``second`` are non-repeaters and max-repetitions of a GETBULK.

    All names have the same ``value``, unless ``oids`` has a value for each.
    """
    pairs: Iterable[tuple[Oid, bytes]]
    pairs = oids.items() if isinstance(oids, Mapping) else ((oid, value) for oid in oids)
    varbinds = b"".join(ber.encode_varbind(ber.encode_name(oid), each) for oid, each in pairs)
    numbers = b"".join(ber.encode_integer(number) for number in (request_id, first, second))
    pdu = ber.encode_tlv(pdu_type, numbers + ber.encode_tlv(ber.SEQUENCE, varbinds))
    return envelope(pdu, version=version, community=community)


def envelope(pdu: bytes, *, version: int = message.VERSION_2C, community: bytes = COMMUNITY) -> bytes:
    """Return a message around any PDU."""
    content = ber.encode_integer(version) + ber.encode_octets(community) + pdu
    return ber.encode_tlv(ber.SEQUENCE, content)


def read_answer(datagram: Response) -> Answer:
    """Return the fields of an immediate answer; it must be a response without excess octets."""
    assert isinstance(datagram, bytes)
    outer = message.read_message(datagram)
    assert (outer.pdu_type, outer.stop) == (message.RESPONSE, len(datagram))
    content = message.read_request(datagram, outer.start, outer.stop)
    names = [ber.decode_name(name) for name in content.names]
    varbinds = list(zip(names, content.values, strict=True))
    return Answer(outer.version, outer.community, content.request_id, content.first, content.second, varbinds)


def varbind(oid: Oid, value: bytes) -> bytes:
    """Return an encoded variable binding."""
    return ber.encode_varbind(ber.encode_name(oid), value)


def read_varbinds(varbinds: Iterable[bytes]) -> list[tuple[Oid, bytes]]:
    """Return names and value TLVs of encoded variable bindings."""
    found = []
    for one in varbinds:
        _, start, stop = ber.read_header(one, 0, len(one))
        name, value = ber.read_name(one, start, stop)
        assert stop == len(one)
        found.append((ber.decode_name(name), one[value:]))
    return found
