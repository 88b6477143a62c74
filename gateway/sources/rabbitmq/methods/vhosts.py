"""Methods of virtual hosts: one for each property that can be set, because AM2 sets nothing by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.qmf.messages import Status
from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.management_changes import Change, Lookup, path_of
from gateway.sources.rabbitmq.methods.json_values import unmasked
from gateway.sources.rabbitmq.methods.steps import (
    CallFailedError,
    Invocation,
    Method,
    Steps,
    refuse_lockout,
)

NO_LIMIT: Final = -1


def _set_limit(call: Invocation, limit: str, value: int) -> Steps:
    target = path_of("vhost-limits", call.target.leaf, limit)
    if value == NO_LIMIT:
        yield Change("DELETE", target)
    else:
        yield Change("PUT", target, {"value": value})


def _set_max_connections(call: Invocation) -> Steps:
    value = call.number("maxConnections")
    refuse_lockout(call, "virtual host", value)
    return _set_limit(call, "max-connections", value)


def _set_max_queues(call: Invocation) -> Steps:
    return _set_limit(call, "max-queues", call.number("maxQueues"))


def _set(call: Invocation, changed: Mapping[str, Json]) -> Steps:
    """Give a virtual host all that can be given: what such a request leaves out, RabbitMQ clears."""
    target = path_of("vhosts", call.target.leaf)
    found = yield Lookup(target, as_writer=True)
    if not isinstance(found, Mapping):
        raise CallFailedError(Status.UNKNOWN_OBJECT, "there is no such virtual host")
    kept = {key: found[key] for key in ("description", "tags", "tracing") if key in found}
    queue_type = found.get("default_queue_type")
    if isinstance(queue_type, str) and queue_type != "undefined":
        kept["default_queue_type"] = queue_type
    written = {key: unmasked(value, found.get(key)) for key, value in changed.items()}
    yield Change("PUT", target, {**kept, **written})


def _set_description(call: Invocation) -> Steps:
    return _set(call, {"description": call.text("description")})


def _set_tags(call: Invocation) -> Steps:
    tags = call.arguments.get("tags", ())
    listed: list[Json] = []
    for tag in tags if isinstance(tags, tuple) else ():
        if not isinstance(tag, str) or not tag.strip() or "," in tag:
            raise CallFailedError(Status.INVALID_PARAMETER, "tags: a list of texts, without commas")
        listed.append(tag.strip())
    return _set(call, {"tags": listed})


def _set_tracing(call: Invocation) -> Steps:
    return _set(call, {"tracing": call.flag("tracing")})


def _start(call: Invocation) -> Steps:
    yield Change("POST", path_of("vhosts", call.target.leaf, "start", call.text("node")))


METHODS: Final = {
    "setMaxConnections": Method(_set_max_connections),
    "setMaxQueues": Method(_set_max_queues),
    "setDescription": Method(_set_description),
    "setTags": Method(_set_tags),
    "setTracing": Method(_set_tracing),
    "start": Method(_start, lists=("queue",)),
}
