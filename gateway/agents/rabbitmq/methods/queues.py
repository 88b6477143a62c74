"""Methods of queues.

Not among them: synchronising the mirrors of a classic queue, and ending that. Mirrored queues are on
their way out of RabbitMQ, and what they need is told to `rabbitmqctl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.agents.rabbitmq.management_changes import Change, path_of
from gateway.agents.rabbitmq.methods.steps import Invocation, Method, Steps
from gateway.mapping.paths import Json


def conditions(call: Invocation, **flags: str) -> str:
    """The query of a deletion with conditions: the API's names of those flags that are set."""
    asked = [f"{name}=true" for argument, name in flags.items() if call.flag(argument)]
    return f"?{'&'.join(asked)}" if asked else ""


def _purge(call: Invocation) -> Steps:
    yield Change("DELETE", f"{path_of('queues', *call.target.parts)}/contents")


def _delete(call: Invocation) -> Steps:
    query = conditions(call, ifEmpty="if-empty", ifUnused="if-unused")
    yield Change("DELETE", path_of("queues", *call.target.parts) + query)


def _is_empty(document: Mapping[str, Json]) -> bool:
    """Whether the statistics, which come seconds late, know of the purge."""
    return not document.get("messages_ready")


METHODS: Final = {"purge": Method(_purge, settled=_is_empty), "delete": Method(_delete, ends=True)}
