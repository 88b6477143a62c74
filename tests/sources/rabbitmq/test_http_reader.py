"""The HTTP reader against servers of every kind: whatever they do, it returns an answer in time."""

from __future__ import annotations

import asyncio
import importlib.metadata
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from gateway.demo.node_setup import free_ports
from gateway.links.tls import ClientTls, TlsFileError
from gateway.sources.rabbitmq import http_reader
from gateway.sources.rabbitmq.http_reader import MAX_BODY_OCTETS, HttpReader, ManagementEndpoint
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Broken,
    Document,
    ListingRequest,
    NotManagement,
    OverviewRequest,
    PermissionRequest,
    Refused,
    Unavailable,
)

Serve = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(serve: Serve, port: int = 0) -> AsyncIterator[str]:
    """Provide the URL of a server on loopback that answers the head of each request by ``serve``."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await serve(await reader.readuntil(b"\r\n\r\n"), writer)
                await writer.drain()

    conversations: list[tuple[asyncio.Task[None], asyncio.StreamWriter]] = []

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversations.append((asyncio.ensure_future(converse(reader, writer)), writer))

    listening = await asyncio.start_server(connected, "127.0.0.1", port)
    try:
        port = listening.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        listening.close()
        for conversation, writer in conversations:
            conversation.cancel()
            writer.close()
        await asyncio.gather(*(conversation for conversation, _ in conversations), return_exceptions=True)
        await listening.wait_closed()


def response(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{headers}\r\n".encode() + body


async def read_from(serve: Serve, deadline: float = 20.0) -> Answer:
    async with server(serve) as url:
        endpoint = ManagementEndpoint(url, "gateway", SecretStr("sesame"), deadline=deadline)
        async with HttpReader(endpoint) as reader:
            return await reader.read(OverviewRequest())


async def test_a_request_carries_credentials_and_asks_for_nothing_compressed() -> None:
    heads: list[bytes] = []

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.write(response(b"[1]"))

    async with (
        server(serve) as url,
        HttpReader(ManagementEndpoint(f"{url}/", "gateway", SecretStr("sesame"))) as reader,
    ):
        assert await reader.read(PermissionRequest("a/b")) == Document([1])
        assert await reader.read(PermissionRequest("/")) == Document([1])
    assert heads[0].startswith(b"GET /api/exchanges/a%2Fb?page=1&page_size=1&columns=name HTTP/1.1\r\n")
    assert b"authorization: basic z2f0zxdhetpzzxnhbwu=" in heads[1].lower()
    assert b"accept-encoding: identity" in heads[1].lower()


async def test_a_password_goes_to_the_configured_server_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a redirection nor a proxy of the environment leads elsewhere."""
    elsewhere: list[bytes] = []

    async def take(head: bytes, writer: asyncio.StreamWriter) -> None:
        elsewhere.append(head)
        writer.write(response(b"[1]"))

    async with server(take) as other:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(variable, other)

        async def redirect(_: bytes, writer: asyncio.StreamWriter) -> None:
            writer.write(response(b"", "302 Found", f"location: {other}/api/overview\r\n"))

        assert isinstance(await read_from(redirect), NotManagement)
    assert elsewhere == []


async def test_what_is_no_management_api_is_said_so() -> None:
    async def redirect(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"", "302 Found", "location: http://evil.example/\r\n"))

    async def page(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"<html>"))

    async def other_protocol(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"AMQP\0\0\x09\x01\r\n\r\n")

    async def compressed(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"xx", headers="content-encoding: gzip\r\n"))

    for serve in (redirect, page, other_protocol, compressed):
        assert isinstance(await read_from(serve), NotManagement), serve.__name__


async def test_a_server_that_resets_the_connection_may_be_the_port_of_amqp() -> None:
    async def reset(_: bytes, writer: asyncio.StreamWriter) -> None:
        linger = struct.pack("ii", 1, 0)  # closed without sending what is left: the peer gets a reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    answer = await read_from(reset)

    assert answer == Unavailable("the connection ended before an answer, as it does on a port of AMQP")


async def test_an_answer_that_does_not_come_in_time_is_given_up() -> None:
    async def silent(_: bytes, __: asyncio.StreamWriter) -> None:
        await asyncio.get_running_loop().create_future()

    async def trickling(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)

    for serve in (silent, trickling):
        assert await read_from(serve, deadline=0.2) == Unavailable("no answer within 0.2 s", late=True)


