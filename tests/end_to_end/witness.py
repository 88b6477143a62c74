"""The continuous observation of broker and norths, with all false values that the norths showed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import psutil

from gateway.demo.snmp_commands import SnmpCommandError
from gateway.links.amqp_connection import is_cancelled
from tests.components.jmx_client import JmxClient, JmxClientError, client_of
from tests.end_to_end.judge import AGENT, CORE, Judge
from tests.end_to_end.observer import Observer
from tests.end_to_end.shown import Shown, moment, shown_by_jmx, shown_by_snmp
from tests.end_to_end.truth import MARKER_QUEUE, MARKER_VHOST, BrokerTruth, MarkerQueue
from tests.hypothesis_profiles import PROVING

LOOK_AGAIN_SECONDS = 0.15 if PROVING else 0.4
"""The pause between two looks at one place; what the judge calls false has been shown for seconds."""

TABLES = (
    "rmqQueue",
    "rmqNode",
    "rmqQueue",
    "rmqConnection",
    "rmqQueue",
    "rmqVhost",
    "rmqQueue",
    "rmqExchange",
)
"""The prefixes of the tables that are walked one after the other, again and again."""

AFTER_SECONDS = 120.0
GATEWAY_BEAN = "amqp.gateway:type=Gateway"


class Witness:
    """An observer of everything while `run` runs.

    Attributes:
        lies: values that were shown and cannot have been true, one line each.
        observations: number of observations so far: the measure of progress.
        client: the Java client, while there is one.
    """

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.truth = BrokerTruth(observer.broker)
        self.marker = MarkerQueue(observer.broker, self._progressed)
        self.lies: list[str] = []
        self.observations = 0
        self.client: JmxClient | None = None
        self._judge = Judge(
            self.truth.last_seen, self.truth.answered, lambda: self.truth.back_since, self.marker.lengths
        )
        self._sources: dict[str, str] = {}
        self._shown: list[Shown] = []
        self._received: list[dict[str, Any]] = []
        self._news = asyncio.Event()
        self._core: psutil.Process | None = None

    @property
    def notifications(self) -> list[dict[str, Any]]:
        """All notifications of the gateway's MBean that any client of ours has received."""
        return self._received + (self.client.notifications if self.client else [])

    async def run(self) -> None:
        """Observe until cancelled."""
        try:
            async with asyncio.TaskGroup() as looking:
                for part in (self._look_at_broker, self._look_at_snmp, self._look_at_jmx, self.marker.run):
                    looking.create_task(part())
        finally:
            try:
                await self._leave_jmx()
            finally:
                await self.truth.close()

    async def after(self, observations: int) -> None:
        """Wait for this number of further observations."""
        wanted = self.observations + observations
        async with asyncio.timeout(AFTER_SECONDS):
            while self.observations < wanted:
                await self._news.wait()

    async def stale_objects(self, source: str) -> int:
        """Return the number of a source's objects that are stale in JMX.

        Raises:
            JmxClientError: there is no client, or no answer.
        """
        if self.client is None:
            raise JmxClientError("there is no client now")
        attributes = await self.client.read(f"amqp.gateway:type=Source,source={source}")
        return int(attributes["StaleObjects"].value)

    def _progressed(self) -> None:
        self.observations += 1
        self._news.set()
        self._news = asyncio.Event()

    async def _look_at_broker(self) -> None:
        """Read the true state, and judge the values that were shown before."""
        while not is_cancelled():
            shown, self._shown = self._shown, []
            self._look_at_processes()
            await self.truth.look()
            self._look_at_processes()
            for one in shown:
                self.lies += self._judge.lies(one, self._sources[one.source])
            self._progressed()
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    def _look_at_processes(self) -> None:
        with contextlib.suppress(AssertionError, psutil.Error, KeyError):
            if self._core is None or not self._core.is_running():
                self._core = self.observer.process("core")
            self._judge.is_alive(CORE, time.time())
        if self.observer.is_alive("agent"):
            self._judge.is_alive(AGENT, time.time())

    async def _look_at_snmp(self) -> None:
        while not is_cancelled():
            for prefix in TABLES:
                with contextlib.suppress(SnmpCommandError):  # nobody is there to answer
                    await self._walk(prefix)
                    self._progressed()
                await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _walk(self, prefix: str) -> None:
        begun = time.time()
        table = await self.observer.walk(f"{prefix}Table")
        ended = time.time()
        sources = await self.observer.walk("agSourceTable")
        for number, cells in sources.items():
            if {"agSourceName", "agSourceState", "agSourceSince"} <= cells.keys():
                self._sources[number] = cells["agSourceName"]
                since = moment(cells["agSourceSince"])
                self._judge.source_is(cells["agSourceName"], cells["agSourceState"], since, time.time())
        self._shown += [
            one for one in shown_by_snmp(prefix, table, (begun, ended)) if one.source in self._sources
        ]

    async def _look_at_jmx(self) -> None:
        while not is_cancelled():
            if self.client is None:
                await self._enter_jmx()
            if self.client is not None:
                try:
                    await self._read(self.client)
                    self._progressed()
                except JmxClientError:
                    await self._leave_jmx()
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _read(self, client: JmxClient) -> None:
        """Read the marker and the node as both sources show them."""
        for number, source in list(self._sources.items()):
            of = f"amqp.gateway:source={source},package=rabbitmq"
            names = [f'{of},type=queue,parent="{MARKER_VHOST}",name={MARKER_QUEUE}']
            nodes = await client.names(f"{of},type=node,*")
            for prefix, name in [("rmqQueue", names[0]), *[("rmqNode", node) for node in nodes]]:
                begun = time.time()
                try:
                    attributes = await client.read(name)
                except JmxClientError as error:
                    if "InstanceNotFoundException" not in str(error):
                        raise
                    continue
                if "StableName" in attributes:  # else it went between the two questions of a reading
                    self._shown.append(shown_by_jmx(prefix, number, attributes, (begun, time.time())))

    async def _enter_jmx(self) -> None:
        """Log in, once the port accepts connections: each attempt costs a virtual machine."""
        host, port = self.observer.demonstration.jmx_address.rsplit(":", 1)
        try:
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            client = await client_of(self.observer.demonstration)
        except (OSError, JmxClientError):
            return
        try:
            await client.listen(GATEWAY_BEAN)
        except JmxClientError:
            await client.close()
        else:
            self.client = client

    async def _leave_jmx(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            self._received += client.notifications
            await client.close()
