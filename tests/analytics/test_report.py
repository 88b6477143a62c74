"""The report of two hours whose contents are in a ledger, and of logs with little in them."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from pathlib import Path

import duckdb
import numpy as np
import psutil
import pytest
from matplotlib.image import imread
from msgspec.structs import replace
from pyspark.sql import SparkSession

from gateway.analytics.coverage import Period
from gateway.analytics.reports import layout, page
from gateway.analytics.reports.answers import Report, Row, number, write_files
from gateway.analytics.reports.findings import findings
from gateway.analytics.reports.layout import LAYOUTS
from gateway.analytics.reports.report import drawn_of, make_report, step_seconds
from gateway.analytics.session import AnalyticsError
from gateway.eventlog.record import Delta, RecordKind
from gateway.model.times import MINUTE
from tests.analytics import story
from tests.analytics.conftest import STORY_PERIOD, CommandedReport
from tests.analytics.logs import NOON, WrittenLog, after, counted, event, of_object, reported
from tests.analytics.story import Ledger

pytestmark = pytest.mark.xdist_group("spark")

LINE = ("kind", "severity", "object_name", "deltas")


@pytest.fixture(scope="module")
def reported_story(commanded_report: CommandedReport) -> tuple[WrittenLog, Ledger]:
    return commanded_report.log, commanded_report.ledger


@pytest.fixture(scope="module")
def made(commanded_report: CommandedReport) -> Report:
    return commanded_report.report


def by(report: Report, table: str, name: str) -> dict[object, Row]:
    return {row[name]: row for row in report.table(table).rows}


def test_records_are_those_of_the_ledger(made: Report, reported_story: tuple[WrittenLog, Ledger]) -> None:
    _, ledger = reported_story
    kinds = ("create", "update", "delete", "snapshot", "event", "gap")
    assert {kind: made.contents[kind] for kind in kinds} == {kind: ledger.kinds[kind] for kind in kinds}
    assert made.contents["records"] == ledger.kinds.total()


def test_queues_gained_what_the_ledger_says(made: Report, reported_story: tuple[WrittenLog, Ledger]) -> None:
    _, ledger = reported_story
    rows = by(made, "queues", "queue")
    assert list(rows) == ["orders", "mail", "invoices", "audit", "returns"]
    for queue in story.QUEUES[:3]:
        row = rows[queue.name]
        assert row["published"] == ledger.gained[queue.name, "messagesPublished"]
        assert row["delivered"] == ledger.gained[queue.name, "messagesDeliveredOrGot"]
        assert row["acknowledged"] == ledger.gained[queue.name, "messagesAcknowledged"]
        assert row["published_peak"] == pytest.approx(queue.published)
        # From the first record to the last one; a minute was lost with the broker's restart.
        seen = story.END - 60
        assert row["published_per_second"] == pytest.approx(number(row, "published") / seen)
        assert row["resets"] == len(story.COUNTERS)
    assert rows["returns"]["published"] is None  # no counter of it ever changed: absent, not zero


def test_queues_that_grow_grow_as_fast_as_they_do(made: Report) -> None:
    rows = by(made, "growing", "queue")
    assert list(rows) == ["invoices", "audit"]
    assert rows["invoices"]["per_hour"] == pytest.approx(2 * 3600)
    assert rows["invoices"]["in_24_hours"] == pytest.approx(number(rows["invoices"], "last") + 24 * 7200)
    assert rows["audit"]["fit"] == pytest.approx(1)


def test_connections_of_each_user_lasted_as_long_as_they_did(made: Report) -> None:
    rows = by(made, "connections", "user")
    for user, (count, lasts) in story.USERS.items():
        row = rows[user]
        assert (row["opened"], row["ended"], row["open"]) == (count, count, 0)
        assert [row[name] for name in ("median", "p90", "p99", "longest")] == [lasts] * 4
        assert row["short"] == (count if lasts < 1 else 0)
    everybody = sum(count for count, _ in story.USERS.values())
    assert rows[None]["ended"] == everybody


def test_events_storms_and_what_comes_and_goes(
    made: Report, reported_story: tuple[WrittenLog, Ledger]
) -> None:
    _, ledger = reported_story
    counts = {(row["event"], row["severity"]): row["events"] for row in made.table("events").rows}
    assert counts == ledger.events
    assert [row["severity"] for row in made.table("events").rows] == ["critical", "warning", "cleared"]
    (storm,) = made.table("storms").rows
    assert (storm["begin"], storm["end"]) == (after(story.STORM_BEGIN), after(story.STORM_BEGIN + 180))
    assert (storm["events"], storm["peak"]) == (3 * story.STORM_A_MINUTE, story.STORM_A_MINUTE)
    times = {(row["what"], row["name"]): row["times"] for row in made.table("flapping").rows}
    assert times == {
        ("rabbitmq:queue", "reply-to"): story.SHORT_LIVED,
        ("condition", 'memoryAlarm rabbitmq:node "rabbit@shop"'): len(story.ALARMS),
    }


def test_silence_gaps_and_quality(made: Report, reported_story: tuple[WrittenLog, Ledger]) -> None:
    _, ledger = reported_story
    (source,) = made.table("sources").rows
    assert (source["state"], source["silent"], source["times"]) == ("synchronised", False, 1)
    assert source["silent_seconds"] == story.GAP[1] - story.GAP[0]
    assert source["since"] == after(story.GAP[1])
    (gap,) = made.table("gaps").rows
    assert (gap["gaps"], gap["seconds"], gap["lost"]) == (1, 120.0, 3)
    quality = {str(row["what"]): row["count"] for row in made.table("quality").rows}
    assert quality["resets"] == ledger.resets
    assert (quality["missing"], quality["twice"], quality["lost"]) == (0, 0, 3)
    assert (quality["lag"], quality["longest lag"], quality["ahead"]) == (1.0, 1.0, 0)


def test_what_flowed_is_spread_over_the_time_it_took(made: Report) -> None:
    rates = {row["step"]: row["published"] for row in made.series.throughput}
    steady = sum(queue.published for queue in story.QUEUES)
    assert made.series.step_seconds == 60
    assert rates[600] == pytest.approx(steady)
    total = sum(number(row, "published") for row in made.table("queues").rows)
    assert sum(number(row, "published") for row in made.series.throughput) * 60 == pytest.approx(total)


@pytest.mark.parametrize(
    ("hours", "step"),
    [(1 / 60, 1), (0.25, 5), (2, 60), (24, 600), (24 * 14, 7200), (24 * 400, 86_400)],
    ids="{}h".format,
)
def test_steps_are_as_fine_as_the_log_is_short(hours: float, step: int) -> None:
    """The asked period does not matter: ``--last`` is a day by default, also for a log of a minute."""
    asked = Period(after(-1000 * 86_400), after(1000 * 86_400))
    drawn = drawn_of(asked, {"begin": after(0.5), "end": after(hours * 3600 - 0.5)})
    assert drawn == Period(NOON, after(hours * 3600))
    assert step_seconds(drawn) == step


@pytest.mark.prove
def test_a_day_that_has_a_log_of_two_hours_is_drawn_as_these_two_hours(
    spark: SparkSession, made: Report, reported_story: tuple[WrittenLog, Ledger]
) -> None:
    asked = Period(after(-86_400), after(86_400))
    report = make_report(spark, reported_story[0].path, asked, lambda _: None)
    assert report.series == made.series
    assert report.table("growing").rows == made.table("growing").rows
    assert findings(report) == [
        "the log ends at 2026-11-20 13:59:00: nothing was recorded in the rest of the period",
        *findings(made),
    ]


def test_duckdb_counts_the_same_over_the_same_files(
    made: Report, reported_story: tuple[WrittenLog, Ledger]
) -> None:
    folder = reported_story[0].folder
    database = duckdb.connect()
    lake = database.read_parquet(str(folder / "lake/*/*/*.parquet"))
    lines = database.read_json(str(folder / "segments/*.jsonl"), columns=dict.fromkeys(LINE, "VARCHAR"))
    records = lake.select(*LINE).union(lines.filter("kind <> '_commit'").select(*LINE))

    kinds = dict(records.aggregate("kind, count(*)").fetchall())
    assert {kind: kinds[kind] for kind in ("create", "delete", "event")} == {
        kind: made.contents[kind] for kind in ("create", "delete", "event")
    }
    gained = "sum((deltas->>'$.messagesPublished.delta')::UBIGINT)::BIGINT"
    published = dict(records.filter("deltas IS NOT NULL").aggregate(f"object_name, {gained}").fetchall())
    assert published == {
        row["queue"]: row["published"] for row in made.table("queues").rows if row["published"] is not None
    }
    severities = dict(records.filter("kind = 'event'").aggregate("severity, count(*)").fetchall())
    assert severities == {row["severity"]: row["events"] for row in made.table("events").rows}


def test_spark_starts_no_python_for_a_report(spark: SparkSession, made: Report) -> None:
    """A DataFrame made of Python's values would start a process of it for each core."""
    assert (spark.range(1).count(), len(made.tables)) == (1, len(LAYOUTS))
    programs = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # Java's own, such as Hadoop's shells, come and go
            programs.append(" ".join(child.cmdline()))
    assert any("org.apache.spark" in program for program in programs)
    assert not any("pyspark.daemon" in program for program in programs)


