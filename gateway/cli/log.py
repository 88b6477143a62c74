"""``amqp-gateway log``: the event log followed, queried, verified and compacted."""

from __future__ import annotations

import contextlib
import csv
import datetime as dt
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, TypedDict, Unpack

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.cli.options import config_option, duration, loaded, time
from gateway.eventlog.compaction import (
    Compacted,
    CompactionBusyError,
    CompactionError,
    Compactor,
    compactable,
)
from gateway.eventlog.follow import HAPPENINGS, LogEnd, Selection
from gateway.eventlog.lake import LAKE
from gateway.eventlog.query import (
    TABLE,
    Answer,
    LogReadError,
    QueryError,
    ask,
    json_of_row,
    line_of_row,
    text_of_value,
)
from gateway.eventlog.readable import harmless, readable_line
from gateway.eventlog.record import RecordKind
from gateway.eventlog.segment import SEGMENTS
from gateway.eventlog.verification import Problem, Summary, verify
from gateway.service.processes.exit_codes import CommandError, ExitCode

Command = Callable[..., Any]

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


POLL_SECONDS = 0.2
PROGRESS_SECONDS = 1.0


@click.group()
def log() -> None:
    """Read, verify and compact the event log; also while the gateway runs."""


@log.command()
@config_option
@folder_option
@click.option("-n", "--lines", default=10, type=click.IntRange(min=0), help="So many records first (10).")
@click.option("-f", "--follow", is_flag=True, help="Then those that come, until Ctrl-C.")
@selection_options
@click.option("--json", "as_json", is_flag=True, help="The lines as they are in the log.")
@click.option("--whole", is_flag=True, help="Show all values, however long they are.")
def tail(
    config: Path | None,
    folder: Path | None,
    *,
    lines: int,
    follow: bool,
    as_json: bool,
    whole: bool,
    **chosen: Unpack[Chosen],
) -> None:
    """Show the last records, a line for each; times are in UTC."""
    end = LogEnd(log_folder(config, folder), selection(chosen))

    def show(line: bytes) -> None:
        record = {} if as_json else msgspec.json.decode(line, type=dict[str, object])
        click.echo(line if as_json else readable_line(record, whole=whole))

    with _files_told():
        for line in end.last(lines):
            show(line)
        _tell_remarks(end)
        while follow:
            for line in end.new():
                show(line)
            _tell_remarks(end)
            sleep(POLL_SECONDS)


def _tell_remarks(end: LogEnd) -> None:
    for remark in end.remarks:
        click.echo(f"amqp-gateway: {harmless(remark)}; amqp-gateway log verify reads the whole log", err=True)
    end.remarks.clear()


@log.command("verify")
@config_option
@folder_option
@click.option(
    "--json", "as_json", is_flag=True, help="For programs: an object for each problem, then the sums."
)
def verify_command(config: Path | None, folder: Path | None, *, as_json: bool) -> None:
    """Read the whole log and say what is not as it was written.

    Every block and every Parquet file is held against its CRC, every record is read, and no number may be
    missing from the first to the last. Ends with 12 where there is a problem.
    """
    place = log_folder(config, folder)
    summary = Summary()
    _give_way()
    with _files_told():
        for problem in verify(place, summary, _progress()):
            click.echo(json.dumps(_problem(problem)) if as_json else harmless(str(problem)))
    if as_json:
        click.echo(json.dumps(_sums(summary)))
    else:
        click.echo("\n".join(_summary_lines(place, summary)))
    if summary.problems:
        sys.exit(ExitCode.DIFFERENCE)


def _problem(problem: Problem) -> dict[str, object]:
    return {"file": str(problem.file), "offset": problem.offset, "problem": problem.text}


def _sums(summary: Summary) -> dict[str, object]:
    return {name: getattr(summary, name) for name in Summary.__slots__}


