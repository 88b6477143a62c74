"""The view of a broker before there is a gateway."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.demo.broker import PrivateBroker
from gateway.service.processes.exit_codes import ExitCode
from tests.components.certificates import Authority
from tests.components.command_line import Ended, Site, amqp_gateway
from tests.components.rabbitmq import VirtualHost


@pytest.fixture
def password(rabbitmq: PrivateBroker, tmp_path: Path) -> Path:
    """Return a file with the administrator's password."""
    file = tmp_path / "password"
    file.write_text(f"{rabbitmq.administrator.password}\n", encoding="utf-8")
    return file


def shown(broker: PrivateBroker, password: Path, *more: str) -> Ended:
    user = ("--user", broker.administrator.name, "--password-file", password)
    return amqp_gateway("show", broker.management_url, *more, *user)


def test_every_object_with_its_values(virtual_host: VirtualHost, password: Path) -> None:
    broker, name = virtual_host.broker, virtual_host.name
    with broker.http() as http:
        http.put(f"queues/{name}/orders", json={"durable": True}).raise_for_status()
    ended = shown(broker, password, f"queue/{name}*")
    assert ended.code is ExitCode.OK, ended.errors
    (line,) = ended.output.splitlines()
    assert line.startswith(f"rabbitmq:queue  {name}|orders  ")
    assert {"name=orders", "durable=true", "autoDelete=false"} <= set(line.split())
    assert ended.reported[-1].partition(" objects, ")[2].startswith("synchronised")
    assert "none are configured: write `events: " in ended.reported[-1]


def test_for_programs(virtual_host: VirtualHost, password: Path) -> None:
    ended = shown(virtual_host.broker, password, f"vhost/{virtual_host.name}", "--json")
    (vhost,) = map(json.loads, ended.output.splitlines())
    assert (vhost["class"], vhost["name"]) == ("rabbitmq:vhost", virtual_host.name)


def test_a_configured_source_is_shown_by_its_name(
    site: Site, rabbitmq: PrivateBroker, password: Path
) -> None:
    source = {"kind": "rabbitmq", "management": rabbitmq.management_url, "user": rabbitmq.administrator.name}
    site.configure(sources={"orders": {**source, "password": {"file": str(password)}}})
    ended = amqp_gateway("show", "orders", "node", "--config", site.configuration)
    assert ended.code is ExitCode.OK, ended.errors
    assert ended.output.startswith("rabbitmq:node  ")
    assert not site.state.path.joinpath("instances.sqlite3").exists() or site.state.boots == 0


def test_what_keeps_it_from_looking_is_said(rabbitmq: PrivateBroker, tmp_path: Path, password: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong", encoding="utf-8")
    ended = shown(rabbitmq, wrong)
    assert (ended.code, ended.output) == (ExitCode.CREDENTIALS, "")
    assert "Login failed" in ended.reported[-1]
    empty = tmp_path / "empty"
    empty.touch()
    assert shown(rabbitmq, empty).reported == [f"amqp-gateway: {empty}: there is no password in it"]
    user = ("--user", "somebody", "--password-file", password)
    unanswered = amqp_gateway("show", "http://127.0.0.1:1", *user)
    assert (unanswered.code, unanswered.output) == (ExitCode.UNREACHABLE, "")
    amqp = amqp_gateway("show", f"http://127.0.0.1:{rabbitmq.ports.amqp}", *user)
    assert (amqp.code, amqp.output) == (ExitCode.UNREACHABLE, "")
    assert amqp.reported[-1].endswith("the connection ended before an answer, as it does on a port of AMQP")
    assert amqp_gateway("show", "ftp://there", *user).code is ExitCode.USAGE


@contextlib.asynccontextmanager
async def over_tls(broker: PrivateBroker, authority: Authority) -> AsyncIterator[str]:
    """The management API's URL on a port that speaks TLS and forwards to the broker."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", broker.ports.management)

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while octets := await source.read(65_536):
                    target.write(octets)
                    await target.drain()
            target.close()

        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

    own = authority.confirm("broker")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own.certificate, own.key)
    async with await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_broker_behind_tls(rabbitmq: PrivateBroker, tmp_path: Path, password: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    user = ("--user", rabbitmq.administrator.name, "--password-file", str(password))
    async with over_tls(rabbitmq, authority) as url:
        trusted = ("--ca-file", str(authority.own.certificate))
        ended = await asyncio.to_thread(amqp_gateway, "show", url, "node", *user, *trusted)
        assert ended.code is ExitCode.OK, ended.errors
        assert ended.output.startswith("rabbitmq:node  ")
        stranger = await asyncio.to_thread(amqp_gateway, "show", url, "node", *user)
    assert (stranger.code, stranger.output) == (ExitCode.UNREACHABLE, "")
    assert "certificate" in stranger.reported[-1]
