"""The methods of the mapping's classes: the requests that each sends to the broker, in their order.

Nothing here does I/O, or decides whether a call is permitted: `gateway.sources.rabbitmq.method_calls` runs
these methods. The mapping describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gateway.dialects.qmf.messages import Status
from gateway.mapping.paths import Json
from gateway.model.times import MILLISECOND
from gateway.sources.rabbitmq.management_changes import Change, Lookup, Purge, path_of
from gateway.sources.rabbitmq.method_steps import (
    CallFailedError,
    Invocation,
    Method,
    Pause,
    Result,
    ResultSteps,
    Steps,
    json_of,
    unmasked,
)

LOOK_AGAIN: Final = 250_000_000
"""Nanoseconds until a connection is looked up again that the broker does not list yet."""
NO_LIMIT: Final = -1
_COUNT_UNKNOWN: Final = -1
"""Stands for an unknown number of purged messages: AM2 has no absent output, and 0 means an empty queue."""
_POLICY_FIELDS: Final = ("pattern", "definition", "priority", "apply-to")
"""All fields of a policy; RabbitMQ sets those to their defaults that a request leaves out."""
_POLICY_SUBJECTS: Final = ("queue", "exchange")
"""Classes whose objects name the policy that applies to them."""
_NOT_SHOWN_EMPTY: Final = (
    "it is not shown empty yet: RabbitMQ renews its numbers every few seconds, or it was filled again"
)


def _delete(collection: str, **flags: str) -> Callable[[Invocation], Steps]:
    """Delete an object; ``flags`` are the API's names of conditions, by the arguments that request them."""

    def steps(call: Invocation) -> Steps:
        asked = [f"{name}=true" for argument, name in flags.items() if call.flag(argument)]
        query = f"?{'&'.join(asked)}" if asked else ""
        yield Change("DELETE", path_of(collection, *call.target.parts) + query)

    return steps


def _delete_binding(call: Invocation) -> Steps:
    host, source, kind, destination, key = call.target.parts
    yield Change("DELETE", path_of("bindings", host, "e", source, kind[:1], destination, key))


def _delete_exchange(call: Invocation) -> Steps:
    if not call.target.leaf:
        raise CallFailedError(Status.EXCEPTION, "the default exchange cannot be deleted")
    yield from _delete("exchanges", ifUnused="if-unused")(call)


def _close_connection(call: Invocation) -> Steps:
    """Close a connection as soon as the broker lists it, which takes up to 5 s after it was opened."""
    reason = call.text("reason")
    if not all(character.isprintable() for character in reason):
        raise CallFailedError(
            Status.INVALID_PARAMETER, "reason: one line of text, without control characters"
        )
    target = path_of("connections", *call.target.parts)
    while True:
        listed = yield Lookup(f"{target}?columns=name,connected_at", as_writer=True)
        if isinstance(listed, Mapping):
            break
        yield Pause(LOOK_AGAIN)
    opened = listed.get("connected_at")
    if call.created and isinstance(opened, int) and opened * MILLISECOND != call.created:
        # The broker names connections by addresses and ports, which another connection may have by now.
        raise CallFailedError(Status.UNKNOWN_OBJECT, "the connection has ended; another has its name by now")
    yield Change("DELETE", target, reason=reason)


def _rebalance_queues(_call: Invocation) -> Steps:
    """Rebalance the whole cluster, whichever node is given; RabbitMQ answers before it has begun."""
    yield Change("POST", "rebalance/queues")


def _parameter_path(call: Invocation) -> str:
    host, component, name = call.target.parts
    return path_of("parameters", component, host, name)


def _set_parameter(call: Invocation) -> Steps:
    found = yield Lookup(_parameter_path(call), as_writer=True)
    if not isinstance(found, Mapping):
        raise CallFailedError(Status.UNKNOWN_OBJECT, "there is no such parameter")
    value = unmasked(json_of(call.arguments.get("value", {})), found.get("value"))
    yield Change("PUT", _parameter_path(call), {"value": value})


def _delete_parameter(call: Invocation) -> Steps:
    yield Change("DELETE", _parameter_path(call))


def _set_policy(field: str, value_of: Callable[[Invocation], Json]) -> Method:
    def steps(call: Invocation) -> Steps:
        changed = {field: value_of(call)}
        target = path_of("policies", *call.target.parts)
        found = yield Lookup(target, as_writer=True)
        if not isinstance(found, Mapping):
            raise CallFailedError(Status.UNKNOWN_OBJECT, "there is no such policy")
        kept = {key: found[key] for key in _POLICY_FIELDS if key in found}
        yield Change("PUT", target, {**kept, **changed})

    return Method(steps, lists=_POLICY_SUBJECTS)


def _purge(call: Invocation) -> ResultSteps:
    count = yield Purge(*call.target.parts)
    if not isinstance(count, int):
        text = "OK; the management API does not say how many messages were purged"
        return Result(text, (_COUNT_UNKNOWN,), confirmed=False)
    messages = "1 message" if count == 1 else f"{count:,} messages"
    text = f"{messages} purged; the statistics show it when the broker renews them, in some seconds"
    return Result(text, (count,), confirmed=True)


def _is_empty(document: Mapping[str, Json]) -> bool:
    """Return whether the statistics show the purge; they are seconds late, and sometimes absent."""
    return document.get("messages_ready") == 0


