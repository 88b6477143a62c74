"""Events: how many of which severity, storms of them, and what comes and goes again and again."""

from __future__ import annotations

import datetime as dt
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics.reports.queues import step_of

SEVERITIES: Final = ("critical", "major", "minor", "warning", "info", "cleared")
"""The worst first."""

SEVERE: Final = ("critical", "major")
"""Those that somebody should look at."""

STORM_A_MINUTE: Final = 60
"""So many events of one name from one source within a minute are a storm."""

_INCARNATION: Final = r"(?s)(?<!\\)#.*"

FLAPPING_TIMES: Final = 3
"""What began so often in a period comes and goes."""


def by_name(events: DataFrame) -> DataFrame:
    """One row for each event of each source: ``severity``, ``events``, ``first``, ``last`` and its text."""
    return events.groupBy("source", "package", "event", "severity").agg(
        F.count(F.lit(1)).alias("events"),
        F.min("ingest_ts").alias("first"),
        F.max("ingest_ts").alias("last"),
        F.max_by("text", "seq").alias("text"),
    )


def by_step(events: DataFrame, begin: dt.datetime, step_seconds: int) -> DataFrame:
    """Events of each severity in steps of time: ``severity``, ``step``, ``events``."""
    return (
        events.groupBy("severity", step_of(begin, step_seconds).alias("step"))
        .agg(F.count(F.lit(1)).alias("events"))
        .orderBy("severity", "step")
    )


def storms(events: DataFrame, a_minute: int = STORM_A_MINUTE) -> DataFrame:
    """Minutes with many events of one name, those that follow each other as one storm.

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
    """Objects that were made, and conditions that were raised, again and again.

    Columns: ``source``, ``what`` (a class, or ``condition``), ``name``, ``times``, ``first``, ``last``.
    """
    objects = lives.where(F.col("began")).select(
        "source",
        F.concat_ws(":", "package", "class").alias("what"),
        # Without what tells the incarnations of a transient object apart.
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
