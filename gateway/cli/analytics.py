"""``amqp-gateway analytics``: reports and tables of the event log, by Apache Spark (extra ``[spark]``)."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import importlib.util
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gateway.cli.clearance import configured, require_everything
from gateway.cli.options import OUTPUT_FILE, config_option, duration, loaded, time
from gateway.eventlog.disk import NewerLogError
from gateway.eventlog.query import check_version
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.shipped_files import DISTRIBUTION

JOBS = "gateway.cli.analytics_jobs"
"""The module that imports Spark. It is imported late, because Spark may not be installed."""

_EXTRA = "spark"


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The master URL of Spark, and its settings by their Spark names."""

    master: str
    conf: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Asked:
    """A requested report: its period, and its forms.

    Attributes:
        log: path of the log's folder, as Spark takes it.
        begin: begin of the period.
        end: end of the period.
        top: rows of a table that are shown.
        as_json: print JSON, not tables.
        plot: file of the page.
        output: folder for files.
    """

    log: str
    begin: dt.datetime
    end: dt.datetime
    top: int
    as_json: bool
    plot: Path | None
    output: Path | None


@dataclass(frozen=True, slots=True)
class Stream:
    """A request to make tables of the event log.

    Attributes:
        log: path of the log's folder, as Spark takes it.
        output: folder of the tables, likewise.
        interval_seconds: seconds between two looks for new files; ``None`` for a single look.
        files: the largest number of files of one batch.
    """

    log: str
    output: str
    interval_seconds: float | None
    files: int


log_option = click.option(
    "--log",
    metavar="FOLDER",
    help="The log's folder, or a copy that Spark can reach (hdfs://, s3a://). Default: as configured.",
)
master_option = click.option(
    "--master", default="local[*]", help="Where Spark runs: local[2], yarn, spark://HOST:7077 (local[*])."
)
conf_option = click.option(
    "--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; repeat for more."
)


@click.group()
def analytics() -> None:
    """Analyse the event log with Apache Spark; needs the extra [spark] and Java 17 or newer."""


@analytics.command()
@config_option
@log_option
@click.option("--last", default="24h", show_default=True, help="The period until now: 90min, 24h, 7d.")
@click.option("--from", "begin", metavar="TIME", help="Begin of the period instead; UTC without a zone.")
@click.option("--to", "end", metavar="TIME", help="End of the period; with --last, of so long a period.")
@click.option("--top", default=20, show_default=True, type=click.IntRange(min=1), help="Rows of each table.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--plot", type=OUTPUT_FILE, help="Also draw the report as one page, a PNG.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also write report.json and a CSV of each whole table there.",
)
@master_option
@conf_option
def report(  # noqa: PLR0913  one for each option
    config: Path | None,
    log: str | None,
    last: str,
    begin: str | None,
    end: str | None,
    top: int,
    *,
    as_json: bool,
    plot: Path | None,
    output: Path | None,
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Report on queues, connections, events and sources, and on the quality of the data."""
    until = time(end) if end else dt.datetime.now(tz=dt.UTC)
    since = time(begin) if begin else until - duration(last)
    if since >= until:
        raise click.BadParameter("the period ends before it begins")
    spark = _spark(master, conf)
    asked = Asked(_log(config, log), since, until, top, as_json=as_json, plot=plot, output=output)
    _jobs().report(asked, spark, _show)


@analytics.command()
@config_option
@log_option
@click.option(
    "--output",
    required=True,
    metavar="FOLDER",
    help="Folder of the tables; only one run may use it at a time.",
)
@click.option("--once", is_flag=True, help="Process the files of the lake once; default: until Ctrl-C.")
@click.option("--interval", default="60s", show_default=True, help="How often to look for new files.")
@click.option(
    "--files",
    default=64,
    show_default=True,
    type=click.IntRange(min=1),
    help="Largest number of files in one batch; fewer take less memory.",
)
@master_option
@conf_option
def run(
    config: Path | None,
    log: str | None,
    output: str,
    interval: str,
    files: int,
    *,
    once: bool,
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Make tables of the lake, each record once, and continue where an earlier run ended."""
    seconds = None if once else duration(interval).total_seconds()
    stream = Stream(_log(config, log), _place(output), seconds, files)
    _jobs().run(stream, _spark(master, conf), _show)


def _jobs() -> Any:  # noqa: ANN401  a module that may not be there
    try:
        return importlib.import_module(JOBS)
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        if name == "gateway":
            raise
        raise CommandError(ExitCode.NOT_INSTALLED, _what_brings(name)) from error


def _what_brings(name: str) -> str:
    """Return the missing package, and the command that installs it."""
    wanted = [
        requirement.partition(";")[0].strip()
        for requirement in importlib.metadata.requires(DISTRIBUTION) or ()
        if f'extra == "{_EXTRA}"' in requirement.replace("'", '"')
    ]
    python = [sys.executable, "-P", "-m"]
    steps = [[*python, "pip", "install", *wanted]]
    if importlib.util.find_spec("pip") is None:
        steps.insert(0, [*python, "ensurepip"])
        if importlib.util.find_spec("ensurepip") is None:
            steps.insert(0, ["apt-get", "install", "python3-venv"])
    by = " && ".join(map(shlex.join, steps))
    return f"{name} is not installed; install it by: {by}; Java 17 or newer is needed, too"


def _log(config: Path | None, log: str | None) -> str:
    require_everything(configured(config), "analytics")
    place = str(loaded(config).log_folder) if log is None else log
    if "://" not in place:
        try:
            check_version(Path(place).absolute())
        except NewerLogError as error:
            raise CommandError(ExitCode.STATE, str(error)) from error
    return _place(place)


def _place(path: str) -> str:
    """Return a path as Spark takes it: a URL as it is, a folder of this machine as one, too.

    Hadoop's own settings, which HADOOP_CONF_DIR names, may give a path without a scheme to another file
    system. It decodes no characters of a path, and so none are encoded.
    """
    return path if "://" in path else f"file://{Path(path).absolute()}"


def _spark(master: str, conf: tuple[str, ...]) -> SparkOptions:
    pairs = [setting.partition("=") for setting in conf]
    wrong = next((key for key, equals, _ in pairs if not key or not equals), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong!r}: write KEY=VALUE", param_hint="--conf")
    return SparkOptions(master, {key: value for key, _, value in pairs})


def _show(what: str) -> None:
    click.echo(f"  ..  {what}", err=True)
