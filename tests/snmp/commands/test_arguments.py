"""Conversion of arguments from texts to values, and of results from values to texts."""

from __future__ import annotations

import pytest

from gateway.feed.operations import InvokeMethod, OperationKind, OperationRecord, OperationState
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.operations import Outcome, Principal
from gateway.model.secrets import SecretRules
from gateway.snmp import ber, message
from gateway.snmp.cells import gauge32, text
from gateway.snmp.commands.assignments import MAX_ARGUMENTS
from gateway.snmp.commands.command import RowStatus, SecretArguments
from gateway.snmp.fixed_mib import (
    CommandArgumentColumn,
    CommandColumn,
    CommandResultColumn,
    OutcomeNumber,
    ValueSyntaxNumber,
)
from gateway.snmp.written_values import Rejected
from tests.snmp.commands.owner import GONE, ORDERS, QUEUE_ENTRY, STRANGER, Command, Table

TO_ORDERS = ".".join(map(str, ORDERS))
ORDERS_LINK = ObjectLink("shop:queue", 7, "orders")


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def move(table: Table) -> Command:
    return Command(table, "move")


def create(move: Command) -> None:
    wait = move.status(RowStatus.CREATE_AND_WAIT)
    assert move.set(wait, move.target(), move.method("move")) is None


def cells(
    value: str | None, status: RowStatus, syntax: ValueSyntaxNumber = ValueSyntaxNumber.TEXT
) -> dict[CommandArgumentColumn, bytes]:
    reported = {
        CommandArgumentColumn.SYNTAX: ber.encode_integer(syntax),
        CommandArgumentColumn.ROW_STATUS: ber.encode_integer(status),
    }
    return reported if value is None else {CommandArgumentColumn.VALUE: text(value)} | reported


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ({"count": "5"}, {"count": 5}),
        ({"1": "5", "2": TO_ORDERS}, {"count": 5, "to": ORDERS_LINK}),
        ({"3": "cut"}, {"mode": 2}),  # what only comes back has no place
        ({"to": f".{TO_ORDERS}"}, {"to": ORDERS_LINK}),
        ({"options": '{"a":[1]}', "password": "quite"}, {"options": {"a": (1,)}, "password": "quite"}),
        ({"colour": "red", "9": "x"}, {"colour": "red", "9": "x"}),  # the core refuses them
    ],
)
def test_arguments_are_given_by_name_or_by_place(
    table: Table, move: Command, arguments: dict[str, str], values: dict[str, FeedValue]
) -> None:
    move.submit(*(move.argument(*each) for each in arguments.items()), method="move")
    assert table.answer().action == InvokeMethod("move", values)


