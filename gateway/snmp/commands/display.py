"""Who sees which commands: their cells in a store, and the view of a writer, who sees the own ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import merge

from gateway.feed.text_values import text_of
from gateway.feed.values import FeedValue, ObjectLink
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import gauge32, known_time, text
from gateway.snmp.commands.assignments import MAX_VALUE_OCTETS
from gateway.snmp.commands.command import Argument, Command, CommandKey
from gateway.snmp.commands.submission import DescribedCommand
from gateway.snmp.fixed_mib import (
    COMMAND_ARGUMENT_ENTRY,
    COMMAND_ENTRY,
    COMMAND_RESULT_ENTRY,
    CommandArgumentColumn,
    CommandColumn,
    CommandResultColumn,
    OutcomeNumber,
    ValueSyntaxNumber,
)
from gateway.snmp.store import MibView, Store
from gateway.snmp.table import Table
from gateway.snmp.tables.rows import Cells, Pointer

_INTEGER32 = range(-(2**31), 2**31)


class CommandRows:
    """The three tables in one store.

    Args:
        store: where they are made.
        root: the configured root.
        pointer: where an object's row is.
    """

    def __init__(self, store: Store, root: Oid, pointer: Pointer) -> None:
        self._pointer = pointer
        self._commands = store.table((*root, *COMMAND_ENTRY), tuple(CommandColumn))
        self._arguments = store.table((*root, *COMMAND_ARGUMENT_ENTRY), tuple(CommandArgumentColumn))
        self._results = store.table((*root, *COMMAND_RESULT_ENTRY), tuple(CommandResultColumn))
        self._below: dict[CommandKey, tuple[tuple[Oid, ...], tuple[Oid, ...]]] = {}  # arguments and results

    def show(self, key: CommandKey, command: Command, expires: int, described: DescribedCommand) -> None:
        """A command as it is now.

        Args:
            key: which.
            command: the whole of it.
            expires: when its row leaves, nanoseconds since 1970-01-01 UTC; 0 while that is not known.
            described: what its class says about it.
        """
        index = index_of(key)
        self._commands.put(index, _command_cells(command, expires))
        arguments = {
            (*index, *_string(name)): _argument_cells(argument, is_secret=name in described.secrets)
            for name, argument in command.arguments.items()
        }
        results = {
            (*index, number): self._result_cells(name, value, described)
            for number, (name, value) in enumerate(command.progress.results.items(), 1)
        }
        self._replace_below(key, arguments, results)

    def remove(self, key: CommandKey) -> None:
        """Take a command away; ``KeyError`` if it is not there."""
        self._commands.remove(index_of(key))
        self._replace_below(key, {}, {})
        del self._below[key]

    def _replace_below(
        self, key: CommandKey, arguments: Mapping[Oid, Cells], results: Mapping[Oid, Cells]
    ) -> None:
        """Make these the only arguments and results of a command."""
        former_arguments, former_results = self._below.get(key, ((), ()))
        _replace(self._arguments, former_arguments, arguments)
        _replace(self._results, former_results, results)
        self._below[key] = (tuple(arguments), tuple(results))

    def _result_cells(self, name: str, value: FeedValue, described: DescribedCommand) -> Cells:
        output = described.outputs.get(name)
        written = text_of(value) if output is None else text_of(value, output.type, output.values)
        is_json = isinstance(value, Mapping | tuple)
        octets = written.encode("utf-8", "replace")
        shown = "" if is_json and len(octets) > MAX_VALUE_OCTETS else written
        syntax = ValueSyntaxNumber.JSON if is_json else ValueSyntaxNumber.TEXT
        return {
            CommandResultColumn.NAME: text(name),
            CommandResultColumn.VALUE: text(shown, MAX_VALUE_OCTETS),
            CommandResultColumn.SYNTAX: ber.encode_integer(syntax),
            CommandResultColumn.LENGTH: gauge32(len(octets)),
            CommandResultColumn.ROW: self._pointer(value, described.source)
            if isinstance(value, ObjectLink)
            else None,
        }


def index_of(key: CommandKey) -> Oid:
    """The index of a command: both strings with their lengths in front."""
    return (*_string(key.owner), *_string(key.name))


def _string(name: str) -> Oid:
    octets = name.encode()
    return (len(octets), *octets)


def _command_cells(command: Command, expires: int) -> Cells:
    progress = command.progress
    has_ended = progress.outcome is not None
    return {
        CommandColumn.TARGET: ber.encode_oid(command.target),
        CommandColumn.METHOD: text(command.method),
        CommandColumn.TIMEOUT: gauge32(command.timeout),
        CommandColumn.ROW_STATUS: ber.encode_integer(command.status),
        CommandColumn.STATE: ber.encode_integer(progress.state),
        CommandColumn.OUTCOME: (
            None if progress.outcome is None else ber.encode_integer(OutcomeNumber[progress.outcome.name])
        ),
        CommandColumn.TEXT: text(progress.text) if has_ended else None,
        CommandColumn.ELEMENT: text(progress.element) if has_ended else None,
        CommandColumn.CODE: (
            None
            if progress.code is None or progress.code not in _INTEGER32
            else ber.encode_integer(progress.code)
        ),
        CommandColumn.SUBMITTED: known_time(progress.submitted),
        CommandColumn.ENDED: known_time(progress.ended),
        CommandColumn.EXPIRES: known_time(expires),
        CommandColumn.OPERATION_ID: text(progress.operation_id) if has_ended else None,
    }


def _argument_cells(argument: Argument, *, is_secret: bool) -> Cells:
    value = "" if is_secret and argument.value is not None else argument.value
    return {
        CommandArgumentColumn.VALUE: None if value is None else text(value, MAX_VALUE_OCTETS),
        CommandArgumentColumn.SYNTAX: ber.encode_integer(argument.syntax),
        CommandArgumentColumn.ROW_STATUS: ber.encode_integer(argument.status),
    }


def _replace(table: Table, former: Iterable[Oid], rows: Mapping[Oid, Cells]) -> None:
    for index in former:
        if index not in rows:
            table.remove(index)
    for index, cells in rows.items():
        table.put(index, cells)


class JoinedView:
    """Two views as one; nothing is in both.

    Args:
        common: what everybody can read.
        own: little beside it, and often nothing.
    """

    def __init__(self, common: MibView, own: MibView) -> None:
        self._common = common
        self._own = own

    def read(self, name: bytes) -> bytes:
        """As `MibView.read`."""
        value = self._own.read(name)
        if value == ber.NO_SUCH_OBJECT:
            return self._common.read(name)
        return value

    def walk(self, name: bytes, limit: int, *, counter64: bool = True) -> tuple[list[bytes], bytes]:
        """As `MibView.walk`."""
        common, last_common = self._common.walk(name, limit, counter64=counter64)
        own, last_own = self._own.walk(name, limit, counter64=counter64)
        if not own:
            return common, last_common
        if not common:
            return own, last_own
        if len(common) == limit and _key(common[-1]) < _key(own[0]):
            return common, last_common
        joined = list(merge(common, own, key=_key))[:limit]
        return joined, _name(joined[-1])


def _name(varbind: bytes) -> bytes:
    """The name in an encoded varbind."""
    _, start, stop = ber.read_header(varbind, 0, len(varbind))
    return ber.read_name(varbind, start, stop)[0]


def _key(varbind: bytes) -> bytes:
    return ber.sort_key(ber.decode_name(_name(varbind)))
