"""The quality of the data: missing, duplicate, late, unconfirmed records; states and silence of sources."""

from __future__ import annotations

import datetime as dt
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics.bronze import VALUE_KINDS, Bronze
from gateway.analytics.reports.answers import Row, Value, collected
from gateway.analytics.reports.events import SEVERE, SEVERITIES
from gateway.analytics.silver import DELTAS

_QUANTILES = {"lag_median": 0.5, "lag_p99": 0.99}


def contents(records: DataFrame) -> DataFrame:
    """Return one row: the numbers of records by kind, ``begin`` and ``end`` of the records, and the lag.

    ``lag_median``, ``lag_p99``, ``lag_longest``: seconds from a sample (the agent's clock) to its record (the
    gateway's), of updates; ``ahead``: updates whose sample is later than their record, so that the clocks
    differ. ``lost``: records that the log says were not recorded.
    """
    kinds = ("create", "update", "delete", "snapshot", "event", "operation", "gap")
    lag = lag_seconds()
    return records.agg(
        F.count(F.lit(1)).alias("records"),
        *(F.count_if(F.col("kind") == kind).alias(kind) for kind in kinds),
        F.min("ingest_ts").alias("begin"),
        F.max("ingest_ts").alias("end"),
        *(F.percentile_approx(lag, part).alias(name) for name, part in _QUANTILES.items()),
        F.max(lag).alias("lag_longest"),
        F.count_if(lag < 0).alias("ahead"),
        F.coalesce(F.sum("lost"), F.lit(0)).alias("lost"),
        F.coalesce(F.sum(_resets()), F.lit(0)).alias("resets"),
    )


def lag_seconds() -> Column:
    """Return the seconds from a sample to its record, for an update; else null."""
    is_update = (F.col("kind") == "update") & F.col("sample_ts").isNotNull()
    return F.when(is_update, (F.unix_micros("ingest_ts") - F.unix_micros("sample_ts")) / 1e6)


def gaps_of_sources(gaps: DataFrame, states: DataFrame) -> DataFrame:
    """Return one row for each gap and each source that it concerns.

    While the gateway was not running (a gap without a source, of which nothing is known to be lost) no source
    was read but those that the gap lists as covered. A loss of the gateway itself stays without a source,
    and so does such a gap where no source was ever recorded. ``missed``: seconds of it that are in no gap
    of the same source that began before.

    Args:
        gaps: the rows of `gateway.analytics.silver.gaps`.
        states: the rows of `gateway.analytics.silver.source_states`, which show all sources.
    """
    published = states.where(F.col("source").isNotNull())
    known = published.groupBy("log_id").agg(F.collect_set("source").alias("known"))
    none = F.array().cast("array<string>")
    # A gap that says how much was lost is the log's own: sources were read all the time.
    of_all = F.col("source").isNull() & F.col("lost").isNull() & F.col("known").isNotNull()
    concerned = F.when(of_all, F.array_except("known", F.coalesce("covered", none)))
    return (
        gaps.join(F.broadcast(known), "log_id", "left")
        .withColumn("source", F.explode(concerned.otherwise(F.array("source"))))
        .withColumn("missed", _missed())
        .drop("known")
    )


