"""``amqp-gateway log``: the event log followed, queried, verified and compacted."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import errno
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

from gateway.cli.clearance import cleared_log, configured, require_everything
from gateway.cli.log_answers import print_json, show_csv, show_json, show_table
from gateway.cli.options import config_option, duration, loaded, refuse_distrusted_log, time
from gateway.clock import SystemClock
from gateway.escapes import printable, unescaped
from gateway.eventlog.compaction import (
    Compacted,
    CompactionBusyError,
    CompactionError,
    Compactor,
)
from gateway.eventlog.disk import EventLogError, NewerLogError
from gateway.eventlog.follow import CHANGES, LogEnd, Selection
from gateway.eventlog.query import (
    TABLE,
    LogReadError,
    QueryError,
    ask,
    check_version,
)
from gateway.eventlog.record import RecordKind, readable_line
from gateway.eventlog.segment import LAKE, SEGMENTS, compactable
from gateway.eventlog.verification import Problem, Summary, verify
from gateway.file_owners import as_owner, distrust, owner_for_root, reason_of
from gateway.inventory.instance_file import InstanceIndexError
from gateway.service.diagnostics.feed_session import principal
from gateway.service.processes.event_log import file_settings
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.state.log_adoption import adopt, record_adoption
from gateway.state_folder import StateError, StateFolder

Command = Callable[..., Any]

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the log. Default: as configured.",
)

_SELECTION = (
    click.option("--source", "sources", multiple=True, metavar="NAME", help="Only of this source."),
    click.option(
        "--class",
        "classes",
        multiple=True,
        metavar="CLASS",
        help="Only of objects of this class: queue, or rabbitmq:queue.",
    ),
    click.option(
        "--object", "objects", multiple=True, metavar="NAME", help="Only of this object: name or id."
    ),
    click.option("--event", "events", multiple=True, metavar="EVENT", help="Only events of this name."),
    click.option(
        "--severity", "severities", multiple=True, metavar="SEVERITY", help="Only events of this severity."
    ),
    click.option(
        "--kind",
        "kinds",
        multiple=True,
        type=click.Choice([kind.value for kind in RecordKind]),
        help="Only records of this kind.",
    ),
    click.option(
        "--all", "everything", is_flag=True, help="Also schemas, and the snapshots at the start of segments."
    ),
)


class Chosen(TypedDict):
    """The values of the options of `selection_options`."""

    sources: tuple[str, ...]
    classes: tuple[str, ...]
    objects: tuple[str, ...]
    events: tuple[str, ...]
    severities: tuple[str, ...]
    kinds: tuple[str, ...]
    everything: bool


def selection_options(command: Command) -> Command:
    """Add options that select records; an option that is given several times matches any of its values."""
    for option in reversed(_SELECTION):
        command = option(command)
    return command


def selection(
    chosen: Chosen, after: dt.datetime | None = None, before: dt.datetime | None = None
) -> Selection:
    """Return the selection that the options describe; by default without schemas and snapshots."""
    kinds: Iterable[str] = chosen["kinds"]
    if not kinds and not chosen["everything"]:
        kinds = CHANGES
    return Selection(
        kinds=frozenset(kinds),
        sources=_as_printed(chosen["sources"]),
        classes=frozenset(chosen["classes"]),
        objects=_as_printed(chosen["objects"]),
        events=frozenset(chosen["events"]),
        severities=frozenset(chosen["severities"]),
        after=after,
        before=before,
    )


def _as_printed(names: Iterable[str]) -> frozenset[str]:
    """Return names as they were written, and as they are if they were copied from a line."""
    return frozenset((*names, *map(unescaped, names)))


_MARKS: Final = ("LOG", "LOCK", SEGMENTS, LAKE)
"""The folder of a log, or of a copy, contains at least one of these."""


def whole_log(config: Path | None, folder: Path | None, command: str) -> Path:
    """Return the folder of the log for a command that shows everything in it.

    Raises:
        CommandError: as `log_folder` does; or the user may not read everything.
    """
    require_everything(configured(config), command)
    return log_folder(config, folder)


def log_folder(config: Path | None, folder: Path | None) -> Path:
    """Return the folder of the log; if it is given, no configuration is needed.

    Raises:
        CommandError: there is no log, it cannot be read, is of a newer version, or there is no configuration.
    """
    place = (loaded(config).log_folder if folder is None else folder).absolute()
    try:
        is_there = any((place / name).exists() for name in _MARKS)
        check_version(place)
    except OSError as error:
        raise CommandError(ExitCode.STATE, f"{place}: cannot be read: {reason_of(error, place)}") from error
    except NewerLogError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    if not is_there:
        raise CommandError(
            ExitCode.STATE,
            f"{place}: there is no event log: the gateway creates it when it first runs, unless its "
            "configuration has 'log: {enabled: false}'; name the folder of another one with --folder",
        )
    return place


POLL_SECONDS = 0.2
PROGRESS_SECONDS = 1.0


@click.group()
def log() -> None:
    """Read, verify and compact the event log, also while the gateway runs."""


@log.command()
@config_option
@folder_option
@click.option(
    "-n", "--lines", default=10, type=click.IntRange(min=0), help="Show so many records first (10)."
)
@click.option("-f", "--follow", is_flag=True, help="Then show new ones, until Ctrl-C.")
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print the lines as they are in the log.")
@click.option("--whole", is_flag=True, help="Show long values in full.")
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
    """Show the last records, one on each line, with times in UTC.

    A user whose roles do not permit everything sees what they permit, by the configuration as it is now.
    """
    place = log_folder(config, folder)
    with _files_reported():
        cleared = cleared_log(configured(config), place)
    end = LogEnd(place, selection(chosen), None if cleared is None else cleared.read)

    def show(line: bytes) -> None:
        if as_json:
            print_json(line)
        else:
            click.echo(readable_line(msgspec.json.decode(line, type=dict[str, object]), whole=whole))

    with _files_reported():
        for line in end.last(lines):
            show(line)
        _show_remarks(end)
        while follow:
            for line in end.new():
                show(line)
            _show_remarks(end)
            sleep(POLL_SECONDS)


def _show_remarks(end: LogEnd) -> None:
    for remark in end.remarks:
        click.echo(
            f"amqp-gateway: {printable(remark)}; amqp-gateway log verify reads the whole log", err=True
        )
    end.remarks.clear()


@log.command("verify")
@config_option
@folder_option
@click.option(
    "--json", "as_json", is_flag=True, help="For programs: an object for each problem, then the totals."
)
def verify_command(config: Path | None, folder: Path | None, *, as_json: bool) -> None:
    """Read the whole log and report what is not as it was written.

    The CRC of every block and every Parquet file is compared, every record is read, and no number may be
    missing between the first and the last. The exit code is 12 if there is a problem.
    """
    place = whole_log(config, folder, "log verify")
    summary = Summary()
    give_way()
    with _files_reported():
        for problem in verify(place, summary, _progress()):
            click.echo(json.dumps(_problem(problem)) if as_json else printable(str(problem)))
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
        f"{summary.segments:,} segments; {summary.octets:,} bytes read"
    )
    for log_id, first in summary.first_seq.items():
        yield f"log {printable(log_id)}: seq {first} to {summary.last_seq[log_id]}"
    if summary.uncommitted:
        yield f"{summary.uncommitted:,} bytes are not committed: being written, or left by a crash"
    if summary.unchecked:
        yield (
            f"{summary.unchecked:,} files of the lake are not checked: they have no CRC, "
            "because an earlier version or another program wrote them; they can be read"
        )
    if summary.lost_files:
        yield f"{summary.lost_files} files in lost/: parts that recovery cut off, and damaged segments"
    yield f"problems: {summary.problems}" if summary.problems else "everything is as it was written"


@log.command("adopt")
@config_option
def adopt_command(config: Path | None) -> None:
    """Begin a new log in a folder whose log this gateway must not continue; no gateway may run.

    That is the log of another gateway, one that a later start of this gateway wrote than its state knows, or
    one that was set back. It goes into the lake, where it can be read; the new log begins with an audited
    record of this. Where the gateway can continue the log, nothing is changed.
    """
    configuration = loaded(config)
    place = whole_log(config, None, "log adopt")
    refuse_distrusted_log(configuration)
    give_way()
    clock = SystemClock()
    try:
        state = StateFolder(configuration.state_folder)
        with as_owner(state.path), state.locked(patience_seconds=0):
            adopted = adopt(
                state, place, str(principal()), clock, lambda done: click.echo(_compacted(place, done))
            )
            if adopted is None:
                click.echo(f"{place}: this gateway can continue its log: nothing was changed")
                return
            asyncio.run(record_adoption(state, place, clock, file_settings(configuration.settings.log)))
    except (EventLogError, StateError, InstanceIndexError, CompactionError) as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    click.echo(f"{place}: the log {adopted.former} is in the lake, and is not written any more")
    click.echo(f"the log {adopted.log_id} begins in its place")


@log.command()
@config_option
@folder_option
@click.option("--all", "standing", is_flag=True, help="Also the segments that the next start reads.")
def compact(config: Path | None, folder: Path | None, *, standing: bool) -> None:
    """Convert all complete segments to Parquet now.

    The segments that the gateway reads at its next start are kept, unless --all is given.

    The exit code is 12 if a segment is damaged: it is then in lost/, and its intact blocks are in the lake.
    """
    place = whole_log(config, folder, "log compact")
    if folder is None:
        refuse_distrusted_log(loaded(config))
    elif reason := distrust(place, *owner_for_root(place)):
        raise CommandError(ExitCode.STATE, f"{place} {reason}")
    give_way()
    damaged, failed = 0, 0
    with _files_reported(), as_owner(place), _compactor(place) as compactor:
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
            ExitCode.FAILED,
            f"{failed} of {len(segments)} segments are not compacted: see the reasons above, and try again",
        )
    if damaged:
        sys.exit(ExitCode.DIFFERENCE)


def _none_waits(left: int) -> str:
    """Return the message for nothing to do; ``left`` segments are kept for the next start."""
    if not left:
        return "no segment is waiting"
    them = "them" if left > 1 else "it"
    return f"no segment is waiting but {left}, which the next start reads: --all compacts {them}, too"


@contextlib.contextmanager
def _compactor(folder: Path) -> Iterator[Compactor]:
    try:
        compactor = Compactor(folder).__enter__()
    except CompactionBusyError:
        click.echo("  ..  waiting for the compaction of the running gateway", err=True)
        compactor = Compactor(folder, wait=True).__enter__()
    with contextlib.ExitStack() as stack:
        stack.push(compactor)
        yield compactor


def _compacted(folder: Path, done: Compacted) -> str:
    name = done.segment.path.name
    made = (
        "no block in it is intact"
        if done.file is None
        else f"{done.records:,} records, {done.octets:,} bytes to {done.file_octets:,} in "
        f"{done.file.relative_to(folder)}"
    )
    if done.set_aside is None:
        return f"{name}: {made}"
    problems = itertools.islice(done.problems, 3)
    return printable(
        f"{name} is damaged ({'; '.join(problems)}): {made}; the segment is now "
        f"{done.set_aside.relative_to(folder)}"
    )


def _progress() -> Callable[[int, int], None]:
    last = monotonic()

    def report(done: int, of: int) -> None:
        nonlocal last
        if monotonic() - last >= PROGRESS_SECONDS:
            last = monotonic()
            click.echo(f"  ..  {done >> 20:,} of {of >> 20:,} MiB", err=True)

    return report


def give_way() -> None:
    """Lower the priority of the command's process, so that a gateway on the same machine comes first.

    A process that the command does not have for itself keeps its own.
    """
    if click.get_current_context().find_root().obj == os.getpid():
        os.nice(10)


@contextlib.contextmanager
def _files_reported() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # The reader of the output has ended.
    except OSError as error:
        if error.filename is None and error.errno in _OF_OUTPUT:
            raise
        raise CommandError(ExitCode.STATE, f"{error.filename or 'the log'}: {error.strerror}") from error


_OF_OUTPUT: Final = frozenset((errno.EBADF, errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""Errors that no reading has: standard output is closed, or its disk is full."""


