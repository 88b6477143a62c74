"""How good the data is: what is missing, twice, late, or was not confirmed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics.bronze import Bronze
from gateway.analytics.form import VALUE_KINDS
from gateway.analytics.reports.answers import Row, Value, collected
from gateway.analytics.silver import DELTAS

_QUANTILES = {"lag_median": 0.5, "lag_p99": 0.99}


def contents(records: DataFrame) -> DataFrame:
    """One row: how many records of which kind, ``begin`` and ``end`` of what there is, and the lag.

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
    """From a sample to its record, of an update; else null."""
    is_update = (F.col("kind") == "update") & F.col("sample_ts").isNotNull()
    return F.when(is_update, (F.unix_micros("ingest_ts") - F.unix_micros("sample_ts")) / 1e6)


def gaps_of_sources(gaps: DataFrame, states: DataFrame) -> DataFrame:
    """One row for each gap and each source that it concerns.

    While the gateway was not running (a gap without a source, of which nothing is known to be lost) no source
    was read but those that the gap says are covered. What the gateway lost itself stays without a source,
    and so does such a gap where no source was ever recorded. ``missed``: seconds of it that are in no gap
    of the same source that began before.

    Args:
        gaps: of `gateway.analytics.silver.gaps`.
        states: of `gateway.analytics.silver.source_states`: these are the sources that there are.
    """
    told = states.where(F.col("source").isNotNull())
    known = told.groupBy("log_id").agg(F.collect_set("source").alias("known"))
    nobody = F.array().cast("array<string>")
    of_all = F.col("source").isNull() & F.col("lost").isNull() & F.col("known").isNotNull()
    concerned = F.when(of_all, F.array_except("known", F.coalesce("covered", nobody)))
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
    """One row for each source: ``gaps``, ``seconds`` not heard, ``lost`` records, ``last``, ``text``.

    A time in several gaps counts once.

    Args:
        gaps: of `gaps_of_sources`.
    """
    return gaps.groupBy("source").agg(
        F.count(F.lit(1)).alias("gaps"),
        F.coalesce(F.sum("missed"), F.lit(0.0)).alias("seconds"),
        F.coalesce(F.sum("lost"), F.lit(0)).alias("lost"),
        F.max("to_ts").alias("last"),
        F.max_by("text", "seq").alias("text"),
    )


def not_heard(gaps: DataFrame, states: DataFrame) -> Row:
    """``seconds`` of all gaps of all sources together; ``longest`` silence of one source or agent in all.

    Args:
        gaps: of `gaps_of_sources`.
        states: of `gateway.analytics.reports.sources.silence`.
    """
    of_gaps = gaps.agg(F.coalesce(F.sum("missed"), F.lit(0.0)).alias("seconds"))
    of_states = states.agg(F.coalesce(F.max("silent_seconds"), F.lit(0.0)).alias("longest"))
    return collected(of_gaps.crossJoin(of_states))[0]


def facts(contents: Row, found: Bronze, unheard: Row) -> list[Row]:
    """What a reader should know before believing the rest: ``what``, ``count``, ``unit``, ``meaning``.

    Args:
        contents: the row of `contents`.
        found: the records and the files they came from.
        unheard: the row of `not_heard`.
    """
    told: tuple[tuple[str, Value, str, str], ...] = (
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
            "of one source or agent, in all: its values were not vouched for",
        ),
        ("lag", contents["lag_median"], "s", "from sample to record, half of all updates"),
        ("lag 99 %", contents["lag_p99"], "s", "from sample to record, all but one of a hundred"),
        ("longest lag", contents["lag_longest"], "s", "from sample to record"),
        ("ahead", contents["ahead"], "", "updates sampled after they were recorded: the clocks differ"),
    )
    return [
        {"what": what, "count": count, "unit": unit, "meaning": meaning}
        for what, count, unit, meaning in told
    ]


def _resets() -> Column:
    """How many counters of a record began again; few records have such a one, and only these are parsed."""
    has_one = F.col("kind").isin(*VALUE_KINDS) & F.col("deltas").contains('"reset"')
    deltas = F.when(has_one, F.from_json("deltas", DELTAS))
    return F.size(F.filter(F.map_values(deltas), lambda delta: delta["reset"]))
