"""Requests with names in their paths, through proxies before a real broker."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import httpx
import pytest
from pydantic import SecretStr

from gateway.demo.broker import PrivateBroker
from gateway.model.times import SECOND
from gateway.sources.rabbitmq import proving_client
from gateway.sources.rabbitmq.http_reader import HttpReader, ManagementEndpoint
from gateway.sources.rabbitmq.http_writer import HttpWriter
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Broken,
    Document,
    NotFound,
    ObjectRequest,
    OverviewRequest,
    Unavailable,
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
)
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.path_proof import NO_PATH, PathProof, path_of
from gateway.sources.rabbitmq.proving_client import ManagementSession
from tests.components.changing_proxy import (
    PathChange,
    Reply,
    decoded,
    escaped_twice,
    kept,
    lower_case,
    proxy,
)
from tests.components.rabbitmq import VirtualHost
from tests.sources.rabbitmq.test_http_reader import response, server

DURABLE = {"durable": True}


@pytest.fixture
def meant(virtual_host: VirtualHost) -> Iterator[ObjectName]:
    """The queue ``HOST/b`` of ``/``; the virtual host ``HOST`` has a queue ``b``."""
    name = ObjectName("queue", ("/", f"{virtual_host.name}/b"))
    with virtual_host.http() as http:
        for path in (path_of("queues", *name.parts), path_of("queues", virtual_host.name, "b")):
            http.put(path, json=DURABLE).raise_for_status()
        yield name
        http.delete(path_of("queues", *name.parts))


def living(broker: PrivateBroker, *queues: tuple[str, str]) -> list[tuple[str, str]]:
    with broker.http() as http:
        return [one for one in queues if http.get(path_of("queues", *one)).status_code == httpx.codes.OK]


def endpoint(broker: PrivateBroker, url: str) -> ManagementEndpoint:
    return ManagementEndpoint(url, broker.administrator.name, SecretStr(broker.administrator.password))


async def read(broker: PrivateBroker, url: str, request: ObjectRequest | OverviewRequest) -> Answer:
    async with HttpReader(endpoint(broker, url)) as reader:
        return await reader.read(request)


async def make(broker: PrivateBroker, url: str, request: BrokerRequest) -> BrokerAnswer:
    async with HttpWriter(endpoint(broker, url), endpoint(broker, url)) as writer:
        return await writer.make(request)


@pytest.mark.each_rabbitmq
@pytest.mark.parametrize("change", [decoded, escaped_twice])
@pytest.mark.each_rabbitmq
async def test_what_would_change_another_object_is_not_sent(
    rabbitmq: PrivateBroker, virtual_host: VirtualHost, meant: ObjectName, change: PathChange
) -> None:
    both = [(meant.parts[0], meant.parts[1]), (virtual_host.name, "b")]
    target = path_of("queues", *meant.parts)
    with proxy(rabbitmq.ports.management, change) as between:
        for request in (Change("DELETE", target), Change("DELETE", f"{target}/contents"), Purge(*both[0])):
            answer = await make(rabbitmq, between.url, request)
            assert isinstance(answer, Rejected)
            assert answer.reason.startswith("not sent: a server between the gateway and the broker changes")
        for lookup in (Lookup(target), Lookup(target, as_writer=True)):
            assert isinstance(await make(rabbitmq, between.url, lookup), Broken)
        assert isinstance(await read(rabbitmq, between.url, ObjectRequest(meant, "queues")), Broken)
        overview = await read(rabbitmq, between.url, OverviewRequest())
        assert isinstance(overview, Document)
        assert overview.paths is not None
        assert "/" in overview.paths.altered
        assert {method for method, _ in between.seen} == {"GET"}
    assert living(rabbitmq, *both) == both


@pytest.mark.each_rabbitmq
async def test_through_a_proxy_that_keeps_paths_everything_works(
    rabbitmq: PrivateBroker, virtual_host: VirtualHost, meant: ObjectName
) -> None:
    target = path_of("queues", *meant.parts)
    with proxy(rabbitmq.ports.management, kept) as between:
        overview = await read(rabbitmq, between.url, OverviewRequest())
        assert isinstance(overview, Document)
        assert overview.paths == PathProof()
        shown = await read(rabbitmq, between.url, ObjectRequest(meant, "queues"))
        assert shown == Document({"name": meant.leaf, "vhost": meant.parts[0]})
        assert await make(rabbitmq, between.url, Change("DELETE", f"{target}/contents")) == Changed()
        assert await make(rabbitmq, between.url, Change("DELETE", target)) == Changed()
        assert await read(rabbitmq, between.url, ObjectRequest(meant, "queues")) == NotFound()
    assert living(rabbitmq, ("/", meant.leaf), (virtual_host.name, "b")) == [(virtual_host.name, "b")]


@pytest.mark.each_rabbitmq
async def test_a_proxy_that_hides_the_proofs_answer_leaves_what_known_objects_prove(
    rabbitmq: PrivateBroker, virtual_host: VirtualHost, meant: ObjectName
) -> None:
    """As nginx does with ``proxy_intercept_errors`` and an ``error_page``."""
    unproved = path_of("queues", virtual_host.name, "a;b")
    with virtual_host.http() as http:
        http.put(unproved, json=DURABLE).raise_for_status()
    with proxy(rabbitmq.ports.management, kept) as between:
        between.answer = lambda _, reply: (503, b"<html>sorry") if reply[0] == 503 else reply
        overview = await read(rabbitmq, between.url, OverviewRequest())
        assert isinstance(overview, Document)
        assert overview.paths is not None
        assert not overview.paths.proved
        assert overview.paths.altered.isdisjoint("/A")
        answer = await make(rabbitmq, between.url, Change("DELETE", unproved))
        assert isinstance(answer, Rejected)
        assert answer.reason.startswith("not sent: it is not proved that")
        target = path_of("queues", *meant.parts)
        assert await make(rabbitmq, between.url, Change("DELETE", target)) == Changed()
    left = [(meant.parts[0], meant.parts[1]), (virtual_host.name, "b"), (virtual_host.name, "a;b")]
    assert living(rabbitmq, *left) == left[1:]


@pytest.mark.parametrize("status", [502, 504])
async def test_a_proxy_that_has_no_answer_now_and_then_is_not_said_to_change_names(
    rabbitmq: PrivateBroker, status: int
) -> None:
    with proxy(rabbitmq.ports.management, kept) as between:
        probes = itertools.count()

        def now_and_then(path: str, reply: Reply) -> Reply:
            is_probe = "protocol-listener" in path.lower()
            return (status, b"<html>") if is_probe and next(probes) % 2 == 0 else reply

        between.answer = now_and_then
        overview = await read(rabbitmq, between.url, OverviewRequest())
    assert isinstance(overview, Document)
    assert overview.paths == PathProof()
    assert next(probes) > 2


@pytest.mark.each_rabbitmq
async def test_capital_letters_that_a_proxy_changes_are_noticed(
    rabbitmq: PrivateBroker, virtual_host: VirtualHost
) -> None:
    with virtual_host.http() as http:
        for name in ("Orders", "orders"):
            http.put(path_of("queues", virtual_host.name, name), json=DURABLE).raise_for_status()
    target = path_of("queues", virtual_host.name, "Orders")
    with proxy(rabbitmq.ports.management, lower_case) as between:
        answer = await make(rabbitmq, between.url, Change("DELETE", target))
    assert isinstance(answer, Rejected)
    assert "capital letters" in answer.reason
    both = [(virtual_host.name, "Orders"), (virtual_host.name, "orders")]
    assert living(rabbitmq, *both) == both


@pytest.mark.each_rabbitmq
async def test_a_missing_object_is_missing_only_if_the_path_is_proved_then(
    rabbitmq: PrivateBroker, meant: ObjectName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy's new configuration decodes paths: the queue is not reported as missing."""
    with proxy(rabbitmq.ports.management, kept) as between:
        async with HttpReader(endpoint(rabbitmq, between.url)) as reader:
            request = ObjectRequest(meant, "queues")
            assert await reader.read(request) == Document({"name": meant.leaf, "vhost": meant.parts[0]})
            between.change = lambda path: decoded(path).replace("/b", "/none")
            monkeypatch.setattr(proving_client, "JUST_NOW_SECONDS", 0.0)
            assert isinstance(await reader.read(request), Broken)
            between.change = kept
            await reader.read(OverviewRequest())
            assert await reader.read(request) == Document({"name": meant.leaf, "vhost": meant.parts[0]})
            gone = ObjectRequest(ObjectName("queue", ("/", "never/there")), "queues")
            assert await reader.read(gone) == NotFound()


