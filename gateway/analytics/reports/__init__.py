"""The report over one period of the log, on a terminal, as files and as a page.

The questions (`brokers`, `classes`, `events`, `quality`, `queues`) are functions of DataFrames;
`report` asks them all, `answers` holds the results, `layout` orders the tables and shows them in a terminal,
`page` draws them.
"""
