"""A command: its arguments, its progress, its operation, its row's states (RowStatus, RFC 2579 section 2)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

import msgspec

from gateway.escapes import unescaped
from gateway.feed.client import refused_request
from gateway.feed.operations import FrontEndRefusal, InvokeMethod, OperationRequest
from gateway.feed.values import FeedValue, ObjectLink, TextValueError, value_from_json, value_from_text
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import Argument as MethodArgument
from gateway.model.schema import Direction, Method, original_name
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from gateway.snmp import message
from gateway.snmp.ber import NO_ROW, Oid
from gateway.snmp.fixed_mib import CommandStateNumber, ValueSyntaxNumber
from gateway.snmp.refused_sets import Report, drop_report
from gateway.snmp.tables.classes import ManagedObjects, Target


class RowStatus(enum.IntEnum):
    """A RowStatus: the first three are states of a row, the last three are only set; notReady(3) never is."""

    ACTIVE = 1
    NOT_IN_SERVICE = 2
    NOT_READY = 3
    CREATE_AND_GO = 4
    CREATE_AND_WAIT = 5
    DESTROY = 6


class Next(enum.Enum):
    """An entry of the table below; the completeness of the row then decides the next state."""

    SAME = "stays"
    ACTIVE_IF_COMPLETE = "active, if complete"
    WAITING_IF_COMPLETE = "notInService, if complete"
    WAITING = "notInService, or notReady if not complete"
    GONE = "no row"
    REFUSED = "inconsistentValue"
    NOT_THERE = "inconsistentName"


State: TypeAlias = "RowStatus | None"
"""The state of a row: one of the first three, ``None`` where there is no row."""

Action: TypeAlias = "RowStatus | None"
"""The value to which the status is set; ``None`` where only other columns are set."""

A, B, C, D = None, RowStatus.NOT_READY, RowStatus.NOT_IN_SERVICE, RowStatus.ACTIVE

TRANSITIONS: Final[Mapping[Action, Mapping[State, Next]]] = {
    RowStatus.CREATE_AND_GO: {
        A: Next.ACTIVE_IF_COMPLETE,
        B: Next.REFUSED,
        C: Next.REFUSED,
        D: Next.REFUSED,
    },
    RowStatus.CREATE_AND_WAIT: {
        A: Next.WAITING,
        B: Next.REFUSED,
        C: Next.REFUSED,
        D: Next.REFUSED,
    },
    RowStatus.ACTIVE: {
        A: Next.REFUSED,
        B: Next.ACTIVE_IF_COMPLETE,
        C: Next.ACTIVE_IF_COMPLETE,
        D: Next.SAME,
    },
    RowStatus.NOT_IN_SERVICE: {
        A: Next.REFUSED,
        B: Next.WAITING_IF_COMPLETE,
        C: Next.WAITING_IF_COMPLETE,
        D: Next.REFUSED,  # what is submitted cannot be taken back: "(6)" of the RFC's table
    },
    RowStatus.DESTROY: {
        A: Next.GONE,
        B: Next.GONE,
        C: Next.GONE,
        D: Next.GONE,
    },
    None: {
        A: Next.NOT_THERE,
        B: Next.WAITING,
        C: Next.WAITING,
        D: Next.SAME,
    },
}
"""The table of RFC 2579, with the names that it gives to states; where it leaves a choice, one is made."""


class RefusedError(Exception):
    """A row cannot change to the requested state.

    Args:
        status: inconsistentValue or inconsistentName, a number of `gateway.snmp.message`.
    """

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"error-status {status}")


def next_state(state: State, action: Action, *, complete: bool, made_by_columns: bool = False) -> State:
    """Return the state of a row after a SET.

    Args:
        state: the state before it.
        action: the value to which its status is set; never notReady, which is a wrongValue.
        complete: whether the row is complete, with the other columns of the same SET.
        made_by_columns: whether a column that is set makes the row: the choice of the RFC's note 4.

    Raises:
        RefusedError: the state cannot be changed so.
    """
    step = TRANSITIONS[action][state]
    if step is Next.NOT_THERE and made_by_columns:
        step = Next.WAITING
    if step is Next.NOT_THERE:
        raise RefusedError(message.INCONSISTENT_NAME)
    if_complete = step in (Next.ACTIVE_IF_COMPLETE, Next.WAITING_IF_COMPLETE)
    if step is Next.REFUSED or (if_complete and not complete):
        raise RefusedError(message.INCONSISTENT_VALUE)
    if step is Next.SAME:
        return state
    if step is Next.GONE:
        return None
    if step is Next.ACTIVE_IF_COMPLETE:
        return RowStatus.ACTIVE
    return RowStatus.NOT_IN_SERVICE if complete else RowStatus.NOT_READY


def transitions_table() -> str:
    """Return the table as in the documentation."""
    states: tuple[State, ...] = (A, B, C, D)
    lines = [
        "| the SET names | no row | notReady | notInService | active |",
        "| --- | --- | --- | --- | --- |",
    ]
    for action, steps in TRANSITIONS.items():
        named = "other columns only" if action is None else f"`{_label(action)}`"
        lines.append(f"| {named} | {' | '.join(steps[state].value for state in states)} |")
    return "\n".join(lines)


def _label(status: RowStatus) -> str:
    first, *others = status.name.lower().split("_")
    return first + "".join(word.capitalize() for word in others)


class CommandKey(NamedTuple):
    """The key of a command: its owner (a writer of the configuration) and the name that the owner chose."""

    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class Argument:
    """One row of the argument table; ``value`` is ``None`` until it is written."""

    status: RowStatus = RowStatus.NOT_READY
    value: str | None = None
    syntax: ValueSyntaxNumber = ValueSyntaxNumber.TEXT

    @property
    def is_complete(self) -> bool:
        """Whether it has a value."""
        return self.value is not None


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a command, and its outcome.

    Attributes:
        state: ``PREPARING`` until it is submitted.
        outcome: ``None`` until it has ended.
        element: the argument or method that the outcome is about.
        code: the dialect's own status.
        text: a description of one line.
        operation_id: the operation's id, as in the event log.
        results: the results of the method, by name.
        submitted: nanoseconds since 1970-01-01 UTC; 0 before.
        ended: likewise.
    """

    state: CommandStateNumber = CommandStateNumber.PREPARING
    outcome: Outcome | None = None
    element: str = ""
    code: int | None = None
    text: str = ""
    operation_id: str = ""
    results: Mapping[str, FeedValue] = field(default_factory=dict)
    submitted: int = 0
    ended: int = 0


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the command table, with its arguments.

    Attributes:
        target: an instance in the row of the object.
        timeout: seconds; 0 for the configured deadline.
        arguments: the arguments by index: a name, or the place among those that are passed, from 1.
        written: the time at which its owner last wrote to it, nanoseconds since 1970-01-01 UTC.
        ends: as `OperationRequest.ends`, when the target was set: the command is for that life of the object.
    """

    status: RowStatus = RowStatus.NOT_READY
    target: Oid = NO_ROW
    method: str = ""
    timeout: int = 0
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    progress: Progress = Progress()
    written: int = 0
    ends: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it can be submitted."""
        return (
            self.target != NO_ROW
            and self.method != ""
            and all(argument.is_complete for argument in self.arguments.values())
        )

    @property
    def is_submitted(self) -> bool:
        """Whether it runs or has run: it never changes any more, and never runs again."""
        return self.progress.state is not CommandStateNumber.PREPARING


