"""The quick way answers exactly as the general one, or not at all."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.processing import Limits, Sender
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.v3.responder import V3Responder
from gateway.snmp.v3.users import SecurityLevel, User
from gateway.snmp.v3.usual import MAX_FORMS
from tests.hypothesis_profiles import PROVING
from tests.snmp.small_agent import DESCRIPTION, ENTRY, GONE, LAST
from tests.snmp.v3.secured_agent import (
    AUTH,
    BOOTS,
    GET,
    GUEST,
    NO_AUTH,
    OLD,
    OPERATOR,
    PRIV,
    SECOND,
    SENDER,
    WATCHER,
    SecuredAgent,
    Sent,
    changed,
    pdu,
    read_reply,
)

READS = st.sampled_from([message.GET, message.GET_NEXT, message.GET_BULK])
NAMES = st.lists(st.sampled_from([DESCRIPTION, LAST, GONE, ENTRY, (*ENTRY, 2, 1, 1), (0, 0)]), max_size=5)
SMALL = st.integers(-1, 40)


def responder(agent: SecuredAgent) -> V3Responder:
    found = agent.responder._v3  # noqa: SLF001  the two ways are apart here only
    assert isinstance(found, V3Responder)
    return found


def quick(agent: SecuredAgent, datagram: bytes) -> bytes | None:
    return responder(agent)._usual.answer(datagram, SENDER)  # noqa: SLF001


def general(agent: SecuredAgent, datagram: bytes) -> bytes | None:
    answer = responder(agent)._answer(datagram, SENDER)  # noqa: SLF001
    assert answer is None or isinstance(answer, bytes)
    return answer


def agents(limits: Limits = Limits()) -> tuple[SecuredAgent, SecuredAgent]:  # noqa: B008  frozen
    return SecuredAgent(limits), SecuredAgent(limits)


@pytest.mark.parametrize(("user", "level"), [(OPERATOR, PRIV), (WATCHER, AUTH), (OLD, PRIV), (OLD, AUTH)])
@given(data=st.data())
def test_the_quick_answer_is_the_general_one(user: User, level: SecurityLevel, data: st.DataObject) -> None:
    sizes = st.sampled_from([484, 600, 65_507])
    one, other = agents(Limits(data.draw(sizes), data.draw(st.integers(2, 50)), data.draw(sizes)))
    one.now = other.now = data.draw(st.sampled_from([0, 200, 70_000, 2**31 - 1, 2**31])) * SECOND
    pdu_type = data.draw(READS)
    first, second = (data.draw(SMALL), data.draw(SMALL)) if pdu_type == message.GET_BULK else (0, 0)
    number = data.draw(st.integers(-(2**31), 2**31 - 1))
    body = pdu(pdu_type, data.draw(NAMES), first=first, second=second, request_id=number)
    sent = Sent(
        user,
        level,
        body,
        message_id=data.draw(st.integers(0, 2**31 - 1)),
        max_size=data.draw(st.sampled_from([484, 1500, 65_507, 2**31 - 1])),
        boots=one.engine.now()[0],
        time=one.engine.now()[1],
        context=data.draw(st.sampled_from([b"", b"shop", b"elsewhere", b"c" * 255])),
    )
    datagram = sent.encoded()
    got, expected = quick(one, datagram), general(other, datagram)
    if got is None:
        assert one.counters == SecuredAgent().counters  # nothing has been counted
        return
    assert expected is not None
    assert len(got) == len(expected)
    assert read_reply(got) == read_reply(expected)
    assert one.counters == other.counters


@pytest.mark.parametrize(("user", "level"), [(OPERATOR, PRIV), (WATCHER, AUTH), (OLD, PRIV)])
@pytest.mark.parametrize("pdu_type", [message.GET, message.GET_NEXT, message.GET_BULK])
@pytest.mark.parametrize("count", [1, 12, 50])
def test_what_managers_send_goes_the_quick_way(
    user: User, level: SecurityLevel, pdu_type: int, count: int
) -> None:
    oids: list[Oid] = [(*ENTRY, 2, 1, 1)] * count
    body = pdu(pdu_type, oids, second=3 if pdu_type == message.GET_BULK else 0, request_id=2**30)
    sent = replace(GET, user=user, level=level, pdu=body, message_id=1_234_567_890, time=100)
    assert quick(SecuredAgent(), sent.encoded()) is not None


@pytest.mark.parametrize(
    "sent",
    [
        replace(GET, mac=bytes(24)),
        replace(GET, mac=b""),
        replace(GET, time=151),
        replace(GET, boots=BOOTS - 1),
        replace(GET, level=AUTH),
        replace(GET, user=GUEST, level=NO_AUTH),
        replace(GET, flags=3),
        replace(GET, flags=5),
        replace(GET, model=2),
        replace(GET, name=b"no one"),
        replace(GET, engine_id=b"another engine"),
        replace(GET, context_engine=b"another engine"),
        replace(GET, context=b"closed"),
        replace(GET, junk=b"\0"),
        replace(GET, salt=bytes(7)),
        replace(GET, data=ber.encode_octets(b"garbage")),
        replace(GET, pdu=pdu(message.SET)),
        replace(GET, pdu=pdu(message.INFORM)),
        replace(GET, pdu=b"\xa0\x00"),
    ],
)
def test_what_is_left_to_the_general_way(sent: Sent) -> None:
    agent = SecuredAgent()
    assert quick(agent, sent.encoded()) is None
    assert agent.counters == SecuredAgent().counters


def test_every_octet_is_authenticated_on_the_quick_way_too() -> None:
    whole = GET.encoded()
    agent = SecuredAgent()
    for offset in range(len(whole)):
        for mask in (0x01, 0x02, 0x80):
            assert quick(agent, changed(whole, offset, bytes((whole[offset] ^ mask,)))) is None
        assert quick(agent, whole[:offset]) is None
    assert quick(agent, whole) is not None


@given(st.integers(0, 200), st.binary(max_size=8))
def test_any_octets_within_a_message(offset: int, octets: bytes) -> None:
    whole = GET.encoded()
    offset %= len(whole)
    datagram = whole[:offset] + octets + whole[offset + 1 :]
    assert quick(SecuredAgent(), datagram) is None or datagram == whole


def test_an_error_of_the_view_is_left_to_the_general_way() -> None:
    agent = SecuredAgent()

    def fail() -> bytes:
        raise RuntimeError

    agent.small.store.scalar((1, 3, 5, 0), fail)
    sent = replace(GET, pdu=pdu(oids=[DESCRIPTION, (1, 3, 5, 0)]))
    assert quick(agent, sent.encoded()) is None
    answer = agent.responder.answer(sent.encoded())
    assert isinstance(answer, bytes)
    assert (read_reply(answer).status, read_reply(answer).index) == (message.GEN_ERR, 2)
    assert agent.counters.internal_errors == len(agent.failures) == 1


class TwoAgents:
    """An agent that remembers forms, and for each message a new one, which knows none."""

    def __init__(self) -> None:
        self.agent = SecuredAgent()
        self.expected = SnmpCounters()

    def assert_same(self, datagram: bytes, sender: Sender) -> bool:
        """Compare the answers to a message; return whether it has a quick one."""
        new = SecuredAgent()
        new.now = self.agent.now
        got = responder(self.agent)._usual.answer(datagram, sender)  # noqa: SLF001
        if got is None:
            assert self.agent.counters == self.expected  # nothing has been counted
            return False
        general_answer = general(new, datagram)
        assert general_answer is not None
        assert len(got) == len(general_answer)
        assert read_reply(got) == read_reply(general_answer)
        for counted in fields(SnmpCounters):
            one, more = getattr(self.expected, counted.name), getattr(new.counters, counted.name)
            setattr(self.expected, counted.name, one + more)
        assert self.agent.counters == self.expected
        return True


_MANAGERS = (
    Sent(OPERATOR, PRIV, b""),
    Sent(WATCHER, AUTH, b""),
    Sent(OLD, PRIV, b"", context=b"shop"),
    Sent(OPERATOR, AUTH, b""),
    Sent(OPERATOR, PRIV, b"", context=b"shop"),
    Sent(OPERATOR, PRIV, b"", context=b"closed"),
)


def _read(chance: random.Random, manager: Sent, time: int) -> Sent:
    """Return a read as managers send it, or one whose ScopedPDU is damaged but authentic."""
    kind = chance.choice((message.GET, message.GET, message.GET_NEXT, message.GET_BULK))
    names = [chance.choice((DESCRIPTION, (*ENTRY, 2, 1, 1), (*ENTRY, 2, 1, 2), LAST, GONE, ENTRY))]
    number = chance.choice((1, 200, 70_000, 2**31 - 1, -1, chance.randrange(2**31)))
    octets = bytearray(pdu(kind, names, request_id=number, second=3 if kind == message.GET_BULK else 0))
    if chance.random() < 0.3:
        at = chance.randrange(len(octets))
        octets[at] = chance.choice((0x80, 0xFF, chance.randrange(256), octets[at] ^ 0x80))
    sent = replace(
        manager,
        pdu=bytes(octets),
        time=time,
        message_id=chance.choice((0, 127, 128, 2**31 - 1, chance.randrange(2**24, 2**31))),
    )
    if chance.random() < 0.1:
        sent = replace(sent, **chance.choice(({"context": b"shop"}, {"time": 2**20}, {"max_size": 484})))
    return sent


@pytest.mark.parametrize("seed", range(50 if PROVING else 3))
def test_what_was_remembered_of_a_sender_changes_no_answer(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable
    agents = TwoAgents()
    quick_ones = 0
    for turn in range(600):
        agents.agent.now = turn // 100 * SECOND
        number = chance.randrange(len(_MANAGERS))
        # Most messages come from the sender whose form is known, a few from that of another manager.
        sender = ("192.0.2.1", chance.choice((number, number, number, 0)))
        datagram = _read(chance, _MANAGERS[number], turn // 100).encoded()
        quick_ones += agents.assert_same(datagram, sender)
        at = chance.randrange(len(datagram))
        assert not agents.assert_same(
            changed(datagram, at, bytes((datagram[at] ^ chance.randrange(1, 256),))), sender
        )
        assert not agents.assert_same(datagram[:at], sender)
    assert quick_ones > 200


def test_more_forms_than_are_remembered() -> None:
    agents = TwoAgents()
    for _ in range(2):
        for port in range(MAX_FORMS + 10):
            assert agents.assert_same(GET.encoded(), ("192.0.2.1", port))


def test_a_user_whose_rights_change_is_answered_by_the_new_ones() -> None:
    agent = SecuredAgent()
    shop = replace(GET, context=b"shop").encoded()
    assert quick(agent, shop) is not None
    agent.unknown.add(b"shop")
    assert quick(agent, shop) is None
    agent.unknown.clear()
    assert quick(agent, shop) is not None
