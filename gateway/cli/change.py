"""``amqp-gateway set`` and ``invoke``: changing objects through the running gateway."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, TypeVar, Unpack

import click

from gateway.cli.options import config_option
from gateway.cli.printing import json_option, once_done, say, say_json
from gateway.cli.running_gateway import (
    Asked,
    failure_of,
    operate,
    timeout_option,
    unknown_name,
    with_gateway,
)
from gateway.escapes import unescaped
from gateway.feed.operations import Action, InvokeMethod, OperationAnswer, SetElements
from gateway.feed.values import FeedValue, ObjectLink, TextValueError, value_from_text
from gateway.model.operations import Outcome
from gateway.model.schema import Argument, Direction, Element, Method
from gateway.model.values import ValueType
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.service.diagnostics.published_names import object_of
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.outcome_codes import OF_OUTCOME
from gateway.terminal.documents import answer_document
from gateway.terminal.lines import aligned, value_change, value_with_unit
from gateway.terminal.view import KnownObject, TerminalView, ValueChange

_LEAST, _MOST = -(2**63), 2**64 - 1

MAX_FILE_OCTETS = 1024 * 1024
"""The largest size of a file that holds one value, in bytes."""


_ACCEPTED = "nothing speaks against it"

CommandT = TypeVar("CommandT", bound=Callable[..., None])

_OPTIONS = (
    click.option("--absent", multiple=True, metavar="NAME", help="Give this one no value; after all others."),
    config_option,
    click.option("--check", is_flag=True, help="Check whether the gateway would try it, and change nothing."),
    timeout_option,
    json_option,
)


class How(TypedDict):
    """The values of the options that `set` and `invoke` share, but for ``--absent``."""

    config: Path | None
    check: bool
    timeout: dt.timedelta | None
    as_json: bool


def change_options(command: CommandT) -> CommandT:
    """Add the options that `set` and `invoke` share."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Change:
    """An operation that a command requests on an object.

    Attributes:
        action: the requested action.
        described: elements or arguments that an answer may have, by name.
        done: returns lines about the answer, with the objects as they are after it.
        method: the method that is called; empty for ``set``.
    """

    action: Action
    described: Mapping[str, Element | Argument]
    done: Callable[[OperationAnswer, TerminalView], list[str]]
    method: str = ""


@click.command("set")
@click.argument("text", metavar="OBJECT")
@click.argument("assignments", metavar="[ELEMENT=VALUE]...", nargs=-1)
@change_options
def set_command(text: str, assignments: tuple[str, ...], absent: tuple[str, ...], **how: Unpack[How]) -> None:
    """Set elements of OBJECT, in this order, as one operation.

    ELEMENT@FILE takes the value from a file, or - for standard input. OBJECT must be written in full. Rules
    of the configuration (operations.allow) permit changes; without one, every change is refused.
    """
    given = words(assignments, absent)
    if not given:
        raise click.UsageError("name an element: ELEMENT=VALUE, or --absent ELEMENT")

    def change_of(known: KnownObject, link: Callable[[str], ObjectLink]) -> Change:
        described: dict[str, Element | Argument] = {
            element.name: element for element in known.in_class.schema.elements
        }
        values = values_of(given, described, f"element of {known.class_name} called", link)
        return Change(
            SetElements(values), described, lambda answer, view: _set_lines(known, view, answer, given)
        )

    change(text, change_of, **how)


def _set_lines(
    known: KnownObject, view: TerminalView, answer: OperationAnswer, given: Collection[str]
) -> list[str]:
    """Return for each element its value at the start of the operation, and its value now."""
    now = view.objects.get(known.key, known)
    record = view.operations.get(answer.operation_id)
    lines = []
    for element in known.in_class.schema.elements:
        if element.name in given:
            name = element.name
            former = known.value(name) if record is None else record.previous.get(name)
            value = answer.values.get(name, now.value(name))
            lines.append(value_change(ValueChange(element, former, value), known.source))
    return lines


@click.command()
@click.argument("text", metavar="OBJECT")
@click.argument("name", metavar="METHOD")
@click.argument("assignments", metavar="[ARGUMENT=VALUE]...", nargs=-1)
@change_options
def invoke(
    text: str, name: str, assignments: tuple[str, ...], absent: tuple[str, ...], **how: Unpack[How]
) -> None:
    """Call METHOD on OBJECT, once.

    An argument that is left out has its default, or is absent if it is optional. ARGUMENT@FILE takes the
    value from a file, or - for standard input. OBJECT must be written in full. Rules of the configuration
    (operations.allow) permit calls; without one, every call is refused.
    """
    given = words(assignments, absent)

    def change_of(known: KnownObject, link: Callable[[str], ObjectLink]) -> Change:
        method = _method(known, name)
        described: dict[str, Element | Argument] = {argument.name: argument for argument in method.arguments}
        inputs: dict[str, Element | Argument] = {
            argument.name: argument
            for argument in method.arguments
            if argument.direction is not Direction.OUT
        }
        values = values_of(given, inputs, f"argument of {known.class_name}.{name} called", link)

        def done(answer: OperationAnswer, _: TerminalView) -> list[str]:
            return aligned(
                (
                    output,
                    value_with_unit(described[output], value, known.source)
                    if output in described
                    else str(value),
                )
                for output, value in answer.values.items()
            )

        return Change(InvokeMethod(name, values), described, done, name)

    change(text, change_of, **how)