@pytest.mark.each_rabbitmq
@pytest.mark.parametrize("leaf", [".", "..", ""])
@pytest.mark.each_rabbitmq
async def test_a_name_without_a_path_changes_nothing_else(
    rabbitmq: PrivateBroker, virtual_host: VirtualHost, leaf: str
) -> None:
    """Clients and servers remove dots from a path: a purge of ``.`` would delete the queue ``contents``."""
    with virtual_host.http() as http:
        http.put(path_of("queues", virtual_host.name, "contents"), json=DURABLE).raise_for_status()
    for request in (
        Purge(virtual_host.name, leaf),
        Change("DELETE", path_of("queues", virtual_host.name, leaf)),
        Change("PUT", path_of("vhost-limits", leaf, "max-queues"), {"value": 1}),
    ):
        answer = await make(rabbitmq, rabbitmq.management_url, request)
        assert answer == Rejected(f"not sent: {NO_PATH}")
    lookup = Lookup(path_of("queues", virtual_host.name, leaf))
    assert await make(rabbitmq, rabbitmq.management_url, lookup) == Broken(NO_PATH)
    assert living(rabbitmq, (virtual_host.name, "contents"))


async def test_a_pause_that_is_demanded_at_a_proof_is_that_of_the_request(
    rabbitmq: PrivateBroker, meant: ObjectName
) -> None:
    target = path_of("queues", *meant.parts)
    with proxy(rabbitmq.ports.management, kept) as between:
        between.retry_after = 3
        for request in (Lookup(target), Lookup(target, as_writer=True), Change("DELETE", target)):
            between.limited = 1
            answer = await make(rabbitmq, between.url, request)
            assert isinstance(answer, Unavailable | NotSent)
            assert answer.pause == 3 * SECOND
        assert between.seen == []
        # A command waits for it.
        between.limited, between.retry_after = 2, 1
        login = httpx.BasicAuth(rabbitmq.administrator.name, rabbitmq.administrator.password)
        with ManagementSession(f"{between.url}/api/", auth=login, trust_env=False) as session:
            assert session.get(target).json()["name"] == meant.leaf
            between.limited = 0
        with ManagementSession(f"{between.url}/api/", auth=login, trust_env=False) as session:
            between.limited = 1
            assert session.delete(target).status_code == httpx.codes.NO_CONTENT


async def test_a_change_is_certainly_not_sent_where_the_proof_is_not_answered() -> None:
    changes: list[bytes] = []

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        if head.startswith(b"GET"):
            writer.close()
        else:
            changes.append(head)
            writer.write(response(b"", "204 No Content"))

    async with server(serve, proves=False) as url:
        reading = ManagementEndpoint(url, "gateway", SecretStr("sesame"))
        async with HttpWriter(reading, reading) as writer:
            answer = await writer.make(Change("DELETE", "queues/%2F/a"))
            assert isinstance(answer, NotSent)
            assert answer.reason.startswith("no answer to the proof of its path")
            assert changes == []
            assert await writer.make(Change("DELETE", "queues/plain/a")) == Changed()
