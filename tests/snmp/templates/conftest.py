"""A gateway that reads a real RabbitMQ with a queue of seven messages, as monitoring systems poll it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import httpx
import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.demo.broker import Credentials, PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Site, new_site, running
from tests.components.operated_gateway import OperatedGateway
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

    def __init__(self, site: Site) -> None:
        self.site = site
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
        return dict(self.shown(f"{SOURCE}/queue/{self.queue}").get("values", {}))


@pytest.fixture(scope="package")
def polled(tmp_path_factory: pytest.TempPathFactory, rabbitmq: PrivateBroker) -> Iterator[PolledGateway]:
    gateway = PolledGateway(new_site(tmp_path_factory.mktemp("polled")))
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
                "events": {"url": f"amqp://127.0.0.1:{rabbitmq.ports.amqp}"},
                "interval": "1s",
            },
        },
    )
    added = CliRunner().invoke(
        main, ["snmp", "user", "add", USER, "--config", str(site.configuration)], typed
    )
    assert added.exit_code is ExitCode.OK, added.output
    with rabbitmq.http() as client:
        set_password(client, reader)
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        client.put(f"permissions/%2F/{reader.name}", json=everything).raise_for_status()
        client.put(f"queues/%2F/{gateway.queue}", json={"durable": True}).raise_for_status()
        for _ in range(MESSAGES):
            body = {
                "properties": {},
                "routing_key": gateway.queue,
                "payload": "x",
                "payload_encoding": "string",
            }
            client.post("exchanges/%2F/amq.default/publish", json=body).raise_for_status()
        with running("run", "--config", site.configuration, log=site.folder / "log") as command:
            command.ready()
            wait_until(lambda: gateway.of_queue().get("messages") == MESSAGES, "the messages are shown")
            yield gateway
            assert command.terminate().code is ExitCode.OK
        client.delete(f"queues/%2F/{gateway.queue}")
        client.delete(f"users/{reader.name}")


def set_password(client: httpx.Client, user: Credentials) -> None:
    """Create a user of the broker who reads everything, or change the password."""
    account = {"password": user.password, "tags": "administrator"}
    client.put(f"users/{user.name}", json=account).raise_for_status()
