"""A gateway with two sources of kind am01, their agents, and the view of operators."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from gateway.demo.broker import PrivateBroker
from gateway.demo.snmp_commands import TrapReceiver
from gateway.dialects.qmf.am01.messages import Revision
from tests.components.am01_agent import REPUBLISHED, Am01Agent
from tests.components.background import Background, background
from tests.components.command_line import Site, new_site, running
from tests.components.operated_gateway import OPERATOR, OperatedGateway
from tests.components.ports import free_udp_port
from tests.components.rabbitmq import new_virtual_host

ASKED = "february"
"""A source whose agent speaks as of February 2008; the gateway finds that out."""
WRITTEN = "written"
"""A source whose agent speaks as the design notes have it, with get, set and events in our layout."""


@dataclass(frozen=True, slots=True)
class Agents:
    """The managed agents, and the receiver of the gateway's notifications, on one event loop."""

    asked: Am01Agent
    written: Am01Agent
    traps: TrapReceiver


@asynccontextmanager
async def _agents(broker: PrivateBroker, vhost: str, folder: Path) -> AsyncIterator[Agents]:
    asked = Am01Agent(broker, vhost, Revision.FEBRUARY_2008)
    written = Am01Agent(broker, vhost, Revision.DESIGN_NOTES, "written.management")
    traps = await TrapReceiver.start(folder / "traps", free_udp_port(), "traps")
    running = [asyncio.create_task(one.run()) for one in (asked, written)]
    for agent in (asked, written):
        agent.put(1)
    try:
        yield Agents(asked, written, traps)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await traps.stop()


@dataclass(frozen=True, slots=True)
class Cellar(OperatedGateway):
    """Agents and a gateway that run.

    Attributes:
        site: the gateway's.
        agents: on an event loop of their own.
        vhost: the virtual host of both.
    """

    modules: ClassVar = ("AMQP-GATEWAY-SITE-MIB",)
    site: Site
    agents: Background[Agents]
    vhost: str


@contextmanager
def cellar(broker: PrivateBroker, folder: Path) -> Iterator[Cellar]:
    """Provide agents and gateway, as soon as the gateway knows all their objects."""
    with ExitStack() as stack:
        vhost = stack.enter_context(new_virtual_host(broker)).name
        agents = stack.enter_context(background(lambda: _agents(broker, vhost, folder)))
        site = new_site(folder)
        _configure(site, broker, vhost, agents.is_.traps)
        log = folder / "gateway.log"
        stack.enter_context(running("run", "--config", site.configuration, log=log)).ready()
        there = Cellar(site, agents, vhost)
        there.are_all("synchronised")
        yield there


def am01_source(site: Site, broker: PrivateBroker, vhost: str) -> dict[str, Any]:
    """Return the settings of a source that reads a virtual host as the administrator, whom it trusts."""
    user = broker.administrator
    amqp = {
        "url": f"amqp://127.0.0.1:{broker.ports.amqp}",
        "vhost": vhost,
        "user": user.name,
        "password": site.secret(user.password),
    }
    return {"kind": "am01", "amqp": amqp, "trusted_users": [user.name], "interval": "1s"}


def _configure(site: Site, broker: PrivateBroker, vhost: str, traps: TrapReceiver) -> None:
    source = am01_source(site, broker, vhost)
    written = {
        "exchange": "written.management",
        "get_and_set": True,
        "events": True,
        "republish_interval": f"{REPUBLISHED}s",
    }
    host, port = traps.address
    site.configure(
        sources={ASKED: source, WRITTEN: {**source, **written}},
        operations={
            "deadline": "1min",
            "allow": [
                {
                    "who": [f"cli:{getpass.getuser()}", f"snmp:{OPERATOR}"],
                    "set": ["*"],
                    "invoke": ["drain"],
                    "read": True,
                }
            ],
        },
        snmp={
            "listen": [f"127.0.0.1:{site.snmp_port}"],
            "writers": {OPERATOR: {}},
            "notifications": {"nms": {"address": f"{host}:{port}", "community": site.secret("traps")}},
        },
        log={"compact": False},
    )
