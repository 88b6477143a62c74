"""Conversion of feed messages into cells."""

from __future__ import annotations

import msgspec
import pytest

from gateway.feed.freshness import Freshness
from gateway.feed.records import (
    EventClassRecord,
    EventRecord,
    GapRecord,
    SnapshotBegan,
    SnapshotEnded,
)
from gateway.feed.values import ObjectLink
from gateway.model.observations import Severity, SourceState
from gateway.model.schema import ClassKey, EventSchema
from gateway.model.times import SECOND
from gateway.snmp import ber
from gateway.snmp.cells import date_and_time
from gateway.snmp.fixed_mib import ALARM_ENTRY
from gateway.snmp.projection import SLICE_ROWS
from gateway.snmp.row_columns import RowColumn
from tests.components.shop import START, agent, hall, source, update
from tests.snmp.mib.shop import (
    HALL_ENTRY,
    REGISTRY,
    ROOT,
    TILL_ENTRY,
    Gateway,
    alarm,
    classes,
    delete,
    till,
)

FRESH, STALE, WITHHELD = (ber.encode_integer(state) for state in Freshness)
TRUE, FALSE = ber.encode_integer(1), ber.encode_integer(2)
SALES, WAITING, NOTE, NOTE_LENGTH = 106, 107, 104, 105


def text(value: str) -> bytes:
    return ber.encode_octets(value.encode())


@pytest.fixture
def gateway() -> Gateway:
    """Return a gateway with one source, synchronised, with a hall and two tills."""
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(1), till(2))
    return gateway


def test_the_registry_has_the_numbers_that_these_tests_expect() -> None:
    assert {e.name: e.columns for e in REGISTRY.classes[1].elements} == {
        "hall": (100, 101),
        "name": (102,),
        "state": (103,),
        "note": (NOTE, NOTE_LENGTH),
        "sales": (SALES,),
        "waiting": (WAITING,),
    }


def test_a_row_reports_the_object_and_the_gateways_own_columns(gateway: Gateway) -> None:
    assert {column for column, _, row in gateway.walk(TILL_ENTRY) if row == 1} == {
        *range(2, 13),
        *range(100, 108),
    }
    hall_row = ber.encode_oid((*HALL_ENTRY, RowColumn.NAME, 1, 1))
    assert gateway.till(RowColumn.NAME) == text("till1")
    assert gateway.till(RowColumn.NATIVE_ID) == text("0-1-1-0-1")
    assert gateway.till(RowColumn.PARENT) == hall_row
    assert gateway.till(RowColumn.SAMPLED) == date_and_time(START + SECOND)
    assert gateway.till(RowColumn.CREATED) == date_and_time(START)
    assert gateway.till(RowColumn.STALE) == FALSE
    assert gateway.till(RowColumn.STATE) == FRESH
    assert gateway.till(RowColumn.DISCONTINUITY) == date_and_time(START)
    assert gateway.till(RowColumn.LAST_CHANGE) == date_and_time(START)
    assert gateway.till(RowColumn.FULL_NAME) == text("hall1/till1")
    assert gateway.till(RowColumn.LIFETIME) == ber.encode_integer(2)
    assert gateway.till(100) == hall_row
    assert gateway.till(101) == text("hall1")
    assert gateway.till(103) == ber.encode_integer(2)
    assert gateway.till(NOTE) == text("by the door")
    assert gateway.till(NOTE_LENGTH) == ber.encode_gauge32(11)
    assert gateway.till(SALES) == ber.encode_counter64(10)
    assert gateway.till(WAITING) == ber.encode_gauge32(1)


def test_the_index_column_is_not_accessible(gateway: Gateway) -> None:
    assert gateway.store.get((*TILL_ENTRY, 1, 1, 1)) == ber.NO_SUCH_OBJECT