class SecretArguments:
    """The arguments that hold secrets.

    Args:
        rules: the rules for names of secrets in any class and method.
        arguments: class (``package:class``), method and name of each further one.
    """

    def __init__(self, rules: SecretRules, arguments: Iterable[tuple[str, str, str]] = ()) -> None:
        self._rules = rules
        self._arguments = frozenset(arguments)
        self._names = frozenset(name for _, _, name in self._arguments)

    def hides(self, class_name: str, method: str, argument: str) -> bool:
        """Return whether an argument holds a secret; if class or method is unknown (empty), if it may.

        So does a second one of its name.
        """
        if self._rules.hides(argument):
            return True
        names = (argument, original_name(argument))
        if class_name and method:
            return any((class_name, method, name) in self._arguments for name in names)
        return not self._names.isdisjoint(names)


class NotSubmittedError(Exception):
    """A command stands for no operation: the core gets no request.

    Args:
        outcome: the outcome of the command.
        element: the argument that is wrong.
        text: a description of one line.
    """

    def __init__(self, outcome: Outcome, element: str, text: str) -> None:
        self.outcome = outcome
        self.element = element
        super().__init__(text)


class DescribedCommand(msgspec.Struct, frozen=True):
    """The parts of the schema that are about a command.

    Attributes:
        source: the number of its object's source.
        secrets: the indexes of arguments that must not be shown.
        outputs: the output arguments of its method, by name.
    """

    source: int
    secrets: frozenset[str]
    outputs: Mapping[str, MethodArgument]


