"""Exchanges, routing keys and bindings of QMF (QMF AM2 protocol; keys as qpidd since Apache Qpid M4)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from gateway.model.schema import ClassKey

MANAGEMENT_EXCHANGE: Final = "qpid.management"
DIRECT_EXCHANGE: Final = "amq.direct"
CONTENT_TYPE: Final = "x-application/qmf"
"""The content type of real consoles' requests; agents set none."""

BROKER_KEY: Final = "broker"
PACKAGE_KEY: Final = "schema.package"
BROKER_AGENT: Final = "1.0"
"""The management broker's own agent: broker bank 1, agent bank 0."""

_AGENT_IN_KEY: Final = re.compile(r"console\.(?:obj|event|heartbeat)\.(\d{1,7}\.\d{1,9})(?:\.|$)", re.ASCII)


def agent_key(agent: str) -> str:
    """Return the routing key of requests to an agent."""
    return f"agent.{agent}"


def object_key(agent: str, key: ClassKey) -> str:
    """Return the routing key of c and i records."""
    return f"console.obj.{agent}.{key.package}.{key.name}"


def event_key(agent: str, key: ClassKey) -> str:
    """Return the routing key of e records."""
    return f"console.event.{agent}.{key.package}.{key.name}"


def heartbeat_key(agent: str) -> str:
    """Return the routing key of h records."""
    return f"console.heartbeat.{agent}"


@lru_cache(maxsize=4096)
def agent_of_key(routing_key: str) -> str:
    """Return the agent that published under ``routing_key``; the broker's own where the key names none."""
    match = _AGENT_IN_KEY.match(routing_key)
    return match.group(1) if match else BROKER_AGENT
