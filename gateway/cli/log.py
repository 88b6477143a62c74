"""``amqp-gateway log``: the event log followed, asked, verified, compacted."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Unpack

import click
import msgspec

from gateway.cli.log_options import Chosen, folder_option, log_folder, selection, selection_options
from gateway.cli.log_query import query
from gateway.cli.options import config_option
from gateway.eventlog.compaction import (
    Compacted,
    CompactionBusyError,
    CompactionError,
    Compactor,
    compactable,
)
from gateway.eventlog.follow import LogEnd
from gateway.eventlog.readable import harmless, readable_line
from gateway.eventlog.verification import Problem, Summary, verify
from gateway.service.processes.exit_codes import CommandError, ExitCode

POLL_SECONDS = 0.2
PROGRESS_SECONDS = 1.0


@click.group()
def log() -> None:
    """Read, verify and compact the event log; also while the gateway runs."""


log.add_command(query)


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
            time.sleep(POLL_SECONDS)


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
    last = time.monotonic()

    def tell(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
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
