"""The rights of gateway and agent: together they suffice for all operations, and each is needed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import aio_pika
import aiormq
import pytest
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange, AbstractQueue
from aiormq.abc import FieldTable
from pydantic import SecretStr

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.dialects.session import Send
from gateway.links.publishing import FallbackError
from gateway.sources.rabbitmq.http_publisher import HttpPublisher
from gateway.sources.rabbitmq.http_reader import ManagementEndpoint
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, ProvisioningError, provision
from gateway.sources.rabbitmq.rights import (
    DIRECT_EXCHANGE,
    EVENT_EXCHANGE,
    EVENT_VHOST,
    MANAGEMENT_EXCHANGE,
    MANAGEMENT_VHOST,
    NOTHING,
    Grant,
    UserRights,
    agent_rights,
    consuming_events,
    exactly,
    gateway_rights,
    watching,
    writer_rights,
)
from tests.components.rabbitmq import VirtualHost, new_virtual_host
from tests.components.waiting import eventually

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)

WATCHED = "watched"
"""A placeholder in the declared rights for the watched virtual host of a test."""

KINDS = ("configure", "write", "read")

RIGHTS = {
    "gateway": gateway_rights((WATCHED,)),
    "agent": agent_rights((WATCHED,)),
    "writer": writer_rights((WATCHED,)),
}


@dataclass(frozen=True)
class Site:
    """A broker that `provision` has set up, and the user whose rights are tried."""

    broker: PrivateBroker
    management: VirtualHost
    watched: VirtualHost
    user: Credentials

    def rights(self, declared: UserRights) -> UserRights:
        """Return ``declared`` with the names of this site's virtual hosts."""
        names = {
            MANAGEMENT_VHOST: self.management.name,
            WATCHED: self.watched.name,
            EVENT_VHOST: EVENT_VHOST,
        }
        return replace(
            declared, grants=tuple(replace(grant, vhost=names[grant.vhost]) for grant in declared.grants)
        )

    def provision(self, declared: UserRights) -> None:
        """Set up the user with ``declared`` and nothing else."""
        with self.broker.http() as client:
            client.delete(f"users/{self.user.name}")
            user = ProvisionedUser(self.user.name, self.user.password, self.rights(declared))
            provision(client, (user,), vhost=self.management.name)


@pytest.fixture(scope="module")
def site(rabbitmq: PrivateBroker) -> Iterator[Site]:
    """Provide virtual hosts, in which an earlier test may have left objects, and the name of a user."""
    user = Credentials.generate(f"test-{secrets.token_hex(6)}")
    with new_virtual_host(rabbitmq) as management, new_virtual_host(rabbitmq) as watched:
        try:
            yield Site(rabbitmq, management, watched, user)
        finally:
            with rabbitmq.http() as client:
                client.delete(f"users/{user.name}")


class RefusedError(Exception):
    """The broker refused an operation of the gateway or the agent."""


def read_management_api(site: Site) -> None:
    watched = site.watched.path
    with site.broker.http(site.user) as client:
        for path in (
            "nodes",
            "vhosts",
            "connections",
            f"queues/{watched}",
            f"exchanges/{watched}",
            f"vhosts/{watched}/connections",
        ):
            if client.get(path).is_error:
                raise RefusedError(path)


async def consume(channel: AbstractChannel, *bindings: tuple[str, str]) -> AbstractQueue:
    """Use a queue as our links do: declare, bind and consume it, and read its depth."""
    queue = await channel.declare_queue(
        f"amqp-gateway.test.{secrets.token_hex(6)}",
        exclusive=True,
        auto_delete=True,
        arguments={"x-max-length": 100},
    )
    for exchange, key in bindings:
        await queue.bind(exchange, key or queue.name)

    async def ignore(_message: object) -> None:
        pass

    await queue.consume(ignore, no_ack=True)
    await channel.declare_queue(queue.name, passive=True)
    return queue


async def publish(exchange: AbstractExchange, key: str, user: Credentials) -> None:
    await exchange.publish(aio_pika.Message(b"AM2", user_id=user.name), key, mandatory=False)


async def receive_events(site: Site) -> None:
    async with await aio_pika.connect(site.broker.amqp_url(site.user, EVENT_VHOST)) as connection:
        await consume(await connection.channel(), (EVENT_EXCHANGE, "#"))


async def be_console(site: Site, connection: AbstractConnection) -> None:
    channel = await connection.channel()
    await consume(channel, (MANAGEMENT_EXCHANGE, "console.#"), (DIRECT_EXCHANGE, ""))
    management = await channel.get_exchange(MANAGEMENT_EXCHANGE, ensure=True)
    await publish(management, "broker", site.user)


