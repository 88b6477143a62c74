"""The report: all questions about one period of the log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics import bronze, silver
from gateway.analytics.brokers import Reader, running_nodes, same_as
from gateway.analytics.bronze import Bronze
from gateway.analytics.coverage import Period
from gateway.analytics.reports import (
    brokers,
    classes,
    quality,
    queues,
)
from gateway.analytics.reports.answers import Report, Row, Series, Table, Value, collected, number
from gateway.analytics.reports.brokers import Broker
from gateway.analytics.reports.classes import CONNECTION, USERS
from gateway.analytics.reports.events import (
    SEVERITIES,
    connection_lifetimes,
    events_by_name,
    events_by_step,
    flapping,
    latest_operations,
    operations_by_outcome,
    storms,
)
from gateway.analytics.reports.layout import LAYOUTS
from gateway.analytics.reports.quality import overview, silence
from gateway.analytics.session import SPARK_ERRORS, AnalyticsError, reason

Progress: TypeAlias = Callable[[str], None]
"""Takes a few words that describe the present work."""

_STEPS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
_MOST_STEPS: Final = 180
_DRAWN_QUEUES: Final = 6
_DRAWN_GAPS: Final = 1000


def make_report(
    spark: SparkSession, log: str, period: Period, progress: Progress, most_rows: int = 20
) -> Report:
    """Make the report of the log folder ``log``; no table has more than ``most_rows`` rows.

    Raises:
        NoLogError: there is none.
        AnalyticsError: it cannot be read.
    """
    try:
        progress("reading the log")
        with bronze.bronze(spark, log, period) as found:
            return _Questions(found, period, progress, most_rows).answered(log)
    except SPARK_ERRORS as error:
        raise AnalyticsError(reason(error)) from error


def step_seconds(drawn: Period) -> int:
    """Return the length of a step for drawing a period: a second at least, a day at most."""
    return next((step for step in _STEPS if drawn.seconds / step <= _MOST_STEPS), _STEPS[-1])


def drawn_of(period: Period, contents: Row) -> Period:
    """Return the period from the first record to the last, in whole seconds; ``period`` where there is none.

    Args:
        period: the requested period, which may be much longer than the log.
        contents: the row of `gateway.analytics.reports.quality.contents`.
    """
    begin, end = contents["begin"], contents["end"]
    if not isinstance(begin, dt.datetime) or not isinstance(end, dt.datetime):
        return period
    # A second more, because the end of a period is not in it.
    return Period(begin.replace(microsecond=0), end.replace(microsecond=0) + dt.timedelta(seconds=1))


class _Questions:
    """Asks the questions; data that several of them share are made once."""

    def __init__(self, found: Bronze, period: Period, progress: Progress, most_rows: int) -> None:
        self._found = found
        self._period = period
        self._progress = progress
        self._most_rows = most_rows
        self._drawn = period
        self._step = step_seconds(period)

    def answered(self, log: str) -> Report:
        records = self._found.records
        contents = collected(quality.contents(records))[0] | {"objects": 0}
        log_end = contents["end"]
        if not isinstance(log_end, dt.datetime):
            nothing = tuple(self._filled(name, (), 0) for name in LAYOUTS)
            return Report(log, self._period, contents, nothing, Series(self._drawn, self._step))
        self._drawn = drawn_of(self._period, contents)
        self._step = step_seconds(self._drawn)
        published = silver.source_states(records)
        # Not in the period's own records: schemas are at the head of a segment, which may have begun before.
        schemas_found = silver.schemas(self._found.standing)
        with (
            _kept(silver.lives(records)) as lives,
            _kept(self._steps(records, lives, log_end)) as steps,
            _kept(silver.events(records)) as events,
            _kept(quality.gaps_of_sources(silver.gaps(records), published)) as gaps,
            _kept(silence(published, silver.shown_since(records), log_end)) as states,
            _kept(latest_operations(silver.operations(records))) as changes,
            _kept(schemas_found) as schemas,
        ):
            # Each object has one first life.
            contents["objects"] = lives.where(F.col("life") == 1).count()
            users = silver.samples(_of_class(records, CONNECTION), USERS)
            seen = self._seen_of(records, lives, events, states, changes)
            found = self._brokers(seen, steps)
            of_connections = _of_class(lives, CONNECTION)
            tables = {
                "overview": self._overview(seen, found),
                "brokers": self._totals(found, steps, of_connections),
                "queues": self._queues(steps),
                "growing": self._growing(steps),
                "connections": self._connections(of_connections, users),
                **self._of_classes(records, lives, schemas, contents),
                "operations": self._operations(changes),
                "events": self._events(events),
                "storms": self._storms(events),
                "flapping": self._flapping(lives, events),
                "sources": self._sources(states),
                "gaps": self._gaps(gaps),
            }
            tables["quality"] = self._quality(contents, quality.unreceived(gaps, states))
            again = _counted_elsewhere(found)
            once = steps.where(~F.col("source").isin(*again)) if again else steps
            series = self._series(once, events, gaps, tables, again)
        shown = tuple(tables[name] for name in LAYOUTS)
        return Report(log, self._period, contents, shown, series, again)

    def _steps(self, records: DataFrame, lives: DataFrame, log_end: dt.datetime) -> DataFrame:
        return queues.steps(records, lives, self._drawn.begin, self._step, log_end)

    def _seen_of(
        self,
        records: DataFrame,
        lives: DataFrame,
        events: DataFrame,
        states: DataFrame,
        changes: DataFrame,
    ) -> list[dict[str, Value]]:
        """Return a row for each source and log, all of them: there are few."""
        self._progress(LAYOUTS["overview"].title.lower())
        found = overview(records, lives, events, states, changes)
        return collected(found.orderBy(F.col("source").asc_nulls_last(), F.col("dialect")))

    def _brokers(self, seen: Sequence[Row], steps: DataFrame) -> list[Broker]:
        standing = self._found.standing
        messages = {
            (row["log_id"], row["source"]): row["messages"]
            for row in collected(brokers.queue_messages(steps))
        }
        rows = [
            {**row, "messages": messages.get((row["log_id"], row["source"]))}
            for row in seen
            if row["source"] is not None
        ]
        names = same_as(silver.source_states(standing))
        return brokers.brokers(rows, names, running_nodes(standing))

    def _overview(self, seen: Sequence[Mapping[str, Value]], found: Sequence[Broker]) -> Table:
        shared = {reader: broker.name for broker in found if broker.is_shared for reader in broker.readers}
        rows = [
            {
                **{name: value for name, value in row.items() if name != "log_id"},
                "broker": shared.get(Reader(str(row["log_id"]), str(row["source"]))),
            }
            for row in seen
        ]
        return self._filled("overview", rows[: self._most_rows], len(rows))

    def _totals(self, found: Sequence[Broker], steps: DataFrame, connections: DataFrame) -> Table:
        self._progress(LAYOUTS["brokers"].title.lower())
        rows = brokers.totals(found, steps, queues.growth(steps), connections)
        return self._filled("brokers", rows, len(rows))

    def _of_classes(
        self, records: DataFrame, lives: DataFrame, schemas: DataFrame, contents: Row
    ) -> dict[str, Table]:
        seconds = (_time(contents, "end") - _time(contents, "begin")).total_seconds()
        objects = classes.objects(lives)
        counters = classes.counters(records, schemas, seconds)
        rising = classes.rising(records, schemas, self._drawn.begin, self._step)
        return {
            "classes": self._fair("classes", objects, F.col("objects").desc(), F.col("class")),
            "counters": self._fair("counters", counters, F.col("gained").desc(), F.col("element")),
            "rising": self._fair("rising", rising, F.col("growth").desc(), F.col("object"), F.col("element")),
        }

    def _operations(self, changes: DataFrame) -> Table:
        found = operations_by_outcome(changes)
        return self._fair("operations", found, F.col("times").desc(), F.col("last").desc())

    def _queues(self, steps: DataFrame) -> Table:
        found = queues.flows(steps)
        return self._table("queues", found, F.col("through").desc(), F.col("queue"))

    def _growing(self, steps: DataFrame) -> Table:
        found = queues.growth(steps).drop("log_id")
        return self._table("growing", found, F.col("per_hour").desc(), F.col("queue"))

    def _connections(self, lives: DataFrame, users: DataFrame) -> Table:
        found = connection_lifetimes(lives, users)
        is_user = F.col("user").isNotNull()
        return self._table(
            "connections", found, F.col("source"), is_user, F.col("ended").desc(), F.col("user")
        )

    def _events(self, events: DataFrame) -> Table:
        severities = F.array(*(F.lit(name) for name in SEVERITIES))
        worst = F.array_position(severities, F.col("severity"))
        found = events_by_name(events)
        return self._table("events", found, worst, F.col("events").desc(), F.col("event"))

    def _storms(self, events: DataFrame) -> Table:
        return self._table("storms", storms(events), F.col("events").desc(), F.col("begin"))

    def _flapping(self, lives: DataFrame, events: DataFrame) -> Table:
        found = flapping(lives, events)
        return self._table("flapping", found, F.col("times").desc(), F.col("name"))

    def _sources(self, states: DataFrame) -> Table:
        found = states.drop("log_id")
        worst = (F.col("silent").desc(), F.col("silent_seconds").desc())
        return self._table("sources", found, *worst, F.col("source"), F.col("agent"))

    def _gaps(self, gaps: DataFrame) -> Table:
        found = quality.gaps_by_source(gaps)
        return self._table("gaps", found, F.col("seconds").desc(), F.col("source"))

    def _quality(self, contents: Row, unheard: Row) -> Table:
        rows = quality.facts(contents, self._found, unheard)
        return self._filled("quality", rows, len(rows))

    def _series(
        self,
        steps: DataFrame,
        events: DataFrame,
        gaps: DataFrame,
        tables: dict[str, Table],
        again: Collection[str],
    ) -> Series:
        self._progress("what happened when")
        step = self._step
        drawn = _drawn_queues(tables, again)
        # A gap of several sources is several rows, and is drawn once.
        longest = gaps.select("from_ts", "to_ts", "seconds").distinct().orderBy(F.col("seconds").desc())
        return Series(
            self._drawn,
            step,
            tuple(collected(queues.throughput(steps, step))),
            tuple(collected(queues.depths(steps, step, drawn))) if drawn else (),
            tuple(collected(events_by_step(events, self._drawn.begin, step))),
            tuple(collected(longest.limit(_DRAWN_GAPS))),
        )

    def _fair(self, name: str, found: DataFrame, *order: Column) -> Table:
        """Return a table in order of rank within each source: a busy source leaves room for others."""
        rank = F.row_number().over(Window.partitionBy("source").orderBy(*order))
        ranked = found.withColumn("rank", rank)
        return self._table(name, ranked, F.col("rank"), F.col("source"), without=("rank",))

    def _table(self, name: str, found: DataFrame, *order: Column, without: Sequence[str] = ()) -> Table:
        self._progress(LAYOUTS[name].title.lower())
        rows = collected(found.orderBy(*order).limit(self._most_rows).drop(*without))
        # To count takes another pass over the data, and is needed only where rows were left out.
        count = found.count() if len(rows) == self._most_rows else len(rows)
        return self._filled(name, rows, count)

    def _filled(self, name: str, rows: Sequence[Row], count: int) -> Table:
        layout = LAYOUTS[name]
        return Table(
            name, layout.title, layout.columns, tuple(rows), count, layout.nothing, by_source=layout.by_source
        )


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Yield a DataFrame that Spark keeps meanwhile, because it is used several times."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def _time(row: Row, name: str) -> dt.datetime:
    time = row[name]
    assert isinstance(time, dt.datetime)
    return time


def _of_class(rows: DataFrame, name: str) -> DataFrame:
    return rows.where(F.col("class") == name)


def _counted_elsewhere(found: Sequence[Broker]) -> frozenset[str]:
    """Return the sources whose broker is counted by another source."""
    counted = {reader.source for broker in found for reader in broker.counted}
    return frozenset(reader.source for broker in found for reader in broker.readers) - counted


def _drawn_queues(tables: dict[str, Table], again: Collection[str]) -> list[str]:
    """Return the queues whose number of messages is drawn: those that grow, then the fullest."""
    growing, queues = (
        [row for row in tables[name].rows if row["source"] not in again] for name in ("growing", "queues")
    )
    full = sorted(queues, key=lambda row: number(row, "most_messages"), reverse=True)
    names = [
        *(str(row["object_id"]) for row in growing),
        *(str(row["object_id"]) for row in full if row["most_messages"]),
    ]
    return list(dict.fromkeys(names))[:_DRAWN_QUEUES]