_SHOWN = 'ingest_ts, kind, source, class, object_name, event, severity, state, text, "values"'


@log.command()
@click.argument("sql", required=False)
@config_option
@folder_option
@click.option(
    "--last", type=duration, metavar="DURATION", help="Records of this time until now: 90s, 15min, 24h, 7d."
)
@click.option(
    "--from",
    "after",
    type=time,
    metavar="TIME",
    help="Records ingested then or later; UTC without a zone.",
)
@click.option("--to", "before", type=time, metavar="TIME", help="Records ingested before then.")
@selection_options
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    help="Show at most so many rows, 0 for all. Default for tables: 1000.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each row as a JSON object on one line.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@click.option("--memory", default=1024, type=click.IntRange(min=64), help="Memory for data, in MiB (1024).")
@click.option("--threads", default=2, type=click.IntRange(min=1), help="Threads (2).")
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
    """Query the log by SQL (of DuckDB) as the table log, or show its records of a time.

    \b
    amqp-gateway log query --last 1h --class queue
    amqp-gateway log query "SELECT kind, count(*) FROM log GROUP BY kind"

    With SQL, a time limits the records in the table, and the files that are read. Nothing is written, and no
    file outside the log's folder is read.
    """  # noqa: D301  click's mark for lines that are left as they are
    if last is not None:
        if after is not None:
            raise click.UsageError("--last and --from exclude each other")
        after = (before or dt.datetime.now(tz=dt.UTC)) - last
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    if sql is not None and _is_chosen(chosen):
        raise click.UsageError(
            "with SQL, select records by WHERE: only --last, --from and --to can be combined with it"
        )
    place = whole_log(config, folder, "log query")
    condition, parameters = selection(chosen).condition()
    asked = sql or (
        f"SELECT {'*' if as_json or as_csv else _SHOWN} FROM {TABLE} WHERE {condition} "  # noqa: S608  ours
        "ORDER BY ingest_ts, log_id, seq"
    )
    give_way()
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
            if answer.copies:
                one, *more = answer.copies
                others = f", as {len(more)} more" if more else ""
                remark = f"{one.path}: passed over{others}: another file of the lake has its records"
                click.echo(printable(f"amqp-gateway: {remark}: see amqp-gateway log verify"), err=True)
            if as_json:
                show_json(answer, limit or 0, as_lines=sql is None)
            elif as_csv:
                show_csv(answer, limit or 0)
            else:
                show_table(answer, 1000 if limit is None else limit, of_records=sql is None)
    except QueryError as error:
        raise CommandError(ExitCode.USAGE, f"{error}") from error
    except LogReadError as error:
        raise CommandError(ExitCode.STATE, f"{error}") from error


def _is_chosen(chosen: Chosen) -> bool:
    return any(chosen.values())
