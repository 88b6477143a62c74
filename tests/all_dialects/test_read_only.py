"""A gateway that may change nothing sends to its peers only the requests that it needs to show them.

All requests are received: RabbitMQ traces messages, OpenAMQ and the application record them themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from aio_pika.abc import AbstractIncomingMessage

from gateway.demo.broker import Credentials
from gateway.dialects.cml.codec import read_message
from gateway.dialects.cml.messages import InspectRequest, SchemaRequest
from gateway.dialects.qmf.am01.messages import Revision
from gateway.dialects.session import Delivery, Effect
from gateway.service.processes.exit_codes import ExitCode
from tests.all_dialects.qpid_broker import QpidBroker
from tests.components.am01_agent import Am01Agent
from tests.components.ami_application import connected
from tests.components.amqp_peer import AmqpPeer
from tests.components.background import in_background
from tests.components.command_line import Site, new_site, running
from tests.components.open_amq import OpenAmq
from tests.components.operated_gateway import OperatedGateway
from tests.components.ports import free_tcp_port
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import wait_until
from tests.links.broker_side import client

pytestmark = pytest.mark.xdist_group("all-dialects")

GATEWAY = Credentials.generate("onlooker")
REVISIONS = {"asked": Revision.FEBRUARY_2008, "polled": Revision.MARCH_2008, "written": Revision.DESIGN_NOTES}
"""The sources of kind am01, each with an agent that has an exchange of that name."""
ATTEMPTS = (
    ("invoke", "qpid/broker/amqp-broker", "echo", "sequence=1", "body=hello"),
    ("invoke", "asked/vat/v1", "drain", "amount=1"),
    ("set", "written/vat/v1", "capacity=7"),
    ("set", "openamq/config/OpenAMQ 1.4c1|amq_server.cfg", "monitor=60"),
    ("invoke", "plant/ami-relay:application/pump-7", "drain"),
)


_GREETINGS = {("agent", "AM01H"), ("agent", "AM1B")}  # of an agent whose revision is not known yet
ALLOWED = {
    *(("qpid.management", "broker", f"AM2{opcode}") for opcode in "BPQS"),
    ("qpid.management", "agent.1.0", "AM2G"),
    *((exchange, *greeting) for exchange in REVISIONS for greeting in _GREETINGS),
    *(("asked", "agent", f"AM01{opcode}") for opcode in "PQS"),
    *(("polled", "agent", f"AM1{opcode}") for opcode in "PQSG"),
    ("written", "method.cellar.vat.probe", "AM01M"),  # whether it lives: there is no such method
}
"""The requests that change nothing: exchange, routing key, mark and opcode."""


class ReceivedOpenAmq(OpenAmq):
    """An OpenAMQ that records the kinds of its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[type] = set()

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """Record the kind of the request, and answer it."""
        self.asked.add(type(read_message(delivery.body)))
        return super().receive(delivery, now)


@dataclass(frozen=True)
class Received:
    """The peers, and the messages of the gateway on their RabbitMQ."""

    openamq: ReceivedOpenAmq
    openamq_port: int
    published: set[tuple[str, str, str]] = field(default_factory=set)
    """Exchange, routing key, and the begin of the body: the mark of a dialect and an opcode."""

    async def note(self, traced: AbstractIncomingMessage) -> None:
        """Record a message that was published in the virtual host."""
        if traced.headers["user"] == GATEWAY.name:
            _, _, exchange = (traced.routing_key or "").partition(".")
            key, opcode = str(traced.headers["routing_keys"]), traced.body[:5].decode("latin-1")
            if not (
                key.startswith("['amqp-gateway.console.") and not traced.body
            ):  # whether its queue is bound
                self.published.add((exchange, key.strip("[']"), opcode.rstrip("\0")))


@asynccontextmanager
async def peers(vhost: VirtualHost) -> AsyncIterator[Received]:
    """Provide a Qpid broker and agents of three revisions in the traced virtual host, and an OpenAMQ."""
    there = vhost.broker, vhost.name
    agents = [Am01Agent(*there, one, exchange, GATEWAY.name) for exchange, one in REVISIONS.items()]
    for agent in agents:
        agent.put(1)
    openamq = ReceivedOpenAmq()
    async with client(vhost) as channel, AmqpPeer(openamq.script) as peer:
        received = Received(openamq, peer.port)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(await channel.get_exchange("amq.rabbitmq.trace"), "publish.#")
        await queue.consume(received.note, no_ack=True)
        programs = (QpidBroker(*there).run(), *(agent.run() for agent in agents))
        speaking = [asyncio.create_task(one) for one in programs]
        try:
            yield received
        finally:
            for task in speaking:
                task.cancel()
            await asyncio.gather(*speaking, return_exceptions=True)
            assert all(agent.done == [] for agent in agents)
            assert openamq.done == []


