"""What a SET makes of a command and its arguments, in whatever order it names their columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway.snmp import message
from gateway.snmp.commands.columns import RefusedAssignmentError, Wanted
from gateway.snmp.commands.command import Argument, Command, CommandKey, Progress
from gateway.snmp.commands.row_status import Action, RefusedError, RowStatus, State, next_state
from gateway.snmp.fixed_mib import CommandArgumentColumn, CommandColumn, CommandStateNumber

MAX_ARGUMENTS: Final = 64
"""Of one command."""

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


@dataclass(slots=True)
class RowChange:
    """What a SET wants of one row: fields of `Command` or `Argument` by name, and where it said so."""

    fields: dict[str, Any] = field(default_factory=dict)
    indexes: dict[str, int] = field(default_factory=dict)

    @property
    def action(self) -> RowStatus | None:
        """What the row's status is set to."""
        return self.fields.get(_STATUS)

    @property
    def columns(self) -> dict[str, Any]:
        """The other columns."""
        return {name: value for name, value in self.fields.items() if name != _STATUS}

    def columns_indexes(self) -> list[int]:
        """Where the other columns were named."""
        return [index for name, index in self.indexes.items() if name != _STATUS]

    @property
    def first_index(self) -> int:
        """The place of the first variable binding; 0 where there is none."""
        return min(self.indexes.values(), default=0)

    @property
    def blamed_index(self) -> int:
        """The variable binding that is wrong where the row as a whole is."""
        return self.indexes.get(_STATUS, self.first_index)

    def want(self, name: str, wanted: Wanted) -> None:
        """Take up a variable binding; a column may be named twice with one value only."""
        if self.fields.setdefault(name, wanted.value) != wanted.value:
            raise RefusedAssignmentError(message.INCONSISTENT_VALUE, wanted.index)
        self.indexes.setdefault(name, wanted.index)


@dataclass(slots=True)
class CommandChange:
    """What a SET wants of one command."""

    command: RowChange = field(default_factory=RowChange)
    arguments: dict[str, RowChange] = field(default_factory=dict)

    @property
    def rows(self) -> Iterator[RowChange]:
        """All rows that something is wanted of."""
        if self.command.fields:
            yield self.command
        yield from self.arguments.values()


def changes_of(wanted: Iterable[Wanted]) -> dict[CommandKey, CommandChange]:
    """The variable bindings of a SET by command.

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
    """What becomes of a command; ``None`` if there is none afterwards.

    One that is submitted by this has the state running, and all its arguments are active.

    Args:
        former: what it was; ``None`` if there is none.
        change: what a SET wants of it.
        now: nanoseconds since 1970-01-01 UTC.

    Raises:
        RefusedAssignmentError: it cannot become that.
    """
    if change.command.action is RowStatus.DESTROY:
        _check_destroyed(change)
        return None
    if former is None and change.command.action is None:
        raise RefusedAssignmentError(message.INCONSISTENT_NAME, min(row.first_index for row in change.rows))
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
    """The state of a row that is there afterwards."""
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
    """Nothing else may be wanted of a command that goes."""
    others = [*change.command.columns_indexes(), *(row.first_index for row in change.arguments.values())]
    if others:
        raise RefusedAssignmentError(message.INCONSISTENT_VALUE, min(others))


def _changed_arguments(former: Mapping[str, Argument], change: CommandChange) -> Mapping[str, Argument]:
    arguments = dict(former)
    for name, row in change.arguments.items():
        argument = _changed_argument(arguments.pop(name, None), row)
        if argument is not None:
            arguments[name] = argument
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
    """What is submitted stays as it is; to write what is there already is no change."""
    _check_row_unchanged(former, change.command)
    for name, row in change.arguments.items():
        argument = former.arguments.get(name)
        if argument is not None:
            _check_row_unchanged(argument, row)
        elif row.action is not RowStatus.DESTROY or row.columns:
            raise RefusedAssignmentError(message.INCONSISTENT_NAME, row.first_index)


def _check_row_unchanged(former: Command | Argument, row: RowChange) -> None:
    for name, value in row.fields.items():
        if getattr(former, name) != value:
            raise RefusedAssignmentError(message.INCONSISTENT_VALUE, row.indexes[name])
