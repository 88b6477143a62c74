"""A cluster in trouble: the gateway continues, agrees with the broker's tools, and keeps identities."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.links.amqp_connection import AmqpEndpoint, LinkError, close_soon, open_connection
from gateway.links.durable_queue import DurableQueue, Loss
from gateway.model.observations import SourceState
from tests.cluster.conftest import ORDERS
from tests.cluster.truth import agrees, nodes_of, replicas_of, shown
from tests.cluster.watching import ClusterWatch, watched
from tests.components.cluster import ClusterNode, PrivateCluster
from tests.hypothesis_profiles import PROVING

# One release, so that one cluster is started; all of them where everything is to be proved.
pytestmark = [
    pytest.mark.xdist_group("cluster"),
    pytest.mark.long,
    pytest.mark.each_rabbitmq(takes_long=True),
]

GOING_ON = {SourceState.SYNCHRONISED, SourceState.DEGRADED, SourceState.SYNCHRONISING} | (
    set() if PROVING else {SourceState.DOWN}
)
"""The permitted states: never down, unless other tests keep the machine busy.

A node that stops may refuse a listing while it sends no more events: until the next node has answered the
listing, no state is certain.
"""


@asynccontextmanager
async def unharmed(cluster: PrivateCluster, folder: Path) -> AsyncIterator[ClusterWatch]:
    """Provide a watched cluster for a block of trouble; check that the source continues and nothing is gone.

    After the block the cluster is restored, and the gateway recovers by itself.
    """
    async with watched(cluster, folder) as watch:
        identities, mark = watch.identities, len(watch.records)
        yield watch
        await asyncio.to_thread(cluster.restore)
        await agrees(watch, cluster.nodes[-1])
        await watch.until(lambda: watch.is_whole, "events arrive again")
        await watch.until(lambda: not watch.alarms, "no alarm is left")
        assert watch.states(mark) <= GOING_ON
        assert watch.ended(mark) == []
        assert watch.identities == identities


def is_running(watch: ClusterWatch, node: ClusterNode) -> bool | None:
    shown = watch.shown("node").get(node.node_name, {})
    running: bool | None = shown.get("running")
    return running


def is_stopped(watch: ClusterWatch, node: ClusterNode) -> bool:
    return is_running(watch, node) is False


async def aside(function: Callable[[], object]) -> None:
    await asyncio.to_thread(function)


def leader_of(watch: ClusterWatch, queue: str) -> str | None:
    node = watch.shown("queue").get(queue, {}).get("node")
    return node.stable_name if node is not None else None


@asynccontextmanager
async def stream_led_by(node: ClusterNode) -> AsyncIterator[str]:
    """Provide a stream with a replica on each node, led by ``node``."""
    name, arguments = "ledger", {"x-queue-type": "stream", "x-queue-leader-locator": "client-local"}
    with node.http() as client:
        client.put(f"queues/%2F/{name}", json={"durable": True, "arguments": arguments}).raise_for_status()
    yield name
    with node.http() as client:
        client.delete(f"queues/%2F/{name}").raise_for_status()


async def test_the_node_that_is_asked_and_leads_a_stream_is_killed(
    cluster: PrivateCluster, tmp_path: Path
) -> None:
    """The other nodes elect a leader of the stream within seconds: no alarm is raised for that time."""
    asked, other, _ = cluster.nodes
    async with stream_led_by(asked) as stream, unharmed(cluster, tmp_path) as watch:
        await watch.until(lambda: leader_of(watch, stream) == asked.node_name, "its leader is known")
        mark = len(watch.records)
        await aside(asked.kill)
        await watch.until(lambda: "nodeDown" in watch.alarms, "the node is down")
        await watch.until(lambda: watch.is_whole, "events arrive from another node")
        assert is_running(watch, asked) is False
        assert is_running(watch, other) is True
        await watch.until(lambda: leader_of(watch, stream) in cluster.names[1:], "another leads the stream")
        await watch.until(
            lambda: watch.shown("queue")[stream].get("state") == "running", "it is in use again"
        )
        await agrees(watch, other)
        await watch.until(lambda: {"nodeDown", "queueDown"} <= watch.alarms, "its queues are down")
        assert watch.raised(mark, stream) == []


@pytest.mark.each_rabbitmq(until="3.10")
@pytest.mark.prove  # tests/links/test_durable_queue.py has the refusal and the loss of each release
async def test_the_node_with_the_queue_of_a_durable_subscription_is_killed(cluster: PrivateCluster) -> None:
    """Another node reports it; messages that are published meanwhile are missing when the queue is back."""
    holder, other, _ = cluster.nodes
    user = holder.administrator
    endpoint = AmqpEndpoint(f"amqp://127.0.0.1:{other.ports.amqp}", "/", user.name, SecretStr(user.password))
    queue = DurableQueue(1000, 900, name=holder.node_name, expires=0)
    await aside(holder.kill)
    connection = await open_connection(endpoint, "test")
    try:
        with pytest.raises(LinkError, match="waits for the node that has its queue"):
            await queue.waiting(await connection.channel())
        await aside(cluster.restore)
        assert queue.loss(await queue.waiting(await connection.channel())) is Loss.DOWN
    finally:
        await close_soon(connection)


@pytest.mark.prove
async def test_two_of_three_are_killed(cluster: PrivateCluster, tmp_path: Path) -> None:
    """The last node still answers, because its partition handling does not pause it."""
    async with unharmed(cluster, tmp_path) as watch:
        first, second, last = cluster.nodes
        await aside(first.kill)
        await aside(second.kill)
        await watch.until(lambda: "queueMinority" in watch.alarms, "the quorum is lost")
        await watch.until(lambda: "2 of 3 nodes do not run" in watch.source.detail, "changes may wait")
        nodes = await asyncio.to_thread(nodes_of, last)
        await watch.until(lambda: shown(watch)[0] == nodes, "the nodes are as the last one sees them")
        assert await asyncio.to_thread(replicas_of, last, ORDERS) == [last.node_name]

        def alone() -> bool:
            orders = shown(watch)[1][ORDERS]
            return (orders["state"], orders["online"]) == ("minority", [last.node_name])

        await watch.until(alone, "the queue has one replica left")
        await watch.until(
            lambda: {"nodeDown", "queueDown", "queueMinority"} <= watch.alarms, "each trouble is an alarm"
        )
        (text,) = watch.texts("queueMinority")
        assert text.endswith(
            f'{ORDERS} of virtual host / lacks the majority of its replicas: online are ["{last.node_name}"]'
        )


@pytest.mark.prove  # another leader is shown where the node of the first one is killed, too
async def test_leaders_move(cluster: PrivateCluster, tmp_path: Path) -> None:
    async with unharmed(cluster, tmp_path) as watch:
        await watch.until(lambda: leader_of(watch, ORDERS), "the leader is known")
        leader = leader_of(watch, ORDERS)
        target = next(name for name in cluster.names if name != leader)
        lookup = f'{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{ORDERS}">>))'
        move = f"{lookup}, rabbit_quorum_queue:transfer_leadership(Q, '{target}')."
        await aside(lambda: cluster.nodes[0].evaluate(move))
        await watch.until(lambda: leader_of(watch, ORDERS) == target, "the new leader is shown")
        await agrees(watch, cluster.nodes[0])


async def test_the_network_is_cut_between_the_node_that_is_asked_and_the_others(
    cluster: PrivateCluster, tmp_path: Path
) -> None:
    """A node in the minority pauses, and closes its listeners, until it sees the others again."""
    async with unharmed(cluster, tmp_path) as watch:
        lonely, other, _ = cluster.nodes
        with cluster.partition_handling("pause_minority"):
            await aside(lambda: cluster.cut_off(lonely))
            await watch.until(lambda: "nodeDown" in watch.alarms, "the node is down, as the others see it")
            await watch.until(lambda: watch.is_whole, "events arrive from another node")
            await agrees(watch, other)
            await aside(lambda: cluster.reconnect(lonely))
            await watch.until(lambda: is_running(watch, lonely), "the node goes on by itself")


@pytest.mark.prove
async def test_the_node_that_is_asked_is_drained(cluster: PrivateCluster, tmp_path: Path) -> None:
    async with unharmed(cluster, tmp_path) as watch:
        asked, other, _ = cluster.nodes
        await aside(lambda: asked.run_tool("rabbitmq-upgrade", "drain"))
        await watch.until(lambda: not watch.is_whole, "the node closed the connection that brought events")
        await watch.until(lambda: watch.is_whole, "events arrive from another node")
        await agrees(watch, other)
        assert is_running(watch, asked) is True
        await aside(lambda: asked.run_tool("rabbitmq-upgrade", "revive"))


@pytest.mark.prove  # a node goes and comes back above: killed, and cut off, which closes its listeners, too
async def test_nodes_are_restarted_one_after_the_other(cluster: PrivateCluster, tmp_path: Path) -> None:
    """As in a rolling upgrade, each node is drained, stopped and started before the next one."""
    async with unharmed(cluster, tmp_path) as watch:
        for node in cluster.nodes:
            await aside(partial(node.run_tool, "rabbitmq-upgrade", "drain"))
            await aside(node.stop_node)
            await watch.until(partial(is_stopped, watch, node), "the node is down")
            await aside(cluster.restore)
            await watch.until(partial(is_running, watch, node), "the node runs")
