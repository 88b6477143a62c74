"""The command table: access to rows, the submission of commands, their outcomes, and the expiry of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from gateway.escapes import escaped, printable, printable_json
from gateway.feed.operations import OperationAnswer, OperationRecord, OperationRequest
from gateway.feed.values import FeedValue, ObjectLink, text_of
from gateway.model.operations import Outcome, Principal
from gateway.model.times import SECOND
from gateway.snmp import ber, message
from gateway.snmp.ber import NO_ROW, Oid
from gateway.snmp.cells import counter64, cut_text, gauge32, known_time, text
from gateway.snmp.commands.assignments import (
    MAX_VALUE_OCTETS,
    CommandChange,
    RefusedAssignmentError,
    changed,
    changes_of,
    wanted,
)
from gateway.snmp.commands.command import (
    Argument,
    Command,
    CommandKey,
    DescribedCommand,
    NotSubmittedError,
    Progress,
    SecretArguments,
    Submission,
)
from gateway.snmp.fixed_mib import (
    COMMAND_ARGUMENT_ENTRY,
    COMMAND_ENTRY,
    COMMAND_RESULT_ENTRY,
    COMMANDS,
    CommandArgumentColumn,
    CommandColumn,
    CommandResultColumn,
    CommandScalar,
    CommandStateNumber,
    OutcomeNumber,
    ValueSyntaxNumber,
)
from gateway.snmp.store import Store
from gateway.snmp.table import Table
from gateway.snmp.tables.rows import Cells, Pointer
from gateway.snmp.written_values import Assignment, Rejected

KEEP_PREPARING: Final = 300 * SECOND
"""Nanoseconds after its last write at which a row that was not submitted expires (RFC 2579, RowStatus)."""

Submit = Callable[[int, OperationRequest], None]
"""Asks the core for an operation; its answer goes to `CommandTable.answered` with the same number."""


class CommandLimits(msgspec.Struct, frozen=True):
    """Bounds of the table.

    Attributes:
        quota: rows of each owner.
        keep: nanoseconds for which a command that has ended keeps its row.
    """

    quota: int
    keep: int


class CommandHealth(msgspec.Struct):
    """The counts of commands.

    Attributes:
        rows: the rows of all owners, now.
        running: commands that the core has not answered, now; also of rows that were destroyed.
        ended: commands since the start, by their outcome when they ended.
    """

    rows: int = 0
    running: int = 0
    ended: Counter[Outcome] = msgspec.field(default_factory=Counter)


class CommandTable:
    """The commands of all owners: a `WritableTable`.

    Args:
        root: the configured root.
        limits: the bounds of the table.
        submission: converts commands into operations.
        rows: returns what shows the commands of an owner; owners may share it.
        submit: called as soon as a command is submitted; must not raise.
        clock: returns the time in nanoseconds since 1970-01-01 UTC.
    """

    def __init__(
        self,
        root: Oid,
        limits: CommandLimits,
        submission: Submission,
        rows: Callable[[str], Iterable[CommandRows]],
        submit: Submit,
        clock: Callable[[], int],
    ) -> None:
        self._root = root
        self._limits = limits
        self._submission = submission
        self._rows = rows
        self._submit = submit
        self._clock = clock
        self._references: dict[str, int] = {}  # by the reference that the core has for those that are running
        self._commands: dict[CommandKey, Command] = {}
        self._running: dict[int, CommandKey] = {}  # by number, also those whose row was destroyed
        self._numbers: dict[CommandKey, int] = {}  # of those whose row is there
        self._records: dict[int, OperationRecord] = {}  # of what is running: its last record
        self._unknown: dict[str, CommandKey] = {}  # by operation id, where the outcome may get known yet
        self._submitted = 0
        self._ended: Counter[Outcome] = Counter()

    def serve(self, store: Store) -> None:
        """Add the scalars to ``store``."""
        base = (*self._root, *COMMANDS)
        store.scalar((*base, CommandScalar.QUOTA, 0), gauge32(self._limits.quota))
        store.scalar((*base, CommandScalar.KEEP, 0), gauge32(self._limits.keep // SECOND))
        store.scalar((*base, CommandScalar.COUNT, 0), lambda: gauge32(len(self._commands)))
        store.scalar((*base, CommandScalar.SUBMITTED, 0), lambda: counter64(self._submitted))

    @property
    def health(self) -> CommandHealth:
        """The present counts of commands."""
        return CommandHealth(len(self._commands), len(self._running), self._ended)

    @property
    def prefix(self) -> Oid:
        """The object identifier of agCommands."""
        return (*self._root, *COMMANDS)

    def test(self, principal: Principal, assignments: Sequence[Assignment]) -> Rejected | None:
        """See `WritableTable.test`. A principal that is no writer has no rows, and gets noAccess."""
        try:
            self._changed(principal, assignments)
        except RefusedAssignmentError as refused:
            return refused.refusal
        return None

    def commit(self, principal: Principal, assignments: Sequence[Assignment], identity: str) -> None:
        """See `WritableTable.commit`. Commands that it submits are passed to ``submit`` before it returns."""
        for place, (key, command) in enumerate(self._changed(principal, assignments).items()):
            if command is None:
                self._remove(key)
            # A SET that repeats what was submitted: it is not called again.
            elif command is self._commands.get(key):
                continue
            elif command.is_submitted:
                # Known to the core also if it comes again to a process that was restarted meanwhile.
                self._begin(key, command, principal, f"{identity}.c{place}")
            else:
                self._put(key, command)

    def answered(self, number: int, answer: OperationAnswer) -> None:
        """Take the answer to a submitted command, whose row may have been destroyed since."""
        key = self._running.pop(number)
        # Few run at a time, and the answer does not contain the reference.
        self._references = {name: one for name, one in self._references.items() if one != number}
        record = self._records.pop(number, None)
        if record is not None:
            answer = _with_record(answer, record)
        self._ended[answer.outcome] += 1
        # The row was destroyed, and may have been made again under the same name: the answer is not the new
        # one's.
        if self._numbers.get(key) != number:
            return
        del self._numbers[key]
        self._end(key, answer)
        if answer.outcome is Outcome.UNKNOWN and answer.operation_id:
            # The core goes on to find the outcome out, and publishes it as a record of the operation.
            self._unknown[answer.operation_id] = key

    def operation_changed(self, record: OperationRecord) -> None:
        """Take the record of an operation: an outcome that was unknown may be known now.

        This works also where the answer was lost with the core, or with the connection: by the operation's
        id, which was received when it began.
        """
        number = self._references.get(record.reference)
        if number is not None:
            self._records[number] = record
            return
        key = self._unknown.get(record.operation_id)
        if key is None or record.outcome is None or record.outcome is Outcome.UNKNOWN:
            return
        del self._unknown[record.operation_id]
        command = self._commands[key]
        progress = replace(
            command.progress,
            outcome=record.outcome,
            element=record.element,
            code=record.code,
            text=record.text,
            results=record.found,
        )
        self._put(key, replace(command, progress=progress))

    def hide(self, secrets: SecretArguments) -> None:
        """Take other arguments for secrets from now on, and show all commands again."""
        self._submission.hide(secrets)
        for key, command in tuple(self._commands.items()):
            shown = (
                self._submission.of(key.owner).without_secrets(command) if command.is_submitted else command
            )
            self._put(key, shown)

    def tick(self) -> None:
        """Remove expired rows. Call this about once a second."""
        now = self._clock()
        for key in [key for key, command in self._commands.items() if 0 < self._expires(command) <= now]:
            self._remove(key)

    # ---- what a SET makes of it -----------------------------------------------------------------------

    def _changed(
        self, principal: Principal, assignments: Sequence[Assignment]
    ) -> dict[CommandKey, Command | None]:
        """Return each command concerned as it is after the SET. Raises `RefusedAssignmentError`."""
        changes = changes_of(wanted(each, self._root, principal.name) for each in assignments)
        now = self._clock()
        after: dict[CommandKey, Command | None] = {}
        for key, change in changes.items():
            former = self._commands.get(key)
            command = after[key] = changed(former, change, now)
            if command is not None and command is not former:
                after[key] = self._aimed(key, former, command, change)
        made = [key for key, command in after.items() if command is not None and key not in self._commands]
        gone = [key for key, command in after.items() if command is None and key in self._commands]
        freed = sum(key not in self._numbers for key in gone)  # what runs still counts
        if made and self._count(principal.name) + len(made) - freed > self._limits.quota:
            index = changes[made[-1]].command.blamed_index
            raise RefusedAssignmentError(message.RESOURCE_UNAVAILABLE, index)
        return after

    def _aimed(
        self, key: CommandKey, former: Command | None, command: Command, change: CommandChange
    ) -> Command:
        """Return a command for the life that its object has, if the SET names it."""
        if "target" not in change.command.columns or command.target == NO_ROW:
            return command
        target = self._submission.of(key.owner).target(command.target)
        if target is None and command.target != (former and former.target):
            raise RefusedAssignmentError(message.INCONSISTENT_VALUE, change.command.indexes["target"])
        return replace(command, ends=None if target is None else target.ends)

    def _count(self, owner: str) -> int:
        """Return the number of an owner's rows, and of its running commands whose rows were destroyed."""
        rows = sum(key.owner == owner for key in self._commands)
        destroyed = sum(
            key.owner == owner and self._numbers.get(key) != number for number, key in self._running.items()
        )
        return rows + destroyed

    # ---- what becomes of it ---------------------------------------------------------------------------

    def _begin(self, key: CommandKey, command: Command, principal: Principal, reference: str) -> None:
        """Submit a command; its secrets are forgotten here."""
        self._submitted += 1
        number, submission = self._submitted, self._submission.of(key.owner)
        try:
            request = submission.request(command, principal)
        except NotSubmittedError as error:
            self._ended[error.outcome] += 1
            self._put(key, submission.without_secrets(command))
            self._end(key, OperationAnswer(0, "", error.outcome, str(error), error.element))
            return
        self._put(key, submission.without_secrets(command))
        self._running[number] = key
        self._numbers[key] = number
        self._references[reference] = number
        self._submit(number, msgspec.structs.replace(request, reference=reference))

    def _end(self, key: CommandKey, answer: OperationAnswer) -> None:
        command = self._commands[key]
        progress = Progress(
            CommandStateNumber.ENDED,
            answer.outcome,
            answer.element,
            answer.code,
            answer.text,
            answer.operation_id,
            answer.values,
            submitted=command.progress.submitted,
            ended=self._clock(),
        )
        self._put(key, replace(command, progress=progress))

    def _put(self, key: CommandKey, command: Command) -> None:
        self._commands[key] = command
        described = self._submission.of(key.owner).described(command)
        for rows in self._rows(key.owner):
            rows.show(key, command, self._expires(command), described)

    def _remove(self, key: CommandKey) -> None:
        """Remove a row, if there is one; a running command goes on."""
        command = self._commands.pop(key, None)
        if command is None:
            return
        self._numbers.pop(key, None)
        self._unknown.pop(command.progress.operation_id, None)
        for rows in self._rows(key.owner):
            rows.remove(key)

    def _expires(self, command: Command) -> int:
        """Return when the row of a command expires; 0 while the command is running."""
        progress = command.progress
        if not command.is_submitted:
            return command.written + KEEP_PREPARING
        return progress.ended + self._limits.keep if progress.ended else 0