def test_a_person_reads_tables_and_sentences(made: Report) -> None:
    out = io.StringIO()
    layout.show(made, out)
    said = out.getvalue()
    for shown in LAYOUTS.values():
        assert f"\n{shown.title}\n" in said
    assert "\x1b" not in said
    sentences = findings(made)
    assert "queue invoices of rabbitmq grows by 7,200 messages an hour: 187,080 in 24 hours" in sentences
    assert "rabbitmq was silent once, 2 min in all" in sentences
    assert "40 of 40 connections of probe to rabbitmq lasted less than a second" in sentences
    for sentence in sentences:
        assert f"! {sentence}\n" in said


def test_programs_read_json_and_csv(made: Report, tmp_path: Path) -> None:
    written = {file.name: file.read_text(encoding="utf-8") for file in write_files(made, tmp_path / "new")}
    assert set(written) == {"report.json", *(f"{name}.csv" for name in LAYOUTS)}
    whole = json.loads(written["report.json"])
    assert whole["begin"] == "2026-11-20T12:00:00.000000Z"
    assert whole["tables"]["queues"][0]["queue"] == "orders"
    rows = list(csv.DictReader(written["growing.csv"].splitlines()))
    assert [row["queue"] for row in rows] == ["invoices", "audit"]
    for name, shown in LAYOUTS.items():
        assert {column.name for column in shown.columns} <= set(
            written[f"{name}.csv"].splitlines()[0].split(",")
        )