def _summary_lines(folder: Path, summary: Summary) -> Iterator[str]:
    yield (
        f"{folder}: {summary.records:,} records in {summary.lake_files:,} files of the lake and "
        f"{summary.segments:,} segments; {summary.octets:,} octets read"
    )
    for log_id, first in summary.first_seq.items():
        yield f"log {harmless(log_id)}: seq {first} to {summary.last_seq[log_id]}"
    if summary.uncommitted:
        yield f"{summary.uncommitted:,} octets are not committed: being written, or left by a crash"
    if summary.unchecked:
        yield (
            f"{summary.unchecked:,} files of the lake are not checked: they have no CRC, being of an earlier "
            "version or of another program; they can be read"
        )
    if summary.lost_files:
        yield f"{summary.lost_files} files in lost/: what recovery cut off, and damaged segments"
    yield f"problems: {summary.problems}" if summary.problems else "all is as it was written"


@log.command()
@config_option
@folder_option
@click.option("--all", "standing", is_flag=True, help="also the segments from which the next start goes on")
def compact(config: Path | None, folder: Path | None, *, standing: bool) -> None:
    """Make Parquet of all complete segments now.

    Those stay in which the gateway finds at its next start how everything stood, unless --all is given.

    Ends with 12 where a segment is damaged: it is then in lost/, and what is whole in it in the lake.
    """
    place = log_folder(config, folder)
    _give_way()
    damaged, failed = 0, 0
    with _files_told(), _compactor(place) as compactor:
        segments = compactable(place, standing=standing)
        if not segments:
            click.echo(_none_waits(len(compactable(place))))
        for number, segment in enumerate(segments, start=1):
            try:
                done = compactor.compact(segment)
            except CompactionError as error:
                failed += 1
                click.echo(f"amqp-gateway: {error}", err=True)
                continue
            if done is not None:
                click.echo(f"{number} of {len(segments)}: {_compacted(place, done)}")
                damaged += done.set_aside is not None
    if failed:
        raise CommandError(
            ExitCode.FAILED, f"{failed} of {len(segments)} segments wait still: see why above, and try again"
        )
    if damaged:
        sys.exit(ExitCode.DIFFERENCE)


def _none_waits(left: int) -> str:
    """``left``: segments that stay for the next start."""
    if not left:
        return "no segment waits"
    them = "them" if left > 1 else "it"
    return f"no segment waits but {left}, from which the next start goes on: --all takes {them} too"


@contextlib.contextmanager
def _compactor(folder: Path) -> Iterator[Compactor]:
    try:
        compactor = Compactor(folder).__enter__()
    except CompactionBusyError:
        click.echo("  ..  waiting for the gateway's own compaction", err=True)
        compactor = Compactor(folder, wait=True).__enter__()
    with contextlib.ExitStack() as stack:
        stack.push(compactor)
        yield compactor


def _compacted(folder: Path, done: Compacted) -> str:
    name = done.segment.path.name
    made = (
        "nothing in it is whole"
        if done.file is None
        else f"{done.records:,} records, {done.octets:,} octets to {done.file_octets:,} in "
        f"{done.file.relative_to(folder)}"
    )
    if done.set_aside is None:
        return f"{name}: {made}"
    problems = itertools.islice(done.problems, 3)
    return harmless(
        f"{name} is damaged ({'; '.join(problems)}): {made}; the segment is now "
        f"{done.set_aside.relative_to(folder)}"
    )


def _progress() -> Callable[[int, int], None]:
    last = monotonic()

    def tell(done: int, of: int) -> None:
        nonlocal last
        if monotonic() - last >= PROGRESS_SECONDS:
            last = monotonic()
            click.echo(f"  ..  {done >> 20:,} of {of >> 20:,} MiB", err=True)

    return tell


def _give_way() -> None:
    """Long reading is not to slow down a gateway on the same machine."""
    os.nice(10)


@contextlib.contextmanager
def _files_told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of our output has seen enough
    except OSError as error:
        raise CommandError(ExitCode.STATE, f"{error.filename or 'the log'}: {error.strerror}") from error


_SHOWN = 'ingest_ts, kind, source, class, object_name, event, severity, state, text, "values"'
_WIDE = 100_000
"""Characters of a table's line where there is no terminal to fit it into."""


