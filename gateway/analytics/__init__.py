"""Analytics over the event log with Apache Spark: the optional extra ``[spark]``.

Here belong plain functions from DataFrame to DataFrame, which batch jobs and streams share, and the reports
made of them. They read the log's published form (``docs/event-log.md``) and know nothing else of the gateway.
"""
