"""A host with two addresses: where the first accepts connections and never answers, the second is tried."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from gateway.cli.provision_management import management_client, overview_of
from gateway.demo.broker import PrivateBroker
from gateway.links.access_tokens import TokenEndpoint
from gateway.links.addressed_http import BlockingAddressedTransport
from gateway.links.amqp_connection import (
    AmqpEndpoint,
    LinkError,
    Trouble,
    addresses_of,
    close_soon,
    open_connection,
)
from gateway.links.credentials import Password
from gateway.links.http_proxy import HttpProxy
from gateway.links.tls import NO_AUTHORITIES, ClientTls
from gateway.sources.rabbitmq.http_reader import HttpReader, ManagementEndpoint
from gateway.sources.rabbitmq.management_api import Document, OverviewRequest
from gateway.sources.rabbitmq.provisioning import Step, carry_out
from tests.components.forward_proxy import ForwardProxy
from tests.components.ports import free_tcp_port
from tests.components.rabbitmq import VirtualHost
from tests.components.token_issuer import TokenIssuer

HOST, ANSWERING = "two.addresses.test", "127.0.0.1"
MUTE = f"127.{2 + secrets.randbelow(250)}.{secrets.randbelow(250)}.2"
"""An address of this machine at which nothing else listens: a port of it is not another test's."""


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the resolver know the host."""
    ask = socket.getaddrinfo

    def answered(host: Any, port: Any, *more: Any, **also: Any) -> Any:  # noqa: ANN401  those of the resolver
        if host not in {HOST, HOST.encode()}:
            return ask(host, port, *more, **also)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, int(port))) for address in (MUTE, ANSWERING)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", answered)


@contextmanager
def accepting_only(*ports: int) -> Iterator[None]:
    """Accept connections to these ports at the first address, and never answer."""
    with ExitStack() as open_sockets:
        for port in ports:
            # The kernel accepts them.
            open_sockets.enter_context(socket.create_server((MUTE, port)))
        yield


@pytest.mark.usefixtures("resolved")
async def test_amqp_and_http_reach_the_second(rabbitmq: PrivateBroker) -> None:
    user, password = rabbitmq.administrator.name, SecretStr(rabbitmq.administrator.password)
    assert await addresses_of(HOST, 1) == (MUTE, ANSWERING)
    with accepting_only(rabbitmq.ports.amqp, rabbitmq.ports.management):
        endpoint = AmqpEndpoint(f"amqp://{HOST}:{rabbitmq.ports.amqp}", "/", user, password)
        connection = await open_connection(endpoint, "test")
        assert not connection.is_closed
        await close_soon(connection)
        url = f"http://{HOST}:{rabbitmq.ports.management}"
        async with HttpReader(ManagementEndpoint(url, user, password)) as reader:
            for _ in range(2):
                assert isinstance(await reader.read(OverviewRequest()), Document)
        # A wrong password is reported by the one that answers, and the login is not repeated elsewhere.
        wrong = AmqpEndpoint(f"amqp://{HOST}:{rabbitmq.ports.amqp}", "/", user, SecretStr("wrong"))
        with pytest.raises(LinkError) as refused:
            await open_connection(wrong, "test")
        assert refused.value.trouble is Trouble.REFUSED_CREDENTIALS


@pytest.mark.usefixtures("resolved")
def test_a_command_reaches_the_second(virtual_host: VirtualHost) -> None:
    """`quickstart` and `provision` ask by this client."""
    broker = virtual_host.broker
    url = f"http://{HOST}:{broker.ports.management}"
    login = broker.administrator.name, broker.administrator.password
    with accepting_only(broker.ports.management), management_client(url, *login, None) as client:
        assert overview_of(client, url)["node"] == broker.node_name
        # A change goes where that answered, at once; so does what is asked before it.
        carry_out(client, Step("a queue", f"queues/{virtual_host.path}/a", {"durable": True}))
        assert client.get(f"queues/{virtual_host.path}/a").json()["name"] == "a"


@pytest.mark.usefixtures("resolved")
def test_a_change_is_not_repeated_at_the_second() -> None:
    with (
        accepting_only(port := free_tcp_port()),
        httpx.Client(transport=BlockingAddressedTransport(NO_AUTHORITIES, httpx.Limits())) as client,
        pytest.raises(httpx.ReadTimeout),
    ):
        client.put(f"http://{HOST}:{port}/", timeout=0.2)


@pytest.mark.usefixtures("resolved")
async def test_a_token_is_issued_at_the_second() -> None:
    issuer = TokenIssuer("gateway", "sesame", 300.0)
    async with issuer.serving():
        port = httpx.URL(issuer.url).port
        assert port is not None
        with accepting_only(port):
            secret = Password(lambda: SecretStr("sesame"), "a file")
            issued, _ = await TokenEndpoint(
                f"http://{HOST}:{port}/token", "gateway", secret, "", ClientTls()
            ).issue()
    assert issuer.issued == [issued.get_secret_value()]


@pytest.mark.usefixtures("resolved")
async def test_a_forward_proxy_is_reached_at_the_second(rabbitmq: PrivateBroker) -> None:
    user, password = rabbitmq.administrator.name, SecretStr(rabbitmq.administrator.password)
    forward = ForwardProxy()
    async with forward.serving():
        port = httpx.URL(forward.url).port
        assert port is not None
        proxy = HttpProxy(f"http://{HOST}:{port}")
        with accepting_only(port):
            async with HttpReader(
                ManagementEndpoint(rabbitmq.management_url, user, password, proxy=proxy)
            ) as reader:
                for _ in range(2):
                    assert isinstance(await reader.read(OverviewRequest()), Document)
    assert all(rabbitmq.management_url in line for line in forward.asked)


async def test_a_host_with_one_address_or_none_stays_as_it_is() -> None:
    assert await addresses_of("127.0.0.1", 5672) == ("127.0.0.1",)
    assert await addresses_of("nowhere.invalid", 5672) == ("nowhere.invalid",)
