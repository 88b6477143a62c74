"""``make demo-check``: a check of the demonstration with the commands that an operator has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gateway.demo.broker import PrivateBroker
from gateway.demo.demonstration import AGENT_SOURCE, SOURCE, Demonstration
from gateway.demo.install import patiently
from gateway.demo.ledger import Ledger
from gateway.demo.snmp_commands import SnmpCommands, Table
from gateway.demo.workload import Workload
from tests.components.jmx_client import JmxClient, client_of
from tests.demo_check import comparison
from tests.demo_check.artifacts import Artifacts
from tests.demo_check.comparison import AtRest, View, differences, rows_by_name, shown
from tests.demo_check.events import EventPromises
from tests.demo_check.jmx import JmxPromises
from tests.demo_check.ledger import LedgerPromises, Period
from tests.demo_check.operations import OperationPromises
from tests.demo_check.promises import DEADLINE_SECONDS, CheckFailedError, Promises
from tests.demo_check.report import ReportPromises

GATEWAY_BEAN = "amqp.gateway:type=Gateway"
TRAFFIC_SECONDS, QUICK_SECONDS = 12.0, 6.0
"""The time for which the workload goes on between comparisons: some visitors come, all queues are used."""
BOOKS = "books.declared.by.another.client"

VIEWS = {
    "virtual hosts against rabbitmqctl": View(
        "rmqVhost", {"tracing": "Tracing"}, comparison.vhosts_by_rabbitmqctl
    ),
    "exchanges against rabbitmqctl": View(
        "rmqExchange", {"type": "Type", "durable": "Durable"}, comparison.exchanges_by_rabbitmqctl
    ),
    "queues against rabbitmqctl": View(
        "rmqQueue",
        {
            "durable": "Durable",
            "messages": "Messages",
            "ready": "MessagesReady",
            "consumers": "Consumers",
        },
        comparison.queues_by_rabbitmqctl,
    ),
    "queue counters against the HTTP API": View(
        "rmqQueue",
        {"published": "MessagesPublished", "acknowledged": "MessagesAcknowledged", "type": "Type"},
        comparison.queues_by_http,
    ),
    "nodes against the HTTP API": View(
        "rmqNode", {"running": "Running", "process": "OsProcess"}, comparison.nodes_by_http
    ),
    "connections against the HTTP API": View(
        "rmqConnection",
        {"user": "User", "given": "ProvidedName", "port": "PeerPort"},
        comparison.connections_by_http,
    ),
    "channels against the HTTP API": View(
        "rmqChannel",
        {"user": "User", "number": "Number", "prefetch": "PrefetchCount", "consumers": "Consumers"},
        comparison.channels_by_http,
    ),
    "consumers against the HTTP API": View(
        "rmqConsumer",
        {"acknowledging": "Acknowledging", "status": "ActivityStatus"},
        comparison.consumers_by_http,
    ),
    "bindings against rabbitmqctl": View(
        "rmqBinding", {"key": "RoutingKey"}, comparison.bindings_by_rabbitmqctl
    ),
}
TABLES = (
    *("rmqNode", "rmqVhost", "rmqQueue", "rmqExchange", "rmqConnection"),
    *("rmqChannel", "rmqConsumer", "rmqBinding"),
)

Result = TypeVar("Result")
Publish = Callable[[str], None]


class DemonstrationCheck:
    """The check of everything that the demonstration promises.

    Args:
        demonstration: running, with the agent as a process of its own.
        publish: called with one line for each promise kept.
        folder: for the files of an operator's view: walks, log, JConsole's pictures and the report; ``None``:
            not kept, and JConsole is not started.
        quick: let the workload go on for less long, and do not start JConsole.
    """

    def __init__(
        self,
        demonstration: Demonstration,
        publish: Publish,
        folder: Path | None = None,
        *,
        quick: bool = False,
    ) -> None:
        assert demonstration.broker is not None
        assert demonstration.snmp is not None
        self._demonstration = demonstration
        self._broker: PrivateBroker = demonstration.broker
        self._snmp: SnmpCommands = demonstration.snmp
        self._promises = Promises(publish)
        self._publish = publish
        self._artifacts = None if folder is None else Artifacts(folder, demonstration, pictures=not quick)
        self._traffic_seconds = QUICK_SECONDS if quick else TRAFFIC_SECONDS
        self._sources: dict[str, int] = {}

    async def run(self) -> None:
        """Check everything.

        Raises:
            CheckFailedError: for the first promise that is not kept.
        """
        await self._sources_synchronised()
        await self._counters_move()
        workload = self._demonstration.workload
        assert workload is not None
        audit = workload.topology.audit
        await workload.pause(DEADLINE_SECONDS)
        views = {name: AtRest(view, self._broker) for name, view in VIEWS.items()}
        for name, at_rest in views.items():
            for source in (SOURCE, AGENT_SOURCE):
                await self._agrees_with_broker(name, at_rest, source)
        await self._tables_have_the_same_rows()
        await self._sources_agree()
        await self._another_clients_queue_comes_and_goes()
        assert self._demonstration.traps is not None
        async with await client_of(self._demonstration) as client:
            await client.listen(GATEWAY_BEAN)
            jmx = JmxPromises(self._promises, client, self._snmp, self._sources)
            await jmx.agree_with_broker(views)
            for prefix in TABLES:
                await jmx.has_the_rows_of_snmp(prefix)
            await jmx.has_the_right_java_types(f"{audit.vhost}|{audit.name}")
            ledger = self._ledger_promises(workload.ledger, client)
            period = await ledger.begins()
            traps = self._demonstration.traps
            await EventPromises(self._promises, client, traps, self._snmp, self._broker).run()
            operations = OperationPromises(self._promises, self._demonstration, client, self._sources)
            await operations.run()
            workload.resume()
            if self._artifacts is not None:
                self._publish("  ..  saving what an operator sees, in SNMP, JConsole and the log")
                with patiently(self._publish, "  ..  saving it"):
                    await self._artifacts.take(operations.sessions)
            await self._the_workload_goes_on(workload)
            await ledger.holds(period)
            await self._the_broker_restarts()
            await self._the_workload_goes_on(workload)
            await ledger.adds_up(period)
            await self._a_stopped_agent_makes_its_rows_stale()
            await jmx.shows_a_stopped_agent_as_stale()
        await self._nothing_is_left_on_the_broker()
        await self._the_report_counts_the_same(period, workload)

    async def _sources_synchronised(self, promise: str = "both sources are synchronised") -> None:
        async def problems() -> list[str]:
            rows = await self._walk("agSourceTable")
            self._sources = {cells["agSourceName"]: int(index) for index, cells in rows.items()}
            missing = [f"no source {name}" for name in (SOURCE, AGENT_SOURCE) if name not in self._sources]
            return missing + [
                "source {agSourceName} is {agSourceState}: {agSourceDetail}".format_map(cells)
                for cells in rows.values()
                if cells["agSourceState"] != "synchronised"
            ]

        await self._promises.until_none(promise, problems)

    async def _counters_move(self) -> None:
        async def total() -> int:
            rows = await self._walk("rmqQueueMessagesPublished")
            return sum(int(cells["rmqQueueMessagesPublished"]) for cells in rows.values())

        before = await total()

        async def problems() -> list[str]:
            now = await total()
            return [] if now > before > 0 else [f"rmqQueueMessagesPublished was {before} in all, is {now}"]

        async def started() -> list[str]:
            nonlocal before
            before = before or await total()
            return [] if before else ["no queue has a publish counter"]

        await self._promises.until_none("publish counters are there", started)
        await self._promises.until_none("publish counters move", problems)

    async def _agrees_with_broker(self, name: str, at_rest: AtRest, source: str) -> None:
        view = at_rest.view

        async def problems() -> list[str]:
            table = await self._walk(f"{view.table}Table")
            found = shown(table, view, self._sources[source], view.table)
            return await asyncio.to_thread(at_rest.differences, found)

        await self._promises.until_none(f"source {source}: {name}", problems)

    async def _tables_have_the_same_rows(self) -> None:
        async def problems() -> list[str]:
            walked = await self._walk("rmqQueueTable")
            printed = await asyncio.to_thread(self._snmp.table, "rmqQueueTable")
            in_walk = sorted(cells["rmqQueueRowFullName"] for cells in walked.values())
            in_table = sorted(row["rmqQueueRowFullName"].strip('"') for row in printed)
            return [] if in_walk == in_table else [f"snmpwalk has {in_walk}, snmptable {in_table}"]

        await self._promises.until_none("snmptable shows what snmpwalk does", problems)

    async def _sources_agree(self) -> None:
        async def problems() -> list[str]:
            tables = {prefix: await self._walk(f"{prefix}Table") for prefix in TABLES}
            lines: list[str] = []
            for prefix in ("rmqVhost", "rmqQueue", "rmqExchange"):
                one, other = (
                    rows_by_name(tables, prefix, self._sources[source]) for source in (SOURCE, AGENT_SOURCE)
                )
                lines += [f"{prefix}: {line}" for line in differences(one, other)]
                lines += [] if one else [f"{prefix}: there is nothing to compare"]
            return lines

        await self._promises.until_none("the two sources' walks agree but for the source", problems)

    def _ledger_promises(self, ledger: Ledger, client: JmxClient) -> LedgerPromises:
        assert self._demonstration.traps is not None
        return LedgerPromises(
            self._promises,
            ledger,
            self._demonstration.log_folder,
            snmp=self._snmp,
            numbers=self._sources,
            client=client,
            traps=self._demonstration.traps,
        )

    async def _the_workload_goes_on(self, workload: Workload) -> None:
        """Let the workload go on for a while; afterwards it is at rest again."""
        workload.resume()
        before = workload.ledger.sums()
        begin = asyncio.get_running_loop().time()

        async def problems() -> list[str]:
            done = workload.ledger.sums() - before
            idle = [queue.name for queue in workload.topology.all_queues if not done.published[queue]]
            early = asyncio.get_running_loop().time() < begin + self._traffic_seconds
            return idle or (["it only began"] if early else [])

        await self._promises.until_none("the workload publishes to all of its queues", problems)
        await workload.pause(DEADLINE_SECONDS)

    async def _the_broker_restarts(self) -> None:
        """Restart the broker in the same process; statistics and connections begin again."""

        async def still_synchronised() -> list[str]:
            return [
                f"source {cells['agSourceName']} is synchronised"
                for cells in (await self._walk("agSourceTable")).values()
                if cells["agSourceState"] == "synchronised"
            ]

        await asyncio.to_thread(self._broker.rabbitmqctl, "stop_app")
        await self._promises.until_none("a broker that stops is told of both sources", still_synchronised)
        await asyncio.to_thread(self._broker.rabbitmqctl, "start_app")
        await self._sources_synchronised("and synchronised again when it is back")

    async def _another_clients_queue_comes_and_goes(self) -> None:
        async def indexes() -> list[str]:
            rows = await self._walk("rmqQueueName")
            return [index for index, cells in rows.items() if cells["rmqQueueName"] == BOOKS]

        async def missing() -> list[str]:
            return [] if len(await indexes()) == len(self._sources) else [f"no row for {BOOKS} yet"]

        async def lingering() -> list[str]:
            return [f"{BOOKS} still has the row {index}" for index in await indexes()]

        await asyncio.to_thread(self._queue, "PUT")
        await self._promises.until_none("a queue declared by another client appears", missing)
        before = sorted(await indexes())
        await asyncio.to_thread(self._queue, "DELETE")
        await self._promises.until_none("and goes when it is deleted", lingering)
        await asyncio.to_thread(self._queue, "PUT")
        await self._promises.until_none("and comes back", missing)
        if sorted(await indexes()) != before:
            raise CheckFailedError(f"{BOOKS} had the rows {before}, has now {sorted(await indexes())}")
        self._promises.kept("with the row numbers that it had before")
        await asyncio.to_thread(self._queue, "DELETE")

    def _queue(self, method: str) -> None:
        with self._broker.http() as client:
            body = {"durable": True} if method == "PUT" else None
            client.request(method, f"queues/%2F/{BOOKS}", json=body).raise_for_status()

    async def _a_stopped_agent_makes_its_rows_stale(self) -> None:
        await self._demonstration.stop_process("agent")

        async def problems() -> list[str]:
            rows = await self._walk("rmqQueueRowStale")
            wrong: list[str] = []
            for index, cells in rows.items():
                stale = cells["rmqQueueRowStale"] == "true"
                if stale != (index.split(".")[0] == str(self._sources[AGENT_SOURCE])):
                    wrong.append(f"row {index} is {'stale' if stale else 'shown as current'}")
            return wrong or ([] if rows else ["no rows are left"])

        await self._promises.until_none("stopping the agent turns its rows stale, and no others", problems)

    async def _the_report_counts_the_same(self, period: Period, workload: Workload) -> None:
        running = self._demonstration
        folder = running.folder if self._artifacts is None else self._artifacts.folder
        report = ReportPromises(self._promises, running, folder)
        if report.can_be_tried():
            self._publish("  ..  making the report with Spark")
            did = workload.ledger.sums() - period.sums
            with patiently(self._publish, "  ..  the report"):
                await report.hold(period, did, workload.topology.durable)
        else:
            self._publish("  ..  the report is not tried: the extra [spark] is not installed")

    async def _nothing_is_left_on_the_broker(self) -> None:
        await self._demonstration.stop_process("gateway")

        async def problems() -> list[str]:
            queues = await asyncio.to_thread(self._own_queues)
            return [f"the queue {queue} is left" for queue in queues]

        await self._promises.until_none("nothing of the gateway is left on the broker", problems)

    def _own_queues(self) -> list[str]:
        vhosts = ("/", "amqp-gateway")
        printed = [
            self._broker.rabbitmqctl("--quiet", "list_queues", "-p", vhost, "name") for vhost in vhosts
        ]
        return [line for text in printed for line in text.splitlines() if line.startswith("amqp-gateway.")]

    async def _walk(self, name: str) -> Table:
        return await asyncio.to_thread(self._snmp.walk, name)
