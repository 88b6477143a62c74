"""The observation of a running demonstration from outside: by SNMP, broker's tools and process table."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx
import psutil

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE, Demonstration
from gateway.demo.snmp_commands import SnmpCommandError, Table
from gateway.eventlog.query import ask
from tests.components.jmx_client import JmxClientError
from tests.hypothesis_profiles import PROVING

DEADLINE_SECONDS = 120.0
POLL_SECONDS = 0.05 if PROVING else 0.2
"""The pause between two looks, each of which is a command of net-snmp, or several."""

Found = TypeVar("Found")


class Observer:
    """An observer that asks, and waits for conditions."""

    def __init__(self, demonstration: Demonstration) -> None:
        assert demonstration.snmp is not None
        assert demonstration.broker is not None
        self.demonstration = demonstration
        self.snmp = demonstration.snmp
        self.broker = demonstration.broker

    async def walk(self, name: str) -> Table:
        """Return the table that ``snmpbulkwalk`` prints for this name."""
        return await asyncio.to_thread(self.snmp.walk, name)

    async def sources(self) -> dict[str, dict[str, str]]:
        """Return the sources table by source name."""
        return {cells["agSourceName"]: cells for cells in (await self.walk("agSourceTable")).values()}

    async def epoch(self) -> int:
        """Return the number of starts of the core, as the SNMP process knows it."""
        return int((await self.walk("agCoreEpoch"))["0"]["agCoreEpoch"])

    async def all_stale(self) -> bool:
        """Return whether every row of both sources is stale."""
        return await self.stale(SOURCE) and await self.stale(AGENT_SOURCE)

    async def says(self, source: str, text: str) -> bool:
        """Return whether the detail of a source contains this text."""
        return text in (await self.sources())[source]["agSourceDetail"]

    async def count(self, column: str, source: str) -> int:
        """Return a number of ``source`` in the table of sources."""
        return int((await self.sources())[source][column])

    async def stale(self, source: str) -> bool:
        """Return whether every row of ``source`` is stale."""
        cells = (await self.sources())[source]
        return int(cells["agSourceRows"]) > 0 and cells["agSourceStaleRows"] == cells["agSourceRows"]

    async def logged(self, sql: str, **parameters: object) -> list[tuple[object, ...]]:
        """Return the rows of a query in SQL on the event log's files; ``$name`` stands for a parameter."""

        def asked() -> list[tuple[object, ...]]:
            with ask(self.demonstration.folder / "state" / "log", sql, parameters) as answer:
                return list(answer.rows)

        return await asyncio.to_thread(asked)

    async def until_logged(self, holds: Callable[[str], bool], sql: str) -> str:
        """Wait until ``holds`` is true of the text that ``sql`` finds; return that text."""
        text = ""

        async def found() -> bool:
            nonlocal text
            text = str(await self.logged(sql))
            return holds(text)

        await self.until(f"the event log has it: {sql}", found)
        return text

    def process(self, name: str) -> psutil.Process:
        """Return the gateway's process ``core``, ``snmp``, ``jmx`` or ``compactor``.

        Raises:
            AssertionError: there is none now.
        """
        supervisor = psutil.Process(self.demonstration.process_id("gateway"))
        for child in supervisor.children():
            if f" process {name} " in " ".join(child.cmdline()):
                return child
        raise AssertionError(f"the gateway has no process {name}")

    def runs(self, name: str) -> bool:
        """Return whether the gateway has this process now."""
        try:
            return self.process(name).is_running()
        except (AssertionError, psutil.Error):
            return False

    def virtual_machine(self) -> psutil.Process:
        """Return the virtual machine of the process ``jmx``.

        Raises:
            AssertionError: there is none now.
        """
        for child in self.process("jmx").children():
            if child.name() == "java":
                return child
        raise AssertionError("the process jmx has no virtual machine")

    def is_alive(self, name: str) -> bool:
        """Return whether ``gateway`` or ``agent`` runs."""
        with contextlib.suppress(KeyError, psutil.Error):
            process = psutil.Process(self.demonstration.process_id(name))
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return False

    def resume(self) -> None:
        """Resume everything that was stopped: the broker's node, processes of gateway and agent."""
        node = self.broker.node_process()
        numbers = [
            self.demonstration.process_id(name) for name in ("gateway", "agent") if self.is_alive(name)
        ]
        for number in numbers if node is None else [node, *numbers]:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(number)
                for one in (process, *process.children(recursive=True)):
                    one.resume()

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until ``condition`` holds; an agent that does not answer yet is no failure."""
        last: Exception | None = None
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while True:
                    try:
                        if await condition():
                            return
                    except (SnmpCommandError, JmxClientError, httpx.HTTPError, KeyError) as error:
                        last = error
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(
                f"not within {DEADLINE_SECONDS:.0f} s: {what}\n{last or await self.sources()}\n"
                f"{self.demonstration.log_of('gateway')[-3000:]}\n{self.demonstration.log_of('agent')[-3000:]}"
            ) from last
