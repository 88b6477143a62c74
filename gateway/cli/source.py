"""``amqp-gateway source``: the brokers and agents that the gateway listens to."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

from gateway.cli.asking import Asked, with_gateway
from gateway.cli.late_commands import LateCommands
from gateway.cli.options import config_option, configured_source, loaded
from gateway.cli.printing import at_work, json_option, say, say_json
from gateway.service.checks import check_source
from gateway.service.exit_codes import CommandError, ExitCode
from gateway.service.feed_session import FeedSession
from gateway.service.logs import configure_logs
from gateway.terminal.documents import Document, source_document
from gateway.terminal.lines import aligned

_LATE = {
    "schema": "gateway.cli.source_schema:schema_command",
    "capture": "gateway.cli.source_capture:capture_command",
    "replay": "gateway.cli.source_replay:replay_command",
}


@click.group(cls=LateCommands, late=_LATE)
def source() -> None:
    """Brokers and agents that the gateway listens to."""


@source.command("ls")
@config_option
@json_option
def list_command(config: Path | None, *, as_json: bool) -> None:
    """Show the sources as the running gateway has them."""

    async def work(session: FeedSession, asked: Asked) -> None:
        picture = session.picture
        documents = [source_document(record, picture) for record in picture.sources.values()]
        told = {document["source"] for document in documents}
        missing = [name for name in asked.configuration.settings.sources if name not in told]
        if as_json:
            for document in documents:
                say_json(document)
        else:
            say(aligned(map(_row, documents)))
        if missing:
            click.echo(
                f"configured, and not known to the running gateway: {', '.join(missing)}: start it again",
                err=True,
            )

    with_gateway(config, work)


def _row(document: Document) -> tuple[str, ...]:
    return (
        str(document["source"]),
        str(document["source_kind"]),
        str(document["state"]),
        f"{document['objects']} objects",
        f"{document['active_alarms']} alarms",
        str(document["detail"]),
    )


@source.command("test")
@click.argument("name")
@config_option
@json_option
def test_command(name: str, config: Path | None, *, as_json: bool) -> None:
    """Reach the source NAME of the configuration, and say whether it can be used; nothing is changed.

    The gateway need not run.
    """
    configuration = loaded(config)
    configure_logs("source", logging.CRITICAL)
    settings = configured_source(configuration, name)
    told: list[str] = []
    trouble: CommandError | None = None
    with at_work(f"reaching {name}"):
        try:
            asyncio.run(check_source(settings, configuration.folder, told.append))
        except CommandError as error:
            trouble = error
    if as_json:
        code = ExitCode.OK if trouble is None else trouble.code
        say_json(
            {
                "source": name,
                "source_kind": settings.kind,
                "is_reached": trouble is None,
                "trouble": None if trouble is None else code.name.lower(),
                "remarks": told,
                "text": "" if trouble is None else str(trouble),
            }
        )
    else:
        say([*told, *([] if trouble is not None else [f"source {name}: reached"])])
    if trouble is not None:
        raise trouble
