"""The HTTP writer against servers of every kind: a change is sent once; only certain results are stated."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from gateway.sources.rabbitmq.http_reader import ManagementEndpoint
from gateway.sources.rabbitmq.http_writer import HttpWriter
from gateway.sources.rabbitmq.management_api import (
    WITHHELD,
    Broken,
    Document,
    NotFound,
    NotManagement,
    Refused,
    Unavailable,
    by_proxy,
)
from gateway.sources.rabbitmq.management_changes import (
    BrokerAnswer,
    BrokerRequest,
    Change,
    Changed,
    Lookup,
    NotSent,
    Purge,
    Rejected,
    Unanswered,
    change_answer_of,
)
from gateway.sources.rabbitmq.path_proof import path_of
from tests.sources.rabbitmq.test_http_reader import (
    PROVING_REQUEST,
    Serve,
    answer_to_proof,
    response,
    server,
)

LIMIT = Change("PUT", "vhost-limits/a%2Fb/max-queues", {"value": 3})


def endpoint(url: str, user: str, deadline: float = 20.0) -> ManagementEndpoint:
    return ManagementEndpoint(url, user, SecretStr("sesame"), deadline=deadline)


async def make(url: str, *requests: BrokerRequest, deadline: float = 20.0) -> list[BrokerAnswer]:
    reading, writing = endpoint(url, "reader", deadline), endpoint(url, "writer", deadline)
    async with HttpWriter(reading, writing) as writer:
        return [await writer.make(request) for request in requests]


async def made(serve: Serve, *requests: BrokerRequest, deadline: float = 20.0) -> list[BrokerAnswer]:
    async with server(serve) as url:
        return await make(url, *requests, deadline=deadline)


async def test_each_request_is_made_by_its_user_and_a_change_carries_what_it_changes() -> None:
    heads: list[bytes] = []

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        change = not head.startswith(b"GET")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n" if change else response(b"[1]"))

    close = Change("DELETE", "connections/x", reason="für heute")
    read, look = Lookup("vhosts?name=x"), Lookup("vhosts/x", as_writer=True)
    answers = await made(serve, read, look, close)
    assert answers == [Document([1]), Document([1]), Changed()]
    users = [base64.b64encode(f"{user}:sesame".encode()) for user in ("reader", "writer", "writer")]
    assert all(b"Basic " + user in head for user, head in zip(users, heads, strict=True))
    assert heads[2].startswith(b"DELETE /api/connections/x HTTP/1.1\r\n")
    assert b"x-reason: f\xc3\xbcr heute\r\n" in heads[2].lower()


async def test_the_body_of_a_change_is_json() -> None:
    received = bytearray()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if proving := PROVING_REQUEST.match(head):
            writer.write(answer_to_proof(proving))
            writer.close()
            return
        received.extend(head + await reader.readuntil(b"}"))
        writer.write(b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(converse, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        assert await make(f"http://127.0.0.1:{port}", LIMIT) == [Changed()]
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"PUT /api/vhost-limits/a%2Fb/max-queues HTTP/1.1\r\n")
    assert b"content-type: application/json" in head
    assert bytes(body) == b'{"value": 3}'


async def test_what_was_sent_and_is_not_answered_may_have_been_done_and_is_not_sent_again() -> None:
    count = 0

    async def silent(_: bytes, __: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        await asyncio.get_running_loop().create_future()

    async def closing(_: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        writer.close()

    async def nonsense(_: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        writer.write(b"AMQP\0\0\x09\x01\r\n\r\n")

    for number, serve in enumerate((silent, closing, nonsense), 1):
        (answer,) = await made(serve, Change("DELETE", "queues/x/y"), deadline=0.5)
        assert isinstance(answer, Unanswered), serve.__name__
        assert count == number


async def test_a_change_is_waited_for_as_long_as_an_operation_may_take() -> None:
    was_read_in_vain = asyncio.Event()

    async def serve(_: bytes, writer: asyncio.StreamWriter) -> None:
        await was_read_in_vain.wait()
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with server(serve) as url:
        accounts = endpoint(url, "reader", 0.5), endpoint(url, "writer", 0.5)
        async with HttpWriter(*accounts, patience=60) as writer:
            change = asyncio.create_task(writer.make(Change("DELETE", "queues/x/y")))
            assert isinstance(await writer.make(Lookup("vhosts/x")), Unavailable)
            was_read_in_vain.set()
            assert await change == Changed()


async def test_an_answer_that_breaks_off_behind_its_status_is_one() -> None:
    async def breaking(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n[1")
        await writer.drain()
        writer.close()

    assert await made(breaking, Change("DELETE", "queues/x/y")) == [Changed()]


async def test_who_is_not_reached_was_sent_nothing() -> None:
    async with server(lambda *_: asyncio.sleep(0)) as url:
        pass
    (answer,) = await make(url, LIMIT)
    assert isinstance(answer, NotSent)
    assert "sesame" not in answer.reason


@pytest.mark.parametrize(
    "request_",
    [
        Change("DELETE", "queues/x/\ud800"),
        Change("DELETE", "queues/x/y", reason="half a character: \ud800"),
        Change("DELETE", f"queues/x/{'y' * 70_000}"),
        Change("DELETE", "queues/x/y\r\nz"),
        Purge("/", "\ud800"),
    ],
)
async def test_what_no_library_takes_is_not_sent(request_: BrokerRequest) -> None:
    heads: list[bytes] = []

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.write(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n")

    async with server(serve) as url, HttpWriter(endpoint(url, "r"), endpoint(url, "w")) as writer:
        answer = await writer.make(request_)
        assert isinstance(answer, NotSent | Rejected)
        assert bool(heads) == isinstance(answer, Rejected), "what was sent was answered"
        read = await writer.make(Lookup("queues/\ud800"))
        assert isinstance(read, Broken | NotManagement)


async def test_without_a_writer_nothing_is_changed() -> None:
    async def serve(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"[1]"))

    async with server(serve) as url, HttpWriter(endpoint(url, "reader"), None) as writer:
        assert isinstance(await writer.make(LIMIT), NotSent)
        assert isinstance(await writer.make(Lookup("users/x", as_writer=True)), NotManagement)
        assert await writer.make(Lookup("vhosts")) == Document([1])


@pytest.mark.parametrize(
    ("status", "body", "answer"),
    [
        (201, b"", Changed()),
        (204, b"", Changed()),
        (404, b'{"error":"Object Not Found","reason":"Not Found"}', NotFound()),
        (404, b'{"error":"not_found","reason":"Not Found"}', Refused(False, WITHHELD)),
        # A proxy may look at the answer, too: the broker may have carried it out.
        (404, b"<html>", Unanswered(by_proxy(404))),
        (403, b"<html>Forbidden", Unanswered(by_proxy(403))),
        (400, b'{"error":"bad_request","reason":"in\\nuse"}', Rejected("in use")),
        (400, b'{"error":"x","reason":"&lt;&lt;\\"a&amp;amp;\\"&gt;&gt;"}', Rejected('<<"a&amp;">>')),
        *((status, b"", Unanswered(by_proxy(status))) for status in (401, 403, 404)),
        (405, b"", Rejected("status 405")),
        (302, b"", Rejected("status 302")),
        (401, b'{"error":"not_authorised","reason":"Access refused."}', Refused(False, "Access refused.")),
        (401, b'{"error":"not_authorized","reason":"Login failed"}', Refused(True, "Login failed")),
        (408, b"", Unanswered("status 408")),
        (429, b"", Unanswered("status 429")),
        (500, b"", Unanswered("status 500")),
        (503, b"", Unanswered("status 503")),
        (504, b"", Unanswered("status 504")),
    ],
)
def test_what_statuses_mean(status: int, body: bytes, answer: BrokerAnswer) -> None:
    assert change_answer_of(status, body) == answer


@pytest.mark.parametrize(
    "reason",
    [
        "The operation to delete the queue from the metadata store timed out",
        "Request to node a@b failed with {'EXIT', {{case_clause, {timeout,{x,a@b}}}}",
    ],
)
def test_a_refusal_for_want_of_time_may_be_carried_out_later(reason: str) -> None:
    """RabbitMQ 4.3 gives this answer without a majority of its cluster, and carries out the request later."""
    body = json.dumps({"error": "bad_request", "reason": reason}).encode()
    assert change_answer_of(400, body) == Unanswered(f"status 400: {reason}")


@given(st.integers(100, 999), st.binary(max_size=50))
def test_any_answer_means_something(status: int, body: bytes) -> None:
    answer = change_answer_of(status, body)
    assert isinstance(answer, Changed) == (200 <= status < 300)


def test_names_are_segments_of_a_path() -> None:
    assert path_of("queues", "/", "a b/ü?") == "queues/%2F/a%20b%2F%C3%BC%3F"


# Several nodes of one cluster.


def cluster(*urls: str) -> HttpWriter:
    reading, writing = (
        ManagementEndpoint(urls[0], user, SecretStr("sesame"), deadline=3.0, others=urls[1:])
        for user in ("reader", "writer")
    )
    return HttpWriter(reading, writing)


async def test_a_change_goes_to_another_node_where_the_first_is_not_reached() -> None:
    heads: list[bytes] = []

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with server(lambda *_: asyncio.sleep(0)) as gone:
        pass
    async with server(serve) as url, cluster(gone, url) as writer:
        assert [await writer.make(Change("DELETE", "queues/x/y")) for _ in range(2)] == [Changed()] * 2
    assert len(heads) == 2


async def test_a_change_that_may_have_arrived_goes_to_no_other_node() -> None:
    asked: list[str] = []

    async def silent(_: bytes, __: asyncio.StreamWriter) -> None:
        asked.append("silent")
        await asyncio.get_running_loop().create_future()

    async def closing(_: bytes, writer: asyncio.StreamWriter) -> None:
        asked.append("closing")
        writer.close()

    async def unavailable(_: bytes, writer: asyncio.StreamWriter) -> None:
        asked.append("unavailable")
        writer.write(response(b"", "503 Service Unavailable"))

    async def good(_: bytes, writer: asyncio.StreamWriter) -> None:
        asked.append("good")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    for first in (silent, closing, unavailable):
        asked.clear()
        async with server(first) as one, server(good) as two, cluster(one, two) as writer:
            answer = await writer.make(Change("DELETE", "queues/x/y"))
        assert isinstance(answer, Unanswered | Rejected), first.__name__
        assert asked == [first.__name__]


async def test_no_node_is_reached_and_nothing_is_sent() -> None:
    async with server(lambda *_: asyncio.sleep(0)) as one, server(lambda *_: asyncio.sleep(0)) as two:
        pass
    async with cluster(one, two) as writer:
        assert isinstance(await writer.make(LIMIT), NotSent)
