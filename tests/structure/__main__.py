"""``python -m tests.structure``: the figures of the code, as a table for ``docs/architecture.md``."""

from __future__ import annotations

from pathlib import Path

import click

from tests.structure.code import figures_of, single_importers
from tests.structure.inventory_times import feed_times, inventory_times
from tests.structure.paths import traces

ROOT = Path(__file__).parents[2]
OBJECTS = 20_000
BATCHES = 200


def main() -> None:
    """Print the table."""
    click.echo("| | `gateway/` | `tests/` |\n| --- | --- | --- |")
    gateway, tests = figures_of(ROOT / "gateway"), figures_of(ROOT / "tests")
    for name in gateway.__slots__:
        click.echo(f"| {_WORDS[name]} | {getattr(gateway, name):,} | {getattr(tests, name):,} |")
    click.echo(f"| modules that one other imports | {len(single_importers('gateway')):,} | |")
    for what, trace in traces().items():
        figures = f"{len(trace.calls)} calls in {len(trace.files)} files, {trace.changes} changes of file"
        click.echo(f"| {what} | {figures} | |")
    times = inventory_times(OBJECTS)
    figures = f"{times.created:.1f}, {times.updated:.1f}, {times.confirmed:.1f} µs"
    click.echo(f"| the inventory's processor time for an object: created, updated, confirmed | {figures} | |")
    feed = feed_times(BATCHES)
    figures = f"{feed.encoded:.1f}, {feed.decoded:.1f} µs"
    click.echo(f"| the feed's processor time for an update of ten values: encoded, decoded | {figures} | |")


_WORDS = {
    "files": "files",
    "lines": "lines",
    "code": "lines of code",
    "imports": "of these, imports",
    "comments": "lines of comments",
    "docstrings": "lines of docstrings",
    "functions": "functions",
}


if __name__ == "__main__":
    main()
