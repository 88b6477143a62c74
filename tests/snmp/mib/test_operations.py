"""Changes of agOperationTable by the records of operations in the feed."""

from __future__ import annotations

import msgspec
import pytest

from gateway.feed.latest import HistoryLimits
from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.model.operations import Outcome, Principal
from gateway.model.times import SECOND
from gateway.snmp import ber
from gateway.snmp.cells import date_and_time
from gateway.snmp.fixed_mib import (
    OPERATION_ENTRY,
    OPERATIONS,
    OperationColumn,
    OperationKindNumber,
    OperationScalar,
    OperationStateNumber,
    OutcomeNumber,
)
from gateway.snmp.row_columns import RowColumn
from tests.components.shop import START, agent, hall, source
from tests.snmp.mib.shop import ROOT, TILL_ENTRY, Gateway, classes, till

MAX_ROWS = HistoryLimits().operations
ENTRY = (*ROOT, *OPERATION_ENTRY)
KNOWN = (source(), *classes(), agent(fresh=True), hall(), till(1))
BEGUN = OperationRecord(
    number=5,
    operation_id="7b0c.1.o5",
    kind=OperationKind.SET,
    state=OperationState.BEGUN,
    principal=Principal("snmp", "operator", "192.0.2.1:40000"),
    source=1,
    class_name="shop:till",
    row=1,
    stable_name="hall1/till1",
    leaf_name="till1",
    values={"note": "at the back"},
    absent=("label",),
    began=START,
)
ENDED = msgspec.structs.replace(
    BEGUN,
    state=OperationState.ENDED,
    previous={"note": "by the door"},
    found={"note": "by the window"},
    outcome=Outcome.APPLIED_DIFFERENTLY,
    element="note",
    code=0,
    text="another value was found",
    ended=START + SECOND,
)


def text(value: str) -> bytes:
    return ber.encode_octets(value.encode())


@pytest.fixture
def gateway() -> Gateway:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(*KNOWN)
    return gateway


def row(gateway: Gateway, index: int = 5) -> dict[int, bytes]:
    return {column: tlv for (column, place), tlv in gateway.walk(ENTRY).items() if place == index}


def indexes(gateway: Gateway) -> list[int]:
    return sorted({index for _, index in gateway.walk(ENTRY)})


def scalar(gateway: Gateway, which: OperationScalar) -> bytes | None:
    return gateway.cell((*ROOT, *OPERATIONS), which, 0)


def test_an_operation_is_shown_while_it_is_under_way(gateway: Gateway) -> None:
    gateway.publish(BEGUN)
    shown = row(gateway)
    assert shown[OperationColumn.STATE] == ber.encode_integer(OperationStateNumber.BEGUN)
    assert set(OperationColumn) - shown.keys() == {
        OperationColumn.OUTCOME,
        OperationColumn.CODE,
        OperationColumn.ENDED,
        OperationColumn.DURATION,
        OperationColumn.DURATION_MILLISECONDS,
    }


def test_what_came_of_it_is_reported_with_the_values_found(gateway: Gateway) -> None:
    gateway.publish(BEGUN, ENDED)
    assert row(gateway) == {
        OperationColumn.ID: text("7b0c.1.o5"),
        OperationColumn.PRINCIPAL: text("snmp:operator"),
        OperationColumn.ORIGIN: text("192.0.2.1:40000"),
        OperationColumn.SOURCE: ber.encode_integer(1),
        OperationColumn.CLASS: text("shop:till"),
        OperationColumn.NAME: text("till1"),
        OperationColumn.FULL_NAME: text("hall1/till1"),
        OperationColumn.ROW: ber.encode_oid((*TILL_ENTRY, RowColumn.NAME, 1, 1)),
        OperationColumn.KIND: ber.encode_integer(OperationKindNumber.SET),
        OperationColumn.METHOD: text(""),
        OperationColumn.VALUES: text('{"label":null,"note":"at the back"}'),
        OperationColumn.STATE: ber.encode_integer(OperationStateNumber.ENDED),
        OperationColumn.OUTCOME: ber.encode_integer(OutcomeNumber.APPLIED_DIFFERENTLY),
        OperationColumn.ELEMENT: text("note"),
        OperationColumn.CODE: ber.encode_integer(0),
        OperationColumn.TEXT: text("another value was found"),
        OperationColumn.BEGAN: date_and_time(START),
        OperationColumn.ENDED: date_and_time(START + SECOND),
        OperationColumn.DURATION: ber.encode_counter64(SECOND),
        OperationColumn.FORMER: text('{"note":"by the door"}'),
        OperationColumn.FOUND: text('{"note":"by the window"}'),
        OperationColumn.DURATION_MILLISECONDS: ber.encode_gauge32(1_000),
    }
    assert scalar(gateway, OperationScalar.TOLD) == ber.encode_counter64(1)
    assert scalar(gateway, OperationScalar.LAST) == ber.encode_integer(5)


def test_an_object_that_there_is_not_has_no_row(gateway: Gateway) -> None:
    gateway.publish(
        msgspec.structs.replace(ENDED, class_name="shop:none", row=0, source=0, stable_name="", leaf_name="")
    )
    assert row(gateway)[OperationColumn.ROW] == ber.encode_oid((0, 0))


def test_values_that_are_too_long_are_left_out(gateway: Gateway) -> None:
    gateway.publish(msgspec.structs.replace(ENDED, found={"note": "x" * 1_020}))
    assert row(gateway)[OperationColumn.FOUND] == text("")


def test_the_oldest_row_leaves_when_there_are_too_many(gateway: Gateway) -> None:
    gateway.publish(*(msgspec.structs.replace(ENDED, number=number) for number in range(1, MAX_ROWS + 11)))
    assert indexes(gateway) == list(range(11, MAX_ROWS + 11))
    assert scalar(gateway, OperationScalar.COUNT) == ber.encode_gauge32(MAX_ROWS)


def test_a_source_with_many_operations_leaves_those_of_others(gateway: Gateway) -> None:
    refused = msgspec.structs.replace(ENDED, source=0, number=1, class_name="", row=0)
    gateway.publish(msgspec.structs.replace(ENDED, number=2), refused)
    gateway.publish(*(msgspec.structs.replace(refused, number=number) for number in range(3, MAX_ROWS + 3)))
    assert indexes(gateway) == list(range(2, MAX_ROWS + 3))


def test_after_a_restart_of_the_core_a_number_is_another_operation(gateway: Gateway) -> None:
    gateway.publish(*(msgspec.structs.replace(ENDED, number=number) for number in range(1, MAX_ROWS + 1)))
    gateway.hello(epoch=2)
    again = msgspec.structs.replace(ENDED, number=1, operation_id="7b0c.2.o1", text="of the next core")
    gateway.snapshot(*KNOWN, again, msgspec.structs.replace(again, number=2, operation_id="7b0c.2.o2"))
    assert scalar(gateway, OperationScalar.LAST) == ber.encode_integer(2)
    assert scalar(gateway, OperationScalar.TOLD) == ber.encode_counter64(MAX_ROWS + 2)
    gateway.settle()
    assert indexes(gateway) == [1, 2]
    assert row(gateway, 1)[OperationColumn.TEXT] == text("of the next core")


def test_after_a_snapshot_what_it_did_not_report_is_gone(gateway: Gateway) -> None:
    gateway.publish(*(msgspec.structs.replace(ENDED, number=number) for number in range(1, 201)))
    gateway.hello(epoch=2)
    gateway.snapshot(*KNOWN, msgspec.structs.replace(ENDED, number=7))
    assert gateway.projection.tick()
    gateway.settle()
    assert indexes(gateway) == [7]
