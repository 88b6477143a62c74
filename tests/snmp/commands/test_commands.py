"""Commands as their owners set them, one exchange of requests each."""

from __future__ import annotations

import msgspec
import pytest

from gateway.feed.operations import InvokeMethod, OperationRequest
from gateway.model.operations import Outcome, Principal
from gateway.model.times import SECOND
from gateway.snmp import ber, message
from gateway.snmp.cells import date_and_time
from gateway.snmp.commands.command import RowStatus
from gateway.snmp.fixed_mib import (
    COMMANDS,
    CommandArgumentColumn,
    CommandColumn,
    CommandScalar,
    OutcomeNumber,
)
from gateway.snmp.written_values import Rejected
from tests.snmp.commands.owner import DEADLINE, GONE, ORDERS, ROOT, START, Command, Table

NOT_READY = ber.encode_integer(RowStatus.NOT_READY)
NOT_IN_SERVICE = ber.encode_integer(RowStatus.NOT_IN_SERVICE)
ACTIVE = ber.encode_integer(RowStatus.ACTIVE)
PREPARING, RUNNING, ENDED = (ber.encode_integer(number) for number in (1, 2, 3))
PURGE = OperationRequest(
    0,
    Principal("snmp", "anna", "192.0.2.1:40000"),
    source=1,
    class_name="shop:queue",
    row=7,
    action=InvokeMethod("purge"),
    timeout=DEADLINE,
    reference="set1.c0",
    ends=5,
    stable_name="orders",
)


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def purge(table: Table) -> Command:
    return Command(table, "purge")


def test_one_set_creates_and_submits(table: Table, purge: Command) -> None:
    assert purge.set(purge.target(), purge.method(), purge.status(RowStatus.CREATE_AND_GO)) is None
    assert list(table.asked.values()) == [PURGE]
    assert purge.cells == {
        CommandColumn.TARGET: ber.encode_oid(ORDERS),
        CommandColumn.METHOD: ber.encode_octets(b"purge"),
        CommandColumn.TIMEOUT: ber.encode_gauge32(0),
        CommandColumn.ROW_STATUS: ACTIVE,
        CommandColumn.STATE: RUNNING,
        CommandColumn.SUBMITTED: date_and_time(START),
    }


def test_a_command_is_for_the_life_that_its_object_had_when_its_target_was_set(
    table: Table, purge: Command
) -> None:
    assert purge.set(purge.target(), purge.status(RowStatus.CREATE_AND_WAIT)) is None
    table.queues.ends = 8  # others have ended
    assert purge.set(purge.method()) is None
    # The object ends, and another one gets its name.
    table.queues.life = table.queues.ends = 9
    assert purge.set(purge.status(RowStatus.ACTIVE)) is None
    assert table.asked == {}
    assert purge.cells[CommandColumn.OUTCOME] == ber.encode_integer(OutcomeNumber.OBJECT_GONE)
    assert b"another one has its name now" in purge.cells[CommandColumn.TEXT]

    # The core may know of an end that is not known here yet.
    again = Command(table, "again")
    assert again.set(again.target(), again.method(), again.status(RowStatus.CREATE_AND_WAIT)) is None
    table.queues.ends = 20
    assert again.set(again.status(RowStatus.ACTIVE)) is None
    assert [request.ends for request in table.asked.values()] == [9]


def test_a_target_that_is_set_again_is_for_the_present_life(table: Table, purge: Command) -> None:
    assert purge.set(purge.target(), purge.method(), purge.status(RowStatus.CREATE_AND_WAIT)) is None
    table.queues.life = table.queues.ends = 9
    assert purge.set(purge.target()) is None
    assert purge.set(purge.status(RowStatus.ACTIVE)) is None
    assert [request.ends for request in table.asked.values()] == [9]


def test_the_outcome_is_reported_when_it_comes(table: Table, purge: Command) -> None:
    purge.submit()
    table.after(3)
    table.answer(Outcome.REMOTE_FAILURE, text="no such queue", code=7, element="purge")
    assert purge.cells == {
        CommandColumn.TARGET: ber.encode_oid(ORDERS),
        CommandColumn.METHOD: ber.encode_octets(b"purge"),
        CommandColumn.TIMEOUT: ber.encode_gauge32(0),
        CommandColumn.ROW_STATUS: ACTIVE,
        CommandColumn.STATE: ENDED,
        CommandColumn.OUTCOME: ber.encode_integer(OutcomeNumber.REMOTE_FAILURE),
        CommandColumn.TEXT: ber.encode_octets(b"no such queue"),
        CommandColumn.ELEMENT: ber.encode_octets(b"purge"),
        CommandColumn.CODE: ber.encode_integer(7),
        CommandColumn.SUBMITTED: date_and_time(START),
        CommandColumn.ENDED: date_and_time(START + 3 * SECOND),
        CommandColumn.EXPIRES: date_and_time(START + 63 * SECOND),
        CommandColumn.OPERATION_ID: ber.encode_octets(b"gw.1.o1"),
    }


