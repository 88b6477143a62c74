"""Two agents in processes of their own on one real RabbitMQ: one serves, the other takes its place."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import aio_pika
import pytest
import yaml
from aiormq.exceptions import ChannelLockedResource

from gateway.clock import SystemClock
from gateway.config.sources import QmfSource
from gateway.demo.broker import Credentials, PrivateBroker
from gateway.feed.records import (
    Batch,
    ClassRecord,
    EventClassRecord,
    EventRecord,
    ObjectRecord,
    SourceRecord,
)
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.links.election import Election, manager_queue
from gateway.model.observations import SourceState
from gateway.model.operations import Answer, MethodCall, Outcome
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND
from gateway.operations.operation import NoOperations, SourcePort
from gateway.service.sources.source_context import SourceContext
from gateway.service.sources.sources import source_of
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import MANAGEMENT_VHOST, agent_rights, gateway_rights
from tests.components.command_line import RunningCommand, running
from tests.components.rabbitmq import VirtualHost
from tests.components.shipped_mappings import shipped_mappings
from tests.components.waiting import until


@dataclass
class Gateway(NoOperations):
    """A source of the gateway, and the events and answers that it reported."""

    inventory: Inventory = field(init=False)
    port: SourcePort | None = None
    events: list[EventRecord] = field(default_factory=list)
    answers: dict[int, list[Answer]] = field(default_factory=dict)

    def connect(self, source: int, port: SourcePort) -> None:
        assert source
        self.port = port

    def answered(self, answer: Answer) -> None:
        self.answers.setdefault(answer.token, []).append(answer)

    def take(self, batch: Batch) -> None:
        self.events += [record for record in batch.records if isinstance(record, EventRecord)]

    @property
    def state(self) -> SourceState:
        (source,) = (one for one in self.inventory.snapshot()[0] if isinstance(one, SourceRecord))
        return source.state

    def objects(self, class_name: str) -> dict[str, list[ObjectRecord]]:
        """Return the present objects of a class, by leaf name."""
        records, _ = self.inventory.snapshot()
        numbers = {
            record.number
            for record in records
            if isinstance(record, ClassRecord) and record.schema.key.name == class_name
        }
        found: dict[str, list[ObjectRecord]] = {}
        for record in records:
            if isinstance(record, ObjectRecord) and record.class_number in numbers:
                found.setdefault(record.leaf_name, []).append(record)
        return found

    def reported(self, event: str) -> Counter[str]:
        """Return the number of times that an event was reported, by its text."""
        records, _ = self.inventory.snapshot()
        numbers = {
            record.number
            for record in records
            if isinstance(record, EventClassRecord) and record.schema.key.name == event
        }
        return Counter(record.text for record in self.events if record.class_number in numbers)

    def ask(
        self, token: int, class_name: str, leaf: str, method: str, *arguments: int, seconds: float = 60
    ) -> None:
        """Call a method, once; its answer is added to the answers."""
        assert self.port is not None
        (target,) = self.objects(class_name)[leaf]
        (key,) = (
            record.schema.key
            for record in self.inventory.snapshot()[0]
            if isinstance(record, ClassRecord) and record.number == target.class_number
        )
        deadline = SystemClock().now() + int(seconds * SECOND)
        self.port.call(MethodCall(token, key, target.agent, target.native_id, method, arguments, deadline))

    async def answer(self, token: int, count: int = 1) -> Answer:
        """Wait for the answer to a call, or for the second one with ``count`` 2."""
        await until(lambda: len(self.answers.get(token, ())) >= count, f"answer {count} to {token}")
        return self.answers[token][count - 1]

    async def call(self, token: int, class_name: str, leaf: str, method: str, *arguments: int) -> Answer:
        """Call a method, once; return its answer."""
        self.ask(token, class_name, leaf, method, *arguments)
        return await self.answer(token)


async def another_second() -> None:
    """Wait for the next second of the clock to begin."""
    since = int(time.time())
    await until(lambda: int(time.time()) > since, "another second")


def receives_all(agent: RunningCommand) -> bool:
    """Return whether an agent has read everything, and receives events."""
    reported = [line for line in agent.log if line["event"] == "agent-status"]
    return (
        bool(reported)
        and reported[-1]["state"] == "synchronised"
        and "cannot be seen" not in reported[-1]["detail"]
    )


def configuration(
    broker: PrivateBroker, folder: Path, agent: Credentials, accepted: str, policy: Mapping[str, object]
) -> Path:
    """Write the configuration of two agents of the same settings, each also allowed to change the broker."""
    for user in (agent, broker.administrator):
        (folder / user.name).write_text(user.password)
        (folder / user.name).chmod(0o600)
    url = f"amqp://127.0.0.1:{broker.ports.amqp}"
    secret = {"file": agent.name}
    settings = {
        "kind": "rabbitmq",
        "management": broker.management_url,
        "user": agent.name,
        "password": secret,
        "events": {"url": url},
        "writing": {"user": broker.administrator.name, "password": {"file": broker.administrator.name}},
        "publish": {
            "amqp": {"url": url, "user": agent.name, "password": secret},
            "allowed_users": [accepted],
            "interval": "1s",
        },
    }
    path = folder / "gateway.yaml"
    state = {"folder": str(folder / "state")}
    agents = {"first": settings, "second": settings}
    document = {"version": 1, "state": state, "agents": agents, "policy": dict(policy)}
    path.write_text(yaml.safe_dump(document))
    return path


@dataclass
class Site:
    """A broker, two agents, and a gateway that receives from the one that serves."""

    broker: PrivateBroker
    agents: dict[str, RunningCommand]
    gateway: Gateway
    ids: list[str]
    """The message ids of the events on the wire."""

    def serving(self) -> list[str]:
        """Return the agents that were elected and have not ended."""
        return [
            name
            for name, agent in self.agents.items()
            if agent.process.poll() is None and any(line["event"] == "elected" for line in agent.log)
        ]

    async def declare(self, name: str) -> None:
        """Declare a durable queue."""

        def request() -> None:
            with self.broker.http() as client:
                client.put(f"queues/%2F/{name}", json={"durable": True}).raise_for_status()

        await asyncio.to_thread(request)

    def kill(self) -> str:
        """Kill the agent that serves; return its name."""
        (serving,) = self.serving()
        process = self.agents[serving].process
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        return serving


@asynccontextmanager
async def site(
    broker: PrivateBroker,
    folder: Path,
    policy: Mapping[str, object] | None = None,
    agents: Sequence[str] = ("first", "second"),
) -> AsyncIterator[Site]:
    agent, user = Credentials.generate("agent"), Credentials.generate("gateway")
    with broker.http() as client:
        provision(
            client,
            (
                ProvisionedUser(agent.name, agent.password, agent_rights()),
                ProvisionedUser(user.name, user.password, gateway_rights()),
            ),
        )
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        client.put(f"permissions/{MANAGEMENT_VHOST}/{broker.administrator.name}", json=everything)
    path = configuration(broker, folder, agent, user.name, policy or {})
    (folder / "password").write_text(user.password)
    (folder / "password").chmod(0o600)
    amqp = {
        "url": f"amqp://127.0.0.1:{broker.ports.amqp}",
        "vhost": MANAGEMENT_VHOST,
        "user": user.name,
        "password": {"file": "password"},
    }
    settings = QmfSource.model_validate(
        {"kind": "qmf", "amqp": amqp, "trusted_users": [agent.name], "heartbeat": "2s"}
    )
    gateway, ids = Gateway(), list[str]()

    async def note(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        if message.body[3:4] == b"e":
            ids.append(message.message_id or "")

    with ExitStack() as processes, closing(InstanceIndex(folder / "index")) as index:
        started: dict[str, RunningCommand] = {}
        for name in agents:
            # The ids of an agent's objects hold the second in which it started: here two, as in real life.
            await another_second()
            command = running("agent", name, "--config", path, log=folder / f"{name}.log")
            started[name] = processes.enter_context(command)
        for process in started.values():
            await asyncio.to_thread(process.ready)
        mappings = shipped_mappings()
        gateway.inventory = Inventory("gw", 1, ClassRegistry(mappings), index, gateway.take)
        around = SourceContext(
            gateway.inventory, mappings, SecretRules(), SystemClock(), folder, 1, operations=gateway
        )
        async with await aio_pika.connect(broker.amqp_url(vhost=MANAGEMENT_VHOST)) as listening:
            here = Site(broker, started, gateway, ids)
            await until(here.serving, "one is elected")
            await until(lambda: all(map(receives_all, started.values())), "all have read all and hear events")
            channel = await listening.channel()
            # One of the gateway's own by its name, of which nothing is told.
            queue = await channel.declare_queue("amqp-gateway.listener", exclusive=True)
            await queue.bind("qpid.management", "#")
            await queue.consume(note, no_ack=True)
            source = asyncio.create_task(source_of("shop", settings, around)())
            try:
                await until(lambda: gateway.state is SourceState.SYNCHRONISED, "the gateway knows all")
                yield here
            finally:
                source.cancel()
                (end,) = await asyncio.gather(source, return_exceptions=True)
                if isinstance(end, Exception):
                    raise end


def each_once(gateway: Gateway, names: list[str]) -> bool:
    """Return whether each of these queues is there, and none twice."""
    queues = gateway.objects("queue")
    assert not [name for name, objects in queues.items() if len(objects) > 1], "an object is there twice"
    return set(names) <= queues.keys()


async def limited(shop: Site, token: int, limit: int) -> None:
    """Set a limit of connections through the agent that serves, and check that the broker has it."""
    answer = await shop.gateway.call(token, "vhost", "/", "setMaxConnections", limit)
    assert (answer.outcome, answer.text) == (Outcome.APPLIED, "OK")
    reported = await asyncio.to_thread(shop.broker.rabbitmqctl, "list_vhost_limits", "--silent")
    assert json.loads(reported.strip())["max-connections"] == limit
    await until(lambda: str(limit) in str(shop.gateway.reported("vhostLimitsSet")), "the setting is told")


def agents_of(gateway: Gateway, class_name: str, leaf: str) -> set[str]:
    return {one.agent for one in gateway.objects(class_name).get(leaf, [])}


@pytest.mark.xdist_group("lent broker")
async def test_one_serves_and_the_other_takes_its_place_when_it_is_killed(
    lent_rabbitmq: PrivateBroker, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A method is carried out once, by the one that serves."""
    async with site(lent_rabbitmq, tmp_path) as shop:
        gateway, loop = shop.gateway, asyncio.get_running_loop()
        second = next(agent for name, agent in shop.agents.items() if name not in shop.serving())
        await until(lambda: any(line["event"] == "standing-by" for line in second.log), "one stands by")
        assert len(shop.serving()) == 1
        names = [f"q{number}" for number in range(10)]
        for name in names:
            await shop.declare(name)
        await until(lambda: each_once(gateway, names), "all are heard of")
        await until(lambda: gateway.reported("queueCreated").total() == 10, "all are told")
        rows = {name: gateway.objects("queue")[name][0].row for name in names}
        await until(lambda: agents_of(gateway, "vhost", "/"), "the virtual host is known")
        await limited(shop, 1, 1111)

        shop.kill()
        began = loop.time()
        # What happens before anybody serves again is told too, and once.
        for name in ("late1", "late2"):
            await shop.declare(name)
        names += ["late1", "late2"]
        await until(shop.serving, "the other serves")
        # One or two seconds on a quiet machine.
        record_property("takeover_seconds", round(loop.time() - began, 2))
        for name in ("later1", "later2"):
            await shop.declare(name)
        names += ["later1", "later2"]
        await until(lambda: each_once(gateway, names), "all are there")
        await until(lambda: gateway.reported("queueCreated").total() >= len(names), "all are told")
        await until(lambda: gateway.state is SourceState.SYNCHRONISED, "the gateway knows all")

        # One more, behind which nothing of before can be on its way.
        await shop.declare("last")
        await until(lambda: "last" in str(gateway.reported("queueCreated")), "the last one is told")
        assert set(gateway.reported("queueCreated").values()) == {1}
        assert gateway.reported("queueDeleted").total() == 0
        assert each_once(gateway, [*names, "last"])
        assert {name: gateway.objects("queue")[name][0].row for name in rows} == rows

        await until(
            lambda: agents_of(gateway, "vhost", "/") == agents_of(gateway, "queue", "last"),
            "all is that of the other now",
        )
        await limited(shop, 2, 2222)
        # The broker tells each setting: none was made twice.
        assert sorted(gateway.reported("vhostLimitsSet").values()) == [1, 1]
        assert [len(answers) for answers in gateway.answers.values()] == [1, 1]


