"""``amqp-gateway source``: the brokers and agents that the gateway listens to."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.asking import Asked, with_gateway
from gateway.cli.late_commands import LateCommands
from gateway.cli.options import config_option
from gateway.cli.printing import json_option, say, say_json
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.terminal.documents import Document, source_document
from gateway.terminal.lines import aligned

_LATE = {
    "test": "gateway.cli.source_check:test_command",
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
        view = session.view
        documents = [source_document(record, view) for record in view.sources.values()]
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
