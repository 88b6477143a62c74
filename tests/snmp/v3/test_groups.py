"""The groups of version 3, and what version 3 adds to the group snmp, as a manager reads them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.snmp import ber, message
from gateway.snmp.fixed_mib import TargetKindNumber
from gateway.snmp.notifications.secured import Secured
from gateway.snmp.obsolete_counters import serve_obsolete_counters
from gateway.snmp.processing import LARGEST_DATAGRAM
from gateway.snmp.standard_groups import REPORTED, NotificationCounts
from gateway.snmp.v3.ciphers import Salts
from gateway.snmp.v3.groups import serve_version_3
from gateway.snmp.v3.notifications import SecuredInforms, SecuredTraps
from gateway.snmp.v3.remote import RemoteEngine
from gateway.snmp.v3.security import SecurityModel
from tests.snmp.notifications.story import NMS, Play, event, target
from tests.snmp.v3.secured_agent import (
    AUTH,
    BOOTS,
    ENGINE_ID,
    GET,
    OPERATOR,
    PRIV,
    SECOND,
    USERS,
    SecuredAgent,
    Sent,
    pdu,
)
from tests.snmp.v3.test_remote import SECRET

SNMP = (1, 3, 6, 1, 2, 1, 11)
ENGINE = (1, 3, 6, 1, 6, 3, 10, 2, 1)
USM_STATS = (1, 3, 6, 1, 6, 3, 15, 1, 1)


def served() -> SecuredAgent:
    agent = SecuredAgent()
    serve_version_3(agent.small.store, agent.counters, agent.engine, LARGEST_DATAGRAM)
    return agent


def test_the_engine() -> None:
    agent = served()
    agent.now = 12 * SECOND
    answer = agent.ask(replace(GET, pdu=pdu(oids=[(*ENGINE, number, 0) for number in range(1, 5)])))
    assert [value for _, value in answer.varbinds] == [
        ber.encode_octets(ENGINE_ID),
        ber.encode_integer(BOOTS),
        ber.encode_integer(12),
        ber.encode_integer(65_507),
    ]


def test_a_report_has_the_value_that_is_read() -> None:
    agent = served()
    assert agent.ask(replace(GET, name=b"no one")).counter == ("unknown_user_names", 1)
    assert agent.ask(replace(GET, mac=b"")).counter == ("wrong_digests", 1)
    assert agent.ask(replace(GET, mac=b"")).counter == ("wrong_digests", 2)
    answer = agent.ask(replace(GET, pdu=pdu(message.GET_BULK, [USM_STATS], second=6)))
    assert [oid for oid, _ in answer.varbinds] == [(*USM_STATS, number, 0) for number in range(1, 7)]
    assert [value[2] for _, value in answer.varbinds] == [0, 0, 1, 0, 2, 0]
    names = [name for name, oid in REPORTED.items() if oid[: len(USM_STATS)] == USM_STATS]
    assert names == [
        "unsupported_security_levels",
        "not_in_time_windows",
        "unknown_user_names",
        "unknown_engine_ids",
        "wrong_digests",
        "decryption_errors",
    ]


def test_unknown_and_unavailable_contexts() -> None:
    agent = served()
    agent.ask(replace(GET, context=b"elsewhere"))
    contexts = [(1, 3, 6, 1, 6, 3, 12, 1, number) for number in (4, 5)]
    answer = agent.ask(replace(GET, pdu=pdu(message.GET_NEXT, contexts)))
    assert [value for _, value in answer.varbinds] == [ber.encode_counter32(0), ber.encode_counter32(1)]


@pytest.mark.parametrize("pdu_type", [message.GET, message.GET_NEXT, message.GET_BULK, message.SET])
def test_a_request_without_the_right_is_answered_but_not_processed(pdu_type: int) -> None:
    agent = served()
    serve_obsolete_counters(agent.small.store, agent.counters, NotificationCounts())
    refused = Sent(OPERATOR, AUTH, pdu(pdu_type, value=ber.NULL))
    assert agent.ask(refused).status == message.AUTHORIZATION_ERROR
    # snmpInGetRequests, snmpInGetNexts, snmpInSetRequests, snmpOutGetResponses, snmpOutPkts
    assert counts(agent, 15, 16, 17, 28, 2) == [0, 0, 0, 1, 1]


def test_a_report_is_a_message_and_no_response() -> None:
    agent = served()
    serve_obsolete_counters(agent.small.store, agent.counters, NotificationCounts())
    agent.ask(replace(GET, mac=b""))
    assert agent.is_silent_at(replace(GET, mac=b"", flags=3))  # it does not want one
    assert counts(agent, 28, 2) == [0, 1]


def test_the_question_for_the_engine_of_a_receiver_is_a_get() -> None:
    receiver = SecuredAgent()

    def no_keys(engine_id: str) -> None:
        raise AssertionError(engine_id)

    informs = SecuredInforms(RemoteEngine(SECRET, PRIV, Salts(7), 65_507), "operator", PRIV, no_keys)
    play = playing(TargetKindNumber.INFORM_V3, informs)
    play.notify(event())
    (question,) = play.sent[NMS]
    assert (play.sender.counts.datagrams, play.sender.counts.engine_questions) == (1, 1)
    answer = receiver.responder.answer(question)
    assert isinstance(answer, bytes)
    play.sender.received(answer, NMS)
    play.settle()
    assert (play.sender.counts.datagrams, play.sender.counts.engine_questions) == (2, 1)


def test_a_trap_asks_nothing() -> None:
    agent = SecuredAgent()
    model = SecurityModel(agent.engine, USERS, Salts(7))
    play = playing(TargetKindNumber.TRAP_V3, SecuredTraps(model, "operator", PRIV))
    play.notify(event())
    counted = play.sender.counts
    assert (counted.datagrams, counted.traps, counted.engine_questions) == (1, 1, 0)


def counts(agent: SecuredAgent, *numbers: int) -> list[int]:
    return [int.from_bytes(agent.small.store.get((*SNMP, number, 0))[2:], "big") for number in numbers]


def playing(kind: TargetKindNumber, secured: Secured) -> Play:
    return Play([target(kind=kind, secured=secured)])