def _method(known: KnownObject, name: str) -> Method:
    methods = {method.name: method for method in known.in_class.schema.methods}
    if name not in methods:
        listed = ", ".join(methods) or "none at all"
        raise CommandError(
            ExitCode.NOT_FOUND, f"{known.class_name} has no method {name!r}; there are: {listed}"
        )
    return methods[name]


def change(
    text: str, change_of: Callable[[KnownObject, Callable[[str], ObjectLink]], Change], **how: Unpack[How]
) -> None:
    """Have the running gateway change an object, and print the outcome.

    Args:
        text: the name of the object.
        change_of: returns the operation; it is called with the object, and a function that finds the object
            of a reference's text.
        how: the options.

    Raises:
        CommandError: the operation was not applied as requested.
    """

    async def work(session: FeedSession, asked: Asked) -> None:
        view = session.view
        known = object_of(view, asked.names, text, whole=True)

        def link(name: str) -> ObjectLink:
            found = object_of(view, asked.names, name, whole=True)
            return ObjectLink(found.class_name, found.record.row, found.record.stable_name)

        wanted = change_of(known, link)
        patience = asked.patience(how["timeout"])
        answer = await operate(session, known, wanted.action, patience, check_only=how["check"])
        failure = failure_of(answer)
        remark = "" if answer.text in {"", "OK"} else f" ({answer.text})"
        done = _ACCEPTED if how["check"] else f"applied: operation {answer.operation_id}{remark}"
        # The outcome is certain, whatever becomes of the output.
        with once_done(str(failure or done), failure.code if failure else ExitCode.OK):
            if how["as_json"]:
                about = {"object": known.path, **({"method": wanted.method} if wanted.method else {})}
                described = answer_document(answer, wanted.described, known.source, check=how["check"])
                say_json({**about, **described})
            elif failure is None:
                say([done] if how["check"] else [*wanted.done(answer, view), done])
        if failure is not None:
            raise failure

    with_gateway(how["config"], work)


def words(given: tuple[str, ...], absent: tuple[str, ...] = ()) -> dict[str, str | None]:
    """Return ``NAME=VALUE`` and ``NAME@FILE`` as texts by name, and ``None`` for absent ones.

    Raises:
        click.UsageError: a word is neither, or a name is given twice.
        CommandError: a file cannot be read.
    """
    found: dict[str, str | None] = {}
    for word in given:
        ends = [end for end in (word.find("="), word.find("@")) if end > 0]
        if not ends:
            raise click.UsageError(f"{word!r}: write NAME=VALUE, or NAME@FILE for the content of a file")
        end = min(ends)
        name, rest = word[:end], word[end + 1 :]
        if name in found or name in absent:
            raise click.UsageError(f"{name!r} is given twice")
        found[name] = rest if word[end] == "=" else _content(rest)
    return {**found, **dict.fromkeys(absent)}


def values_of(
    given: dict[str, str | None],
    described: dict[str, Element | Argument],
    what: str,
    link: Callable[[str], ObjectLink],
) -> dict[str, FeedValue | None]:
    """Return values by name, each read by the type of its element or argument.

    Args:
        given: texts by name; ``None`` is absent.
        described: the elements or arguments, by name.
        what: their kind, for error messages.
        link: finds the object that a text names.

    Raises:
        CommandError: a name is unknown, or a text is no such value.
    """
    values: dict[str, FeedValue | None] = {}
    for name, written in given.items():
        about = described.get(name)
        if about is None:
            raise unknown_name(name, described, what)
        text = None if written is None else _plain(written, about)
        try:
            value = None if text is None else value_from_text(text, about.type, about.values, link)
        except TextValueError as error:
            raise _impossible(error.outcome, f"{name}: {error}") from error
        if isinstance(value, int) and not _LEAST <= value <= _MOST:
            raise _impossible(Outcome.WRONG_VALUE, f"{name}: {value} has more than 64 bits")
        if text is not None and not _is_unicode(text):
            raise _impossible(Outcome.WRONG_VALUE, f"{name}: is not text in UTF-8")
        values[name] = value
    return values


class _FileText(str):
    """The content of a file, in which a backslash is a backslash."""

    __slots__ = ()


def _plain(text: str, about: Element | Argument) -> str:
    """Return a text as it is meant: on the command line as it is displayed."""
    is_displayed = about.type is ValueType.STRING and not isinstance(text, _FileText)
    return unescaped(text) if is_displayed else text


def _impossible(outcome: Outcome, text: str) -> CommandError:
    return CommandError(OF_OUTCOME[outcome], f"{outcome.value}: {text}")


def _is_unicode(text: str) -> bool:
    """Return whether a word of the command line was UTF-8: Python keeps other bytes as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _content(name: str) -> str:
    """Return the content of a file without the end of its last line; ``-`` is standard input."""
    try:
        if name == "-":
            octets = sys.stdin.buffer.read(MAX_FILE_OCTETS + 1)
        else:
            with Path(name).open("rb") as file:
                octets = file.read(MAX_FILE_OCTETS + 1)
        if len(octets) > MAX_FILE_OCTETS:
            raise CommandError(ExitCode.WRONG_VALUE, f"{name}: more than {MAX_FILE_OCTETS} bytes")
        text = octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(ExitCode.WRONG_VALUE, f"{name}: is not text in UTF-8") from error
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{name}: cannot be read: {error.strerror}") from error
    return _FileText(text.removesuffix("\n").removesuffix("\r"))
