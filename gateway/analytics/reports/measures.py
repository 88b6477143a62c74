"""Which elements of which classes the report reads, by broker, and what of their lines is worth showing."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

QUEUE: Final = "queue"
CONNECTION: Final = "connection"

BROKERS: Final = ("rabbitmq", "openamq.org.server", "org.apache.qpid.broker")
"""Packages whose queues are known here: they are left out of the tables of all classes."""

MEGABYTE: Final = 1_048_576
"""Octets of what OpenAMQ calls a megabyte."""


@dataclass(frozen=True, slots=True)
class Measure:
    """An element that the report reads; ``factor`` makes its unit the report's."""

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
"""Counters of a queue by what they are called in a report.

``delivered`` is all that left it for consumers: of a Qpid broker also what was discarded, which it counts
among what was taken off. ``dropped``: because the queue was full.
"""

DEPTH: Final = ("messages", "pending", "msgDepth")
"""Messages on a queue."""

CONSUMERS: Final = ("consumers", "consumerCount")
"""Consumers of a queue."""

USERS: Final = ("user", "user_name", "authIdentity")
"""Who opened a connection."""

FLOW_ELEMENTS: Final = tuple(measure.element for measure in chain.from_iterable(FLOWS.values()))
QUEUE_ELEMENTS: Final = (*FLOW_ELEMENTS, *DEPTH, *CONSUMERS)
"""All that a report wants to know of queues."""


LEAST_POINTS: Final = 4
"""A line through fewer says nothing."""

LEAST_SECONDS: Final = 60
"""Nor does one through a shorter time."""
FORECAST_SECONDS: Final = 1800
"""What went up for less time says nothing of a day."""

LEAST_FIT: Final = 0.5
"""Least coefficient of determination of a line that is called growth."""

CLOCK_PACE: Final = (0.8, 1.25)
"""Seconds that a clock gains in a second, as seen through samples that are late now and then."""

_EPOCH_UNITS: Final = (1.0, 1e-3, 1e-6, 1e-9)
_DAY_SECONDS: Final = 86_400
_FORECAST_HOURS: Final = 24
_HOUR_SECONDS: Final = 3600


def line(value: Column, seconds: Column) -> tuple[Column, ...]:
    """The line through points, by least squares, as aggregates.

    ``points``, how many; ``over``, seconds from the first to the last; ``per_hour``, the slope; ``fit``, the
    coefficient of determination.

    Args:
        value: DOUBLE.
        seconds: when it was so.
    """
    return (
        F.count(value).alias("points"),
        (F.max(seconds) - F.min(seconds)).alias("over"),
        (F.regr_slope(value, seconds) * _HOUR_SECONDS).alias("per_hour"),
        F.regr_r2(value, seconds).alias("fit"),
    )


def grows(lines: DataFrame) -> DataFrame:
    """Those that go up, with ``in_24_hours``: what is to be expected if it goes on so; null for a short line.

    Args:
        lines: with the columns of `line`, and ``first`` and ``last`` number.
    """
    return lines.where(
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
    """Whether numbers over time are a time of day, or a time that passes, as an aggregate.

    A time of day stays within a day of the sample's own, in seconds since 1970 or a thousandth, millionth or
    billionth of them. A time that passes, such as an uptime, has a unit of time, and gains a second in each
    second, but where it begins again.

    Args:
        value: DOUBLE.
        seconds: when it was so, since ``begin``.
        unit_seconds: how long the value's unit is; null where it is none of time.
        begin: what ``seconds`` count from.
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
                unit_seconds.isNotNull(), F.struct(seconds.alias("at"), (value * unit_seconds).alias("told"))
            )
        )
    )
    steps = F.zip_with(
        points,
        F.slice(points, 2, F.size(points)),
        lambda one, next_: F.when(
            next_["told"] >= one["told"],
            F.struct(
                (next_["told"] - one["told"]).alias("gained"), (next_["at"] - one["at"]).alias("passed")
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
