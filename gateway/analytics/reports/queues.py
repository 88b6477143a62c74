"""What went through queues, which are busiest, and which grow."""

from __future__ import annotations

import datetime as dt
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

CLASS: Final = "queue"

FLOWS: Final = {
    "published": "messagesPublished",
    "delivered": "messagesDeliveredOrGot",
    "acknowledged": "messagesAcknowledged",
    "redelivered": "messagesRedelivered",
    "delivered_with_ack": "messagesDelivered",
    "delivered_without_ack": "messagesDeliveredWithoutAck",
    "got_with_ack": "messagesGot",
    "got_without_ack": "messagesGotWithoutAck",
    "gets_empty": "getsEmpty",
}
"""Counters of a queue by what they are called in a report; ``delivered`` is the sum of all ways out."""

DEPTH: Final = "messages"
CONSUMERS: Final = "consumers"
ELEMENTS: Final = (*FLOWS.values(), DEPTH, CONSUMERS)
"""What the functions here want to know of queues."""

LEAST_POINTS: Final = 4
"""A line through fewer says nothing."""

LEAST_FIT: Final = 0.5
"""Least coefficient of determination of a line that is called growth."""

_OBJECT: Final = ("log_id", "source", "object_id")
_FORECAST_HOURS: Final = 24
_HOUR_SECONDS: Final = 3600


def flows(samples: DataFrame, lives: DataFrame, log_end: dt.datetime) -> DataFrame:
    """One row for each queue: for each of `FLOWS` the total, the mean rate and the peak.

    The mean is over the time in which the queue was in view (by the gateway's clock), so that silence counts.
    The peak is the highest rate between two samples. After a reset a counter adds what it has counted since.
    Columns: the queue; ``NAME``, ``NAME_per_second``, ``NAME_peak``; ``resets``; ``messages`` and
    ``consumers`` as last told, ``most_messages``; ``through``: published and delivered a second together.

    Args:
        samples: of queues, `ELEMENTS` at least.
        lives: of all objects.
        log_end: when the log was last written.
    """
    counters = (_sums(name, element) for name, element in FLOWS.items())
    found = samples.groupBy(*_OBJECT).agg(
        F.max_by("object_name", "seq").alias("queue"),
        *(column for columns in counters for column in columns),
        F.sum(F.col("reset").cast("bigint")).alias("resets"),
        _last(DEPTH).alias("messages"),
        F.max(F.when(F.col("element") == DEPTH, F.col("integer"))).alias("most_messages"),
        _last(CONSUMERS).alias("consumers"),
    )
    seen = found.join(_in_view(lives, log_end), ["log_id", "object_id"], "left")
    means = {f"{name}_per_second": _mean(name) for name in FLOWS}
    return (
        seen.withColumns(means)
        .withColumn(
            "through",
            F.coalesce("published_per_second", F.lit(0.0)) + F.coalesce("delivered_per_second", F.lit(0.0)),
        )
        .drop("log_id", "seconds", *(f"{name}_measured" for name in FLOWS))
    )


def growth(samples: DataFrame, begin: dt.datetime) -> DataFrame:
    """One row for each queue whose number of messages follows a line upwards.

    By least squares over all samples of the period, by the gateway's clock. Columns: the queue; ``points``;
    ``first``, ``last`` number of messages; ``per_hour``, the slope; ``fit``, the coefficient of
    determination; ``in_24_hours``: the number to be expected if it goes on so.

    Args:
        samples: of queues.
        begin: of the period; times are counted from it, because a line needs all digits of a double.
    """
    time = (F.unix_micros("ingest_ts") - int(begin.timestamp() * 1e6)) / 1e6
    depth = F.col("number")
    return (
        samples.where((F.col("element") == DEPTH) & depth.isNotNull())
        .groupBy(*_OBJECT)
        .agg(
            F.max_by("object_name", "seq").alias("queue"),
            F.count(F.lit(1)).alias("points"),
            F.min_by("integer", "seq").alias("first"),
            F.max_by("integer", "seq").alias("last"),
            (F.regr_slope(depth, time) * _HOUR_SECONDS).alias("per_hour"),
            F.regr_r2(depth, time).alias("fit"),
        )
        .where(
            (F.col("per_hour") > 0)
            & (F.col("fit") >= LEAST_FIT)
            & (F.col("points") >= LEAST_POINTS)
            & (F.col("last") > F.col("first"))
        )
        .withColumn("in_24_hours", F.col("last") + F.col("per_hour") * _FORECAST_HOURS)
        .drop("log_id")
    )


