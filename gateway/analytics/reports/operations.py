"""What was changed through the gateway, and what came of it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

MOST_PRINCIPALS: Final = 3
"""That are named in a row; ``principals`` says how many there are."""

_SECOND: Final = 1e9


def latest(operations: DataFrame) -> DataFrame:
    """One row for each operation: as it stands.

    Columns: those of `gateway.analytics.silver.operations`, and ``what``: the method called, or the elements
    that were to be set.

    Args:
        operations: of `gateway.analytics.silver.operations`.
    """
    told = F.struct(*(F.col(name) for name in operations.columns))
    return (
        operations.groupBy("log_id", "operation_id")
        .agg(F.max_by(told, "seq").alias("told"))
        .select("told.*")
        .withColumn("what", F.coalesce("method", F.array_join(F.json_object_keys("values"), ", ")))
    )


def by_outcome(latest: DataFrame) -> DataFrame:
    """One row for each source, kind of operation, class, method or elements, and outcome.

    Columns: ``source``, ``operation``, ``package``, ``class``, ``what``, ``outcome`` (null: under way),
    ``times``, ``objects``, ``median`` and ``longest`` seconds to the outcome, ``principals``, ``who`` (some
    of them), ``last``, and ``text`` of the last one.

    Args:
        latest: of the function of this name.
    """
    seconds = F.col("latency_ns") / _SECOND
    return latest.groupBy("source", "operation", "package", "class", "what", "outcome").agg(
        F.sum("attempts").alias("times"),
        F.count_distinct("object_id").alias("objects"),
        F.percentile(seconds, 0.5).alias("median"),
        F.max(seconds).alias("longest"),
        F.count_distinct("principal").alias("principals"),
        F.array_join(F.slice(F.sort_array(F.collect_set("principal")), 1, MOST_PRINCIPALS), ", ").alias(
            "who"
        ),
        F.max("ingest_ts").alias("last"),
        F.max_by("text", "seq").alias("text"),
    )
