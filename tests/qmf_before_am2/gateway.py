"""A gateway with two sources of kind am01, the agents that they hear, and what operators see of it."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.demo.broker import PrivateBroker
from gateway.demo.trap_receiver import TrapReceiver
from gateway.dialects.qmf.am01.revisions import Revision
from gateway.service.exit_codes import ExitCode
from gateway.shipped_files import shipped_folder
from gateway.snmp.mib.lint import base_folders
from tests.components.am01_agent import Am01Agent
from tests.components.command_line import Ended, Site, amqp_gateway, new_site, running
from tests.components.open_amq import Background, background
from tests.components.ports import free_udp_port
from tests.components.rabbitmq import new_virtual_host
from tests.components.waiting import wait_until

ASKED = "february"
"""A source whose agent speaks as of February 2008; the gateway finds that out."""
WRITTEN = "written"
"""One whose agent speaks as the design notes have it, with get, set and events as we lay them out."""


@dataclass(frozen=True, slots=True)
class Agents:
    """Who is managed, and who hears the gateway's notifications, on one event loop."""

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
class Cellar:
    """Agents and a gateway that run.

    Attributes:
        site: the gateway's.
        agents: on an event loop of their own.
    """

    site: Site
    agents: Background[Agents]

    def command(self, *arguments: str) -> Ended:
        """Run a command beside the gateway, with its configuration."""
        return amqp_gateway(*arguments, "--config", self.site.configuration)

    def documents(self, *arguments: str) -> list[dict[str, Any]]:
        """The lines that a command with ``--json`` printed; none where it did not do its work."""
        ended = self.command(*arguments, "--json")
        return [json.loads(line) for line in ended.output.splitlines()] if ended.code is ExitCode.OK else []

    def states(self) -> dict[str, str]:
        """Of the sources."""
        return {str(each["source"]): str(each["state"]) for each in self.documents("source", "ls")}

    def walk(self, name: str) -> dict[str, str]:
        """What net-snmp's snmpwalk prints of a column, by source and row."""
        lines = (line.partition(" = ") for line in self._snmp("snmpwalk", "community", name).splitlines())
        return {key.partition(".")[2]: value.strip('"') for key, _, value in lines}

    def set(self, instance: str, value: str) -> str:
        """What net-snmp's snmpset prints."""
        return self._snmp("snmpset", "community-operator", instance, "=", value)

    def shows(self, name: str, *values: str) -> None:
        """Wait until a walk of a column shows these values and no others."""
        wait_until(lambda: sorted(self.walk(name).values()) == sorted(values), f"{name} shows {values}")

    def _snmp(self, program: str, community: str, *arguments: str) -> str:
        folder = self.site.folder / "snmp"
        folder.mkdir(exist_ok=True)
        modules = (*base_folders(), shipped_folder("mibs"), self.site.state.path / "mibs")
        words = [program, "-v2c", "-c", self.site.state.secret(community), "-OQs", "-t", "30", "-r", "0"]
        words += ["-M", ":".join(map(str, modules)), "-m", "AMQP-GATEWAY-MIB:AMQP-GATEWAY-SITE-MIB"]
        done = subprocess.run(  # noqa: S603  no shell; the arguments are ours
            [*words, f"127.0.0.1:{self.site.snmp_port}", *arguments],
            env={**os.environ, "SNMPCONFPATH": str(folder), "SNMP_PERSISTENT_DIR": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr


@contextmanager
def cellar(broker: PrivateBroker, folder: Path) -> Iterator[Cellar]:
    """Agents and gateway, as soon as the gateway knows all that they tell."""
    with ExitStack() as stack:
        vhost = stack.enter_context(new_virtual_host(broker)).name
        agents = stack.enter_context(background(lambda: _agents(broker, vhost, folder)))
        site = new_site(folder)
        _configure(site, broker, vhost, agents.is_.traps)
        log = folder / "gateway.log"
        stack.enter_context(running("run", "--config", site.configuration, log=log)).ready()
        there = Cellar(site, agents)
        wait_until(lambda: set(there.states().values()) == {"synchronised"}, "all is known")
        yield there


def _configure(site: Site, broker: PrivateBroker, vhost: str, traps: TrapReceiver) -> None:
    user = broker.administrator
    amqp = {
        "url": f"amqp://127.0.0.1:{broker.ports.amqp}",
        "vhost": vhost,
        "user": user.name,
        "password": site.secret(user.password),
    }
    source = {"kind": "am01", "amqp": amqp, "believe": [user.name], "interval": "1s"}
    written = {
        "exchange": "written.management",
        "get_and_set": True,
        "events": True,
        "republish_interval": "2s",
    }
    host, port = traps.address
    site.configure(
        sources={ASKED: source, WRITTEN: {**source, **written}},
        operations={
            "allow": [
                {
                    "who": [f"cli:{getpass.getuser()}", "snmp:operator"],
                    "set": ["*"],
                    "invoke": ["drain"],
                    "read": True,
                }
            ]
        },
        snmp={
            "listen": [f"127.0.0.1:{site.snmp_port}"],
            "writers": {"operator": {}},
            "notifications": {"nms": {"address": f"{host}:{port}", "community": site.secret("traps")}},
        },
        log={"compact": False},
    )
