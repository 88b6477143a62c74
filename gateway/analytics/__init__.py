"""Analytics over the event log with Apache Spark: the optional extra ``[spark]``.

The package reads the log's published form (``docs/event-log.md``) and imports nothing else of the gateway:

- `bronze`: the records, each once, with typed columns; `coverage` shows which records are available.
- `silver`: the silver tables: samples, lives, events, operations, states, gaps.
- `gold`: sums by hour.
- `pipeline`: the stream that writes these tables; `session` starts Spark, and reads and writes files.
- `reports`: the report over one period.

Functions take and return DataFrames, so batch jobs and streams share them.
"""
