"""What any class shows, also one that no mapping knows: objects, counters, numbers that grow."""

from __future__ import annotations

import datetime as dt
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics import gold, silver
from gateway.analytics.reports.measures import BROKERS, QUEUE, grows, is_clock, line

_CLASS: Final = ("log_id", "source", "package", "class")
_ELEMENT: Final = (*_CLASS, "element")
_OBJECT: Final = (*_ELEMENT, "object_id")
_GAUGE: Final = "gauge"
_STATISTIC: Final = "statistic"
_DURATION: Final = "duration"
_NANOSECOND: Final = 1e-9
_TIME_UNITS: Final = {
    _NANOSECOND: ("ns", "nanosecond", "nanoseconds"),
    1e-6: ("us", "microsecond", "microseconds"),
    1e-3: ("ms", "msec", "millisecond", "milliseconds"),
    1.0: ("s", "sec", "second", "seconds"),
    60.0: ("min", "minute", "minutes"),
    3600.0: ("h", "hour", "hours"),
    86_400.0: ("d", "day", "days"),
}
"""Seconds of a unit of time, by its names."""


def objects(lives: DataFrame) -> DataFrame:
    """One row for each class of each source.

    Columns: ``objects``; how many began (``created``), ``ended``, ended without a report of it
        (``inferred``),
    are ``living`` at the end of the log; ``median``: seconds that those lived which ended.
    """
    ended = F.col("state") == "deleted"
    return (
        lives.groupBy(*_CLASS)
        .agg(
            F.count_distinct("object_id").alias("objects"),
            F.count_if(F.col("began")).alias("created"),
            F.count_if(ended).alias("ended"),
            F.count_if(ended & F.col("inferred")).alias("inferred"),
            F.count_if(F.col("state") == "living").alias("living"),
            F.percentile(F.when(ended, F.col("seconds")), 0.5).alias("median"),
        )
        .drop("log_id")
    )


def counters(records: DataFrame, schemas: DataFrame, seconds: float) -> DataFrame:
    """One row for each counter of each class, all objects of it together; not of the queues of brokers.

    Columns: ``gained``, and that ``per_second``; ``objects`` that counted; ``busiest`` of them (its name) and
    what it gained, ``most``; ``peak``: the highest rate of one between two samples; ``resets``; ``unit``.

    Args:
        records: bronze.
        schemas: of `gateway.analytics.silver.schemas`.
        seconds: how long the log was written, over which the mean is.
    """
    by_hour = gold.counters_by_hour(silver.deltas(_others(records)))
    by_object = by_hour.groupBy(*_OBJECT).agg(
        F.sum("delta").alias("gained"),
        F.max("object_name").alias("object"),
        F.max("peak").alias("peak"),
        F.sum("resets").alias("resets"),
    )
    found = by_object.groupBy(*_ELEMENT).agg(
        F.sum("gained").cast("decimal(38,0)").alias("gained"),
        F.count_if(F.col("gained") > 0).alias("objects"),
        F.max_by("object", "gained").alias("busiest"),
        F.max("gained").cast("decimal(38,0)").alias("most"),
        F.max("peak").alias("peak"),
        F.sum("resets").alias("resets"),
    )
    mean = F.col("gained").cast("double") / seconds if seconds > 0 else F.lit(None).cast("double")
    return (
        found.where(F.col("gained") > 0)
        .withColumn("per_second", mean)
        .join(F.broadcast(_described(schemas)), ["log_id", "package", "class", "element"], "left")
        .drop("log_id")
    )


def rising(records: DataFrame, schemas: DataFrame, begin: dt.datetime, step_seconds: int) -> DataFrame:
    """One row for each number of an object that follows a line upwards, and that may grow or not.

    So no counters, which all go up; no properties, which are what somebody set, such as limits, ports and
    ids; no time of day, and no time that passes, such as an uptime (`is_clock`). As for queues (which brokers
    tell, and which are left out here): by least squares through the last number of each step of time.
    Columns: the object and its ``element``; ``points``, ``over``; ``first``, ``last``; ``per_hour``, ``fit``,
    ``in_24_hours``; ``growth``: last by first, less 1, where the first is not 0; ``unit``.

    Args:
        records: bronze.
        schemas: of `gateway.analytics.silver.schemas`. Of an element that is not in them nothing is known
            but its numbers.
        begin: of what is drawn.
        step_seconds: length of a step.
    """
    at = F.unix_micros("ingest_ts") / 1e6 - begin.timestamp()
    numbers = silver.samples(_others(records)).where(F.col("number").isNotNull())
    by_step = (
        _that_may_grow(numbers, schemas)
        .withColumns({"at": at, "step": F.floor(at / step_seconds)})
        .groupBy(*_OBJECT, "step")
        .agg(
            F.max("object_name").alias("object"),
            F.min_by("number", "seq").alias("first"),
            F.max_by("number", "seq").alias("last"),
            F.max_by("at", "seq").alias("at"),
            F.bool_or(F.col("delta").isNotNull()).alias("counted"),
            F.first("unit").alias("unit"),
            F.first("unit_seconds").alias("unit_seconds"),
        )
    )
    found = by_step.groupBy(*_OBJECT).agg(
        F.first("unit").alias("unit"),
        is_clock(F.col("last"), F.col("at"), F.col("unit_seconds"), begin).alias("is_clock"),
        F.max("object").alias("object"),
        F.min_by("first", "step").alias("first"),
        F.max_by("last", "step").alias("last"),
        F.bool_or("counted").alias("counted"),
        *line(F.col("last"), F.col("at")),
    )
    share = F.when(F.col("first") != 0, F.col("last") / F.col("first") - 1)
    return (
        grows(found.where(~F.col("counted") & ~F.col("is_clock")))
        .withColumn("growth", share)
        .drop("log_id", "counted", "is_clock")
    )


def _that_may_grow(numbers: DataFrame, schemas: DataFrame) -> DataFrame:
    """Statistics that are gauges, with ``unit``, and ``unit_seconds`` where that is one of time.

    The mappings of known brokers give a unit to all that is counted or measured: what has none there is an
    id, a term or a position.
    """
    known = schemas.select(
        *("log_id", "package", "class", "element", "unit"),
        _unit_seconds().alias("unit_seconds"),
        (F.coalesce("group", F.lit(_STATISTIC)) == _STATISTIC).alias("is_statistic"),
        (F.coalesce("kind", F.lit(_GAUGE)) == _GAUGE).alias("is_gauge"),
        (F.col("unit").isNull() & F.col("package").isin(*BROKERS)).alias("is_no_quantity"),
    )
    is_unknown = F.col("is_statistic").isNull()
    may_grow = F.col("is_statistic") & F.col("is_gauge") & ~F.col("is_no_quantity")
    joined = numbers.join(F.broadcast(known), ["log_id", "package", "class", "element"], "left")
    return joined.where(is_unknown | may_grow)


def _unit_seconds() -> Column:
    unit = F.lower("unit")
    seconds = F.when(F.col("type") == _DURATION, _NANOSECOND)  # the log's form, whatever the unit shown
    for length, names in _TIME_UNITS.items():
        seconds = seconds.when(unit.isin(*names), length)
    return seconds


def _others(records: DataFrame) -> DataFrame:
    """Those that are not of a queue which has tables of its own."""
    return records.where(~_is_known_queue())


def _is_known_queue() -> Column:
    is_one = (F.col("class") == QUEUE) & F.col("package").isin(*BROKERS)
    return F.coalesce(is_one, F.lit(False))


def _described(schemas: DataFrame) -> DataFrame:
    return schemas.select("log_id", "package", "class", "element", "unit")
