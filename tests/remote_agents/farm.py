"""A broker's own agent and two beside it on a live RabbitMQ, and a gateway that reads all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final
from uuid import uuid4

from gateway.clock import SystemClock
from gateway.demo.broker import PrivateBroker
from gateway.dialects.qmf.addresses import CONTENT_TYPE, DIRECT_EXCHANGE, MANAGEMENT_EXCHANGE
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import CommandComplete, GetQuery, Heartbeat, Message, ObjectContent
from gateway.dialects.session import (
    Binding,
    Delivery,
    Effect,
    Event,
    EventNotTakenError,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.components.agent_on_link import AgentOnLink
from tests.components.background import Background, background
from tests.components.command_line import Site, new_site, running
from tests.components.operated_gateway import OperatedGateway
from tests.components.rabbitmq import new_virtual_host

SOURCE: Final = "farm"
SHED: Final = ClassSchema(ClassKey("farm", "shed"), (Element("name", ValueType.STRING, index=True),))
AGENT: Final = ClassSchema(
    ClassKey("org.apache.qpid.broker", "agent"),
    (
        Element("label", ValueType.STRING),
        Element("brokerBank", ValueType.U32),
        Element("agentBank", ValueType.U32),
    ),
)


class RemoteAgent:
    """An agent beside the broker's own: a heartbeat each second, and one shed, named after its bank.

    Attributes:
        bank: the number of its agent bank.
        hangs: whether it answers no requests.
        is_stopped: whether it sends nothing at all.
    """

    def __init__(self, bank: int, shed: ClassKey, definitions: Definitions) -> None:
        self.bank = bank
        self.hangs = self.is_stopped = False
        self._shed = shed
        self._definitions = definitions

    def start(self, now: int) -> list[Effect]:
        """Send the first heartbeat, and start the timer."""
        return self._tick(now)

    def suspend(self) -> None:
        """Handle the end of the link."""

    def bindings(self) -> Sequence[Binding]:
        """Return the binding for its requests."""
        return [Binding(MANAGEMENT_EXCHANGE, f"agent.1.{self.bank}")]

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an event as `Session.handle`."""
        match event:
            case Delivery():
                return self._receive(event, now)
            case TimerExpired():
                return self._tick(now)
        raise EventNotTakenError(self, event)

    def _tick(self, now: int) -> list[Effect]:
        """Send the heartbeat of this second."""
        beat = self._send(MANAGEMENT_EXCHANGE, f"console.heartbeat.1.{self.bank}", Heartbeat(0, now))
        return [*([] if self.is_stopped else [beat]), WakeAt(now + SECOND)]

    def _receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """Answer a request for the objects of a class."""
        if self.hangs or self.is_stopped:
            return []
        reported: list[Message] = []
        for request in read_body(delivery.body, self._definitions):
            assert isinstance(request, GetQuery)
            if request.selector.get("_class") == "shed":
                shed, name = ObjectId.of(sequence=1, agent_bank=self.bank, number=1), f"shed {self.bank}"
                values = (name, None)  # it is not stale
                reported.append(ObjectContent(request.sequence, self._shed, now, now, 0, shed, values, ()))
            reported.append(CommandComplete(request.sequence))
        return [self._send(DIRECT_EXCHANGE, delivery.reply_to, *reported)]

    def _send(self, exchange: str, key: str, *messages: Message) -> Send:
        body = b"".join(write(one, self._definitions) for one in messages)
        return Send(exchange, key, body, content_type=CONTENT_TYPE)


class Agents:
    """The agents, on one event loop.

    Attributes:
        farm, mill: the agents beside the broker's own.
    """

    def __init__(self, user: str) -> None:
        config = AgentConfig(uuid4(), 1, frozenset({user}), publish_interval=SECOND)
        self._broker = AgentSession(config, [SHED, AGENT])
        shed = self._broker.class_key("farm", "shed")
        self.farm, self.mill = (RemoteAgent(bank, shed, self._broker.definitions) for bank in (10, 11))
        self._own = AgentOnLink(self._broker)
        for agent in (self.farm, self.mill):
            now = SystemClock().now()
            described = ("remote", 1, agent.bank)
            key = self._broker.class_key("org.apache.qpid.broker", "agent")
            self._broker.put(ManagedObject(key, agent.bank, now, described, (), now))

    def leaves(self, agent: RemoteAgent) -> None:
        """Stop an agent, and delete its object at the broker's own agent."""
        agent.is_stopped = True
        self._broker.delete(agent.bank, SystemClock().now())

    async def speak(self, broker: PrivateBroker, vhost: str) -> None:
        """Run the links of all agents until cancelled."""
        async with asyncio.TaskGroup() as group:
            for link in (self._own, AgentOnLink(self.farm), AgentOnLink(self.mill)):
                group.create_task(link.speak(broker, vhost))


@asynccontextmanager
async def _speaking(broker: PrivateBroker, vhost: str) -> AsyncIterator[Agents]:
    agents = Agents(broker.administrator.name)
    task = asyncio.create_task(agents.speak(broker, vhost))
    try:
        yield agents
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Farm(OperatedGateway):
    """Running agents and a gateway.

    Attributes:
        site: the gateway's folder.
        agents: the agents, on an event loop of their own.
    """

    modules: ClassVar = ("AMQP-GATEWAY-SITE-MIB",)
    site: Site
    agents: Background[Agents]

    def detail(self) -> str:
        """Return the detail of the source beside its state."""
        return str(self.sources()[SOURCE]["detail"])

    def stale(self) -> dict[str, str]:
        """Return the staleness of each shed that SNMP shows, by the shed's name."""
        names = self.walk("siteFarmShedName")
        stale = self.walk("siteFarmShedRowStale")
        rows = {key.partition(".")[2]: value for key, value in stale.items()}
        return {name: rows.get(key.partition(".")[2], "") for key, name in names.items()}


@contextmanager
def farm(broker: PrivateBroker, folder: Path) -> Iterator[Farm]:
    """Provide agents and gateway, as soon as the source is synchronised."""
    user = broker.administrator
    with ExitStack() as stack:
        vhost = stack.enter_context(new_virtual_host(broker)).name
        agents = stack.enter_context(background(lambda: _speaking(broker, vhost)))
        site = new_site(folder)
        amqp = {
            "url": f"amqp://127.0.0.1:{broker.ports.amqp}",
            "vhost": vhost,
            "user": user.name,
            "password": site.secret(user.password),
        }
        source = {"kind": "qmf", "amqp": amqp, "trusted_users": [user.name], "request_deadline": "1s"}
        site.configure(
            sources={SOURCE: source},
            snmp={"listen": [f"127.0.0.1:{site.snmp_port}"]},
            log={"compact": False},
        )
        log = folder / "gateway.log"
        stack.enter_context(running("run", "--config", site.configuration, log=log)).ready()
        there = Farm(site, agents)
        there.are_all("synchronised")
        yield there
