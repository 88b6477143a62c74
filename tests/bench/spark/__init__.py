"""Spark's batches over a lake beside the same queries in SQL to DuckDB, over the same files.

Spark runs in a process of its own (`tests.bench.spark.program`), DuckDB in the benchmark's. Both write their
results as Parquet, and these are compared.
"""
