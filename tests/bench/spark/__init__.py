"""Spark's batches over a lake beside the same questions in SQL to DuckDB, over the same files.

Spark runs in a process of its own (`tests.bench.spark.program`), DuckDB in the benchmark's. Both write what
they find as Parquet, and what they wrote is compared.
"""
