"""``amqp-gateway tree``."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.asking import Asked, refuse_nothing, with_gateway
from gateway.cli.options import config_option
from gateway.cli.printing import json_option, say, say_json
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.terminal.documents import brief_document
from gateway.terminal.lines import aligned, summary_rows, tree_lines
from gateway.terminal.selection import Pattern


@click.command()
@click.argument("pattern", metavar="[PATTERN]", default="")
@config_option
@click.option("--summary", is_flag=True, help="Only how many objects there are, by source and class.")
@json_option
def tree(pattern: str, config: Path | None, *, summary: bool, as_json: bool) -> None:
    """Show the objects that the running gateway knows, below what they belong to.

    \b
    PATTERN is SOURCE/CLASS/NAME with *, ? and [...]; what is left out does not narrow:
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
