"""The groups of version 3, as a manager reads them."""

from __future__ import annotations

from dataclasses import replace

from gateway.snmp import ber, message
from gateway.snmp.processing import LARGEST_DATAGRAM
from gateway.snmp.standard_groups import REPORTED
from gateway.snmp.v3.groups import serve_version_3
from tests.snmp.v3.secured_agent import BOOTS, ENGINE_ID, GET, SECOND, SecuredAgent, pdu

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
