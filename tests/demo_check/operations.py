"""The promises about operations: a set or call by any north takes effect on the broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractQueue
from yarl import URL

from gateway.demo.demonstration import AGENT_SOURCE, JMX_USER, OPERATOR, SOURCE, Demonstration
from gateway.demo.snmp_commands import SnmpCommandError, SnmpCommands, Table
from gateway.links.amqp_connection import connect_once
from gateway.service.diagnostics.feed_session import principal
from gateway.service.processes.exit_codes import ExitCode
from tests.components.jmx_client import JmxClient, JmxClientError, client_of
from tests.demo_check.comparison import definitions_by_http
from tests.demo_check.promises import CheckFailedError, Promises
from tests.demo_check.record import Journal, RecordedPromises
from tests.demo_check.transcript import Transcript

VHOST: Final = "shop"
RETURNS: Final = "returns"
"""A queue of the check's own, in the virtual host ``/``: the workload's ledger knows nothing of it."""
QUEUE: Final = f"/|{RETURNS}"
CLERK: Final = "a clerk of the check"
MESSAGES: Final = 5
PURGED: Final = {"messages": MESSAGES}
"""The outputs of a purge of the filled queue."""
NO_LIMIT: Final = -1
CORE, RABBITMQ = "AMQP-GATEWAY-MIB", "AMQP-GATEWAY-RABBITMQ-MIB"
SOURCES: Final = (SOURCE, AGENT_SOURCE)
SNMP, JMX = f"snmp:{OPERATOR}", f"jmx:{OPERATOR}"
COMMAND_LINE: Final = str(principal())
LIMITS: Final = ("list_vhost_limits", "-p", VHOST, "--quiet")
"""The command that prints the limits as JSON, or nothing where there are none."""
LOGGED: Final = (
    "SELECT principal, coalesce(method, operation) AS what, object_name, former, found, outcome FROM log"
    " WHERE kind = 'operation' AND state = 'ended' AND coalesce(text, '') NOT LIKE '%nothing was sent%'"
    " ORDER BY seq"
)


@dataclass(frozen=True, slots=True)
class ReturnsQueue:
    """The queue that is emptied, seen by an AMQP client."""

    channel: AbstractChannel
    queue: AbstractQueue

    async def fill(self) -> None:
        """Put `MESSAGES` into it; they are confirmed."""
        for _ in range(MESSAGES):
            await self.channel.default_exchange.publish(aio_pika.Message(b"back"), RETURNS)

    async def holds(self, messages: int) -> None:
        """Check that the queue has so many messages, as the broker counts them.

        Raises:
            CheckFailedError: it has not.
        """
        found = (await self.channel.declare_queue(RETURNS, passive=True)).declaration_result.message_count
        if found != messages:
            raise CheckFailedError(f"the queue {RETURNS} has {found} messages, should have {messages}")


class OperationPromises:
    """The check of operations: changes the broker through both sources and every north, and restores it.

    Args:
        promises: waits and reports.
        running: the demonstration; its workload is at rest.
        client: of a JMX user who may only read; listens to the MBean of the gateway already.
        numbers: of the sources in SNMP, by name.

    Attributes:
        sessions: the commands and output of an operator's session, by the name of a file.
    """

    def __init__(
        self, promises: Promises, running: Demonstration, client: JmxClient, numbers: Mapping[str, int]
    ) -> None:
        assert running.broker is not None
        assert running.snmp is not None
        assert running.operator_snmp is not None
        self._promises = promises
        self._running = running
        self._broker = running.broker
        self._client = client
        self._reading: SnmpCommands = running.snmp
        self._writing: SnmpCommands = running.operator_snmp
        self._numbers = numbers
        self._journal = Journal()
        self._snmp_session, self._cli_session = Transcript(), Transcript()
        self.sessions = {"snmpset.txt": self._snmp_session, "commands.txt": self._cli_session}

    async def run(self) -> None:
        """Check everything.

        Raises:
            CheckFailedError: for the first promise that is not kept.
        """
        recorded = RecordedPromises(self._promises, self._running, self._client, self._reading)
        mark = await recorded.mark()
        async with await client_of(self._running, OPERATOR) as java, self._a_queue() as returns:
            await self._snmpset_changes_a_limit()
            await self._what_is_written_back_changes_nothing()
            await self._java_changes_a_limit(java)
            await self._the_table_of_commands_purges(returns)
            await self._java_purges(java, returns)
            await self._commands_change_and_purge(returns)
            await self._what_no_rule_allows_is_refused(java, returns)
        await recorded.hold(mark, self._journal, written_back=len(SOURCES))
        printed = await self._running.command("log", "query", LOGGED)
        self._cli_session.add(("amqp-gateway", "log", "query", LOGGED), printed)

    # -- limits

    async def _snmpset_changes_a_limit(self) -> None:
        index = await self._row("rmqVhost", SOURCE, VHOST)
        await self._snmpset(f"{RABBITMQ}::rmqVhostMaxConnections.{index}", "i", "500")
        self._journal.has_set(SNMP, SOURCE, VHOST, {"maxConnections": (NO_LIMIT, 500)})
        printed = await self._limits_are({"max-connections": 500})
        self._snmp_session.add(("rabbitmqctl", *LIMITS), printed)
        self._promises.kept("snmpset changes a limit of a virtual host, rabbitmqctl confirms it")
        await self._is_shown("maxConnections", 500)

    async def _what_is_written_back_changes_nothing(self) -> None:
        """Set every column that SET can write to its value from a walk, as a backup tool does it."""
        before = await asyncio.to_thread(definitions_by_http, self._broker)
        columns = await asyncio.to_thread(self._reading.writable, "rmqVhostEntry")
        for source in SOURCES:
            index = await self._row("rmqVhost", source, VHOST)
            cells = (await self._walk("rmqVhostTable"))[index]
            assignments = [(f"{column}.{index}", "=", cells[column]) for column in columns if column in cells]
            await asyncio.to_thread(self._writing.set, *(word for one in assignments for word in one))
        if await asyncio.to_thread(definitions_by_http, self._broker) != before:
            raise CheckFailedError("what was written back as it was walked has changed the broker")
        self._promises.kept(f"{len(columns)} columns written back as they were walked change nothing")

    async def _java_changes_a_limit(self, java: JmxClient) -> None:
        await java.set(_vhost(AGENT_SOURCE), "maxQueues", 200)
        self._journal.has_set(JMX, AGENT_SOURCE, VHOST, {"maxQueues": (NO_LIMIT, 200)})
        await self._limits_are({"max-connections": 500, "max-queues": 200})
        self._promises.kept("a Java client does, through the agent of its own process")
        await self._is_shown("maxQueues", 200)
        former = {"maxConnections": 500, "maxQueues": 200}
        done = await java.set_all(_vhost(SOURCE), dict.fromkeys(former, NO_LIMIT))
        changes = {name: (value, NO_LIMIT) for name, value in former.items()}
        self._journal.has_set(JMX, SOURCE, VHOST, changes)
        if sorted(done) != sorted(former):
            raise CheckFailedError(f"setAttributes says that it has set {done}")
        await self._limits_are({})
        self._promises.kept("and takes both limits away at once, rabbitmqctl confirms it")

    async def _limits_are(self, expected: dict[str, int]) -> str:
        """Check that the limits are set as soon as the operation has ended; return rabbitmqctl's output."""
        printed = await asyncio.to_thread(self._broker.rabbitmqctl, *LIMITS)
        if json.loads(printed.strip() or "{}") != expected:
            raise CheckFailedError(f"rabbitmqctl has the limits {printed} of {VHOST}, should have {expected}")
        return printed

    async def _is_shown(self, attribute: str, value: int) -> None:
        column = f"rmqVhost{attribute[0].upper()}{attribute[1:]}"

        async def problems() -> list[str]:
            lines: list[str] = []
            for source in SOURCES:
                index = await self._row("rmqVhost", source, VHOST)
                in_snmp = (await self._walk(column))[index].get(column, "")
                in_jmx = (await self._client.read(_vhost(source)))[attribute].value
                if (in_snmp, in_jmx) != (str(value), value):
                    lines.append(f"{attribute} of {source} is {in_snmp!r} in SNMP, {in_jmx!r} in JMX")
            return lines

        await self._promises.until_none("SNMP and JMX show it, of both sources", problems)

    # -- a queue

    @asynccontextmanager
    async def _a_queue(self) -> AsyncIterator[ReturnsQueue]:
        """Provide the queue, shown by both sources; it is deleted behind the block."""
        connection = await connect_once(URL(self._broker.amqp_url()), {"connection_name": CLERK})
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(RETURNS, durable=True)
            try:

                async def missing() -> list[str]:
                    shown = [await self._client.names(_queue(source)) for source in SOURCES]
                    rows = await self._walk("rmqQueueRowFullName")
                    count = sum(cells["rmqQueueRowFullName"] == QUEUE for cells in rows.values())
                    return [] if all(shown) and count == len(SOURCES) else [f"{QUEUE} is not shown yet"]

                await self._promises.until_none("a queue to be emptied is shown by both sources", missing)
                yield ReturnsQueue(channel, queue)
            finally:
                await queue.delete(if_unused=False, if_empty=False)

    async def _the_table_of_commands_purges(self, returns: ReturnsQueue) -> None:
        await returns.fill()
        await self._call("purge-returns", AGENT_SOURCE, "purge", "applied")
        await returns.holds(0)
        self._promises.kept("a purge through SNMP's table of commands empties it")

    async def _java_purges(self, java: JmxClient, returns: ReturnsQueue) -> None:
        await returns.fill()
        await java.invoke(_queue(SOURCE), "purge")
        self._journal.has_called(JMX, SOURCE, QUEUE, "purge", "applied", PURGED)
        await returns.holds(0)
        self._promises.kept("and so does one through JMX")

    async def _commands_change_and_purge(self, returns: ReturnsQueue) -> None:
        vhost, queue = f"{AGENT_SOURCE}/vhost/{VHOST}", f"{SOURCE}/queue/{QUEUE}"
        await returns.fill()
        await self._command("set", vhost, "maxConnections=300")
        self._journal.has_set(COMMAND_LINE, AGENT_SOURCE, VHOST, {"maxConnections": (NO_LIMIT, 300)})
        await self._limits_are({"max-connections": 300})
        await self._command("get", vhost, "maxConnections")
        await self._command("set", vhost, f"maxConnections={NO_LIMIT}")
        self._journal.has_set(COMMAND_LINE, AGENT_SOURCE, VHOST, {"maxConnections": (300, NO_LIMIT)})
        await self._command("invoke", queue, "purge")
        self._journal.has_called(COMMAND_LINE, SOURCE, QUEUE, "purge", "applied", PURGED)
        await returns.holds(0)
        self._promises.kept("amqp-gateway get, set and invoke do it at the command line")

    async def _what_no_rule_allows_is_refused(self, java: JmxClient, returns: ReturnsQueue) -> None:
        await returns.fill()
        await self._call("delete-returns", SOURCE, "delete", "refused")
        await self._throws("SecurityException", java.invoke(_queue(SOURCE), "delete", False, False))
        self._journal.has_called(JMX, SOURCE, QUEUE, "delete", "refused")
        await self._command("invoke", f"{SOURCE}/queue/{QUEUE}", "delete", code=ExitCode.REFUSED)
        self._journal.has_called(COMMAND_LINE, SOURCE, QUEUE, "delete", "refused")
        await returns.holds(MESSAGES)
        self._promises.kept("what no rule allows is refused: in SNMP, in JMX, at the command line")
        await self._throws("SecurityException", self._client.set(_vhost(SOURCE), "maxQueues", 1))
        # What a user whom no rule names sends is not read: the record has no values.
        self._journal.was_refused(f"jmx:{JMX_USER}", SOURCE, VHOST, {})
        index = await self._row("rmqVhost", SOURCE, VHOST)
        try:
            await asyncio.to_thread(self._reading.set, f"rmqVhostMaxQueues.{index}", "i", "1")
        except SnmpCommandError as error:
            if "Reason: noAccess" not in str(error):
                raise
        else:
            raise CheckFailedError("the community for reading could set a limit")
        await self._limits_are({})
        self._promises.kept("and who may only read changes nothing")

    async def _throws(self, java_class: str, attempt: Awaitable[object]) -> None:
        try:
            await attempt
        except JmxClientError as error:
            if not error.thrown or not error.thrown[0].java_class.endswith(f".{java_class}"):
                raise
        else:
            raise CheckFailedError(f"no {java_class} was thrown")

    # -- what an operator types

    async def _snmpset(self, *assignments: str) -> None:
        printed = await asyncio.to_thread(self._writing.set, *assignments)
        self._snmp_session.add(("snmpset", self._writing.address, *assignments), printed)

    async def _call(self, name: str, source: str, method: str, outcome: str) -> None:
        """Call a method of the queue through the table of commands, and check the outcome there.

        Raises:
            CheckFailedError: something else did.
        """
        command = f'"{OPERATOR}"."{name}"'
        await self._snmpset(
            *(f"{CORE}::agCommandTarget.{command}", "o"),
            f"{RABBITMQ}::rmqQueueRowName.{await self._row('rmqQueue', source, QUEUE)}",
            *(f"{CORE}::agCommandMethod.{command}", "s", method),
            *(f"{CORE}::agCommandRowStatus.{command}", "i", "createAndGo"),
        )
        found: dict[str, str] = {}

        async def running() -> list[str]:
            rows = await asyncio.to_thread(self._writing.walk, "agCommandEntry")
            found.update(rows[_index(OPERATOR, name)])
            return [] if found["agCommandState"] == "ended" else [f"{name} is {found['agCommandState']}"]

        await self._promises.until_none(f"a command of SNMP's table ends: {name}", running)
        if found["agCommandOutcome"] != outcome:
            raise CheckFailedError(f"{name} should be {outcome}: {found}")
        returned = PURGED if (method, outcome) == ("purge", "applied") else None
        self._journal.has_called(SNMP, source, QUEUE, method, outcome, returned)
        instance = f"{CORE}::agCommandOutcome.{command}"
        printed = await asyncio.to_thread(self._writing.run, "snmpget", instance)
        self._snmp_session.add(("snmpget", self._writing.address, instance), printed)

    async def _command(self, *words: str, code: ExitCode = ExitCode.OK) -> None:
        ended = await self._running.try_command(*words)
        self._cli_session.add(("amqp-gateway", *words), ended.printed + ended.complaints)
        if ended.code != code:
            said = f"{ended.printed}{ended.complaints}"
            raise CheckFailedError(f"amqp-gateway {' '.join(words)}: exit {ended.code}, not {code:d}: {said}")

    # -- where things are

    async def _row(self, prefix: str, source: str, name: str) -> str:
        """The index of an object's row."""
        column = f"{prefix}RowFullName"
        for index, cells in (await self._walk(column)).items():
            if (index.split(".")[0], cells[column]) == (str(self._numbers[source]), name):
                return index
        raise CheckFailedError(f"{name} of {source} has no row")

    async def _walk(self, name: str) -> Table:
        return await asyncio.to_thread(self._reading.walk, name)


def _vhost(source: str) -> str:
    return f"amqp.gateway:source={source},package=rabbitmq,type=vhost,name={VHOST}"


def _queue(source: str) -> str:
    return f'amqp.gateway:source={source},package=rabbitmq,type=queue,parent="/",name={RETURNS}'


def _index(*texts: str) -> str:
    """Return the index of a row with these texts: the length and characters of each, in numbers."""
    return ".".join(str(number) for text in texts for number in (len(text), *text.encode()))
