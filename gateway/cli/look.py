"""``amqp-gateway tree``, ``get`` and ``watch``: the contents of the running gateway."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from gateway.cli.options import config_option, duration
from gateway.cli.printing import json_option, say, say_json
from gateway.cli.running_gateway import (
    Asked,
    operate,
    refuse_no_source,
    refuse_nothing,
    refuse_unless_applied,
    timeout_option,
    unknown_name,
    with_gateway,
    with_object,
)
from gateway.clock import SystemClock
from gateway.feed.operations import ReadFresh
from gateway.model.schema import Element
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.terminal.documents import brief_document, change_document, object_document, time_text
from gateway.terminal.lines import aligned, change_line, object_lines, summary_rows, tree_lines, value_rows
from gateway.terminal.selection import Pattern, concerns
from gateway.terminal.view import KnownObject


@click.command()
@click.argument("pattern", metavar="[PATTERN]", default="")
@config_option
@click.option("--summary", is_flag=True, help="Show only the number of objects by source and class.")
@json_option
def tree(pattern: str, config: Path | None, *, summary: bool, as_json: bool) -> None:
    """Show the objects of the running gateway as a tree.

    \b
    PATTERN is SOURCE/CLASS/NAME with *, ? and [...]; parts may be left out:
    amqp-gateway tree 'rabbitmq/queue/*orders*'
    """  # noqa: D301  click's mark for lines that are left as they are
    meant = Pattern.of(pattern)

    async def work(session: FeedSession, _asked: Asked) -> None:
        view = session.view
        refuse_nothing(view, meant, pattern)
        if summary:
            rows = list(summary_rows(view, meant))
            if as_json:
                for source, class_name, number in rows:
                    say_json({"source": source, "class": class_name, "objects": int(number)})
            else:
                say(aligned(rows))
        elif as_json:
            for known in meant.objects(view):
                say_json(brief_document(known, view))
        else:
            say(tree_lines(view, meant))

    with_gateway(config, work)


@click.command()
@click.argument("text", metavar="OBJECT")
@click.argument("elements", metavar="[ELEMENT]...", nargs=-1)
@config_option
@click.option("--fresh", is_flag=True, help="Read it again from its agent, by an operation.")
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
    """Show OBJECT with its values, or some of its elements.

    OBJECT is SOURCE/CLASS/NAME, of which parts may be shortened, or an OID, ObjectName or native id.
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
    """Return the elements of these names, in their order; all readable ones if none is named."""
    there = {element.name: element for element in known.elements if element.readable}
    for name in names:
        if name not in there:
            raise unknown_name(name, dict(there), f"element of {known.class_name} called")
    return [there[name] for name in names] if names else list(there.values())


@click.command()
@click.argument("pattern", metavar="[PATTERN]", default="")
@config_option
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many changes.")
@click.option("--for", "period", type=duration, metavar="DURATION", help="End after this time.")
@json_option
def watch(
    pattern: str, config: Path | None, *, count: int | None, period: dt.timedelta | None, as_json: bool
) -> None:
    """Show changes of objects, events, alarms and operations until Ctrl-C.

    PATTERN is as of `tree`. With --count and --for, the exit code is 13 if fewer changes happened. The
    command continues after a restart of the gateway, with what changed meanwhile.
    """
    meant = Pattern.of(pattern)
    clock = SystemClock()

    async def work(session: FeedSession, _asked: Asked) -> None:
        refuse_no_source(session.view, meant, pattern)
        click.echo("watching; Ctrl-C stops it", err=True)
        left = count
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if period is None else period.total_seconds()):
                async for change in session.changes():
                    if not concerns(meant, change, session.view):
                        continue
                    if as_json:
                        say_json(change_document(change, session.view, clock.now()))
                    else:
                        say([change_line(change, session.view, clock.now())])
                    sys.stdout.flush()
                    left = None if left is None else left - 1
                    if left == 0:
                        return
        if left:
            raise CommandError(ExitCode.NOT_FOUND, f"{left} of {count} did not happen in that time")

    with_gateway(config, work)
