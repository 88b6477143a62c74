"""What a variable binding says of a command: which row and column, and a value of the column's syntax.

The checks that need nothing but the binding itself, in the order of RFC 3416 section 4.2.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.commands.command import CommandKey
from gateway.snmp.commands.row_status import RowStatus
from gateway.snmp.fixed_mib import (
    COMMAND_ARGUMENT_ENTRY,
    COMMAND_ENTRY,
    CommandArgumentColumn,
    CommandColumn,
    ValueSyntaxNumber,
)
from gateway.snmp.writable import Assignment, Refusal

MAX_NAME_OCTETS: Final = 32
"""Of an owner, the name of a command and that of an argument."""

MAX_VALUE_OCTETS: Final = 4096
"""Of an argument's value as written, and of a result's as shown."""

MAX_TIMEOUT: Final = 300
"""Seconds."""

_MAX_METHOD_OCTETS: Final = 255

ColumnValue: TypeAlias = "Oid | int | str | RowStatus | ValueSyntaxNumber"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A variable binding that is right by itself.

    Attributes:
        index: its place in the SET, from 1.
        key: of the command.
        argument: the index of the argument; ``None`` for a column of the command itself.
        column: `CommandColumn` or `CommandArgumentColumn`.
        value: of the column's syntax.
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
        self.refusal = Refusal(status, index)
        super().__init__(f"error-status {status} at {index}")


def wanted(assignment: Assignment, root: Oid, writer: str) -> Wanted:
    """What a variable binding below agCommands wants.

    Args:
        assignment: as it came.
        root: the configured root.
        writer: who may write, and only below that owner.

    Raises:
        RefusedAssignmentError: noAccess to another owner's rows and to what is not accessible, notWritable
            for a column that is read only, noCreation for an index that cannot be, or what is wrong with the
            value.
    """
    try:
        return _wanted(assignment, root, writer)
    except _WrongError as error:
        raise RefusedAssignmentError(error.status, assignment.index) from None


class _WrongError(Exception):
    """Carries an error-status."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"error-status {status}")


def _wanted(assignment: Assignment, root: Oid, writer: str) -> Wanted:
    rest = assignment.name[len(root) :]
    table = _table_of(rest)
    column, index = rest[len(table.entry)], rest[len(table.entry) + 1 :]
    read = table.columns.get(column)
    if read is None:
        raise _WrongError(message.NO_ACCESS if column < min(table.columns) else message.NOT_WRITABLE)
    octets = writer.encode()
    if index[: len(octets) + 1] != (len(octets), *octets):
        raise _WrongError(message.NO_ACCESS)
    names = _names(index)
    # A result's index is longer than that of its command by one.
    if names is None or len(names) != table.names or len(assignment.name) >= ber.MAX_SUB_IDENTIFIERS:
        raise _WrongError(message.NO_CREATION)
    key, argument = CommandKey(names[0], names[1]), (*names, None)[2]
    return Wanted(assignment.index, key, argument, column, read(assignment.value))


def _table_of(rest: Oid) -> _Table:
    for table in _TABLES:
        if rest[: len(table.entry)] == table.entry and len(rest) > len(table.entry):
            return table
    raise _WrongError(message.NOT_WRITABLE)  # scalars and results, and whatever there is not


def _names(index: Oid) -> list[str] | None:
    """The strings of an index, each with its length in front (RFC 2578 section 7.7); ``None`` if not so."""
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
            return octets.decode("utf-8")
        except ValueError:
            raise _WrongError(message.WRONG_VALUE) from None

    return read


_SETTABLE: Final = frozenset(RowStatus) - {RowStatus.NOT_READY}

_Columns: TypeAlias = Mapping[int, Callable[[bytes], ColumnValue]]

_COMMAND_COLUMNS: Final[_Columns] = {
    CommandColumn.TARGET: _target,
    CommandColumn.METHOD: _text(_MAX_METHOD_OCTETS),
    CommandColumn.TIMEOUT: _timeout,
    CommandColumn.ROW_STATUS: _row_status,
}
_ARGUMENT_COLUMNS: Final[_Columns] = {
    CommandArgumentColumn.VALUE: _text(MAX_VALUE_OCTETS),
    CommandArgumentColumn.SYNTAX: _syntax,
    CommandArgumentColumn.ROW_STATUS: _row_status,
}


@dataclass(frozen=True, slots=True)
class _Table:
    """What can be written in a table, and how many strings its index has."""

    entry: Oid
    columns: _Columns
    names: int


_TABLES: Final = (
    _Table(COMMAND_ENTRY, _COMMAND_COLUMNS, 2),
    _Table(COMMAND_ARGUMENT_ENTRY, _ARGUMENT_COLUMNS, 3),
)
