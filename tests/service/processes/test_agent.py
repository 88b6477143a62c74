"""An agent as a process of its own on a real RabbitMQ whose memory is said to be short, again and again."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import aio_pika
import pytest
import structlog
from aio_pika.abc import AbstractIncomingMessage
from pydantic import SecretStr

from gateway.clock import SystemClock
from gateway.config.files import LoadedConfiguration
from gateway.config.model import Configuration
from gateway.demo.broker import Credentials, PrivateBroker
from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.console import ConsoleSession
from gateway.dialects.qmf.console_config import ConsoleConfig, HeartbeatRules
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.fields import NO_HASH, ObjectId
from gateway.dialects.qmf.messages import MethodRequest, MethodResponse
from gateway.dialects.qmf.statuses import Status
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.session_driver import MessageDriver
from gateway.model.observations import (
    AgentLost,
    EventLearned,
    EventSeen,
    HeartbeatSeen,
    ObjectSeen,
    Observation,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey, EventSchema
from gateway.model.times import SECOND
from gateway.protection.bodies import AcceptedInMemory, BodyProtection
from gateway.protection.key_files import KeyFolder, KeyNames, WatchedKeys
from gateway.protection.keys import Use, generated
from gateway.service.processes.agent import run_agent
from gateway.service.processes.lifeline import Lifeline
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import (
    DIRECT_EXCHANGE,
    MANAGEMENT_VHOST,
    agent_rights,
    gateway_rights,
)
from tests.components.alike import SURELY_DIFFERENT, rank_sum
from tests.components.waiting import until
from tests.eventlog.reading import of_kind, read_log
from tests.hypothesis_profiles import PROVING

pytestmark = pytest.mark.xdist_group("lent broker")

PROMPT = (5 if PROVING else 30) * SECOND
"""The maximum delay of an event (ns), alarm or not; the longer where other tests keep the machine busy."""
ALARM_SECONDS = 60.0 if PROVING else 6.0
CYCLES = 10 if PROVING else 2
HIDDEN = 500 if PROVING else 40
_SILENCE = (2 if PROVING else 10) * SECOND
# The agent speaks each second; an interval that is derived from that is too short for a busy machine.
HEARTBEATS = HeartbeatRules(interval=_SILENCE, shortest=_SILENCE)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the broker have more time for an answer, where other tests keep the machine busy."""
    if not PROVING:
        monkeypatch.setattr("gateway.sources.rabbitmq.http_publisher.DEADLINE_SECONDS", 60.0)


@dataclass(frozen=True)
class Received:
    """An event as the console received it, and its delay after it happened (ns)."""

    name: str
    arguments: dict[str, Any]
    delay: int


@dataclass
class Console:
    """The observations of the console."""

    events: list[Received] = field(default_factory=list)
    heartbeats: int = 0
    lost: int = 0
    synchronised: bool = False
    schemas: dict[ClassKey, EventSchema] = field(default_factory=dict)
    exchanges: dict[str, str] = field(default_factory=dict)
    """The native ids by name."""

    def observed(self, observations: tuple[Observation, ...]) -> None:
        for one in observations:
            match one:
                case EventLearned(schema):
                    self.schemas[schema.key] = schema
                case ObjectSeen(properties=properties) if one.key.name == "exchange" and properties:
                    self.exchanges[str(properties[1])] = one.native_id
                case EventSeen():
                    names = [argument.name for argument in self.schemas[one.key].arguments]
                    arguments = dict(zip(names, one.arguments, strict=True))
                    delay = SystemClock().now() - one.time
                    self.events.append(Received(one.key.name, arguments, delay))
                case HeartbeatSeen():
                    self.heartbeats += 1
                case AgentLost():
                    self.lost += 1
                case SourceStateSeen():
                    self.synchronised = one.state is SourceState.SYNCHRONISED

    def received(self, name: str, /, **arguments: object) -> list[Received]:
        """The events of this name with these arguments."""
        return [
            event
            for event in self.events
            if event.name == name and arguments.items() <= event.arguments.items()
        ]


@dataclass(frozen=True)
class Site:
    """A broker with an agent and a console, each in its own right, and the user of the console."""

    broker: PrivateBroker
    console: Console
    bodies: list[bytes]
    user: Credentials

    async def alarm(self, *, raised: bool) -> None:
        watermark = "0.0000001" if raised else "0.6"
        await asyncio.to_thread(self.broker.rabbitmqctl, "set_vm_memory_high_watermark", watermark)

    async def queue(self, name: str, method: str = "PUT") -> None:
        """Declare a queue over HTTP, or delete it."""

        def request() -> None:
            with self.broker.http() as client:
                client.request(method, f"queues/%2F/{name}", json={}).raise_for_status()

        await asyncio.to_thread(request)