@pytest.mark.parametrize(
    ("arguments", "outcome", "element", "why"),
    [
        ({"count": "many"}, OutcomeNumber.WRONG_TYPE, "count", "count: expected an integer, found 'many'"),
        ({"3": "burn"}, OutcomeNumber.WRONG_VALUE, "mode", "mode: 'burn' is none of copy, cut"),
        ({"to": "orders"}, OutcomeNumber.WRONG_VALUE, "to", "to: 'orders' names no object that is known"),
        ({"to": "1.3.6"}, OutcomeNumber.WRONG_VALUE, "to", "to: '1.3.6' names no object that is known"),
        ({"1": "5", "count": "5"}, OutcomeNumber.WRONG_VALUE, "count", "count: given by name and by place"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_value_ends_the_command_at_once(
    table: Table, move: Command, arguments: dict[str, str], outcome: OutcomeNumber, element: str, why: str
) -> None:
    move.submit(*(move.argument(*each) for each in arguments.items()), method="move")
    assert not table.asked
    reported = move.cells
    assert reported[CommandColumn.STATE] == ber.encode_integer(3)
    assert reported[CommandColumn.OUTCOME] == ber.encode_integer(outcome)
    assert reported[CommandColumn.ELEMENT] == text(element)
    assert reported[CommandColumn.TEXT] == text(why)
    assert reported[CommandColumn.OPERATION_ID] == text("")


def test_json_is_read_as_json(table: Table, move: Command) -> None:
    move.submit(
        move.argument("password", '"a\\nb"'),
        move.argument_syntax("password", ValueSyntaxNumber.JSON),
        move.argument("options", "{"),
        move.argument_syntax("options", ValueSyntaxNumber.TEXT),
        method="move",
    )
    assert move.cells[CommandColumn.ELEMENT] == text("options")
    again = Command(table, "again")
    again.submit(
        again.argument("password", '"a\\nb"'),
        again.argument_syntax("password", ValueSyntaxNumber.JSON),
        method="move",
    )
    assert table.answer().action == InvokeMethod("move", {"password": "a\nb"})


def test_the_core_judges_what_this_process_does_not_know(table: Table) -> None:
    unknown = Command(table, "unknown")
    unknown.submit(unknown.argument("1", "5"), method="burn")
    assert table.answer(Outcome.UNKNOWN_ELEMENT).action == InvokeMethod("burn", {"1": "5"})
    gone = Command(table, "gone")
    go = gone.status(RowStatus.CREATE_AND_GO)
    assert gone.set(gone.target(GONE), gone.method(), go) is None
    assert table.answer(Outcome.OBJECT_GONE).row == 8


def test_a_target_is_in_the_row_of_an_object(move: Command) -> None:
    for instance in [QUEUE_ENTRY, (*ORDERS, 1), (1, 3, 6, 1, 2, 1, 1, 1, 0)]:
        refusal = move.set(move.status(RowStatus.CREATE_AND_WAIT), move.target(instance))
        assert refusal == Rejected(message.INCONSISTENT_VALUE, 2)
    any_column = (*QUEUE_ENTRY, 4711, *ORDERS[-2:])
    assert move.set(move.status(RowStatus.CREATE_AND_WAIT), move.target(any_column)) is None
    assert move.set(move.target((0, 0))) is None


# ---- rows of arguments ------------------------------------------------------------------------------------


def test_a_value_makes_its_row_and_the_command_makes_it_active(move: Command) -> None:
    create(move)
    assert move.set(move.argument("count", "5")) is None
    assert move.argument_cells("count") == cells("5", RowStatus.NOT_IN_SERVICE)
    assert move.set(move.status(RowStatus.ACTIVE)) is None
    assert move.argument_cells("count") == cells("5", RowStatus.ACTIVE)


def test_an_argument_without_a_value_keeps_the_command_back(move: Command) -> None:
    create(move)
    assert move.set(move.argument_syntax("options", ValueSyntaxNumber.JSON)) is None
    assert move.argument_cells("options") == cells(None, RowStatus.NOT_READY, ValueSyntaxNumber.JSON)
    assert move.cells[CommandColumn.ROW_STATUS] == ber.encode_integer(RowStatus.NOT_READY)
    assert move.set(move.status(RowStatus.ACTIVE)) == Rejected(message.INCONSISTENT_VALUE, 1)
    assert move.set(move.argument("options", "{}")) is None
    assert move.set(move.status(RowStatus.ACTIVE)) is None


def test_an_argument_has_a_row_status_of_its_own(table: Table, move: Command) -> None:
    create(move)
    go = move.argument_status("count", RowStatus.CREATE_AND_GO)
    assert move.set(go) == Rejected(message.INCONSISTENT_VALUE, 1)
    assert move.set(move.argument("count", "5"), go) is None
    assert move.argument_cells("count") == cells("5", RowStatus.ACTIVE)
    assert move.set(move.argument("count", "6")) is None
    assert move.set(move.argument_status("to", RowStatus.CREATE_AND_WAIT)) is None
    assert move.argument_cells("to") == cells(None, RowStatus.NOT_READY)
    assert move.set(move.argument_status("to", RowStatus.DESTROY)) is None
    assert move.argument_cells("to") == {}
    both = (move.argument("to", TO_ORDERS), move.argument_status("to", RowStatus.DESTROY))
    assert move.set(*both) == Rejected(message.INCONSISTENT_VALUE, 1)
    assert move.set(move.status(RowStatus.ACTIVE)) is None
    assert table.answer().action == InvokeMethod("move", {"count": 6})


def test_arguments_are_bounded(move: Command) -> None:
    create(move)
    for number in range(MAX_ARGUMENTS):
        assert move.set(move.argument(f"a{number}", "")) is None
    assert move.set(move.argument("one more", "")) == Rejected(message.RESOURCE_UNAVAILABLE, 1)
    assert move.set(move.argument("a0", "again")) is None


def test_arguments_leave_with_their_command(move: Command) -> None:
    create(move)
    assert move.set(move.argument("count", "5")) is None
    assert move.set(move.status(RowStatus.DESTROY)) is None
    assert not move.own_instances()
    create(move)
    assert move.argument_cells("count") == {}


# ---- secrets ----------------------------------------------------------------------------------------------


def test_secrets_are_passed_on_and_never_shown(table: Table, move: Command) -> None:
    create(move)
    assert move.set(move.argument("password", "quite secret"), move.argument("5", "by place")) is None
    assert move.set(move.argument_status("5", RowStatus.DESTROY)) is None
    assert b"secret" not in b"".join(table.instances().values())
    assert move.argument_cells("password") == cells("", RowStatus.NOT_IN_SERVICE)
    assert move.set(move.status(RowStatus.ACTIVE)) is None
    assert table.answer().action == InvokeMethod("move", {"password": "quite secret"})
    assert b"secret" not in b"".join(table.instances().values())
    assert move.set(move.argument("password", "")) is None
    assert move.set(move.argument("password", "quite secret")) == Rejected(message.INCONSISTENT_VALUE, 1)


def test_what_the_mapping_calls_a_secret_is_not_shown_either(table: Table, move: Command) -> None:
    for name in ("from", "6"):
        command = Command(table, name)
        command.submit(command.argument(name, "a safe place"), method="move")
        assert command.argument_cells(name) == cells("", RowStatus.ACTIVE)
    assert move.set(move.status(RowStatus.CREATE_AND_WAIT), move.argument("from", "a safe place")) is None
    assert move.argument_cells("from") == cells("", RowStatus.NOT_IN_SERVICE)
    assert move.set(move.target(), move.method("purge")) is None
    assert move.argument_cells("from") == cells("a safe place", RowStatus.NOT_IN_SERVICE)


def test_what_becomes_a_secret_is_not_shown_any_more(table: Table, move: Command) -> None:
    """Neither of a command that waits, nor of one that has ended; the former still passes it on."""
    ended = Command(table, "ended")
    ended.submit(ended.argument("1", "5"), method="move")
    table.answer()
    create(move)
    assert move.set(move.argument("1", "5")) is None
    assert move.argument_cells("1") == cells("5", RowStatus.NOT_IN_SERVICE)
    assert ended.argument_cells("1") == cells("5", RowStatus.ACTIVE)
    table.table.hide(SecretArguments(SecretRules(["^count$"])))
    assert move.argument_cells("1") == cells("", RowStatus.NOT_IN_SERVICE)
    assert ended.argument_cells("1") == cells("", RowStatus.ACTIVE)
    assert move.set(move.status(RowStatus.ACTIVE)) is None
    assert table.answer().action == InvokeMethod("move", {"count": 5})


def test_a_second_argument_of_a_secrets_name_is_a_secret() -> None:
    """The inventory calls it so, where an agent has two arguments of one name."""
    secrets = SecretArguments(SecretRules(), [("shop:queue", "move", "from")])
    assert secrets.hides("shop:queue", "move", "from_2")
    assert secrets.hides("", "", "from_2")
    assert not secrets.hides("shop:queue", "move", "from_all")
    assert not secrets.hides("shop:queue", "purge", "from_2")


def test_an_error_does_not_report_a_secret(table: Table, move: Command) -> None:
    move.submit(
        move.argument("password", '"hunter2'),
        move.argument_syntax("password", ValueSyntaxNumber.JSON),
        method="move",
    )
    assert move.cells[CommandColumn.TEXT] == text("password: what is given cannot be read")
    assert not table.asked


def test_what_may_be_a_secret_is_not_shown_while_that_is_not_known(move: Command) -> None:
    assert move.set(move.status(RowStatus.CREATE_AND_WAIT), move.argument("5", "what?")) is None
    assert move.argument_cells("5") == cells("", RowStatus.NOT_IN_SERVICE)
    assert move.set(move.argument("1", "5"), move.target(), move.method("move")) is None
    assert move.argument_cells("5") == cells("", RowStatus.NOT_IN_SERVICE)
    assert move.argument_cells("1") == cells("5", RowStatus.NOT_IN_SERVICE)
    assert move.set(move.argument("password", "5" * 9)) is None
    assert move.set(move.status(RowStatus.ACTIVE)) is None
    assert move.cells[CommandColumn.TEXT] == text("password: given by name and by place")


# ---- results ----------------------------------------------------------------------------------------------


def test_what_the_method_gave_back_is_shown(table: Table, move: Command) -> None:
    move.submit(method="move")
    left = ObjectLink("shop:queue", 9, "rest")
    table.answer(values={"moved": 5, "options": {"a": (1, b"\xff")}, "left": left})
    length, syntax = CommandResultColumn.LENGTH, CommandResultColumn.SYNTAX
    assert move.result_cells(1) == {
        CommandResultColumn.NAME: text("moved"),
        CommandResultColumn.VALUE: text("5"),
        syntax: ber.encode_integer(ValueSyntaxNumber.TEXT),
        length: gauge32(1),
    }
    assert move.result_cells(2) == {
        CommandResultColumn.NAME: text("options"),
        CommandResultColumn.VALUE: text('{"a":[1,"ff"]}'),
        syntax: ber.encode_integer(ValueSyntaxNumber.JSON),
        length: gauge32(14),
    }
    assert move.result_cells(3) == {
        CommandResultColumn.NAME: text("left"),
        CommandResultColumn.VALUE: text("rest"),
        syntax: ber.encode_integer(ValueSyntaxNumber.TEXT),
        length: gauge32(4),
        CommandResultColumn.ROW: ber.encode_oid((*QUEUE_ENTRY, 2, 1, 9)),
    }
    assert move.result_cells(4) == {}
    assert move.set(move.status(RowStatus.DESTROY)) is None
    assert not move.own_instances()


def test_long_text_is_cut_and_long_json_left_out(table: Table, move: Command) -> None:
    move.submit(method="move")
    table.answer(values={"a": "é" * 4000, "b": ("x" * 5000,)})
    assert move.result_cells(1)[CommandResultColumn.VALUE] == ber.encode_octets("é".encode() * 2048)
    assert move.result_cells(1)[CommandResultColumn.LENGTH] == gauge32(8000)
    assert move.result_cells(2)[CommandResultColumn.VALUE] == text("")
    assert move.result_cells(2)[CommandResultColumn.LENGTH] == gauge32(5004)


def test_an_unknown_outcome_is_replaced_when_it_gets_known(table: Table, move: Command) -> None:
    def record(operation_id: str, state: OperationState, outcome: Outcome | None) -> OperationRecord:
        who = Principal("snmp", "anna")
        return OperationRecord(
            *(1, operation_id, OperationKind.INVOKE, state, who, 1, "shop:queue", 7, "orders", "orders"),
            outcome=outcome,
            text="late",
            found={"moved": 5},
        )

    move.submit(method="move")
    table.answer(Outcome.UNKNOWN, text="no answer")
    unknown = ber.encode_integer(OutcomeNumber.UNKNOWN)
    ended = move.cells[CommandColumn.ENDED]
    for reported in [
        record("gw.1.o2", OperationState.SETTLED, Outcome.APPLIED),
        record("gw.1.o1", OperationState.ENDED, Outcome.UNKNOWN),
    ]:
        table.table.operation_changed(reported)
        assert move.cells[CommandColumn.OUTCOME] == unknown
    table.table.operation_changed(record("gw.1.o1", OperationState.SETTLED, Outcome.APPLIED))
    assert move.cells[CommandColumn.OUTCOME] == ber.encode_integer(OutcomeNumber.APPLIED)
    assert move.cells[CommandColumn.TEXT] == text("late")
    assert move.cells[CommandColumn.ENDED] == ended
    assert move.result_cells(1)[CommandResultColumn.VALUE] == text("5")
    table.table.operation_changed(record("gw.1.o1", OperationState.SETTLED, Outcome.NOT_APPLIED))
    assert move.cells[CommandColumn.OUTCOME] == ber.encode_integer(OutcomeNumber.APPLIED)


@pytest.mark.parametrize("value", ["7", "abc"])
def test_a_command_for_a_row_that_is_hidden_is_like_one_for_a_row_that_is_gone(value: str) -> None:
    ends = []
    for row in (ORDERS, GONE):
        table = Table()
        move = Command(table, "move", STRANGER)
        wait = move.status(RowStatus.CREATE_AND_WAIT)
        assert move.set(wait, move.target(row), move.method("move"), move.argument("1", value)) is None
        prepared = move.argument_cells("1")
        assert prepared[CommandArgumentColumn.VALUE] == text("")
        assert move.set(move.status(RowStatus.ACTIVE)) is None
        assert table.reports == []
        request = table.answer(Outcome.OBJECT_GONE, text="there is no such object")
        cells = move.cells
        assert cells.pop(CommandColumn.TARGET) == ber.encode_oid(row)
        asked = (request.class_name, request.action, request.stable_name, request.ends)
        ends.append((prepared, move.argument_cells("1"), cells, asked))
        assert request.row == row[-1], "the core finds it for the true record"
    assert ends[0] == ends[1]
