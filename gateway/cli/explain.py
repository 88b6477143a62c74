"""``amqp-gateway explain``: all names of one thing, from the running gateway or the event log."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from gateway.cli.clearance import cleared_log
from gateway.cli.options import config_option, loaded
from gateway.cli.printing import at_work, json_option, say, say_json
from gateway.cli.running_gateway import Asked, with_gateway
from gateway.config.files import LoadedConfiguration
from gateway.escapes import printable, unescaped
from gateway.inventory.instance_file import InstanceIndexError, summary
from gateway.service.diagnostics.explanation import (
    Explainer,
    LoggedName,
    lines_of,
    logged_meanings,
    logged_name,
)
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.service.diagnostics.published_names import PublishedNames
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.state.running_configuration import addresses_of
from gateway.state_folder import StateError, StateFolder
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
            found = _logged(loaded(config), text)
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
            f"'{printable(text)}' is not known to the gateway or its event log: `amqp-gateway tree` shows all"
            " objects",
        )


def _logged(configuration: LoadedConfiguration, text: str) -> list[Document]:
    """Return what the event log knows of a text, escaped or not."""
    cleared = partial(cleared_log, configuration)
    found: list[Document] = []
    for each in dict.fromkeys((unescaped(text), text)):
        meant = _logged_name(configuration, each)
        found = found or logged_meanings(configuration.log_folder, each, cleared, meant)
    return found


def _logged_name(configuration: LoadedConfiguration, text: str) -> LoggedName:
    """Return what a text may stand for in the event log; a path alone where the state cannot be read."""
    try:
        names = PublishedNames.of(addresses_of(configuration))
        sources = summary(StateFolder(configuration.state_folder).instances).sources
    except (CommandError, StateError, InstanceIndexError):
        return logged_name(None, {}, text)
    return logged_name(names, {number: name for name, number in sources.items()}, text)