def test_absent_values_and_unknown_times_are_holes(gateway: Gateway) -> None:
    bare = msgspec.structs.replace(
        till(3, {1: "till3"}), parent=None, created=0, statistics_sampled=0, reset=0, changed=0
    )
    gateway.publish(bare)
    filled = {column for column, _, row in gateway.walk(TILL_ENTRY) if row == 3}
    assert filled == {2, 3, RowColumn.SAMPLED, RowColumn.STALE, RowColumn.STATE, 11, 12, 102}


def test_an_update_changes_what_it_reports_and_nothing_else(gateway: Gateway) -> None:
    before = gateway.walk(TILL_ENTRY)
    gateway.publish(update(1, {4: 99}, absent=(3,)))
    changed = {key[:1] for key, tlv in before.items() if gateway.walk(TILL_ENTRY).get(key) != tlv}
    assert changed == {(SALES,), (NOTE,), (NOTE_LENGTH,), (RowColumn.SAMPLED,)}
    assert gateway.till(SALES) == ber.encode_counter64(99)
    assert gateway.till(NOTE) is None


def test_an_object_reported_again_loses_what_it_no_longer_has(gateway: Gateway) -> None:
    gateway.publish(till(1, {1: "till1"}))
    assert gateway.till(SALES) is None
    assert gateway.till(102) == text("till1")


def test_a_deleted_row_is_gone_at_once(gateway: Gateway) -> None:
    gateway.publish(delete(1))
    assert {row for _, _, row in gateway.walk(TILL_ENTRY)} == {2}


def test_a_reference_to_a_class_without_a_table_has_its_name_only(gateway: Gateway) -> None:
    gateway.publish(update(1, {0: ObjectLink("street:house", 4, "number 4")}))
    assert gateway.till(100) is None
    assert gateway.till(101) == text("number 4")


def test_records_that_name_nothing_known_are_counted(gateway: Gateway) -> None:
    gateway.publish(till(3, class_number=77), update(9, {4: 1}), delete(9), delete(1, class_number=78))
    assert gateway.cell((*ROOT, 1, 1, 1), 12, 0) == ber.encode_counter64(4)


def test_events_and_gaps_change_no_row(gateway: Gateway) -> None:
    before = gateway.walk((*ROOT, 2))
    gateway.publish(
        EventClassRecord(5, EventSchema(ClassKey("shop", "fire"))),
        EventRecord("7b0c.1.1", 1, 5, "1.0", START, Severity.MAJOR, {}),
        GapRecord(1, START, START + 1, "the line was cut"),
    )
    assert gateway.walk((*ROOT, 2)) == before


# ---- freshness ----------------------------------------------------------------------------------------


def test_the_rows_of_a_silent_agent_turn_stale_and_those_of_others_do_not(gateway: Gateway) -> None:
    gateway.publish(till(3, agent_name="2.0"))
    gateway.publish(agent(fresh=False))
    assert [gateway.till(RowColumn.STALE, row) for row in (1, 2, 3)] == [TRUE, TRUE, FALSE]
    assert gateway.till(RowColumn.STATE) == STALE
    assert gateway.till(SALES) == ber.encode_counter64(10)
    gateway.publish(agent(fresh=True))
    assert gateway.till(RowColumn.STALE) == FALSE


def test_values_that_are_stale_for_too_long_are_withheld_until_they_are_fresh_again(gateway: Gateway) -> None:
    before = gateway.walk(TILL_ENTRY)
    gateway.publish(agent(fresh=False, since=gateway.now))
    gateway.wait(59)
    assert gateway.till(SALES) == ber.encode_counter64(10)
    gateway.wait(1)
    assert {column for column, _, _ in gateway.walk(TILL_ENTRY)} == set(range(2, 13))
    assert gateway.till(RowColumn.NAME) == text("till1")
    assert gateway.till(RowColumn.STATE) == WITHHELD
    gateway.publish(agent(fresh=True))
    assert gateway.walk(TILL_ENTRY) == before


