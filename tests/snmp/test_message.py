"""The fast reader of usual reads, compared with the complete reader."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp import ber, message
from gateway.snmp.ber import BerError, Oid
from gateway.snmp.message import GET, GET_BULK, GET_NEXT, SET
from tests.hypothesis_profiles import PROVING
from tests.snmp.datagrams import COMMUNITY, request

NAME: Oid = (1, 3, 6, 1, 4, 1, 8072, 9999, 9999, 3, 1, 1, 1, 100, 1, 54_321)
PREAMBLE = message.preamble(message.VERSION_2C, COMMUNITY)


def test_a_usual_read_is_read_in_one_go() -> None:
    asked = request(GET_BULK, [NAME, (1, 3, 6)], request_id=70_000, first=1, second=25)
    names = [ber.encode_name(NAME), ber.encode_name((1, 3, 6))]
    assert message.read_usual(asked) == (PREAMBLE, GET_BULK, ber.encode_integer(70_000), 1, 25, names)


@pytest.mark.parametrize("count", [5, 6, 12, 200, 3_000])  # lengths of one, two and three octets
def test_a_usual_read_of_many_objects_is_read_in_one_go(count: int) -> None:
    oids: list[Oid] = [(*NAME[:-3], number % 100, 1, 54_321) for number in range(count)]
    names = [ber.encode_name(oid) for oid in oids]
    assert message.read_usual(request(GET, oids)) == (PREAMBLE, GET, ber.encode_integer(1), 0, 0, names)
    longer = [*oids[:-1], (*oids[-1], 300)]
    asked = message.read_usual(request(GET, longer))
    assert asked is not None
    assert asked[-1] == [*names[:-1], ber.encode_name(longer[-1])]


@pytest.mark.parametrize(
    "ends",
    [
        (b"\x2b\x06\x81", b"\x01\x06\x01"),  # a number that would end in the next name
        (b"\x2b\x06\x01", b"\x80\x06\x01"),
        (b"\x2b\x06\x01", b"\x2b\x80\x01"),
    ],
)
def test_a_name_that_is_not_canonical_among_many_is_left_to_the_other_reader(ends: tuple[bytes, ...]) -> None:
    names = [b"\x2b\x06\x01"] * 20 + [*ends] + [b"\x2b\x06\x01"] * 20
    varbinds = b"".join(ber.encode_varbind(name, ber.NULL) for name in names)
    numbers = b"".join(map(ber.encode_integer, (1, 0, 0)))
    pdu = ber.encode_tlv(GET, numbers + ber.encode_tlv(ber.SEQUENCE, varbinds))
    assert message.read_usual(ber.encode_tlv(ber.SEQUENCE, PREAMBLE + pdu)) is None


@pytest.mark.parametrize(
    "unusual",
    [
        b"",
        b"\x30",
        request(SET, [NAME]),
        request(GET, []),
        request(GET, [NAME], value=ber.encode_integer(1)),
        request(GET, [(1, 3, 2**32 - 1)]),
        request(GET_BULK, [NAME], first=-1, second=200),
        request(GET, [NAME])[:-1],
        request(GET, [NAME]) + b"\0",
        request(GET, [NAME]).replace(b"\x06\x14\x2b", b"\x06\x14\x80"),
        request(GET, [NAME] * 12)[:-1],
        request(GET, [NAME] * 12) + b"\0",
        request(GET, [NAME] * 12, value=ber.encode_integer(1)),
        request(SET, [NAME] * 12),
    ],
)
def test_what_is_unusual_is_left_to_the_other_reader(unusual: bytes) -> None:
    assert message.read_usual(unusual) is None


def _agree(datagram: bytes) -> None:
    """Assert that the fast reader, if it accepts a read of a known community, agrees with the other one."""
    usual = message.read_usual(datagram)
    if usual is None or usual[0] != PREAMBLE:
        return
    envelope = message.read_message(datagram)
    assert (envelope.version, envelope.community) == (message.VERSION_2C, COMMUNITY)
    asked = message.read_request(datagram, envelope.start, envelope.stop)
    assert asked.values == [ber.NULL] * len(asked.names)
    request_id = ber.encode_integer(asked.request_id)
    assert usual[1:] == (envelope.pdu_type, request_id, asked.first, asked.second, asked.names)


@given(
    st.sampled_from((GET, GET_NEXT, GET_BULK)),
    st.lists(st.binary(max_size=20), max_size=4)
    | st.integers(1, 20).flatmap(lambda size: st.lists(st.binary(min_size=size, max_size=size), max_size=20)),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-300, 300),
)
def test_both_readers_agree_on_any_names_and_numbers(
    pdu_type: int, names: list[bytes], request_id: int, number: int
) -> None:
    varbinds = b"".join(ber.encode_varbind(name, ber.NULL) for name in names)
    numbers = b"".join(ber.encode_integer(value) for value in (request_id, number, -number))
    pdu = ber.encode_tlv(pdu_type, numbers + ber.encode_tlv(ber.SEQUENCE, varbinds))
    try:
        _agree(ber.encode_tlv(ber.SEQUENCE, PREAMBLE + pdu))
    except BerError as error:
        pytest.fail(f"one reader takes what the other one refuses: {error}")


@pytest.mark.parametrize("seed", range(100 if PROVING else 2))
def test_both_readers_agree_on_requests_with_octets_changed(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable
    for _ in range(5_000):
        names = [NAME, (1, 3)] if chance.random() < 0.5 else [NAME] * chance.choice((6, 12))
        datagram = bytearray(request(chance.choice((GET, GET_BULK)), names, request_id=9, second=4))
        for _ in range(chance.randrange(3)):
            datagram[chance.randrange(len(datagram))] = chance.choice((0, 1, 2, 5, 6, 0x30, 0x80, 0xFF, 100))
        try:
            _agree(bytes(datagram))
        except (BerError, message.UnknownVersionError) as error:
            pytest.fail(f"one reader takes what the other one refuses, {datagram.hex()}: {error}")


@pytest.mark.parametrize("name", [b"\x80\x01", b"\x2b\x80\x01", b"\x2b\x81", b"\x90\x80\x80\x80\x00"])
def test_a_name_with_octets_too_many_or_too_few_is_not_short(name: bytes) -> None:
    assert not ber.is_short_name(name)


@given(st.binary(min_size=1, max_size=40))
def test_no_name_is_short_that_is_not_canonical(name: bytes) -> None:
    assert not ber.is_short_name(name) or ber.is_canonical_name(name)


def test_a_get_is_read_back_and_its_answer_too() -> None:
    names = [ber.encode_name((1, 3, 6, 1, number, 0)) for number in (1, 200)]
    datagram = message.encode_get(b"public", 2**31 - 1, names)
    envelope = message.read_message(datagram)
    assert (envelope.version, envelope.community, envelope.pdu_type) == (message.VERSION_2C, b"public", GET)
    request = message.read_request(datagram, envelope.start, envelope.stop)
    assert (request.request_id, request.names, request.values) == (2**31 - 1, names, [ber.NULL] * 2)
    varbinds = [ber.encode_varbind(name, ber.encode_integer(7)) for name in names]
    pdu = message.encode_response_pdu(5, message.GEN_ERR, 2, varbinds)
    answer = message.read_response(message.enclose(envelope, pdu))
    assert (answer.request_id, answer.first, answer.second, answer.names) == (5, message.GEN_ERR, 2, names)
    with pytest.raises(BerError, match="a response in version 2c"):
        message.read_response(datagram)
