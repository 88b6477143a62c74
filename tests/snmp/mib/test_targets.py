"""agTargetTable, with the contents given by the sender of notifications."""

from __future__ import annotations

import pytest

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import date_and_time
from gateway.snmp.fixed_mib import TARGET_ENTRY, TargetColumn, TargetKindNumber
from gateway.snmp.notifications.receiver import TargetHealth
from gateway.snmp.store import Store
from gateway.snmp.tables.health import TargetTable

ROOT: Oid = (1, 3, 6, 1, 4, 1, 99999)
START = 1_700_000_000_000_000_000
NMS: Oid = (ord("n"), ord("m"), ord("s"))


def row(store: Store) -> dict[int, bytes]:
    cells = {column: store.get((*ROOT, *TARGET_ENTRY, column, *NMS)) for column in TargetColumn}
    return {column: tlv for column, tlv in cells.items() if tlv != ber.NO_SUCH_INSTANCE}


def test_a_receiver_is_named_by_its_octets_and_begins_at_zero() -> None:
    store = Store()
    TargetTable(store, ROOT).add("nms", "192.0.2.1:162", TargetKindNumber.INFORM_V2C)
    assert row(store) == {
        TargetColumn.ADDRESS: ber.encode_octets(b"192.0.2.1:162"),
        TargetColumn.KIND: ber.encode_integer(3),
        TargetColumn.SENT: ber.encode_counter64(0),
        TargetColumn.ACKNOWLEDGED: ber.encode_counter64(0),
        TargetColumn.SUPPRESSED: ber.encode_counter64(0),
        TargetColumn.FAILED: ber.encode_counter64(0),
        TargetColumn.WAITING: ber.encode_gauge32(0),
        TargetColumn.LOST: ber.encode_counter64(0),
    }


def test_its_health_is_shown_as_it_stands() -> None:
    store = Store()
    table = TargetTable(store, ROOT)
    table.add("nms", "192.0.2.1:162", TargetKindNumber.TRAP_V2C)
    table.show(
        "nms",
        TargetHealth(sent=5, acknowledged=4, suppressed=3, failed=2, waiting=1, last_sent=START, lost=6),
    )
    shown = row(store)
    assert shown[TargetColumn.SENT] == ber.encode_counter64(5)
    assert shown[TargetColumn.ACKNOWLEDGED] == ber.encode_counter64(4)
    assert shown[TargetColumn.SUPPRESSED] == ber.encode_counter64(3)
    assert shown[TargetColumn.FAILED] == ber.encode_counter64(2)
    assert shown[TargetColumn.WAITING] == ber.encode_gauge32(1)
    assert shown[TargetColumn.LOST] == ber.encode_counter64(6)
    assert shown[TargetColumn.LAST_SENT] == date_and_time(START)


def test_a_receiver_that_was_not_added_is_refused() -> None:
    with pytest.raises(KeyError):
        TargetTable(Store(), ROOT).show("nms", TargetHealth())
