"""``amqp-gateway source capture``."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from gateway.cli.clearance import require_everything
from gateway.cli.options import OUTPUT_FILE, config_option, configured_source, duration, loaded
from gateway.cli.printing import at_work, json_option, say, say_json
from gateway.clock import SystemClock
from gateway.config.files import LoadedConfiguration
from gateway.config.sources import AmiSource
from gateway.links.capture_file import FILES, WARNING
from gateway.model.observations import SourceState
from gateway.service.diagnostics.checks import check_source
from gateway.service.diagnostics.source_checks import check_unheard
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.process_setup import configure_logs, until_terminated
from gateway.service.sources.captures import KINDS, MAX_SIZE, CaptureTarget
from gateway.service.sources.standalone import CaptureStands, capture_source
from gateway.terminal.documents import Document

_MEBIBYTE: Final = 1 << 20
CONNECT_SECONDS: Final = 60.0
"""The longest time to a connection that is not counted as part of a capture's period."""

_LEAST_SIZE: Final = FILES
"""The least size of a capture in MiB: one for each file."""


@click.command("capture")
@click.argument("name")
@config_option
@click.option(
    "--out",
    type=OUTPUT_FILE,
    metavar="FILE",
    help="File to write; default: NAME.TIME.jsonl here. An existing file is not changed.",
)
@click.option(
    "--for",
    "period",
    type=duration,
    metavar="DURATION",
    help="End after this time, from the connection on; default: at Ctrl-C.",
)
@click.option(
    "--until-synchronised",
    is_flag=True,
    help="End when the source has been read completely, which a replay needs; with --for at the latest then.",
)
@click.option(
    "--max-size",
    type=click.IntRange(_LEAST_SIZE),
    default=MAX_SIZE // _MEBIBYTE,
    show_default=True,
    metavar="MIB",
    help="Size of all four files together; the oldest one is deleted beyond it.",
)
@json_option
def capture_command(
    name: str,
    config: Path | None,
    *,
    out: Path | None,
    period: dt.timedelta | None,
    until_synchronised: bool,
    max_size: int,
    as_json: bool,
) -> None:
    """Record the traffic of a session with the source NAME, for a report or a replay.

    The session is separate from a running gateway. The file may contain passwords.
    """
    configuration = loaded(config)
    require_everything(configuration, "a capture")
    configure_logs("source", logging.CRITICAL)
    settings = configured_source(configuration, name)
    if settings.kind not in KINDS:
        raise CommandError(ExitCode.USAGE, f"a source of the kind {settings.kind} cannot be captured")
    clock = SystemClock()
    path = out if out is not None else Path(f"{name}.{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}.jsonl")
    if path.exists():
        raise CommandError(ExitCode.USAGE, f"{path} exists: name another file with --out")
    with at_work(f"reaching {name}"):
        asyncio.run(check_source(name, settings, configuration.folder, lambda _: None))
        if isinstance(settings, AmiSource):
            check_unheard(settings)
    click.echo(f"capturing {name} into {path}; Ctrl-C stops it. {WARNING}", err=True)
    target = CaptureTarget(path, max_size * _MEBIBYTE)
    stands = _captured(configuration, name, target, period, clock, until_synchronised=until_synchronised)
    if as_json:
        say_json(_capture_document(path, stands))
    else:
        say([f"{path}: {_line(stands)}"])
    if stands.trouble:
        raise CommandError(ExitCode.FAILED, stands.trouble)
    if stands.state in {SourceState.CONNECTING, SourceState.DOWN}:
        why = f"{stands.state.value} {stands.detail}".rstrip()
        raise CommandError(ExitCode.UNREACHABLE, f"{name} was not reachable at the end: {why}")
    if until_synchronised and stands.state is not SourceState.SYNCHRONISED:
        why = f"{stands.state.value} {stands.detail}".rstrip()
        raise CommandError(
            ExitCode.NOT_SYNCHRONISED, f"{name} was not synchronised at the end: {why}; capture it for longer"
        )


def _captured(
    configuration: LoadedConfiguration,
    name: str,
    target: CaptureTarget,
    period: dt.timedelta | None,
    clock: SystemClock,
    *,
    until_synchronised: bool,
) -> CaptureStands:
    stands = CaptureStands()
    seconds = None if period is None else period.total_seconds()
    with _progress() as show:

        async def work() -> None:
            loop = asyncio.get_running_loop()
            connected = False

            def report(how: CaptureStands) -> None:
                nonlocal stands, connected
                stands = how
                show(f"{name}: {_line(how)}")
                if until_synchronised and how.state is SourceState.SYNCHRONISED:
                    if not end.expired():
                        end.reschedule(loop.time())
                    return
                # On a busy machine the connection may take as long as a short period.
                if connected or seconds is None or end.expired():
                    return
                if how.state is not SourceState.CONNECTING:
                    connected = True
                    end.reschedule(loop.time() + seconds)

            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if seconds is None else seconds + CONNECT_SECONDS) as end:
                    await capture_source(configuration, name, target, clock, report)

        with command_errors():
            asyncio.run(until_terminated(work()))
    return stands


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    """Yield a function that shows a line on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with Console(stderr=True).status("") as status:
        yield status.update


def _line(stands: CaptureStands) -> str:
    state = f"{stands.state.value} {stands.detail}".rstrip()
    return (
        f"{state}, {stands.received} bytes received, {stands.objects} objects, {stands.records} lines of"
        f" {stands.octets / _MEBIBYTE:.1f} MiB"
    )


def _capture_document(path: Path, stands: CaptureStands) -> Document:
    return {
        "file": str(path),
        "state": stands.state.value,
        "detail": stands.detail,
        "messages": stands.messages,
        "heard": stands.received,
        "objects": stands.objects,
        "records": stands.records,
        "octets": stands.octets,
    }
