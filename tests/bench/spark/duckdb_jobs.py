"""The results of `gateway.analytics.silver.samples` and `gateway.analytics.gold.counters_by_hour` in SQL."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import duckdb

_SAMPLES: Final = """
    WITH told AS (
        SELECT *, from_json(deltas,
            '"MAP(VARCHAR, STRUCT(delta DECIMAL(20,0), interval_ns BIGINT, reset BOOLEAN))"') AS counted
        FROM read_parquet('{lake}/*/*/*.parquet', hive_partitioning = true)
        WHERE kind IN ('snapshot', 'create', 'update') AND "values" IS NOT NULL
    ), entries AS (
        SELECT told.* EXCLUDE (element), entry.key AS element, entry.value, counted[entry.key] AS counter,
        CASE
            WHEN entry.type IN ('BIGINT', 'UBIGINT') THEN 'integer' WHEN entry.type = 'DOUBLE' THEN 'number'
            WHEN entry.type = 'BOOLEAN' THEN 'boolean' WHEN entry.type = 'NULL' THEN 'absent'
            WHEN entry.type = 'ARRAY' THEN 'list' WHEN entry.type = 'OBJECT' THEN 'map'
            ELSE 'text' END AS type
        FROM told, json_each(told."values") AS entry
    )
    SELECT log_id, seq, dt, hour, ingest_ts, sample_ts, sample_ns, source, package, class, object_id,
        object_name, parent_id, agent, kind, element, type,
        CASE WHEN type = 'integer' THEN TRY_CAST(value AS DECIMAL(20, 0)) END AS integer,
        CASE WHEN type IN ('integer', 'number') THEN TRY_CAST(value AS DOUBLE) END AS number,
        CASE WHEN type = 'boolean' THEN TRY_CAST(value AS BOOLEAN) END AS boolean,
        CASE WHEN type = 'text' THEN value ->> '$'
            WHEN type IN ('list', 'map') THEN value::VARCHAR END AS text,
        counter.delta AS delta, counter.interval_ns AS interval_ns,
        coalesce(counter.reset, CASE WHEN counter.delta IS NOT NULL THEN false END) AS reset,
        CASE WHEN counter.delta >= 0 AND counter.interval_ns > 0
            THEN counter.delta::DOUBLE / counter.interval_ns * 1e9 END AS rate
    FROM entries
"""

_COUNTERS: Final = """
    SELECT dt, hour, log_id, source, package, class, object_id, object_name, element,
        sum(delta) AS delta, sum(interval_ns) AS interval_ns, count(delta) AS samples,
        sum(reset::BIGINT) AS resets, max(rate) AS peak
    FROM ({samples}) WHERE delta IS NOT NULL OR reset GROUP BY ALL
"""

JOBS: Final = {"silver": _SAMPLES, "gold": _COUNTERS.replace("{samples}", _SAMPLES)}

CHECKS: Final = {
    "silver": "count(*), count(DISTINCT (seq, element)), sum(integer), count(text), sum(delta), "
    "sum(interval_ns), count(*) FILTER (reset), round(sum(rate))",
    "gold": "count(*), sum(delta), sum(interval_ns), sum(samples), sum(resets), round(sum(peak))",
}
"""The expressions by which results are compared."""


def answer(job: str, log: Path, target: Path) -> float:
    """Return the seconds to write the result of a job into a new file, with all processors."""
    target.parent.mkdir()
    query = JOBS[job].replace("{lake}", str(log / "lake"))
    start = time.perf_counter()
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
    return time.perf_counter() - start


def found(job: str, folder: Path) -> tuple[object, ...]:
    """Return the values to compare from the Parquet files of a folder."""
    with duckdb.connect() as database:
        row = database.execute(f"SELECT {CHECKS[job]} FROM '{folder}/*.parquet'").fetchone()  # noqa: S608  ours
    assert row is not None
    return row
