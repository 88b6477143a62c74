"""Changes of sources, health, counts and sums by the feed."""

from __future__ import annotations

import pytest

from gateway.model.observations import SourceState
from gateway.model.times import SECOND
from gateway.snmp import ber
from gateway.snmp.cells import date_and_time, float64
from gateway.snmp.fixed_mib import (
    CLASS_ENTRY,
    HEALTH,
    SOURCE_ENTRY,
    SUM_ENTRY,
    ClassColumn,
    Health,
    SeverityNumber,
    SourceColumn,
    SumColumn,
)
from tests.components.shop import START, agent, hall, source, update
from tests.snmp.mib.shop import ROOT, TILL_ENTRY, Gateway, classes, delete, till

SALES, WAITING = 106, 107


@pytest.fixture
def gateway() -> Gateway:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(1), till(2))
    return gateway


def health(gateway: Gateway, scalar: Health) -> bytes | None:
    return gateway.cell((*ROOT, *HEALTH), scalar, 0)


def of_class(gateway: Gateway, column: ClassColumn, class_index: int = 7002) -> bytes | None:
    return gateway.cell((*ROOT, *CLASS_ENTRY), column, 1, class_index)


def total(gateway: Gateway, element: int) -> tuple[int, int] | None:
    """Return the sum and the number of objects."""
    tlvs = [
        gateway.cell((*ROOT, *SUM_ENTRY), c, 1, 7002, element) for c in (SumColumn.TOTAL, SumColumn.OBJECTS)
    ]
    if tlvs[0] is None or tlvs[1] is None:
        return None
    return int.from_bytes(tlvs[0][2:], "big"), int.from_bytes(tlvs[1][2:], "big")


def test_a_source_is_shown_with_its_state_and_counters(gateway: Gateway) -> None:
    gateway.publish(source(SourceState.SYNCHRONISED, messages=5, octets=2**63, protocol_errors=1, events=2))
    row = {column: tlv for (column, *_), tlv in gateway.walk((*ROOT, *SOURCE_ENTRY)).items()}
    assert row == {
        SourceColumn.NAME: ber.encode_octets(b"shop1"),
        SourceColumn.KIND: ber.encode_octets(b"qmf"),
        SourceColumn.STATE: ber.encode_integer(4),
        SourceColumn.DETAIL: ber.encode_octets(b"a detail"),
        SourceColumn.SINCE: date_and_time(START),
        SourceColumn.LAST_HEARD: date_and_time(START),
        SourceColumn.ROWS: ber.encode_gauge32(3),
        SourceColumn.STALE_ROWS: ber.encode_gauge32(0),
        SourceColumn.MESSAGES: ber.encode_counter64(5),
        SourceColumn.OCTETS: ber.encode_counter64(2**63),
        SourceColumn.PROTOCOL_ERRORS: ber.encode_counter64(1),
        SourceColumn.REFUSED: ber.encode_counter64(0),
        SourceColumn.RESYNCS: ber.encode_counter64(0),
        SourceColumn.GAPS: ber.encode_counter64(0),
        SourceColumn.OBJECTS_CREATED: ber.encode_counter64(0),
        SourceColumn.OBJECTS_DELETED: ber.encode_counter64(0),
        SourceColumn.EVENTS: ber.encode_counter64(2),
        SourceColumn.ACTIVE_ALARMS: ber.encode_gauge32(0),
        SourceColumn.WORST_ALARM: ber.encode_integer(SeverityNumber.CLEARED),
    }


@pytest.mark.parametrize(
    ("state", "number"),
    [
        (SourceState.CONNECTING, 2),
        (SourceState.SYNCHRONISING, 3),
        (SourceState.SYNCHRONISED, 4),
        (SourceState.DEGRADED, 5),
        (SourceState.DOWN, 6),
    ],
)
def test_each_state_of_a_source_has_a_number(gateway: Gateway, state: SourceState, number: int) -> None:
    gateway.publish(source(state))
    assert gateway.cell((*ROOT, *SOURCE_ENTRY), SourceColumn.STATE, 1) == ber.encode_integer(number)


def test_a_class_is_counted_by_source(gateway: Gateway) -> None:
    assert of_class(gateway, ClassColumn.PACKAGE) == ber.encode_octets(b"shop")
    assert of_class(gateway, ClassColumn.NAME) == ber.encode_octets(b"till")
    assert of_class(gateway, ClassColumn.ROWS) == ber.encode_gauge32(2)
    assert of_class(gateway, ClassColumn.STALE_ROWS) == ber.encode_gauge32(0)
    assert of_class(gateway, ClassColumn.ROW_TABLE) == ber.encode_oid(TILL_ENTRY[:-1])
    assert of_class(gateway, ClassColumn.LAST_CHANGE) == date_and_time(START)
    gateway.now += SECOND
    gateway.publish(delete(1), agent(fresh=False))
    assert of_class(gateway, ClassColumn.ROWS) == ber.encode_gauge32(1)
    assert of_class(gateway, ClassColumn.STALE_ROWS) == ber.encode_gauge32(1)
    assert of_class(gateway, ClassColumn.LAST_CHANGE) == date_and_time(START + SECOND)


