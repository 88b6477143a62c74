"""The groups system, snmp and snmpMPDStats as a manager reads them."""

from __future__ import annotations

import pytest

from gateway.model.times import SECOND
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.message import GET, GET_BULK, GET_NEXT, SET, VERSION_1, VERSION_2C
from gateway.snmp.obsolete_counters import serve_obsolete_counters
from gateway.snmp.requests import Limits
from gateway.snmp.standard_groups import NotificationCounts, SnmpCounters, SystemDescription, SystemGroup
from gateway.snmp.store import Store
from tests.snmp.datagrams import envelope, request
from tests.snmp.small_agent import DESCRIPTION, ENTRY, GONE, SmallAgent

SYSTEM: Oid = (1, 3, 6, 1, 2, 1, 1)
SNMP: Oid = (1, 3, 6, 1, 2, 1, 11)
MPD_STATS: Oid = (1, 3, 6, 1, 6, 3, 11, 2, 1)


class Clock:
    """A clock in nanoseconds that only a test moves."""

    def __init__(self) -> None:
        self.now = 12_345 * SECOND

    def __call__(self) -> int:
        return self.now


def system_group(
    clock: Clock, description: str = "a gateway", location: str = ""
) -> tuple[Store, SystemGroup]:
    store = Store()
    reported = SystemDescription(
        description, (1, 3, 6, 1, 4, 1, 8072), contact="ops@example.org", name="gw1", location=location
    )
    return store, SystemGroup(store, reported, clock)


def test_the_scalars_say_what_the_operator_configured() -> None:
    store, _ = system_group(Clock(), location="rack 7")
    values = [store.get((*SYSTEM, number, 0)) for number in (1, 2, 4, 5, 6, 7)]
    assert values == [
        ber.encode_octets(b"a gateway"),
        ber.encode_oid((1, 3, 6, 1, 4, 1, 8072)),
        ber.encode_octets(b"ops@example.org"),
        ber.encode_octets(b"gw1"),
        ber.encode_octets(b"rack 7"),
        ber.encode_integer(72),
    ]


def test_up_time_counts_hundredths_of_a_second_and_wraps() -> None:
    clock = Clock()
    store, _ = system_group(clock)
    assert store.get((*SYSTEM, 3, 0)) == ber.encode_time_ticks(0)
    clock.now += 90 * SECOND + 19_999_999
    assert store.get((*SYSTEM, 3, 0)) == ber.encode_time_ticks(9_001)
    clock.now += 2**32 * SECOND // 100
    assert store.get((*SYSTEM, 3, 0)) == ber.encode_time_ticks(9_001)


def test_modules_come_to_the_or_table_with_the_time_of_the_change() -> None:
    clock = Clock()
    store, group = system_group(clock)
    clock.now += SECOND
    group.add_module((1, 3, 6, 1, 6, 3, 1), "SNMPv2-MIB")
    clock.now += SECOND
    group.add_module((1, 3, 6, 1, 6, 3, 1), "SNMPv2-MIB")
    assert store.get((*SYSTEM, 8, 0)) == ber.encode_time_ticks(100)
    group.add_module((1, 3, 6, 1, 6, 3, 11), "SNMP-MPD-MIB")
    assert store.get((*SYSTEM, 8, 0)) == ber.encode_time_ticks(200)
    assert [store.get((*SYSTEM, 9, 1, column, 2)) for column in (2, 3, 4)] == [
        ber.encode_oid((1, 3, 6, 1, 6, 3, 11)),
        ber.encode_octets(b"SNMP-MPD-MIB"),
        ber.encode_time_ticks(200),
    ]
    assert store.get((*SYSTEM, 9, 1, 1, 1)) == ber.NO_SUCH_OBJECT  # sysORIndex is not accessible


def test_the_index_of_a_removed_module_never_comes_back() -> None:
    clock = Clock()
    store, group = system_group(clock)
    group.add_module((1, 3, 6, 1, 1), "one")
    clock.now += SECOND
    group.remove_module((1, 3, 6, 1, 1))
    assert store.get((*SYSTEM, 8, 0)) == ber.encode_time_ticks(100)
    group.add_module((1, 3, 6, 1, 1), "one")
    assert store.next((*SYSTEM, 9)) == ((*SYSTEM, 9, 1, 2, 2), ber.encode_oid((1, 3, 6, 1, 1)))


def test_a_text_is_cut_to_255_octets_between_characters() -> None:
    store, _ = system_group(Clock(), description="x" * 254 + "é", location="\udcff")
    assert store.get((*SYSTEM, 1, 0)) == ber.encode_octets(b"x" * 254)
    assert store.get((*SYSTEM, 6, 0)) == ber.encode_octets(rb"\udcff")


