"""``amqp-gateway provision-cml`` on a real broker: exchanges that no client can declare, users for CML."""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aio_pika
import pytest
import yaml
from aiormq.exceptions import ChannelAccessRefused

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from gateway.sources.rabbitmq.provisioning import Exchange
from tests.cli.test_provision import printed, refused
from tests.components.command_line import Ended, amqp_gateway


@dataclass(frozen=True)
class Operator:
    """An operator who sets a broker up for CML, with names that no other test has."""

    broker: PrivateBroker
    folder: Path
    mark: str

    @property
    def vhost(self) -> str:
        return f"cml {self.mark}"

    @property
    def control(self) -> Path:
        """RabbitMQ's own command for this broker, as a program in the folder."""
        command, environment = self.broker.control
        words = [f"{name}={value}" for name, value in environment.items()]
        path = self.folder / "rabbitmqctl"
        path.write_text(f'#!/bin/sh\nexec env -i {shlex.join([*words, *command])} "$@"\n', encoding="utf-8")
        path.chmod(0o700)
        return path

    def provision(self, *more: str | Path) -> Ended:
        administrator = self.broker.administrator
        password = self.folder / "administrator"
        password.write_text(f"{administrator.password}\n", encoding="utf-8")
        return amqp_gateway(
            "provision-cml",
            *("--management", self.broker.management_url, "--administrator", administrator.name),
            *("--administrator-password-file", password, "--vhost", self.vhost),
            *("--gateway-user", f"gateway-{self.mark}", "--server-user", f"server-{self.mark}"),
            *("--secrets", "secrets", *more),
            folder=self.folder,
        )

    def exchanges(self) -> dict[str, str]:
        """Types of the exchanges beyond those that each virtual host has."""
        with self.broker.http() as http:
            found = http.get(f"exchanges/{self.vhost}").json()
        standard = {
            "",
            "amq.direct",
            "amq.fanout",
            "amq.headers",
            "amq.match",
            "amq.topic",
            "amq.rabbitmq.trace",
        }
        return {each["name"]: each["type"] for each in found if each["name"] not in standard}

    def credentials(self, role: str) -> Credentials:
        name = f"{role}-{self.mark}"
        path = self.folder / "secrets" / f"{name}.password"
        return Credentials(name, path.read_text(encoding="utf-8").strip())


@pytest.fixture
def operator(rabbitmq: PrivateBroker, tmp_path: Path) -> Iterator[Operator]:
    new = Operator(rabbitmq, tmp_path, secrets.token_hex(6))
    with rabbitmq.http() as http:
        http.put(f"vhosts/{new.vhost}", json={})
        yield new
        for path in (f"users/gateway-{new.mark}", f"users/server-{new.mark}", f"vhosts/{new.vhost}"):
            http.delete(path)


def test_the_node_declares_what_no_client_can_and_that_is_enough(operator: Operator) -> None:
    ended = operator.provision("--rabbitmqctl", operator.control, "--exchange", "qpid.management=topic")

    _, configuration = printed(ended)
    there = {"amq.system": "direct", "amq.notify": "topic", "qpid.management": "topic"}
    assert operator.exchanges() == there
    for name, type_ in {**there, "amq.direct": "direct"}.items():
        assert f"# there: the exchange {name} ({type_}, durable) in {operator.vhost}\n" in ended.output
    assert configuration["sources"]["cml"]["trusted_users"] == [f"server-{operator.mark}"]
    asyncio.run(_converse(operator))
    path = operator.folder / "gateway.yaml"
    path.write_text(ended.output, encoding="utf-8")
    code, reported = refused(amqp_gateway("source", "test", "cml", "--config", path))
    assert code is ExitCode.MISSING
    assert "no server receives requests to amq.system with the key amq.console" in reported


