"""The report of peers of several dialects, compared with counts made by hand in their recordings."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.image import imread

from gateway.analytics.coverage import Period
from gateway.analytics.reports import layout, page
from gateway.analytics.reports.answers import Report, Row, number
from gateway.analytics.reports.findings import findings
from gateway.analytics.reports.report import make_report
from gateway.dialects.qmf.messages import EventIndication, ObjectContent, PropertyContent, StatisticContent
from gateway.model.times import SECOND
from tests.analytics import recorded_peers
from tests.analytics.conftest import SharedSpark
from tests.analytics.logs import NOON, WrittenLog, after
from tests.analytics.recorded_peers import FILLS, MEGABYTES, PLAYED, POLLS, QPIDD
from tests.dialects.qmf.recordings import definitions, readable
from tests.dialects.qmf.replaying import publications

pytestmark = pytest.mark.xdist_group("spark")

MEGABYTE = 1_048_576
OPENAMQ = {
    "exchange": 12,
    "binding": 7,
    "queue_binding": 3,
    "queue": 2,
    "broker": 1,
    "config": 1,
    "connection": 1,
    "connection_queue": 1,
}
"""Objects of each class in the recording."""


@pytest.fixture(scope="module")
def made(shared_spark: SharedSpark, tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("peers")
    log = WrittenLog(folder / "log")
    seconds = recorded_peers.write(log, folder) / SECOND
    return make_report(
        shared_spark.session(), log.path, Period(NOON, after(seconds + 1)), lambda _: None, most_rows=1000
    )


def rows(report: Report, table: str, source: str, name: str) -> dict[object, Row]:
    return {row[name]: row for row in report.table(table).rows if row["source"] == source}


def recorded() -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Objects, ended ones and events of the Qpid broker: read from what was published, without a session."""
    first, *_ = publications(QPIDD)
    lives: dict[object, tuple[str, bool]] = {}
    events: Counter[str] = Counter()
    for publication in publications(QPIDD):
        if publication.at > first.at + PLAYED * SECOND:
            break
        for reported in readable(publication.body, definitions(QPIDD)):
            match reported:
                case PropertyContent() | StatisticContent() | ObjectContent():
                    key = (reported.object_id, reported.created)
                    _, has_ended = lives.get(key, ("", False))
                    lives[key] = (reported.key.name, has_ended or reported.deleted > 0)
                case EventIndication():
                    events[reported.key.name] += 1
    objects = Counter(name for name, _ in lives.values())
    return objects, Counter(name for name, has_ended in lives.values() if has_ended), events


def test_all_stand_side_by_side(made: Report) -> None:
    overview = {row["source"]: row for row in made.table("overview").rows}
    assert list(overview) == ["openamq", "plant", "qpid", None]
    assert {row["dialect"] for row in overview.values()} == {"cml", "ami", "qmf", None}
    columns = ("state", "agents", "objects", "created", "ended", "living", "warning", "operations")
    # The application: itself, a tank, two jobs that are done, two alerts.
    assert [overview["plant"][name] for name in columns] == ["synchronised", 1, 6, 6, 2, 4, 2, 1]
    assert [overview["openamq"][name] for name in columns] == ["synchronised", 1, 28, 0, 0, 28, 0, 2]
    ended, events = recorded()[1:]
    assert (overview["qpid"]["ended"], overview["qpid"]["events"]) == (ended.total(), events.total())
    for name, whole in (("records", "records"), ("created", "create"), ("events", "event")):
        assert sum(number(row, name) for row in overview.values()) == made.contents[whole]


def test_objects_of_each_class_are_those_that_were_recorded(made: Report) -> None:
    shown = rows(made, "classes", "openamq", "class")
    assert {name: row["living"] for name, row in shown.items()} == OPENAMQ
    objects, ended, _ = recorded()
    shown = rows(made, "classes", "qpid", "class")
    # Before it was heard: a broker tells of itself, and of what agents it has, in answers only.
    assert {name: shown[name]["objects"] for name in objects} == objects
    assert {name: row["ended"] for name, row in shown.items() if row["ended"]} == ended
    jobs = rows(made, "classes", "plant", "class")["Job"]
    assert (jobs["created"], jobs["ended"], jobs["living"], jobs["median"]) == (2, 2, 0, 120.0)


def test_events_are_those_that_were_recorded(made: Report) -> None:
    shown = rows(made, "events", "qpid", "event")
    assert {name: row["events"] for name, row in shown.items()} == recorded()[2]
    alert = rows(made, "events", "plant", "event")["alert"]
    assert (alert["events"], alert["severity"]) == (2, "warning")
    assert "Leak" in str(alert["text"])


