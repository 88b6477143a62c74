"""What the commands share that ask the running gateway."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeVar

import click

from gateway.cli.log_options import duration
from gateway.cli.options import loaded
from gateway.cli.printing import at_work, say, say_json
from gateway.config.files import LoadedConfiguration
from gateway.eventlog.readable import harmless
from gateway.feed.operations import Action, OperationAnswer
from gateway.feed.records import Interest
from gateway.feed.text_values import TextValueError, value_from_text
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.operations import Outcome
from gateway.model.schema import Argument, Element
from gateway.service.diagnostics.feed_session import FeedSession, feed_session
from gateway.service.diagnostics.object_finding import interest_in, object_of
from gateway.service.diagnostics.published_names import PublishedNames
from gateway.service.processes.exit_codes import OF_OUTCOME, CommandError, ExitCode
from gateway.service.processes.logs import configure_logs
from gateway.terminal.documents import Document, answer_document
from gateway.terminal.selection import NotOneObjectError, Pattern
from gateway.terminal.view import KnownObject, TerminalView

_Result = TypeVar("_Result")

_MICROSECOND = dt.timedelta(microseconds=1)

_LEAST, _MOST = -(2**63), 2**64 - 1

MAX_FILE_OCTETS = 1024 * 1024
"""Of a file that holds one value."""

timeout_option = click.option(
    "--timeout",
    type=duration,
    metavar="DURATION",
    help="How long to wait for the outcome; by default, and at most, operations.deadline.",
)


absent_option = click.option(
    "--absent", multiple=True, metavar="NAME", help="This one is to have no value; behind all others."
)


def with_gateway(
    config: Path | None,
    work: Callable[[FeedSession, Asked], Awaitable[_Result]],
    interest: Callable[[Asked], Interest | None] = lambda _asked: None,
) -> _Result:
    """Do ``work`` with all that the running gateway knows, or with those objects that it needs to know.

    Raises:
        CommandError: it cannot be reached.
    """
    configuration = loaded(config)
    configure_logs("cli", logging.CRITICAL)
    asked = Asked(configuration, PublishedNames.of(configuration))

    async def do() -> _Result:
        async with AsyncExitStack() as session:
            with at_work("reading what the gateway knows"):
                known = await session.enter_async_context(
                    feed_session(configuration.feed_socket, interest(asked))
                )
            return await work(known, asked)

    return asyncio.run(do())


def refuse_nothing(view: TerminalView, meant: Pattern, text: str) -> None:
    """Go on only where there is something that a pattern means.

    Raises:
        CommandError: there is nothing.
    """
    refuse_no_source(view, meant, text)
    if not meant.names_all() and not any(map(meant.fits, view.objects.values())):
        text = f"there is no object {text!r}: amqp-gateway tree --summary shows which classes have some"
        raise CommandError(ExitCode.NOT_FOUND, text)


def refuse_no_source(view: TerminalView, meant: Pattern, text: str) -> None:
    """Go on only where the gateway has a source that a pattern means.

    Raises:
        CommandError: it has none.
    """
    names = sorted(source.name for source in view.sources.values())
    if not names:
        raise CommandError(ExitCode.NOT_FOUND, "the gateway has no sources: name some under 'sources'")
    if not any(map(meant.has_source, names)):
        raise CommandError(ExitCode.NOT_FOUND, f"there is no source {text!r}; there are: {', '.join(names)}")


def with_object(
    config: Path | None, text: str, work: Callable[[FeedSession, Asked, KnownObject], Awaitable[None]]
) -> None:
    """Do ``work`` with the one object that ``text`` means, without asking for all the others.

    Raises:
        CommandError: it means none, or several; or the gateway cannot be reached.
    """

    async def with_it_alone(session: FeedSession, asked: Asked) -> bool:
        try:
            known = object_of(session.view, asked.names, text)
        except CommandError as error:
            reason = error.__cause__
            if isinstance(reason, NotOneObjectError) and reason.several:
                raise
            return False
        await work(session, asked, known)
        return True

    async def among_all(session: FeedSession, asked: Asked) -> None:
        await work(session, asked, object_of(session.view, asked.names, text))

    if not with_gateway(config, with_it_alone, lambda asked: interest_in(asked.names, text)):
        with_gateway(config, among_all)  # which says what may have been meant


class Asked:
    """The configuration, and what the norths that it has call things."""

    def __init__(self, configuration: LoadedConfiguration, names: PublishedNames) -> None:
        self.configuration = configuration
        self.names = names

    def patience(self, timeout: dt.timedelta | None) -> int:
        """How long an operation may take, in nanoseconds."""
        deadline = self.configuration.settings.operations.deadline
        return deadline if timeout is None else min(timeout // _MICROSECOND * 1000, deadline)


async def operate(
    session: FeedSession, known: KnownObject, action: Action, patience: int, *, check_only: bool = False
) -> OperationAnswer:
    """Have an operation carried out, saying so meanwhile.

    Raises:
        CommandError: somebody is tired of waiting (Ctrl-C): what was asked for goes on all the same.
    """
    try:
        with at_work(f"waiting for what comes of it, {patience / 1e9:g} s at most"):
            return await session.ask(known, action, patience, check_only=check_only)
    except asyncio.CancelledError:
        raise CommandError(
            ExitCode.UNKNOWN_OUTCOME,
            "not waited for: it may have been carried out, or may still be; the event log will tell: "
            "amqp-gateway log query --last 5min --kind operation",
        ) from None


def show_answer(answer: OperationAnswer, document: Document | None, lines: list[str]) -> None:
    """Print what came of an operation, and end as the outcome says.

    Args:
        answer: of the core.
        document: to be printed whatever the outcome is; ``None`` where lines are wanted.
        lines: for people, where it was done.

    Raises:
        CommandError: it was not applied as it was asked for.
    """
    if document is not None:
        say_json(document)
    elif answer.outcome is Outcome.APPLIED:
        say(lines)
    refuse_unless_applied(answer)


def refuse_unless_applied(answer: OperationAnswer) -> None:
    """End the command as the outcome says.

    Raises:
        CommandError: it was not applied as it was asked for.
    """
    if answer.outcome is Outcome.APPLIED:
        return
    parts = [answer.outcome.value]
    if answer.element and answer.element not in answer.text:
        parts.append(answer.element)
    parts.append(answer.text or "no reason was given")
    text = harmless(": ".join(parts))
    if answer.outcome is Outcome.UNKNOWN and answer.operation_id:
        text += f"; `amqp-gateway explain {answer.operation_id}` says when more is known"
    elif answer.operation_id:
        text += f" (operation {answer.operation_id})"
    raise CommandError(OF_OUTCOME[answer.outcome], text)


def applied(answer: OperationAnswer) -> str:
    """The last line of what was done."""
    text = "" if answer.text in {"", "OK"} else f" ({answer.text})"
    return f"applied: operation {answer.operation_id}{text}"


def answered(
    known: KnownObject,
    answer: OperationAnswer,
    described: dict[str, Element | Argument],
    *,
    method: str = "",
) -> Document:
    """The document of ``set --json`` and ``invoke --json``."""
    about = {"object": known.path, **({"method": method} if method else {})}
    return {**about, **answer_document(answer, described, known.source)}


def words(given: tuple[str, ...], absent: tuple[str, ...] = ()) -> dict[str, str | None]:
    """``NAME=VALUE`` and ``NAME@FILE`` as texts by name; ``None`` for those that are to be absent.

    Raises:
        click.UsageError: a word is neither, or a name stands twice.
        CommandError: a file cannot be read.
    """
    found: dict[str, str | None] = {}
    for word in given:
        ends = [end for end in (word.find("="), word.find("@")) if end > 0]
        if not ends:
            raise click.UsageError(f"{word!r}: write NAME=VALUE, or NAME@FILE for what stands in a file")
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
    """Values by name, each read by the type of what it is for.

    Args:
        given: texts by name; ``None`` is absent.
        described: what there is, by name.
        what: of which kind that is, for complaints.
        link: the object that a text means.

    Raises:
        CommandError: there is nothing of a name, or a text is no such value.
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
    """Whether a word of the command line was text: other octets stand in it as halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unknown_name(name: str, there: dict[str, Element | Argument], what: str) -> CommandError:
    """There is no element, argument or method of this name."""
    listed = ", ".join(there) or "none at all"
    return CommandError(ExitCode.NOT_FOUND, f"there is no {what} {name!r}; there are: {listed}")


def links(session: FeedSession, asked: Asked) -> Callable[[str], ObjectLink]:
    """What finds the object that a reference's text means."""

    def find(text: str) -> ObjectLink:
        known = object_of(session.view, asked.names, text, whole=True)
        return ObjectLink(known.class_name, known.record.row, known.record.stable_name)

    return find


def _content(name: str) -> str:
    """What a file holds, without the end of its last line; ``-`` is standard input."""
    try:
        if name == "-":
            octets = sys.stdin.buffer.read(MAX_FILE_OCTETS + 1)
        else:
            with Path(name).open("rb") as file:
                octets = file.read(MAX_FILE_OCTETS + 1)
        if len(octets) > MAX_FILE_OCTETS:
            raise CommandError(ExitCode.WRONG_VALUE, f"{name}: more than {MAX_FILE_OCTETS} octets")
        text = octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(ExitCode.WRONG_VALUE, f"{name}: is not text in UTF-8") from error
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{name}: cannot be read: {error.strerror}") from error
    return text.removesuffix("\n").removesuffix("\r")
