"""The ledger of the workload, compared with SNMP, JMX and the event log."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from gateway.demo.demonstration import AGENT_SOURCE, SHOP, SOURCE
from gateway.demo.ledger import SERVER_NAMED, Act, Ledger, QueueName, Sums
from gateway.demo.snmp_commands import SnmpCommands, TrapReceiver
from gateway.eventlog.query import ask
from tests.components.jmx_client import JmxClient
from tests.demo_check.comparison import without_incarnation
from tests.demo_check.promises import Promises

SOURCES: Final = (SOURCE, AGENT_SOURCE)

_COUNTER: Final = "messagesPublished"
_CONNECTION_ACTS: Final = (Act.OPENED, Act.CLOSED)
_RECORDS: Final = {
    ("connection", "create"): Act.OPENED,
    ("connection", "delete"): Act.CLOSED,
    ("queue", "create"): Act.DECLARED,
    ("queue", "delete"): Act.DELETED,
}
_EVENTS: Final = {
    "connectionOpened": Act.OPENED,
    "connectionClosed": Act.CLOSED,
    "queueCreated": Act.DECLARED,
    "queueDeleted": Act.DELETED,
}

_LAST_VALUES: Final = f"""
SELECT source, object_name, arg_max(("values"->>'{_COUNTER}')::UBIGINT, seq) FROM log
WHERE class = 'queue' AND ("values"->>'{_COUNTER}') IS NOT NULL GROUP BY ALL
"""  # noqa: S608  a constant
_LIVES: Final = """
SELECT lived.source, lived.class, lived.kind, lived.object_name, named.client FROM log AS lived
LEFT JOIN (
  SELECT object_id, any_value("values"->>'providedName') AS client FROM log
  WHERE class = 'connection' GROUP BY ALL
) AS named USING (object_id)
WHERE lived.seq > $since AND lived.kind IN ('create', 'delete') AND lived.class IN ('connection', 'queue')
"""
_NAMED_EVENTS: Final = """
SELECT source, event, "values"->>'vhost', "values"->>'name', "values"->>'clientName' FROM log
WHERE seq > $since AND kind = 'event' AND event IN (SELECT unnest($names))
"""
_EVENT_TEXTS: Final = "SELECT event_id, text FROM log WHERE kind = 'event' AND seq > $since"
_DELETES: Final = """
SELECT source, package || ':' || class, object_name FROM log WHERE kind = 'delete' AND seq > $since
"""
PUBLISHED: Final = f"""
WITH recorded AS (
  SELECT source, object_name, object_id, seq, kind, (deltas->'{_COUNTER}') AS delta,
    ("values"->>'{_COUNTER}')::HUGEINT AS counted
  FROM log WHERE class = 'queue' AND seq > $since AND kind IN ('create', 'update')
), queues AS (
  SELECT source, object_name, coalesce(sum((delta->>'delta')::HUGEINT), 0) AS deltas,
    count(*) FILTER ((delta->>'reset') = 'true') AS resets,
    bool_or(kind = 'create') AS is_new,
    coalesce(arg_min(if(delta IS NULL, counted, 0), seq) FILTER (counted IS NOT NULL), 0) AS first
  FROM recorded GROUP BY source, object_name, object_id
)
SELECT source, object_name, sum(deltas + CASE WHEN is_new THEN first ELSE 0 END), sum(resets)
FROM queues GROUP BY ALL
"""  # noqa: S608  a constant
"""The query of the messages published since a record, and of resets, by source and queue.