async def _converse(operator: Operator) -> None:
    """Check that a server receives a request, and answers it; each user may do no more than its part."""
    url = operator.broker.amqp_url
    async with (
        await aio_pika.connect(url(operator.credentials("server"), operator.vhost)) as serving,
        await aio_pika.connect(url(operator.credentials("gateway"), operator.vhost)) as asking,
    ):
        server, gateway = await serving.channel(), await asking.channel()
        requests = await server.declare_queue("amqp-gateway.server", exclusive=True)
        await requests.bind("amq.system", "amq.console")
        replies = await gateway.declare_queue("amqp-gateway.console", exclusive=True)
        await replies.bind("amq.direct", replies.name)
        await replies.bind("amq.notify", "#")
        system = await gateway.get_exchange("amq.system", ensure=False)
        await system.publish(aio_pika.Message(b"asked", reply_to=replies.name), "amq.console")
        asked = await requests.get(timeout=30, no_ack=True)
        assert asked.reply_to == replies.name
        direct = await server.get_exchange("amq.direct", ensure=False)
        await direct.publish(aio_pika.Message(b"answered"), asked.reply_to)
        assert (await replies.get(timeout=30, no_ack=True)).body == b"answered"
        with pytest.raises(ChannelAccessRefused):
            await (await gateway.get_exchange("amq.direct", ensure=False)).publish(
                aio_pika.Message(b"forged"), "x"
            )


def test_without_access_to_the_node_the_command_is_shown_and_what_is_missing_is_said(
    operator: Operator,
) -> None:
    ended = operator.provision()

    code, reported = refused(ended)
    assert code is ExitCode.MISSING
    assert "missing: amq.system, amq.notify: run the commands above, then run this command again" in reported
    shown = [line for line in ended.output.splitlines() if "rabbitmqctl eval" in line]
    assert len(shown) == 2
    assert f"# MISSING: the exchange amq.system (direct, durable) in {operator.vhost}\n" in ended.output
    assert operator.exchanges() == {}
    assert "as it should be" not in operator.provision().output
    for line in shown:
        operator.broker.rabbitmqctl(*shlex.split(line.partition(": ")[2])[1:])
    again = printed(operator.provision())
    assert again[0] == ["nothing to do: the broker is as it should be"]
    assert again[1] == yaml.safe_load(ended.output)


def test_other_names_are_simply_declared(operator: Operator) -> None:
    ended = operator.provision(
        "--system-exchange", "shop.system", "--notify-exchange", "shop.notify", "--server-user", ""
    )

    source = printed(ended)[1]["sources"]["cml"]
    assert (source["system_exchange"], source["notify_exchange"]) == ("shop.system", "shop.notify")
    assert "trusted_users" not in source
    assert operator.exchanges() == {"shop.system": "direct", "shop.notify": "topic"}


def test_a_dry_run_says_all_of_it_and_does_nothing(operator: Operator) -> None:
    said, _ = printed(operator.provision("--dry-run", "--rabbitmqctl", "/nowhere/rabbitmqctl"))

    assert operator.exchanges() == {}
    assert not (operator.folder / "secrets").exists()
    assert sum("/nowhere/rabbitmqctl eval" in line for line in said) == 2


def test_a_control_command_that_fails_is_quoted(operator: Operator) -> None:
    code, reported = refused(operator.provision("--rabbitmqctl", "/nowhere/rabbitmqctl"))
    assert (code, reported.partition(":")[0]) == (ExitCode.NOT_INSTALLED, "/nowhere/rabbitmqctl")
    code, reported = refused(operator.provision("--rabbitmqctl", f"{operator.control} --nonsense"))
    assert code is ExitCode.FAILED
    assert "ended with" in reported
    code, reported = refused(operator.provision("--rabbitmqctl", "true"))
    assert code is ExitCode.MISSING
    assert "rabbitmqctl had no effect" in reported


def test_an_exchange_of_another_type_is_in_the_way(operator: Operator) -> None:
    operator.broker.rabbitmqctl("eval", Exchange(operator.vhost, "amq.system", "fanout").expression)
    code, reported = refused(operator.provision())
    assert code is ExitCode.CONFIGURATION
    assert "the exchange 'amq.system'" in reported


def test_names_are_no_more_than_names_to_the_node(operator: Operator) -> None:
    name = 'amq.é">>), halt(), <<"'
    operator.broker.rabbitmqctl("eval", Exchange(operator.vhost, name, "topic").expression)
    assert operator.exchanges() == {name: "topic"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ("--exchange", "qpid.management"),
            "write NAME=TYPE, with a type out of direct, fanout, topic, headers",
        ),
        (("--exchange", "a=system"), "write NAME=TYPE"),
        (("--gateway-user", "x", "--server-user", "x"), "gateway and server must be different users"),
    ],
)
def test_what_makes_no_sense_is_refused(operator: Operator, options: tuple[str, ...], complaint: str) -> None:
    ended = operator.provision(*options)
    assert ended.code is ExitCode.USAGE
    assert complaint in ended.errors
