"""The HTTP reader against servers of every kind: whatever they do, it returns an answer in time."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from gateway.clock import SystemClock
from gateway.demo.node_setup import free_ports
from gateway.dialects.session import Send
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.publishing import Publisher
from gateway.links.session_driver import MessageDriver
from gateway.links.tls import ClientTls, TlsFileError
from gateway.mapping.paths import Json
from gateway.model.times import MINUTE, SECOND
from gateway.sources.rabbitmq import http_reader
from gateway.sources.rabbitmq.http_publisher import HttpPublisher
from gateway.sources.rabbitmq.http_reader import (
    MAX_BODY_OCTETS,
    HttpReader,
    ManagementEndpoint,
    PrometheusReader,
    Target,
)
from gateway.sources.rabbitmq.http_writer import HttpWriter
from gateway.sources.rabbitmq.management_api import (
    COMPRESSED,
    LISTING_PATIENCE,
    Answer,
    Broken,
    Document,
    ListingRequest,
    NotManagement,
    ObjectRequest,
    OverviewRequest,
    PermissionRequest,
    Refused,
    Unavailable,
)
from gateway.sources.rabbitmq.management_changes import Change, Changed, NotSent
from gateway.sources.rabbitmq.metrics_answers import TotalsSheet
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.prometheus_samples import NotScraped, ScrapeRequest
from gateway.sources.rabbitmq.proving_client import ManagementSession
from gateway.sources.rabbitmq.provisioning import ProvisioningError, user_exists
from gateway.sources.rabbitmq.reading import class_readers
from gateway.sources.rabbitmq.status import failure_text
from tests.components.waiting import eventually
from tests.sources.rabbitmq.imitation import MAPPING

Serve = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]

PROVING_REQUEST = re.compile(rb"GET \S*/api/health/checks/protocol-listener/([^\s?]+)\S* ", re.IGNORECASE)


def answer_to_proof(asked: re.Match[bytes]) -> bytes:
    if b"LISTENER" in asked[0]:
        return response(b'{"error":"Object Not Found"}', "404 Not Found")
    missing = unquote(asked[1].decode()).lower()
    return response(json.dumps({"missing": missing}).encode(), "503 Service Unavailable")


@asynccontextmanager
async def server(serve: Serve, port: int = 0, *, proves: bool = True) -> AsyncIterator[str]:
    """Provide the URL of a server on loopback that answers the head of each request by ``serve``.

    If it ``proves``, it answers proofs of paths as a RabbitMQ does that nothing stands before.
    """

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                proving = PROVING_REQUEST.match(head) if proves else None
                if proving is None:
                    await serve(head, writer)
                else:
                    writer.write(answer_to_proof(proving))
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
    asked = rb"GET /api/exchanges/a%2Fb\?page=1&page_size=1&columns=vhost,name&_=[0-9a-f]+ HTTP/1.1\r\n"
    assert re.match(asked, heads[0])
    assert b"\r\ncache-control: no-cache\r\n" in heads[0].lower()
    assert b"authorization: basic z2f0zxdhetpzzxnhbwu=" in heads[1].lower()
    assert b"accept-encoding: identity" in heads[1].lower()


async def test_a_connection_that_the_broker_may_be_closing_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RabbitMQ 4.x closes a connection that was idle for 5 s: a request on its way then has no answer."""
    now = [0.0]
    monkeypatch.setattr("httpcore._async.http11.time", SimpleNamespace(monotonic=lambda: now[0]))
    connections: list[object] = []

    async def serve(_: bytes, writer: asyncio.StreamWriter) -> None:
        connections.append(writer.get_extra_info("peername"))
        writer.write(response(b"[1]"))

    async with (
        server(serve) as url,
        HttpReader(ManagementEndpoint(f"{url}/", "gateway", SecretStr("sesame"))) as reader,
    ):
        for now[0] in (0.0, 2.0, 6.0):
            assert await reader.read(PermissionRequest("/")) == Document([1])
    assert connections[0] == connections[1] != connections[2]


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

    for serve in (redirect, page, other_protocol):
        assert isinstance(await read_from(serve), NotManagement), serve.__name__