@asynccontextmanager
async def site(
    broker: PrivateBroker,
    folder: Path,
    tag: str = "management",
    *,
    protected: bool = False,
    policy: Mapping[str, object] | None = None,
) -> AsyncIterator[Site]:
    """Provide an agent in its process's own function, a console on a link, and a counter of all messages.

    The agent reads as one user and publishes as another, who has ``tag``. ``protected``: all bodies are.
    ``policy``: the roles, as in a configuration.
    """
    agent, gateway = Credentials.generate("agent"), Credentials.generate("gateway")
    with broker.http() as client:
        users = (
            ProvisionedUser(agent.name, agent.password, agent_rights()),
            ProvisionedUser(gateway.name, gateway.password, gateway_rights()),
        )
        provision(client, users)
        publisher = Credentials.generate("publisher")
        client.put(f"users/{publisher.name}", json={"password": publisher.password, "tags": tag})
        rights = client.get(f"permissions/{MANAGEMENT_VHOST}/{agent.name}").json()
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        client.put(f"permissions/{MANAGEMENT_VHOST}/{publisher.name}", json=rights).raise_for_status()
        client.put(f"permissions/{MANAGEMENT_VHOST}/{broker.administrator.name}", json=everything)
    for user in (agent, publisher):
        (folder / user.name).write_text(user.password)
        (folder / user.name).chmod(0o600)
    url = f"amqp://127.0.0.1:{broker.ports.amqp}"
    amqp = {"url": url, "user": publisher.name, "password": {"file": publisher.name}}
    publish = {"amqp": amqp, "allowed_users": [gateway.name], "interval": "1s"}
    if protected:
        publish["protected"] = {"sign_as": "agent", "encrypt_for": "console", "trusted": ["console"]}
    settings = Configuration.model_validate(
        {
            "version": 1,
            "state": {"folder": "state"},
            "policy": policy or {},
            "agents": {
                "shop": {
                    "kind": "rabbitmq",
                    "management": broker.management_url,
                    "user": agent.name,
                    "password": {"file": agent.name},
                    "events": {"url": url},
                    "publish": publish,
                }
            },
        }
    )
    loaded = LoadedConfiguration(settings, folder / "gateway.yaml")
    clock, console = SystemClock(), Console()
    trusted = frozenset({publisher.name})
    session = ConsoleSession(ConsoleConfig(trusted, heartbeats=HEARTBEATS))
    conversation = MessageDriver("console", session, console.observed, clock, Counter())
    endpoint = AmqpEndpoint(url, MANAGEMENT_VHOST, gateway.name, SecretStr(gateway.password))
    protection = _console_protection(folder / "keys") if protected else None
    role = AmqpRole("console", session.bindings, protection=protection)
    link = AmqpLink(endpoint, role, conversation, clock)
    bodies: list[bytes] = []

    async def count(message: AbstractIncomingMessage) -> None:
        bodies.append(message.body)

    async with await aio_pika.connect(broker.amqp_url(vhost=MANAGEMENT_VHOST)) as counting:
        channel = await counting.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("qpid.management", "#")
        await queue.consume(count, no_ack=True)
        running = [
            asyncio.create_task(run_agent(loaded, "shop", clock, Lifeline(None))),
            asyncio.create_task(link.run()),
        ]
        try:
            await until(lambda: console.synchronised and console.schemas, "the console knows everything")
            await until(lambda: console.heartbeats, "the agent speaks")
            yield Site(broker, console, bodies, gateway)
        finally:
            for task in running:
                task.cancel()
            ended = await asyncio.gather(*running, return_exceptions=True)
            conversation.stop()
            for end in ended:
                if isinstance(end, Exception):
                    raise end


def _console_protection(folder: Path) -> BodyProtection:
    """Make keys for agent and console; return the protection of the console."""
    keys = KeyFolder(folder)
    for name in ("agent", "console"):
        keys.write(name, generated((Use.SIGN, Use.READ)))
    names = KeyNames("console", "agent", ("console",), ("agent",))
    return BodyProtection(WatchedKeys(keys, names), AcceptedInMemory(300_000, 0), 1)