@dataclass(frozen=True, slots=True)
class Onlooker(OperatedGateway):
    """The gateway that may change nothing."""

    modules: ClassVar = ("AMQP-GATEWAY-OPENAMQ-MIB",)
    site: Site

    def refuses(self, *words: str) -> bool:
        """Return whether this command is not allowed; it must not succeed."""
        code = self.command(*words).code
        assert code in {ExitCode.REFUSED, ExitCode.NOT_FOUND}, words
        return code is ExitCode.REFUSED


def configured(folder: Path, vhost: VirtualHost, received: Received, ami_port: int) -> Onlooker:
    """Configure get and set of AM01, and everything else that a source's own configuration can allow."""
    site = new_site(folder)
    amqp = {
        "url": f"amqp://127.0.0.1:{vhost.broker.ports.amqp}",
        "vhost": vhost.name,
        "user": GATEWAY.name,
        "password": site.secret(GATEWAY.password),
    }
    trusted = {"amqp": amqp, "trusted_users": [vhost.broker.administrator.name]}
    am01 = {**trusted, "kind": "am01", "get_and_set": True, "events": True}
    openamq = f"amqp://127.0.0.1:{received.openamq_port}"
    site.configure(
        sources={
            "qpid": {**trusted, "kind": "qmf"},
            **{name: {**am01, "exchange": name, "interval": "1s"} for name in REVISIONS},
            "openamq": {
                "kind": "cml",
                "amqp": {"url": openamq, "user": "super", "password": site.secret("super")},
                "assured": ["config-file", "heartbeats"],
            },
            "plant": {"kind": "ami", "listen": f"127.0.0.1:{ami_port}"},
        },
        snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "writers": {"operator": {}}},
        log={"compact": False},
    )
    return Onlooker(site)


@contextmanager
def traced_user(vhost: VirtualHost) -> Iterator[None]:
    """Provide the gateway's user, with all rights in the virtual host, whose messages are traced."""
    vhost.broker.rabbitmqctl("trace_on", "-p", vhost.name)
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    with vhost.http() as http:
        user = {"password": GATEWAY.password, "tags": ""}
        http.put(f"users/{GATEWAY.name}", json=user).raise_for_status()
        http.put(f"permissions/{vhost.path}/{GATEWAY.name}", json=everything).raise_for_status()
        yield
        http.delete(f"users/{GATEWAY.name}").raise_for_status()


def test_what_it_says_is_what_it_needs_to_show(virtual_host: VirtualHost, tmp_path: Path) -> None:
    port = free_tcp_port()
    with traced_user(virtual_host), in_background(partial(peers, virtual_host)) as received:
        onlooker = configured(tmp_path, virtual_host, received, port)
        with running("run", "--config", onlooker.site.configuration, log=tmp_path / "log") as command:
            command.ready()
            wait_until(lambda: onlooker.states().get("plant") == "synchronised", "it listens")
            with connected(port) as application:
                application.log_in("pump-7")
                application.say('C|I="drain"|N="Drain"|M="0"')
                onlooker.are_all("synchronised")
                for verb, path, *more in ATTEMPTS:
                    for words in ((verb, path, *more), ("get", "--fresh", path)):
                        wait_until(partial(onlooker.refuses, *words), f"{path} is there, and {verb} refused")
                wait_until(lambda: onlooker.walk("oamqConfigMonitor"), "managers see it, too")
                (monitor,) = onlooker.walk("oamqConfigMonitor")
                assert "noAccess" in onlooker.set(monitor, "=", "60")
                application.say("X")
                assert {line.partition("|")[0] for line in application.receive_all()} <= {"M"}
        assert received.openamq.asked == {SchemaRequest, InspectRequest}
        assert {exchange for exchange, _, _ in received.published} == {"qpid.management", *REVISIONS}
        assert received.published <= ALLOWED