def test_statistics_are_summed_over_the_objects_that_have_them(gateway: Gateway) -> None:
    assert total(gateway, SALES) == (30, 2)
    assert gateway.cell((*ROOT, *SUM_ENTRY), SumColumn.NAME, 1, 7002, SALES) == ber.encode_octets(b"sales")
    assert gateway.cell((*ROOT, *SUM_ENTRY), SumColumn.UNITS, 1, 7002, WAITING) == ber.encode_octets(
        b"customers"
    )
    means = [
        gateway.cell((*ROOT, *SUM_ENTRY), c, 1, 7002, SALES) for c in (SumColumn.MEAN, SumColumn.MEAN_TEXT)
    ]
    assert means == [float64(15.0), ber.encode_octets(b"15.0")]
    gateway.publish(update(1, {4: 15}, absent=(5,)))
    assert total(gateway, SALES) == (35, 2)
    assert total(gateway, WAITING) == (2, 1)
    gateway.publish(till(2, {4: 2**64 - 1}))
    assert total(gateway, SALES) == (2**64 - 1, 2)
    assert total(gateway, WAITING) == (0, 0)
    gateway.publish(delete(2))
    assert total(gateway, SALES) == (15, 1)


def test_properties_and_text_are_not_summed(gateway: Gateway) -> None:
    assert {element for _, _, _, element in gateway.walk((*ROOT, *SUM_ENTRY))} == {SALES, WAITING}


def test_withheld_values_leave_the_sums_and_come_back(gateway: Gateway) -> None:
    gateway.publish(agent(fresh=False, since=gateway.now))
    assert total(gateway, SALES) == (30, 2)
    gateway.wait(61)
    assert total(gateway, SALES) == (0, 0)
    assert health(gateway, Health.ROWS_WITHHELD) == ber.encode_gauge32(3)
    gateway.publish(update(1, {4: 11}))
    assert total(gateway, SALES) == (0, 0)
    gateway.publish(agent(fresh=True))
    assert total(gateway, SALES) == (31, 2)
    assert health(gateway, Health.ROWS_WITHHELD) == ber.encode_gauge32(0)


def test_sums_of_a_withheld_row_that_is_deleted_stay_right(gateway: Gateway) -> None:
    gateway.publish(agent(fresh=False, since=gateway.now))
    gateway.wait(61)
    gateway.publish(delete(1))
    gateway.publish(agent(fresh=True))
    assert total(gateway, SALES) == (20, 1)


def test_health_reports_the_core_and_the_feed(gateway: Gateway) -> None:
    gateway.now += 5 * SECOND
    assert health(gateway, Health.VERSION) == ber.encode_octets(b"1.2.3")
    assert health(gateway, Health.GATEWAY_UUID) == ber.encode_octets(b"7b0c")
    assert health(gateway, Health.CORE_EPOCH) == ber.encode_counter64(1)
    assert health(gateway, Health.CORE_STARTED) == date_and_time(START)
    assert health(gateway, Health.CORE_UPTIME) == ber.encode_time_ticks(500)
    assert health(gateway, Health.FEED_CONNECTED) == ber.encode_integer(1)
    assert health(gateway, Health.FEED_STALE_SINCE) is None
    assert health(gateway, Health.FEED_LAST_MESSAGE) == date_and_time(START)
    assert health(gateway, Health.FEED_IDLE) == ber.encode_time_ticks(500)
    assert health(gateway, Health.FEED_MESSAGES) == ber.encode_counter64(4)
    assert health(gateway, Health.FEED_SNAPSHOTS) == ber.encode_counter64(1)
    assert health(gateway, Health.SOURCES) == ber.encode_gauge32(1)
    assert health(gateway, Health.SOURCES_SYNCHRONISED) == ber.encode_gauge32(1)
    assert health(gateway, Health.ROWS) == ber.encode_gauge32(3)


def test_health_reports_that_the_core_is_gone(gateway: Gateway) -> None:
    gateway.now += SECOND
    gateway.disconnect()
    assert health(gateway, Health.FEED_CONNECTED) == ber.encode_integer(2)
    assert health(gateway, Health.FEED_STALE_SINCE) == date_and_time(START + SECOND)
    assert health(gateway, Health.CORE_UPTIME) == ber.encode_time_ticks(0)
    assert health(gateway, Health.SOURCES_SYNCHRONISED) == ber.encode_gauge32(0)
    assert health(gateway, Health.ROWS_STALE) == ber.encode_gauge32(3)
    gateway.hello(epoch=2)
    assert health(gateway, Health.FEED_STALE_SINCE) is None


def test_a_clock_set_back_makes_no_negative_time(gateway: Gateway) -> None:
    gateway.now -= 100 * SECOND
    assert health(gateway, Health.FEED_IDLE) == ber.encode_time_ticks(0)
