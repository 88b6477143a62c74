"""The access of commands to the running gateway: its feed, one object of it, and operations on that."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from gateway.cli.options import duration, loaded
from gateway.cli.printing import at_work
from gateway.escapes import printable
from gateway.feed.client import StoppedWaiting
from gateway.feed.operations import Action, OperationAnswer
from gateway.feed.records import Interest
from gateway.model.operations import Outcome
from gateway.model.schema import Argument, Element
from gateway.model.times import SECOND
from gateway.service.diagnostics.feed_session import FeedSession, feed_session
from gateway.service.diagnostics.published_names import PublishedNames, interest_in, object_of
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.outcome_codes import OF_OUTCOME
from gateway.service.processes.process_setup import configure_logs
from gateway.service.state.running_addresses import known_addresses
from gateway.terminal.selection import NotOneObjectError, Pattern
from gateway.terminal.view import KnownObject, TerminalView

if TYPE_CHECKING:
    from gateway.config.files import LoadedConfiguration

_Result = TypeVar("_Result")

_MICROSECOND = dt.timedelta(microseconds=1)

timeout_option = click.option(
    "--timeout",
    type=duration,
    metavar="DURATION",
    help="How long to wait for the outcome. Default and maximum: operations.deadline.",
)


def with_gateway(
    config: Path | None,
    work: Callable[[FeedSession, Asked], Awaitable[_Result]],
    interest: Callable[[Asked], Interest | None] = lambda _asked: None,
) -> _Result:
    """Do ``work`` with all objects of the running gateway, or with those of ``interest``.

    Raises:
        CommandError: the gateway cannot be reached.
    """
    asked = Asked(config)
    configure_logs("cli", logging.CRITICAL)

    async def do() -> _Result:
        async with AsyncExitStack() as session:
            with at_work("reading the objects of the gateway"):
                known = await session.enter_async_context(
                    feed_session(asked.addresses.feed_socket, interest(asked))
                )
            return await work(known, asked)

    return asyncio.run(do())


def refuse_nothing(view: TerminalView, meant: Pattern, text: str) -> None:
    """Check that a pattern matches an object.

    Raises:
        CommandError: it matches none.
    """
    refuse_no_source(view, meant, text)
    if not meant.names_all() and not any(map(meant.fits, view.objects.values())):
        text = f"no object matches '{printable(text)}': amqp-gateway tree --summary shows what there is"
        raise CommandError(ExitCode.NOT_FOUND, text)


def refuse_no_source(view: TerminalView, meant: Pattern, text: str) -> None:
    """Check that a pattern matches a source of the gateway.

    Raises:
        CommandError: it matches none.
    """
    names = sorted(source.name for source in view.sources.values())
    if not names:
        raise CommandError(ExitCode.NOT_FOUND, "the gateway has no sources: configure some under 'sources'")
    if not any(map(meant.has_source, names)):
        raise CommandError(ExitCode.NOT_FOUND, f"there is no source {text!r}; there are: {', '.join(names)}")


def with_object(
    config: Path | None, text: str, work: Callable[[FeedSession, Asked, KnownObject], Awaitable[None]]
) -> None:
    """Do ``work`` with the object that ``text`` names, without reading all the others.

    Raises:
        CommandError: it names none, or several; or the gateway cannot be reached.
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
        with_gateway(config, among_all)  # The error then lists similar names.


class Asked:
    """The configuration, as far as it is needed, and the names of objects in its front ends.

    Args:
        config: the path of the configuration; ``None`` to search for it.

    Raises:
        CommandError: there is none, or it or the state folder cannot be used.
    """

    def __init__(self, config: Path | None) -> None:
        self._config = config
        self.addresses = known_addresses(config, lambda: self.configuration)
        self.names = PublishedNames.of(self.addresses)

    @cached_property
    def configuration(self) -> LoadedConfiguration:
        """The whole configuration, which is read when it is needed first."""
        return loaded(self._config)

    def patience(self, timeout: dt.timedelta | None) -> int:
        """Return the time that an operation may take, in nanoseconds."""
        deadline = self.addresses.deadline
        return deadline if timeout is None else min(timeout // _MICROSECOND * 1000, deadline)


async def operate(
    session: FeedSession, known: KnownObject, action: Action, patience: int, *, check_only: bool = False
) -> OperationAnswer:
    """Submit an operation, and show on a terminal that it is under way.

    Raises:
        CommandError: the user stopped waiting (Ctrl-C); the operation goes on.
    """
    try:
        with at_work(f"waiting for the outcome, {patience / SECOND:g} s at most"):
            return await session.ask(known, action, patience, check_only=check_only)
    except asyncio.CancelledError as stopped:
        begun = stopped.operation_id if isinstance(stopped, StoppedWaiting) else ""
        shown_by = f"explain {begun}" if begun else "log query --last 5min --kind operation"
        raise CommandError(
            ExitCode.UNKNOWN_OUTCOME,
            "stopped waiting: the operation may still be applied; the event log has its outcome: "
            f"amqp-gateway {shown_by}",
        ) from None


def refuse_unless_applied(answer: OperationAnswer) -> None:
    """End the command with the exit code of the outcome.

    Raises:
        CommandError: the operation was not applied as requested.
    """
    failure = failure_of(answer)
    if failure is not None:
        raise failure


def failure_of(answer: OperationAnswer) -> CommandError | None:
    """Return the error with the exit code of the outcome; ``None`` if it was applied as requested."""
    if answer.outcome is Outcome.APPLIED:
        return None
    parts = [answer.outcome.value]
    if answer.element and answer.element not in answer.text:
        parts.append(answer.element)
    parts.append(answer.text or "no reason was given")
    text = printable(": ".join(parts))
    if answer.outcome is Outcome.UNKNOWN and answer.operation_id:
        text += f"; `amqp-gateway explain {answer.operation_id}` shows when the outcome is known"
    elif answer.operation_id:
        text += f" (operation {answer.operation_id})"
    return CommandError(OF_OUTCOME[answer.outcome], text)


def unknown_name(name: str, there: dict[str, Element | Argument], what: str) -> CommandError:
    """Return the error for a name of no element, argument or method."""
    listed = ", ".join(there) or "none at all"
    return CommandError(ExitCode.NOT_FOUND, f"there is no {what} {name!r}; there are: {listed}")
