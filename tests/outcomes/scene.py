"""A RabbitMQ of its own with a writing account, and a gateway through which one operator may change it."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.agents.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.agents.rabbitmq.rights import Grant, UserRights, gateway_rights, watching
from gateway.demo.broker import Credentials, PrivateBroker
from gateway.eventlog.query import ask
from gateway.service.exit_codes import ExitCode
from tests.components.command_line import Ended, RunningCommand, Site, amqp_gateway, new_site, running
from tests.components.ports import free_tcp_port
from tests.components.rabbitmq import TEST_SETTINGS
from tests.components.waiting import wait_until

SOURCE: Final = "rabbitmq"
READER, WRITER = "gateway", "gateway-writer"
VHOST: Final = "shop"
QUEUE: Final = "orders"
OPERATOR: Final = "operator"
"""Who may, in SNMP and JMX; at the command line it is who runs the tests."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything running.

    Attributes:
        broker: with the virtual host `VHOST` and the queue `QUEUE` in it.
        site: the gateway's folder.
        gateway: the running command.
        jmx_port: of the loopback.
    """

    broker: PrivateBroker
    site: Site
    gateway: RunningCommand
    jmx_port: int

    def command(self, *arguments: str) -> Ended:
        """Run a command beside the gateway, with its configuration."""
        return amqp_gateway(*arguments, "--config", self.site.configuration)

    def logged(self, operation_id: str) -> dict[str, Any]:
        """The last record of an operation in the event log, as soon as it has an outcome."""
        found: list[dict[str, Any]] = []

        def is_told() -> bool:
            sql = (
                "SELECT principal, outcome, state, method, element, code, text, latency_ns, former, found, "
                "\"values\" FROM log WHERE kind = 'operation' AND operation_id = $id ORDER BY seq"
            )
            with ask(self.site.state.path / "log", sql, {"id": operation_id}) as answer:
                rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
            found[:] = [row for row in rows if row["outcome"] is not None]
            return bool(found)

        wait_until(is_told, f"the outcome of {operation_id} is logged")
        return found[-1]

    def limits(self) -> dict[str, int]:
        """Of the virtual host, as RabbitMQ's own command tells them."""
        told = json.loads(self.broker.rabbitmqctl("list_vhost_limits", "-p", VHOST, "--formatter", "json"))
        return dict(json.loads(told["value"])) if told else {}  # a list where there are none

    def depth(self) -> int:
        """Messages in the queue, as RabbitMQ's own command tells them."""
        told = self.broker.rabbitmqctl("list_queues", "-p", VHOST, "name", "messages", "--formatter", "json")
        return {row["name"]: int(row["messages"]) for row in json.loads(told)}[QUEUE]

    def fill(self, messages: int) -> None:
        """Put so many messages into the queue."""
        with self.broker.http() as http:
            for _ in range(messages):
                body = {"properties": {}, "routing_key": QUEUE, "payload": "x", "payload_encoding": "string"}
                http.post(f"exchanges/{VHOST}/amq.default/publish", json=body).raise_for_status()
        wait_until(lambda: self.depth() == messages, "all messages are in the queue")


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """A gateway in which the operator may do everything that the tests try; all ends with the block."""
    with PrivateBroker(settings=TEST_SETTINGS) as broker:
        broker.start()
        with broker.http() as http:
            http.put(f"vhosts/{VHOST}", json={}).raise_for_status()
            administrator = broker.administrator.name
            everything = {"configure": ".*", "write": ".*", "read": ".*"}
            http.put(f"permissions/{VHOST}/{administrator}", json=everything).raise_for_status()
            http.put(f"queues/{VHOST}/{QUEUE}", json={"durable": True}).raise_for_status()
            passwords = _grant(broker)
        site, jmx_port = new_site(folder), free_tcp_port()
        configure(site, broker, passwords, jmx_port)
        with running("run", "--config", site.configuration, log=folder / "gateway.log") as gateway:
            gateway.ready()
            there = Scene(broker, site, gateway, jmx_port)
            queue = f"{SOURCE}/queue/{VHOST}|{QUEUE}"
            wait_until(lambda: there.command("get", queue).code is ExitCode.OK, "the queue is shown")
            yield there


def configure(
    site: Site, broker: PrivateBroker, passwords: dict[str, str], jmx_port: int, **changes: object
) -> None:
    """Write the gateway's configuration; ``changes`` are of the section ``operations``."""
    site.configure(
        sources={
            SOURCE: {
                "kind": "rabbitmq",
                "management": broker.management_url,
                "user": READER,
                "password": site.secret(passwords[READER]),
                "events": {"url": f"amqp://127.0.0.1:{broker.ports.amqp}"},
                "interval": "1s",
                "budget": 0.5,
                "writing": {"user": WRITER, "password": site.secret(passwords[WRITER])},
            }
        },
        snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "writers": {OPERATOR: {}}},
        jmx={"enabled": True, "listen": f"127.0.0.1:{jmx_port}", "users": {OPERATOR: {}, "monitor": {}}},
        operations={
            "deadline": "5s",
            "allow": [
                {
                    "who": [f"snmp:{OPERATOR}", f"jmx:{OPERATOR}", f"cli:{getpass.getuser()}"],
                    "set": ["maxConnections", "maxQueues", "description"],
                    "invoke": ["purge"],
                    "read": True,
                }
            ],
            **changes,
        },
    )


def _grant(broker: PrivateBroker) -> dict[str, str]:
    reading = gateway_rights(watched=("/", VHOST))
    writing = UserRights(("administrator",), (watching("/"), Grant(VHOST, *[(".*",)] * 3)))
    users = tuple(
        ProvisionedUser(name, Credentials.generate(name).password, rights)
        for name, rights in ((READER, reading), (WRITER, writing))
    )
    with broker.http() as client:
        provision(client, users)
    return {user.name: user.password for user in users}
