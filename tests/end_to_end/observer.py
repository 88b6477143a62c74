"""Looks at a running demonstration from outside: by SNMP, by the broker's tools, by the process table."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psutil

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE, Demonstration
from gateway.demo.snmp_commands import SnmpCommandError, Table

DEADLINE_SECONDS = 120.0
POLL_SECONDS = 0.05
CLASSES = ("rmqVhost", "rmqQueue", "rmqExchange", "rmqNode")

Found = TypeVar("Found")


def free_udp_port() -> int:
    """A port of 127.0.0.1 that nobody uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def free_tcp_port() -> int:
    """A port of 127.0.0.1 that nobody uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Observer:
    """Asks, and waits for conditions."""

    def __init__(self, demonstration: Demonstration) -> None:
        assert demonstration.snmp is not None
        assert demonstration.broker is not None
        self.demonstration = demonstration
        self.snmp = demonstration.snmp
        self.broker = demonstration.broker

    async def walk(self, name: str) -> Table:
        """``snmpbulkwalk`` by name."""
        return await asyncio.to_thread(self.snmp.walk, name)

    async def sources(self) -> dict[str, dict[str, str]]:
        """The sources table by source name."""
        return {cells["agSourceName"]: cells for cells in (await self.walk("agSourceTable")).values()}

    async def healthy(self) -> bool:
        """Whether both sources are synchronised and no row is stale."""
        sources = await self.sources()
        return sources.keys() == {SOURCE, AGENT_SOURCE} and all(
            cells["agSourceState"] == "synchronised"
            and cells["agSourceStaleRows"] == "0"
            and int(cells["agSourceRows"]) > 0
            for cells in sources.values()
        )

    async def stale(self, source: str) -> bool:
        """Whether every row of ``source`` is stale."""
        cells = (await self.sources())[source]
        return int(cells["agSourceRows"]) > 0 and cells["agSourceStaleRows"] == cells["agSourceRows"]

    async def durable_rows(self) -> dict[str, str]:
        """Row index by class and full name, of durable objects of both sources."""
        rows: dict[str, str] = {}
        for prefix in CLASSES:
            for index, cells in (await self.walk(f"{prefix}Table")).items():
                if cells[f"{prefix}RowLifetime"] == "durable":
                    source = index.split(".")[0]
                    rows[f"{source} {prefix} {cells[f'{prefix}RowFullName']}"] = index
        return rows

    async def own_queues(self) -> list[str]:
        """The gateway's and agent's queues that are on the broker now, without what tells them apart."""
        queues: list[str] = []
        for vhost in ("/", "amqp-gateway"):
            printed = await asyncio.to_thread(
                self.broker.rabbitmqctl, "--quiet", "list_queues", "-p", vhost, "name"
            )
            queues += [line for line in printed.splitlines() if line.startswith("amqp-gateway.")]
        return sorted(queue.rsplit(".", 1)[0] for queue in queues)

    def process(self, name: str) -> psutil.Process:
        """The gateway's process ``core`` or ``snmp``."""
        supervisor = psutil.Process(self.demonstration.process_id("gateway"))
        for child in supervisor.children():
            if f" process {name} " in " ".join(child.cmdline()):
                return child
        raise AssertionError(f"the gateway has no process {name}")

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until ``condition`` holds; an agent that does not answer yet is no failure."""
        last: Exception | None = None
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while True:
                    try:
                        if await condition():
                            return
                    except (SnmpCommandError, KeyError) as error:
                        last = error
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(
                f"not within {DEADLINE_SECONDS:.0f} s: {what}\n{last or await self.sources()}\n"
                f"{self.demonstration.log_of('gateway')[-3000:]}\n{self.demonstration.log_of('agent')[-3000:]}"
            ) from last
