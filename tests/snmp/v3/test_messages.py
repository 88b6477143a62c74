"""Messages of version 3: what is written is read back, and any octets give a value or a `BerError`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp import ber, message
from gateway.snmp.ber import BerError
from gateway.snmp.v3 import messages
from gateway.snmp.v3.messages import ScopedPdu, SecurityParameters
from tests.snmp.v3.secured_agent import AUTH, GET, OPERATOR, PRIV, Sent, changed, pdu

COUNTS = st.integers(0, 2**31 - 1)
SHORT = st.binary(max_size=32)


@given(COUNTS, st.integers(484, 2**31 - 1), st.integers(0, 7), SHORT, COUNTS, COUNTS, SHORT, st.data())
def test_what_is_written_is_read_back(
    message_id: int,
    max_size: int,
    flags: int,
    engine_id: bytes,
    boots: int,
    time: int,
    user: bytes,
    data: st.DataObject,
) -> None:
    mac, salt, context = (data.draw(st.binary(max_size=48)) for _ in range(3))
    content = data.draw(st.binary(max_size=300))
    scoped = messages.encode_scoped_pdu(engine_id, context, ber.encode_tlv(message.GET, content))
    header = messages.encode_header(message_id, max_size, flags)
    identity = messages.encode_identity(engine_id, boots, time, user)
    datagram, mac_at = messages.encode_message(header, identity, mac, salt, scoped)
    assert messages.is_version_3(datagram)
    got = messages.read_header(datagram)
    assert (got.message_id, got.max_size, got.flags) == (message_id, max_size, flags)
    assert (got.security_model, got.end) == (3, len(datagram))
    assert messages.read_security_parameters(datagram, got.start, got.stop) == SecurityParameters(
        engine_id, boots, time, user, mac, mac_at, salt
    )
    scope = messages.read_scoped_pdu(datagram, got.stop, got.end)
    assert scope == ScopedPdu(engine_id, context, message.GET, scope.start, scope.stop)
    assert datagram[scope.start : scope.stop] == content
    assert not any(messages.is_version_3(datagram[:size]) for size in range(5))


def read_all(datagram: bytes) -> None:
    """Read a message as far as that goes; raise nothing but `BerError`."""
    messages.is_version_3(datagram)
    try:
        header = messages.read_header(datagram)
        messages.read_security_parameters(datagram, header.start, header.stop)
        messages.read_scoped_pdu(datagram, header.stop, header.end)
    except BerError:
        pass


@given(st.binary(max_size=200))
def test_any_octets(datagram: bytes) -> None:
    read_all(datagram)
    read_all(b"\x30" + bytes((len(datagram) & 0x7F,)) + b"\x02\x01\x03" + datagram)


@given(st.integers(0, 200), st.binary(min_size=1, max_size=4))
def test_any_octets_within_a_message(offset: int, octets: bytes) -> None:
    whole = Sent(OPERATOR, AUTH, pdu()).encoded()
    read_all(changed(whole, offset % len(whole), octets))
    read_all(whole[: offset % len(whole)])


def read_parameters(datagram: bytes) -> SecurityParameters:
    header = messages.read_header(datagram)
    return messages.read_security_parameters(datagram, header.start, header.stop)


@pytest.mark.parametrize(
    "sent",
    [
        Sent(OPERATOR, PRIV, pdu(), message_id=-1),
        Sent(OPERATOR, PRIV, pdu(), max_size=483),
        Sent(OPERATOR, PRIV, pdu(), model=0),
        Sent(OPERATOR, PRIV, pdu(), engine_id=b"x" * 33),
        Sent(OPERATOR, PRIV, pdu(), boots=-1),
        Sent(OPERATOR, PRIV, pdu(), time=-1),
        Sent(OPERATOR, PRIV, pdu(), name=b"x" * 33),
    ],
    ids=["message id", "max size", "model", "engine id", "boots", "time", "name"],
)
def test_values_that_no_message_has(sent: Sent) -> None:
    datagram = sent.encoded() if sent.boots >= 0 and sent.time >= 0 else _negative(sent)
    with pytest.raises(BerError):
        read_parameters(datagram)


def _negative(sent: Sent) -> bytes:
    """Return the message without encryption, for which there is no negative time."""
    return Sent(sent.user, AUTH, sent.pdu, boots=sent.boots, time=sent.time).encoded()


def test_other_versions_are_not_this_one() -> None:
    whole = GET.encoded()
    offset = whole.index(b"\x02\x01\x03")
    assert not messages.is_version_3(changed(whole, offset, b"\x02\x01\x01"))
    with pytest.raises(BerError, match="expected version 3, found 1"):
        messages.read_header(changed(whole, offset, b"\x02\x01\x01"))


@given(st.integers(484, 70_000), st.integers(0, 300), st.integers(1, 32), st.sampled_from([0, 1, 8]), COUNTS)
def test_a_pdu_of_the_announced_size_fits_and_little_room_is_lost(
    octets: int, context: int, user: int, padding: int, time: int
) -> None:
    engine_id, mac = bytes(17), bytes(24 if padding else 0)
    room = messages.pdu_room(octets, 17 + context, user, 17, len(mac), padding)
    if room < 4:
        return
    filler = ber.encode_tlv(message.RESPONSE, bytes(ber.content_room(room)))
    assert len(filler) <= room
    scoped = messages.encode_scoped_pdu(engine_id, bytes(context), filler)
    if padding:
        scoped = ber.encode_tlv(ber.OCTET_STRING, scoped + bytes(-len(scoped) % padding))
    whole, _ = messages.encode_message(
        messages.encode_header(2**31 - 1, 65_507, 3),
        messages.encode_identity(engine_id, time, time, bytes(user)),
        mac,
        bytes(8 if padding else 0),
        scoped,
    )
    assert len(whole) <= octets
    assert octets - len(whole) < 40
