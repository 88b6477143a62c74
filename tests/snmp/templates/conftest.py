"""A gateway that reads a queue of seven messages of a real RabbitMQ, as monitoring systems poll it.

Its user at the broker may read one virtual host, which no other test has, and no events: sums, and rows that
a test finds and then asks for, are of the one queue.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.demo.broker import Credentials, PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Site, new_site, running
from tests.components.operated_gateway import OperatedGateway
from tests.components.rabbitmq import new_virtual_host
from tests.components.waiting import wait_until

SOURCE = "orders"
MESSAGES = 7
USER = "monitor"
PASSPHRASES = {
    "AUTHENTICATION-PASSPHRASE": "phrase of monitor",
    "PRIVACY-PASSPHRASE": "secret & key of monitor",
}
"""The passphrases of the user, by the words that templates have in their places."""


class PolledGateway(OperatedGateway):
    """A running gateway, its user at the broker, and the queue that tests look at."""

    modules = ("AMQP-GATEWAY-RABBITMQ-MIB",)

    def __init__(self, site: Site, virtual_host: str = "/") -> None:
        self.site = site
        self.virtual_host = virtual_host
        self.queue = f"polled-{secrets.token_hex(4)}"
        self.reader = Credentials(self.queue, secrets.token_hex(16))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.site.snmp_port}"

    @property
    def community(self) -> str:
        return self.site.state.secret("community")

    def template(self, *arguments: str) -> str:
        """Return what a command of ``template`` prints for this gateway."""
        ended = self.command("template", *arguments)
        assert ended.code is ExitCode.OK, ended
        return ended.output

    def of_queue(self) -> dict[str, object]:
        """Return the statistics of the queue, as ``get`` has them."""
        return dict(self.shown(f"{SOURCE}/queue/{self.virtual_host}|{self.queue}").get("values", {}))


@pytest.fixture(scope="package")
def polled(tmp_path_factory: pytest.TempPathFactory, rabbitmq: PrivateBroker) -> Iterator[PolledGateway]:
    with ExitStack() as stack:
        vhost = stack.enter_context(new_virtual_host(rabbitmq))
        client = stack.enter_context(rabbitmq.http())
        gateway = PolledGateway(new_site(tmp_path_factory.mktemp("polled")), vhost.name)
        site, reader = gateway.site, gateway.reader
        typed = "".join(f"{phrase}\n" for phrase in PASSPHRASES.values())
        site.configure(
            snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "users": {USER: {}}},
            sources={
                SOURCE: {
                    "kind": "rabbitmq",
                    "management": rabbitmq.management_url,
                    "user": reader.name,
                    "password": site.secret(reader.password),
                    "interval": "1s",
                },
            },
        )
        added = CliRunner().invoke(
            main, ["snmp", "user", "add", USER, "--config", str(site.configuration)], typed
        )
        assert added.exit_code is ExitCode.OK, added.output
        set_password(client, reader)
        stack.callback(client.delete, f"users/{reader.name}")
        only_read = {"configure": "^$", "write": "^$", "read": "^$"}
        client.put(f"permissions/{vhost.path}/{reader.name}", json=only_read).raise_for_status()
        client.put(f"queues/{vhost.path}/{gateway.queue}", json={"durable": True}).raise_for_status()
        for _ in range(MESSAGES):
            body = {
                "properties": {},
                "routing_key": gateway.queue,
                "payload": "x",
                "payload_encoding": "string",
            }
            client.post(f"exchanges/{vhost.path}/amq.default/publish", json=body).raise_for_status()
        command = stack.enter_context(running("run", "--config", site.configuration, log=site.folder / "log"))
        command.ready()
        wait_until(lambda: gateway.of_queue().get("messages") == MESSAGES, "the messages are shown")
        yield gateway
        assert command.terminate().code is ExitCode.OK


def set_password(client: httpx.Client, user: Credentials) -> None:
    """Create a user who reads the virtual hosts that permit it, or change the password."""
    account = {"password": user.password, "tags": "monitoring"}
    client.put(f"users/{user.name}", json=account).raise_for_status()
