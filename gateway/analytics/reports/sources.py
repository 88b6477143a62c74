"""Who was heard, who was silent, and for how long nobody vouched for values."""

from __future__ import annotations

import datetime as dt
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

BELIEVED: Final = ("synchronised", "degraded", "fresh")
"""States of sources and agents in which what they told is current."""

GONE: Final = "gone"
"""State of an agent that left, with all that it had: nobody waits for it."""


def silence(states: DataFrame, log_end: dt.datetime) -> DataFrame:
    """One row for each source (``agent`` null) and each agent of each log.

    Columns: ``dialect`` (kind of the source), ``state`` as last told, ``since`` (it is in this state),
    ``silent``: it is not believed now; ``times``: how often it fell silent; ``silent_seconds``: how long it
    was so in the period; ``text``.

    Args:
        states: of `gateway.analytics.silver.source_states`.
        log_end: when the log was last written; the last state holds up to then.
    """
    who = ("log_id", "source", "agent")
    order = Window.partitionBy(*who).orderBy("seq")
    believed = F.col("state").isin(*BELIEVED)
    silent = ~believed & (F.col("state") != GONE)
    was_believed = F.coalesce(F.lag(~silent).over(order), F.lit(True))
    until = F.coalesce(F.lead("ingest_ts").over(order), F.lit(log_end))
    lasted = (F.unix_micros(until) - F.unix_micros("ingest_ts")) / 1e6
    changed = F.coalesce(F.lag("state").over(order) != F.col("state"), F.lit(True))
    return (
        states.withColumns({"silent": silent, "fell": silent & was_believed, "lasted": lasted})
        .withColumn("changed", changed)
        .groupBy(*who)
        .agg(
            F.max("dialect").alias("dialect"),
            F.max_by("state", "seq").alias("state"),
            F.max(F.when(F.col("changed"), F.col("ingest_ts"))).alias("since"),
            F.max_by("silent", "seq").alias("silent"),
            F.count_if(F.col("fell")).alias("times"),
            F.coalesce(F.sum(F.when(F.col("silent"), F.col("lasted"))), F.lit(0.0)).alias("silent_seconds"),
            F.max_by("text", "seq").alias("text"),
        )
    )
