"""A projection, and the process ``jmx`` with a real virtual machine, its core, a Java client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from gateway.feed.messages import VERSION
from gateway.feed.operations import LoginReport
from gateway.feed.records import Batch, Hello, Record
from gateway.feed.server import FeedServer
from tests.components.command_line import RunningCommand, Site, new_site, running
from tests.components.ports import free_tcp_port
from tests.components.scripted_operations import ScriptedOperations
from tests.components.shop import START, agent, source
from tests.components.waiting import eventually
from tests.jmx.shop import GATEWAY, POLICY, Gateway, classes, hall, till


@pytest.fixture
def gateway() -> Gateway:
    """One source, synchronised, with a hall and two tills."""
    gateway = Gateway()
    gateway.hello()
    gateway.snapshot(source(), *classes(), agent(fresh=True), hall(), till(1), till(2))
    return gateway


class Core:
    """A core that serves a feed of the records in `records`, which the test sets.

    Attributes:
        policy: the policy, with the tables of classes.
        operations: answers what norths ask.
        logins: what they reported.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epoch = 0
        self.records: list[Record] = [source(), *classes(), agent(fresh=True), hall(), till(1), till(2)]
        self.policy = POLICY
        self.operations = ScriptedOperations()
        self.logins: list[LoginReport] = []
        self._server: FeedServer | None = None
        self._sequence = 0

    async def start(self) -> None:
        """Begin a new epoch."""
        self.epoch += 1
        hello = Hello(VERSION, self.epoch, "7b0c", START)
        self._server = FeedServer(
            self.path,
            hello,
            lambda: (tuple(self.policy.snapshot(self.records)), self._sequence),
            asked=self.operations.asked,
            logged_in=self.logins.append,
        )
        await self._server.start()

    async def stop(self) -> None:
        """Close the feed."""
        if self._server is not None:
            await self._server.close()
            self._server = None

    def publish(self, *records: Record) -> None:
        """Publish a batch; the snapshot stays as it is."""
        assert self._server is not None
        self._sequence += 1
        self._server.publish(Batch(self.epoch, self._sequence, records))


class JmxSite:
    """A configuration with JMX, its core, and the process."""

    def __init__(self, site: Site, core: Core, java_client: Any) -> None:  # noqa: ANN401  lives in Java
        self.site = site
        self.core = core
        self.port = free_tcp_port()
        self._java_client = java_client

    @property
    def log(self) -> Path:
        """The log of the process."""
        return self.site.folder / "log"

    @property
    def password(self) -> str:
        """The password of the default user."""
        return self.site.state.secret("jmx-monitor")

    def configure(self, **jmx: object) -> None:
        """Write the configuration, with these keys under ``jmx``."""
        self.site.configure(jmx={"enabled": True, "listen": f"127.0.0.1:{self.port}", "heap": 64, **jmx})

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[RunningCommand]:
        """Run the process; provide it once it is ready."""
        command = ("process", "jmx", "--config", self.site.configuration)
        with running(*command, log=self.log) as process:
            await asyncio.to_thread(process.ready)
            yield process

    @contextlib.asynccontextmanager
    async def client(self, password: str | None = None) -> AsyncIterator[Client]:
        """Provide a Java client that has logged in."""
        java = await asyncio.to_thread(
            self._java_client.connect, self.port, "monitor", password or self.password
        )
        try:
            yield Client(java)
        finally:
            with contextlib.suppress(Exception):  # the virtual machine may be gone, as the test wanted
                await asyncio.to_thread(java.close)

    async def refusal(self, user: str, password: str) -> str:
        """Return Java's message about a login as this user; an empty text where it succeeds."""
        credentials = self._java_client.strings([user, password])
        reported: str = await asyncio.to_thread(self._java_client.tryConnectWith, self.port, credentials)
        return reported

    async def shows(self, name: str, attribute: str, value: str) -> None:
        """Wait until a new client reads this value."""

        async def read() -> bool:
            try:
                async with self.client() as client:
                    return await client.read(name, attribute) == value
            except Exception:  # noqa: BLE001  whatever Java threw: it is not there yet
                return False

        await eventually(read, f"{name} {attribute} is {value}")


class Client:
    """A Java client, called on another thread."""

    def __init__(self, java: Any) -> None:  # noqa: ANN401  lives in Java
        self._java = java

    async def __call__(self, method: str, *arguments: object) -> Any:  # noqa: ANN401  what Java returns
        """Call any other method of the Java class."""
        result = await asyncio.to_thread(getattr(self._java, method), *arguments)
        return result if isinstance(result, str | int | None) else list(result)

    async def names(self) -> list[str]:
        """Return the names of all MBeans of ours, with their keys in alphabetical order."""
        return list(await asyncio.to_thread(self._java.names, "amqp.gateway:*"))

    async def read(self, name: str, attribute: str) -> str:
        """Return Java class and value of an attribute."""
        value: str = await asyncio.to_thread(self._java.attribute, name, attribute)
        return value

    async def reads(self, name: str, attribute: str, value: str) -> None:
        """Wait until the attribute has this value."""

        async def is_it() -> bool:
            return await self.read(name, attribute) == value

        await eventually(is_it, f"{name} {attribute} is {value}")

    async def listen(self, name: str) -> None:
        """Listen to the notifications of an MBean."""
        await asyncio.to_thread(self._java.listen, name)

    async def received(self) -> str:
        """Return the next notification."""
        reported: str = await asyncio.to_thread(self._java.received, 60_000)
        return reported


@pytest.fixture
async def jmx(tmp_path: Path, java_client: Any) -> AsyncIterator[JmxSite]:  # noqa: ANN401  lives in Java
    """A site whose core runs, and whose process does not yet."""
    site = new_site(tmp_path)
    core = Core(site.folder / "feed.sock")
    await core.start()
    try:
        made = JmxSite(site, core, java_client)
        made.configure()
        yield made
    finally:
        await core.stop()


def java_process(process: RunningCommand) -> psutil.Process:
    """The virtual machine of the process ``jmx``."""
    (child,) = psutil.Process(process.process.pid).children()
    return child


def canonical(name: str) -> str:
    """A name without quoted parts as Java lists it."""
    domain, _, keys = name.partition(":")
    return f"{domain}:{','.join(sorted(keys.split(',')))}"


__all__ = ["GATEWAY", "Client", "Core", "JmxSite", "canonical", "java_process"]
