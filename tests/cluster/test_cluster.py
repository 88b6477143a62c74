"""A cluster in trouble: the gateway goes on, reports what the broker's tools report, and keeps identities."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.model.observations import SourceState
from tests.cluster.conftest import ORDERS
from tests.cluster.truth import agrees
from tests.cluster.watching import ClusterWatch, watched
from tests.components.cluster import ClusterNode, PrivateCluster

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.long]

GOING_ON = {SourceState.SYNCHRONISED, SourceState.DEGRADED}


@asynccontextmanager
async def unharmed(cluster: PrivateCluster, folder: Path) -> AsyncIterator[ClusterWatch]:
    """A watched cluster, that is in trouble within the block: the source goes on, and nothing is gone.

    After the block everything is right again, by itself.
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


async def aside(function: Callable[[], object]) -> None:
    await asyncio.to_thread(function)


async def test_the_node_that_is_asked_is_killed(cluster: PrivateCluster, tmp_path: Path) -> None:
    async with unharmed(cluster, tmp_path) as watch:
        asked, other, _ = cluster.nodes
        await aside(asked.kill)
        await watch.until(lambda: "nodeDown" in watch.alarms, "the node is down")
        await watch.until(lambda: watch.is_whole, "events arrive from another node")
        assert is_running(watch, asked) is False
        assert is_running(watch, other) is True
        await agrees(watch, other)
        assert {"nodeDown", "queueDown"} <= watch.alarms


async def test_the_node_that_is_asked_is_drained(cluster: PrivateCluster, tmp_path: Path) -> None:
    async with unharmed(cluster, tmp_path) as watch:
        asked, other, _ = cluster.nodes
        await aside(lambda: asked.run_tool("rabbitmq-upgrade", "drain"))
        await watch.until(lambda: not watch.is_whole, "the node closed the connection that brought events")
        await watch.until(lambda: watch.is_whole, "events arrive from another node")
        await agrees(watch, other)
        assert is_running(watch, asked) is True
        await aside(lambda: asked.run_tool("rabbitmq-upgrade", "revive"))


async def test_leaders_move(cluster: PrivateCluster, tmp_path: Path) -> None:
    async with unharmed(cluster, tmp_path) as watch:
        leader = watch.shown("queue")[ORDERS]["node"].stable_name
        target = next(name for name in cluster.names if name != leader)
        lookup = f'{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{ORDERS}">>))'
        move = f"{lookup}, rabbit_quorum_queue:transfer_leadership(Q, '{target}')."
        await aside(lambda: cluster.nodes[0].evaluate(move))
        await watch.until(
            lambda: watch.shown("queue")[ORDERS].get("node", leader) != leader, "the leader is another"
        )
        await agrees(watch, cluster.nodes[0])
