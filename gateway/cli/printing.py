"""The output of commands: lines without control characters, JSON, and progress."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator

import click
from rich.console import Console

from gateway.model.texts import harmless
from gateway.terminal.documents import Document

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for programs; docs/cli.md describes it."
)


def say(lines: Iterable[str]) -> None:
    """Print lines for people; control characters in names are escaped, because names are untrusted."""
    for line in lines:
        click.echo(harmless(line))


def say_json(document: Document | list[Document]) -> None:
    """Print one document on one line, with escapes for characters that are not printable."""
    text = json.dumps(document, ensure_ascii=False)
    if not text.isprintable():
        text = "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
    click.echo(text)


@contextlib.contextmanager
def at_work(what: str) -> Iterator[None]:
    """Show the work in progress on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(what):
        yield
