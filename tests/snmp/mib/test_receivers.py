"""Receivers in the standard tables of targets, as net-snmp reads them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import TargetKindNumber
from gateway.snmp.notifications.receiver import Target
from gateway.snmp.store import Store
from gateway.snmp.tables.receivers import (
    MODELS,
    NOTIFY_ENTRY,
    TARGET_PARAMETERS_ENTRY,
    NotifyColumn,
    ReceiverTables,
    TargetParametersColumn,
    shortened,
    transport_address,
)
from tests.components.net_snmp import printed, with_modules
from tests.snmp.conftest import Serve
from tests.snmp.datagrams import COMMUNITY

SECRET = b"only-for-receivers"
TARGETS = (
    Target("nms", ("192.0.2.1", 162), TargetKindNumber.INFORM_V2C, SECRET),
    Target("old", ("2001:db8::7", 1162), TargetKindNumber.TRAP_V1, SECRET),
)
BELOW = (1, 3, 6, 1, 6, 3)


def everything(store: Store) -> dict[Oid, bytes]:
    found: dict[Oid, bytes] = {}
    here: Oid = BELOW
    while (step := store.next(here)) is not None:
        here, found[step[0]] = step
    return found


async def test_net_snmp_shows_the_receivers_by_name(serve: Serve, tmp_path: Path) -> None:
    store = Store()
    ReceiverTables(store).show(TARGETS)
    modules = with_modules(["SNMP-TARGET-MIB", "SNMP-NOTIFICATION-MIB", "SNMPv2-TM"])
    access = ["-v2c", "-c", COMMUNITY.decode(), "-t", "20", f"127.0.0.1:{serve(store)}", ".1.3.6.1.6.3"]

    walked = await asyncio.to_thread(printed, tmp_path, "snmpwalk", *modules, *access)

    lines = [line.rstrip() for line in walked.stdout.splitlines()]
    for line in (
        "SNMP-TARGET-MIB::snmpTargetAddrTDomain.'nms' = OID: SNMPv2-TM::snmpUDPDomain",
        "SNMP-TARGET-MIB::snmpTargetAddrTAddress.'nms' = Hex-STRING: C0 00 02 01 00 A2",
        "SNMP-TARGET-MIB::snmpTargetAddrTimeout.'nms' = INTEGER: 100",
        "SNMP-TARGET-MIB::snmpTargetAddrRetryCount.'nms' = INTEGER: 4",
        "SNMP-TARGET-MIB::snmpTargetAddrTagList.'nms' = STRING: nms",
        "SNMP-TARGET-MIB::snmpTargetAddrParams.'old' = STRING: old",
        "SNMP-TARGET-MIB::snmpTargetAddrRetryCount.'old' = INTEGER: 0",
        "SNMP-TARGET-MIB::snmpTargetAddrStorageType.'old' = INTEGER: readOnly(5)",
        "SNMP-TARGET-MIB::snmpTargetParamsMPModel.'old' = INTEGER: 0",
        "SNMP-TARGET-MIB::snmpTargetParamsSecurityName.'nms' = STRING: nms",
        "SNMP-TARGET-MIB::snmpTargetParamsSecurityLevel.'nms' = INTEGER: noAuthNoPriv(1)",
        "SNMP-TARGET-MIB::snmpTargetParamsRowStatus.'nms' = INTEGER: active(1)",
        "SNMP-NOTIFICATION-MIB::snmpNotifyTag.'nms' = STRING: nms",
        "SNMP-NOTIFICATION-MIB::snmpNotifyType.'nms' = INTEGER: inform(2)",
        "SNMP-NOTIFICATION-MIB::snmpNotifyType.'old' = INTEGER: trap(1)",
    ):
        assert line in lines, walked


def test_no_community_is_shown_anywhere() -> None:
    store = Store()
    ReceiverTables(store).show(TARGETS)
    assert not [value for value in everything(store).values() if SECRET in value]
    assert len(everything(store)) == 2 * (8 + 6 + 4)


def test_a_long_name_becomes_an_index_that_the_table_can_have() -> None:
    first, second = (f"{'receiver-in-the-second-cellar-' * 2}{number}" for number in (1, 2))
    assert shortened("n" * 32) == "n" * 32
    assert len(shortened(first)) == len(shortened(second)) == 32
    assert shortened(first) != shortened(second)
    store = Store()
    ReceiverTables(store).show([Target(first, ("192.0.2.1", 162), TargetKindNumber.TRAP_V2C, SECRET)])
    index = tuple(shortened(first).encode())
    name = store.get((*TARGET_PARAMETERS_ENTRY, TargetParametersColumn.SECURITY_NAME, *index))
    assert name == store.get((*NOTIFY_ENTRY, NotifyColumn.TAG, *index))
    assert name == ber.encode_octets(shortened(first).encode())


def test_every_kind_of_receiver_has_its_models() -> None:
    assert set(MODELS) == set(TargetKindNumber)


@pytest.mark.parametrize(
    ("host", "domain", "octets"),
    [
        ("192.0.2.1", (1, 3, 6, 1, 6, 1, 1), "c0000201 00a2"),
        ("::1", (1, 3, 6, 1, 2, 1, 100, 1, 2), "00000000000000000000000000000001 00a2"),
        ("fe80::1%7", (1, 3, 6, 1, 2, 1, 100, 1, 4), "fe800000000000000000000000000001 00000007 00a2"),
        ("nms.example.org", (1, 3, 6, 1, 2, 1, 100, 1, 14), b"nms.example.org:162".hex()),
        ("fe80::1%eth0", (1, 3, 6, 1, 2, 1, 100, 1, 4), "fe800000000000000000000000000001 00000000 00a2"),
    ],
)
def test_an_address_is_written_as_its_domain_has_it(host: str, domain: Oid, octets: str) -> None:
    assert transport_address((host, 162)) == (domain, bytes.fromhex(octets))
