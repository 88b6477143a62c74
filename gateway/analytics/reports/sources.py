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


def silence(states: DataFrame, shown_since: DataFrame, log_end: dt.datetime) -> DataFrame:
    """One row for each source (``agent`` null) and each agent of each log.

    Columns: ``dialect`` (kind of the source), ``state`` as last told, or ``gone`` where later segments do not
    show it: it was not there when the gateway was started again; ``since`` (it was in the state last told),
    ``silent``: it is not believed now; ``times``: how often it fell silent; ``silent_seconds``: how long it
    was so in the period; ``text``.

    Args:
        states: of `gateway.analytics.silver.source_states`.
        shown_since: of `gateway.analytics.silver.shown_since`.
        log_end: when the log was last written; the last state holds up to then.
    """
    who = ("log_id", "source", "agent")
    order = Window.partitionBy(*who).orderBy("seq")
    believed = F.col("state").isin(*BELIEVED)
    silent = ~believed & (F.col("state") != GONE)
    was_believed = F.coalesce(F.lag(~silent).over(order), F.lit(True))
    forgotten = F.coalesce(F.col("told_last") < F.col("shown_since"), F.lit(False))
    end = F.when(forgotten, F.col("shown_since")).otherwise(F.lit(log_end))
    until = F.coalesce(F.lead("ingest_ts").over(order), end)
    lasted = (F.unix_micros(until) - F.unix_micros("ingest_ts")) / 1e6
    changed = F.coalesce(F.lag("state").over(order) != F.col("state"), F.lit(True))
    told_last = F.max("ingest_ts").over(Window.partitionBy(*who))
    state = F.when(F.bool_or("forgotten"), F.lit(GONE)).otherwise(F.max_by("state", "seq"))
    return (
        states.join(F.broadcast(shown_since), "log_id", "left")
        .withColumn("told_last", told_last)
        .withColumn("forgotten", forgotten)
        .withColumns({"silent": silent, "fell": silent & was_believed, "lasted": lasted})
        .withColumn("changed", changed)
        .groupBy(*who)
        .agg(
            F.max("dialect").alias("dialect"),
            state.alias("state"),
            F.max(F.when(F.col("changed"), F.col("ingest_ts"))).alias("since"),
            (F.max_by("silent", "seq") & ~F.bool_or("forgotten")).alias("silent"),
            F.count_if(F.col("fell")).alias("times"),
            F.coalesce(F.sum(F.when(F.col("silent"), F.col("lasted"))), F.lit(0.0)).alias("silent_seconds"),
            F.max_by("text", "seq").alias("text"),
        )
    )
