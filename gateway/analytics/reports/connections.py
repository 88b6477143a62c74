"""How long connections last, for each user."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

SHORT_SECONDS: Final = 1.0
"""A connection that lasted less was hardly worth its handshake."""

QUANTILES: Final = {"median": 0.5, "p90": 0.9, "p99": 0.99}


def lifetimes(lives: DataFrame, users: DataFrame) -> DataFrame:
    """One row for each source and user, and one for all users of a source (``user`` null).

    Columns: ``opened`` (seen to begin), ``ended``, ``open`` (at the end of the period), ``short`` (ended
    within a second); of those that ended and whose length is known ``known``, ``median``, ``p90``, ``p99``,
    ``longest`` in seconds.

    Args:
        lives: of connections.
        users: samples of the elements `gateway.analytics.reports.elements.USERS` of connections.
    """
    named = lives.join(_names(users), ["log_id", "object_id"], "left").withColumn(
        "user", F.coalesce("user", F.lit(""))
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