def test_counters_are_read_as_they_stand_and_wrap() -> None:
    store, counters = Store(), SnmpCounters()
    counters.serve(store)
    assert store.get((*SNMP, 1, 0)) == ber.encode_counter32(0)
    counters.in_packets = 2**32 + 7
    counters.bad_versions, counters.bad_community_names, counters.bad_community_uses = 1, 2, 3
    counters.parse_errors, counters.silent_drops, counters.unknown_pdu_handlers = 4, 5, 6
    assert [store.get((*SNMP, number, 0)) for number in (1, 3, 4, 5, 6, 31)] == [
        ber.encode_counter32(count) for count in (7, 1, 2, 3, 4, 5)
    ]
    assert store.get((*MPD_STATS, 3, 0)) == ber.encode_counter32(6)


def test_no_authentication_failure_is_promised_unless_it_is_sent() -> None:
    store = Store()
    SnmpCounters().serve(store)
    assert store.get((*SNMP, 30, 0)) == ber.encode_integer(2)


def served() -> tuple[SmallAgent, NotificationCounts]:
    agent, notifications = SmallAgent(), NotificationCounts()
    agent.counters.serve(agent.store)
    serve_obsolete_counters(agent.store, agent.counters, notifications)
    return agent, notifications


def counts(agent: SmallAgent, *numbers: int) -> list[int]:
    return [int.from_bytes(agent.store.get((*SNMP, number, 0))[2:], "big") for number in numbers]


def test_the_group_is_whole_and_has_no_other_object() -> None:
    agent, _ = served()
    shown = set()
    here: Oid = SNMP
    while (step := agent.store.next(here)) is not None and step[0][:-2] == SNMP:
        here = step[0]
        shown.add(here[-2])
    assert shown == {*range(1, 33)} - {7, 23}


NAME: Oid = (*ENTRY, 2, 1, 2)


@pytest.mark.parametrize("version", [VERSION_1, VERSION_2C])
@pytest.mark.parametrize(
    ("pdu", "names", "retrieved"),
    [
        (GET, [DESCRIPTION, NAME], 2),
        (GET_NEXT, [SYSTEM], 1),
        (GET_NEXT, [SYSTEM, ENTRY, SNMP], 3),
    ],
)
def test_requests_responses_and_variables_are_counted(
    version: int, pdu: int, names: list[Oid], retrieved: int
) -> None:
    agent, _ = served()
    for times in (1, 2):
        agent.ask(request(pdu, names, version=version))
        # snmpInTotalReqVars, snmpInGetRequests, snmpInGetNexts, snmpOutGetResponses, snmpOutPkts
        expected = [times * retrieved, times * (pdu == GET), times * (pdu == GET_NEXT), times, times]
        assert counts(agent, 13, 15, 16, 28, 2) == expected


def test_variables_that_are_not_there_are_not_retrieved() -> None:
    agent, _ = served()
    agent.store.scalar((1, 4, 0), ber.encode_octets(b"ends as if over\x82\x00"))
    agent.ask(request(GET, [DESCRIPTION, GONE, (*ENTRY, 2, 9, 9)]))
    assert counts(agent, 13) == [1]
    agent.ask(request(GET_NEXT, [(1, 3, 9), (1, 4, 0)]))
    assert counts(agent, 13) == [2]
    agent.ask(request(GET_BULK, [SYSTEM], second=5))
    assert counts(agent, 13, 28) == [2, 3]  # the text speaks of GET and GETNEXT only


def test_errors_are_counted_as_they_were_sent() -> None:
    agent, _ = served()
    agent.ask(request(GET, [GONE], version=VERSION_1))
    agent.ask(request(SET, [DESCRIPTION]))  # noAccess, which has no counter
    agent.store.scalar((1, 4, 0), ber.encode_octets(bytes(65_500)))
    agent.ask(request(GET, [(1, 4, 0)]))
    # snmpOutTooBigs, -NoSuchNames, -BadValues, -GenErrs, -GetResponses, snmpInTotalReqVars
    assert counts(agent, 20, 21, 22, 24, 28, 13) == [1, 1, 0, 0, 3, 0]


def test_a_dropped_answer_is_no_response() -> None:
    agent = SmallAgent(Limits(message_size=484))
    serve_obsolete_counters(agent.store, agent.counters, NotificationCounts())
    # In canonical form each 0.0 takes an octet more than in this request.
    varbinds = ber.encode_tlv(ber.SEQUENCE, b"\x30\x04\x06\x00\x05\x00" * 74)
    for pdu_type in (GET, SET):
        pdu = ber.encode_tlv(pdu_type, b"\x02\x01\x01\x02\x01\x00\x02\x01\x00" + varbinds)
        assert agent.is_silent_at(envelope(pdu, version=VERSION_1))
    assert (agent.counters.silent_drops, *counts(agent, 28, 2, 13)) == (2, 0, 0, 0)


def test_what_notifications_count_is_shown() -> None:
    agent, notifications = served()
    notifications.received, notifications.datagrams, notifications.traps = 5, 7, 4
    notifications.statuses.update({0: 2, 5: 1, -1: 1})
    notifications.engine_questions = 2
    # snmpInPkts, snmpOutPkts, snmpOutTraps, snmpInGetResponses, snmpInGenErrs, -TooBigs, snmpOutGetRequests
    assert counts(agent, 1, 2, 29, 18, 12, 8, 25) == [5, 7, 4, 4, 1, 0, 2]
