"""Feed messages in, MBeans out: snapshots, objects that they lack, and the portions of the commands."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from gateway.feed.records import Batch, ClassRecord, GapRecord, SnapshotBegan
from gateway.feed.replica import SWEEP_LOOKS
from gateway.jmx.commands import DefineAccess, DefineClass, Register, RegisterTable, SetGroup
from gateway.jmx.projection import SLICE_OBJECTS
from gateway.model.observations import SourceState
from gateway.model.schema import ClassKey
from tests.components.shop import START, agent, source, update
from tests.jmx.shop import (
    GATEWAY,
    SALES,
    TILL,
    Gateway,
    classes,
    delete,
    hall,
    hall_name,
    till,
    till_name,
)


def test_records_that_name_nothing_known_are_counted(gateway: Gateway) -> None:
    gateway.publish(till(3, class_number=77), update(9, {SALES: 1}), delete(9), delete(1, class_number=78))
    gateway.publish(till(3, number=9))
    gateway.settle()
    assert gateway.machine.read(GATEWAY)["RefusedRecords"] == 5


def test_a_gap_changes_nothing(gateway: Gateway) -> None:
    before = gateway.machine.everything()
    gateway.publish(GapRecord(1, START, START + 1, "the line was cut"))
    assert gateway.machine.everything() == before


def test_a_new_core_keeps_objects_as_stale_until_the_source_is_synchronised(gateway: Gateway) -> None:
    gateway.disconnect()
    gateway.hello(epoch=2)
    gateway.snapshot(source(SourceState.CONNECTING))
    assert gateway.till()["Stale"] is True
    gateway.publish(source(SourceState.SYNCHRONISING), *classes(), agent(fresh=True), hall(), till(2))
    assert gateway.till(2)["Stale"] is True
    assert till_name(1) in gateway.machine.names
    gateway.publish(source(SourceState.SYNCHRONISED))
    assert gateway.till(2)["Stale"] is False
    assert till_name(1) not in gateway.machine.names


def test_a_new_snapshot_of_the_same_core_sweeps_what_it_does_not_report(gateway: Gateway) -> None:
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(2))
    assert gateway.names() == ["till2,id=2"]


def test_a_snapshot_that_begins_in_the_middle_of_another_counts_alone(gateway: Gateway) -> None:
    gateway.begin_snapshot(source(), till(1))
    gateway.snapshot(source(), till(2))
    assert gateway.names() == ["till2,id=2"]


def test_an_incomplete_snapshot_takes_nothing_away(gateway: Gateway) -> None:
    gateway.projection.received(SnapshotBegan(1, 1))
    gateway.publish(source(), till(2))
    gateway.disconnect()
    gateway.settle()
    assert gateway.names() == ["till1,id=1", "till2,id=2"]


def test_a_deletion_that_a_snapshot_repeats_changes_nothing(gateway: Gateway) -> None:
    gateway.snapshot(source(), *classes(), delete(1, number=5), agent(fresh=True), hall(), till(1), till(2))
    assert gateway.names() == ["till1,id=1", "till2,id=2"]


def test_a_source_that_a_snapshot_does_not_report_is_gone_with_everything(gateway: Gateway) -> None:
    gateway.snapshot(source(number=2), *classes())
    gateway.settle()
    assert gateway.machine.names.keys() == {GATEWAY, "amqp.gateway:type=Source,source=shop2"}


def test_a_renamed_source_has_objects_of_other_names(gateway: Gateway) -> None:
    gateway.hello(epoch=2)
    gateway.snapshot(msgspec.structs.replace(source(), name="shop9"), *classes(), agent(fresh=True), till(1))
    gateway.settle()
    assert gateway.machine.names.keys() == {
        GATEWAY,
        "amqp.gateway:type=Source,source=shop9",
        till_name(1, source=9),
    }


def test_many_objects_go_in_slices(gateway: Gateway) -> None:
    rows = 3 * SLICE_OBJECTS
    gateway.publish(*(till(row) for row in range(1, rows + 1)))
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(1))
    assert len(gateway.names()) > SLICE_OBJECTS
    gateway.settle()
    assert gateway.names() == ["till1,id=1"]


def test_objects_of_a_source_that_is_gone_go_in_slices(gateway: Gateway) -> None:
    gateway.publish(*(till(row) for row in range(1, 3 * SLICE_OBJECTS + 1)))
    gateway.snapshot(source(number=2), *classes())
    assert len(gateway.names()) > SLICE_OBJECTS
    gateway.settle()
    assert gateway.machine.names.keys() == {GATEWAY, "amqp.gateway:type=Source,source=shop2"}


def test_a_source_that_comes_back_while_it_leaves_is_as_fresh_as_its_objects(gateway: Gateway) -> None:
    tills = [till(row) for row in range(1, 3 * SLICE_OBJECTS + 1)]
    gateway.publish(*tills)
    gateway.snapshot(source(number=2), *classes())
    assert gateway.projection.tick(), "it leaves still"
    gateway.snapshot(source(), source(number=2), *classes(), agent(fresh=True), hall(), *tills)
    gateway.settle()
    assert gateway.till()["Stale"] is False
    assert gateway.machine.read("amqp.gateway:type=Source,source=shop1")["Stale"] is False


def test_finding_what_is_to_go_is_work_for_several_slices_too(gateway: Gateway) -> None:
    rows = [till(row) for row in range(1, 2 * SWEEP_LOOKS + 1)]
    gateway.publish(*rows)
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), *rows[1:])
    assert gateway.projection.tick()
    gateway.settle()
    assert len(gateway.names()) == len(rows) - 1


def tables(gateway: Gateway) -> dict[str, list[str]]:
    """The objects of each table, by the table's name."""
    return {name: sorted(objects.values()) for name, objects in gateway.machine.tables.values()}


def test_each_class_of_a_source_has_a_table_of_its_objects(gateway: Gateway) -> None:
    halls = "amqp.gateway:type=Table,source=shop1,class=shop.hall"
    tills = "amqp.gateway:type=Table,source=shop1,class=shop.till"
    assert tables(gateway) == {halls: [hall_name()], tills: [till_name(1), till_name(2)]}
    gateway.publish(delete(1), delete(2))
    assert tables(gateway) == {halls: [hall_name()], tills: []}


def test_the_tables_of_a_source_that_leaves_are_removed_and_come_back_with_it(gateway: Gateway) -> None:
    before = tables(gateway)
    gateway.snapshot()
    assert tables(gateway) == {}
    gateway.settle()
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(1), till(2))
    assert tables(gateway) == before


def test_commands_are_taken_in_order_and_no_more_than_asked_for(gateway: Gateway) -> None:
    kiosk = ClassRecord(30, replace(TILL, key=ClassKey("shop", "kiosk")), "", "")
    gateway.projection.received(Batch(1, 2, (kiosk, till(1, {}, class_number=30))))
    assert gateway.projection.waiting == 5
    assert [type(command) for command in gateway.projection.take(2)] == [SetGroup, DefineClass]
    taken = [type(command) for command in gateway.projection.take(9)]
    assert taken == [DefineAccess, RegisterTable, Register]
    assert gateway.projection.take(9) == []
