"""Two connections of one name: a proxy in front of each node reports the same client's address and port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import aio_pika
import pytest

from gateway.feed.records import DeleteRecord, ObjectRecord, UpdateRecord
from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.change_proofs import nodes_of_connection
from gateway.sources.rabbitmq.management_changes import Lookup
from tests.cluster.watching import ClusterWatch, watched
from tests.components.cluster import CLUSTER_SETTINGS, ClusterNode, PrivateCluster
from tests.components.waiting import eventually

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.long, pytest.mark.prove]

CLIENT = "192.0.2.1 50000"
NAME = "192.0.2.1:50000 -> 198.51.100.1:5672"
QUEUE = "orders"


@pytest.fixture(scope="module")
def behind_proxies() -> Iterator[PrivateCluster]:
    """Provide two nodes that expect the PROXY protocol."""
    lines = (*CLUSTER_SETTINGS.configuration, "proxy_protocol = true")
    with PrivateCluster(2, replace(CLUSTER_SETTINGS, configuration=lines)) as cluster:
        with cluster.nodes[0].http() as http:
            http.put(f"queues/%2F/{QUEUE}", json={"durable": True}).raise_for_status()
        yield cluster


@asynccontextmanager
async def proxy(node: ClusterNode, client: str = "") -> AsyncIterator[int]:
    """Provide the port of a proxy that reports its clients, or always the same one, to a node."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", node.ports.amqp)
        host, port = client.split() if client else writer.get_extra_info("peername")
        requests.write(f"PROXY TCP4 {host} 198.51.100.1 {port} 5672\r\n".encode())
        with suppress(OSError):
            await asyncio.gather(passed_on(reader, requests), passed_on(answers, writer))

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while octets := await reader.read(65_536):
            writer.write(octets)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def consuming(node: ClusterNode, port: int) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    """Provide a channel with a consumer, on a connection through a proxy."""
    url = node.amqp_url().replace(f":{node.ports.amqp}", f":{port}")
    async with await aio_pika.connect(url) as connection, connection.channel() as channel:
        queue = await channel.get_queue(QUEUE)
        await queue.consume(taken, consumer_tag="tag")
        yield channel


async def taken(message: aio_pika.abc.AbstractIncomingMessage) -> None:
    await message.ack()


def of_client(watch: ClusterWatch) -> list[tuple[ObjectRecord, ...]]:
    """Return the connections of the name, each with its channels, and their consumers."""
    return [
        (connection, *channels, *(below(watch, "consumer", channels[0]) if channels else ()))
        for connection in watch.objects("connection")
        if connection.leaf_name == NAME
        for channels in [below(watch, "channel", connection)]
    ]


def below(watch: ClusterWatch, class_name: str, parent: ObjectRecord) -> list[ObjectRecord]:
    """Return the objects of a class that belong to another object."""
    every = watch.objects(class_name)
    return [one for one in every if one.parent is not None and one.parent.stable_name == parent.stable_name]


def rows(objects: tuple[ObjectRecord, ...]) -> set[tuple[int, int]]:
    return {(one.class_number, one.row) for one in objects}


def ended(watch: ClusterWatch, since: int) -> set[tuple[int, int]]:
    """Return class and row of each object that ended ``since`` so many records."""
    records = watch.records[since:]
    return {(one.class_number, one.row) for one in records if isinstance(one, DeleteRecord)}


def is_updated(watch: ClusterWatch, one: ObjectRecord, since: int) -> bool:
    updates = (record for record in watch.records[since:] if isinstance(record, UpdateRecord))
    return any((record.class_number, record.row) == (one.class_number, one.row) for record in updates)


def nodes_listed(cluster: PrivateCluster) -> list[str]:
    """Return the nodes with connections of the name, as an operation asks for them."""
    steps = nodes_of_connection(NAME)
    asked: Lookup = next(steps)
    with cluster.nodes[0].http() as http:
        answer: Json = http.get(asked.target).raise_for_status().json()
    with pytest.raises(StopIteration) as found:
        steps.send(answer)
    nodes: list[str] = found.value.value
    return nodes


@pytest.mark.parametrize("listed", [False, True], ids=["opened while it runs", "opened before"])
async def test_two_connections_of_one_name_are_two_objects(
    behind_proxies: PrivateCluster, tmp_path: Path, *, listed: bool
) -> None:
    first_node, second_node = behind_proxies.nodes
    async with AsyncExitStack() as proxies:
        events = [await proxies.enter_async_context(proxy(node)) for node in behind_proxies.nodes]
        ports = [await proxies.enter_async_context(proxy(node, CLIENT)) for node in behind_proxies.nodes]
        first, second = consuming(first_node, ports[0]), consuming(second_node, ports[1])
        if listed:
            await first.__aenter__()
            channel = await second.__aenter__()
        watch = await proxies.enter_async_context(watched(behind_proxies, tmp_path, events))
        if not listed:
            await first.__aenter__()
            channel = await second.__aenter__()

        def whole() -> bool:
            found = of_client(watch)
            return [len(one) for one in found] == [3, 3]

        await watch.until(whole, "two connections, each with a channel and its consumer")
        assert len({one[0].stable_name for one in of_client(watch)}) == 2

        async def are_listed() -> bool:
            return await asyncio.to_thread(nodes_listed, behind_proxies) == sorted(behind_proxies.names)

        await eventually(are_listed, "the management API lists both by their name")
        mark = len(watch.records)
        await first.__aexit__(None, None, None)
        await watch.until(lambda: len(of_client(watch)) == 1, "the first has ended")
        (lives,) = of_client(watch)
        await channel.default_exchange.publish(aio_pika.Message(b"order"), QUEUE)
        await watch.until(lambda: is_updated(watch, lives[1], mark), "the second's channel is read again")
        closed = ended(watch, mark)
        assert not closed & rows(lives)
        assert len(closed) == 3, "connection, channel and consumer"
        mark = len(watch.records)
        await second.__aexit__(None, None, None)
        await watch.until(lambda: not of_client(watch), "the second has ended")
        assert ended(watch, mark) >= rows(lives)