def _act_on_mirrors(action: str) -> Method:
    """Return a method that requests an action on mirrored queues, for a mirrored queue only.

    RabbitMQ 3.10.8 also answers "done" for a queue without mirrors, answers 500 for a quorum queue, and never
    answers for a stream.
    """

    def steps(call: Invocation) -> Steps:
        target = path_of("queues", *call.target.parts)
        shown = yield Lookup(f"{target}?columns=type,slave_nodes", as_writer=True)
        if not isinstance(shown, Mapping):
            raise CallFailedError(Status.UNKNOWN_OBJECT, "there is no such queue")
        if shown.get("type") != "classic" or not isinstance(shown.get("slave_nodes"), list):
            raise CallFailedError(
                Status.EXCEPTION,
                "the queue is not mirrored: only a classic queue with a policy that mirrors it can be"
                " synchronised, and RabbitMQ has none of these since 4.0",
            )
        yield Change("POST", f"{target}/actions", {"action": action})

    return Method(steps)


def _set_limit(collection: str, limit: str, argument: str, lockout: str = "") -> Method:
    """Return a method that sets a limit of a virtual host or user.

    Args:
        collection: the collection in the API.
        limit: the name of the limit in the API.
        argument: the argument of the method.
        lockout: the effect of a limit of 0, which is refused unless the configuration allows it for this
            name; empty if 0 is allowed.
    """

    def steps(call: Invocation) -> Steps:
        value, name = call.number(argument), call.target.leaf
        if value == 0 and lockout and name not in call.lockout:
            raise CallFailedError(
                Status.FORBIDDEN,
                f"{lockout.format(repr(name))}: if that is meant, name it under 'allow_lockout' in the"
                " source's 'writing'",
            )
        target = path_of(collection, name, limit)
        if value == NO_LIMIT:
            yield Change("DELETE", target)
        else:
            yield Change("PUT", target, {"value": value})

    return Method(steps)


_USER_SHUT_OUT: Final = "0 keeps user {} out of the broker"
_HOST_SHUT: Final = "0 locks everybody out of virtual host {}, the gateway's agent too"


def _set_virtual_host(field: str, value_of: Callable[[Invocation], Json]) -> Method:
    """Set all fields of a virtual host: RabbitMQ clears those that a request leaves out."""

    def steps(call: Invocation) -> Steps:
        value = value_of(call)
        target = path_of("vhosts", call.target.leaf)
        found = yield Lookup(target, as_writer=True)
        if not isinstance(found, Mapping):
            raise CallFailedError(Status.UNKNOWN_OBJECT, "there is no such virtual host")
        kept = {key: found[key] for key in ("description", "tags", "tracing") if key in found}
        queue_type = found.get("default_queue_type")
        if isinstance(queue_type, str) and queue_type != "undefined":
            kept["default_queue_type"] = queue_type
        yield Change("PUT", target, {**kept, field: unmasked(value, found.get(field))})

    return Method(steps)


def _tags(call: Invocation) -> Json:
    tags = call.arguments.get("tags", ())
    listed: list[Json] = []
    for tag in tags if isinstance(tags, tuple) else ():
        if not isinstance(tag, str) or not tag.strip() or "," in tag:
            raise CallFailedError(Status.INVALID_PARAMETER, "tags: a list of texts, without commas")
        listed.append(tag.strip())
    return listed


def _start_virtual_host(call: Invocation) -> Steps:
    yield Change("POST", path_of("vhosts", call.target.leaf, "start", call.text("node")))


METHODS: Final[Mapping[str, Mapping[str, Method]]] = {
    "binding": {"delete": Method(_delete_binding, ends=True)},
    "connection": {"close": Method(_close_connection, ends=True)},
    "exchange": {"delete": Method(_delete_exchange, ends=True)},
    "node": {"rebalanceQueues": Method(_rebalance_queues, lists=("queue",))},
    "parameter": {"setValue": Method(_set_parameter), "delete": Method(_delete_parameter, ends=True)},
    "policy": {
        "setPattern": _set_policy("pattern", lambda call: call.text("pattern")),
        "setAppliesTo": _set_policy("apply-to", lambda call: call.text("appliesTo")),
        "setPriority": _set_policy("priority", lambda call: call.number("priority")),
        "setDefinition": _set_policy(
            "definition", lambda call: json_of(call.arguments.get("definition", {}))
        ),
        "delete": Method(_delete("policies"), ends=True, lists=_POLICY_SUBJECTS),
    },
    "queue": {
        "purge": Method(_purge, settled=_is_empty, unsettled=_NOT_SHOWN_EMPTY),
        "delete": Method(_delete("queues", ifEmpty="if-empty", ifUnused="if-unused"), ends=True),
        "sync": _act_on_mirrors("sync"),
        "cancelSync": _act_on_mirrors("cancel_sync"),
    },
    "user": {
        "setMaxConnections": _set_limit("user-limits", "max-connections", "maxConnections", _USER_SHUT_OUT),
        "setMaxChannels": _set_limit("user-limits", "max-channels", "maxChannels", _USER_SHUT_OUT),
    },
    "vhost": {
        "setMaxConnections": _set_limit("vhost-limits", "max-connections", "maxConnections", _HOST_SHUT),
        "setMaxQueues": _set_limit("vhost-limits", "max-queues", "maxQueues"),
        "setDescription": _set_virtual_host("description", lambda call: call.text("description")),
        "setTags": _set_virtual_host("tags", _tags),
        "setTracing": _set_virtual_host("tracing", lambda call: call.flag("tracing")),
        "start": Method(_start_virtual_host, lists=("queue",)),
    },
}
"""Every method that a source can carry out, by class and name."""
