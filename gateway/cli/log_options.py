"""Options that the commands of ``amqp-gateway log`` share: which log, and which of its records."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypedDict

import click
from pydantic import TypeAdapter, ValidationError

from gateway.cli.options import loaded
from gateway.config.types import Duration
from gateway.eventlog.follow import HAPPENINGS, Selection
from gateway.eventlog.lake import LAKE
from gateway.eventlog.record import RecordKind
from gateway.eventlog.segment import SEGMENTS
from gateway.service.processes.exit_codes import CommandError, ExitCode

Command = Callable[..., Any]
_DURATION: TypeAdapter[int] = TypeAdapter(Duration)

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the log; else the one that the configuration names.",
)

_SELECTION = (
    click.option("--source", "sources", multiple=True, metavar="NAME", help="Of this source only."),
    click.option(
        "--class",
        "classes",
        multiple=True,
        metavar="CLASS",
        help="Of objects of this class: queue, or rabbitmq:queue.",
    ),
    click.option("--object", "objects", multiple=True, metavar="NAME", help="Of this object: name or id."),
    click.option("--event", "events", multiple=True, metavar="EVENT", help="Events of this name."),
    click.option("--severity", "severities", multiple=True, metavar="SEVERITY", help="Events so severe."),
    click.option(
        "--kind",
        "kinds",
        multiple=True,
        type=click.Choice([kind.value for kind in RecordKind]),
        help="Records of this kind.",
    ),
    click.option("--all", "everything", is_flag=True, help="Schemas and snapshots of segments' heads too."),
)


class Chosen(TypedDict):
    """What the options of `selection_options` say."""

    sources: tuple[str, ...]
    classes: tuple[str, ...]
    objects: tuple[str, ...]
    events: tuple[str, ...]
    severities: tuple[str, ...]
    kinds: tuple[str, ...]
    everything: bool


def selection_options(command: Command) -> Command:
    """Options that choose records; each may be given several times, and then one of its values is enough."""
    for option in reversed(_SELECTION):
        command = option(command)
    return command


def duration(text: str) -> dt.timedelta:
    """The value of an option, written as in the configuration."""
    try:
        return dt.timedelta(microseconds=_DURATION.validate_python(text) // 1000)
    except ValidationError as error:
        raise click.BadParameter(f"{text!r} is no duration: write 90s, 15min, 24h or 7d") from error


def time(text: str) -> dt.datetime:
    """The value of an option: RFC 3339, or shorter; UTC where it has no zone."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError as error:
        example = "2026-11-20, 2026-11-20T14:05 or 2026-11-20T14:05:06+01:00"
        raise click.BadParameter(f"{text!r} is no time: write {example}") from error
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def selection(
    chosen: Chosen, after: dt.datetime | None = None, before: dt.datetime | None = None
) -> Selection:
    """What the options choose; unless asked for, not what only tells how things stand."""
    kinds: Iterable[str] = chosen["kinds"]
    if not kinds and not chosen["everything"]:
        kinds = HAPPENINGS
    return Selection(
        kinds=frozenset(kinds),
        sources=frozenset(chosen["sources"]),
        classes=frozenset(chosen["classes"]),
        objects=frozenset(chosen["objects"]),
        events=frozenset(chosen["events"]),
        severities=frozenset(chosen["severities"]),
        after=after,
        before=before,
    )


_MARKS: Final = ("LOG", "LOCK", SEGMENTS, LAKE)
"""What the folder of a log, or a copy of one, has at least one of: any other one is somebody else's."""


def log_folder(config: Path | None, folder: Path | None) -> Path:
    """The folder of the log; without need of a configuration where it is named.

    Raises:
        CommandError: there is none, it cannot be read, or there is no configuration that names it.
    """
    place = (loaded(config).log_folder if folder is None else folder).absolute()
    try:
        is_there = any((place / name).exists() for name in _MARKS)
    except OSError as error:
        raise CommandError(ExitCode.STATE, f"{place}: cannot be read: {error.strerror}") from error
    if not is_there:
        raise CommandError(
            ExitCode.STATE,
            f"{place}: there is no event log: it begins when the gateway first runs, unless its "
            "configuration says 'log: {enabled: false}'; name one that lies elsewhere with --folder",
        )
    return place
