"""``amqp-gateway explain``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from gateway.cli.asking import Asked, with_gateway
from gateway.cli.options import config_option
from gateway.cli.printing import at_work, json_option, say, say_json
from gateway.service.exit_codes import CommandError, ExitCode
from gateway.service.explanation import Explainer, lines_of
from gateway.service.feed_session import FeedSession
from gateway.service.logged_names import logged_meanings


@click.command()
@click.argument("text", metavar="NAME")
@config_option
@json_option
def explain(text: str, config: Path | None, *, as_json: bool) -> None:
    """Say what NAME is, and all other names of the same thing.

    NAME is a path (SOURCE/CLASS/NAME), OID or MIB descriptor, ObjectName, native id, event id, operation id,
    or the name of an object, element, class, event or source. What the gateway has forgotten is looked for in
    the event log.
    """

    async def work(session: FeedSession, asked: Asked) -> None:
        found = Explainer(session.picture, asked.names).meanings(text)
        if not found:
            with at_work("looking into the event log"):
                found = await asyncio.to_thread(logged_meanings, asked.configuration.log_folder, text)
        if as_json:
            say_json({"text": text, "meanings": found})
        else:
            for number, document in enumerate(found):
                say(["", *lines_of(document)] if number else lines_of(document))
        if not found:
            raise CommandError(
                ExitCode.NOT_FOUND,
                f"{text!r} is no name that gateway or event log know: `amqp-gateway tree` shows what "
                "there is",
            )

    with_gateway(config, work)
