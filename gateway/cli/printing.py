"""The output of commands: lines without control characters, JSON, and progress."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Iterable, Iterator

import click

from gateway.escapes import printable, printable_json
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.terminal.documents import Document

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for programs; docs/cli.md describes it."
)


def say(lines: Iterable[str]) -> None:
    """Print lines for people, each on one line: what they are made of is escaped, or is escaped here."""
    with _until_ctrl_c():
        for line in lines:
            click.echo(printable(line))


def say_json(document: Document | list[Document]) -> None:
    """Print one document on one line; what does not print, or has no code in the output, is escaped."""
    with _until_ctrl_c():
        click.echo(printable_json(json.dumps(document, ensure_ascii=False), sys.stdout.encoding))


@contextlib.contextmanager
def _until_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the block at once: asyncio's handler ends what is awaited, and no writing that waits.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield  # it is ignored, or another thread's
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def once_done(done: str, code: ExitCode = ExitCode.OK) -> Iterator[None]:
    """Print in the block what follows something that is done: trouble with the output does not hide that.

    Args:
        done: what is done, in one line.
        code: the exit code that says so.

    Raises:
        CommandError: the output cannot be written; code and text are those of what is done.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        raise CommandError(code, f"{done}; its output cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def at_work(what: str) -> Iterator[None]:
    """Show the work in progress on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415  who is not at a terminal does not wait for its import

    with Console(stderr=True).status(what):
        yield