def _missed() -> Column:
    earlier = (
        Window.partitionBy("log_id", "source")
        .orderBy("from_ts", "to_ts", "seq")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    begin = F.greatest("from_ts", F.max("to_ts").over(earlier))  # which passes over null
    return F.greatest(F.lit(0.0), (F.unix_micros("to_ts") - F.unix_micros(begin)) / 1e6)


def gaps_by_source(gaps: DataFrame) -> DataFrame:
    """Return one row for each source: ``gaps``, ``seconds`` missed, ``lost`` records, ``last``, ``text``.

    A time in several gaps counts once.

    Args:
        gaps: the rows of `gaps_of_sources`.
    """
    return gaps.groupBy("source").agg(
        F.count(F.lit(1)).alias("gaps"),
        F.coalesce(F.sum("missed"), F.lit(0.0)).alias("seconds"),
        F.coalesce(F.sum("lost"), F.lit(0)).alias("lost"),
        F.max("to_ts").alias("last"),
        F.max_by("text", "seq").alias("text"),
    )


def unreceived(gaps: DataFrame, states: DataFrame) -> Row:
    """Return ``seconds`` of all gaps of all sources, and ``longest`` silence of one source or agent in all.

    Args:
        gaps: the rows of `gaps_of_sources`.
        states: the rows of `gateway.analytics.reports.quality.silence`.
    """
    of_gaps = gaps.agg(F.coalesce(F.sum("missed"), F.lit(0.0)).alias("seconds"))
    of_states = states.agg(F.coalesce(F.max("silent_seconds"), F.lit(0.0)).alias("longest"))
    return collected(of_gaps.crossJoin(of_states))[0]


def facts(contents: Row, found: Bronze, unheard: Row) -> list[Row]:
    """Return the facts that limit the other tables: ``what``, ``count``, ``unit``, ``meaning``.

    Args:
        contents: the row of `contents`.
        found: the records and the files they came from.
        unheard: the row of `unreceived`.
    """
    lines: tuple[tuple[str, Value, str, str], ...] = (
        ("records", contents["records"], "", "in the period, each counted once"),
        ("missing", found.missing, "", "not there between the first and the last of a log"),
        ("lost", contents["lost"], "", "which the log says it could not write"),
        ("twice", found.duplicates, "", "stood in the files once more, and were counted once"),
        ("uncommitted", found.uncommitted, "", "at the end of a segment: never acknowledged, left out"),
        ("unreadable", found.unreadable, "", "lines of segments that are no record"),
        ("resets", contents["resets"], "", "counters that began again; what they had counted unseen is lost"),
        ("not heard", unheard["seconds"], "s", "all gaps of all sources together"),
        (
            "longest silence",
            unheard["longest"],
            "s",
            "of one source or agent, in all: its values were not confirmed",
        ),
        ("lag", contents["lag_median"], "s", "from sample to record, half of all updates"),
        ("lag 99 %", contents["lag_p99"], "s", "from sample to record, all but one of a hundred"),
        ("longest lag", contents["lag_longest"], "s", "from sample to record"),
        ("ahead", contents["ahead"], "", "updates sampled after they were recorded: the clocks differ"),
    )
    return [
        {"what": what, "count": count, "unit": unit, "meaning": meaning}
        for what, count, unit, meaning in lines
    ]


def _resets() -> Column:
    """Return the number of a record's counters that did not go on; only records with one are parsed."""
    has_one = F.col("kind").isin(*VALUE_KINDS) & F.col("deltas").contains('"reset"')
    deltas = F.when(has_one, F.from_json("deltas", DELTAS))
    return F.size(F.filter(F.map_values(deltas), lambda delta: delta["reset"]))


CURRENT: Final = ("synchronised", "degraded", "fresh")
"""States of sources and agents whose values are current."""

GONE: Final = "gone"
"""The state of an agent that left, with all its objects."""


def silence(states: DataFrame, shown_since: DataFrame, log_end: dt.datetime) -> DataFrame:
    """Return one row for each source (``agent`` null) and each agent of each log.

    Columns: ``dialect`` (kind of the source), ``state`` as last recorded, or ``gone`` where later segments do
    not show it: it was not there when the gateway was started again; ``since``: the begin of that state;
    ``silent``: it is not current now; ``times``: the number of times that it fell silent; ``silent_seconds``:
    the time for which it was silent in the period; ``text``.

    Args:
        states: the rows of `gateway.analytics.silver.source_states`.
        shown_since: the rows of `gateway.analytics.silver.shown_since`.
        log_end: the time when the log was last written; the last state holds up to then.
    """
    who = ("log_id", "source", "agent")
    order = Window.partitionBy(*who).orderBy("seq")
    is_current = F.col("state").isin(*CURRENT)
    silent = ~is_current & (F.col("state") != GONE)
    # The first state of all counts as a fall if it is silent.
    was_current = F.coalesce(F.lag(~silent).over(order), F.lit(True))
    forgotten = F.coalesce(F.col("last_recorded") < F.col("shown_since"), F.lit(False))
    end = F.when(forgotten, F.col("shown_since")).otherwise(F.lit(log_end))
    until = F.coalesce(F.lead("ingest_ts").over(order), end)
    lasted = (F.unix_micros(until) - F.unix_micros("ingest_ts")) / 1e6
    changed = F.coalesce(F.lag("state").over(order) != F.col("state"), F.lit(True))
    last_recorded = F.max("ingest_ts").over(Window.partitionBy(*who))
    state = F.when(F.bool_or("forgotten"), F.lit(GONE)).otherwise(F.max_by("state", "seq"))
    return (
        states.join(F.broadcast(shown_since), "log_id", "left")
        .withColumn("last_recorded", last_recorded)
        .withColumn("forgotten", forgotten)
        .withColumns({"silent": silent, "fell": silent & was_current, "lasted": lasted})
        .withColumn("changed", changed)
        .groupBy(*who)
        .agg(
            F.max("dialect").alias("dialect"),
            state.alias("state"),
            F.max(F.when(F.col("changed"), F.col("ingest_ts"))).alias("since"),
            (F.max_by("silent", "seq") & ~F.bool_or("forgotten")).alias("silent"),
            F.count_if(F.col("fell")).alias("times"),
            F.coalesce(F.sum(F.when(F.col("silent"), F.col("lasted"))), F.lit(0.0)).alias("silent_seconds"),
            F.max_by("text", "seq").alias("text"),
        )
    )


_OPERATIONS: Final = {"sets": "set", "calls": "invoke", "reads": "read"}
_OUTCOMES: Final = ("applied", "refused", "unknown")
_COUNTS: Final = (
    *("agents", "agents_believed", "classes", "objects", "created", "ended", "living"),
    *("events", "severe"),
    *SEVERITIES,
    *("operations", *_OPERATIONS, *_OUTCOMES, "failed", "under_way", "records"),
)
_SOURCE: Final = ("log_id", "source")


def overview(
    records: DataFrame, lives: DataFrame, events: DataFrame, states: DataFrame, operations: DataFrame
) -> DataFrame:
    """Return one row for each source of each log, and one for the gateway itself (``source`` null).

    Columns: ``dialect``, ``state``; ``agents``, and the number of them that are ``agents_believed``;
        ``classes`` of which there were ``objects``; the numbers of objects that began (``created``),
        ``ended``, and are ``living`` at the end; ``events``, the number of each severity, and of the
        ``severe`` ones (critical, major); ``operations``, of them ``sets``, ``calls``, ``reads``, and their
        outcomes: ``applied``, ``refused`` (by the configuration), ``unknown``, ``failed`` (all others),
        ``under_way``; ``records``, the ``first`` and the ``last`` of them; ``lag_median`` and ``lag_p99``
        seconds from sample to record. A count is 0 where there was nothing to count; a state or a lag that is
        not known is null.

    Args:
        records: bronze.
        lives: the rows of `gateway.analytics.silver.lives`.
        events: the rows of `gateway.analytics.silver.events`.
        states: the rows of `gateway.analytics.reports.quality.silence`.
        operations: the rows of `gateway.analytics.reports.events.latest_operations`.
    """
    parts = (
        _counted_records(records),
        _seen(lives),
        _counted_events(events),
        _standing(states),
        _changed(operations),
    )
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    names = [name for name in rows.columns if name not in _SOURCE]
    # Each part has one row for each source, so there is one value of each column, or none.
    found = rows.groupBy(*_SOURCE).agg(*(F.max(name).alias(name) for name in names))
    return found.select(
        *_SOURCE,
        *("dialect", "state"),
        *(F.coalesce(name, F.lit(0)).alias(name) for name in _COUNTS),
        *("lag_median", "lag_p99", "first", "last"),
    )


def _counted_records(records: DataFrame) -> DataFrame:
    lag = lag_seconds()
    return records.groupBy(*_SOURCE).agg(
        F.count(F.lit(1)).alias("records"),
        F.min("ingest_ts").alias("first"),
        F.max("ingest_ts").alias("last"),
        F.percentile_approx(lag, 0.5).alias("lag_median"),
        F.percentile_approx(lag, 0.99).alias("lag_p99"),
    )


def _seen(lives: DataFrame) -> DataFrame:
    return lives.groupBy(*_SOURCE).agg(
        F.count_distinct("package", "class").alias("classes"),
        F.count_distinct("object_id").alias("objects"),
        F.count_if(F.col("began")).alias("created"),
        F.count_if(F.col("state") == "deleted").alias("ended"),
        F.count_if(F.col("state") == "living").alias("living"),
    )


def _counted_events(events: DataFrame) -> DataFrame:
    return events.groupBy(*_SOURCE).agg(
        F.count(F.lit(1)).alias("events"),
        F.count_if(F.col("severity").isin(*SEVERE)).alias("severe"),
        *(F.count_if(F.col("severity") == name).alias(name) for name in SEVERITIES),
    )


def _standing(states: DataFrame) -> DataFrame:
    is_agent = F.col("agent").isNotNull() & (F.col("state") != GONE)
    return states.groupBy(*_SOURCE).agg(
        F.max("dialect").alias("dialect"),
        F.max(F.when(F.col("agent").isNull(), F.col("state"))).alias("state"),
        F.count_if(is_agent).alias("agents"),
        F.count_if(is_agent & F.col("state").isin(*CURRENT)).alias("agents_believed"),
    )


def _changed(operations: DataFrame) -> DataFrame:
    outcome = F.col("outcome")
    is_over = outcome.isNotNull()
    return operations.groupBy(*_SOURCE).agg(
        _attempts(F.lit(True)).alias("operations"),
        *(_attempts(F.col("operation") == kind).alias(name) for name, kind in _OPERATIONS.items()),
        *(_attempts(outcome == name).alias(name) for name in _OUTCOMES),
        _attempts(is_over & ~outcome.isin(*_OUTCOMES)).alias("failed"),
        _attempts(~is_over).alias("under_way"),
    )


def _attempts(which: Column) -> Column:
    return F.sum(F.when(which, F.col("attempts")))
