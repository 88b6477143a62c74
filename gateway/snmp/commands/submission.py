"""From a command to the operation that the core is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from gateway.feed.client import refused_request
from gateway.feed.operations import FrontEndRefusal, InvokeMethod, OperationRequest
from gateway.feed.text_values import TextValueError, value_from_json, value_from_text
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import Argument as MethodArgument
from gateway.model.schema import Direction, Method
from gateway.model.secrets import SecretRules
from gateway.snmp.ber import Oid
from gateway.snmp.commands.command import Argument, Command
from gateway.snmp.fixed_mib import ValueSyntaxNumber
from gateway.snmp.refused_sets import Report, drop_report
from gateway.snmp.tables.classes import Target

_SECOND = 10**9


class ObjectDirectory(Protocol):
    """Where instances lead to."""

    def target(self, instance: Oid) -> Target | None:
        """The object in whose row an instance is, or would be; ``None`` outside the tables of objects."""


class SecretArguments:
    """Which arguments hold secrets.

    Args:
        rules: for names that do wherever they turn up.
        arguments: class (``package:class``), method and name of each further one.
    """

    def __init__(self, rules: SecretRules, arguments: Iterable[tuple[str, str, str]] = ()) -> None:
        self._rules = rules
        self._arguments = frozenset(arguments)
        self._names = frozenset(name for _, _, name in self._arguments)

    def hides(self, class_name: str, method: str, argument: str) -> bool:
        """Whether an argument does; where class or method are not known yet (empty), whether it may."""
        if class_name and method:
            return (class_name, method, argument) in self._arguments or self._rules.hides(argument)
        return argument in self._names or self._rules.hides(argument)


class NotSubmittedError(Exception):
    """A command stands for no operation: nothing is asked of the core.

    Args:
        outcome: what is wrong.
        element: the argument that is.
        text: one line for people.
    """

    def __init__(self, outcome: Outcome, element: str, text: str) -> None:
        self.outcome = outcome
        self.element = element
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class DescribedCommand:
    """What the schema says about a command.

    Attributes:
        source: number of its object's source.
        secrets: indexes of arguments that must not be shown.
        outputs: what its method gives back, by name.
    """

    source: int
    secrets: frozenset[str]
    outputs: Mapping[str, MethodArgument]


class Submission:
    """Makes operations of commands.

    Args:
        directory: which object a pointer leads to, and its class.
        secrets: the names of arguments that hold secrets are among what they hide.
        deadline: nanoseconds; of a command that names no timeout.
        report: gets the commands that stand for no operation.
    """

    def __init__(
        self,
        directory: ObjectDirectory,
        secrets: SecretArguments,
        deadline: int,
        report: Report = drop_report,
    ) -> None:
        self._directory = directory
        self._secrets = secrets
        self._deadline = deadline
        self._report = report

    def is_object(self, instance: Oid) -> bool:
        """Whether an instance is in a table of objects."""
        return self._directory.target(instance) is not None

    def request(self, command: Command, principal: Principal) -> OperationRequest:
        """The operation; what this process does not know is the core's to refuse.

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
        return OperationRequest(
            request=0,
            principal=principal,
            source=target.source,
            class_name=target.class_name,
            row=target.row,
            action=InvokeMethod(command.method, self._arguments(command, method)),
            timeout=command.timeout * _SECOND or self._deadline,
        )

    def described(self, command: Command) -> DescribedCommand:
        """What is known of a command's arguments and results, for who shows it."""
        target, method = self._found(command)
        arguments = method.arguments if method is not None else ()
        return DescribedCommand(
            source=target.source if target is not None else 0,
            secrets=self._secret_indexes(command),
            outputs={each.name: each for each in arguments if each.direction is not Direction.IN},
        )

    def without_secrets(self, command: Command) -> Command:
        """The command with nothing in place of what must never be shown."""
        secrets = self._secret_indexes(command)
        arguments = {
            index: replace(argument, value="") if index in secrets else argument
            for index, argument in command.arguments.items()
        }
        return replace(command, arguments=arguments)

    def _found(self, command: Command) -> tuple[Target | None, Method | None]:
        """Object and method of a command, as far as they are known here."""
        target = self._directory.target(command.target)
        if target is None or target.schema is None:
            return target, None
        return target, next((each for each in target.schema.methods if each.name == command.method), None)

    def _secret_indexes(self, command: Command) -> frozenset[str]:
        """The arguments that hold secrets, and those of which that is unknown."""
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
            if name in values:
                raise NotSubmittedError(Outcome.WRONG_VALUE, name, f"{name}: given by name and by place")
            values[name] = self._value(command, name, argument, passed.get(name))
        return values

    def _value(
        self, command: Command, name: str, argument: Argument, described: MethodArgument | None
    ) -> FeedValue:
        text = argument.value or ""
        if described is None:
            return text
        read = value_from_json if argument.syntax is ValueSyntaxNumber.JSON else value_from_text
        try:
            return read(text, described.type, described.values, self._object)
        except TextValueError as error:
            shown = "what is given cannot be read" if self._hides(command, name) else str(error)
            raise NotSubmittedError(error.outcome, name, f"{name}: {shown}") from None

    def _object(self, text: str) -> ObjectLink | None:
        """What a reference is written as: an instance in the row, in numbers with dots."""
        arcs = text.removeprefix(".").split(".")
        if not all(arc.isascii() and arc.isdecimal() and len(arc) <= _ARC_DIGITS for arc in arcs):
            return None
        target = self._directory.target(tuple(map(int, arcs)))
        return ObjectLink(target.class_name, target.row, target.stable_name) if target is not None else None


_ARC_DIGITS = 10


def _passed(method: Method | None) -> dict[str, MethodArgument]:
    """What a method takes, by name, in order."""
    arguments = method.arguments if method is not None else ()
    return {each.name: each for each in arguments if each.direction is not Direction.OUT}


def _name_of(index: str, passed: Mapping[str, MethodArgument]) -> str | None:
    """The name of an argument that is given by name or by place; ``None`` for a place that there is not."""
    if not (index.isascii() and index.isdecimal()):
        return index
    place = int(index)
    return list(passed)[place - 1] if 1 <= place <= len(passed) else None
