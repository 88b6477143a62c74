"""A broker with an agent of its own, and a gateway that reads both: by durable subscriptions, and without."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aio_pika
import yaml

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.eventlog.block import Block
from gateway.eventlog.segment import list_segments, scan_segment
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import MANAGEMENT_VHOST, agent_rights, gateway_rights
from tests.components.command_line import RunningCommand, Site, new_site, running
from tests.components.waiting import eventually, wait_until

READ, REPORTED, PLAIN = "orders", "agents", "plain"
"""The sources: the broker read directly, the agent, and the agent without a durable subscription."""

QUEUES = {READ: "amqp-gateway.events.orders", REPORTED: "amqp-gateway.console.agents"}
VHOSTS = {READ: "%2F", REPORTED: MANAGEMENT_VHOST}

Line = Mapping[str, Any]


@dataclass
class Plant:
    """The broker, agent and gateway of successive tests; each test gives its queues names of its own."""

    broker: PrivateBroker
    folder: Path
    site: Site
    core: RunningCommand | None = None
    agent: RunningCommand | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _agents: ExitStack = field(default_factory=ExitStack)
    _read: dict[Path, tuple[tuple[int, int], list[Line]]] = field(default_factory=dict)
    """The inode and size of each segment when it was read, and its lines; only the last one still grows."""

    def start(self, *, synchronised: bool = True) -> None:
        """Start the core, and wait until it has caught up if ``synchronised`` is true."""
        assert self.core is None
        starts = len(self.starts())
        log = self.folder / "core.log"
        command = ("process", "core", "--config", self.site.configuration)
        self.core = self._stack.enter_context(running(*command, log=log))
        self.core.ready()
        wait_until(lambda: len(self.starts()) > starts, "it records")
        if synchronised:
            wait_until(self.is_synchronised, "all sources are synchronised", 120)

    def stop(self) -> None:
        """Terminate the core."""
        assert self.core is not None
        self.core.terminate()
        self._gone()

    def kill(self) -> None:
        """Kill the core."""
        assert self.core is not None
        os.kill(self.core.process.pid, signal.SIGKILL)
        self._gone()

    def start_agent(self) -> None:
        """Start the agent; one that runs is killed before."""
        self.kill_agent()
        log = self.folder / "agent.log"
        command = ("agent", "rabbitmq", "--config", self.site.configuration)
        self.agent = self._agents.enter_context(running(*command, log=log))
        self.agent.ready()

    def kill_agent(self) -> None:
        """Kill the agent, if it runs."""
        if self.agent is not None:
            os.kill(self.agent.process.pid, signal.SIGKILL)
            self.agent = None
        self._agents.close()

    def end(self) -> None:
        """Kill core and agent."""
        if self.core is not None:
            self.kill()
        self._agents.close()

    def _gone(self) -> None:
        self.core = None
        self._stack.pop_all().close()

    def lines(self) -> list[Line]:
        """Return the lines of the log on the disk."""
        while True:
            with contextlib.suppress(FileNotFoundError):  # a segment was renamed in between
                return self._lines()

    def _lines(self) -> list[Line]:
        return [
            line
            for segment in list_segments(self.site.folder / "state" / "log")
            for line in self._lines_of(segment.path)
        ]

    def _lines_of(self, segment: Path) -> list[Line]:
        state = segment.stat()
        version = state.st_ino, state.st_size
        known = self._read.get(segment)
        if known is not None and known[0] == version:
            return known[1]
        blocks = [block for block in scan_segment(segment) if isinstance(block, Block)]
        lines: list[Line] = [json.loads(line) for block in blocks for line in block.split()]
        self._read[segment] = version, lines
        return lines

    def starts(self) -> list[int]:
        """Return the indices of the lines at which cores began."""
        return _starts(self.lines())

    def lines_of_now(self) -> list[Line]:
        """Return the lines of the last core, from its start on."""
        lines = self.lines()
        return lines[_starts(lines)[-1] :]

    def is_synchronised(self) -> bool:
        """Return whether all sources are synchronised, according to the last core's records."""
        states = {line["source"]: line["state"] for line in self.lines_of_now() if line["kind"] == "source"}
        return states == dict.fromkeys((READ, REPORTED, PLAIN), "synchronised")

    def said(self, event: str, role: str) -> int:
        """Return how often the running core has logged this event for one of its connections."""
        text = (self.folder / "core.log").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        return sum((line["event"], line.get("role")) == (event, role) for line in lines)

    def declare(self, name: str, *, durable: bool = True) -> None:
        """Declare a queue in the watched virtual host."""
        with self.broker.http() as client:
            client.put(f"queues/%2F/{name}", json={"durable": durable}).raise_for_status()

    def delete(self, name: str) -> None:
        """Delete a queue."""
        with self.broker.http() as client:
            client.delete(f"queues/%2F/{name}").raise_for_status()

    def publish(self, name: str, count: int) -> None:
        """Publish messages to a queue, by a channel that stays until the broker has counted them.

        The broker may lose the last counts of a channel that ends (each publication over HTTP is one).
        """
        asyncio.run(self._publish(name, count))

    async def _publish(self, name: str, count: int) -> None:
        expected = self._counted(name) + count

        async def are_counted() -> bool:
            return await asyncio.to_thread(self._counted, name) >= expected

        async with (
            await aio_pika.connect(self.broker.amqp_url()) as connection,
            connection.channel() as channel,
        ):
            for _ in range(count):
                await channel.default_exchange.publish(aio_pika.Message(b"x"), name)
            await eventually(are_counted, "the broker has counted them")

    def _counted(self, name: str) -> int:
        """Return how many messages were published to a queue, as the broker reports it."""
        with self.broker.http() as client:
            answer = client.get(f"queues/%2F/{name}")
            return int(answer.json().get("message_stats", {}).get("publish", 0))

    def waiting(self, source: str) -> int | None:
        """Return the number of messages in the queue of a source; ``None`` where there is none."""
        with self.broker.http() as client:
            answer = client.get(f"queues/{VHOSTS[source]}/{QUEUES[source]}")
            return None if answer.is_error else int(answer.json().get("messages", 0))

    def drop_queue(self, source: str) -> None:
        """Delete the queue of a source, as its expiry would."""
        with self.broker.http() as client:
            client.delete(f"queues/{VHOSTS[source]}/{QUEUES[source]}").raise_for_status()

    def happened(self, *, name: str = "", prefix: str = "") -> dict[str, Counter[tuple[str, str]]]:
        """Return how often begin and end of queues of this name or prefix were logged, by durable source."""
        reported: dict[str, Counter[tuple[str, str]]] = {READ: Counter(), REPORTED: Counter()}
        for line in self.lines():
            about = _queue_of(line)
            wanted = about == name if name else about.startswith(prefix)
            what = line.get("event") or line["kind"]
            if (
                line.get("source") in reported
                and about
                and wanted
                and what in {"create", "delete", "queueCreated", "queueDeleted"}
            ):
                reported[line["source"]][about, what] += 1
        return reported

    def records(self, source: str, queue: str) -> list[Line]:
        """Return the records of a queue of the watched virtual host, in all its lives."""
        return [
            line
            for line in self.lines()
            if line.get("source") == source
            and line.get("class") == "queue"
            and line["kind"] in {"create", "snapshot", "update", "delete"}
            and line["object_name"].partition("#")[0] == f"/|{queue}"
        ]

    def records_of(self, source: str, kind: str) -> list[Line]:
        """Return the records of queues of one kind, in the order in which they were made."""
        return [
            line
            for line in self.lines()
            if (line.get("source"), line.get("class"), line["kind"]) == (source, "queue", kind)
        ]

    def gaps(self, source: str) -> list[Line]:
        """Return the gaps of a source in the log."""
        return [line for line in self.lines() if line["kind"] == "gap" and line.get("source") == source]


