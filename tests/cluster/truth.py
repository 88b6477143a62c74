"""The reports of RabbitMQ's own command line tools on a cluster, in the form that the gateway shows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from gateway.feed.values import ObjectLink
from tests.cluster.watching import ClusterWatch, Shown
from tests.components.cluster import ClusterNode
from tests.components.waiting import eventually

_QUEUE_COLUMNS = ("name", "type", "leader", "members", "online", "state")
_REPLICAS = ("members", "online")


def truth(node: ClusterNode) -> tuple[Shown, Shown]:
    """Return the nodes and queues that a running node reports."""
    queues = node.json("rabbitmqctl", "list_queues", *_QUEUE_COLUMNS)
    return (
        nodes_of(node),
        {queue["name"]: _queue(queue) for queue in queues if not queue["name"].startswith("amqp-gateway.")},
    )


def nodes_of(node: ClusterNode) -> Shown:
    """Return the nodes that a running node reports."""
    status = node.json("rabbitmqctl", "cluster_status")
    return {name: _node(name, status) for name in status["disk_nodes"]}


def replicas_of(node: ClusterNode, queue: str) -> list[str]:
    """Return the nodes on which a quorum queue of ``/`` has a replica that answers."""
    replicas = node.json("rabbitmq-queues", "quorum_status", queue)
    # The latter from 4.3 on.
    apart = ("nodedown", "noconnection")
    return sorted(
        each["Node Name"] for each in replicas if not any(word in str(each["Raft State"]) for word in apart)
    )


def _node(name: str, status: dict[str, Any]) -> dict[str, Any]:
    if name not in status["running_nodes"]:
        return {"running": False}
    reported: dict[str, Any] = {"running": True, "partitions": sorted(status["partitions"].get(name, ()))}
    # The management API of 3.10 does not report it.
    if not status["versions"][name]["rabbitmq_version"].startswith("3.10."):
        reported["beingDrained"] = "not under" not in status["maintenance_status"][name]
    return reported


def _queue(queue: dict[str, Any]) -> dict[str, Any]:
    kind = queue["type"].removeprefix("rabbit_").removesuffix("_queue")
    reported = {"type": kind, "state": queue["state"]}
    if kind in {"quorum", "stream"}:
        reported |= {"node": queue["leader"], **{name: sorted(queue[name]) for name in _REPLICAS}}
    else:
        reported |= {"node": queue["name"]}  # the one it was declared on
    return reported


def shown(watch: ClusterWatch) -> tuple[Shown, Shown]:
    """Return nodes and queues as the gateway publishes them, without additional values.

    For a node that is down, that is whether it was drained before, which 4.0 remembers.
    """
    nodes = {
        name: _plain(
            values, ("running", "partitions", "beingDrained") if values.get("running") else ("running",)
        )
        for name, values in watch.shown("node").items()
    }
    queues = {
        name: _plain(values, ("type", "node", "state", *_REPLICAS))
        for name, values in watch.shown("queue").items()
    }
    return nodes, queues


def _plain(values: dict[str, Any], elements: Iterable[str]) -> dict[str, Any]:
    found = {element: values[element] for element in elements if element in values}
    return {element: _comparable(value) for element, value in found.items()}


def _comparable(value: object) -> object:
    if isinstance(value, ObjectLink):
        return value.stable_name
    return sorted(value) if isinstance(value, tuple) else value


def _is_down(queue: dict[str, Any]) -> bool:
    return queue.get("type") == "classic" and queue.get("state") == "down"


async def agrees(watch: ClusterWatch, node: ClusterNode) -> None:
    """Wait until the gateway publishes exactly what the tools report at a running ``node``.

    For a classic queue whose node is down, ``rabbitmqctl`` of 4.0 reports nothing.
    """
    compared: list[object] = []

    async def same() -> bool:
        reported = await asyncio.to_thread(truth, node)
        nodes, queues = shown(watch)
        known = {
            name: values for name, values in queues.items() if name in reported[1] or not _is_down(values)
        }
        compared[:] = reported, (nodes, known)
        return compared[0] == compared[1]

    try:
        await eventually(same, "the gateway publishes what rabbitmqctl says")
    except AssertionError as error:
        raise AssertionError(f"rabbitmqctl says {compared[0]}, the gateway {compared[1]}") from error
