"""The findings about a source of kind qmf before it is used: each mistaken peer has a line of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage

from gateway.config.sources import QmfSource
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.messages import BrokerResponse, CommandComplete
from gateway.service.diagnostics.checks import check_source
from gateway.service.processes.exit_codes import CommandError, ExitCode
from tests.components.rabbitmq import VirtualHost
from tests.dialects.qmf.playbook import BROKER

JAVA = (write(BrokerResponse(1, BROKER)), write(CommandComplete(1, 0, "")))


def source(host: VirtualHost, folder: Path, **more: Any) -> QmfSource:  # noqa: ANN401  of a configuration
    user = host.broker.administrator
    path = folder / "password"
    path.touch(mode=0o600)
    path.write_text(user.password, encoding="utf-8")
    url = f"amqp://127.0.0.1:{host.broker.ports.amqp}"
    amqp = {"url": url, "vhost": host.name, "user": user.name, "password": {"file": "password"}}
    trust = {} if "trust_anyone" in more else {"trusted_users": ["agent"]}
    return QmfSource.model_validate({"kind": "qmf", "amqp": amqp, **trust, **more})


async def reported(settings: QmfSource, folder: Path) -> str:
    lines: list[str] = []
    await check_source("orders", settings, folder, lines.append)
    (line,) = lines
    (url,) = settings.amqp.url
    where = f"amqp://127.0.0.1:{url.rsplit(':', 1)[1]} (virtual host "
    assert line.startswith(where)
    return line.split("'): ", 1)[1]


@asynccontextmanager
async def exchange(host: VirtualHost) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    """Provide a channel with the management exchange, for a test that plays an agent."""
    async with await aio_pika.connect(host.broker.amqp_url(vhost=host.name)) as connection:
        channel = await connection.channel()
        await channel.declare_exchange("qpid.management", "topic", durable=True)
        yield channel


@asynccontextmanager
async def agent(host: VirtualHost, *answers: bytes, user: str | None = None) -> AsyncIterator[None]:
    """Run an agent that answers with these bodies if the broker checked a request's sender, as ours does."""
    async with exchange(host) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("qpid.management", "broker")
        direct = await channel.get_exchange("amq.direct")

        async def answer(request: AbstractIncomingMessage) -> None:
            for body in answers if request.user_id else ():
                await direct.publish(aio_pika.Message(body, user_id=user), request.reply_to or "")

        await queue.consume(answer, no_ack=True)
        yield


async def test_an_exchange_that_is_missing_is_named_with_who_makes_it(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    with pytest.raises(CommandError) as caught:
        await reported(source(virtual_host, tmp_path), tmp_path)
    assert caught.value.code is ExitCode.MISSING
    assert "no exchange 'qpid.management'" in str(caught.value)
    async with exchange(virtual_host):
        with pytest.raises(CommandError) as caught:
            await reported(source(virtual_host, tmp_path, direct_exchange="replies"), tmp_path)
    assert caught.value.code is ExitCode.MISSING
    assert "no exchange 'replies'" in str(caught.value)
    assert str(caught.value).endswith("name the direct exchange of this broker under 'direct_exchange'")


async def test_a_rabbitmq_without_an_agent(virtual_host: VirtualHost, tmp_path: Path) -> None:
    async with exchange(virtual_host):
        said = await reported(source(virtual_host, tmp_path), tmp_path)
    user = virtual_host.broker.administrator.name
    assert said == (
        "no agent answers on exchange qpid.management: no agent receives the key broker, no queue is bound "
        "there (NO_ROUTE): a RabbitMQ has no agent of its own: configure one under 'agents' and run "
        "amqp-gateway agent NAME; a Qpid broker needs a bridge to here (docs/qpid.md): is it up? "
        f"Does it accept requests of user {user!r}?"
    )


async def test_an_agent_that_does_not_answer(virtual_host: VirtualHost, tmp_path: Path) -> None:
    async with agent(virtual_host):
        said = await reported(source(virtual_host, tmp_path, request_deadline="1s"), tmp_path)
    assert said.startswith("no agent answers on exchange qpid.management: not within 1 s: ")


@pytest.mark.parametrize(
    ("more", "publishes_as", "says"),
    [
        ({"trust_anyone": True}, "", ""),
        ({}, "", " without a checked user: its messages will be ignored unless 'trust_anyone' is on"),
        (
            {},
            "US",
            (
                " as user 'US': its messages will be ignored: if that is the agent, name it under"
                " 'trusted_users'"
            ),
        ),
        ({"trusted_users": ["US"]}, "US", ""),
    ],
)
async def test_which_agent_answers_and_whether_it_is_trusted(
    virtual_host: VirtualHost, tmp_path: Path, more: dict[str, Any], publishes_as: str, says: str
) -> None:
    user = virtual_host.broker.administrator.name
    if "trusted_users" in more:
        more = {"trusted_users": [user]}
    async with agent(virtual_host, *JAVA, user=user if publishes_as else None):
        said = await reported(source(virtual_host, tmp_path, **more), tmp_path)
    assert said == f"agent {BROKER} answers{says.replace('US', user)}"


async def test_something_else_that_listens_there(virtual_host: VirtualHost, tmp_path: Path) -> None:
    async with agent(virtual_host, b"AM2z\0\0\0\x01\0\0\0\0\0", b"hello", user=None):
        said = await reported(source(virtual_host, tmp_path), tmp_path)
    assert "what came is no QMF AM2: at offset 0" in said
