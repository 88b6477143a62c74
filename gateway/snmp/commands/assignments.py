"""The effect of a SET on commands: each variable binding by itself, then all of one command together.

The order of checks is that of RFC 3416 section 4.2.5; the order of the variable bindings does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import msgspec

from gateway.escapes import unescaped
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.commands.command import (
    Action,
    Argument,
    Command,
    CommandKey,
    Progress,
    RefusedError,
    RowStatus,
    State,
    next_state,
)
from gateway.snmp.fixed_mib import (
    COMMAND_ARGUMENT_ENTRY,
    COMMAND_ENTRY,
    CommandArgumentColumn,
    CommandColumn,
    CommandStateNumber,
    ValueSyntaxNumber,
)
from gateway.snmp.written_values import Assignment, Rejected

MAX_NAME_OCTETS: Final = 32
"""The maximum of the name of an owner, a command or an argument."""

MAX_VALUE_OCTETS: Final = 4096
"""The maximum of an argument's value as written, and of a result's as shown."""

MAX_TIMEOUT: Final = 300
"""The maximum of agCommandTimeout, in seconds."""

_MAX_METHOD_OCTETS: Final = 255

ColumnValue: TypeAlias = "Oid | int | str | RowStatus | ValueSyntaxNumber"


class Wanted(msgspec.Struct, frozen=True):
    """A variable binding that is valid by itself.

    Attributes:
        index: its place in the SET, from 1.
        key: the key of the command.
        argument: the index of the argument; ``None`` for a column of the command itself.
        column: `CommandColumn` or `CommandArgumentColumn`.
        value: a value of the column's syntax.
    """

    index: int
    key: CommandKey
    argument: str | None
    column: int
    value: ColumnValue


class RefusedAssignmentError(Exception):
    """A variable binding cannot be carried out.

    Args:
        status: error-status, a number of `gateway.snmp.message`.
        index: error-index.
    """

    def __init__(self, status: int, index: int) -> None:
        self.refusal = Rejected(status, index)
        super().__init__(f"error-status {status} at {index}")


def wanted(assignment: Assignment, root: Oid, writer: str) -> Wanted:
    """Read a variable binding below agCommands.

    Args:
        assignment: the variable binding.
        root: the configured root.
        writer: the writer, who may write only below itself as the owner.

    Raises:
        RefusedAssignmentError: noAccess to another owner's rows and to columns that are not accessible,
            notWritable for a read-only column, noCreation for an index that cannot exist, or the error of the
            value.
    """
    try:
        return _wanted(assignment, root, writer)
    except _WrongError as error:
        raise RefusedAssignmentError(error.status, assignment.index) from None


class _WrongError(Exception):
    """The error-status of a variable binding."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"error-status {status}")


def _wanted(assignment: Assignment, root: Oid, writer: str) -> Wanted:
    rest = assignment.name[len(root) :]
    table = _table_of(rest)
    column, index = rest[len(table.entry)], rest[len(table.entry) + 1 :]
    read = table.columns.get(column)
    if read is None:
        # The columns before the first writable one are the index, which is not accessible.
        raise _WrongError(message.NO_ACCESS if column < min(table.columns) else message.NOT_WRITABLE)
    octets = writer.encode()
    # The owner is the first string of the index, with its length in front.
    if index[: len(octets) + 1] != (len(octets), *octets):
        raise _WrongError(message.NO_ACCESS)
    names = _names(index)
    # A result's index is longer than that of its command by one.
    if names is None or len(names) != table.names or len(assignment.name) >= ber.MAX_SUB_IDENTIFIERS:
        raise _WrongError(message.NO_CREATION)
    # An argument's index has a third string, a command's has two.
    key, argument = CommandKey(names[0], names[1]), (*names, None)[2]
    return Wanted(assignment.index, key, argument, column, read(assignment.value))


def _table_of(rest: Oid) -> _Table:
    for table in _TABLES:
        if rest[: len(table.entry)] == table.entry and len(rest) > len(table.entry):
            return table
    raise _WrongError(message.NOT_WRITABLE)  # scalars and results, and whatever there is not


def _names(index: Oid) -> list[str] | None:
    """Return the strings of an index, each after its length (RFC 2578 section 7.7); ``None`` if not so."""
    names = []
    while index:
        length, rest = index[0], index[1:]
        if not 1 <= length <= MAX_NAME_OCTETS or length > len(rest):
            return None
        try:
            names.append(bytes(rest[:length]).decode("utf-8"))
        except ValueError:  # not octets, or not UTF-8
            return None
        index = rest[length:]
    return names


# ---- values -------------------------------------------------------------------------------------------


def _integer(value: bytes) -> int:
    if value[0] != ber.INTEGER:
        raise _WrongError(message.WRONG_TYPE)
    return ber.read_integer(value, 0, len(value))[0]