class Submission:
    """The conversion of commands into operations.

    Args:
        directory: finds the object to which a pointer points, and its class.
        secrets: the arguments that hold secrets.
        deadline: nanoseconds for a command that names no timeout.
        report: gets the commands that stand for no operation.
        seen: returns the objects that an owner sees, by its name; without it all see all.
    """

    def __init__(
        self,
        directory: ManagedObjects,
        secrets: SecretArguments,
        deadline: int,
        report: Report = drop_report,
        seen: Callable[[str], ManagedObjects] | None = None,
    ) -> None:
        self._directory = directory
        self._secrets = secrets
        self._deadline = deadline
        self._report = report
        self._seen = seen

    def of(self, owner: str) -> Submission:
        """Return the conversion of an owner's commands, for which there is no object that it does not see."""
        if self._seen is None:
            return self
        return Submission(self._seen(owner), self._secrets, self._deadline, self._report)

    def hide(self, secrets: SecretArguments) -> None:
        """Take other arguments for secrets from now on."""
        self._secrets = secrets

    def target(self, instance: Oid) -> Target | None:
        """Return the object in whose row an instance is; ``None`` outside the tables of objects."""
        return self._directory.target(instance)

    def request(self, command: Command, principal: Principal) -> OperationRequest:
        """Return the operation; the core refuses elements that this process does not know.

        Raises:
            NotSubmittedError: an argument's text stands for no value of its type, an argument is given
                twice, or the target is not known any more. The core gets a report.
        """
        try:
            return self._request(command, principal)
        except NotSubmittedError as error:
            target, _ = self._found(command)
            where = (0, "", 0) if target is None else (target.source, target.class_name, target.row)
            refusal = FrontEndRefusal(error.outcome, str(error), error.element)
            self._report(refused_request(principal, InvokeMethod(command.method), refusal, where))
            raise

    def _request(self, command: Command, principal: Principal) -> OperationRequest:
        target, method = self._found(command)
        if target is None:
            raise NotSubmittedError(
                Outcome.OBJECT_GONE, "", "agCommandTarget leads to no object that is known"
            )
        if command.ends is not None and target.life > command.ends:
            text = "the object has ended since agCommandTarget was set, and another one has its name now"
            raise NotSubmittedError(Outcome.OBJECT_GONE, "", text)
        return OperationRequest(
            request=0,
            principal=principal,
            source=target.source,
            class_name=target.class_name,
            row=target.row,
            action=InvokeMethod(command.method, self._arguments(command, method)),
            # agCommandTimeout 0, its default, stands for the configured deadline.
            timeout=command.timeout * SECOND or self._deadline,
            ends=command.ends,
            stable_name=target.stable_name,
        )

    def described(self, command: Command) -> DescribedCommand:
        """Return the description of a command's arguments and results, as far as it is known."""
        target, method = self._found(command)
        arguments = method.arguments if method is not None else ()
        return DescribedCommand(
            source=target.source if target is not None else 0,
            secrets=self._secret_indexes(command),
            outputs={each.name: each for each in arguments if each.direction is not Direction.IN},
        )

    def without_secrets(self, command: Command) -> Command:
        """Return the command with empty values in place of secrets."""
        secrets = self._secret_indexes(command)
        arguments = {
            index: replace(argument, value="") if index in secrets else argument
            for index, argument in command.arguments.items()
        }
        return replace(command, arguments=arguments)

    def _found(self, command: Command) -> tuple[Target | None, Method | None]:
        """Return object and method of a command, as far as they are known here."""
        target = self._directory.target(command.target)
        if target is None or target.schema is None:
            return target, None
        return target, next((each for each in target.schema.methods if each.name == command.method), None)

    def _secret_indexes(self, command: Command) -> frozenset[str]:
        """Return the indexes of arguments that hold secrets, or may hold them."""
        passed = _passed(self._found(command)[1])
        names = {index: _name_of(index, passed) for index in command.arguments}
        return frozenset(index for index, name in names.items() if name is None or self._hides(command, name))

    def _hides(self, command: Command, name: str) -> bool:
        target = self._directory.target(command.target)
        return self._secrets.hides("" if target is None else target.class_name, command.method, name)

    def _arguments(self, command: Command, method: Method | None) -> dict[str, FeedValue]:
        passed = _passed(method)
        values: dict[str, FeedValue] = {}
        for index, argument in command.arguments.items():
            name = _name_of(index, passed) or index
            # By name and by place may be the same argument, and neither is more right than the other.
            if name in values:
                raise NotSubmittedError(Outcome.WRONG_VALUE, name, f"{name}: given by name and by place")
            values[name] = self._value(command, name, argument, passed.get(name))
        return values

    def _value(
        self, command: Command, name: str, argument: Argument, described: MethodArgument | None
    ) -> FeedValue:
        text = argument.value or ""
        is_plain = described is None or described.type is ValueType.STRING
        if is_plain and argument.syntax is ValueSyntaxNumber.TEXT:
            text = unescaped(text)
        if described is None:
            return text
        read = value_from_json if argument.syntax is ValueSyntaxNumber.JSON else value_from_text
        try:
            return read(text, described.type, described.values, self._object)
        except TextValueError as error:
            # The error quotes the value that it cannot read.
            shown = "what is given cannot be read" if self._hides(command, name) else str(error)
            raise NotSubmittedError(error.outcome, name, f"{name}: {shown}") from None

    def _object(self, text: str) -> ObjectLink | None:
        """Return the object of a reference, which is written as an instance in the row, in dotted form."""
        arcs = text.removeprefix(".").split(".")
        if not all(arc.isascii() and arc.isdecimal() and len(arc) <= _ARC_DIGITS for arc in arcs):
            return None
        target = self._directory.target(tuple(map(int, arcs)))
        return ObjectLink(target.class_name, target.row, target.stable_name) if target is not None else None


# As many as 2^32-1 has: the text is a client's, and `int` of a long one is slow.
_ARC_DIGITS = 10


def _passed(method: Method | None) -> dict[str, MethodArgument]:
    """Return the arguments that are passed to a method, by name, in order."""
    arguments = method.arguments if method is not None else ()
    return {each.name: each for each in arguments if each.direction is not Direction.OUT}


def _name_of(index: str, passed: Mapping[str, MethodArgument]) -> str | None:
    """Return the name of an argument that is given by name or by place; ``None`` for no such place."""
    if not (index.isascii() and index.isdecimal()):
        return index
    place = int(index)
    return list(passed)[place - 1] if 1 <= place <= len(passed) else None
