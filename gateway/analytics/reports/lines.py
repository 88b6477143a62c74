"""Straight lines through numbers over time: which of them go up, and how fast."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

LEAST_POINTS: Final = 4
"""A line through fewer says nothing."""

LEAST_FIT: Final = 0.5
"""Least coefficient of determination of a line that is called growth."""

_FORECAST_HOURS: Final = 24
_HOUR_SECONDS: Final = 3600


def line(value: Column, seconds: Column) -> tuple[Column, ...]:
    """The line through points, by least squares, as aggregates.

    ``points``, how many; ``per_hour``, the slope; ``fit``, the coefficient of determination.

    Args:
        value: DOUBLE.
        seconds: when it was so.
    """
    return (
        F.count(value).alias("points"),
        (F.regr_slope(value, seconds) * _HOUR_SECONDS).alias("per_hour"),
        F.regr_r2(value, seconds).alias("fit"),
    )


def grows(lines: DataFrame) -> DataFrame:
    """Those that go up, with ``in_24_hours``: the number to be expected if it goes on so.

    Args:
        lines: with the columns of `line`, and ``first`` and ``last`` number.
    """
    return lines.where(
        (F.col("per_hour") > 0)
        & (F.col("fit") >= LEAST_FIT)
        & (F.col("points") >= LEAST_POINTS)
        & (F.col("last") > F.col("first"))
    ).withColumn("in_24_hours", F.col("last") + F.col("per_hour") * _FORECAST_HOURS)
