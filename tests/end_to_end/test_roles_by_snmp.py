"""What communities see of a real RabbitMQ by SNMP, by the default role and by others, asked with net-snmp."""

from __future__ import annotations

import asyncio
import getpass
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aio_pika
import pytest

from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import Ended, Site, amqp_gateway, new_site, running
from tests.components.net_snmp import printed
from tests.components.rabbitmq import VirtualHost, new_virtual_host
from tests.components.waiting import wait_until

pytestmark = pytest.mark.xdist_group("roles by SNMP")

ROOT = "1.3.6.1.4.1.8072.9999.9999"
USER = f"cli:{getpass.getuser()}"
STRANGER = f"stranger-{secrets.token_hex(6)}"
"""A user of the broker that all tests share."""
POLICY = {
    "roles": {
        "shop": {
            "allow": [{"classes": ["rabbitmq:queue"], "objects": ["*|first"], "read": ["*"]}],
            "deny": [{"objects": ["*"], "read": ["messagesReady"]}],
        }
    },
    "principals": {"snmp:auditor": ["everything"], "snmp:shop": ["shop"]},
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A gateway that shows a RabbitMQ to three communities."""

    site: Site
    virtual_host: VirtualHost

    def walk(self, writer: str = "") -> str:
        """Return what a walk prints: of a writer's community, or of that which reads."""
        name = f"community-{writer}" if writer else "community"
        community = self.site.state.secret(name)
        agent = f"127.0.0.1:{self.site.snmp_port}"
        access = ("-v2c", "-c", community, "-t", "30", "-r", "3")
        words = (*access, "-m", "", "-On", "-Oa", "-Cr50", agent, ROOT)
        return printed(self.site.folder / "snmp", "snmpbulkwalk", *words).stdout

    def command(self, *words: str) -> Ended:
        """Run a command of the gateway."""
        return amqp_gateway(*words, "--config", self.site.configuration)

    def path(self, queue: str) -> str:
        """Return the name of a queue at the command line."""
        return f"orders/rabbitmq:queue/{self.virtual_host.name}|{queue}"


@pytest.fixture(scope="module")
def shown(rabbitmq: PrivateBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    site = new_site(tmp_path_factory.mktemp("roles"))
    account = {
        "user": rabbitmq.administrator.name,
        "password": site.secret(rabbitmq.administrator.password),
    }
    source = {
        "kind": "rabbitmq",
        "management": rabbitmq.management_url,
        "interval": "1s",
        "budget": 0.5,
        "writing": account,
        **account,
    }
    rule = {"who": [USER], "classes": ["rabbitmq:queue"], "invoke": ["purge"]}
    site.configure(
        sources={"orders": source},
        snmp={"listen": [f"127.0.0.1:{site.snmp_port}"], "writers": {"auditor": {}, "shop": {}}},
        policy=POLICY,
        operations={"allow": [rule]},
    )
    with (
        new_virtual_host(rabbitmq) as virtual_host,
        running("run", "--config", site.configuration, log=site.folder / "log") as command,
    ):
        with virtual_host.http() as http:
            for queue in ("first", "second"):
                http.put(f"queues/{virtual_host.path}/{queue}", json={"durable": True}).raise_for_status()
            body = {"password": "x", "tags": ""}
            http.put(f"users/{STRANGER}", json=body).raise_for_status()
        command.ready()
        there = Shown(site, virtual_host)
        wait_until(lambda: there.command("get", there.path("second")).code is ExitCode.OK, "queues are shown")
        yield there
        with virtual_host.http() as http:
            http.delete(f"users/{STRANGER}").raise_for_status()


@asynccontextmanager
async def connected(virtual_host: VirtualHost) -> AsyncIterator[str]:
    """Open a connection; yield the address and port of its client, as the broker reports them."""
    connection = await aio_pika.connect(virtual_host.amqp_url())
    found: list[str] = []

    def reported() -> bool:
        with virtual_host.http() as http:
            listed = http.get("connections").raise_for_status().json()
        found[:] = [
            f"{one['peer_host']}:{one['peer_port']}" for one in listed if one["vhost"] == virtual_host.name
        ]
        return bool(found)

    async with connection, connection.channel():
        await asyncio.to_thread(wait_until, reported, "the broker lists the connection")
        yield found[0]


async def test_by_default_no_address_no_user_and_no_operation_of_others_is_shown(shown: Shown) -> None:
    purged = shown.command("invoke", shown.path("first"), "purge")
    assert purged.code is ExitCode.OK, purged.errors
    async with connected(shown.virtual_host) as client:
        await asyncio.to_thread(
            wait_until,
            lambda: all(text in shown.walk("auditor") for text in (client, STRANGER, USER)),
            "who reads everything sees address, user and operation",
        )
        walked = shown.walk()
    assert f'"{shown.virtual_host.name}|first"' in walked, "what a monitoring tool needs is there"
    for hidden in (client, client.partition(":")[2], STRANGER, USER):
        assert f'"{hidden}' not in walked, hidden
        assert f" {hidden}" not in walked, hidden


def test_a_role_sees_the_objects_and_elements_that_it_names(shown: Shown) -> None:
    walked, everything = shown.walk("shop"), shown.walk("auditor")
    first, second = (f'"{shown.virtual_host.name}|{queue}"' for queue in ("first", "second"))
    assert first in everything
    assert second in everything
    assert first in walked
    assert second not in walked
    mine, all_of_it = set(walked.splitlines()), set(everything.splitlines())
    columns = {line.partition(" ")[0] for line in mine}
    rows = {line.partition(" = ")[0].rsplit(".", 2)[-2:][-1] for line in mine if first in line}
    assert len(rows) == 1, "one row"
    assert columns < {line.partition(" ")[0] for line in all_of_it}, "nothing that others do not have"


def test_what_a_role_does_not_read_answers_like_what_is_not_there(shown: Shown) -> None:
    second = f'"{shown.virtual_host.name}|second"'
    instances = [line.partition(" = ")[0] for line in shown.walk("auditor").splitlines() if second in line]
    assert instances
    for instance in instances:
        community = shown.site.state.secret("community-shop")
        agent = f"127.0.0.1:{shown.site.snmp_port}"
        words = ("-v2c", "-c", community, "-m", "", "-On", "-Oa", agent, instance)
        got = printed(shown.site.folder / "snmp", "snmpget", *words).stdout
        assert "No Such " in got, got
