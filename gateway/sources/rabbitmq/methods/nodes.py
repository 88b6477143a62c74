"""Methods of nodes, and of the cluster that they form."""

from __future__ import annotations

from typing import Final

from gateway.sources.rabbitmq.management_changes import Change
from gateway.sources.rabbitmq.methods.steps import Invocation, Method, Steps


def _rebalance_queues(_call: Invocation) -> Steps:
    """The whole cluster's, whichever node it is called on; RabbitMQ answers before it has begun."""
    yield Change("POST", "rebalance/queues")


METHODS: Final = {"rebalanceQueues": Method(_rebalance_queues, lists=("queue",))}
