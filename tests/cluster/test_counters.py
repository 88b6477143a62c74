"""Counters of a cluster are sums over its nodes: without one, what they gained is not known."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path

import aio_pika
import pytest

from gateway.feed.records import ObjectRecord, UpdateRecord
from gateway.model.observations import Counting
from tests.cluster.watching import ClusterWatch, watched
from tests.components.cluster import ClusterNode, PrivateCluster

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.long, pytest.mark.prove]


async def publish(node: ClusterNode, queue: str, messages: int) -> None:
    async with await aio_pika.connect(node.amqp_url()) as connection, connection.channel() as channel:
        for _ in range(messages):
            await channel.default_exchange.publish(aio_pika.Message(b"order"), queue)


def discontinuities(watch: ClusterWatch, queue: str, since: int) -> list[Counting]:
    """Return how the counters of a queue went on, where they did not just go on."""
    named = (one for one in watch.records if isinstance(one, ObjectRecord) and one.leaf_name == queue)
    rows = {(one.class_number, one.row) for one in named}
    updates = (one for one in watch.records[since:] if isinstance(one, UpdateRecord))
    countings = [one.counting for one in updates if (one.class_number, one.row) in rows]
    return [one for one in countings if one is not Counting.GO_ON]


def killed(node: ClusterNode) -> None:
    node.kill()


def restarted_within(node: ClusterNode) -> None:
    node.rabbitmqctl("stop_app")


@pytest.mark.each_rabbitmq
@pytest.mark.parametrize("end", [killed, restarted_within])
async def test_a_part_of_a_sum_is_missing(
    cluster: PrivateCluster, tmp_path: Path, end: Callable[[ClusterNode], None]
) -> None:
    other, counted, _ = cluster.nodes
    queue = f"counted-{secrets.token_hex(4)}"
    with other.http() as http:
        http.put(f"queues/%2F/{queue}", json={"durable": True}).raise_for_status()
    await publish(counted, queue, 100)
    await publish(other, queue, 80)
    async with watched(cluster, tmp_path) as watch:

        def has(messages: int) -> bool:
            return bool(watch.shown("queue")[queue].get("messagesPublished") == messages)

        await watch.until(lambda: has(180), "the sum is read")
        mark = len(watch.records)
        await asyncio.to_thread(end, counted)
        await watch.until(lambda: has(80), "the rest is read")
        await watch.until(lambda: discontinuities(watch, queue, mark), "there is a discontinuity")
        if counted.node_process() is not None:
            await asyncio.to_thread(counted.rabbitmqctl, "start_app")
        else:
            await asyncio.to_thread(cluster.restore)
        await watch.until(lambda: watch.is_whole, "all nodes are read")
        assert set(discontinuities(watch, queue, mark)) == {Counting.UNKNOWN}
    with other.http() as http:
        http.delete(f"queues/%2F/{queue}").raise_for_status()
