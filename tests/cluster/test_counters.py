"""Counters of a cluster are sums over its nodes: without one, what they gained is not known."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import pytest

from gateway.feed.records import ObjectRecord, UpdateRecord
from gateway.model.observations import Counting
from tests.cluster.watching import ClusterWatch, watched
from tests.components.cluster import ClusterNode, PrivateCluster
from tests.components.waiting import eventually

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.long, pytest.mark.prove]


EXCHANGE = "amq.direct"


@asynccontextmanager
async def published(node: ClusterNode, queue: str, messages: int) -> AsyncIterator[None]:
    """Publish messages by a channel that lives in the block: the broker may lose the last counts of one."""
    async with await aio_pika.connect(node.amqp_url()) as connection, connection.channel() as channel:
        exchange = await channel.get_exchange(EXCHANGE)
        for _ in range(messages):
            await exchange.publish(aio_pika.Message(b"order"), queue)
        yield


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


def broker_counts(node: ClusterNode, queue: str) -> dict[str, int]:
    """Return the messages published, as the broker has it now, by class."""
    with node.http() as http:
        stats = {
            "queue": http.get(f"queues/%2F/{queue}").json().get("message_stats", {}),
            "exchange": http.get(f"exchanges/%2F/{EXCHANGE}").json().get("message_stats", {}),
            "vhost": http.get("vhosts/%2F").json().get("message_stats", {}),
        }
    return {
        name: one.get("publish_in" if name == "exchange" else "publish", 0) for name, one in stats.items()
    }


def logged(watch: ClusterWatch, queue: str) -> dict[str, tuple[Any, int]]:
    """Return the last recorded number of messages published and the sum of its deltas, by class."""
    return {
        "queue": watch.gained("queue", f"/|{queue}", "messagesPublished"),
        "exchange": watch.gained("exchange", f"/|{EXCHANGE}", "messagesPublishedIn"),
        "vhost": watch.gained("vhost", "/", "messagesPublished"),
    }


@pytest.mark.each_rabbitmq
@pytest.mark.parametrize("end", [killed, restarted_within])
async def test_a_part_of_a_sum_is_missing(
    cluster: PrivateCluster, tmp_path: Path, end: Callable[[ClusterNode], None]
) -> None:
    """Nothing of it is counted twice: the log's deltas are no more than what was published meanwhile."""
    other, counted, _ = cluster.nodes
    queue = f"counted-{secrets.token_hex(4)}"
    with other.http() as http:
        http.put(f"queues/%2F/{queue}", json={"durable": True}).raise_for_status()
        http.post(f"bindings/%2F/e/{EXCHANGE}/q/{queue}", json={"routing_key": queue}).raise_for_status()
    async with watched(cluster, tmp_path) as watch:

        async def has(messages: int) -> None:
            """Wait until the queue has so many, and the log what the broker says of all."""

            async def is_logged() -> bool:
                counts = await asyncio.to_thread(broker_counts, other, queue)
                recorded = {name: value for name, (value, _) in logged(watch, queue).items()}
                return counts["queue"] == messages and recorded == counts

            await eventually(is_logged, f"{messages} are recorded")

        async with published(counted, queue, 100), published(other, queue, 80):
            await has(180)
        mark = len(watch.records)
        await asyncio.to_thread(end, counted)
        await has(80)
        await watch.until(lambda: discontinuities(watch, queue, mark), "there is a discontinuity")
        if counted.node_process() is not None:
            await asyncio.to_thread(counted.rabbitmqctl, "start_app")
        else:
            await asyncio.to_thread(cluster.restore)
        await watch.until(lambda: watch.is_whole, "all nodes are read")
        async with published(counted, queue, 30):
            await has(110)
        assert set(discontinuities(watch, queue, mark)) == {Counting.UNKNOWN}
        sums = {name: sum_ for name, (_, sum_) in logged(watch, queue).items()}
        assert max(sums.values()) <= 100 + 80 + 30, sums
        assert min(sums.values()) >= 0, sums
    with other.http() as http:
        http.delete(f"queues/%2F/{queue}").raise_for_status()