async def be_agent(site: Site, connection: AbstractConnection) -> None:
    channel = await connection.channel()
    management = await channel.declare_exchange(MANAGEMENT_EXCHANGE, "topic", durable=True)
    await consume(channel, (MANAGEMENT_EXCHANGE, "broker"), (MANAGEMENT_EXCHANGE, "schema.#"))
    await publish(management, "console.obj.1.0.rabbitmq.queue", site.user)
    direct = await channel.get_exchange(DIRECT_EXCHANGE, ensure=False)
    await publish(direct, "reply", site.user)


async def publish_around_an_alarm(site: Site, connection_name: str) -> None:
    """Publish as the agent does while the broker accepts no messages over AMQP."""
    endpoint = ManagementEndpoint(site.broker.management_url, site.user.name, SecretStr(site.user.password))
    async with HttpPublisher(endpoint, site.management.name) as publisher:
        for exchange in (MANAGEMENT_EXCHANGE, DIRECT_EXCHANGE):
            try:
                await publisher.publish(Send(exchange, "console.heartbeat.1.0", b"AM2"), 1)
            except FallbackError as error:
                raise RefusedError(str(error)) from error

        async def is_cut_off() -> bool:
            return await publisher.cut_off(connection_name)

        await eventually(is_cut_off, "the connection is listed and closed")


def change_everything(site: Site) -> None:
    """Make one request of each kind that methods make on behalf of operators."""
    watched = site.watched.path
    with site.broker.http() as client:
        client.put(f"queues/{watched}/orders", json={"durable": True}).raise_for_status()
        client.put(f"exchanges/{watched}/prices", json={"type": "topic"}).raise_for_status()
        client.post(f"bindings/{watched}/e/prices/q/orders", json={"routing_key": "k"}).raise_for_status()
    with site.broker.http(site.user) as client:
        for method, path, body in (
            ("DELETE", f"queues/{watched}/orders/contents", None),
            ("DELETE", f"bindings/{watched}/e/prices/q/orders/k", None),
            ("DELETE", f"queues/{watched}/orders", None),
            ("DELETE", f"exchanges/{watched}/prices", None),
            ("PUT", f"vhost-limits/{watched}/max-queues", {"value": 9}),
            ("GET", f"vhosts/{watched}", None),
            ("PUT", f"vhosts/{watched}", {"description": "watched"}),
            ("PUT", f"policies/{watched}/short", {"pattern": "^x$", "definition": {"max-length": 9}}),
            ("GET", "users?columns=name,tags", None),
            ("POST", "rebalance/queues", None),
        ):
            if client.request(method, path, json=body).is_error:
                raise RefusedError(path)


async def do_everything(site: Site, role: str) -> None:
    """Carry out all operations of a role on a broker, up to the first refusal (`RefusedError`)."""
    if role == "writer":
        change_everything(site)
        return
    read_management_api(site)
    try:
        await receive_events(site)
        name: FieldTable = {"connection_name": f"test {secrets.token_hex(6)}"}
        url = site.management.amqp_url(site.user)
        async with await aio_pika.connect(url, client_properties=name) as connection:
            await (be_console if role == "gateway" else be_agent)(site, connection)
            if role == "agent":
                await publish_around_an_alarm(site, str(name["connection_name"]))
    except (aio_pika.exceptions.ChannelClosed, aiormq.exceptions.ChannelAccessRefused) as error:
        raise RefusedError(str(error)) from error


def without_one_pattern() -> Iterator[tuple[str, str, UserRights]]:
    """Yield for each role each of its patterns, and the rights without it."""
    for role, rights in RIGHTS.items():
        for number, grant in enumerate(rights.grants):
            for kind in KINDS:
                patterns: tuple[str, ...] = getattr(grant, kind)
                for pattern in patterns:
                    kept = {kind: tuple(p for p in patterns if p != pattern)}
                    grants = list(rights.grants)
                    grants[number] = Grant(grant.vhost, **{k: getattr(grant, k) for k in KINDS} | kept)
                    yield role, f"{grant.vhost} {kind} {pattern}", replace(rights, grants=tuple(grants))
            if not any(getattr(grant, kind) for kind in KINDS):
                grants = [other for other in rights.grants if other != grant]
                yield role, f"{grant.vhost} any", replace(rights, grants=tuple(grants))
        yield role, "tag", replace(rights, tags=("management",))


