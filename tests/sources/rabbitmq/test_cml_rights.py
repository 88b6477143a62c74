"""The rights of consoles and servers of CML: each is needed, and no others are granted."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aiormq.exceptions import ChannelAccessRefused

from gateway.demo.broker import Credentials
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import UserRights, asking_by_cml, serving_cml
from tests.components.rabbitmq import VirtualHost

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)

SYSTEM, REPLY, NOTIFY = "shop.system", "amq.direct", "shop.notify"
QUEUE = "amqp-gateway.console.1"

Step: TypeAlias = Callable[[AbstractChannel], Awaitable[object]]


async def _forgets(_: AbstractIncomingMessage) -> None:
    pass


async def _binds(channel: AbstractChannel, exchange: str) -> None:
    queue = await channel.declare_queue(QUEUE, exclusive=True)
    await queue.bind(exchange, "x")
    await queue.consume(_forgets, no_ack=True)


async def _publishes(channel: AbstractChannel, exchange: str) -> None:
    to = await channel.get_exchange(exchange, ensure=False)
    await to.publish(aio_pika.Message(b""), "x")


STEPS: dict[str, Step] = {
    "ask": lambda channel: _publishes(channel, SYSTEM),
    "hear requests": lambda channel: _binds(channel, SYSTEM),
    "reply": lambda channel: _publishes(channel, REPLY),
    "hear replies": lambda channel: _binds(channel, REPLY),
    "notify": lambda channel: _publishes(channel, NOTIFY),
    "hear notifications": lambda channel: _binds(channel, NOTIFY),
}
ROLES = {
    "console": (asking_by_cml, {"ask", "hear replies", "hear notifications"}),
    "server": (serving_cml, {"hear requests", "reply", "notify"}),
}


@dataclass(frozen=True)
class Place:
    """A virtual host with the exchanges, and a user there."""

    virtual_host: VirtualHost
    user: Credentials

    def permit(self, rights: UserRights) -> None:
        with self.virtual_host.broker.http() as http:
            who = ProvisionedUser(self.user.name, self.user.password, rights)
            provision(http, (who,), vhost=self.virtual_host.name, exchange="")

    async def can(self, step: Step) -> bool:
        """Return whether the user may carry out the step, on a connection of its own."""
        url = self.virtual_host.amqp_url(self.user)
        async with await aio_pika.connect(url) as connection:
            try:
                await step(await connection.channel())
            except ChannelAccessRefused:
                return False
        return True


@pytest.fixture
async def place(virtual_host: VirtualHost) -> AsyncIterator[Place]:
    user = Credentials(f"cml-{secrets.token_hex(6)}", "secret")
    with virtual_host.http() as http:
        for name, kind in ((SYSTEM, "direct"), (NOTIFY, "topic")):
            http.put(f"exchanges/{virtual_host.path}/{name}", json={"type": kind}).raise_for_status()
        yield Place(virtual_host, user)
        http.delete(f"users/{user.name}")


@pytest.mark.parametrize("role", ROLES)
async def test_each_may_do_its_part_and_no_more(place: Place, role: str) -> None:
    rights_of, part = ROLES[role]
    place.permit(rights_of(place.virtual_host.name, SYSTEM, REPLY, NOTIFY))
    assert {name for name, step in STEPS.items() if await place.can(step)} == part
    assert not await place.can(lambda channel: channel.declare_queue("orders", exclusive=True))


@pytest.mark.parametrize("role", ROLES)
async def test_without_any_single_right_something_is_refused(place: Place, role: str) -> None:
    rights_of, part = ROLES[role]
    rights = rights_of(place.virtual_host.name, SYSTEM, REPLY, NOTIFY)
    for less in _less(rights):
        place.permit(less)
        assert not all([await place.can(STEPS[name]) for name in part]), less


def _less(rights: UserRights) -> Iterator[UserRights]:
    (grant,) = rights.grants
    for pattern in grant.configure:
        yield UserRights((), (replace(grant, configure=_without(grant.configure, pattern)),))
    for pattern in grant.write:
        yield UserRights((), (replace(grant, write=_without(grant.write, pattern)),))
    for pattern in grant.read:
        yield UserRights((), (replace(grant, read=_without(grant.read, pattern)),))


def _without(patterns: tuple[str, ...], pattern: str) -> tuple[str, ...]:
    return tuple(one for one in patterns if one != pattern)
