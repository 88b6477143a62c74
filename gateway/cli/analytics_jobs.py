"""The work of ``amqp-gateway analytics``, imported late, because Spark may not be installed."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

import click

from gateway.analytics import pipeline
from gateway.analytics.coverage import Period
from gateway.analytics.pipeline import BatchDone
from gateway.analytics.reports import layout, page
from gateway.analytics.reports.answers import write_files
from gateway.analytics.reports.report import make_report
from gateway.analytics.session import AnalyticsError, MissingError, NoLogError, SparkSettings, session
from gateway.cli.analytics import Asked, SparkOptions, Stream
from gateway.service.processes.exit_codes import CommandError, ExitCode

_Handler = Callable[[int, FrameType | None], object] | int | None

MOST_ROWS = 100_000
"""The largest table of a file; its rows are held in memory."""


def report(asked: Asked, spark_options: SparkOptions, show: Callable[[str], None]) -> None:
    """Make the report and show it in every form that was asked for."""
    period = Period(asked.begin, asked.end)
    most_rows = asked.top if asked.output is None else MOST_ROWS
    with _errors_reported():
        show("starting Spark")
        with session(SparkSettings(spark_options.master, spark_options.conf)) as spark:
            made = make_report(spark, asked.log, period, show, most_rows)
        if asked.plot is not None:
            show(f"drawing {asked.plot}")
            page.draw(made, asked.plot)
        if asked.output is not None:
            for file in write_files(made, asked.output):
                show(f"wrote {file}")
    if asked.as_json:
        click.echo(json.dumps(made.as_json(asked.top), indent=2))
    else:
        layout.show(made, sys.stdout, asked.top)


def run(stream: Stream, spark_options: SparkOptions, show: Callable[[str], None]) -> None:
    """Publish tables until there is nothing left (without an interval), or until the end of the process."""

    def done(batch: BatchDone) -> None:
        known = f", {batch.known:,} known already" if batch.known else ""
        show(f"batch {batch.number}: {batch.records:,} records{known}")

    stopping = Event()

    handlers: dict[int, _Handler] = {}

    def stop(number: int, _frame: FrameType | None) -> None:
        show("ending after the current batch")
        stopping.set()
        signal.signal(number, handlers[number])

    with _errors_reported():
        show("starting Spark")
        with session(SparkSettings(spark_options.master, spark_options.conf)) as spark:
            # Not before, because Ctrl-C ends a Spark that starts.
            for number in (signal.SIGINT, signal.SIGTERM):
                handlers[number] = signal.signal(number, stop)
            show(f"reading {stream.log}")
            pipeline.run(
                spark,
                stream.log,
                stream.output,
                interval_seconds=stream.interval_seconds,
                done=done,
                files_per_batch=stream.files,
                stopping=stopping,
            )


@contextmanager
def _errors_reported() -> Iterator[None]:
    try:
        yield
    except MissingError as error:
        raise CommandError(ExitCode.NOT_INSTALLED, str(error)) from error
    except NoLogError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    except (AnalyticsError, OSError) as error:
        raise CommandError(ExitCode.FAILED, str(error)) from error
