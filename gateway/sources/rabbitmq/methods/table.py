"""Every method that the agent can carry out, by class and name. The mapping says how each is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.sources.rabbitmq.methods import (
    bindings,
    connections,
    exchanges,
    nodes,
    parameters,
    policies,
    queues,
    users,
    vhosts,
)
from gateway.sources.rabbitmq.methods.steps import Method

METHODS: Final[Mapping[str, Mapping[str, Method]]] = {
    "binding": bindings.METHODS,
    "connection": connections.METHODS,
    "exchange": exchanges.METHODS,
    "node": nodes.METHODS,
    "parameter": parameters.METHODS,
    "policy": policies.METHODS,
    "queue": queues.METHODS,
    "user": users.METHODS,
    "vhost": vhosts.METHODS,
}
