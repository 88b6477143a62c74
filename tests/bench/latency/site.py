"""The whole gateway on a broker of the benchmark's own, with the agent, publisher and consumer."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aio_pika
from aio_pika.abc import AbstractExchange, AbstractIncomingMessage
from pydantic import SecretStr

from gateway.clock import SystemClock
from gateway.demo.broker import Credentials, PrivateBroker
from gateway.demo.node_setup import free_ports
from gateway.dialects.session import Send
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint, open_connection
from gateway.links.session_driver import MessageDriver
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import (
    MANAGEMENT_EXCHANGE,
    MANAGEMENT_VHOST,
    agent_rights,
    gateway_rights,
)
from tests.bench.latency.agent import AGENT_USER, GATEWAY_USER, LinkedAgent, MeterAgent
from tests.bench.latency.sightings import Sightings
from tests.components.command_line import Site, new_site, running
from tests.components.rabbitmq import TEST_SETTINGS

_YARDSTICK = "yardstick"
"""A routing key to which no other queue is bound."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The running gateway and its surroundings.

    Attributes:
        site: the gateway's folder, with its secrets.
        snmp_port: the port of SNMP on the loopback.
        jmx_port: the port of JMX on the loopback.
        traps: the socket that receives the traps.
        publishing: the publisher of samples.
    """

    site: Site
    snmp_port: int
    jmx_port: int
    traps: socket.socket
    publishing: Publishing


class Publishing:
    """A publisher of samples as the agent's user, and of the same octets for a plain consumer.

    Args:
        exchange: the exchange of the agents' publications.
        agent: makes the samples.
        consumer: the sightings of the plain consumer.
    """

    def __init__(self, exchange: AbstractExchange, agent: MeterAgent, consumer: Sightings) -> None:
        self._exchange = exchange
        self._agent = agent
        self._consumer = consumer

    async def sample(self, number: int) -> int:
        """Publish ``number`` for the gateway; return the time of the beginning (``time.monotonic_ns``)."""
        return await self._publish(self._agent.sample(number), number)

    async def yardstick(self, number: int) -> int:
        """Return the nanoseconds from publishing the octets of a sample until the plain consumer has them."""
        sample = self._agent.sample(number)
        start = await self._publish(replace(sample, routing_key=_YARDSTICK), number)
        seen = await self._consumer.of(number)
        assert seen is not None, "the plain consumer got nothing"
        return seen - start

    async def _publish(self, send: Send, number: int) -> int:
        message = aio_pika.Message(send.body, user_id=AGENT_USER, message_id=str(number))
        start = time.monotonic_ns()
        await self._exchange.publish(message, send.routing_key)
        return start


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    """Provide everything running; the gateway may not have received anything of the agent yet."""
    agent = MeterAgent()
    with PrivateBroker(settings=TEST_SETTINGS) as broker, new_trap_socket() as traps:
        await asyncio.to_thread(broker.start)
        passwords = await asyncio.to_thread(grant, broker)
        site = new_site(folder)
        (jmx_port,) = free_ports(1)
        _configure(site, broker, passwords[GATEWAY_USER], jmx_port, traps.getsockname())
        endpoint = endpoint_of(broker, AGENT_USER, passwords[AGENT_USER])
        async with linked(agent, endpoint), _publishing(agent, endpoint) as publishing:
            with running("run", "--config", site.configuration, log=folder / "gateway.log") as gateway:
                await asyncio.to_thread(gateway.ready)
                yield Scene(site, site.snmp_port, jmx_port, traps, publishing)


def new_trap_socket() -> socket.socket:
    """Return a UDP socket of the loopback."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    return receiver


def grant(broker: PrivateBroker) -> dict[str, str]:
    """Create the virtual host, exchange and both users with the least rights; return passwords by name."""
    rights = {GATEWAY_USER: gateway_rights(), AGENT_USER: agent_rights()}
    users = tuple(
        ProvisionedUser(name, Credentials.generate(name).password, each) for name, each in rights.items()
    )
    with broker.http() as client:
        provision(client, users)
    return {user.name: user.password for user in users}


def _configure(site: Site, broker: PrivateBroker, password: str, jmx: int, traps: tuple[str, int]) -> None:
    amqp = {"url": url_of(broker), "user": GATEWAY_USER, "password": site.secret(password)}
    host, port = traps
    site.configure(
        sources={"bench": {"kind": "qmf", "amqp": amqp, "trusted_users": [AGENT_USER]}},
        snmp={
            "listen": [f"127.0.0.1:{site.snmp_port}"],
            "notifications": {"bench": {"address": f"{host}:{port}"}},
        },
        jmx={"enabled": True, "listen": f"127.0.0.1:{jmx}"},
    )


def url_of(broker: PrivateBroker) -> str:
    """Return the URL of AMQP on the loopback."""
    return f"amqp://127.0.0.1:{broker.ports.amqp}"


def endpoint_of(broker: PrivateBroker, user: str, password: str) -> AmqpEndpoint:
    """Return the endpoint of the management virtual host for one of the users of `grant`."""
    return AmqpEndpoint(url_of(broker), MANAGEMENT_VHOST, user, SecretStr(password))


@asynccontextmanager
async def linked(agent: LinkedAgent, endpoint: AmqpEndpoint) -> AsyncIterator[None]:
    """Run the agent on the broker's management exchange."""
    conversation = MessageDriver("bench", agent, lambda _: None, SystemClock(), Counter())
    role = AmqpRole("agent", agent.bindings, declare=[MANAGEMENT_EXCHANGE])
    running_link = asyncio.create_task(AmqpLink(endpoint, role, conversation, SystemClock()).run())
    try:
        yield
    finally:
        running_link.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running_link
        conversation.stop()


@asynccontextmanager
async def _publishing(agent: MeterAgent, endpoint: AmqpEndpoint) -> AsyncIterator[Publishing]:
    """Provide a connection that publishes, and another that consumes the yardstick."""
    seen = Sightings(asyncio.get_running_loop())

    async def arrived(message: AbstractIncomingMessage) -> None:
        seen.saw(int(message.message_id or 0), time.monotonic_ns())

    async with (
        await open_connection(endpoint, "bench publish") as outgoing,
        await open_connection(endpoint, "bench consume") as incoming,
    ):
        arriving = await incoming.channel(publisher_confirms=False)
        queue = await arriving.declare_queue(f"amqp-gateway.bench.{uuid.uuid4()}", exclusive=True)
        await queue.bind(MANAGEMENT_EXCHANGE, _YARDSTICK)
        await queue.consume(arrived, no_ack=True)
        leaving = await outgoing.channel(publisher_confirms=False)
        exchange = await leaving.get_exchange(MANAGEMENT_EXCHANGE, ensure=False)
        yield Publishing(exchange, agent, seen)