def _row_status(value: bytes) -> RowStatus:
    number = _integer(value)
    if number not in _SETTABLE:
        raise _WrongError(message.WRONG_VALUE)
    return RowStatus(number)


def _syntax(value: bytes) -> ValueSyntaxNumber:
    try:
        return ValueSyntaxNumber(_integer(value))
    except ValueError:
        raise _WrongError(message.WRONG_VALUE) from None


def _target(value: bytes) -> Oid:
    if value[0] != ber.OBJECT_IDENTIFIER:
        raise _WrongError(message.WRONG_TYPE)
    name, _ = ber.read_name(value, 0, len(value))
    return ber.decode_name(name)


def _timeout(value: bytes) -> int:
    if value[0] != ber.GAUGE32:
        raise _WrongError(message.WRONG_TYPE)
    _, start, stop = ber.read_header(value, 0, len(value))
    seconds = int.from_bytes(value[start:stop], "big")
    if seconds > MAX_TIMEOUT:
        raise _WrongError(message.WRONG_VALUE)
    return seconds


def _text(limit: int) -> Callable[[bytes], str]:
    def read(value: bytes) -> str:
        if value[0] != ber.OCTET_STRING:
            raise _WrongError(message.WRONG_TYPE)
        octets, _ = ber.read_octets(value, 0, len(value))
        if len(octets) > limit:
            raise _WrongError(message.WRONG_LENGTH)
        try:
            text = octets.decode("utf-8")
            unescaped(text).encode("utf-8")  # ValueError for half of a surrogate pair
        except ValueError:
            raise _WrongError(message.WRONG_VALUE) from None
        return text

    return read


_read_method: Final = _text(_MAX_METHOD_OCTETS)

_SETTABLE: Final = frozenset(RowStatus) - {RowStatus.NOT_READY}

_Columns: TypeAlias = Mapping[int, Callable[[bytes], ColumnValue]]

_COMMAND_COLUMNS: Final[_Columns] = {
    CommandColumn.TARGET: _target,
    CommandColumn.METHOD: lambda value: unescaped(_read_method(value)),
    CommandColumn.TIMEOUT: _timeout,
    CommandColumn.ROW_STATUS: _row_status,
}
_ARGUMENT_COLUMNS: Final[_Columns] = {
    CommandArgumentColumn.VALUE: _text(MAX_VALUE_OCTETS),
    CommandArgumentColumn.SYNTAX: _syntax,
    CommandArgumentColumn.ROW_STATUS: _row_status,
}


class _Table(msgspec.Struct, frozen=True):
    """A table: its writable columns, and the number of strings in its index."""

    entry: Oid
    columns: _Columns
    names: int


_TABLES: Final = (
    _Table(COMMAND_ENTRY, _COMMAND_COLUMNS, 2),
    _Table(COMMAND_ARGUMENT_ENTRY, _ARGUMENT_COLUMNS, 3),
)


MAX_ARGUMENTS: Final = 64
"""The maximum number of arguments of one command."""

_COMMAND_FIELDS: Final = {
    CommandColumn.TARGET: "target",
    CommandColumn.METHOD: "method",
    CommandColumn.TIMEOUT: "timeout",
}
_ARGUMENT_FIELDS: Final = {
    CommandArgumentColumn.VALUE: "value",
    CommandArgumentColumn.SYNTAX: "syntax",
}
_STATUS: Final = "status"


