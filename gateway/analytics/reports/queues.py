"""Messages through queues, the busiest queues, and queues that grow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from gateway.analytics.bronze import EXACT, VALUE_KINDS
from gateway.analytics.reports.classes import (
    CONSUMERS,
    DEPTH,
    FLOW_ELEMENTS,
    FLOWS,
    QUEUE,
    QUEUE_ELEMENTS,
    Measure,
    grows,
    line,
)
from gateway.analytics.silver import DELTA, rate

DRAWN: Final = ("published", "delivered", "acknowledged")
"""The flows of `FLOWS` that are drawn over time."""

_PRODUCT: Final = "decimal(27,0)"
"""A type that holds 2^64-1; times a factor it makes a decimal that holds the product."""
_OBJECT: Final = ("log_id", "source", "object_id")
_VALUES: Final = ", ".join(f"`{element}` {EXACT.simpleString()}" for element in QUEUE_ELEMENTS)
_DELTAS: Final = ", ".join(f"`{element}` {DELTA}" for element in FLOW_ELEMENTS)


def steps(
    records: DataFrame, lives: DataFrame, begin: dt.datetime, step_seconds: int, log_end: dt.datetime
) -> DataFrame:
    """Return the values of queues, summed up in steps of time: the few rows that all functions here share.

    There is one row for each queue, step of its records (``last``) and step in which their measured interval
    began (``first``, below 0 where that was before ``begin``), steps numbered from ``begin``. Columns: the
    queue, ``queue`` its name, ``in_view`` the seconds for which it was in view; for each of `FLOWS` ``NAME``
    (the gain), ``NAME_peak`` (highest rate), ``NAME_measured`` (nanoseconds); of `DRAWN` also ``NAME_tail``
    (the part of the gain in the step ``last``, if the gain is spread evenly over its measured interval) and
    ``NAME_pace`` (the gain per second, of all intervals together); ``resets``; ``messages``, ``consumers`` as
    last recorded, with ``messages_seq``, ``messages_at`` (seconds from ``begin``) and ``consumers_seq``;
    ``first_messages`` with ``first_seq``; ``most_messages``.

    Args:
        records: bronze; one at a time is read, and nothing of it is kept but its part in these sums.
        lives: the lives of all objects.
        begin: the begin of the drawn period.
        step_seconds: the length of a step.
        log_end: the time when the log was last written.
    """
    readings = _readings(records, begin).withColumn("last", F.floor(F.col("at") / step_seconds))
    started = F.floor((F.col("at") - F.col("interval")) / step_seconds)
    placed = readings.withColumn("first", F.coalesce(F.least(started, F.col("last")), F.col("last")))
    # The part of an interval that lies in the step of its end; all where it is not known.
    tail = F.coalesce(F.least(F.col("interval"), F.col("at") - F.col("last") * step_seconds), F.lit(1.0))
    share = F.coalesce(tail / F.col("interval"), F.lit(1.0))
    sums = [column for name in FLOWS for column in _sums(name)]
    drawn = [column for name in DRAWN for column in _spread(name, share)]
    depth, consumers = _value(DEPTH), _value(CONSUMERS)
    of_depth = F.when(depth.isNotNull(), F.col("seq"))
    of_consumers = F.when(consumers.isNotNull(), F.col("seq"))
    # A filter of records would parse each a second time: what has no values goes from the few rows instead.
    reported = F.coalesce(*(F.col("values")[element] for element in QUEUE_ELEMENTS)).isNotNull()
    # Numbers only are gathered, because text would have to be sorted first: the name comes from `lives`.
    found = placed.groupBy(*_OBJECT, "first", "last").agg(
        F.max(reported).alias("reported"),
        *sums,
        *drawn,
        F.sum(_resets()).alias("resets"),
        F.max_by(depth, of_depth).alias("messages"),
        F.max(of_depth).alias("messages_seq"),
        F.max_by("at", of_depth).alias("messages_at"),
        F.min_by(depth, of_depth).alias("first_messages"),
        F.min(of_depth).alias("first_seq"),
        F.max(depth).alias("most_messages"),
        F.max_by(consumers, of_consumers).alias("consumers"),
        F.max(of_consumers).alias("consumers_seq"),
    )
    found = found.where(F.col("reported")).drop("reported")
    return found.join(F.broadcast(_seen(lives, log_end)), ["log_id", "object_id"], "left")


def flows(steps: DataFrame) -> DataFrame:
    """Return one row for each queue: for each of `FLOWS` the total, the mean rate and the peak.

    The mean is over the time in which the queue was in view (by the gateway's clock), so that silence counts.
    The peak is the highest rate between two samples. After a reset a counter adds what is known of its count
    since then.
    Columns: the queue; ``NAME``, ``NAME_per_second``, ``NAME_peak``; ``resets``; ``messages`` and
    ``consumers`` as last recorded, ``most_messages``; ``through``: published and delivered a second together.
    """
    found = steps.groupBy(*_OBJECT).agg(
        F.first("queue", ignorenulls=True).alias("queue"),
        *(F.sum(name).cast("decimal(38,0)").alias(name) for name in FLOWS),
        *(F.max(f"{name}_peak").alias(f"{name}_peak") for name in FLOWS),
        *((F.try_sum(f"{name}_measured") / 1e9).alias(f"{name}_measured") for name in FLOWS),
        F.sum("resets").alias("resets"),
        F.max_by("messages", "messages_seq").alias("messages"),
        F.max("most_messages").alias("most_messages"),
        F.max_by("consumers", "consumers_seq").alias("consumers"),
        F.max("in_view").alias("in_view"),
    )
    means = {f"{name}_per_second": _mean(name) for name in FLOWS}
    return (
        found.withColumns(means)
        .withColumn(
            "through",
            F.coalesce("published_per_second", F.lit(0.0)) + F.coalesce("delivered_per_second", F.lit(0.0)),
        )
        .drop("log_id", "in_view", *(f"{name}_measured" for name in FLOWS))
    )


def growth(steps: DataFrame) -> DataFrame:
    """Return one row for each queue whose number of messages follows a line upwards.

    The line is by least squares through the last number of each row of `steps`, by the gateway's clock.
    Columns: the queue; ``points``, over how many seconds (``over``); ``first``, ``last`` number of messages;
    ``per_hour``, the slope; ``fit``, the coefficient of determination; ``in_24_hours``: the number to be
    expected if it goes on so.
    """
    depth, time = F.col("messages").cast("double"), F.col("messages_at")
    found = (
        steps.where(F.col("messages").isNotNull())
        .groupBy(*_OBJECT)
        .agg(
            F.first("queue", ignorenulls=True).alias("queue"),
            F.min_by("first_messages", "first_seq").alias("first"),
            F.max_by("messages", "messages_seq").alias("last"),
            *line(depth, time),
        )
    )
    return grows(found)


def throughput(steps: DataFrame, step_seconds: int) -> DataFrame:
    """Return messages per second through all queues of a source together, in steps of time.

    The gain of a counter is spread evenly over the interval that it was measured over, so that rare samples
    draw neither peaks nor holes. Columns: ``source``, ``step`` (begins so many seconds after the period),
    ``published``, ``delivered``, ``acknowledged`` per second.
    """
    columns = [f"{name}{part}" for name in DRAWN for part in ("", "_tail", "_pace")]
    # Queues first, then steps: one row for each stretch of time, however many queues there are.
    sums = steps.groupBy("source", "first", "last").agg(
        *(F.coalesce(F.sum(F.col(name).cast("double")), F.lit(0.0)).alias(name) for name in columns)
    )
    reached = F.sequence(F.greatest(F.col("first"), F.lit(0)), F.greatest(F.col("last"), F.lit(0)))
    spread = sums.withColumn("number", F.explode(reached))
    shares = [(F.sum(_share(name, step_seconds)) / step_seconds).alias(name) for name in DRAWN]
    step = (F.col("number") * step_seconds).alias("step")
    return spread.groupBy("source", step).agg(*shares).orderBy("source", "step")


def depths(steps: DataFrame, step_seconds: int, queues: list[str]) -> DataFrame:
    """Return the highest number of messages of some queues (by ``object_id``) in steps of time."""
    return (
        steps.where(F.col("most_messages").isNotNull() & F.col("object_id").isin(*queues))
        .groupBy("object_id", (F.col("last") * step_seconds).alias("step"))
        .agg(
            F.first("queue", ignorenulls=True).alias("queue"),
            F.max("most_messages").cast("double").alias("messages"),
        )
        .orderBy("object_id", "step")
    )


def step_of(begin: dt.datetime, step_seconds: int) -> Column:
    """Return the seconds from ``begin`` to the begin of the step that a record is in."""
    since = F.unix_seconds("ingest_ts") - int(begin.timestamp())
    return (F.floor(since / step_seconds) * step_seconds).cast("bigint")


def _readings(records: DataFrame, begin: dt.datetime) -> DataFrame:
    """Return the queues in each record: ``values`` and ``deltas`` by element, ``at``, ``interval``, seconds.

    Typed from JSON at once, as columns: several times quicker than the rows of `silver.samples`.
    """
    interval = F.coalesce(*(F.col("deltas")[element]["interval_ns"] for element in FLOW_ELEMENTS))
    return (
        records.where((F.col("class") == QUEUE) & F.col("kind").isin(*VALUE_KINDS))
        .select(
            *_OBJECT,
            "seq",
            (F.unix_micros("ingest_ts") / 1e6 - begin.timestamp()).alias("at"),
            F.from_json("values", _VALUES).alias("values"),
            F.from_json("deltas", _DELTAS).alias("deltas"),
        )
        .withColumn("interval", F.when(interval > 0, interval / 1e9))
    )


def _value(elements: Sequence[str]) -> Column:
    return F.coalesce(*(F.col("values")[element] for element in elements))


def _delta(name: str) -> Column:
    """Return the gain of a flow, in the report's unit."""
    return F.coalesce(
        *(_in_unit(measure, F.col("deltas")[measure.element]["delta"]) for measure in FLOWS[name])
    )


def _in_unit(measure: Measure, value: Column) -> Column:
    return value if measure.factor == 1 else value.cast(_PRODUCT) * measure.factor


def _interval(name: str) -> Column:
    return F.coalesce(*(F.col("deltas")[measure.element]["interval_ns"] for measure in FLOWS[name]))


def _sums(name: str) -> tuple[Column, Column, Column]:
    delta, interval = _delta(name), _interval(name)
    return (
        F.sum(delta).alias(name),  # what is taken back is negative
        F.max(rate(delta, interval)).alias(f"{name}_peak"),
        # An agent's clock may give any interval; a sum that has no room is none.
        F.try_sum(F.when(delta >= 0, interval)).alias(f"{name}_measured"),
    )


def _spread(name: str, share: Column) -> tuple[Column, Column]:
    delta = _delta(name).cast("double")
    is_known = _interval(name) > 0
    return (
        F.sum(delta * F.when(is_known, share).otherwise(1.0)).alias(f"{name}_tail"),
        F.sum(F.when(is_known, delta / F.col("interval"))).alias(f"{name}_pace"),
    )


def _share(name: str, step_seconds: int) -> Column:
    """Return the share of the step ``number`` in the gain from the step ``first`` to ``last``."""
    number, first, last = F.col("number"), F.col("first"), F.col("last")
    whole_step = F.col(f"{name}_pace") * step_seconds
    # What is left goes to the first step, so that the shares add up to what was gained.
    rest = F.col(name) - F.col(f"{name}_tail") - whole_step * (last - first - 1)
    share = F.when(number == last, F.col(f"{name}_tail")).when(number == first, rest).otherwise(whole_step)
    return F.greatest(share, F.lit(0.0))


def _resets() -> Column:
    """Return the number of counters of a record that did not go on; null where it has none."""
    deltas = [F.col("deltas")[element] for element in FLOW_ELEMENTS]
    lengths = [
        F.coalesce(delta["reset"], F.when(delta["delta"].isNotNull(), F.lit(False))).cast("bigint")
        for delta in deltas
    ]
    count = reduce(lambda one, other: one + other, (F.coalesce(one, F.lit(0)) for one in lengths))
    return F.when(F.coalesce(*lengths).isNotNull(), count)


def _mean(name: str) -> Column:
    # A queue that was seen once only has been in view for as long as its counters were measured.
    seconds = F.greatest(F.col("in_view"), F.col(f"{name}_measured"))
    return F.when(seconds > 0, F.col(name).cast("double") / seconds)


def _seen(lives: DataFrame, log_end: dt.datetime) -> DataFrame:
    """Return each queue's name, and its time in view: for one without an end it ends with the log."""
    until = F.when(F.col("state") == "living", F.lit(log_end)).otherwise(
        F.coalesce("ended", F.col("last_seen"))
    )
    seconds = (F.unix_micros(until) - F.unix_micros("first_seen")) / 1e6
    return (
        lives.where(F.col("class") == QUEUE)
        .groupBy("log_id", "object_id")
        .agg(F.max_by("object_name", "last_seen").alias("queue"), F.sum(seconds).alias("in_view"))
    )
