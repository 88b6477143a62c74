"""The tables that Spark makes of the log while its driver is killed, compared with the ledger; when proving.

Tables are read with DuckDB, that is, without Spark.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from gateway.eventlog.query import ask
from tests.components.command_line import amqp_gateway, environment
from tests.components.waiting import wait_until
from tests.ledger.lives import Truth
from tests.ledger.verdict import CLASSES

FIRST_FILES = 20
"""The number of files of a build after which the driver is killed, in the middle of its tables."""

FILES = 4
"""The files of a batch."""

_SPARK = ("--master=local[1]", "--conf=spark.driver.memory=1g", "--conf=spark.sql.shuffle.partitions=1")
_BUILD_SECONDS = 1000.0
"""The longest time of a build, which a busy machine takes several minutes for."""

_OBJECTS = """
    SELECT source, class, sum(created)::BIGINT, sum(deleted)::BIGINT
    FROM '{gold}/objects_by_hour/*/*/*.parquet'
    WHERE class IN {classes} GROUP BY ALL
"""
_ALIVE = """
    SELECT source, class, object_name, arg_max(kind, seq) <> 'delete' FROM '{silver}/life_marks/*/*/*.parquet'
    WHERE class IN {classes} GROUP BY source, class, object_id, object_name
"""
_OLD = """
    SELECT source, class, count(*) FROM (
      SELECT source, class, object_id, arg_min(kind, seq) AS first FROM '{silver}/life_marks/*/*/*.parquet'
      GROUP BY ALL
    ) WHERE class IN {classes} AND first <> 'create' GROUP BY ALL
"""
_PUBLISHED = """
    SELECT source, object_name, (any_value(gained) + any_value(first))::BIGINT FROM (
      SELECT source, object_name, sum(delta) AS gained FROM '{gold}/counters_by_hour/*/*/*.parquet'
      WHERE class = 'queue' AND element = 'messagesPublished' GROUP BY ALL
    ) JOIN (
      SELECT source, object_name, arg_min(if(delta IS NULL, integer, 0), seq) AS first
      FROM '{silver}/samples/*/*/*.parquet'
      WHERE class = 'queue' AND element = 'messagesPublished' AND integer IS NOT NULL GROUP BY ALL
    ) USING (source, object_name) GROUP BY ALL
"""
_EVENTS = """
    SELECT source, event, sum(events)::BIGINT FROM '{gold}/events_by_hour/*/*/*.parquet'
    WHERE package = 'rabbitmq' GROUP BY ALL
"""
_LOGGED = """
    SELECT source, event, count(*)::BIGINT FROM log WHERE kind = 'event' AND package = 'rabbitmq' GROUP BY ALL