async def test_a_compressed_answer_is_no_other_server_but_that_of_a_proxy() -> None:
    # As nginx makes with `proxy_set_header Accept-Encoding gzip` where the broker compresses.
    async def compressed(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"xx", headers="content-encoding: gzip\r\n"))

    answer = await read_from(compressed)
    assert answer == Unavailable(COMPRESSED, responded=True, explained=True)
    assert failure_text(answer, "monitor") == COMPRESSED


async def test_a_server_that_resets_the_connection_may_be_the_port_of_amqp() -> None:
    async def reset(_: bytes, writer: asyncio.StreamWriter) -> None:
        linger = struct.pack("ii", 1, 0)  # closed without sending what is left: the peer gets a reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    answer = await read_from(reset)

    assert answer == Unavailable(
        "the connection ended before an answer, as it does on a port of AMQP", cut=True
    )


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


async def test_what_an_answer_took_ends_with_its_arrival_and_not_when_the_gateway_gets_to_it() -> None:
    async def late_client(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"{}"))  # it is sent at once
        time.sleep(1.0)  # noqa: ASYNC251  a gateway that gets no processor

    async def late_broker(_: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1.0)
        writer.write(response(b"{}"))

    prompt, slow = await read_from(late_client), await read_from(late_broker)
    assert isinstance(prompt, Document)
    assert isinstance(slow, Document)
    assert 0 < prompt.spent < 0.7 * SECOND
    assert slow.spent > 0.9 * SECOND