async def test_the_queue_that_decides_is_held_by_one_connection_at_a_time(virtual_host: VirtualHost) -> None:
    queue = manager_queue("qpid.management")
    refused: list[str] = []
    first = await aio_pika.connect(virtual_host.amqp_url())
    async with await aio_pika.connect(virtual_host.amqp_url()) as second:
        await Election(queue).won(first)
        candidate = Election(queue, lambda: refused.append("stands by"), try_seconds=0.1)
        waiting = asyncio.create_task(candidate.won(second))
        await until(lambda: len(refused) > 2, "it was refused again and again")
        assert not waiting.done()
        await first.close()
        await waiting
        async with await aio_pika.connect(virtual_host.amqp_url()) as third:
            channel = await third.channel()
            try:
                await channel.declare_queue(queue, passive=True)
            except ChannelLockedResource:
                pass
            else:
                raise AssertionError("nobody holds the queue")
        with virtual_host.http() as client:
            path = f"queues/{virtual_host.path}/{quote(queue, safe='')}"
            assert client.get(path).status_code in {200, 404}


async def test_where_an_event_reports_the_end_of_the_other_the_broker_is_asked_once(
    virtual_host: VirtualHost,
) -> None:
    queue, since = manager_queue("qpid.management"), 1
    stood_by: list[str] = []

    def refusals() -> int:
        lines = virtual_host.broker.log_file.read_text()
        return lines.count(f"locked queue '{queue}' in vhost '{virtual_host.name}'")

    before = refusals()
    async with (
        await aio_pika.connect(virtual_host.amqp_url()) as first,
        await aio_pika.connect(virtual_host.amqp_url()) as second,
    ):
        await Election(queue).won(first)
        candidate = Election(
            queue, lambda: stood_by.append("stands by"), reported_since=lambda: since, try_seconds=0.1
        )
        waiting = asyncio.create_task(candidate.won(second))
        await until(lambda: len(stood_by) > 5, "it stands by")
        await until(lambda: refusals() == before + 1, "the broker has logged that it asked once")
        since = 2
        await until(lambda: refusals() == before + 2, "it asks again where an event may have been missed")
        await first.close()
        await until(lambda: len(stood_by) > 10, "it stands by")
        assert not waiting.done()
        candidate.vacant.set()
        await waiting
        assert refusals() == before + 2


async def test_a_candidate_whose_connection_ends_does_not_wait_for_ever(virtual_host: VirtualHost) -> None:
    queue = manager_queue("qpid.management")
    async with await aio_pika.connect(virtual_host.amqp_url()) as first:
        second = await aio_pika.connect(virtual_host.amqp_url())
        await Election(queue).won(first)
        waiting = asyncio.create_task(Election(queue, try_seconds=3600).won(second))
        await second.close()
        (end,) = await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance(end, Exception)


def test_queues_of_long_names_are_distinguished_too() -> None:
    assert manager_queue("qpid.management") == "amqp-gateway.manager.qpid.management"
    names = {manager_queue("x" * 250), manager_queue("x" * 251)}
    assert len(names) == 2
    assert all(len(name) <= 255 for name in names)