@pytest.mark.parametrize("role", RIGHTS)
async def test_the_rights_are_enough(site: Site, role: str) -> None:
    site.provision(RIGHTS[role])

    await do_everything(site, role)


@pytest.mark.parametrize(
    ("role", "rights"),
    [pytest.param(role, rights, id=f"{role}-{what}") for role, what, rights in without_one_pattern()],
)
async def test_without_any_one_of_them_something_is_refused(
    site: Site, role: str, rights: UserRights
) -> None:
    site.provision(rights)

    with pytest.raises(RefusedError):
        await do_everything(site, role)


async def declare_in_a_watched_virtual_host(channel: AbstractChannel) -> object:
    return await channel.declare_queue("amqp-gateway.test", exclusive=True)


async def delete_a_queue_of_others(channel: AbstractChannel) -> object:
    return await channel.queue_delete("orders")


async def read_a_queue_of_others(channel: AbstractChannel) -> object:
    queue = await channel.get_queue("orders", ensure=False)
    return await queue.get(fail=False)


@pytest.mark.parametrize("role", ["gateway", "agent"])
@pytest.mark.parametrize(
    "attempt", [declare_in_a_watched_virtual_host, delete_a_queue_of_others, read_a_queue_of_others]
)
async def test_what_belongs_to_others_stays_out_of_reach(
    site: Site, role: str, attempt: Callable[[AbstractChannel], Awaitable[object]]
) -> None:
    site.provision(RIGHTS[role])
    with site.broker.http() as client:
        client.put(f"queues/{site.watched.path}/orders", json={"durable": True}).raise_for_status()

    async with await aio_pika.connect(site.watched.amqp_url(site.user)) as connection:
        channel = await connection.channel()
        with pytest.raises(aiormq.exceptions.ChannelAccessRefused):
            await attempt(channel)


def test_provisioning_again_changes_nothing(site: Site) -> None:
    said: list[str] = []
    user = ProvisionedUser(site.user.name, site.user.password, site.rights(RIGHTS["agent"]))
    with site.broker.http() as client:
        provision(client, (user,), vhost=site.management.name, progress=said.append)
        before = client.get(f"users/{site.user.name}/permissions").json()
        provision(client, (user,), vhost=site.management.name)

        assert client.get(f"users/{site.user.name}/permissions").json() == before
        exchange = client.get(f"exchanges/{site.management.path}/{MANAGEMENT_EXCHANGE}").json()
    assert (exchange["type"], exchange["durable"]) == ("topic", True)
    assert not any(site.user.password in line for line in said)


def test_provisioning_a_new_virtual_host_makes_it(site: Site) -> None:
    name = f"test-{secrets.token_hex(6)}"
    with site.broker.http() as client:
        try:
            provision(client, (), vhost=name)

            assert client.get(f"vhosts/{name}").json()["description"] == "AMQP management gateway"
        finally:
            client.delete(f"vhosts/{name}")


def test_provisioning_without_an_administrator_says_so(site: Site) -> None:
    site.provision(RIGHTS["gateway"])

    with (
        site.broker.http(site.user) as client,
        pytest.raises(ProvisioningError, match="takes a user with the tag administrator"),
    ):
        provision(client, (), vhost=site.management.name)


def test_provisioning_a_broker_that_is_not_there_says_so(site: Site) -> None:
    client = site.broker.http()
    client.base_url = client.base_url.copy_with(port=1)

    with client, pytest.raises(ProvisioningError, match="cannot be reached"):
        provision(client, ())


def test_grants_in_the_same_virtual_host_are_joined() -> None:
    rights = UserRights.of((), [watching("/"), consuming_events("/"), Grant("/", read=("^mine$",))])

    assert [grant.vhost for grant in rights.grants] == ["/"]
    assert rights.grants[0].read == (*consuming_events("/").read, "^mine$")


def test_a_grant_of_nothing_matches_no_name() -> None:
    assert watching("/").permissions() == {"configure": NOTHING, "write": NOTHING, "read": NOTHING}


def test_an_exact_pattern_takes_dots_literally() -> None:
    assert exactly("amq.direct") == r"^amq\.direct$"


@pytest.mark.parametrize("role", RIGHTS)
def test_the_documentation_reports_these_rights(role: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "rights.md").read_text()
    cells = {
        cell.strip().strip("`").replace("\\|", "|")
        for line in page.splitlines()
        if line.startswith(f"| {role} ")
        for cell in re.split(r"(?<!\\)\|", line)
    }

    for grant in RIGHTS[role].grants:
        assert {grant.vhost, *grant.permissions().values()} - {WATCHED} <= cells
