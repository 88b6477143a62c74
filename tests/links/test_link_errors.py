"""Errors of a link: their kind, and the one line for people."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pamqp.commands import Connection
from pamqp.frame import marshal
from pamqp.heartbeat import Heartbeat
from pydantic import SecretStr

from gateway.demo.broker import PrivateBroker
from gateway.demo.node_setup import free_ports
from gateway.links import amqp_connection
from gateway.links.amqp_connection import (
    AmqpEndpoint,
    LinkError,
    Refusal,
    Trouble,
    open_connection,
    refusal_in,
)
from gateway.links.credentials import login_secret
from gateway.links.tls import ClientTls
from tests.components.amqp_peer import AmqpPeer
from tests.components.rabbitmq import VirtualHost, version_of
from tests.links.conftest import PASSWORD
from tests.links.recording import endpoint_of, linked, role

MakeUser = Callable[..., str]
CLOSE = marshal(Connection.Close(530, "NOT_ALLOWED - no", 10, 40), 0)
HEARTBEAT = marshal(Heartbeat(), 0)


@pytest.fixture
def user(virtual_host: VirtualHost) -> Iterator[MakeUser]:
    """Provide a function that makes a user with `PASSWORD` and permissions in the test's virtual host."""
    made: list[str] = []

    def make(**permissions: str) -> str:
        name = f"user-{secrets.token_hex(6)}"
        made.append(name)
        with virtual_host.http() as http:
            http.put(f"users/{name}", json={"password": PASSWORD, "tags": ""}).raise_for_status()
            if permissions:
                granted = {"configure": "^$", "write": "^$", "read": "^$", **permissions}
                http.put(f"permissions/{virtual_host.path}/{name}", json=granted).raise_for_status()
        return name

    yield make
    with virtual_host.http() as http:
        for name in made:
            http.delete(f"users/{name}").raise_for_status()


async def trouble(endpoint: AmqpEndpoint) -> tuple[Trouble, str]:
    """Return the kind and the text of the error when a connection is opened."""
    with pytest.raises(LinkError) as raised:
        await open_connection(endpoint, "test")
    text = str(raised.value)
    assert "\n" not in text
    assert await login_secret(endpoint.password).current() not in text
    return raised.value.trouble, text.removeprefix(f"{endpoint.url}: ").removeprefix(f"{endpoint}: ")


def nowhere(url: str) -> AmqpEndpoint:
    return AmqpEndpoint(url, "/", "gateway", SecretStr(PASSWORD))


