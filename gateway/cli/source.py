"""``amqp-gateway source``: the configured sources."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.late_import import LateCommands
from gateway.cli.options import config_option
from gateway.cli.printing import json_option, say, say_json
from gateway.cli.running_gateway import Asked, with_gateway
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.terminal.documents import Document, source_document
from gateway.terminal.lines import aligned

_LATE = {
    "test": "gateway.cli.source_check:test_command",
    "schema": "gateway.cli.source_check:schema_command",
    "capture": "gateway.cli.source_capture:capture_command",
    "replay": "gateway.cli.source_replay:replay_command",
}


@click.group(cls=LateCommands, late=_LATE)
def source() -> None:
    """Show, test, capture and replay sources."""


@source.command("ls")
@config_option
@json_option
def list_command(config: Path | None, *, as_json: bool) -> None:
    """Show the sources of the running gateway."""

    async def work(session: FeedSession, asked: Asked) -> None:
        view = session.view
        documents = [source_document(record, view) for record in view.sources.values()]
        running = {document["source"] for document in documents}
        missing = [
            name
            for name in asked.configuration.settings.sources
            if name not in running and session.cleared.sees_source(name)
        ]
        if as_json:
            for document in documents:
                say_json(document)
        else:
            say(aligned(map(_row, documents)))
        if missing:
            click.echo(
                f"configured, but not known to the running gateway: {', '.join(missing)}: restart it",
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
