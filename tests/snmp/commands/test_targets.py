"""The targets of the object identifiers that owners write."""

from __future__ import annotations

from gateway.snmp.ber import Oid
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.tables.classes import Target
from tests.components.shop import agent, hall, source
from tests.snmp.mib.shop import HALL, HALL_ENTRY, ROOT, TILL, TILL_ENTRY, Gateway, classes, end, till


def shop() -> Gateway:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(1))
    return gateway


def target(gateway: Gateway, *instance: Oid) -> Target | None:
    return gateway.projection.target(tuple(arc for part in instance for arc in part))


def test_any_instance_of_a_row_is_its_object() -> None:
    gateway = shop()
    assert target(gateway, TILL_ENTRY, (RowColumn.NAME, 1, 1)) == Target(
        1, "shop:till", 1, TILL, "hall1/till1", ends=0
    )
    assert target(gateway, TILL_ENTRY, (107, 1, 1)) == Target(1, "shop:till", 1, TILL, "hall1/till1", ends=0)
    assert target(gateway, HALL_ENTRY, (4711, 1, 1)) == Target(1, "shop:hall", 1, HALL, "hall1", ends=0)


def test_of_an_object_that_is_not_there_the_place_is_known() -> None:
    gateway = shop()
    gateway.publish(end(11, 1))
    for row in (1, 2, 2**32 - 1):
        assert target(gateway, TILL_ENTRY, (RowColumn.NAME, 1, row)) == Target(1, "shop:till", row)
    assert target(gateway, TILL_ENTRY, (RowColumn.NAME, 9, 1)) == Target(9, "shop:till", 1)


def test_everything_else_is_no_object() -> None:
    gateway = shop()
    for instance in [
        (),
        (0, 0),
        ROOT,
        TILL_ENTRY,
        (*TILL_ENTRY, RowColumn.NAME),
        (*TILL_ENTRY, RowColumn.NAME, 1),
        (*TILL_ENTRY, RowColumn.NAME, 1, 1, 1),
        (*ROOT, 1, 2, 1, RowColumn.NAME, 1, 1),
    ]:
        assert target(gateway, instance) is None
    assert Gateway().projection.target((*TILL_ENTRY, RowColumn.NAME, 1, 1)) is None