@asynccontextmanager
async def listener(says: bytes, *, hangs_up: bool = False) -> AsyncIterator[str]:
    """Provide the AMQP URL of a TCP server that is no broker."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        if not hangs_up:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    try:
        yield f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


# -- the broker refuses


def right_named(virtual_host: VirtualHost, right: str) -> str:
    """Return the name of the missing ``right`` in an error: RabbitMQ names it since 4.0."""
    return f"{right} " if version_of(virtual_host.broker) >= (4, 0) else ""


async def test_a_wrong_password(rabbitmq: PrivateBroker) -> None:
    assert await trouble(endpoint_of(rabbitmq, password=PASSWORD)) == (
        Trouble.REFUSED_CREDENTIALS,
        (
            "user 'administrator' was refused: check user and password, and that this broker has it"
            " (ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the"
            " broker logfile.)"
        ),
    )


async def test_an_unknown_virtual_host(rabbitmq: PrivateBroker) -> None:
    assert await trouble(endpoint_of(rabbitmq, "absent")) == (
        Trouble.REFUSED_VHOST,
        (
            "the broker opens no connection: 530 NOT_ALLOWED - vhost absent not found: "
            "create the virtual host and grant what docs/rights.md lists"
        ),
    )


async def test_a_virtual_host_without_permission(virtual_host: VirtualHost, user: MakeUser) -> None:
    name = user()
    assert await trouble(endpoint_of(virtual_host.broker, virtual_host.name, name, PASSWORD)) == (
        Trouble.REFUSED_VHOST,
        (
            f"the broker opens no connection: 530 NOT_ALLOWED - access to vhost '{virtual_host.name}' "
            f"refused for user '{name}': create the virtual host and grant what docs/rights.md lists"
        ),
    )


async def test_a_limit_of_connections(virtual_host: VirtualHost) -> None:
    with virtual_host.http() as http:
        limit = f"vhost-limits/{virtual_host.path}/max-connections"
        http.put(limit, json={"value": 0}).raise_for_status()
    name = virtual_host.broker.administrator.name
    assert await trouble(endpoint_of(virtual_host.broker, virtual_host.name)) == (
        Trouble.REFUSED_VHOST,
        (
            f"the broker opens no connection: 530 NOT_ALLOWED - access to vhost '{virtual_host.name}' "
            f"refused for user '{name}': connection limit (0) is reached"
        ),
    )


async def test_a_broker_that_is_locked() -> None:
    """OpenAMQ refuses users after their login, so that this is not a matter of the virtual host."""
    async with AmqpPeer(refuses=(403, "Connections not allowed at present")) as peer:
        assert await trouble(nowhere(f"amqp://127.0.0.1:{peer.port}")) == (
            Trouble.FORBIDDEN,
            "the broker opens no connection: 403 Connections not allowed at present",
        )


@pytest.mark.parametrize(
    ("octets", "refusal"),
    [
        (b"", None),
        (CLOSE, Refusal(530, "NOT_ALLOWED - no")),
        (HEARTBEAT + CLOSE + HEARTBEAT, Refusal(530, "NOT_ALLOWED - no")),
        (CLOSE[:-6], Refusal(530, "NOT_ALLOWED - n")),
        (CLOSE[:12], None),
        (b"\x01\x00\x00\xff\xff\xff\xff" + CLOSE, None),
        (b"AMQP\x00\x00\x09\x01", None),
    ],
)
def test_a_refusal_among_frames(octets: bytes, refusal: Refusal | None) -> None:
    assert refusal_in(octets) == refusal


async def test_no_right_to_declare_the_queue(virtual_host: VirtualHost, user: MakeUser) -> None:
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name, user(configure="^other"), PASSWORD)
    async with linked(endpoint, role()) as link:
        said = await link.down()
    right = right_named(virtual_host, "configure")
    assert said.startswith(f"{endpoint}: ACCESS_REFUSED - {right}access to queue 'amqp-gateway.test.")
    assert said.endswith(f"refused for user {endpoint.user!r}: grant what docs/rights.md lists")


async def test_no_right_to_read_from_an_exchange(virtual_host: VirtualHost, user: MakeUser) -> None:
    ours = r"^amqp-gateway\."
    name = user(configure=ours, write=ours, read=ours)
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name, name, PASSWORD)
    async with linked(endpoint, role()) as link:
        said = await link.down()
    right = right_named(virtual_host, "read")
    assert said == (
        f"{endpoint}: ACCESS_REFUSED - {right}access to exchange 'amq.direct' in vhost '{virtual_host.name}' "
        f"refused for user '{name}': grant what docs/rights.md lists"
    )


async def test_an_exchange_that_is_missing(virtual_host: VirtualHost) -> None:
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    async with linked(endpoint, role("qpid.management")) as link:
        said = await link.down()
    assert said == (
        f"{endpoint}: NOT_FOUND - no exchange 'qpid.management' in vhost '{virtual_host.name}': "
        "the agent declares the management exchange when it starts"
    )


async def test_an_exchange_of_another_type(virtual_host: VirtualHost) -> None:
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    async with linked(endpoint, role(declare=("amq.fanout",))) as link:
        said = await link.down()
    assert said == (
        f"{endpoint}: PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.fanout' in vhost "
        f"'{virtual_host.name}': received 'topic' but current is 'fanout': "
        "remove what is there, or name another in the configuration"
    )


# -- there is no broker


async def test_nothing_listens() -> None:
    (port,) = free_ports(1)
    assert await trouble(nowhere(f"amqp://127.0.0.1:{port}")) == (
        Trouble.UNREACHABLE,
        "nothing listens there: is the broker running?",
    )


async def test_a_host_whose_name_is_not_known() -> None:
    assert await trouble(nowhere("amqp://broker.invalid")) == (
        Trouble.UNREACHABLE,
        "the name of the host is not known: check the URL",
    )


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x01\x00\x00\x7f\xff\xff\xff"])
async def test_what_listens_does_not_answer_as_a_broker(monkeypatch: pytest.MonkeyPatch, says: bytes) -> None:
    monkeypatch.setattr(amqp_connection, "CONNECT_SECONDS", 1.0)
    async with listener(says) as url:
        assert await trouble(nowhere(url)) == (
            Trouble.UNREACHABLE,
            "no answer within 1 s: is this an AMQP 0-9-1 broker?",
        )


@pytest.mark.parametrize(
    ("says", "hangs_up"),
    [
        (b"AMQP\x03\x01\x00\x00", False),  # AMQP 1.0 with SASL
        (b"\x00" * 100, False),
        (b"\x01\x00\x00\x00\x00\x00\x04\xff\xff\xff\xff\xce", False),  # a method that does not exist
        (b"", True),
        (b"SSH-2.0-OpenSSH_9.2\r\n", True),
    ],
)
async def test_what_answers_speaks_something_else(says: bytes, hangs_up: bool) -> None:  # noqa: FBT001
    async with listener(says, hangs_up=hangs_up) as url:
        kind, text = await trouble(nowhere(url))
    assert kind is Trouble.UNREACHABLE
    assert text.endswith(": is this an AMQP 0-9-1 broker, and is it running?")


# -- TLS


async def test_tls_where_the_broker_has_none(rabbitmq: PrivateBroker) -> None:
    encrypted = replace(endpoint_of(rabbitmq), url=f"amqps://127.0.0.1:{rabbitmq.ports.amqp}")
    kind, text = await trouble(encrypted)
    assert kind is Trouble.UNREACHABLE
    assert text.startswith("TLS failed: ")
    assert text.endswith(": check 'ca_file', the name of the host, and the port")


async def test_certificates_that_are_missing(tmp_path: Path) -> None:
    endpoint = replace(nowhere("amqps://127.0.0.1:1"), tls=ClientTls(tmp_path / "ca.pem"))
    assert await trouble(endpoint) == (
        Trouble.MISCONFIGURED,
        f"'ca_file' {tmp_path}/ca.pem cannot be used: No such file or directory",
    )


async def test_certificates_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate", encoding="ascii")
    kind, text = await trouble(replace(nowhere("amqps://127.0.0.1:1"), tls=ClientTls(tmp_path / "ca.pem")))
    assert kind is Trouble.MISCONFIGURED
    assert text.startswith(f"'ca_file' {tmp_path}/ca.pem cannot be used: ")


# -- the texts of an endpoint


def test_an_endpoint_shows_no_password() -> None:
    endpoint = nowhere("amqp://127.0.0.1")
    assert str(endpoint) == "amqp://127.0.0.1 (virtual host '/', user 'gateway')"
    assert PASSWORD not in repr(endpoint)