async def test_under_an_alarm_protected_events_arrive_by_http(
    lent_rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    async with site(lent_rabbitmq, tmp_path, protected=True) as shop:
        await shop.alarm(raised=True)
        await until(lambda: shop.console.received("memoryAlarmSet"), "the alarm is heard of")
        await shop.queue("secret-orders")
        await until(
            lambda: shop.console.received("queueCreated", name="secret-orders"), "an event under the alarm"
        )
        await shop.alarm(raised=False)
        await until(lambda: shop.console.received("memoryAlarmCleared"), "the end of the alarm is heard of")
    assert not any(b"secret-orders" in body for body in shop.bodies)


async def test_under_an_alarm_events_arrive_promptly_and_no_storm_begins(
    lent_rabbitmq: PrivateBroker, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async with site(lent_rabbitmq, tmp_path) as shop:
        console = shop.console
        await shop.alarm(raised=True)
        await until(lambda: console.received("memoryAlarmSet"), "the alarm is heard of")
        await until(lambda: console.heartbeats > 2, "the agent speaks")
        loop = asyncio.get_running_loop()
        began, sent, heartbeats = loop.time(), len(shop.bodies), console.heartbeats
        made = 0
        while loop.time() - began < ALARM_SECONDS:
            made += 1
            await shop.queue(f"q{made}")
            await until(lambda: console.received("queueCreated", name=f"q{made}"), "an event under the alarm")  # noqa: B023  awaited here
            await asyncio.sleep(1)  # the alarm is to last
        seconds = loop.time() - began
        record_property("messages_a_second", round((len(shop.bodies) - sent) / seconds, 1))
        # Each second a heartbeat, and what changed: a body for each of five classes, and for each queue two.
        assert len(shop.bodies) - sent < 12 * (seconds + 2)
        assert console.heartbeats - heartbeats > seconds / 4
        assert console.lost == 0
        await shop.alarm(raised=False)
        await until(lambda: console.received("memoryAlarmCleared"), "its end is heard of")
        await shop.queue("after")
        await until(lambda: console.received("queueCreated", name="after"), "an event after the alarm")
        own = {"gateway", "agent", "publisher"}
        reported = [event for event in console.events if event.name.startswith("connection")]
        assert [event for event in reported if event.arguments["user"] in own] == []
        slowest = max(event.delay for event in console.events)
        record_property("slowest_event_ms", slowest // 10**6)
        assert slowest < PROMPT


async def test_alarms_that_come_and_go_neither_lose_nor_repeat_an_event(
    lent_rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    with structlog.testing.capture_logs() as logs:
        async with site(lent_rabbitmq, tmp_path) as shop:
            await _events_in_the_midst_of_alarms(shop)
    # What is on its way when an alarm begins may stick, on a busy machine: that is said, never told twice.
    assert len(_lines(logs, "blocked-connection-left")) <= CYCLES
    assert not _lines(logs, "blocked")
    assert not _lines(logs, "link-down")


async def _events_in_the_midst_of_alarms(shop: Site) -> None:
    made = 0
    on = True

    async def declare() -> None:
        nonlocal made
        while on:
            await shop.queue(f"q{made}")
            await shop.queue(f"q{made}", "DELETE")
            made += 1

    declaring = asyncio.create_task(declare())
    for _ in range(CYCLES):
        await shop.alarm(raised=True)
        await shop.alarm(raised=False)
    on = False
    await declaring
    await shop.queue("last")
    console = shop.console
    await until(lambda: console.received("queueCreated", name="last"), "the last event")
    reported = [
        (event.name, event.arguments["name"])
        for event in console.events
        if event.name in {"queueCreated", "queueDeleted"}
    ]
    expected = [(name, f"q{number}") for number in range(made) for name in ("queueCreated", "queueDeleted")]
    assert reported == [*expected, ("queueCreated", "last")]
    alarms = [event.name for event in console.events if "Alarm" in event.name]
    assert alarms[:2] == ["memoryAlarmSet", "memoryAlarmCleared"]
    assert all(one != other for one, other in pairwise(alarms))
    # Who knows nothing of message ids may hear those twice whose confirmations were lost with a connection, a
    # few on a busy machine, but never all that was stuck when the broker stopped to read.
    events = [body for body in shop.bodies if body[3:4] == b"e"]
    assert len(events) - len(set(events)) <= 4 * CYCLES


async def test_an_id_outlives_a_restart_of_the_agent(lent_rabbitmq: PrivateBroker, tmp_path: Path) -> None:
    """This includes an object that is older than the agent, and has no creation time."""
    with lent_rabbitmq.http() as client:
        client.put("exchanges/%2F/passing", json={"type": "topic", "durable": False}).raise_for_status()
    ids = []
    for _ in range(2):
        async with site(lent_rabbitmq, tmp_path) as shop:
            exchanges = shop.console.exchanges
            await until(lambda: "passing" in exchanges, "the exchange is published")  # noqa: B023  awaited here
            ids.append(exchanges["passing"])
    assert ids[0] == ids[1]
    assert ids[0].startswith("0-0-1-0-"), "sequence 0 says that it outlives restarts"


async def test_a_publisher_without_the_tag_is_silent_under_an_alarm_and_the_log_says_why(
    lent_rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    with structlog.testing.capture_logs() as logs:
        async with site(lent_rabbitmq, tmp_path, tag="") as shop:
            await until(lambda: _lines(logs, "silent-under-alarms"), "the log says so at the start")
            await shop.alarm(raised=True)
            await until(lambda: _lines(logs, "blocked"), "the log says so again")
            await shop.alarm(raised=False)
            await until(lambda: shop.console.received("memoryAlarmCleared"), "events are heard again")
            assert len(shop.console.received("memoryAlarmSet")) == 1
    assert "tag 'management'" in str(_lines(logs, "blocked")[0]["detail"])


async def test_a_console_does_not_find_out_which_objects_it_does_not_see(
    lent_rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    """Answers, and their times, are those of ids that no object has; the record has the object."""
    hidden = [f"hidden-{number}" for number in range(HIDDEN)]
    exchange = {"vhost": "/", "type": "fanout", "durable": False, "auto_delete": False, "arguments": {}}
    definitions = {"exchanges": [exchange | {"name": name, "internal": False} for name in hidden]}
    with lent_rabbitmq.http() as client:
        client.post("definitions", json=definitions).raise_for_status()
    roles = {"curious": {"allow": [{"classes": ["rabbitmq:queue"], "read": ["*"], "invoke": ["*"]}]}}
    policy = {"roles": roles, "principals": {"qmf:*": ["curious"]}}
    async with site(lent_rabbitmq, tmp_path, policy=policy) as shop, calling(shop) as call:
        exchanges = shop.console.exchanges
        await until(lambda: exchanges.keys() >= set(hidden), "the exchanges are published")
        ids = [ObjectId.parse(exchanges[name]) for name in hidden]
        took: dict[bool, list[float]] = {True: [], False: []}
        answers = set()
        for number, one in enumerate(ids):
            pair = (one, replace(one, number=one.number ^ 0xDEAD))
            for object_id in pair if number % 2 else reversed(pair):
                method = "explode" if number % 3 else "delete"
                began = perf_counter()
                answers.add(await call(object_id, method))
                took[object_id is one].append(perf_counter() - began)
    assert answers == {(Status.UNKNOWN_OBJECT, "UnknownObject", b"")}
    assert abs(rank_sum(took[True], took[False])) < SURELY_DIFFERENT
    records = list(read_log(tmp_path / "state" / "agents" / "shop" / "log"))
    attempted = [str(one.get("object_name")) for one in of_kind(records, "operation")]
    assert any(name.startswith("/|hidden-0#") for name in attempted), "the true record"


@asynccontextmanager
async def calling(shop: Site) -> AsyncIterator[Callable[[ObjectId, str], Awaitable[tuple[int, str, bytes]]]]:
    """Provide a function that calls a method of an exchange as the console; returns the answer."""
    user = shop.user
    sequences = itertools.count(1)
    async with await aio_pika.connect(
        host="127.0.0.1",
        port=shop.broker.ports.amqp,
        virtualhost=MANAGEMENT_VHOST,
        login=user.name,
        password=user.password,
    ) as connection:
        channel = await connection.channel()
        own = f"amqp-gateway.{uuid4()}"
        queue = await channel.declare_queue(own, exclusive=True)
        await queue.bind(DIRECT_EXCHANGE, own)
        requests = await channel.get_exchange("qpid.management", ensure=False)
        bodies: asyncio.Queue[bytes] = asyncio.Queue()

        async def received(message: AbstractIncomingMessage) -> None:
            bodies.put_nowait(message.body)

        await queue.consume(received, no_ack=True)

        async def call(object_id: ObjectId, method: str) -> tuple[int, str, bytes]:
            key = ClassKey("rabbitmq", "exchange", NO_HASH)
            body = write(MethodRequest(next(sequences), object_id, key, method))
            await requests.publish(aio_pika.Message(body, reply_to=own, user_id=user.name), "broker")
            (answer,) = read_body(await bodies.get(), Definitions())
            assert isinstance(answer, MethodResponse)
            return answer.status, answer.text, answer.arguments

        yield call


def _lines(logs: list[Any], event: str) -> list[Any]:
    return [line for line in logs if line["event"] == event]
