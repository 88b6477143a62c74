"""The tables of any class: objects, counters, numbers that grow; and the elements that the report knows."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics import gold, silver

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


QUEUE: Final = "queue"
CONNECTION: Final = "connection"

BROKERS: Final = ("rabbitmq", "openamq.org.server", "org.apache.qpid.broker")
"""Packages whose queues are known here: they are left out of the tables of all classes."""

MEGABYTE: Final = 1_048_576
"""The octets of an OpenAMQ megabyte."""


@dataclass(frozen=True, slots=True)
class Measure:
    """An element that the report reads; ``factor`` converts its unit to the report's."""

    element: str
    factor: int = 1


def _of(*elements: str) -> tuple[Measure, ...]:
    return tuple(Measure(element) for element in elements)


FLOWS: Final[dict[str, tuple[Measure, ...]]] = {
    "published": _of("messagesPublished", "messages_in", "msgTotalEnqueues"),
    "delivered": _of("messagesDeliveredOrGot", "messages_out", "msgTotalDequeues"),
    "acknowledged": _of("messagesAcknowledged"),
    "redelivered": _of("messagesRedelivered"),
    "delivered_with_ack": _of("messagesDelivered"),
    "delivered_without_ack": _of("messagesDeliveredWithoutAck"),
    "got_with_ack": _of("messagesGot"),
    "got_without_ack": _of("messagesGotWithoutAck"),
    "gets_empty": _of("getsEmpty"),
    "dropped": _of("drop_count", "discardsOverflow"),
    "octets_in": (Measure("megabytes_in", MEGABYTE), Measure("byteTotalEnqueues")),
    "octets_out": (Measure("megabytes_out", MEGABYTE), Measure("byteTotalDequeues")),
}
"""Counters of a queue by their names in a report.

``delivered``: messages that left it for consumers; for a Qpid broker also discarded ones, which it counts
as dequeued. ``dropped``: messages dropped because the queue was full.
"""

DEPTH: Final = ("messages", "pending", "msgDepth")
"""Elements with the number of messages on a queue."""

CONSUMERS: Final = ("consumers", "consumerCount")
"""Elements with the number of consumers of a queue."""

USERS: Final = ("user", "user_name", "authIdentity")
"""Elements with the user that opened a connection."""

FLOW_ELEMENTS: Final = tuple(measure.element for measure in chain.from_iterable(FLOWS.values()))
QUEUE_ELEMENTS: Final = (*FLOW_ELEMENTS, *DEPTH, *CONSUMERS)
"""All elements of queues that a report uses."""


LEAST_POINTS: Final = 4
"""The minimum number of points of a line."""

LEAST_SECONDS: Final = 60
"""The minimum time of a line, in seconds."""
FORECAST_SECONDS: Final = 1800
"""The minimum time of a line from which a forecast for a day is made, in seconds."""

LEAST_FIT: Final = 0.5
"""The minimum coefficient of determination of a line that is called growth."""

CLOCK_PACE: Final = (0.8, 1.25)
"""The bounds of seconds that a clock gains in a second, seen through samples that are late now and then."""

_EPOCH_UNITS: Final = (1.0, 1e-3, 1e-6, 1e-9)
_DAY_SECONDS: Final = 86_400
_FORECAST_HOURS: Final = 24
_HOUR_SECONDS: Final = 3600


def line(value: Column, seconds: Column) -> tuple[Column, ...]:
    """Return the line through points, by least squares, as aggregates.

    ``points``, their number; ``over``, seconds from the first to the last; ``per_hour``, the slope; ``fit``,
    the coefficient of determination.

    Args:
        value: DOUBLE.
        seconds: the time of the value.
    """
    return (
        F.count(value).alias("points"),
        (F.max(seconds) - F.min(seconds)).alias("over"),
        (F.regr_slope(value, seconds) * _HOUR_SECONDS).alias("per_hour"),
        F.regr_r2(value, seconds).alias("fit"),
    )


def grows(lines: DataFrame) -> DataFrame:
    """Return the lines that go up, with ``in_24_hours``: the number expected then; null for a short line.

    Args:
        lines: with the columns of `line`, and ``first`` and ``last`` number.
    """
    return lines.where(
        # A line can go up through noise: it must explain most of what is there, over some time and some
        # points.
        (F.col("per_hour") > 0)
        & (F.col("fit") >= LEAST_FIT)
        & (F.col("points") >= LEAST_POINTS)
        & (F.col("over") >= LEAST_SECONDS)
        & (F.col("last") > F.col("first"))
    ).withColumn(
        "in_24_hours",
        F.when(F.col("over") >= FORECAST_SECONDS, F.col("last") + F.col("per_hour") * _FORECAST_HOURS),
    )