def throughput(samples: DataFrame, begin: dt.datetime, step_seconds: int) -> DataFrame:
    """Messages a second through all queues of a source together, in steps of time.

    What a counter gained is spread evenly over the interval that it was measured over, so that rare samples
    draw neither peaks nor holes. Columns: ``source``, ``step`` (begins so many seconds after ``begin``),
    ``published``, ``delivered``, ``acknowledged`` per second.
    """
    end = F.unix_micros("ingest_ts") / 1e6 - begin.timestamp()
    measured = F.coalesce(F.when(F.col("interval_ns") > 0, F.col("interval_ns") / 1e9), F.lit(1e-6))
    known = samples.where(F.col("delta") >= 0).withColumns({"end": end, "measured": measured})
    first = F.greatest(F.floor((F.col("end") - F.col("measured")) / step_seconds), F.lit(0))
    last = F.greatest(F.floor(F.col("end") / step_seconds), F.lit(0))
    spread = known.withColumn("number", F.explode(F.sequence(first, last))).withColumn(
        "step", F.col("number") * step_seconds
    )
    overlap = F.least(F.col("end"), F.col("step") + step_seconds) - F.greatest(
        F.col("end") - F.col("measured"), F.col("step")
    )
    share = F.greatest(overlap, F.lit(0.0)) / F.col("measured") * F.col("delta").cast("double")
    sums = [
        (F.coalesce(F.sum(F.when(F.col("element") == FLOWS[name], share)), F.lit(0.0)) / step_seconds).alias(
            name
        )
        for name in ("published", "delivered", "acknowledged")
    ]
    return spread.groupBy("source", "step").agg(*sums).orderBy("source", "step")


def depths(samples: DataFrame, begin: dt.datetime, step_seconds: int, queues: list[str]) -> DataFrame:
    """The highest number of messages of some queues (by ``object_id``) in steps of time."""
    return (
        samples.where((F.col("element") == DEPTH) & F.col("object_id").isin(*queues))
        .groupBy("object_id", step_of(begin, step_seconds).alias("step"))
        .agg(F.max_by("object_name", "seq").alias("queue"), F.max("number").alias("messages"))
        .orderBy("object_id", "step")
    )


def step_of(begin: dt.datetime, step_seconds: int) -> Column:
    """Seconds from ``begin`` to the begin of the step that a record is in."""
    since = F.unix_seconds("ingest_ts") - int(begin.timestamp())
    return (F.floor(since / step_seconds) * step_seconds).cast("bigint")


def _sums(name: str, element: str) -> tuple[Column, Column, Column]:
    is_it = (F.col("element") == element) & (F.col("delta") >= 0)
    return (
        F.sum(F.when(is_it, F.col("delta"))).cast("decimal(38,0)").alias(name),
        F.max(F.when(is_it, F.col("rate"))).alias(f"{name}_peak"),
        (F.sum(F.when(is_it, F.col("interval_ns"))) / 1e9).alias(f"{name}_measured"),
    )


def _mean(name: str) -> Column:
    # A queue that was seen once only has been in view for as long as its counters were measured.
    seconds = F.greatest(F.col("seconds"), F.col(f"{name}_measured"))
    return F.when(seconds > 0, F.col(name).cast("double") / seconds)


def _last(element: str) -> Column:
    is_it = F.col("element") == element
    return F.max_by(F.when(is_it, F.col("integer")), F.when(is_it, F.col("seq")))


def _in_view(lives: DataFrame, log_end: dt.datetime) -> DataFrame:
    """How long each object was in view; one that nobody saw end is so up to the log's end."""
    until = F.when(F.col("state") == "living", F.lit(log_end)).otherwise(
        F.coalesce("ended", F.col("last_seen"))
    )
    seconds = (F.unix_micros(until) - F.unix_micros("first_seen")) / 1e6
    return lives.groupBy("log_id", "object_id").agg(F.sum(seconds).alias("seconds"))