def _starts(lines: list[Line]) -> list[int]:
    return [
        number
        for number, line in enumerate(lines)
        if line["kind"] == "start" and line["values"]["why"] in {"began", "recovered"}
    ]


def _queue_of(line: Line) -> str:
    if line["kind"] == "event":
        return str(line.get("values", {}).get("name", ""))
    if line.get("class") == "queue":
        return str(line.get("object_name", "")).partition("|")[2].partition("#")[0]
    return ""


def life(name: str) -> Counter[tuple[str, str]]:
    """Return the records of a queue that was created and deleted."""
    return Counter({(name, what): 1 for what in ("create", "queueCreated", "queueDeleted", "delete")})


@contextmanager
def plant(
    broker: PrivateBroker, folder: Path, configured: Callable[[dict[str, Any]], None] = lambda _: None
) -> Iterator[Plant]:
    """Provide a plant whose agent runs; its gateway does not run yet.

    Args:
        broker: a broker without the users of agent and gateway.
        folder: for configuration, state and process logs.
        configured: changes the sources' settings.
    """
    agent, gateway = Credentials.generate("agent"), Credentials.generate("gateway")
    with broker.http() as client:
        users = (
            ProvisionedUser(agent.name, agent.password, agent_rights()),
            ProvisionedUser(gateway.name, gateway.password, gateway_rights()),
        )
        provision(client, users)
    site = new_site(folder)
    url = f"amqp://127.0.0.1:{broker.ports.amqp}"
    reading: dict[str, Any] = {
        "kind": "rabbitmq",
        "management": broker.management_url,
        "events": {"url": url},
        "interval": "1s",
        "budget": 0.5,
    }
    as_gateway = {"user": gateway.name, "password": site.secret(gateway.password)}
    as_agent = {"user": agent.name, "password": site.secret(agent.password)}
    console: dict[str, Any] = {
        "kind": "qmf",
        "amqp": {"url": url, **as_gateway},
        "trusted_users": [agent.name],
        "heartbeat": "2s",
    }
    sources: dict[str, Any] = {
        READ: {**reading, **as_gateway, "own_users": [agent.name], "durable": {}},
        REPORTED: {**console, "durable": {}},
        PLAIN: console,
    }
    configured(sources)
    publish = {"amqp": {"url": url, **as_agent}, "allowed_users": [gateway.name], "interval": "1s"}
    site.configure(
        sources=sources,
        agents={"rabbitmq": {**reading, **as_agent, "publish": publish}},
        log={"statistics_interval": "1s"},
        snmp={"enabled": False},
    )
    made = Plant(broker, folder, site)
    try:
        made.start_agent()
        yield made
    finally:
        made.end()


def second_gateway(first: Plant) -> Site:
    """Return another gateway's site, with a state of its own and the same sources."""
    folder = first.folder / "second"
    folder.mkdir()
    other = new_site(folder)
    settings = yaml.safe_load(first.site.configuration.read_text(encoding="utf-8"))
    sources = settings["sources"]
    for source in (sources[READ], sources[REPORTED]["amqp"]):
        source["password"] = {"file": str(first.site.folder / source["password"]["file"])}
    other.configure(sources=sources, snmp={"enabled": False})
    return other
