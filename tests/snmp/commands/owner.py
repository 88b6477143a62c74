"""A command table, an owner who sets and reads it, and a core whose answers a test chooses."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from gateway.feed.operations import OperationAnswer, OperationRequest
from gateway.feed.values import ObjectLink
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import Argument, ClassKey, ClassSchema, Direction, Method, NamedValue
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.commands.command import CommandKey, RowStatus, SecretArguments, Submission
from gateway.snmp.commands.table import CommandLimits, CommandRows, CommandTable, index_of
from gateway.snmp.fixed_mib import (
    COMMAND_ARGUMENT_ENTRY,
    COMMAND_ENTRY,
    COMMAND_RESULT_ENTRY,
    CommandArgumentColumn,
    CommandColumn,
    CommandResultColumn,
    ValueSyntaxNumber,
)
from gateway.snmp.store import Store
from gateway.snmp.tables.classes import Target
from gateway.snmp.written_values import Assignment, Rejected

ROOT: Oid = (1, 3, 6, 1, 4, 1, 99999)
START = 1_700_000_000 * SECOND
DEADLINE = 10 * SECOND
LIMITS = CommandLimits(quota=3, keep=60 * SECOND)

QUEUE_ENTRY: Oid = (*ROOT, 2, 1, 1, 3, 1)
ORDERS: Oid = (*QUEUE_ENTRY, 2, 1, 7)
"""An instance in the row of a queue."""
GONE: Oid = (*QUEUE_ENTRY, 2, 1, 8)
"""An instance in the row of a queue that has ended."""

STRANGER = "eve"
"""An owner who sees no queue."""

PURGE = Method("purge")
MOVE = Method(
    "move",
    (
        Argument("count", ValueType.U32),
        Argument("to", ValueType.REFERENCE),
        Argument("moved", ValueType.U32, Direction.OUT),
        Argument("mode", ValueType.U8, values=(NamedValue("copy", 1), NamedValue("cut", 2))),
        Argument("options", ValueType.MAP, Direction.INOUT),
        Argument("left", ValueType.REFERENCE, Direction.OUT),
        Argument("password", ValueType.STRING),
        Argument("from", ValueType.STRING),
    ),
)
QUEUE = ClassSchema(ClassKey("shop", "queue"), methods=(PURGE, MOVE))

SECRETS = SecretArguments(SecretRules(), [("shop:queue", "move", "from")])


class Queues:
    """The targets of instances: one queue, and rows of others that have ended.

    Attributes:
        life: the last end before the present life of the queue.
        ends: the last end.
    """

    def __init__(self) -> None:
        self.life = 3
        self.ends = 5

    def variable(self, name: Oid) -> None:
        """Return ``None``, as no variable of an object can be set here."""

    absent = variable

    def target(self, instance: Oid) -> Target | None:
        if len(instance) != len(ORDERS) or instance[: len(QUEUE_ENTRY)] != QUEUE_ENTRY:
            return None
        source, row = instance[-2:]
        is_there = (source, row) == ORDERS[-2:]
        if not is_there:
            return Target(source, "shop:queue", row)
        return Target(source, "shop:queue", row, QUEUE, "orders", self.life, self.ends)


def pointer(link: ObjectLink, source: int) -> bytes | None:
    return ber.encode_oid((*QUEUE_ENTRY, 2, source, link.row))


class NoQueues(Queues):
    """What an owner sees who sees no queue: each row is as if it were gone."""

    def target(self, instance: Oid) -> Target | None:
        found = super().target(instance)
        return None if found is None else Target(found.source, found.class_name, found.row)


class Table:
    """A command table; commands of all owners are in one store, and `STRANGER` sees no queue.

    Attributes:
        asked: requests to the core without an answer so far, by number.
        reports: the reports to the core of commands that were refused without asking it.
    """

    def __init__(self, limits: CommandLimits = LIMITS) -> None:
        self.now = START
        self.store = Store()
        self.asked: dict[int, OperationRequest] = {}
        self.reports: list[OperationRequest] = []
        self._sets = 0
        rows = CommandRows(self.store, ROOT, pointer)
        self.queues = Queues()
        submission = Submission(
            self.queues,
            SECRETS,
            DEADLINE,
            self.reports.append,
            lambda owner: NoQueues() if owner == STRANGER else self.queues,
        )
        self.table = CommandTable(
            ROOT, limits, submission, lambda _owner: [rows], self._submitted, lambda: self.now
        )
        self.table.serve(self.store)

    def _submitted(self, number: int, request: OperationRequest) -> None:
        assert number not in self.asked
        self.asked[number] = request

    def answer(
        self, outcome: Outcome = Outcome.APPLIED, *, number: int = 0, **fields: object
    ) -> OperationRequest:
        """Answer the oldest request, or the one with this number, as the core; return the request."""
        number = number or next(iter(self.asked))
        request = self.asked.pop(number)
        self.table.answered(number, OperationAnswer(0, "gw.1.o1", outcome, **fields))  # type: ignore[arg-type]
        return request

    def set(self, owner: str, *assignments: tuple[Oid, bytes]) -> Rejected | None:
        """Test a SET by ``owner``, and commit it if it is not refused; return the refusal."""
        principal = Principal("snmp", owner, "192.0.2.1:40000")
        numbered = [Assignment(index, *each) for index, each in enumerate(assignments, 1)]
        refusal = self.table.test(principal, numbered)
        if refusal is None:
            self._sets += 1
            self.table.commit(principal, numbered, f"set{self._sets}")
        return refusal

    def after(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        self.table.tick()

    def instances(self) -> dict[Oid, bytes]:
        """Return all instances that are shown."""
        found: dict[Oid, bytes] = {}
        instance = self.store.next((1, 3))
        while instance is not None:
            found[instance[0]] = instance[1]
            instance = self.store.next(instance[0])
        return found


class Command:
    """Names and values of one command, as its owner writes and reads them."""

    def __init__(self, table: Table, name: str = "c", owner: str = "anna") -> None:
        self.table = table
        self.owner = owner
        self.index = index_of(CommandKey(owner, name))

    def target(self, instance: Oid = ORDERS) -> tuple[Oid, bytes]:
        return self.name(CommandColumn.TARGET), ber.encode_oid(instance)

    def method(self, name: str = "purge") -> tuple[Oid, bytes]:
        return self.name(CommandColumn.METHOD), ber.encode_octets(name.encode())

    def timeout(self, seconds: int) -> tuple[Oid, bytes]:
        return self.name(CommandColumn.TIMEOUT), ber.encode_gauge32(seconds)

    def status(self, status: RowStatus) -> tuple[Oid, bytes]:
        return self.name(CommandColumn.ROW_STATUS), ber.encode_integer(status)

    def argument(self, name: str, value: str) -> tuple[Oid, bytes]:
        return self.argument_name(name, CommandArgumentColumn.VALUE), ber.encode_octets(value.encode())

    def argument_syntax(self, name: str, syntax: ValueSyntaxNumber) -> tuple[Oid, bytes]:
        return self.argument_name(name, CommandArgumentColumn.SYNTAX), ber.encode_integer(syntax)

    def argument_status(self, name: str, status: RowStatus) -> tuple[Oid, bytes]:
        return self.argument_name(name, CommandArgumentColumn.ROW_STATUS), ber.encode_integer(status)

    def set(self, *assignments: tuple[Oid, bytes]) -> Rejected | None:
        return self.table.set(self.owner, *assignments)

    def submit(self, *more: tuple[Oid, bytes], method: str = "purge") -> None:
        """Write the whole command in one SET."""
        assert (
            self.set(self.target(), self.method(method), self.status(RowStatus.CREATE_AND_GO), *more) is None
        )

    def name(self, column: CommandColumn) -> Oid:
        return (*ROOT, *COMMAND_ENTRY, column, *self.index)

    def argument_name(self, argument: str, column: CommandArgumentColumn) -> Oid:
        return (*ROOT, *COMMAND_ARGUMENT_ENTRY, column, *self.index, len(argument), *argument.encode())

    @property
    def is_there(self) -> bool:
        return CommandColumn.ROW_STATUS in self.cells

    @property
    def cells(self) -> dict[CommandColumn, bytes]:
        return _reported({column: self.table.store.get(self.name(column)) for column in CommandColumn})

    def argument_cells(self, argument: str) -> dict[CommandArgumentColumn, bytes]:
        return _reported(
            {
                column: self.table.store.get(self.argument_name(argument, column))
                for column in CommandArgumentColumn
            }
        )

    def result_cells(self, number: int) -> dict[CommandResultColumn, bytes]:
        base = (*ROOT, *COMMAND_RESULT_ENTRY)
        return _reported(
            {
                column: self.table.store.get((*base, column, *self.index, number))
                for column in CommandResultColumn
            }
        )

    def own_instances(self) -> list[tuple[Oid, bytes]]:
        """Return every instance of the command, its arguments and its results."""
        return [
            (name, value)
            for name, value in self.table.instances().items()
            if name[len(ROOT) + len(COMMAND_ENTRY) + 1 :][: len(self.index)] == self.index
        ]


_Column = TypeVar("_Column", bound=IntEnum)


def _reported(cells: dict[_Column, bytes]) -> dict[_Column, bytes]:
    """Return the cells without holes."""
    return {column: value for column, value in cells.items() if value != ber.NO_SUCH_INSTANCE}
