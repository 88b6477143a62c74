"""The findings about a source of kind am01 before it is used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import pytest

from gateway.config.sources import Am01Source
from gateway.dialects.qmf.am01.messages import Revision
from gateway.dialects.session import Send
from gateway.model.times import SECOND
from gateway.service.diagnostics import source_checks
from gateway.service.diagnostics.checks import check_source
from gateway.service.processes.exit_codes import CommandError, ExitCode
from tests.components.am01_agent import Am01Agent
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import eventually
from tests.links.broker_side import client, published


def _source(virtual_host: VirtualHost, folder: Path, **more: Any) -> Am01Source:  # noqa: ANN401  of a configuration
    user = virtual_host.broker.administrator
    path = folder / "password"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(user.password, encoding="utf-8")
    amqp = {
        "url": f"amqp://127.0.0.1:{virtual_host.broker.ports.amqp}",
        "vhost": virtual_host.name,
        "user": user.name,
        "password": {"file": "password"},
    }
    settings = {"kind": "am01", "amqp": amqp, "trusted_users": [user.name], "interval": "1s", **more}
    return Am01Source.model_validate(settings)


async def _said(virtual_host: VirtualHost, folder: Path, **more: Any) -> str:  # noqa: ANN401  as above
    reported: list[str] = []
    await check_source("orders", _source(virtual_host, folder, **more), folder, reported.append)
    (line,) = reported
    return line.partition("): ")[2]


@asynccontextmanager
async def _agent(virtual_host: VirtualHost, revision: Revision) -> AsyncIterator[None]:
    agent = Am01Agent(virtual_host.broker, virtual_host.name, revision)
    agent.put(1)
    running = asyncio.create_task(agent.run())

    async def is_up() -> bool:
        return agent.is_up

    try:
        await eventually(is_up, "the agent speaks")
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("revision", [Revision.DESIGN_NOTES, Revision.FEBRUARY_2008, Revision.MARCH_2008])
async def test_messages_of_an_agent_arrive(
    virtual_host: VirtualHost, tmp_path: Path, revision: Revision
) -> None:
    async with _agent(virtual_host, revision):
        assert await _said(virtual_host, tmp_path) == f"an agent speaks {revision.value}"


async def test_an_agent_that_would_not_be_listened_to_is_named(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    async with _agent(virtual_host, Revision.FEBRUARY_2008):
        user = virtual_host.broker.administrator.name
        assert await _said(virtual_host, tmp_path, trusted_users=["bridge"]) == (
            f"an agent speaks 2008-02, as user {user!r}: ignored unless that is named under 'trusted_users'"
        )
        assert await _said(virtual_host, tmp_path, revision="2008-01") == (
            "an agent speaks 2008-02, and 'revision' says 2008-01: its messages will be ignored"
        )


async def test_an_agent_without_a_checked_user_is_named(virtual_host: VirtualHost, tmp_path: Path) -> None:
    said = await _received(virtual_host, tmp_path, b"AM01p\0\x04qpid")
    assert said == "an agent speaks 2008-02, without a checked user: ignored unless 'trust_anyone' is on"


async def test_what_is_no_qmf_is_said(virtual_host: VirtualHost, tmp_path: Path) -> None:
    said = await _received(virtual_host, tmp_path, b"<cml/>")
    start = "no agent was received on exchange qpid.management within 3 s; what came is no QMF before AM2: "
    assert said.startswith(start)
    assert "a bridge to here (docs/qmf-before-am2.md)" in said


async def test_that_an_idle_agent_may_be_there_unheard_is_said(
    virtual_host: VirtualHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_checks, "LONGEST_WAIT_BEFORE_AM2", SECOND)
    async with client(virtual_host) as channel:
        await channel.declare_exchange("qpid.management", aio_pika.ExchangeType.TOPIC, durable=True)
        said = await _said(virtual_host, tmp_path, republish_interval="30s")
    idle = "(an idle one need not say anything for 32 s)"
    assert said.startswith(f"no agent was received on exchange qpid.management within 1 s {idle}: ")


async def _received(virtual_host: VirtualHost, folder: Path, body: bytes) -> str:
    """Return the finding while this is published again and again."""
    async with client(virtual_host) as channel:
        await channel.declare_exchange("qpid.management", aio_pika.ExchangeType.TOPIC, durable=True)

        async def speak() -> None:
            while True:
                await published(channel, Send("qpid.management", "mgmt.schema.package", body))

        speaking = asyncio.create_task(speak())
        try:
            return await _said(virtual_host, folder)
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)


@pytest.mark.parametrize("missing", ["exchange", "direct_exchange"])
async def test_an_exchange_that_is_missing_is_named(
    virtual_host: VirtualHost, tmp_path: Path, missing: str
) -> None:
    settings = {"exchange": "amq.topic", "direct_exchange": "amq.direct", missing: "not.there"}
    with pytest.raises(CommandError, match=r"no exchange 'not\.there' .* name the exchanges") as caught:
        await _said(virtual_host, tmp_path, **settings)
    assert caught.value.code is ExitCode.MISSING
