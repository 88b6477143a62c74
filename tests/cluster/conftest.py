"""One cluster for all tests of a worker; each test leaves it whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gateway.demo.broker import BrokerSettings
from tests.components.cluster import CLUSTER_SETTINGS, PrivateCluster

ORDERS = "orders"
"""The name of a quorum queue with a member on each node."""


@pytest.fixture(scope="package")
def three_nodes(rabbitmq_settings: BrokerSettings) -> Iterator[PrivateCluster]:
    """Provide three nodes with the quorum queue `ORDERS`.

    Each node has a durable, bound classic queue of its name.
    """
    with PrivateCluster(3, replace(CLUSTER_SETTINGS, debian=rabbitmq_settings.debian)) as cluster:
        with cluster.nodes[0].http() as client:
            quorum = {"durable": True, "arguments": {"x-queue-type": "quorum"}}
            client.put(f"queues/%2F/{ORDERS}", json=quorum).raise_for_status()
            for name in cluster.names:
                client.put(f"queues/%2F/{name}", json={"durable": True, "node": name}).raise_for_status()
                binding = f"bindings/%2F/e/amq.direct/q/{name}"
                client.post(binding, json={"routing_key": name}).raise_for_status()
        yield cluster


@pytest.fixture
def cluster(three_nodes: PrivateCluster) -> Iterator[PrivateCluster]:
    """Provide three nodes, all of them running and connected to each other before and after the test."""
    try:
        yield three_nodes
    finally:
        three_nodes.restore()
