"""A host with two addresses: where the first accepts connections and never answers, the second is tried."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.demo.broker import PrivateBroker
from gateway.links.amqp_connection import (
    AmqpEndpoint,
    LinkError,
    Trouble,
    addresses_of,
    close_soon,
    open_connection,
)
from gateway.sources.rabbitmq.http_reader import HttpReader, ManagementEndpoint
from gateway.sources.rabbitmq.management_api import Document, OverviewRequest

HOST, MUTE, ANSWERING = "two.addresses.test", "127.0.0.2", "127.0.0.1"


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


async def test_a_host_with_one_address_or_none_stays_as_it_is() -> None:
    assert await addresses_of("127.0.0.1", 5672) == ("127.0.0.1",)
    assert await addresses_of("nowhere.invalid", 5672) == ("nowhere.invalid",)