"""


def build(log: Path, output: Path) -> None:
    """Make tables of a whole log in ``output``; another driver was killed in the middle."""
    _kill_a_driver(log, output)
    ended = amqp_gateway(*_words(log, output), seconds=_BUILD_SECONDS)
    assert ended.code == 0, ended.errors


def _kill_a_driver(log: Path, output: Path) -> None:
    with _driver(log, output) as driver:
        wait_until(
            lambda: driver.poll() is not None or _files_below(output) >= FIRST_FILES,
            "the driver has begun with the tables",
            _BUILD_SECONDS,
        )
        assert driver.poll() is None, "the driver ended before it could be killed"


@contextmanager
def _driver(log: Path, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(  # noqa: S603  our own command
        [sys.executable, "-m", "gateway.cli.main", *_words(log, output)],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _words(log: Path, output: Path) -> tuple[str, ...]:
    return ("analytics", "run", "--once", f"--files={FILES}", *_SPARK, f"--log={log}", f"--output={output}")


def _files_below(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def differences(log: Path, output: Path, truth: Truth, sources: tuple[str, ...]) -> Iterator[str]:
    """Yield the differences between the tables and the ledger, or for events the log, one line each.

    Args:
        log: the log of the tables, with the true number of events.
        output: the folder of the tables.
        truth: the true state according to the ledger.
        sources: the names of the sources that read its broker.
    """
    yield from _objects(output, truth, sources)
    published = {
        (source, name.rpartition("|")[2]): total for source, name, total in _rows(output, _PUBLISHED)
    }
    counted = {(source, event): count for source, event, count in _rows(output, _EVENTS)}
    with ask(log, _LOGGED) as answer:
        logged = {(source, event): count for source, event, count in answer.rows}
    if counted != logged:
        yield f"events: {counted}, in the log {logged}"
    for source in sources:
        for name in truth.published:
            low, high = truth.gained(name)
            if not low <= published.get((source, name), 0) <= high:
                yield f"{name} of {source}: {published.get((source, name))} messages of {low}"


def report_differences(log: Path, output: Path, truth: Truth, sources: tuple[str, ...]) -> Iterator[str]:
    """Yield the differences between the report of a whole log and the ledger, or for objects the tables.

    Args:
        log: the log of the report.
        output: the folder of the tables of the same log.
        truth: the true state according to the ledger.
        sources: the names of the sources that read its broker, which is one broker.
    """
    period = ("--from=2000-01-01", "--to=2100-01-01", "--top=100000")
    ended = amqp_gateway("analytics", "report", "--json", *_SPARK, f"--log={log}", *period)
    if ended.code != 0:
        yield f"no report: {ended.errors}"
        return
    reported = json.loads(ended.output)["tables"]
    rows = {
        (row["source"], row["class"]): (row["created"], row["ended"])
        for row in reported["classes"]
        if row["class"] in CLASSES
    }
    made = {(source, name): (created, deleted) for source, name, created, deleted in _rows(output, _OBJECTS)}
    if rows != made:
        yield f"objects: {rows}, in the tables {made}"
    published = {
        (row["source"], row["queue"].rpartition("|")[2]): row["published"] for row in reported["queues"]
    }
    for source in sources:
        for name in truth.published:
            low, high = truth.gained(name)
            if not low <= (published.get((source, name)) or 0) <= high:
                yield f"{name} of {source}: {published.get((source, name))} messages of {low}"
    (all_together,) = (row for row in reported["brokers"] if row["broker"] is None)
    most = max(
        sum(row["published"] or 0 for row in reported["queues"] if row["source"] == one) for one in sources
    )
    if all_together["published"] > most:
        yield f"all brokers together: {all_together['published']} messages, the busiest source told {most}"


def _objects(output: Path, truth: Truth, sources: tuple[str, ...]) -> Iterator[str]:
    """Yield a line unless created = deleted + alive, and the living objects are those of the ledger."""
    began = {(source, name): (created, deleted) for source, name, created, deleted in _rows(output, _OBJECTS)}
    old = {(source, name): count for source, name, count in _rows(output, _OLD)}
    alive: dict[tuple[str, str], set[str]] = {}
    for source, class_name, name, lives in _rows(output, _ALIVE):
        if lives:
            alive.setdefault((source, class_name), set()).add(name)
    for source in sources:
        for class_name in CLASSES:
            key = source, class_name
            created, deleted = began.get(key, (0, 0))
            living = len(alive.get(key, ()))
            if created + old.get(key, 0) != deleted + living:
                yield f"{class_name} of {source}: {created} created, {deleted} deleted, {living} alive"
        names = {name.rpartition("|")[2].partition("#")[0] for name in alive.get((source, "queue"), ())}
        for (class_name, name), lives in truth.lives.items():
            last = lives[-1]
            if (
                class_name == "queue"
                and last.sure
                and last.end_sure
                and (last.ended is None) != (name in names)
            ):
                yield f"{name} of {source}: {'not ' * (name not in names)}alive"


def _rows(output: Path, sql: str) -> list[tuple[Any, ...]]:
    folders = {"gold": output / "gold", "silver": output / "silver", "classes": CLASSES}
    with duckdb.connect() as connection:
        return connection.execute(sql.format(**folders)).fetchall()