def _with_record(answer: OperationAnswer, record: OperationRecord) -> OperationAnswer:
    """Return an answer with the operation's id and, if it has no known outcome, that of the record.

    The record may have been received although no answer was, or be settled already.
    """
    outcome = record.outcome
    if answer.outcome is not Outcome.UNKNOWN or outcome is None or outcome is Outcome.UNKNOWN:
        return msgspec.structs.replace(answer, operation_id=record.operation_id)
    return OperationAnswer(
        answer.request,
        record.operation_id,
        outcome,
        record.text,
        record.element,
        record.code,
        record.found,
    )


_INTEGER32 = range(-(2**31), 2**31)


class CommandRows:
    """The three tables in one store.

    Args:
        store: the store in which they are made.
        root: the configured root.
        pointer: returns the TLV of a RowPointer to an object.
    """

    def __init__(self, store: Store, root: Oid, pointer: Pointer) -> None:
        self._pointer = pointer
        self._commands = store.table((*root, *COMMAND_ENTRY), tuple(CommandColumn))
        self._arguments = store.table((*root, *COMMAND_ARGUMENT_ENTRY), tuple(CommandArgumentColumn))
        self._results = store.table((*root, *COMMAND_RESULT_ENTRY), tuple(CommandResultColumn))
        self._below: dict[CommandKey, tuple[tuple[Oid, ...], tuple[Oid, ...]]] = {}  # arguments and results

    def show(self, key: CommandKey, command: Command, expires: int, described: DescribedCommand) -> None:
        """Show the present state of a command.

        Args:
            key: its key.
            command: the whole command.
            expires: when its row expires, nanoseconds since 1970-01-01 UTC; 0 while that is not known.
            described: its description by its class.
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
        """Remove a command; ``KeyError`` if it is not there."""
        self._commands.remove(index_of(key))
        self._replace_below(key, {}, {})
        del self._below[key]

    def _replace_below(
        self, key: CommandKey, arguments: Mapping[Oid, Cells], results: Mapping[Oid, Cells]
    ) -> None:
        """Replace the arguments and results of a command."""
        former_arguments, former_results = self._below.get(key, ((), ()))
        _replace(self._arguments, former_arguments, arguments)
        _replace(self._results, former_results, results)
        self._below[key] = (tuple(arguments), tuple(results))

    def _result_cells(self, name: str, value: FeedValue, described: DescribedCommand) -> Cells:
        output = described.outputs.get(name)
        written = text_of(value) if output is None else text_of(value, output.type, output.values)
        is_json = isinstance(value, Mapping | tuple)
        octets = (printable_json(written) if is_json else escaped(written)).encode()
        shown = b"" if is_json and len(octets) > MAX_VALUE_OCTETS else octets
        syntax = ValueSyntaxNumber.JSON if is_json else ValueSyntaxNumber.TEXT
        return {
            CommandResultColumn.NAME: text(name),
            CommandResultColumn.VALUE: cut_text(shown, MAX_VALUE_OCTETS),
            CommandResultColumn.SYNTAX: ber.encode_integer(syntax),
            CommandResultColumn.LENGTH: gauge32(len(octets)),
            CommandResultColumn.ROW: self._pointer(value, described.source)
            if isinstance(value, ObjectLink)
            else None,
        }


def index_of(key: CommandKey) -> Oid:
    """Return the index of a command: both strings with their lengths in front."""
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
    # As it was written, so that it means the same if it is written again.
    displayed = printable_json if argument.syntax is ValueSyntaxNumber.JSON else printable
    return {
        CommandArgumentColumn.VALUE: None
        if value is None
        else cut_text(displayed(value).encode(), MAX_VALUE_OCTETS),
        CommandArgumentColumn.SYNTAX: ber.encode_integer(argument.syntax),
        CommandArgumentColumn.ROW_STATUS: ber.encode_integer(argument.status),
    }


def _replace(table: Table, former: Iterable[Oid], rows: Mapping[Oid, Cells]) -> None:
    for index in former:
        if index not in rows:
            table.remove(index)
    for index, cells in rows.items():
        table.put(index, cells)
