"""Commands whose answer was lost, with the core or its connection, take the state of their operation."""

from __future__ import annotations

import pytest

from gateway.feed.operations import OperationAnswer, OperationKind, OperationRecord, OperationState
from gateway.model.operations import Outcome, Principal
from gateway.snmp import ber
from gateway.snmp.commands.command import RowStatus
from gateway.snmp.fixed_mib import CommandColumn, OutcomeNumber
from tests.snmp.commands.owner import START, Command, Table

UNANSWERED = OperationAnswer(0, "", Outcome.UNKNOWN, "the gateway's core ended")


def record(
    state: OperationState, outcome: Outcome | None = None, reference: str = "set1.c0", text: str = ""
) -> OperationRecord:
    return OperationRecord(
        7,
        "gw.1.o7",
        OperationKind.INVOKE,
        state,
        Principal("snmp", "anna"),
        1,
        "shop:queue",
        7,
        "orders",
        "orders",
        method="purge",
        outcome=outcome,
        text=text,
        found={"purged": 3} if outcome is Outcome.APPLIED else {},
        began=START,
        reference=reference,
    )


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def purge(table: Table) -> Command:
    command = Command(table)
    command.submit()
    return command


def outcome_of(command: Command) -> Outcome:
    shown = command.cells[CommandColumn.OUTCOME]
    return Outcome[OutcomeNumber(ber.read_integer(shown, 0, len(shown))[0]).name]


def test_the_operation_is_named_although_no_answer_came(table: Table, purge: Command) -> None:
    table.table.operation_changed(record(OperationState.BEGUN))
    table.table.answered(1, UNANSWERED)
    assert outcome_of(purge) is Outcome.UNKNOWN
    assert purge.cells[CommandColumn.OPERATION_ID] == ber.encode_octets(b"gw.1.o7")
    assert purge.cells[CommandColumn.TEXT] == ber.encode_octets(b"the gateway's core ended")


def test_what_came_of_it_may_be_reported_before_the_connection_ends(table: Table, purge: Command) -> None:
    table.table.operation_changed(record(OperationState.BEGUN))
    table.table.operation_changed(record(OperationState.ENDED, Outcome.APPLIED, text="OK"))
    table.table.answered(1, UNANSWERED)
    assert outcome_of(purge) is Outcome.APPLIED
    assert purge.cells[CommandColumn.TEXT] == ber.encode_octets(b"OK")
    assert purge.result_cells(1)


@pytest.mark.parametrize("state", [OperationState.ENDED, OperationState.SETTLED])
def test_what_came_of_it_may_be_reported_afterwards(
    table: Table, purge: Command, state: OperationState
) -> None:
    table.table.operation_changed(record(OperationState.BEGUN))
    table.table.answered(1, UNANSWERED)
    table.table.operation_changed(record(state, Outcome.REMOTE_FAILURE))
    assert outcome_of(purge) is Outcome.REMOTE_FAILURE


def test_the_next_core_reports_it_by_its_id_only(table: Table, purge: Command) -> None:
    table.table.operation_changed(record(OperationState.BEGUN))
    table.table.answered(1, UNANSWERED)
    table.table.operation_changed(record(OperationState.ENDED, Outcome.UNKNOWN, reference=""))
    assert outcome_of(purge) is Outcome.UNKNOWN
    table.table.operation_changed(record(OperationState.SETTLED, Outcome.APPLIED, reference=""))
    assert outcome_of(purge) is Outcome.APPLIED


def test_what_is_settled_before_the_answer_arrives_counts(table: Table, purge: Command) -> None:
    table.table.operation_changed(record(OperationState.ENDED, Outcome.UNKNOWN))
    table.table.operation_changed(record(OperationState.SETTLED, Outcome.APPLIED))
    table.table.answered(1, OperationAnswer(0, "gw.1.o7", Outcome.UNKNOWN))
    assert outcome_of(purge) is Outcome.APPLIED


@pytest.mark.parametrize("reference", ["", "1", "set1.c1", "set2.c0", "set1", "earlier.1"])
def test_operations_of_others_say_nothing_of_it(table: Table, purge: Command, reference: str) -> None:
    table.table.operation_changed(record(OperationState.ENDED, Outcome.APPLIED, reference=reference))
    table.table.answered(1, UNANSWERED)
    assert outcome_of(purge) is Outcome.UNKNOWN
    assert purge.cells[CommandColumn.OPERATION_ID] == ber.encode_octets(b"")


def test_what_was_refused_leads_to_its_record_too(table: Table, purge: Command) -> None:
    table.table.operation_changed(record(OperationState.ENDED, Outcome.REFUSED))
    table.table.answered(1, OperationAnswer(0, "", Outcome.REFUSED, "not allowed"))
    assert outcome_of(purge) is Outcome.REFUSED
    assert purge.cells[CommandColumn.OPERATION_ID] == ber.encode_octets(b"gw.1.o7")
    assert purge.cells[CommandColumn.TEXT] == ber.encode_octets(b"not allowed")


def test_a_row_that_was_destroyed_stays_away(table: Table, purge: Command) -> None:
    table.table.operation_changed(record(OperationState.BEGUN))
    purge.set(purge.status(RowStatus.DESTROY))
    table.table.answered(1, UNANSWERED)
    table.table.operation_changed(record(OperationState.ENDED, Outcome.APPLIED))
    assert not purge.is_there
    assert table.table.health.ended == {Outcome.UNKNOWN: 1}
    assert (table.table.health.rows, table.table.health.running) == (0, 0)
