"""Operations that have ended: notifications, and the attributes about the last ones."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.feed.latest import HistoryLimits
from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.jmx import own_beans
from gateway.jmx.audience import WHOLE
from gateway.jmx.commands import AttributeType, Varying
from gateway.jmx.notifications import MAX_SENT, OperationCursor
from gateway.jmx.objects import SHOWN_OPERATIONS, LastOperations, Target
from gateway.model.operations import Outcome
from gateway.model.times import SECOND
from tests.components.shop import START, agent, source
from tests.jmx.shop import GATEWAY, SAFE_NAME, Gateway, operation, safe

LINE = "applied: set limit by jmx:monitor at 2023-11-14T22:13:21.000Z (code 0) [7b0c.1.o1]"
BEGUN: dict[str, Any] = {"state": OperationState.BEGUN, "outcome": None, "ended": 0}
UNKNOWN: dict[str, Any] = {"outcome": Outcome.UNKNOWN, "text": "no answer"}
SETTLED: dict[str, Any] = {"state": OperationState.SETTLED}


@pytest.fixture
def gateway() -> Gateway:
    """A synchronised source with a safe."""
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), agent(fresh=True), *safe())
    return gateway


def reported(gateway: Gateway) -> list[tuple[object, object]]:
    """Return number and outcome of each operation of which clients were notified."""
    data = [{name: value for name, _, value in emit.data} for _, emit in gateway.machine.emitted]
    return [(str(item["operationId"]).rpartition("o")[2], item["outcome"]) for item in data]


def test_an_operation_that_ended_is_reported_by_the_gateway(gateway: Gateway) -> None:
    gateway.publish(operation(**BEGUN))
    assert gateway.machine.emitted == []
    gateway.publish(operation())
    ((emitters, emit),) = gateway.machine.emitted
    assert emitters == (GATEWAY,)
    assert (emit.type, emit.message, emit.time, emit.sequence) == (
        "amqp.gateway.operation.set",
        f"safe1: {LINE}",
        START + SECOND,
        1,
    )
    assert emit.data == (
        ("operationId", AttributeType.STRING, "7b0c.1.o1"),
        ("kind", AttributeType.STRING, "set"),
        ("state", AttributeType.STRING, "ended"),
        ("outcome", AttributeType.STRING, "applied"),
        ("principal", AttributeType.STRING, "jmx:monitor"),
        ("origin", AttributeType.STRING, "127.0.0.1"),
        ("source", AttributeType.STRING, "shop1"),
        ("class", AttributeType.STRING, "shop:safe"),
        ("object", AttributeType.STRING, "safe1"),
        ("objectName", AttributeType.OBJECT_NAME, SAFE_NAME),
        ("method", AttributeType.STRING, None),
        ("values", AttributeType.MAP, (("limit", "7"),)),
        ("former", AttributeType.MAP, (("limit", "5"),)),
        ("found", AttributeType.MAP, (("limit", "7"),)),
        ("element", AttributeType.STRING, None),
        ("code", AttributeType.LONG, 0),
        ("text", AttributeType.STRING, ""),
        ("began", AttributeType.DATE, START),
        ("ended", AttributeType.DATE, START + SECOND),
        ("attempts", AttributeType.LONG, 1),
    )


def test_an_operation_on_what_is_not_there_is_reported_too(gateway: Gateway) -> None:
    gateway.publish(operation(row=0, stable_name="", source=9, kind=OperationKind.INVOKE, method="empty"))
    ((_, emit),) = gateway.machine.emitted
    data = {name: value for name, _, value in emit.data}
    assert emit.type == "amqp.gateway.operation.invoke"
    assert (data["source"], data["object"], data["objectName"], data["method"]) == (None, None, None, "empty")


def test_what_is_to_have_no_value_is_named(gateway: Gateway) -> None:
    gateway.publish(operation(values={}, absent=("label",)))
    assert "applied: set label by" in str(gateway.machine.read(SAFE_NAME)["LastOperation"])


def test_the_gateway_says_which_notices_it_sends() -> None:
    types = {notification.type for notification in own_beans.GATEWAY.notifications}
    assert {f"amqp.gateway.operation.{kind.value}" for kind in OperationKind} <= types


def test_the_object_and_the_gateway_report_the_last_operations(gateway: Gateway) -> None:
    gateway.publish(operation(**UNKNOWN))
    assert "unknown: set limit" in str(gateway.machine.read(SAFE_NAME)["LastOperation"])
    gateway.publish(operation(**SETTLED))
    assert gateway.machine.read(SAFE_NAME)["LastOperation"] == LINE
    # At the same time: the MBean of the gateway does not wait for the next second.
    assert gateway.machine.read(GATEWAY)["LastOperations"] == (f"{LINE} shop:safe safe1",)


def test_the_object_and_the_gateway_agree_when_the_object_comes_after_the_operation() -> None:
    gateway = Gateway()
    gateway.hello()
    classes, *objects = safe()
    gateway.snapshot(source(), agent(fresh=True), classes, operation())
    assert gateway.machine.read(GATEWAY)["LastOperations"] == (f"{LINE} shop:safe safe1",)
    gateway.publish(*objects)
    assert gateway.machine.read(SAFE_NAME)["LastOperation"] == LINE
    assert gateway.machine.read(GATEWAY)["LastOperations"] == (f"{LINE} shop:safe safe1",)


def test_an_object_reported_again_keeps_its_last_operation(gateway: Gateway) -> None:
    gateway.publish(operation())
    gateway.snapshot(source(), agent(fresh=True), *safe())
    assert gateway.machine.read(SAFE_NAME)["LastOperation"] == LINE


def test_what_is_reported_of_an_operation_after_its_end_is_passed_on_once(gateway: Gateway) -> None:
    gateway.publish(operation(**UNKNOWN), operation(**UNKNOWN), operation(**SETTLED), operation(**SETTLED))
    gateway.publish(operation(**UNKNOWN))
    assert reported(gateway) == [("1", "unknown"), ("1", "applied")]


def test_what_a_later_snapshot_repeats_is_reported_if_it_was_missed(gateway: Gateway) -> None:
    gateway.publish(operation(1), operation(2, **BEGUN))
    gateway.snapshot(source(), agent(fresh=True), *safe(), operation(1), operation(2), operation(3))
    assert reported(gateway) == [("1", "applied"), ("2", "applied"), ("3", "applied")]


def test_what_ended_before_there_was_a_listener_is_shown_and_not_notified() -> None:
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), agent(fresh=True), *safe(), operation())
    assert reported(gateway) == []
    assert gateway.machine.read(SAFE_NAME)["LastOperation"] == LINE
    gateway.publish(operation(2))
    assert reported(gateway) == [("2", "applied")]


def test_another_virtual_machine_is_not_sent_it_again_and_a_new_core_numbers_again(gateway: Gateway) -> None:
    gateway.publish(operation())
    later = Gateway(cursor=gateway.cursor, operations=gateway.operations)
    later.hello()
    later.snapshot(source(), agent(fresh=True), *safe(), operation())
    assert reported(later) == []
    later.disconnect()
    later.hello(epoch=2)
    later.snapshot(source(), agent(fresh=True), *safe(), operation(operation_id="7b0c.2.o1"))
    assert reported(later) == [("1", "applied")]


@pytest.mark.parametrize("before", [UNKNOWN, {}, SETTLED])
def test_what_several_cores_give_up_is_reported_once(gateway: Gateway, before: dict[str, Any]) -> None:
    """A core that is killed before the end of an operation is in the log leaves the end to the next one."""
    gateway.publish(operation(7, **before))
    for epoch in (2, 3):
        gateway.disconnect()
        gateway.hello(epoch=epoch)
        given_up = operation(epoch, operation_id="7b0c.1.o7", outcome=Outcome.UNKNOWN, text="its core ended")
        own = operation(1, operation_id=f"7b0c.{epoch}.o1")
        gateway.snapshot(source(), agent(fresh=True), *safe(), own, given_up)
    outcome = before.get("outcome", Outcome.APPLIED).value
    assert reported(gateway) == [("7", outcome), ("1", "applied"), ("1", "applied")]


def everybody(_record: OperationRecord) -> tuple[int, ...]:
    """Show an operation to the one user."""
    return (WHOLE,)


def recent(last: LastOperations) -> tuple[str, ...]:
    shown = last.recent(everybody, 1)
    assert isinstance(shown, Varying)
    (lines,) = shown.values
    assert isinstance(lines, tuple)
    return tuple(map(str, lines))


def test_what_is_remembered_is_bounded() -> None:
    cursor = OperationCursor()
    cursor.snapshot_ended()
    assert all(cursor.is_new(1, operation(number), repeated=False) for number in range(1, MAX_SENT + 3))
    assert not any(cursor.is_new(1, operation(number), repeated=True) for number in (1, 2, 3, MAX_SENT))
    last = LastOperations(HistoryLimits(operations=2))
    changed = [last.add(operation(row, row=row)) for row in (*range(1, SHOWN_OPERATIONS + 1), 1, 200)]
    rows = [[target.row for target in targets] for targets in changed]
    assert rows[-2:] == [[1], [200, 2]]
    assert last.of(Target(1, "shop:safe", 2), everybody) is None
    for number in range(2 * SHOWN_OPERATIONS):
        last.add(operation(number))
    assert len(recent(last)) == SHOWN_OPERATIONS
    assert f"o{2 * SHOWN_OPERATIONS - 1}]" in recent(last)[0]


def test_each_operation_among_the_last_ones_has_its_objects_line_too_where_the_history_is_short() -> None:
    last = LastOperations(HistoryLimits(operations=10))
    for row in range(1, 12):
        last.add(operation(row, row=row))
    assert "o1]" in recent(last)[-1]
    assert last.of(Target(1, "shop:safe", 1), everybody) is not None


def test_an_operation_that_is_settled_after_many_others_is_new() -> None:
    cursor = OperationCursor()
    cursor.snapshot_ended()
    unknown = operation(1, outcome=Outcome.UNKNOWN)
    assert cursor.is_new(1, unknown, repeated=False)
    assert all(cursor.is_new(1, operation(number), repeated=False) for number in range(2, MAX_SENT + 10))
    settled = operation(1, state=OperationState.SETTLED, outcome=Outcome.APPLIED)
    assert cursor.is_new(1, settled, repeated=False)
    assert not cursor.is_new(1, settled, repeated=False)


def test_a_source_with_many_operations_leaves_the_lines_of_others() -> None:
    last = LastOperations(HistoryLimits(operations=2))
    last.add(operation(1, source=2))
    for number in range(2, SHOWN_OPERATIONS + 10):
        last.add(operation(number, row=number))
    assert last.of(Target(2, "shop:safe", 1), everybody) is not None
    assert "o1]" in recent(last)[-1]
    assert len(recent(last)) == SHOWN_OPERATIONS + 1


def test_values_that_are_nested_too_deeply_are_left_out(gateway: Gateway) -> None:
    nested: tuple[object, ...] = ()
    for _ in range(100_000):
        nested = (nested,)
    gateway.publish(operation(values={"limit": nested}))
    ((_, emit),) = gateway.machine.emitted
    assert {name: value for name, _, value in emit.data}["values"] is None
