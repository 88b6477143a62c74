"""The groups system, snmp and snmpMPDStats as a manager reads them."""

from __future__ import annotations

from gateway.model.times import SECOND
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.standard_groups import SnmpCounters, SystemDescription, SystemGroup
from gateway.snmp.store import Store

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
    assert store.get((*SYSTEM, 6, 0)) == ber.encode_octets(b"?")


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


def test_only_current_objects_are_served_and_no_authentication_failure_is_promised() -> None:
    store = Store()
    SnmpCounters().serve(store)
    assert store.get((*SNMP, 30, 0)) == ber.encode_integer(2)
    assert store.get((*SNMP, 2, 0)) == ber.NO_SUCH_OBJECT  # snmpOutPkts, obsolete