async def test_an_answer_without_end_is_cut_off() -> None:
    async def flood(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {2 * MAX_BODY_OCTETS}\r\n\r\n".encode())
        for _part in range(2 * MAX_BODY_OCTETS // 65_536):
            writer.write(b" " * 65_536)
            await writer.drain()

    assert await read_from(flood) == Broken(f"an answer of more than {MAX_BODY_OCTETS} bytes", permanent=True)


async def test_a_server_that_breaks_off_is_unavailable() -> None:
    async def closing(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n[1")
        writer.close()

    assert isinstance(await read_from(closing), Unavailable)


async def test_an_address_without_a_listener_is_unavailable() -> None:
    async with server(lambda *_: asyncio.sleep(0)) as url:
        pass
    async with HttpReader(ManagementEndpoint(url, "gateway", SecretStr("sesame"))) as reader:
        answer = await reader.read(OverviewRequest())
    assert isinstance(answer, Unavailable)
    assert "sesame" not in answer.reason


NOT_SERVING = b'{"status":"failed","reason":"this rabbit node is not currently available to serve"}'


@pytest.mark.parametrize("last", [response(b'{"status":"ok"}'), response(b'{"error":"x"}', "404 Not Found")])
async def test_a_node_that_starts_is_asked_when_it_serves_or_does_not_know_that_question(last: bytes) -> None:
    """RabbitMQ 4.3 writes a crash report for requests before it serves; 4.0 lacks the health check."""
    answers = iter([response(NOT_SERVING, "503 Service Unavailable")] * 2 + [last] + [response(b"[1]")] * 2)
    heads: list[bytes] = []

    async def starting(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head.partition(b"?")[0].partition(b" HTTP")[0])
        writer.write(next(answers))

    port = free_ports(1)[0]
    endpoint = ManagementEndpoint(f"http://127.0.0.1:{port}", "gateway", SecretStr("sesame"))
    async with HttpReader(endpoint) as reader:
        assert isinstance(await reader.read(OverviewRequest()), Unavailable)
        async with server(starting, port):
            assert await reader.read(OverviewRequest()) == Document([1])
            assert await reader.read(OverviewRequest()) == Document([1])
    assert heads == [*[b"GET /api/health/checks/is-in-service"] * 3, *[b"GET /api/overview"] * 2]


async def test_a_node_that_never_serves_is_asked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The management API of a node in maintenance answers, although its health check fails."""
    monkeypatch.setattr(http_reader, "STARTING_SECONDS", 0.1)

    async def in_maintenance(head: bytes, writer: asyncio.StreamWriter) -> None:
        fails = b"health" in head
        writer.write(response(NOT_SERVING, "503 Service Unavailable") if fails else response(b"[1]"))

    port = free_ports(1)[0]
    endpoint = ManagementEndpoint(f"http://127.0.0.1:{port}", "gateway", SecretStr("sesame"))
    async with HttpReader(endpoint) as reader:
        assert isinstance(await reader.read(OverviewRequest()), Unavailable)
        async with server(in_maintenance, port):
            assert await reader.read(OverviewRequest()) == Document([1])


async def test_a_url_that_is_none_is_said_so() -> None:
    async with HttpReader(ManagementEndpoint("rabbit", "gateway", SecretStr("sesame"))) as reader:
        assert isinstance(await reader.read(OverviewRequest()), Unavailable | NotManagement)


def test_a_ca_file_that_is_missing_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(TlsFileError):
        HttpReader(ManagementEndpoint("https://x", "u", SecretStr("p"), tls=ClientTls(tmp_path / "none")))


def test_a_password_is_not_shown() -> None:
    assert "sesame" not in repr(ManagementEndpoint("http://x", "u", SecretStr("sesame")))


# Several nodes of one cluster.


async def unanswered() -> str:
    """Return the URL of a server that has ended."""
    async with server(lambda *_: asyncio.sleep(0)) as url:
        return url


def cluster(*urls: str, deadline: float = 20.0) -> HttpReader:
    first, *others = urls
    return HttpReader(
        ManagementEndpoint(first, "gateway", SecretStr("sesame"), deadline=deadline, others=tuple(others))
    )


class Node:
    """A node that answers each request with ``answer``, and records the requests."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.heads: list[bytes] = []

    async def serve(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        self.heads.append(head)
        writer.write(self.answer)


async def test_another_node_answers_for_one_that_is_down_and_is_asked_from_then_on() -> None:
    node = Node(response(b"[1]"))
    async with server(node.serve) as url, cluster(await unanswered(), url) as reader:
        with capture_logs() as logged:
            answers = [await reader.read(OverviewRequest()) for _ in range(3)]
    assert answers == [Document([1])] * 3
    assert [one["event"] for one in logged] == ["management-node-failed"]
    assert all(head.startswith(b"GET /api/overview?") for head in node.heads)


async def test_the_node_that_works_is_kept_until_it_fails() -> None:
    first, second = Node(response(b"[1]")), Node(response(b"[2]"))
    async with server(first.serve) as one, server(second.serve) as two, cluster(one, two) as reader:
        assert await reader.read(OverviewRequest()) == Document([1])
        first.answer = response(b"", "503 Service Unavailable")
        assert await reader.read(OverviewRequest()) == Document([2])
        first.answer = response(b"[3]")
        assert await reader.read(OverviewRequest()) == Document([2])
        second.answer = response(b"", "503 Service Unavailable")
        assert await reader.read(OverviewRequest()) == Document([3])
    assert len(first.heads) == 3


async def test_a_node_that_breaks_off_or_lists_nothing_is_left_for_another() -> None:
    listing = ListingRequest("queue", "queues", ("name",))
    for broken in (
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\n[",
        response(b'"starting"'),
    ):

        async def breaking(_: bytes, writer: asyncio.StreamWriter, answer: bytes = broken) -> None:
            writer.write(answer)
            writer.close()

        node = Node(response(b"[1]"))
        async with server(breaking) as one, server(node.serve) as two, cluster(one, two) as reader:
            assert await reader.read(listing) == Document([1])


@pytest.mark.parametrize("status", ["404 Not Found", "500 Internal Server Error"])
async def test_a_node_without_an_overview_is_left_for_another(status: str) -> None:
    """The parts of the API of a node that stops end one by one."""
    stopping, other = Node(response(b"{}", status)), Node(response(b"[1]"))
    async with server(stopping.serve) as one, server(other.serve) as two, cluster(one, two) as reader:
        assert await reader.read(OverviewRequest()) == Document([1])


async def test_a_silent_node_leaves_the_others_time_to_answer() -> None:
    async def silent(_: bytes, __: asyncio.StreamWriter) -> None:
        await asyncio.get_running_loop().create_future()

    node = Node(response(b"[1]"))
    async with (
        server(silent) as one,
        server(silent) as two,
        server(node.serve) as three,
        cluster(one, two, three, deadline=1.0) as reader,
    ):
        assert await reader.read(OverviewRequest()) == Document([1])


async def test_a_listing_that_takes_too_long_is_not_asked_of_each_node() -> None:
    """The listing would take as long on each node; the overview shows whether a node answers at all."""

    async def silent(_: bytes, __: asyncio.StreamWriter) -> None:
        await asyncio.get_running_loop().create_future()

    node = Node(response(b"[1]"))
    async with server(silent) as one, server(node.serve) as two, cluster(one, two, deadline=1.0) as reader:
        answer = await reader.read(ListingRequest("queue", "queues", ("name",)))
    assert answer == Unavailable("no answer within 0.5 s", late=True)
    assert not node.heads


async def test_each_node_is_asked_once_and_named_where_none_answers() -> None:
    urls = [await unanswered(), await unanswered()]
    async with cluster(*urls) as reader:
        answer = await reader.read(OverviewRequest())
    assert isinstance(answer, Unavailable)
    assert answer.reason.startswith("none of 2 nodes: ")
    assert all(f"{url}: " in answer.reason for url in urls)


async def test_what_one_node_refuses_no_other_is_asked() -> None:
    refusing = Node(response(b'{"error":"not_authorised","reason":"no"}', "401 Unauthorized"))
    other = Node(response(b"[1]"))
    async with server(refusing.serve) as one, server(other.serve) as two, cluster(one, two) as reader:
        assert await reader.read(OverviewRequest()) == Refused(login=False, reason="no")
    assert not other.heads


async def test_the_gateway_names_itself_its_version_and_the_source() -> None:
    node = Node(response(b"[1]"))
    async with server(node.serve) as url:
        endpoint = ManagementEndpoint(url, "gateway", SecretStr("sesame"), source="orders")
        async with HttpReader(endpoint) as reader:
            await reader.read(OverviewRequest())
    version = importlib.metadata.version("amqp-management-gateway")
    assert f"user-agent: amqp-gateway/{version} (source orders)\r\n".encode() in node.heads[0].lower()