def test_the_order_within_a_set_does_not_matter(table: Table) -> None:
    move = Command(table)
    parts = [
        move.argument("count", "5"),
        move.status(RowStatus.CREATE_AND_GO),
        move.method("move"),
        move.argument("mode", "cut"),
        move.target(),
    ]
    assert move.set(*parts) is None
    assert table.answer().action == InvokeMethod("move", {"count": 5, "mode": 2})
    again = Command(table, "again")
    parts = [again.target(), again.argument("mode", "cut"), again.argument("count", "5")]
    assert again.set(*parts, again.method("move"), again.status(RowStatus.CREATE_AND_GO)) is None
    assert table.answer().action == InvokeMethod("move", {"count": 5, "mode": 2})


def test_step_by_step_a_row_is_not_ready_until_it_is_complete(table: Table, purge: Command) -> None:
    assert purge.set(purge.status(RowStatus.CREATE_AND_WAIT)) is None
    assert purge.cells == {
        CommandColumn.TARGET: ber.encode_oid((0, 0)),
        CommandColumn.METHOD: ber.encode_octets(b""),
        CommandColumn.TIMEOUT: ber.encode_gauge32(0),
        CommandColumn.ROW_STATUS: NOT_READY,
        CommandColumn.STATE: PREPARING,
        CommandColumn.EXPIRES: date_and_time(START + 300 * SECOND),
    }
    assert purge.set(purge.target()) is None
    assert purge.cells[CommandColumn.ROW_STATUS] == NOT_READY
    assert purge.set(purge.status(RowStatus.ACTIVE)) == Rejected(message.INCONSISTENT_VALUE, 1)
    assert purge.set(purge.status(RowStatus.NOT_IN_SERVICE)) == Rejected(message.INCONSISTENT_VALUE, 1)
    assert purge.set(purge.method()) is None
    assert purge.cells[CommandColumn.ROW_STATUS] == NOT_IN_SERVICE
    assert purge.set(purge.timeout(5)) is None
    assert purge.set(purge.status(RowStatus.NOT_IN_SERVICE)) is None
    assert not table.asked
    assert purge.set(purge.status(RowStatus.ACTIVE)) is None
    assert table.answer().timeout == 5 * SECOND


def test_what_is_missing_may_come_with_the_submission(table: Table, purge: Command) -> None:
    assert purge.set(purge.status(RowStatus.CREATE_AND_WAIT), purge.target()) is None
    assert purge.set(purge.status(RowStatus.ACTIVE), purge.method()) is None
    assert list(table.asked.values()) == [msgspec.structs.replace(PURGE, reference="set2.c0")]


def test_a_column_alone_creates_no_command(table: Table, purge: Command) -> None:
    assert purge.set(purge.target(), purge.method()) == Rejected(message.INCONSISTENT_NAME, 1)
    assert purge.set(purge.argument("count", "1")) == Rejected(message.INCONSISTENT_NAME, 1)
    for status in (RowStatus.ACTIVE, RowStatus.NOT_IN_SERVICE):
        refusal = purge.set(purge.target(), purge.method(), purge.status(status))
        assert refusal == Rejected(message.INCONSISTENT_VALUE, 3)
    assert purge.set(purge.status(RowStatus.DESTROY)) is None
    assert not purge.is_there
    assert not table.asked


def test_create_and_go_wants_all_that_is_needed(table: Table, purge: Command) -> None:
    refusal = Rejected(message.INCONSISTENT_VALUE, 2)
    assert purge.set(purge.target(), purge.status(RowStatus.CREATE_AND_GO)) == refusal
    assert purge.set(purge.method(), purge.status(RowStatus.CREATE_AND_GO)) == refusal
    assert purge.set(purge.target((0, 0)), purge.status(RowStatus.CREATE_AND_GO), purge.method()) == refusal
    assert not purge.is_there
    assert not table.asked