The first value of a counter may have no delta; it counts too if the queue was made in the period. All later
values are in the deltas. Each segment's head repeats them in snapshots, which are no messages.
"""

_Key = TypeVar("_Key", bound=Hashable)
_Of: TypeAlias = tuple[str, str]
_Reported = tuple[str, Act, str]
"""A source, an act, and the connection or queue concerned, by its name in the ledger."""


@dataclass(frozen=True, slots=True)
class Period:
    """The period of a comparison, begun when the workload was at rest.

    Attributes:
        begin: its begin, by this machine's clock.
        seq: of the last record in the log by then.
        sums: of the ledger by then.
        deleted: rows of agDeletedTable by then.
    """

    begin: dt.datetime
    seq: int
    sums: Sums
    deleted: frozenset[str]


class LedgerPromises:
    """The check of others against the ledger; the workload is at rest meanwhile.

    Args:
        promises: waits and reports.
        ledger: of the workload.
        log: folder of the event log.
        snmp: shows counters, and recently deleted objects.
        numbers: of the sources in SNMP, by name.
        client: shows counters, and has listened to the MBean of the gateway since before `begins`.
        traps: receives the notifications.
    """

    def __init__(
        self,
        promises: Promises,
        ledger: Ledger,
        log: Path,
        *,
        snmp: SnmpCommands,
        numbers: Mapping[str, int],
        client: JmxClient,
        traps: TrapReceiver,
    ) -> None:
        self._promises = promises
        self._ledger = ledger
        self._log = log
        self._snmp = snmp
        self._names = {str(number): name for name, number in numbers.items()}
        self._client = client
        self._traps = traps

    async def begins(self) -> Period:
        """Return the period that begins now, when all have counted the messages published until now.

        Raises:
            CheckFailedError: a count is missing.
        """
        await self._counters_agree("SNMP", self._counters_in_snmp)
        await self._counters_agree("JMX", self._counters_in_jmx)
        await self._counters_agree("the event log", self._counters_in_log)
        ((seq,),) = await self._asked("SELECT max(seq) FROM log")
        deleted = await asyncio.to_thread(self._snmp.walk, "agDeletedTable")
        return Period(dt.datetime.now(tz=dt.UTC), int(str(seq)), self._ledger.sums(), frozenset(deleted))

    async def holds(self, period: Period) -> None:
        """Check that all report the same beginnings and ends in ``period``, and count all messages.

        Raises:
            CheckFailedError: a report differs.
        """
        did = _did(self._ledger.sums() - period.sums)
        await self._agree(
            "ledger: connections and queues that came and went, in the event log", did, self._lives, period
        )
        await self._agree("ledger: events of them, in the event log", did, self._events, period)
        await self._deletes_are_in_snmp(period)
        await self._events_are_reported_alike(period)
        # What nobody has read when the broker restarts is lost.
        await self._counters_agree("the event log, before the broker restarts", self._counters_in_log)

    async def adds_up(self, period: Period) -> None:
        """Check that the counters' increments, over resets too, are the messages published in ``period``.

        Those of the source that reads an agent are no more: that the broker restarted is not proven to it.

        Raises:
            CheckFailedError: it is not, or no counter began again.
        """
        expected = published_by_each(self._ledger.sums() - period.sums)

        async def problems() -> list[str]:
            found: Counter[tuple[str, str]] = Counter()
            resets: Counter[str] = Counter()
            for source, name, delta, begun in await self._asked(PUBLISHED, since=period.seq):
                key = (str(source), without_incarnation(str(name)))
                if key in expected:
                    found[key] += int(str(delta))
                    resets[str(source)] += int(str(begun))
            lines = count_differences(expected, with_unknown(expected, found))
            return lines + [f"{source}: no counter began again" for source in SOURCES if not resets[source]]

        await self._promises.until_none(
            "ledger: messages published, as the deltas of the event log add up, over the restart", problems
        )

    def _explained(self, lines: list[str]) -> list[str]:
        """Add a possible cause of errors of the ledger itself: the unknown outcome of a lost request."""
        if not lines or not self._ledger.interruptions:
            return lines
        return [f"the workload was interrupted, lastly by {self._ledger.last_interruption}", *lines]

    # -- counters

    async def _counters_agree(
        self, who: str, counters: Callable[[], Awaitable[Mapping[tuple[str, str], int]]]
    ) -> None:
        async def problems() -> list[str]:
            expected = published_by_each(self._ledger.sums())
            found = await counters()
            ours = {key: count for key, count in found.items() if key in expected}
            return self._explained(count_differences(expected, Counter(ours)))

        await self._promises.until_none(f"ledger: messages published to each queue, in {who}", problems)

    async def _counters_in_snmp(self) -> Mapping[tuple[str, str], int]:
        rows = await asyncio.to_thread(self._snmp.walk, "rmqQueueTable")
        return {
            (self._names[index.split(".")[0]], without_incarnation(cells["rmqQueueRowFullName"])): int(
                cells["rmqQueueMessagesPublished"]
            )
            for index, cells in rows.items()
            if "rmqQueueMessagesPublished" in cells
        }

    async def _counters_in_jmx(self) -> Mapping[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for source in SOURCES:
            for name in await self._client.names(
                f"amqp.gateway:source={source},package=rabbitmq,type=queue,*"
            ):
                attributes = await self._client.read(name)
                if attributes[_COUNTER].value is not None:
                    queue = without_incarnation(attributes["StableName"].value)
                    found[source, queue] = int(attributes[_COUNTER].value)
        return found

    async def _counters_in_log(self) -> Mapping[tuple[str, str], int]:
        return {
            (str(source), without_incarnation(str(name))): int(str(count))
            for source, name, count in await self._asked(_LAST_VALUES)
        }

    # -- what came and went

    async def _agree(
        self,
        promise: str,
        did: Counter[tuple[Act, str]],
        reported: Callable[[Period], Awaitable[Counter[_Reported]]],
        period: Period,
    ) -> None:
        expected = Counter({(source, *key): count for source in SOURCES for key, count in did.items()})

        async def problems() -> list[str]:
            lines = self._explained(count_differences(expected, await reported(period)))
            return lines or ([] if did else ["the workload did nothing"])

        await self._promises.until_none(promise, problems)

    async def _lives(self, period: Period) -> Counter[_Reported]:
        found: Counter[_Reported] = Counter()
        for source, of, kind, name, client in await self._asked(_LIVES, since=period.seq):
            called = str(client) if of == "connection" else without_incarnation(str(name))
            if _is_ours(called):
                found[str(source), _RECORDS[str(of), str(kind)], _counted(called)] += 1
        return found

    async def _events(self, period: Period) -> Counter[_Reported]:
        found: Counter[_Reported] = Counter()
        rows = await self._asked(_NAMED_EVENTS, since=period.seq, names=list(_EVENTS))
        for source, event, vhost, name, client in rows:
            act = _EVENTS[str(event)]
            called = str(client) if act in _CONNECTION_ACTS else f"{vhost}|{name}"
            if _is_ours(called):
                found[str(source), act, _counted(called)] += 1
        return found

    async def _deletes_are_in_snmp(self, period: Period) -> None:
        async def problems() -> list[str]:
            logged = Counter(await self._asked(_DELETES, since=period.seq))
            rows = await asyncio.to_thread(self._snmp.walk, "agDeletedTable")
            shown: Counter[tuple[object, ...]] = Counter(
                (self._names[cells["agDeletedSource"]], cells["agDeletedClass"], cells["agDeletedFullName"])
                for index, cells in rows.items()
                if index not in period.deleted
            )
            return count_differences(logged, shown) or ([] if logged else ["nothing was deleted"])

        await self._promises.until_none(
            "SNMP's table of deleted objects has the ends that the log has", problems
        )

    async def _events_are_reported_alike(self, period: Period) -> None:
        async def problems() -> list[str]:
            rows = await self._asked(_EVENT_TEXTS, since=period.seq)
            logged = {str(event_id): str(text) for event_id, text in rows}
            received = await asyncio.to_thread(self._traps.notifications)
            traps = {trap.values.get("agEventId"): trap.values.get("agEventText") for trap in received}
            notified = {
                str(one["data"]["eventId"]): str(one["message"])
                for one in self._client.notifications
                if "eventId" in (one.get("data") or {})  # operations have data, too
            }
            lines = (
                [f"the log has {len(rows)} events with {len(logged)} ids"] if len(rows) > len(logged) else []
            )
            for event_id, text in logged.items():
                if not traps.get(event_id) == notified.get(event_id) == text:
                    reported = (traps.get(event_id), notified.get(event_id))
                    lines.append(f"event {event_id} is {text!r} in the log, {reported} as trap and in JMX")
            return lines or ([] if logged else ["there was no event"])

        await self._promises.until_none(
            "every event has one id and one text: in the log, as a trap, as a notification", problems
        )

    async def _asked(self, sql: str, **parameters: object) -> list[tuple[object, ...]]:
        def answered() -> list[tuple[object, ...]]:
            with ask(self._log, sql, parameters) as answer:
                return list(answer.rows)

        return await asyncio.to_thread(answered)


def published_by_each(sums: Sums, queues: Collection[QueueName] | None = None) -> Counter[tuple[str, str]]:
    """Return the number of published messages that each source should report: by source and stable name.

    Args:
        sums: of the ledger.
        queues: those that are asked for; ``None``: all.
    """
    return Counter(
        {
            (source, f"{queue.vhost}|{queue.name}"): count
            for source in SOURCES
            for queue, count in sums.published.items()
            if queues is None or queue in queues
        }
    )


def _did(sums: Sums) -> Counter[tuple[Act, str]]:
    """Return the numbers of beginnings and ends, by the names that the log uses."""
    return Counter(
        {
            (act, name if act in _CONNECTION_ACTS else f"{vhost}|{name}"): count
            for (act, vhost, name), count in sums.lives.items()
        }
    )


def _is_ours(called: str) -> bool:
    """Return whether the workload made it: a queue in its virtual hosts, or a connection with such a name."""
    return called.startswith(tuple(f"{vhost}{mark}" for vhost in SHOP for mark in " |"))


def _counted(called: str) -> str:
    vhost, mark, name = called.partition("|")
    return f"{vhost}|{SERVER_NAMED}" if mark and name.startswith(SERVER_NAMED[:-1]) else called


def with_unknown(expected: Counter[_Of], found: Counter[_Of]) -> Counter[_Of]:
    """Return counts by source and name; of one that reads an agent what is missing is added.

    AM2 does not say that counters began again, so what they counted around a restart of the broker is not
    known. More than was published would be wrong there, too.
    """
    return Counter(
        {
            (source, name): expected[source, name]
            if source == AGENT_SOURCE and count < expected[source, name]
            else count
            for (source, name), count in found.items()
        }
    )


def count_differences(expected: Counter[_Key], found: Counter[_Key]) -> list[str]:
    """One line for each count in which two differ."""
    return [
        f"{key}: {found[key]}, should be {expected[key]}"
        for key in sorted(expected.keys() | found.keys(), key=str)
        if found[key] != expected[key]
    ]
