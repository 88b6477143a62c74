"""The event log: everything seen, appended as JSON lines, committed in groups, compacted to Parquet.

Here belong the form of a record, what of the feed is recorded, the files with their recovery, and reading
them back. Not here: Spark (`gateway.analytics`, which reads the published form only) and processes
(`gateway.service`). The form is published: `docs/event-log.md`.
"""
