"""Sources side by side: their states, for how long they were silent, and what was seen of them."""

from __future__ import annotations

import datetime as dt
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics.reports.events import SEVERE, SEVERITIES
from gateway.analytics.reports.quality import lag_seconds

CURRENT: Final = ("synchronised", "degraded", "fresh")
"""States of sources and agents whose values are current."""

GONE: Final = "gone"
"""State of an agent that left, with all that it had."""


def silence(states: DataFrame, shown_since: DataFrame, log_end: dt.datetime) -> DataFrame:
    """One row for each source (``agent`` null) and each agent of each log.

    Columns: ``dialect`` (kind of the source), ``state`` as last recorded, or ``gone`` where later segments do
        not
    show it: it was not there when the gateway was started again; ``since`` (it was in that state),
    ``silent``: it is not current now; ``times``: how often it fell silent; ``silent_seconds``: how long it
    was so in the period; ``text``.

    Args:
        states: of `gateway.analytics.silver.source_states`.
        shown_since: of `gateway.analytics.silver.shown_since`.
        log_end: when the log was last written; the last state holds up to then.
    """
    who = ("log_id", "source", "agent")
    order = Window.partitionBy(*who).orderBy("seq")
    is_current = F.col("state").isin(*CURRENT)
    silent = ~is_current & (F.col("state") != GONE)
    was_current = F.coalesce(F.lag(~silent).over(order), F.lit(True))
    forgotten = F.coalesce(F.col("told_last") < F.col("shown_since"), F.lit(False))
    end = F.when(forgotten, F.col("shown_since")).otherwise(F.lit(log_end))
    until = F.coalesce(F.lead("ingest_ts").over(order), end)
    lasted = (F.unix_micros(until) - F.unix_micros("ingest_ts")) / 1e6
    changed = F.coalesce(F.lag("state").over(order) != F.col("state"), F.lit(True))
    told_last = F.max("ingest_ts").over(Window.partitionBy(*who))
    state = F.when(F.bool_or("forgotten"), F.lit(GONE)).otherwise(F.max_by("state", "seq"))
    return (
        states.join(F.broadcast(shown_since), "log_id", "left")
        .withColumn("told_last", told_last)
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
    """One row for each source of each log, and one for the gateway itself (``source`` null).

    Columns: ``dialect``, ``state``; ``agents``, and how many of them are ``agents_believed``; ``classes`` of
    which there were ``objects``; how many began (``created``), ``ended``, are ``living`` at the end;
    ``events``, how many of each severity, and the ``severe`` ones (critical, major); ``operations``, of them
    ``sets``, ``calls``, ``reads``, and what came of them: ``applied``, ``refused`` (by the configuration),
    ``unknown``, ``failed`` (all others), ``under_way``; ``records``, the ``first`` and the ``last`` of them;
    ``lag_median`` and ``lag_p99`` seconds from sample to record. What was counted and not there is 0; a state
    or a lag that is not known is null.

    Args:
        records: bronze.
        lives: of `gateway.analytics.silver.lives`.
        events: of `gateway.analytics.silver.events`.
        states: of `gateway.analytics.reports.sources.silence`.
        operations: of `gateway.analytics.reports.events.latest`.
    """
    parts = (_heard(records), _seen(lives), _told(events), _standing(states), _changed(operations))
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


def _heard(records: DataFrame) -> DataFrame:
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


def _told(events: DataFrame) -> DataFrame:
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
