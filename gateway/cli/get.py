"""``amqp-gateway get``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import click

from gateway.cli.asking import (
    Asked,
    operate,
    refuse_unless_applied,
    timeout_option,
    unknown_name,
    with_object,
)
from gateway.cli.options import config_option
from gateway.cli.printing import json_option, say, say_json
from gateway.feed.operations import ReadFresh
from gateway.model.schema import Element
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.terminal.documents import object_document
from gateway.terminal.lines import aligned, object_lines, value_rows
from gateway.terminal.text_forms import time_text
from gateway.terminal.view import KnownObject


@click.command()
@click.argument("text", metavar="OBJECT")
@click.argument("elements", metavar="[ELEMENT]...", nargs=-1)
@config_option
@click.option("--fresh", is_flag=True, help="Read it again from its agent, as an operation.")
@timeout_option
@json_option
def get(
    text: str,
    elements: tuple[str, ...],
    config: Path | None,
    *,
    fresh: bool,
    timeout: dt.timedelta | None,
    as_json: bool,
) -> None:
    """Show what the running gateway knows of OBJECT, or these elements of it.

    OBJECT is SOURCE/CLASS/NAME, of which parts may be shortened; or an OID, ObjectName or native id.
    """

    async def work(session: FeedSession, asked: Asked, known: KnownObject) -> None:
        wanted = _chosen(known, elements)
        if fresh:
            refuse_unless_applied(await operate(session, known, ReadFresh(), asked.patience(timeout)))
            known = session.view.objects.get(known.key, known)
        if as_json:
            say_json(object_document(known, session.view, wanted))
            return
        say(aligned(value_rows(known, wanted)) if elements else object_lines(known, session.view))
        stale = session.view.stale_since(known)
        if stale and elements:
            click.echo(f"stale since {time_text(stale)}: no agent confirms these values now", err=True)

    with_object(config, text, work)


def _chosen(known: KnownObject, names: Sequence[str]) -> list[Element]:
    """The elements of these names, in their order; all that can be read where none is named."""
    there = {element.name: element for element in known.in_class.schema.elements if element.readable}
    for name in names:
        if name not in there:
            raise unknown_name(name, dict(there), f"element of {known.class_name} called")
    return [there[name] for name in names] if names else list(there.values())