class RowChange(msgspec.Struct):
    """The change of one row by a SET: fields of `Command` or `Argument` by name, and the place of each."""

    fields: dict[str, Any] = msgspec.field(default_factory=dict)
    indexes: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def action(self) -> RowStatus | None:
        """The value to which the row's status is set, if it is."""
        return self.fields.get(_STATUS)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that are set, without the status."""
        return {name: value for name, value in self.fields.items() if name != _STATUS}

    def columns_indexes(self) -> list[int]:
        """Return the places of these columns in the SET."""
        return [index for name, index in self.indexes.items() if name != _STATUS]

    @property
    def first_index(self) -> int:
        """The place of the first variable binding; 0 where there is none."""
        return min(self.indexes.values(), default=0)

    @property
    def blamed_index(self) -> int:
        """The place of the variable binding that an error of the whole row names."""
        return self.indexes.get(_STATUS, self.first_index)

    def want(self, name: str, wanted: Wanted) -> None:
        """Add a variable binding; a column may be named twice with one value only."""
        if self.fields.setdefault(name, wanted.value) != wanted.value:
            raise RefusedAssignmentError(message.INCONSISTENT_VALUE, wanted.index)
        self.indexes.setdefault(name, wanted.index)


class CommandChange(msgspec.Struct):
    """The change of one command by a SET."""

    command: RowChange = msgspec.field(default_factory=RowChange)
    arguments: dict[str, RowChange] = msgspec.field(default_factory=dict)

    @property
    def rows(self) -> Iterator[RowChange]:
        """All rows that are changed."""
        if self.command.fields:
            yield self.command
        yield from self.arguments.values()


def changes_of(wanted: Iterable[Wanted]) -> dict[CommandKey, CommandChange]:
    """Return the variable bindings of a SET by command.

    Raises:
        RefusedAssignmentError: a variable is named twice with different values.
    """
    changes: dict[CommandKey, CommandChange] = {}
    for one in wanted:
        change = changes.setdefault(one.key, CommandChange())
        if one.argument is None:
            change.command.want(_COMMAND_FIELDS.get(CommandColumn(one.column), _STATUS), one)
        else:
            row = change.arguments.setdefault(one.argument, RowChange())
            row.want(_ARGUMENT_FIELDS.get(CommandArgumentColumn(one.column), _STATUS), one)
    return changes


def changed(former: Command | None, change: CommandChange, now: int) -> Command | None:
    """Return a command after a SET; ``None`` if there is none afterwards.

    A command that the SET submits has the state running, and all its arguments are active.

    Args:
        former: the command before; ``None`` if there is none.
        change: the change by the SET.
        now: nanoseconds since 1970-01-01 UTC.

    Raises:
        RefusedAssignmentError: the change is not possible.
    """
    if change.command.action is RowStatus.DESTROY:
        _check_destroyed(change)
        return None
    if former is None and change.command.action is None:
        raise RefusedAssignmentError(message.INCONSISTENT_NAME, min(row.first_index for row in change.rows))
    # A call is made once: what is submitted stays as a record of it, and a manager that repeats its SET must
    # not be refused.
    if former is not None and former.is_submitted:
        _check_unchanged(former, change)
        return former
    command = replace(former or Command(), **change.command.columns, written=now)
    command = replace(command, arguments=_changed_arguments(command.arguments, change))
    own = change.command
    status = _next(
        former.status if former else None, own.action, own.blamed_index, complete=command.is_complete
    )
    if status is RowStatus.ACTIVE:
        return _submitted(command, now)
    return replace(command, status=status)


def _next(
    former: State, action: Action, blamed: int, *, complete: bool, made_by_columns: bool = False
) -> RowStatus:
    """Return the state of a row that exists afterwards."""
    try:
        status = next_state(former, action, complete=complete, made_by_columns=made_by_columns)
    except RefusedError as error:
        raise RefusedAssignmentError(error.status, blamed) from None
    if status is None:
        raise ValueError("a row that is destroyed has no state")
    return status


def _submitted(command: Command, now: int) -> Command:
    arguments = {
        name: replace(argument, status=RowStatus.ACTIVE) for name, argument in command.arguments.items()
    }
    return replace(
        command,
        status=RowStatus.ACTIVE,
        arguments=arguments,
        progress=Progress(CommandStateNumber.RUNNING, submitted=now),
    )


def _check_destroyed(change: CommandChange) -> None:
    """Refuse a SET that destroys a command and changes something else of it."""
    others = [*change.command.columns_indexes(), *(row.first_index for row in change.arguments.values())]
    if others:
        raise RefusedAssignmentError(message.INCONSISTENT_VALUE, min(others))


def _changed_arguments(former: Mapping[str, Argument], change: CommandChange) -> Mapping[str, Argument]:
    arguments = dict(former)
    for name, row in change.arguments.items():
        argument = _changed_argument(arguments.pop(name, None), row)
        if argument is not None:
            arguments[name] = argument
        # Within the loop, so that error-index names the argument that is one too many.
        if len(arguments) > MAX_ARGUMENTS:
            raise RefusedAssignmentError(message.RESOURCE_UNAVAILABLE, row.first_index)
    return arguments


def _changed_argument(former: Argument | None, row: RowChange) -> Argument | None:
    if row.action is RowStatus.DESTROY:
        if row.columns:
            raise RefusedAssignmentError(message.INCONSISTENT_VALUE, min(row.columns_indexes()))
        return None
    argument = replace(former or Argument(), **row.columns)
    status = _next(
        former.status if former else None,
        row.action,
        row.blamed_index,
        complete=argument.is_complete,
        made_by_columns=True,
    )
    return replace(argument, status=status)


def _check_unchanged(former: Command, change: CommandChange) -> None:
    """Refuse changes of a submitted command; writing the present values is no change."""
    _check_row_unchanged(former, change.command)
    for name, row in change.arguments.items():
        argument = former.arguments.get(name)
        if argument is not None:
            _check_row_unchanged(argument, row)
        elif row.action is not RowStatus.DESTROY or row.columns:
            # Only to destroy a row that is not there succeeds (RFC 2579, RowStatus).
            raise RefusedAssignmentError(message.INCONSISTENT_NAME, row.first_index)


def _check_row_unchanged(former: Command | Argument, row: RowChange) -> None:
    for name, value in row.fields.items():
        if getattr(former, name) != value:
            raise RefusedAssignmentError(message.INCONSISTENT_VALUE, row.indexes[name])
