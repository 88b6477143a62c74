"""Events, lifetimes of connections and operations in the report: counts, steps of time, storms, flapping."""

from __future__ import annotations

import datetime as dt
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics.reports.queues import step_of

SEVERITIES: Final = ("critical", "major", "minor", "warning", "info", "cleared")
"""Severities, the worst first."""

SEVERE: Final = ("critical", "major")
"""Severities that need attention."""

STORM_A_MINUTE: Final = 60
"""The number of events of one name from one source within a minute that makes a storm."""

# A # that is escaped is part of a name.
_INCARNATION: Final = r"(?s)(?<!\\)#.*"

FLAPPING_TIMES: Final = 3
"""The number of beginnings in a period that makes flapping."""


def events_by_name(events: DataFrame) -> DataFrame:
    """Return a row for each event of each source: ``severity``, ``events``, ``first``, ``last``, ``text``."""
    return events.groupBy("source", "package", "event", "severity").agg(
        F.count(F.lit(1)).alias("events"),
        F.min("ingest_ts").alias("first"),
        F.max("ingest_ts").alias("last"),
        F.max_by("text", "seq").alias("text"),
    )


def events_by_step(events: DataFrame, begin: dt.datetime, step_seconds: int) -> DataFrame:
    """Return the events of each severity in steps of time: ``severity``, ``step``, ``events``."""
    return (
        events.groupBy("severity", step_of(begin, step_seconds).alias("step"))
        .agg(F.count(F.lit(1)).alias("events"))
        .orderBy("severity", "step")
    )


def storms(events: DataFrame, a_minute: int = STORM_A_MINUTE) -> DataFrame:
    """Return minutes with many events of one name, those that follow each other as one storm.

    Columns: ``source``, ``package``, ``event``, ``begin``, ``end``, ``events``, ``peak`` (in one minute).
    """
    name = ("source", "package", "event")
    minutes = (
        events.groupBy(*name, F.date_trunc("minute", "ingest_ts").alias("minute"))
        .agg(F.count(F.lit(1)).alias("n"))
        .where(F.col("n") >= a_minute)
    )
    rank = F.row_number().over(Window.partitionBy(*name).orderBy("minute"))
    # Minutes that follow each other have the same distance to their ranks.
    stretch = F.unix_seconds("minute") / 60 - rank
    return (
        minutes.withColumn("stretch", stretch)
        .groupBy(*name, "stretch")
        .agg(
            F.min("minute").alias("begin"),
            (F.max("minute") + F.expr("INTERVAL 1 MINUTE")).alias("end"),
            F.sum("n").alias("events"),
            F.max("n").alias("peak"),
        )
        .drop("stretch")
    )


def flapping(lives: DataFrame, events: DataFrame, times: int = FLAPPING_TIMES) -> DataFrame:
    """Return objects that were made, and conditions that were raised, again and again.

    Columns: ``source``, ``what`` (a class, or ``condition``), ``name``, ``times``, ``first``, ``last``.
    """
    objects = lives.where(F.col("began")).select(
        "source",
        F.concat_ws(":", "package", "class").alias("what"),
        # Without what distinguishes the incarnations of a transient object.
        F.regexp_replace("object_name", _INCARNATION, "").alias("name"),
        F.col("first_seen").alias("at"),
    )
    conditions = events.where((F.col("state") == "raised") & F.col("condition").isNotNull()).select(
        "source",
        F.lit("condition").alias("what"),
        F.col("condition").alias("name"),
        F.col("ingest_ts").alias("at"),
    )
    return (
        objects.unionByName(conditions)
        .groupBy("source", "what", "name")
        .agg(F.count(F.lit(1)).alias("times"), F.min("at").alias("first"), F.max("at").alias("last"))
        .where(F.col("times") >= times)
    )


SHORT_SECONDS: Final = 1.0
"""The length in seconds below which a connection was hardly worth its handshake."""

QUANTILES: Final = {"median": 0.5, "p90": 0.9, "p99": 0.99}


def connection_lifetimes(lives: DataFrame, users: DataFrame) -> DataFrame:
    """Return one row for each source and user, and one for all users of a source (``user`` null).

    Columns: ``opened`` (seen to begin), ``ended``, ``open`` (at the end of the period), ``short`` (ended
    within a second); of those that ended and whose length is known ``known``, ``median``, ``p90``, ``p99``,
    ``longest`` in seconds.

    Args:
        lives: the lives of connections.
        users: samples of the elements `gateway.analytics.reports.classes.USERS` of connections.
    """
    named = lives.join(_names(users), ["log_id", "object_id"], "left").withColumn(
        # Null is what the rollup has for "all users": an unknown user must be something else.
        "user",
        F.coalesce("user", F.lit("")),
    )
    ended = F.col("state") == "deleted"
    length = F.when(ended, F.col("seconds"))
    return (
        named.rollup("source", "user")
        .agg(
            F.count_if(F.col("began")).alias("opened"),
            F.count_if(ended).alias("ended"),
            F.count_if(F.col("state") == "living").alias("open"),
            F.count_if(length < SHORT_SECONDS).alias("short"),
            F.count(length).alias("known"),
            *(F.percentile(length, part).alias(name) for name, part in QUANTILES.items()),
            F.max(length).alias("longest"),
        )
        .where(F.col("source").isNotNull())
    )


def _names(users: DataFrame) -> DataFrame:
    return users.groupBy("log_id", "object_id").agg(F.max_by("text", "seq").alias("user"))


MOST_PRINCIPALS: Final = 3
"""The maximum number of principals that are named in a row; ``principals`` is the number of all."""

_SECOND: Final = 1e9


def latest_operations(operations: DataFrame) -> DataFrame:
    """Return the last record of each operation.

    Columns: those of `gateway.analytics.silver.operations`, and ``what``: the method called, or the elements
    that were to be set.

    Args:
        operations: the rows of `gateway.analytics.silver.operations`.
    """
    record = F.struct(*(F.col(name) for name in operations.columns))
    return (
        operations.groupBy("log_id", "operation_id")
        .agg(F.max_by(record, "seq").alias("last"))
        .select("last.*")
        .withColumn("what", F.coalesce("method", F.array_join(F.json_object_keys("values"), ", ")))
    )


def operations_by_outcome(latest: DataFrame) -> DataFrame:
    """Return one row for each source, kind of operation, class, method or elements, and outcome.

    Columns: ``source``, ``operation``, ``package``, ``class``, ``what``, ``outcome`` (null: under way),
    ``times``, ``objects``, ``median`` and ``longest`` seconds to the outcome, ``principals``, ``who`` (some
    of them), ``last``, and ``text`` of the last one.

    Args:
        latest: the rows of `latest_operations`.
    """
    seconds = F.col("latency_ns") / _SECOND
    return latest.groupBy("source", "operation", "package", "class", "what", "outcome").agg(
        F.sum("attempts").alias("times"),
        F.count_distinct("object_id").alias("objects"),
        F.percentile(seconds, 0.5).alias("median"),
        F.max(seconds).alias("longest"),
        F.count_distinct("principal").alias("principals"),
        F.array_join(F.slice(F.sort_array(F.collect_set("principal")), 1, MOST_PRINCIPALS), ", ").alias(
            "who"
        ),
        F.max("ingest_ts").alias("last"),
        F.max_by("text", "seq").alias("text"),
    )