def test_an_update_of_a_withheld_row_is_seen_when_it_is_fresh_again(gateway: Gateway) -> None:
    gateway.publish(agent(fresh=False, since=gateway.now))
    gateway.wait(61)
    gateway.publish(update(1, {4: 12}))
    assert gateway.till(SALES) is None
    gateway.publish(agent(fresh=True))
    assert gateway.till(SALES) == ber.encode_counter64(12)


def test_an_object_that_comes_while_its_agent_is_stale_is_stale(gateway: Gateway) -> None:
    gateway.publish(agent(fresh=False))
    gateway.publish(till(3))
    assert gateway.till(RowColumn.STALE, 3) == TRUE


def test_an_object_that_its_source_cannot_read_is_stale_by_itself(gateway: Gateway) -> None:
    gateway.publish(till(3))
    gateway.publish(msgspec.structs.replace(till(3), unread_since=gateway.now))
    assert [gateway.till(RowColumn.STALE, row) for row in (1, 3)] == [FALSE, TRUE]
    gateway.publish(till(3))
    assert gateway.till(RowColumn.STALE, 3) == FALSE


@pytest.mark.parametrize("state", [SourceState.DOWN, SourceState.CONNECTING])
def test_a_source_that_is_not_reached_makes_its_rows_stale(gateway: Gateway, state: SourceState) -> None:
    gateway.publish(source(state))
    assert gateway.till(RowColumn.STALE) == TRUE
    gateway.publish(source(SourceState.SYNCHRONISING))
    assert gateway.till(RowColumn.STALE) == TRUE
    gateway.publish(source(SourceState.SYNCHRONISED))
    assert gateway.till(RowColumn.STALE) == FALSE


def test_a_degraded_source_is_trusted(gateway: Gateway) -> None:
    gateway.publish(source(SourceState.DEGRADED))
    assert gateway.till(RowColumn.STALE) == FALSE


def test_everything_is_stale_while_the_core_is_gone(gateway: Gateway) -> None:
    gateway.projection.disconnected("connection refused")
    gateway.projection.disconnected("connection refused")
    assert gateway.till(RowColumn.STALE) == TRUE
    assert gateway.cell((*ROOT, 1, 1, 2, 1), 4, 1) == ber.encode_integer(1)
    assert b"connection refused" in (gateway.cell((*ROOT, 1, 1, 2, 1), 5, 1) or b"")
    gateway.wait(61)
    assert gateway.till(RowColumn.STATE) == WITHHELD


def test_a_new_core_keeps_rows_as_stale_until_the_source_is_synchronised(gateway: Gateway) -> None:
    gateway.disconnect()
    gateway.hello(epoch=2)
    gateway.snapshot(source(SourceState.CONNECTING))
    assert gateway.till(RowColumn.STALE) == TRUE
    gateway.publish(source(SourceState.SYNCHRONISING), *classes(), agent(fresh=True), hall(), till(2))
    assert gateway.till(RowColumn.STALE, 2) == TRUE
    assert gateway.till(RowColumn.NAME, 1) == text("till1")
    gateway.publish(source(SourceState.SYNCHRONISED))
    assert gateway.till(RowColumn.STALE, 2) == FALSE
    assert gateway.till(RowColumn.NAME, 1) is None


def test_a_new_core_may_number_classes_again(gateway: Gateway) -> None:
    gateway.hello(epoch=2)
    swapped = [msgspec.structs.replace(record, number=30 - record.number) for record in classes()]
    gateway.snapshot(
        source(),
        *swapped,
        agent(fresh=True),
        msgspec.structs.replace(hall(), class_number=20),
        till(1, class_number=10),
    )
    gateway.settle()
    assert gateway.till(SALES) == ber.encode_counter64(10)
    assert gateway.till(RowColumn.STALE) == FALSE
    assert gateway.till(RowColumn.NAME, 2) is None


def test_a_new_snapshot_of_the_same_core_sweeps_what_it_does_not_report(gateway: Gateway) -> None:
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(2))
    assert {row for _, _, row in gateway.walk(TILL_ENTRY)} == {2}


