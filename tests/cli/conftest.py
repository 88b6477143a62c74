"""Fixtures of the tests of commands."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Ended, RunningCommand, Site, amqp_gateway, new_site, running
from tests.components.ports import free_tcp_port
from tests.components.rabbitmq import VirtualHost, new_virtual_host
from tests.components.waiting import wait_until


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A configuration without sources, and a state folder."""
    return new_site(tmp_path)


@pytest.fixture
def site_without_state(tmp_path: Path) -> Site:
    """A configuration without sources whose gateway was never made."""
    return new_site(tmp_path, state=False)


@dataclass(frozen=True, slots=True)
class ShownGateway:
    """A gateway that runs and shows a RabbitMQ.

    Attributes:
        site: its configuration.
        virtual_host: of the broker, for these tests alone.
        command: the gateway's process.
    """

    site: Site
    virtual_host: VirtualHost
    command: RunningCommand

    def call(self, *arguments: str) -> Ended:
        """Run a command with this gateway's configuration."""
        name, *rest = arguments
        words = [name, "--config", str(self.site.configuration), *rest]
        if name == "source":
            words = [name, rest[0], "--config", str(self.site.configuration), *rest[1:]]
        return amqp_gateway(*words)

    def output(self, *arguments: str) -> str:
        """Return the output of a command that succeeded."""
        ended = self.call(*arguments)
        assert ended.code is ExitCode.OK, ended.errors
        return ended.output

    def documents(self, *arguments: str) -> list[Any]:
        """Return the documents that a command with ``--json`` printed, one a line."""
        return [json.loads(line) for line in self.output(*arguments, "--json").splitlines()]

    def declare(self, queue: str) -> None:
        """Make a durable queue."""
        with self.virtual_host.http() as http:
            path = f"queues/{self.virtual_host.path}/{queue}"
            http.put(path, json={"durable": True}).raise_for_status()

    def path(self, queue: str) -> str:
        """Return the name of a queue at the command line."""
        return f"orders/rabbitmq:queue/{self.virtual_host.name}|{queue}"


@contextmanager
def running_gateway(
    broker: PrivateBroker,
    folder: Path,
    prepare: Callable[[Site], None] = lambda _: None,
    management: str = "",
    *,
    has_jmx: bool = True,
    **sections: Any,  # noqa: ANN401
) -> Iterator[ShownGateway]:
    """A gateway with the source ``orders``, SNMP and JMX names, and the durable queue ``first``.

    ``prepare`` is called when the configuration is written, before the gateway starts. ``management`` is the
    URL of the management API, if it is another than the broker's own. Who needs nothing of JMX leaves it out:
    its process and virtual machine take seconds of processor time.
    """
    site = new_site(folder)
    password = site.secret(broker.administrator.password)
    account = {"user": broker.administrator.name, "password": password}
    source = {
        "kind": "rabbitmq",
        "management": management or broker.management_url,
        "interval": "2s",
        "budget": 0.5,
        "events": {"url": f"amqp://127.0.0.1:{broker.ports.amqp}"},
        **account,
        **({"writing": account} if "operations" in sections else {}),
    }
    jmx = {"enabled": has_jmx, "listen": f"127.0.0.1:{free_tcp_port()}"}
    site.configure(sources={"orders": source}, jmx=jmx, **sections)
    prepare(site)
    with (
        new_virtual_host(broker) as virtual_host,
        running("run", "--config", site.configuration, log=site.folder / "log") as command,
    ):
        shown = ShownGateway(site, virtual_host, command)
        shown.declare("first")
        command.ready()
        wait_until(lambda: shown.call("get", shown.path("first")).code is ExitCode.OK, "a queue is shown")
        yield shown


@pytest.fixture(scope="package")
def quiet_rabbitmq(rabbitmq_settings: BrokerSettings) -> Iterator[PrivateBroker]:
    """A RabbitMQ whose objects tests count, one after the other, in the group ``quiet broker``."""
    with PrivateBroker(settings=rabbitmq_settings) as broker:
        yield broker


@pytest.fixture(scope="package")
def shown_gateway(
    rabbitmq: PrivateBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ShownGateway]:
    """A gateway that shows and changes nothing."""
    with running_gateway(rabbitmq, tmp_path_factory.mktemp("shown")) as shown:
        yield shown


@pytest.fixture(scope="module")
def changing_gateway(
    rabbitmq: PrivateBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ShownGateway]:
    """Provide a gateway whose rules permit the user of these tests to purge, and to limit virtual hosts."""
    who = f"cli:{getpass.getuser()}"
    rule = {
        "who": [who],
        "classes": ["rabbitmq:*"],
        "set": ["maxConnections", "description", "tags"],
        "invoke": ["purge", "setMaxQueues"],
        "read": True,
    }
    operations = {"allow": [rule], "deadline": "1min"}
    folder, snmp = tmp_path_factory.mktemp("changing"), {"enabled": False}
    with running_gateway(rabbitmq, folder, snmp=snmp, operations=operations) as shown:
        yield shown
