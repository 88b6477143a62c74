"""``amqp-gateway manual``: the manual page, which is the help of all commands in the form of ``man``.

Packages have it: ``docker/debian/shared_files.sh``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final

import click

from gateway.shipped_files import version

_PAGES: Final = "/usr/share/doc/amqp-gateway, or share/doc/amqp-gateway of the gateway's folder"


@click.command(hidden=True)
@click.pass_context
def manual(context: click.Context) -> None:
    """Print the manual page."""
    click.echo("\n".join(_page(context.find_root())))


def _page(root: click.Context) -> Iterator[str]:
    name = _text(str(root.info_name))
    yield f'.TH AMQP\\-GATEWAY 1 "" "amqp\\-gateway {_text(version())}" "User Commands"'
    yield ".SH NAME"
    yield f"{name} \\- {_text(root.command.get_short_help_str(200).rstrip('.'))}"
    yield ".SH SYNOPSIS"
    yield _usage(root)
    yield ".SH DESCRIPTION"
    yield from _description(root)
    yield ".SH COMMANDS"
    for context in _contexts(root):
        yield f".SS {_usage(context)}"
        yield from _description(context)
    yield ".SH SEE ALSO"
    yield f"The documentation: {_text(_PAGES)}"


def _contexts(group: click.Context) -> Iterator[click.Context]:
    """Yield a context of each command, and of those below it, in the order of the help."""
    if not isinstance(group.command, click.Group):
        return
    for name in group.command.list_commands(group):
        command = group.command.get_command(group, name)
        if command is not None and not command.hidden:
            context = click.Context(command, parent=group, info_name=name)
            yield context
            yield from _contexts(context)


def _usage(context: click.Context) -> str:
    return _text(" ".join([context.command_path, *context.command.collect_usage_pieces(context)]))


def _description(context: click.Context) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", inspect.cleandoc(context.command.help or ""))):
        if number:
            yield ".PP"
        first, _, rest = paragraph.partition("\n")
        # Click does not wrap a paragraph that begins so.
        lines = [".nf", *map(_text, rest.split("\n")), ".fi"] if first == "\b" else [_text(paragraph)]
        yield from lines
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield from (".TP", f"\\fB{_text(record[0])}\\fR", _text(record[1]))


def _text(text: str) -> str:
    """Return a text as ``man`` takes it: nothing in it is a request, and hyphens can be copied."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", escaped, flags=re.MULTILINE)
