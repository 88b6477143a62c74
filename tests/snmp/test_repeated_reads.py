"""A read whose form was answered before is answered, and counted, as the first one of its form."""

from __future__ import annotations

import ipaddress
import random

import pytest

from gateway.snmp import ber
from gateway.snmp.allowed_networks import AllowedNetworks
from gateway.snmp.ber import Oid
from gateway.snmp.message import GET, GET_BULK, GET_NEXT
from gateway.snmp.repeated_reads import MAX_FORMS
from gateway.snmp.requests import Access, Responder
from gateway.snmp.standard_groups import SnmpCounters
from tests.hypothesis_profiles import PROVING
from tests.snmp.datagrams import COMMUNITY, read_answer, request
from tests.snmp.small_agent import DESCRIPTION, ENTRY, GONE, LAST, TEXT, SmallAgent

_LARGE_ROW = (*ENTRY, 2, 1, 16_384)  # 81 80 00: an octet that would be padding in another place
_COMPUTED: Oid = (1, 3, 6, 2, 1)
_OIDS = [
    DESCRIPTION,
    (*ENTRY, 2, 1, 1),
    (*ENTRY, 2, 1, 2),
    (*ENTRY, 101, 1, 2),
    _LARGE_ROW,
    (*_COMPUTED, 2, 200),
    LAST,
    GONE,
]


class _Computed:
    """A column that decodes what it is asked for: padded names are the same to it as canonical ones."""

    prefix = ber.encode_name((*_COMPUTED, 2))
    key = ber.sort_key((*_COMPUTED, 2))

    def read(self, suffix: bytes) -> bytes | None:
        return TEXT if ber.decode_sub_identifiers(suffix) == (200,) else None

    def walk(self, suffix: bytes, limit: int, varbinds: list[bytes], passed_over: int) -> bytes | None:
        if ber.decode_sub_identifiers(suffix) >= (200,) or limit < 1 or passed_over == TEXT[0]:
            return None
        name = self.prefix + ber.encode_sub_identifiers((200,))
        varbinds.append(ber.encode_varbind(name, TEXT))
        return name


class TwoAgents:
    """A responder that remembers forms, and for each datagram a new one, which knows none."""

    def __init__(self) -> None:
        agent = SmallAgent()
        agent.table.put((1, 16_384), {2: ber.encode_octets(b"x" * 120), 100: ber.encode_counter64(200)})
        agent.store.computed_table(_COMPUTED, [_Computed()])
        self.access = {COMMUNITY: Access(agent.store)}
        self.counts, self.counts_of_new = SnmpCounters(), SnmpCounters()
        self.failures: list[Exception] = []
        self.responder = Responder(self.access, self.counts, self.failures.append)

    def assert_same(self, datagram: bytes) -> None:
        new = Responder(self.access, self.counts_of_new, self.failures.append)
        assert self.responder.answer(datagram) == new.answer(datagram), datagram.hex(" ")
        assert self.counts == self.counts_of_new, datagram.hex(" ")
        assert self.failures == []


def _reads(chance: random.Random) -> bytes:
    """Return a read of one object, as managers send it."""
    kind = chance.choice((GET, GET_NEXT, GET_BULK))
    number = chance.choice((1, 200, 70_000, 2**31 - 1, -1, chance.randrange(2**31)))
    first, second = chance.choice(((0, 3), (0, 25), (1, 3), (0, 0))) if kind == GET_BULK else (0, 0)
    return request(kind, [chance.choice(_OIDS)], request_id=number, first=first, second=second)


@pytest.mark.parametrize("seed", range(50 if PROVING else 2))
def test_reads_and_damaged_reads_are_answered_as_by_an_agent_that_remembers_nothing(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable
    agents = TwoAgents()
    for _ in range(1_500):
        datagram = bytearray(_reads(chance))
        agents.assert_same(bytes(datagram))
        for _ in range(chance.randrange(3)):
            at = chance.randrange(len(datagram))
            # Most of the octets behind the head are the name's, where one of 0x80 is the most harmful.
            datagram[at] = chance.choice((0x80, 0xFF, chance.randrange(256), datagram[at] ^ 0x80))
        agents.assert_same(bytes(datagram))
        agents.assert_same(bytes(datagram[: chance.randrange(len(datagram) + 1)]))


@pytest.mark.parametrize(
    "part",
    [
        b"\x80\x81\x48",
        b"\x80\x01",
        b"\x81",
        b"\x80",
        b"\xff\xff\xff\xff\x7f",
        b"\x90\x80\x80\x80\x00",
        b"\x8f\xff\xff\xff\x7f",
    ],
    ids=lambda part: part.hex(" "),
)
@pytest.mark.parametrize("pdu_type", [GET, GET_NEXT, GET_BULK], ids=["get", "next", "bulk"])
def test_a_sub_identifier_that_is_too_long_cut_or_padded(pdu_type: int, part: bytes) -> None:
    agents = TwoAgents()
    for oid in (DESCRIPTION, (*ENTRY, 2), (*_COMPUTED, 2)):
        usual = request(pdu_type, [(*oid, *range(1, len(part) + 1))], second=2)
        agents.assert_same(usual)
        agents.assert_same(usual)
        agents.assert_same(usual[: -len(part) - 2] + part + ber.NULL)


def test_a_value_of_another_length_and_a_value_that_changes() -> None:
    agent = SmallAgent()
    for text in (b"a", b"another", b"", b"x" * 90, b"y" * 200, b"a"):
        agent.store.scalar(DESCRIPTION, ber.encode_octets(text))
        for number in (5, 6):
            answer = agent.ask(request(GET, [DESCRIPTION], request_id=number))
            assert (answer.request_id, answer.varbinds) == (number, [(DESCRIPTION, ber.encode_octets(text))])


def test_a_sender_outside_of_the_networks_is_refused_although_its_form_is_known() -> None:
    agent = SmallAgent()
    networks = AllowedNetworks([ipaddress.ip_network("192.0.2.0/24")])
    access = Access(agent.store, networks=networks)
    responder = Responder({COMMUNITY: access}, agent.counters, agent.failures.append)
    asked = request(GET, [DESCRIPTION])
    for _ in range(2):
        assert read_answer(responder.answer(asked, ("192.0.2.1", 1))).varbinds == [(DESCRIPTION, TEXT)]
        assert responder.answer(asked, ("198.51.100.1", 1)) is None
    assert agent.counters.bad_community_names == 2


def test_more_forms_than_are_remembered() -> None:
    agent = SmallAgent()
    access = {b"c%d" % number: Access(agent.store) for number in range(MAX_FORMS + 10)}
    responder = Responder(access, agent.counters, agent.failures.append)
    for community in [*access, *access]:
        answer = read_answer(responder.answer(request(GET, [DESCRIPTION], community=community)))
        assert (answer.community, answer.varbinds) == (community, [(DESCRIPTION, TEXT)])
    assert agent.counters.in_packets == agent.counters.get_requests == 2 * len(access)