def test_queues_of_every_broker_are_busy_and_grow(made: Report) -> None:
    shared = rows(made, "queues", "openamq", "queue")["OpenAMQ 1.4c1|q.shared"]
    polls = POLLS - 1
    assert (shared["published"], shared["delivered"], shared["messages"]) == (100 * polls, 90 * polls, 93)
    assert shared["octets_in"] == MEGABYTES * polls * MEGABYTE
    assert shared["acknowledged"] is None  # an OpenAMQ does not tell: absent, not zero
    q1 = rows(made, "queues", "qpid", "queue")[r"amqp-broker\|/|q1"]
    columns = ("published", "delivered", "octets_out", "messages", "redelivered")
    assert [q1[name] for name in columns] == [23, 23, 2585, 0, None]
    assert list(rows(made, "growing", "openamq", "queue")) == ["OpenAMQ 1.4c1|q.shared"]


def test_connections_of_every_broker_have_their_users(made: Report) -> None:
    objects, ended, _ = recorded()
    (shown,) = (row for row in made.table("connections").rows if row["user"] == "guest@QPID")
    assert (shown["ended"], shown["open"]) == (
        ended["connection"],
        objects["connection"] - ended["connection"],
    )
    assert [row["open"] for row in made.table("connections").rows if row["user"] == "guest"] == [1]


def test_what_an_application_reports_is_counted_and_grows(made: Report) -> None:
    filled = rows(made, "counters", "plant", "element")["filled"]
    assert (filled["gained"], filled["unit"], filled["busiest"]) == (50 * (FILLS - 1), "l", "pump-7|t1")
    assert filled["peak"] == pytest.approx(50 / 60)
    rising = {row["element"]: row for row in made.table("rising").rows if row["class"] == "Tank"}
    assert list(rising) == ["level"]
    # The log thins statistics, so the times of the line's points are those of records, not of samples.
    assert rising["level"]["per_hour"] == pytest.approx(5 * 60, rel=0.1)
    assert (rising["level"]["first"], rising["level"]["last"]) == (10, 45)
    # Of the queues of brokers there are tables of their own.
    assert "queue" not in {row["class"] for name in ("counters", "rising") for row in made.table(name).rows}


def test_what_was_changed_and_what_came_of_it(made: Report) -> None:
    shown = {
        (row["source"], row["operation"], row["what"]): row["outcome"]
        for row in made.table("operations").rows
    }
    assert shown == {
        ("openamq", "set", "trace"): "applied",
        ("openamq", "invoke", "purge"): "unknown",
        ("qpid", "invoke", "echo"): "applied",
        ("plant", "invoke", "drain"): "remote-failure",
    }
    (overview,) = (row for row in made.table("overview").rows if row["source"] == "openamq")
    outcomes = ("sets", "calls", "applied", "unknown", "failed")
    assert [overview[name] for name in outcomes] == [1, 1, 1, 1, 0]
    assert "the outcome is not known of a change at openamq" in findings(made)


def test_the_busy_source_leaves_room_for_the_others(made: Report) -> None:
    for name in ("classes", "operations"):
        first = made.table(name).rows[:3]
        assert {row["source"] for row in first} == {"openamq", "plant", "qpid"}
    out = io.StringIO()
    layout.show(made, out, 6)
    classes = out.getvalue().partition("\nClasses")[2].partition("\nCounters")[0].splitlines()[3:9]
    assert [line.split()[0] for line in classes] == ["openamq"] * 2 + ["plant"] * 2 + ["qpid"] * 2


def test_the_page_has_a_line_for_each_source_as_long_as_there_is_room(made: Report, tmp_path: Path) -> None:
    def with_sources(count: int) -> Report:
        (row, *_), others = made.table("overview").rows, (t for t in made.tables if t.name != "overview")
        silent = {**row, "state": "down", "records": 10**12, "lag_median": None}
        overview = replace(made.table("overview"), rows=(row, *[silent] * (count - 1)), of=count)
        return replace(made, tables=(overview, *others))

    heights = [page.size(with_sources(count))[1] for count in (1, 2, 9, 100)]
    assert heights == sorted(heights)
    assert len(set(heights)) == 3
    page.draw(with_sources(100), tmp_path / "page.png")
    height, *_ = imread(tmp_path / "page.png").shape
    assert height == round(heights[-1] * page.RESOLUTION)