def test_a_row_that_is_there_cannot_be_created(purge: Command) -> None:
    assert purge.set(purge.status(RowStatus.CREATE_AND_WAIT)) is None
    for status in (RowStatus.CREATE_AND_GO, RowStatus.CREATE_AND_WAIT):
        refusal = purge.set(purge.target(), purge.method(), purge.status(status))
        assert refusal == Rejected(message.INCONSISTENT_VALUE, 3)
    assert purge.cells[CommandColumn.ROW_STATUS] == NOT_READY


# ---- once submitted, for ever ---------------------------------------------------------------------------


@pytest.mark.parametrize("ended", [False, True])
def test_what_is_submitted_cannot_be_changed(table: Table, purge: Command, *, ended: bool) -> None:
    purge.submit(purge.argument("count", "1"))
    if ended:
        table.answer()
    before = purge.cells
    refusal = Rejected(message.INCONSISTENT_VALUE, 1)
    assert purge.set(purge.method("move")) == refusal
    assert purge.set(purge.target(GONE)) == refusal
    assert purge.set(purge.timeout(1)) == refusal
    assert purge.set(purge.argument("count", "2")) == refusal
    assert purge.set(purge.argument_status("count", RowStatus.DESTROY)) == refusal
    assert purge.set(purge.argument("other", "2")) == Rejected(message.INCONSISTENT_NAME, 1)
    for status in (RowStatus.NOT_IN_SERVICE, RowStatus.CREATE_AND_GO, RowStatus.CREATE_AND_WAIT):
        assert purge.set(purge.status(status)) == refusal
    assert purge.cells == before
    assert len(table.asked) == (0 if ended else 1)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_tool_that_writes_back_what_it_read_changes_nothing(table: Table, outcome: Outcome) -> None:
    move = Command(table)
    move.submit(move.argument("count", "5"), move.argument("password", "quite"), method="move")
    table.answer(outcome, text="so", values={"moved": 5})
    table.after(1)
    read = table.instances()
    writable = {
        *(move.name(column) for column in CommandColumn if column <= CommandColumn.ROW_STATUS),
        *(move.argument_name(name, c) for name in ("count", "password") for c in CommandArgumentColumn),
    }
    for name, value in read.items():
        status = None if name in writable else Rejected(message.NOT_WRITABLE, 1)
        assert move.set((name, value)) == status
    assert move.set(*((name, value) for name, value in read.items() if name in writable)) is None
    assert table.instances() == read
    assert not table.asked


def test_a_tool_that_writes_rows_back_that_are_gone_creates_none(table: Table, purge: Command) -> None:
    purge.submit()
    table.answer()
    read = [(name, value) for name, value in table.instances().items() if name[-1] != 0]
    assert purge.set(purge.status(RowStatus.DESTROY)) is None
    writable = [each for each in read if each[0][len(ROOT) + len(COMMANDS) + 2] <= CommandColumn.ROW_STATUS]
    assert len(writable) == 4
    assert purge.set(*writable) == Rejected(message.INCONSISTENT_VALUE, 4)
    assert not table.asked


# ---- the end --------------------------------------------------------------------------------------------


def test_a_running_command_may_be_destroyed_and_goes_on(table: Table, purge: Command) -> None:
    purge.submit()
    assert purge.set(purge.status(RowStatus.DESTROY)) is None
    assert not purge.is_there
    assert list(table.asked.values()) == [PURGE]
    table.answer()
    assert not purge.is_there


def test_a_name_that_is_used_again_gets_its_own_outcome_only(table: Table, purge: Command) -> None:
    purge.submit()
    assert purge.set(purge.status(RowStatus.DESTROY)) is None
    purge.submit(method="move")
    first, second = table.asked
    table.answer(Outcome.REFUSED, number=first)
    assert purge.cells[CommandColumn.STATE] == RUNNING
    table.answer(Outcome.APPLIED, number=second)
    assert purge.cells[CommandColumn.OUTCOME] == ber.encode_integer(OutcomeNumber.APPLIED)


def test_nothing_else_can_be_wanted_of_what_is_destroyed(purge: Command) -> None:
    assert purge.set(purge.status(RowStatus.CREATE_AND_WAIT)) is None
    refusal = Rejected(message.INCONSISTENT_VALUE, 2)
    assert purge.set(purge.status(RowStatus.DESTROY), purge.method()) == refusal
    assert purge.set(purge.status(RowStatus.DESTROY), purge.argument("a", "1")) == refusal
    assert purge.is_there


