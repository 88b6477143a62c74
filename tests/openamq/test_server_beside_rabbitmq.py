"""A server of CML at a RabbitMQ that has OpenAMQ's exchanges, and a gateway that shows it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from gateway.links.amqp_connection import AmqpEndpoint
from gateway.model.observations import Severity
from gateway.service.processes.exit_codes import ExitCode
from gateway.sources.rabbitmq.provisioning import Exchange
from tests.components.background import background as background_of
from tests.components.open_amq import CONFIG, serving
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import wait_until
from tests.openamq.gateway import SOURCE, gateway_at


def test_a_server_is_shown_set_and_called_and_its_notices_arrive(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    broker, user = virtual_host.broker, virtual_host.broker.administrator
    exchanges = (("amq.system", "direct"), ("amq.notify", "topic"))
    expressions = (Exchange(virtual_host.name, name, kind).expression for name, kind in exchanges)
    broker.rabbitmqctl("eval", " ".join(expressions).replace("). ", "), "))
    url = f"amqp://127.0.0.1:{broker.ports.amqp}"
    endpoint = AmqpEndpoint(url, virtual_host.name, user.name, SecretStr(user.password))
    trusted: dict[str, Any] = {"spelling": "specification", "trusted_users": [user.name]}
    with (
        background_of(partial(serving, endpoint)) as background,
        gateway_at(url, user.name, user.password, tmp_path, vhost=virtual_host.name, **trusted) as gateway,
    ):
        server = background.is_
        gateway.are_all("synchronised")
        gateway.shows("oamqQueueName", "orders")  # what belongs to a connection is left alone
        gateway.shows("oamqConnectionName")

        (instance,) = gateway.walk("oamqConfigMonitor")
        assert gateway.set(instance, "u", "9") == f"{instance} = 9 seconds\n"
        assert server.text(CONFIG, "monitor") == "9"
        assert gateway.command("invoke", f"{SOURCE}/queue/OpenAMQ 1.4c1|orders", "purge").code is ExitCode.OK

        background.do(partial(server.notify, Severity.MAJOR, "queue exceeded configured limit of 5000."))
        wait_until(
            lambda: "queue exceeded configured limit" in gateway.command("log", "tail").output, "it is heard"
        )
    gateway_log = gateway.running.log
    assert not [record for record in gateway_log if record["level"] == "error"]
