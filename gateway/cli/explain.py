"""``amqp-gateway explain``."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.options import config_option, loaded
from gateway.cli.printing import at_work, json_option, say, say_json
from gateway.cli.running_gateway import Asked, with_gateway
from gateway.service.diagnostics.explanation import Explainer, lines_of
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.state.logged_names import logged_meanings
from gateway.terminal.documents import Document


@click.command()
@click.argument("text", metavar="NAME")
@config_option
@json_option
def explain(text: str, config: Path | None, *, as_json: bool) -> None:
    """Explain what NAME is, with all other names of the same thing.

    NAME is a path (SOURCE/CLASS/NAME), OID or MIB descriptor, ObjectName, native id, event id, operation id,
    or the name of an object, element, class, event or source. Names that the gateway no longer knows are
    looked up in the event log.
    """

    async def known(session: FeedSession, asked: Asked) -> list[Document]:
        return Explainer(session.view, asked.names).meanings(text)

    away: CommandError | None = None
    try:
        found = with_gateway(config, known)
    except CommandError as error:
        if error.code is not ExitCode.UNREACHABLE:
            raise
        found, away = [], error
    if not found:
        with at_work("looking into the event log"):
            found = logged_meanings(loaded(config).log_folder, text)
    if away is not None and not found:
        raise away
    if as_json:
        say_json({"text": text, "meanings": found})
    else:
        for number, document in enumerate(found):
            say(["", *lines_of(document)] if number else lines_of(document))
    if away is not None:
        click.echo("the gateway is not running: this is from the event log", err=True)
    if not found:
        raise CommandError(
            ExitCode.NOT_FOUND,
            f"{text!r} is not known to the gateway or its event log: `amqp-gateway tree` shows all objects",
        )