def test_a_page_is_drawn(commanded_report: CommandedReport) -> None:
    picture = imread(commanded_report.page)
    width, height = (round(inches * page.RESOLUTION) for inches in page.size(commanded_report.report))
    assert picture.shape == (height, width, 4)
    is_ink = np.asarray(picture[:, :, :3] < 0.9).any(axis=2)
    panels = [half for row in np.array_split(is_ink, 3) for half in np.array_split(row, 2, axis=1)]
    assert all(panel.mean() > 0.005 for panel in panels)


def in_every_form(report: Report, folder: Path) -> str:
    out = io.StringIO()
    layout.show(report, out)
    page.draw(report, folder / "page.png")
    write_files(report, folder)
    return out.getvalue()


def test_an_empty_log_is_reported_too(spark: SparkSession, log: WrittenLog, tmp_path: Path) -> None:
    (log.folder / "segments").mkdir(parents=True)
    said = in_every_form(make_report(spark, log.path, STORY_PERIOD, lambda _: None), tmp_path)
    assert "The log holds nothing of this period." in said


@pytest.mark.prove
def test_strange_names_and_the_largest_numbers_are_shown(
    spark: SparkSession, log: WrittenLog, tmp_path: Path
) -> None:
    name = "\x1b[31m[bold]\u202e$\\frac{$\n" * 20
    queue = reported(of_object(RecordKind.CREATE, 5, 1, name=name), 5, messages=2**64 - 1)
    most = reported(of_object(RecordKind.UPDATE, 65, 1, name=name), 65, megabytes_in=2**64 - 1, getsEmpty=1)
    grown = counted(most, megabytes_in=Delta(2**64 - 1, MINUTE), getsEmpty=Delta(2**64 - 1, 2**63 - 1))
    tank = replace(grown, package="ami", class_name="Tank", object_id="plant/ami:Tank/1")
    log.segment([queue, event(6, name, 1), *[grown] * 2, *[tank] * 2])
    said = in_every_form(make_report(spark, log.path, STORY_PERIOD, lambda _: None), tmp_path)
    assert "18,446,744,073,709,551,615" in said
    assert f"{2 * (2**64 - 1) * 2**20:,}" in said
    assert r"\x1b[31m[bold]\u202e$\x5cfrac{$\n" in "".join(said.split())
    assert "\x1b" not in said


def test_a_file_of_the_lake_that_is_removed_meanwhile_ends_in_one_line(
    spark: SparkSession, log: WrittenLog
) -> None:
    file = log.lake([reported(of_object(RecordKind.UPDATE, 0, 1), messages=1)])

    def remove_after_the_first_read(step: str) -> None:
        if step != "reading the log":
            file.unlink(missing_ok=True)

    with pytest.raises(AnalyticsError, match="was removed before it was read, by retention perhaps"):
        make_report(spark, log.path, STORY_PERIOD, remove_after_the_first_read)