@log.command()
@click.argument("sql", required=False)
@config_option
@folder_option
@click.option("--last", type=duration, metavar="DURATION", help="Of the time until now: 90s, 15min, 24h, 7d.")
@click.option(
    "--from",
    "after",
    type=time,
    metavar="TIME",
    help="Ingested then or later; UTC, unless it says otherwise.",
)
@click.option("--to", "before", type=time, metavar="TIME", help="Ingested before then.")
@selection_options
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), help="Rows at most, 0 for all; 1000 where a table is shown."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each row, on a line.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV with a header.")
@click.option("--memory", default=1024, type=click.IntRange(min=64), help="MiB for data (1024).")
@click.option("--threads", default=2, type=click.IntRange(min=1), help="At most (2).")
def query(  # noqa: PLR0913  one for each option
    sql: str | None,
    config: Path | None,
    folder: Path | None,
    *,
    last: dt.timedelta | None,
    after: dt.datetime | None,
    before: dt.datetime | None,
    limit: int | None,
    as_json: bool,
    as_csv: bool,
    memory: int,
    threads: int,
    **chosen: Unpack[Chosen],
) -> None:
    """Ask the log in SQL (of DuckDB), as the table log; or show its records of a time.

    \b
    amqp-gateway log query --last 1h --class queue
    amqp-gateway log query "SELECT kind, count(*) FROM log GROUP BY kind"

    With SQL, a time bounds what the table holds, and with it what has to be read. Nothing is written, and no
    file outside the log's folder is read.
    """  # noqa: D301  click's mark for lines that are left as they are
    if last is not None:
        if after is not None:
            raise click.UsageError("give either --last or --from")
        after = (before or dt.datetime.now(tz=dt.UTC)) - last
    if as_json and as_csv:
        raise click.UsageError("give either --json or --csv")
    if sql is not None and _is_chosen(chosen):
        raise click.UsageError(
            "with SQL records are chosen by its WHERE: only --last, --from and --to go with it"
        )
    place = log_folder(config, folder)
    condition, parameters = selection(chosen).condition()
    asked = sql or (
        f"SELECT {'*' if as_json or as_csv else _SHOWN} FROM {TABLE} WHERE {condition} "  # noqa: S608  ours
        "ORDER BY ingest_ts, log_id, seq"
    )
    os.nice(10)  # a gateway on the same machine comes first
    try:
        with ask(
            place,
            asked,
            None if sql else parameters,
            after=after,
            before=before,
            memory_mebibytes=memory,
            threads=threads,
        ) as answer:
            if as_json:
                _show_json(answer, limit or 0, as_lines=sql is None)
            elif as_csv:
                _show_csv(answer, limit or 0)
            else:
                _show_table(answer, 1000 if limit is None else limit)
    except QueryError as error:
        raise CommandError(ExitCode.USAGE, f"{error}") from error
    except LogReadError as error:
        raise CommandError(ExitCode.STATE, f"{error}") from error


def _is_chosen(chosen: Chosen) -> bool:
    return any(chosen.values())


def _show_json(answer: Answer, limit: int, *, as_lines: bool) -> None:
    for row in _at_most(answer.rows, limit):
        click.echo(line_of_row(answer.columns, row) if as_lines else json_of_row(answer.columns, row))


def _show_csv(answer: Answer, limit: int) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.columns)
    for row in _at_most(answer.rows, limit):
        writer.writerow([text_of_value(value) for value in row])


def _show_table(answer: Answer, limit: int) -> None:
    rows = list(_at_most(answer.rows, limit + 1 if limit else 0))
    more = bool(limit) and len(rows) > limit
    del rows[limit or len(rows) :]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(answer.columns):
        is_number = all(isinstance(row[number], int | float) for row in rows)
        table.add_column(
            Text(harmless(name)), justify="right" if is_number and rows else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(harmless(text_of_value(value))) for value in row))
    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    console.print(table)
    if more:
        click.echo(f"the first {limit:,} rows; more with --limit", err=True)


def _at_most(rows: Iterator[tuple[object, ...]], limit: int) -> Iterable[tuple[object, ...]]:
    return itertools.islice(rows, limit) if limit else rows
