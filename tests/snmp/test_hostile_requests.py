"""Any octets give an answer or silence, never an exception, and every one of them is counted."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp import ber, message
from gateway.snmp.message import GET, GET_BULK, GET_NEXT, SET
from gateway.snmp.requests import Access, Limits, Responder
from tests.hypothesis_profiles import PROVING
from tests.snmp.datagrams import COMMUNITY, envelope, read_answer, request
from tests.snmp.small_agent import DESCRIPTION, ENTRY, GONE, LAST, SmallAgent

_VALID = [
    request(pdu_type, oids, version=version, second=20)
    for pdu_type in (GET, GET_NEXT, SET, GET_BULK)
    for version in (message.VERSION_1, message.VERSION_2C)
    for oids in ([DESCRIPTION], [(*ENTRY, 2, 1, 1), LAST, GONE])
]


def answer_or_silence(agent: SmallAgent, datagram: bytes) -> None:
    """Assert that no exception is raised, an answer is a valid response, and silence is counted."""
    before = _silences(agent)
    answer = agent.responder.answer(datagram)
    assert agent.failures == []
    if answer is None:
        assert _silences(agent) == before + 1
    else:
        assert _silences(agent) == before
        assert read_answer(answer).community == COMMUNITY


def _silences(agent: SmallAgent) -> int:
    counters = agent.counters
    return (
        counters.bad_versions
        + counters.bad_community_names
        + counters.parse_errors
        + counters.unknown_pdu_handlers
        + counters.silent_drops
    )


@given(st.binary(max_size=200))
def test_any_octets(datagram: bytes) -> None:
    answer_or_silence(SmallAgent(), datagram)


@given(st.sampled_from((0xA0, 0xA1, 0xA3, 0xA5)), st.sampled_from((0, 1)), st.binary(max_size=120))
def test_any_octets_in_a_pdu(pdu_type: int, version: int, content: bytes) -> None:
    answer_or_silence(SmallAgent(), envelope(ber.encode_tlv(pdu_type, content), version=version))


@given(
    st.sampled_from((0xA0, 0xA1, 0xA3, 0xA5)),
    st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=20)), max_size=6),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
)
def test_any_names_and_values(
    pdu_type: int, varbinds: list[tuple[bytes, bytes]], first: int, second: int
) -> None:
    numbers = b"\x02\x01\x01" + ber.encode_integer(first) + ber.encode_integer(second)
    encoded = b"".join(ber.encode_varbind(name, value) for name, value in varbinds)
    pdu = ber.encode_tlv(pdu_type, numbers + ber.encode_tlv(ber.SEQUENCE, encoded))
    answer_or_silence(SmallAgent(), envelope(pdu))


@pytest.mark.parametrize("seed", range(100 if PROVING else 2))
def test_valid_requests_with_octets_changed_lost_and_inserted(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable
    agent = SmallAgent()
    for _ in range(3_000):
        datagram = bytearray(chance.choice(_VALID))
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(datagram))
            match chance.randrange(4):
                case 0:
                    datagram[at] = chance.randrange(256)
                case 1:
                    datagram[at] ^= 1 << chance.randrange(8)
                case 2:
                    del datagram[at : at + chance.randrange(1, 4)]
                case _:
                    datagram[at:at] = chance.randbytes(chance.randrange(1, 4))
            if not datagram:
                break
        answer_or_silence(agent, bytes(datagram))


@pytest.mark.parametrize("datagram", _VALID, ids=lambda datagram: datagram.hex()[-16:])
def test_a_request_cut_anywhere(datagram: bytes) -> None:
    for length in range(len(datagram)):
        answer_or_silence(SmallAgent(), datagram[:length])


@pytest.mark.parametrize("size", [484, 1_500, 65_507])
def test_the_largest_requests_stay_within_the_limits(size: int) -> None:
    agent = SmallAgent(Limits(message_size=size))
    for pdu_type in (GET, GET_NEXT, SET, GET_BULK):
        for oid in ((0, 0), (*ENTRY, 2, 1, 1)):
            varbind = ber.encode_varbind(ber.encode_name(oid), ber.NULL)
            asked = request(pdu_type, [oid] * ((size - 60) // len(varbind)), second=2**31 - 1)
            assert len(asked) <= size
            answer = agent.responder.answer(asked)
            assert isinstance(answer, bytes)
            assert len(answer) <= size


def test_a_view_that_fails_in_every_way_is_answered() -> None:
    class Broken:
        def read(self, name: bytes) -> bytes:
            raise KeyError(name)

        def walk(self, name: bytes, limit: int, *, counter64: bool = True) -> tuple[list[bytes], bytes]:
            raise RecursionError(name, limit, counter64)

        def next_varbind(self, name: bytes) -> bytes | None:
            raise AttributeError(name)

        def walk_rows(self, names: Sequence[bytes], limit: int) -> list[bytes] | None:
            raise ValueError(names, limit)

    agent = SmallAgent()
    responder = Responder({COMMUNITY: Access(Broken())}, agent.counters, agent.failures.append)
    for pdu_type in (GET, GET_NEXT, GET_BULK):
        asked = request(pdu_type, [DESCRIPTION], second=3)
        assert read_answer(responder.answer(asked)).status == message.GEN_ERR
    asked = request(GET_BULK, [DESCRIPTION] * 2, second=3)
    assert read_answer(responder.answer(asked)).status == message.GEN_ERR
    assert [type(failure) for failure in agent.failures] == [
        KeyError,
        RecursionError,
        RecursionError,
        ValueError,
    ]
