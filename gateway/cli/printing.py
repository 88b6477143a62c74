"""How commands print what the gateway knows: harmless lines, JSON, and that they are at work."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator

import click
from rich.console import Console

from gateway.eventlog.readable import harmless
from gateway.terminal.documents import Document

json_option = click.option("--json", "as_json", is_flag=True, help="For programs; docs/cli.md has the form.")


def say(lines: Iterable[str]) -> None:
    """Print lines for people; names come from strangers, so nothing in them moves a terminal."""
    for line in lines:
        click.echo(harmless(line))


def say_json(document: Document | list[Document]) -> None:
    """Print one document on one line; what does not print is written as JSON's escapes."""
    text = json.dumps(document, ensure_ascii=False)
    if not text.isprintable():
        text = "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
    click.echo(text)


@contextlib.contextmanager
def at_work(what: str) -> Iterator[None]:
    """Say on standard error what is being done, while it is, where a person looks on."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(what):
        yield
