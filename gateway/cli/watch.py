"""``amqp-gateway watch``."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import sys
from pathlib import Path

import click

from gateway.cli.asking import Asked, refuse_no_source, with_gateway
from gateway.cli.log_options import duration
from gateway.cli.options import config_option
from gateway.cli.printing import json_option, say, say_json
from gateway.clock import SystemClock
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.terminal.documents import change_document
from gateway.terminal.lines import change_line
from gateway.terminal.selection import Pattern, concerns


@click.command()
@click.argument("pattern", metavar="[PATTERN]", default="")
@config_option
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many.")
@click.option("--for", "period", type=duration, metavar="DURATION", help="End after this time.")
@json_option
def watch(
    pattern: str, config: Path | None, *, count: int | None, period: dt.timedelta | None, as_json: bool
) -> None:
    """Show what happens: objects that come, change and go, events, alarms, operations; until Ctrl-C.

    PATTERN is as of `tree`. With --count and --for, the exit code is 13 where not so much happened.
    When the gateway is started again it goes on, with what changed meanwhile.
    """
    meant = Pattern.of(pattern)
    clock = SystemClock()

    async def work(session: FeedSession, _asked: Asked) -> None:
        refuse_no_source(session.view, meant, pattern)
        click.echo("watching; Ctrl-C ends it", err=True)
        left = count
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if period is None else period.total_seconds()):
                async for happening in session.happenings():
                    if not concerns(meant, happening, session.view):
                        continue
                    if as_json:
                        say_json(change_document(happening, session.view, clock.now()))
                    else:
                        say([change_line(happening, session.view, clock.now())])
                    sys.stdout.flush()
                    left = None if left is None else left - 1
                    if left == 0:
                        return
        if left:
            raise CommandError(ExitCode.NOT_FOUND, f"{left} of {count} have not happened in that time")

    with_gateway(config, work)