def is_clock(value: Column, seconds: Column, unit_seconds: Column, begin: dt.datetime) -> Column:
    """Return whether numbers over time are a time of day, or a time that passes, as an aggregate.

    A time of day stays within a day of the sample's own, in seconds since 1970 or a thousandth, millionth or
    billionth of them. A time that passes, such as an uptime, has a unit of time, and gains a second in each
    second, but where it begins again.

    Args:
        value: DOUBLE.
        seconds: the time of the value, since ``begin``.
        unit_seconds: the length of the value's unit; null where it is none of time.
        begin: the origin of ``seconds``.
    """
    now = seconds + begin.timestamp()
    is_now = reduce(
        lambda one, other: one | other,
        (F.abs(value * unit - now) < _DAY_SECONDS for unit in _EPOCH_UNITS),
    )
    # Only of what has a unit of time points are gathered: `collect_list` passes over null.
    points = F.sort_array(
        F.collect_list(
            F.when(
                unit_seconds.isNotNull(), F.struct(seconds.alias("at"), (value * unit_seconds).alias("value"))
            )
        )
    )
    steps = F.zip_with(
        points,
        F.slice(points, 2, F.size(points)),
        lambda one, next_: F.when(
            next_["value"] >= one["value"],
            F.struct(
                (next_["value"] - one["value"]).alias("gained"), (next_["at"] - one["at"]).alias("passed")
            ),
        ),
    )
    total = F.aggregate(
        F.filter(steps, lambda step: step.isNotNull()),
        F.struct(F.lit(0.0).alias("gained"), F.lit(0.0).alias("passed")),
        lambda sum_, step: F.struct(
            (sum_["gained"] + step["gained"]).alias("gained"),
            (sum_["passed"] + step["passed"]).alias("passed"),
        ),
    )
    slow, fast = CLOCK_PACE
    passes = F.coalesce(F.try_divide(total["gained"], total["passed"]).between(slow, fast), F.lit(False))
    return F.bool_and(is_now) | passes


def objects(lives: DataFrame) -> DataFrame:
    """Return one row for each class of each source.

    Columns: ``objects``; the numbers of those that began (``created``), ``ended``, ended without a report of
        it (``inferred``), and are ``living`` at the end of the log; ``median``: the median life of those that
        ended, in seconds.
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
    """Return one row for each counter of each class, all its objects together; without queues of brokers.

    Columns: ``gained``, and that ``per_second``; ``objects`` that counted; ``busiest`` of them (its name) and
    its gain, ``most``; ``peak``: the highest rate of one between two samples; ``resets``; ``unit``.

    Args:
        records: bronze.
        schemas: the rows of `gateway.analytics.silver.schemas`.
        seconds: the time for which the log was written, over which the mean is.
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
    """Return one row for each number of an object that follows a line upwards, and that may grow or not.

    These are no counters, which all go up; no properties, which are settings, such as limits, ports and
    ids; no time of day, and no time that passes, such as an uptime (`is_clock`). As for queues (which brokers
    report, and which are left out here) the line is by least squares through the last number of each step of
    time. Columns: the object and its ``element``; ``points``, ``over``; ``first``, ``last``; ``per_hour``,
    ``fit``, ``in_24_hours``; ``growth``: last by first, less 1, where the first is not 0; ``unit``.

    Args:
        records: bronze.
        schemas: the rows of `gateway.analytics.silver.schemas`. Of an element that is not in them only the
            numbers are known.
        begin: the begin of the drawn period.
        step_seconds: the length of a step.
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
    """Return statistics that are gauges, with ``unit``, and ``unit_seconds`` where that is one of time.

    The mappings of known brokers give a unit to each counted or measured element: one without a unit is an
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
    """Return the records that are not of a queue with tables of its own."""
    return records.where(~_is_known_queue())


def _is_known_queue() -> Column:
    is_one = (F.col("class") == QUEUE) & F.col("package").isin(*BROKERS)
    return F.coalesce(is_one, F.lit(False))


def _described(schemas: DataFrame) -> DataFrame:
    return schemas.select("log_id", "package", "class", "element", "unit")