def test_commands_that_have_ended_leave_in_time(table: Table, purge: Command) -> None:
    purge.submit()
    table.after(1000)
    assert purge.is_there, "it is running"
    table.answer()
    table.after(59.9)
    assert purge.is_there
    table.after(0.1)
    assert table.instances().keys() == {(*ROOT, *COMMANDS, scalar, 0) for scalar in CommandScalar}


def test_rows_that_are_not_submitted_leave_five_minutes_after_they_were_last_written(
    table: Table, purge: Command
) -> None:
    assert purge.set(purge.status(RowStatus.CREATE_AND_WAIT)) is None
    table.after(299)
    assert purge.set(purge.argument("count", "1")) is None
    assert purge.cells[CommandColumn.EXPIRES] == date_and_time(START + 599 * SECOND)
    table.after(299)
    assert purge.is_there
    table.after(1)
    assert not table.instances().keys() - {(*ROOT, *COMMANDS, scalar, 0) for scalar in CommandScalar}


# ---- owners and quota -----------------------------------------------------------------------------------


def test_no_principal_writes_below_another_owner(table: Table, purge: Command) -> None:
    everything = (purge.target(), purge.method(), purge.status(RowStatus.CREATE_AND_GO))
    assert table.set("bert", *everything) == Rejected(message.NO_ACCESS, 1)
    assert table.set("ann", *everything) == Rejected(message.NO_ACCESS, 1)
    purge.submit()
    assert table.set("bert", purge.status(RowStatus.DESTROY)) == Rejected(message.NO_ACCESS, 1)
    own = Command(table, "own", owner="bert")
    mixed = (own.status(RowStatus.CREATE_AND_WAIT), purge.status(RowStatus.DESTROY))
    assert table.set("bert", *mixed) == Rejected(message.NO_ACCESS, 2)
    assert purge.is_there
    assert not own.is_there


def test_each_owner_has_so_many_rows(table: Table) -> None:
    for name in "abc":
        Command(table, name).submit()
    further = Command(table, "d")
    refusal = further.set(further.target(), further.method(), further.status(RowStatus.CREATE_AND_GO))
    assert refusal == Rejected(message.RESOURCE_UNAVAILABLE, 3)
    Command(table, "d", owner="bert").submit()
    table.answer()
    assert Command(table, "a").set(Command(table, "a").status(RowStatus.DESTROY)) is None
    further.submit()


def test_what_runs_counts_also_when_its_row_is_destroyed(table: Table) -> None:
    commands = [Command(table, name) for name in "abc"]
    for command in commands:
        command.submit()
        assert command.set(command.status(RowStatus.DESTROY)) is None
    further = Command(table, "d")
    assert further.set(further.status(RowStatus.CREATE_AND_WAIT)) == Rejected(message.RESOURCE_UNAVAILABLE, 1)
    table.answer()
    assert further.set(further.status(RowStatus.CREATE_AND_WAIT)) is None


def test_one_set_may_take_the_place_of_what_it_destroys(table: Table) -> None:
    commands = [Command(table, name) for name in "abcde"]
    for command in commands[:3]:
        command.submit()
    for _ in "abc":
        table.answer()
    old, new = commands[0], commands[3]
    create = (new.target(), new.method(), new.status(RowStatus.CREATE_AND_GO))
    assert new.set(*create, old.status(RowStatus.DESTROY)) is None
    assert not old.is_there
    two = (new.status(RowStatus.DESTROY), *(c.status(RowStatus.CREATE_AND_WAIT) for c in (old, commands[4])))
    assert new.set(*two) == Rejected(message.RESOURCE_UNAVAILABLE, 3)


def test_the_scalars_report_bounds_and_counts(table: Table, purge: Command) -> None:
    purge.submit()
    base = (*ROOT, *COMMANDS)
    assert table.store.get((*base, CommandScalar.QUOTA, 0)) == ber.encode_gauge32(3)
    assert table.store.get((*base, CommandScalar.KEEP, 0)) == ber.encode_gauge32(60)
    assert table.store.get((*base, CommandScalar.COUNT, 0)) == ber.encode_gauge32(1)
    assert table.store.get((*base, CommandScalar.SUBMITTED, 0)) == ber.encode_counter64(1)
