"""Gold: sums by hour that add up over any number of rows, for dashboards and for tools other than Spark.

Each function takes silver of any part of the log. The sums of two parts are the sum of the whole, so a
stream writes what each of its batches adds, and a reader sums up: ``sum(delta)`` is what a counter
gained, ``sum(delta) / sum(interval_ns) * 1e9`` its mean rate a second while it was measured.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def counters_by_hour(samples: DataFrame) -> DataFrame:
    """Return the gains of counters for each object, element and hour.

    ``delta`` DECIMAL(38,0) (negative where more is taken back than added; null where nothing is known),
    ``interval_ns`` (time that it was measured over; null beyond 2^63-1), ``samples`` with a delta,
    ``resets``, and ``peak``, the highest rate per second between two samples.

    Args:
        samples: rows of `gateway.analytics.silver.samples`, or of `gateway.analytics.silver.deltas`.
    """
    hour = ("dt", "hour", "log_id", "source", "package", "class", "object_id", "object_name", "element")
    return (
        samples.where(F.col("delta").isNotNull() | F.col("reset"))
        .groupBy(*hour)
        .agg(
            F.sum("delta").cast("decimal(38,0)").alias("delta"),
            # Intervals are an agent's: a sum beyond 64 bits is null instead of an error of the whole batch.
            F.try_sum("interval_ns").alias("interval_ns"),
            F.count("delta").alias("samples"),
            F.sum(F.col("reset").cast("bigint")).alias("resets"),
            F.max("rate").alias("peak"),
        )
    )


def objects_by_hour(marks: DataFrame) -> DataFrame:
    """Return the numbers of objects that began and ended by class and hour; ``inferred``: not reported."""
    ended = F.col("kind") == "delete"
    return (
        marks.where(F.col("kind").isin("create", "delete"))
        .groupBy("dt", "hour", "log_id", "source", "package", "class")
        .agg(
            F.count_if(F.col("kind") == "create").alias("created"),
            F.count_if(ended).alias("deleted"),
            F.count_if(ended & F.col("inferred")).alias("inferred"),
        )
    )


def events_by_hour(events: DataFrame) -> DataFrame:
    """Return the number of events for each name, severity, state and hour."""
    return events.groupBy("dt", "hour", "log_id", "source", "package", "event", "severity", "state").agg(
        F.count(F.lit(1)).alias("events")
    )


def operations_by_hour(operations: DataFrame) -> DataFrame:
    """Return the number of operations that ended, for each class, method, outcome and hour.

    Of those whose ``state`` is ``settled`` the outcome was unknown before: they are among those that ended
    with ``unknown`` too. An ``operation`` counts for as many attempts as its record stands for.
    """
    hour = ("dt", "hour", "log_id", "source", "package", "class")
    return (
        operations.where(F.col("state").isin("ended", "settled"))
        .groupBy(*hour, "operation", "method", "state", "outcome")
        .agg(F.sum("attempts").alias("operations"))
    )