def test_a_snapshot_that_begins_in_the_middle_of_another_counts_alone(gateway: Gateway) -> None:
    gateway.projection.received(SnapshotBegan(1, 1))
    gateway.publish(source(), till(1))
    gateway.projection.received(SnapshotBegan(1, 2))
    gateway.publish(source(), till(2))
    gateway.projection.received(SnapshotEnded(1, 2))
    assert {row for _, _, row in gateway.walk(TILL_ENTRY)} == {2}


def test_an_incomplete_snapshot_takes_nothing_away(gateway: Gateway) -> None:
    gateway.projection.received(SnapshotBegan(1, 1))
    gateway.publish(source(), till(2))
    gateway.disconnect()
    gateway.settle()
    assert {row for _, _, row in gateway.walk(TILL_ENTRY)} == {1, 2}


def test_a_source_that_a_snapshot_does_not_report_is_gone_with_everything(gateway: Gateway) -> None:
    gateway.snapshot(source(number=2), *classes())
    assert gateway.walk((*ROOT, 2)) == {}
    assert {index[-1] for index in gateway.walk((*ROOT, 1, 1, 2))} == {2}
    assert gateway.walk((*ROOT, 1, 1, 3)) == {}
    assert gateway.walk((*ROOT, 1, 1, 4)) == {}


def test_many_rows_change_in_slices(gateway: Gateway) -> None:
    rows = 3 * SLICE_ROWS
    gateway.publish(*(till(row) for row in range(1, rows + 1)))
    gateway.publish(agent(fresh=False, since=gateway.now))
    stale = sum(tlv == TRUE for tlv in gateway.walk((*TILL_ENTRY, RowColumn.STALE)).values())
    assert stale in {SLICE_ROWS - 1, SLICE_ROWS}  # the hall is of the same agent
    assert gateway.projection.tick()
    gateway.settle()
    assert set(gateway.walk((*TILL_ENTRY, RowColumn.STALE)).values()) == {TRUE}
    gateway.snapshot(source(), *classes(), agent(fresh=True), till(1))
    gateway.settle()
    assert set(gateway.walk((*TILL_ENTRY, RowColumn.STALE)).values()) == {FALSE}
    assert len(gateway.walk((*TILL_ENTRY, RowColumn.NAME))) == 1


def many_tills_and_alarms(gateway: Gateway) -> None:
    gateway.publish(*(till(row) for row in range(1, 2 * SLICE_ROWS)))
    gateway.publish(*(alarm(number, f"c{number}") for number in range(1, 101)))


def test_a_source_that_is_gone_leaves_when_all_of_it_has_left_in_slices(gateway: Gateway) -> None:
    many_tills_and_alarms(gateway)
    gateway.snapshot(source(number=2), *classes())
    assert gateway.walk(TILL_ENTRY)
    assert {index[-1] for index in gateway.walk((*ROOT, 1, 1, 2))} == {1, 2}
    gateway.settle()
    assert gateway.walk((*ROOT, 2)) == gateway.walk((*ROOT, *ALARM_ENTRY)) == {}
    assert {index[-1] for index in gateway.walk((*ROOT, 1, 1, 2))} == {2}


def test_a_source_that_comes_back_while_it_leaves_stays(gateway: Gateway) -> None:
    many_tills_and_alarms(gateway)
    gateway.snapshot(source(number=2), *classes())
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(1), alarm(1, "c1"))
    gateway.settle()
    assert {row for _, _, row in gateway.walk(TILL_ENTRY)} == {1}
    assert {number for _, number in gateway.walk((*ROOT, *ALARM_ENTRY))} == {1}
    assert {index[-1] for index in gateway.walk((*ROOT, 1, 1, 2))} == {1}


def test_the_fixed_tables_are_there_before_any_feed() -> None:
    gateway = Gateway()
    gateway.projection.disconnected("no such file")
    assert gateway.cell((*ROOT, 1, 1, 1), 6, 0) == FALSE
    assert gateway.cell((*ROOT, 1, 1, 1), 7, 0) == date_and_time(START)