async def test_an_answer_without_end_is_cut_off() -> None:
    async def flood(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {2 * MAX_BODY_OCTETS}\r\n\r\n".encode())
        for _part in range(2 * MAX_BODY_OCTETS // 65_536):
            writer.write(b" " * 65_536)
            await writer.drain()

    assert await read_from(flood) == Broken(f"an answer of more than {MAX_BODY_OCTETS} bytes", permanent=True)


@pytest.mark.parametrize("form", [b"[%s]", b'{"items":[%s],"page":1,"page_count":1}'])
async def test_one_object_of_a_long_listing_that_is_no_json_costs_no_other(form: bytes) -> None:
    """Above 4 MiB such a listing was none."""
    good = json.dumps({"name": "a" * 1_000, "arguments": {}}).encode()
    body = form % b",".join([*[good] * 2_500, b'{"name":NaN}', *[good] * 2_500])

    async def serve(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(response(body))
        await writer.drain()

    async with server(serve) as url, HttpReader(ManagementEndpoint(url, "gateway", SecretStr("x"))) as reader:
        answer = await reader.read(ListingRequest("vhost", "vhosts", ()))
    assert isinstance(answer, Document)
    items: Any = answer.body["items"] if isinstance(answer.body, Mapping) else answer.body
    assert (len(items), items.count(None), items[2_500]) == (5_001, 1, None)


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


async def test_a_listing_is_waited_for_as_long_as_its_request_says() -> None:
    async def slow(_: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.4)
        writer.write(response(b"[1]"))

    patient = ListingRequest("exchange", "exchanges", (), patience=LISTING_PATIENCE + 30 * SECOND)
    async with server(slow) as url, cluster(url, deadline=0.1) as reader:
        assert await reader.read(patient) == Document([1])
        late = await reader.read(ListingRequest("exchange", "exchanges", ()))
        assert isinstance(late, Unavailable)
        assert late.late


async def test_a_demanded_pause_is_part_of_the_answer_and_commands_wait_for_it() -> None:
    limited = Node(response(b"", "429 Too Many Requests", "retry-after: 1\r\n"))
    expected = Unavailable("status 429", responded=True, pause=SECOND)
    async with server(limited.serve) as url, cluster(url) as reader:
        assert await reader.read(OverviewRequest()) == expected

        async def ask() -> Answer:
            answer = await reader.read(OverviewRequest())
            limited.answer = response(b"[1]")
            return answer

        assert await http_reader.after_pauses(ask) == Document([1])
        assert len(limited.heads) == 3
        limited.answer = response(b"", "503 Service Unavailable", "retry-after: 3600\r\n")
        assert await http_reader.after_pauses(ask) == Unavailable("status 503", responded=True, pause=MINUTE)
    busy = Node(response(b"", "503 Busy", "retry-after: 9\r\n"))
    async with server(busy.serve) as first, server(busy.serve) as second, cluster(first, second) as reader:
        answer = await reader.read(OverviewRequest())
        assert isinstance(answer, Unavailable)
        assert answer.pause == 9 * SECOND


async def test_publications_around_an_alarm_wait_as_long_as_is_demanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.links.publishing.RETRY_SECONDS", 0.0)
    limited = Node(response(b"", "429 Too Many Requests", "retry-after: 60\r\n"))
    idle = SimpleNamespace(handle=lambda *_: [])
    driver = MessageDriver("agent", idle, lambda _: None, SystemClock(), Counter())
    driver.perform([Send("qpid.management", "console.heartbeat", b"AM2")])
    password = SecretStr("sesame")
    async with (
        server(limited.serve) as url,
        HttpPublisher(ManagementEndpoint(url, "agent", password), "/") as fallback,
    ):
        fallback.want(wanted=True)
        amqp = AmqpEndpoint("amqp://127.0.0.1", "/", "agent", password)
        publisher = Publisher(amqp, "agent", driver, SystemClock(), fallback)
        with capture_logs() as logs:
            running = asyncio.create_task(publisher.run())

            async def is_blocked() -> bool:
                return any(line["event"] == "blocked" for line in logs)

            await eventually(is_blocked, "it is said")
            for _ in range(100):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert len(limited.heads) == 1
    (line,) = [line for line in logs if line["event"] == "blocked"]
    assert line["detail"] == (
        "nothing can be published for 60 s: the management API, or a proxy in front of it, demands a pause"
        " (status 429)"
    )


async def test_the_answer_of_a_cache_is_none() -> None:
    node = Node(response(b"[1]", headers="age: 0\r\n"))
    aged = response(b"[1]", headers="age: 12\r\n")
    async with server(node.serve) as url, cluster(url) as reader:
        request = ListingRequest("vhost", "vhosts", ())
        assert await reader.read(request) == Document([1])
        node.answer = aged
        assert await reader.read(request) == Broken("a cache in front of it gave an answer that is 12 s old")
        with ManagementSession(f"{url}/api/") as session:
            with pytest.raises(ProvisioningError, match="GET users/a: a cache in front of it gave an answer"):
                await asyncio.to_thread(user_exists, session, "a")
            node.answer = response(b"{}")
            assert await asyncio.to_thread(user_exists, session, "a")
    *_, first, second = node.heads
    assert first.splitlines()[0] != second.splitlines()[0], "no cache knows a request"
    node.answer = aged
    sheet = TotalsSheet(class_readers(MAPPING)["protocol"])
    async with server(node.serve) as url, PrometheusReader() as metrics:
        answer = await metrics.scrape(ScrapeRequest(url, ()), sheet, {})
    assert answer == NotScraped("a cache in front of it gave an answer that is 12 s old")


async def test_a_proof_from_a_cache_is_none() -> None:
    aged = Node(response(b'{"missing":"amqp-gatewayx"}', "503 Service Unavailable", "age: 7\r\n"))
    async with (
        server(aged.serve, proves=False) as url,
        HttpWriter(endpoint := ManagementEndpoint(url, "g", SecretStr("s")), endpoint) as writer,
    ):
        answer = await writer.make(Change("DELETE", "queues/%2F/a"))
        assert isinstance(answer, NotSent)
        assert "a cache in front of it gave an answer that is 7 s old" in answer.reason
    assert all(head.startswith(b"GET") for head in aged.heads)


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


def nodes(*running: bool) -> bytes:
    return response(
        json.dumps([{"name": f"rabbit@{n}", "running": one} for n, one in enumerate(running)]).encode()
    )


def are_running(answer: Answer) -> list[Json]:
    """Return what a listing of nodes shows of each."""
    assert isinstance(answer, Document)
    listed = answer.body
    assert isinstance(listed, list)
    return [one["running"] for one in listed if isinstance(one, Mapping)]


async def test_a_node_that_is_cut_off_is_left_for_one_that_sees_more_of_the_cluster() -> None:
    listing = ListingRequest("node", "nodes", ("name", "running"))
    lonely, another, third = (Node(nodes(*seen)) for seen in ((True, False, False), (False, True, True), ()))
    async with (
        server(lonely.serve) as one,
        server(another.serve) as two,
        server(third.serve) as three,
        cluster(one, two, three) as reader,
    ):
        with capture_logs() as logged:
            shown = await reader.read(listing)
        assert are_running(shown) == [False, True, True]
        assert [(note["event"], note["next"]) for note in logged] == [("management-node-isolated", two)]
        await reader.read(OverviewRequest())
    assert (len(lonely.heads), len(another.heads), len(third.heads)) == (1, 2, 0)


async def test_where_no_node_sees_more_the_one_that_answered_is_kept_and_the_others_asked_seldom() -> None:
    listing = ListingRequest("node", "nodes", ("name", "running"))
    first, second = Node(nodes(True, False, False)), Node(nodes(False, True, False))
    async with server(first.serve) as one, server(second.serve) as two, cluster(one, two) as reader:
        answers = [await reader.read(listing) for _ in range(3)]
    assert [are_running(answer) for answer in answers] == [[True, False, False]] * 3
    assert (len(first.heads), len(second.heads)) == (3, 1)


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


STOPS = response(b'{"error":"Object Not Found","reason":"Not Found"}', "404 Not Found", "server: Cowboy\r\n")
"""The answer of RabbitMQ's web server to any path when the management API of its node has ended."""


@pytest.mark.parametrize(
    "request_",
    [
        ListingRequest("queue", "queues", ("name",)),
        ObjectRequest(ObjectName("queue", ("/", "orders")), "queues"),
        PermissionRequest("/"),
    ],
)
async def test_a_node_that_stops_knows_nothing_of_any_object_and_another_is_asked(request_: Target) -> None:
    stopping, other = Node(STOPS), Node(response(b"[1]"))
    async with server(stopping.serve) as one, server(other.serve) as two, cluster(one, two) as reader:
        assert await reader.read(request_) == Document([1])


async def test_a_change_that_a_node_that_stops_did_not_take_is_sent_to_another() -> None:
    stopping, other = Node(STOPS), Node(b"HTTP/1.1 204 No Content\r\n\r\n")
    async with server(stopping.serve) as one, server(other.serve) as two:
        endpoint = ManagementEndpoint(one, "writer", SecretStr("sesame"), others=(two,))
        async with HttpWriter(endpoint, endpoint) as writer:
            assert await writer.make(Change("DELETE", "queues/%2F/orders")) == Changed()


async def test_a_silent_node_leaves_the_others_time_to_answer() -> None:
    async def silent(_: bytes, __: asyncio.StreamWriter) -> None:
        await asyncio.get_running_loop().create_future()

    node = Node(response(b"[1]"))
    async with (
        server(silent) as one,
        server(silent) as two,
        server(node.serve) as three,
        cluster(one, two, three, deadline=8.0) as reader,
    ):
        assert await reader.read(OverviewRequest()) == Document([1])


async def test_a_listing_that_takes_too_long_is_not_asked_of_each_node() -> None:
    """The listing would take as long on each node; the overview shows whether a node answers at all."""

    async def silent(_: bytes, __: asyncio.StreamWriter) -> None:
        await asyncio.get_running_loop().create_future()

    node = Node(response(b"[1]"))
    async with server(silent) as one, server(node.serve) as two, cluster(one, two, deadline=4.0) as reader:
        answer = await reader.read(ListingRequest("queue", "queues", ("name",)))
    assert answer == Unavailable("no answer within 2 s", late=True)
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
