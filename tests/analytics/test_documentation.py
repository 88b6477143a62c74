"""The tables, options and code of ``docs/analytics.md`` are right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from gateway.analytics import session
from gateway.analytics.pipeline import GOLD, SILVER
from gateway.analytics.reports.classes import CONSUMERS, DEPTH, FLOWS, USERS
from gateway.analytics.reports.layout import LAYOUTS
from gateway.analytics.session import Storage, Tables
from gateway.cli.analytics import report, run
from gateway.eventlog.record import Delta, RecordKind
from gateway.model.times import MINUTE
from tests.analytics.logs import WrittenLog, counted, frame, of_object, reported

pytestmark = pytest.mark.xdist_group("spark")

PAGE = (Path(__file__).parents[2] / "docs" / "analytics.md").read_text(encoding="utf-8")
TABLES = {
    name: re.findall("`([a-z_]+)`", columns)
    for name, columns in re.findall(
        r"^\| `((?:silver|gold)/[a-z_]+)` \|[^|]*\|([^|]*)\|$", PAGE, re.MULTILINE
    )
}


def test_every_table_is_described() -> None:
    assert set(TABLES) == set(SILVER | GOLD)


def test_columns_are_those_of_the_tables(spark: SparkSession, log: WrittenLog) -> None:
    records = frame(spark, log, [reported(of_object(RecordKind.CREATE, 1, 1), messages=1)])
    columns = {name: made(records).columns for name, made in SILVER.items()}
    columns |= {name: [*made(records).columns, "broker"] for name, made in GOLD.items()}
    assert columns == TABLES


def test_every_table_of_the_report_and_every_option_is_described() -> None:
    (answers,) = re.findall(r"^\| table \| what it says \|\n(.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert re.findall(r"^\| ([a-z]+) \|", answers, re.MULTILINE) == list(LAYOUTS)
    options = {option for command in (report, run) for param in command.params for option in param.opts}
    assert {option for option in options if option not in {"--config", "--interval"}} <= set(
        re.findall(r"--[a-z]+", PAGE)
    )


def test_every_element_that_queues_and_connections_are_read_by_is_described() -> None:
    (described,) = re.findall(r"^### Queues and connections.*?^## ", PAGE, re.MULTILINE | re.DOTALL)
    named = set(re.findall("`([A-Za-z_]+)`", described))
    detailed = {
        "delivered_with_ack",
        "delivered_without_ack",
        "got_with_ack",
        "got_without_ack",
        "gets_empty",
    }
    flows = {reported.element for name, flow in FLOWS.items() if name not in detailed for reported in flow}
    assert flows | set(DEPTH) | set(CONSUMERS) | set(USERS) <= named


def test_the_question_to_duckdb_is_answered(
    spark: SparkSession, log: WrittenLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = reported(of_object(RecordKind.UPDATE, 60, 1, name="orders"), 60, messagesPublished=120)
    of_queue = counted(update, messagesPublished=Delta(120, MINUTE))
    of_host = replace(of_queue, class_name="vhost", object_id="rabbitmq/rabbitmq:vhost/1")
    records = frame(spark, log, [of_queue, of_host])
    name = "gold/counters_by_hour"
    Tables(Storage(spark), str(tmp_path)).publish(name, 0, GOLD[name](records))
    monkeypatch.chdir(tmp_path)
    question, _ = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    assert duckdb.connect().execute(question).fetchall() == [("rabbitmq", "orders", 120, 2.0)]


def test_the_notebook_runs(
    spark: SparkSession, log: WrittenLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def started(_: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(session, "session", started)
    log.segment([reported(of_object(RecordKind.CREATE, 1, 1, name="orders"), 1, messages=7)])
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    lines = code.replace('"log"', repr(log.path)).replace(
        "dt.datetime.now(tz=dt.UTC)", "dt.datetime(2026, 11, 20, 13, tzinfo=dt.UTC)"
    )
    exec(lines, {})  # noqa: S102  the page's own example
    assert "orders|        7.0" in capsys.readouterr().out
