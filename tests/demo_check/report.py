"""The promises about the report: Spark's counts agree with the log and with the workload."""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib.util
import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, TypeAlias

from gateway.demo.demonstration import Demonstration
from gateway.demo.ledger import QueueName, Sums
from gateway.eventlog.query import ask
from tests.demo_check.comparison import without_incarnation
from tests.demo_check.ledger import SOURCES, Period, count_differences, published_by_each, with_unknown
from tests.demo_check.promises import CheckFailedError, Promises

EXTRA: Final = "pyspark"
"""The module that the extra ``[spark]`` brings."""

_QUEUES: Final = """
SELECT source, object_name, coalesce(sum(((deltas->'messagesPublished')->>'delta')::HUGEINT), 0) FROM log
WHERE class = 'queue' AND (deltas->'messagesPublished') IS NOT NULL GROUP BY ALL
"""
_CONNECTIONS: Final = """
SELECT source, kind, count(*) FROM log WHERE class = 'connection' AND kind IN ('create', 'delete')
GROUP BY ALL
"""
_EVENTS: Final = "SELECT source, event, count(*) FROM log WHERE kind = 'event' GROUP BY ALL"

Rows: TypeAlias = list[dict[str, Any]]


class ReportPromises:
    """The check of the report, made when nothing is written to the log any more, against log and ledger.

    Args:
        promises: reports.
        running: the demonstration, whose gateway has ended.
        folder: for ``report.txt``, ``report.png`` and, in ``report``, the tables as CSV and JSON.
    """

    def __init__(self, promises: Promises, running: Demonstration, folder: Path) -> None:
        self._promises = promises
        self._running = running
        self._folder = folder

    @staticmethod
    def can_be_tried() -> bool:
        """Return whether the extra is installed."""
        return importlib.util.find_spec(EXTRA) is not None

    async def hold(self, period: Period, did: Sums, durable: Collection[QueueName]) -> None:
        """Check that the report of ``period`` counts as the log does, and what the workload ``did`` in it.

        It sums up deltas. So the ledger's messages are those of ``durable`` queues: of one that was made
        again with the broker, what it counted before it was seen first is no delta.

        Raises:
            CheckFailedError: it does not.
            DemonstrationError: it could not be made.
        """
        end = dt.datetime.now(tz=dt.UTC)
        tables = await self._tables(period.begin, end)

        published = _published(tables["queues"])
        self._same("queues", await self._logged(_QUEUES, period.begin, end, named=True), published)
        lasting = published_by_each(did, durable)
        ours = Counter({key: count for key, count in published.items() if key in lasting})
        self._same("the ledger", lasting, with_unknown(lasting, ours))
        self._promises.kept("the report's messages published to each queue are the log's, and the ledger's")

        connections = Counter(
            {
                (row["source"], kind): row[column]
                for row in tables["connections"]
                if row["user"] is None
                for kind, column in (("create", "opened"), ("delete", "ended"))
            }
        )
        self._same("connections", await self._logged(_CONNECTIONS, period.begin, end), connections)
        events: Counter[tuple[str, str]] = Counter()
        for row in tables["events"]:
            events[_source(row["source"]), row["event"]] += row["events"]
        self._same("events", await self._logged(_EVENTS, period.begin, end), events)
        if not all(any(row["source"] == source for row in tables["events"]) for source in SOURCES):
            raise CheckFailedError(f"the report has no event of one of the sources {SOURCES}")
        self._promises.kept("the report's connections, and events by name, are the log's")

    async def _tables(self, begin: dt.datetime, end: dt.datetime) -> dict[str, Rows]:
        self._folder.mkdir(parents=True, exist_ok=True)
        files = self._folder / "report"
        printed = await self._running.command(
            *("analytics", "report", "--from", begin.isoformat(), "--to", end.isoformat()),
            *("--output", str(files), "--plot", str(self._folder / "report.png")),
        )
        await asyncio.to_thread((self._folder / "report.txt").write_text, printed, encoding="utf-8")
        document = await asyncio.to_thread((files / "report.json").read_text, encoding="utf-8")
        tables: dict[str, Rows] = json.loads(document)["tables"]
        return tables

    async def _logged(
        self, sql: str, begin: dt.datetime, end: dt.datetime, *, named: bool = False
    ) -> Counter[tuple[str, str]]:
        """Return counts by source and a second column; ``named``: that column is an object's stable name."""

        def answered() -> Counter[tuple[str, str]]:
            found: Counter[tuple[str, str]] = Counter()
            with ask(self._running.log_folder, sql, after=begin, before=end) as answer:
                for source, what, count in answer.rows:
                    key = without_incarnation(str(what)) if named else str(what)
                    found[_source(source), key] += int(str(count))
            return found

        return await asyncio.to_thread(answered)

    @staticmethod
    def _same(what: str, logged: Counter[tuple[str, str]], reported: Counter[tuple[str, str]]) -> None:
        lines = count_differences(logged, reported)
        if lines or not logged:
            said = "\n".join(f"     {line}" for line in lines or ["there is nothing to compare"])
            raise CheckFailedError(f"the report differs ({what}):\n{said}")


def _source(name: object) -> str:
    """Return the source of a row, or an empty text: some of the gateway's own events have none."""
    return "" if name is None else str(name)


def _published(queues: Rows) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for row in queues:
        if row["published"] is not None:
            found[row["source"], without_incarnation(row["queue"])] += row["published"]
    return found
