"""``amqp-gateway set`` and ``invoke``: changing objects through the running gateway."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import click

from gateway.cli.options import config_option
from gateway.cli.printing import json_option, say, say_json
from gateway.cli.running_gateway import (
    Asked,
    operate,
    refuse_unless_applied,
    timeout_option,
    unknown_name,
    with_gateway,
)
from gateway.feed.operations import InvokeMethod, OperationAnswer, SetElements
from gateway.feed.text_values import TextValueError, value_from_text
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.operations import Outcome
from gateway.model.schema import Argument, Direction, Element, Method
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.service.diagnostics.object_finding import object_of
from gateway.service.processes.exit_codes import OF_OUTCOME, CommandError, ExitCode
from gateway.terminal.documents import Document, answer_document, text_form
from gateway.terminal.lines import ABSENT, aligned
from gateway.terminal.view import KnownObject, TerminalView

_LEAST, _MOST = -(2**63), 2**64 - 1

MAX_FILE_OCTETS = 1024 * 1024
"""Of a file that holds one value."""


absent_option = click.option(
    "--absent", multiple=True, metavar="NAME", help="Give this one no value; after all others."
)


@click.command("set")
@click.argument("text", metavar="OBJECT")
@click.argument("assignments", metavar="[ELEMENT=VALUE]...", nargs=-1)
@absent_option
@config_option
@click.option("--check", is_flag=True, help="Check whether the gateway would try it, and change nothing.")
@timeout_option
@json_option
def set_command(
    text: str,
    assignments: tuple[str, ...],
    absent: tuple[str, ...],
    config: Path | None,
    *,
    check: bool,
    timeout: dt.timedelta | None,
    as_json: bool,
) -> None:
    """Set elements of OBJECT, in this order, as one operation.

    ELEMENT@FILE takes the value from a file, or - for standard input. OBJECT must be written in full. Rules
    of the configuration (operations.allow) permit changes; without one, every change is refused.
    """
    given = words(assignments, absent)
    if not given:
        raise click.UsageError("name an element: ELEMENT=VALUE, or --absent ELEMENT")

    async def work(session: FeedSession, asked: Asked) -> None:
        known = object_of(session.view, asked.names, text, whole=True)
        described: dict[str, Element | Argument] = {
            element.name: element for element in known.in_class.schema.elements
        }
        what = f"element of {known.class_name} called"
        action = SetElements(values_of(given, described, what, links(session, asked)))
        answer = await operate(session, known, action, asked.patience(timeout), check_only=check)
        document = answered(known, answer, described) if as_json else None
        lines = ["nothing speaks against it"] if check else _done(known, session.view, answer, given)
        show_answer(answer, document, lines)

    with_gateway(config, work)


def _done(
    known: KnownObject, view: TerminalView, answer: OperationAnswer, given: Collection[str]
) -> list[str]:
    """Return for each element its value at the start of the operation, and its value now."""
    now = view.objects.get(known.key, known)
    record = view.operations.get(answer.operation_id)
    lines = []
    for element in known.in_class.schema.elements:
        if element.name in given:
            name = element.name
            former = known.value(name) if record is None else record.former.get(name)
            value = answer.values.get(name, now.value(name))
            before, after = (
                ABSENT if one is None else text_form(element, one, known.source) for one in (former, value)
            )
            lines.append(f"{name}: {before} -> {after}")
    return [*lines, applied(answer)]


@click.command()
@click.argument("text", metavar="OBJECT")
@click.argument("name", metavar="METHOD")
@click.argument("assignments", metavar="[ARGUMENT=VALUE]...", nargs=-1)
@absent_option
@config_option
@click.option("--check", is_flag=True, help="Check whether the gateway would try it, and do nothing.")
@timeout_option
@json_option
def invoke(
    text: str,
    name: str,
    assignments: tuple[str, ...],
    absent: tuple[str, ...],
    config: Path | None,
    *,
    check: bool,
    timeout: dt.timedelta | None,
    as_json: bool,
) -> None:
    """Call METHOD on OBJECT, once.

    An argument that is left out has its default, or is absent if it is optional. ARGUMENT@FILE takes the
    value from a file, or - for standard input. OBJECT must be written in full. Rules of the configuration
    (operations.allow) permit calls; without one, every call is refused.
    """
    given = words(assignments, absent)

    async def work(session: FeedSession, asked: Asked) -> None:
        known = object_of(session.view, asked.names, text, whole=True)
        method = _method(known, name)
        inputs: dict[str, Element | Argument] = {
            argument.name: argument
            for argument in method.arguments
            if argument.direction is not Direction.OUT
        }
        what = f"argument of {known.class_name}.{name} called"
        action = InvokeMethod(name, values_of(given, inputs, what, links(session, asked)))
        answer = await operate(session, known, action, asked.patience(timeout), check_only=check)
        described: dict[str, Element | Argument] = {argument.name: argument for argument in method.arguments}
        outputs = [
            (output, text_form(described[output], value, known.source) if output in described else str(value))
            for output, value in answer.values.items()
        ]
        done = [*aligned(outputs), applied(answer)]
        document = answered(known, answer, described, method=name) if as_json else None
        show_answer(answer, document, ["nothing speaks against it"] if check else done)

    with_gateway(config, work)


def _method(known: KnownObject, name: str) -> Method:
    methods = {method.name: method for method in known.in_class.schema.methods}
    if name not in methods:
        listed = ", ".join(methods) or "none at all"
        raise CommandError(
            ExitCode.NOT_FOUND, f"{known.class_name} has no method {name!r}; there are: {listed}"
        )
    return methods[name]


def show_answer(answer: OperationAnswer, document: Document | None, lines: list[str]) -> None:
    """Print the outcome of an operation, and end the command accordingly.

    Args:
        answer: of the core.
        document: printed for every outcome; ``None`` to print lines.
        lines: for people, printed if the operation was applied.

    Raises:
        CommandError: the operation was not applied as requested.
    """
    if document is not None:
        say_json(document)
    elif answer.outcome is Outcome.APPLIED:
        say(lines)
    refuse_unless_applied(answer)


def applied(answer: OperationAnswer) -> str:
    """Return the last line of the output."""
    text = "" if answer.text in {"", "OK"} else f" ({answer.text})"
    return f"applied: operation {answer.operation_id}{text}"


def answered(
    known: KnownObject,
    answer: OperationAnswer,
    described: dict[str, Element | Argument],
    *,
    method: str = "",
) -> Document:
    """Return the document of ``set --json`` and ``invoke --json``."""
    about = {"object": known.path, **({"method": method} if method else {})}
    return {**about, **answer_document(answer, described, known.source)}


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
    for name, text in given.items():
        about = described.get(name)
        if about is None:
            raise unknown_name(name, described, what)
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


def _impossible(outcome: Outcome, text: str) -> CommandError:
    return CommandError(OF_OUTCOME[outcome], f"{outcome.value}: {text}")


def _is_unicode(text: str) -> bool:
    """Return whether a word of the command line was UTF-8: Python keeps other bytes as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def links(session: FeedSession, asked: Asked) -> Callable[[str], ObjectLink]:
    """Return a function that finds the object that a reference's text names."""

    def find(text: str) -> ObjectLink:
        known = object_of(session.view, asked.names, text, whole=True)
        return ObjectLink(known.class_name, known.record.row, known.record.stable_name)

    return find


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
    return text.removesuffix("\n").removesuffix("\r")
