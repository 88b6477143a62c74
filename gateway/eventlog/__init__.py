"""The event log: all observations, appended as JSON lines, committed in groups, compacted to Parquet.

Here belong the form of a record, the selection of records from the feed, the files with their recovery, and
reading them back. Not here: Spark (`gateway.analytics`, which reads the published form only) and processes
(`gateway.service`). The form is published: `docs/event-log.md`.
"""
