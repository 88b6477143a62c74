"""The methods of the mapping's classes: the requests that each sends to the broker, in their order.

Nothing here does I/O, or decides whether a call is permitted: `gateway.sources.rabbitmq.method_calls` runs
these methods. The mapping describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Final

from gateway.dialects.qmf.statuses import Status
from gateway.mapping.paths import Json
from gateway.model.times import MILLISECOND
from gateway.sources.rabbitmq.change_proofs import (
    DEPTH_COLUMNS,
    WITH_CONTENTS,
    as_meant,
    evidence_of,
    is_set_by,
    nodes_of_connection,
    overwritten,
    own_path,
    present_depth,
)
from gateway.sources.rabbitmq.forwarders import forwarder_parts
from gateway.sources.rabbitmq.management_changes import Change, Lookup, Purge
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
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.object_places import place_of
from gateway.sources.rabbitmq.path_proof import path_of

LOOK_AGAIN: Final = 250_000_000
"""Nanoseconds until a connection is looked up again that the broker does not list yet."""
NO_LIMIT: Final = -1
_COUNT_UNKNOWN: Final = -1
"""Stands for an unknown number of purged messages: AM2 has no absent output, and 0 means an empty queue."""
_POLICY_FIELDS: Final = ("pattern", "definition", "priority", "apply-to")
"""All fields of a policy; RabbitMQ sets those to their defaults that a request leaves out."""
_HOST_FIELDS: Final = ("description", "tags", "tracing", "default_queue_type")
"""All fields of a virtual host that a request can have; RabbitMQ clears those that it leaves out."""
_UNSET: Final = "undefined"
"""RabbitMQ's value of a default queue type that was not set, which it does not take back."""
_EVENT_LOOKS: Final = 4
"""Maximum number of looks whether the event of a change has arrived."""
_READINGS: Final = 4
"""Maximum number of readings of an object until two in a row are equal."""
_POLICY_SUBJECTS: Final = ("queue", "exchange")
"""Classes whose objects name the policy that applies to them."""


def _delete(**flags: str) -> Callable[[Invocation], Steps]:
    """Delete an object; ``flags`` are the API's names of conditions, by the arguments that request them."""

    def steps(call: Invocation) -> Steps:
        yield from as_meant(call.target, columns=())
        if not call.user and call.target.class_name in WITH_CONTENTS:
            yield from evidence_of(call.target, call.evidence)
        asked = [f"{name}=true" for argument, name in flags.items() if call.flag(argument)]
        query = f"?{'&'.join(asked)}" if asked else ""
        yield Change("DELETE", own_path(call.target) + query)

    return steps


def _delete_exchange(call: Invocation) -> Steps:
    if not call.target.leaf:
        raise CallFailedError(Status.EXCEPTION, "the default exchange cannot be deleted")
    yield from _delete(ifUnused="if-unused")(call)


def _close_connection(call: Invocation) -> Steps:
    """Close a connection as soon as the broker lists it, which takes up to 5 s after it was opened."""
    reason = call.text("reason")
    if not all(character.isprintable() for character in reason):
        raise CallFailedError(
            Status.INVALID_PARAMETER, "reason: one line of text, without control characters"
        )
    while True:
        try:
            listed = yield from as_meant(call.target, columns=("connected_at",))
            break
        except CallFailedError as failure:
            if failure.status is not Status.UNKNOWN_OBJECT:
                raise
        yield Pause(LOOK_AGAIN)
    nodes = yield from nodes_of_connection(call.target.plain.leaf)
    if len(nodes) > 1:
        places = " and ".join(dict.fromkeys(nodes))
        text = (
            f"nothing was sent: {len(nodes)} connections have this name, on {places}, and the management API"
            " closes any of them"
        )
        raise CallFailedError(Status.EXCEPTION, text)
    opened = listed.get("connected_at")
    if call.created and isinstance(opened, int) and opened * MILLISECOND != call.created:
        # The broker names connections by addresses and ports, which another connection may have by now.
        raise CallFailedError(Status.UNKNOWN_OBJECT, "the connection has ended; another has its name by now")
    yield Change("DELETE", own_path(call.target), reason=reason)


def _rebalance_queues(_call: Invocation) -> Steps:
    """Rebalance the whole cluster, whichever node is given; RabbitMQ answers before it has begun."""
    yield Change("POST", "rebalance/queues")


def _written_back(
    call: Invocation,
    fields: tuple[str, ...],
    changes_of: Callable[[Mapping[str, Json]], Mapping[str, Json]],
) -> ResultSteps:
    """Write some fields of an object, and the others as they are: a request replaces all of them.

    RabbitMQ has no request that depends on what was there before. So the object is read twice, and written
    only if both readings are whole and equal, and read again afterwards. What another user sets between the
    second reading and the request is lost: the broker's events report it.

    Args:
        call: the call.
        fields: all fields that a request has.
        changes_of: returns those to change, by the present document.
    """
    earlier, target = None, call.target
    for _ in range(_READINGS):
        found = yield from as_meant(target, needed=fields)
        present = {key: found[key] for key in fields}
        if present == earlier:
            break
        earlier = present
    else:
        text = f"nothing was sent: other users are changing {target} at this moment"
        raise CallFailedError(Status.EXCEPTION, text)
    changes = changes_of(present)
    kept = {key: value for key, value in present.items() if key not in changes and value != _UNSET}
    yield Change("PUT", own_path(target), {**kept, **changes})
    try:
        after = yield from as_meant(target)
    except CallFailedError:
        return None  # the caller reads it again, and reports what it finds
    others = [key for key, value in kept.items() if (after.get(key) or None) != (value or None)]
    texts = [f"meanwhile another user has changed {', '.join(others)}"] if others else []
    for _ in range(_EVENT_LOOKS if call.user else 0):
        if is_set_by(call.user, call.settings):
            break
        yield Pause(LOOK_AGAIN)
    user, lost = overwritten(call.user, kept, call.settings)
    if lost:
        texts.append(f"what user {user!r} had just set was overwritten: {', '.join(lost)}")
    return Result("; ".join(["OK", *texts]), (), confirmed=False) if texts else None


def _set_parameter(call: Invocation) -> ResultSteps:
    value = json_of(call.arguments.get("value", {}))
    return (
        yield from _written_back(call, ("value",), lambda found: {"value": unmasked(value, found["value"])})
    )


def _set_policy(field: str, value_of: Callable[[Invocation], Json]) -> Method:
    def steps(call: Invocation) -> ResultSteps:
        value = value_of(call)
        return (yield from _written_back(call, _POLICY_FIELDS, lambda _: {field: value}))

    return Method(steps, lists=_POLICY_SUBJECTS)


def _purge(call: Invocation) -> ResultSteps:
    """Purge a queue, and prove it where no count is answered.

    Of a queue with much traffic the statistics never show whether it was purged. Its present depth does: a
    moment later, less than half of the messages of before are there.
    """
    call.evidence.figures = yield from as_meant(call.target, columns=DEPTH_COLUMNS)
    call.evidence.ready = ready = yield from present_depth(call.target)
    host, leaf = call.target.parts
    try:
        count = yield Purge(host, leaf)
    except CallFailedError as failure:
        if failure.status is Status.OUTCOME_UNKNOWN:
            call.evidence.is_purged = yield from _has_lost_half(call.target, ready)
        raise
    if not isinstance(count, int):
        call.evidence.is_purged = yield from _has_lost_half(call.target, ready)
        text = "OK; the management API does not say how many messages were purged"
        return Result(text, (_COUNT_UNKNOWN,), confirmed=False)
    messages = "1 message" if count == 1 else f"{count:,} messages"
    text = f"{messages} purged; the statistics show it when the broker renews them, in some seconds"
    return Result(text, (count,), confirmed=True)


def _has_lost_half(queue: ObjectName, ready: int | None) -> Generator[Lookup, Json, bool]:
    """Return whether a queue that had so many messages ready has lost more than half of them."""
    left = (yield from present_depth(queue)) if ready else None
    return ready is not None and left is not None and 2 * left < ready


def _act_on_mirrors(action: str) -> Method:
    """Return a method that requests an action on mirrored queues, for a mirrored queue only.

    RabbitMQ 3.10.8 also answers "done" for a queue without mirrors, answers 500 for a quorum queue, and never
    answers for a stream.
    """

    def steps(call: Invocation) -> Steps:
        shown = yield from as_meant(call.target, columns=("type", "slave_nodes"))
        if shown.get("type") != "classic" or not isinstance(shown.get("slave_nodes"), list):
            raise CallFailedError(
                Status.EXCEPTION,
                "the queue is not mirrored: only a classic queue with a policy that mirrors it can be"
                " synchronised, and RabbitMQ has none of these since 4.0",
            )
        yield Change("POST", f"{own_path(call.target)}/actions", {"action": action})

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

    def steps(call: Invocation) -> ResultSteps:
        value = value_of(call)

        def changes_of(found: Mapping[str, Json]) -> Mapping[str, Json]:
            return {field: unmasked(value, found[field])}

        return (yield from _written_back(call, _HOST_FIELDS, changes_of))

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


def _restart_shovel(call: Invocation) -> Steps:
    host, leaf = call.target.parts
    if not host:
        text = (
            "RabbitMQ restarts shovels of runtime parameters only, and this one is of the configuration file"
        )
        raise CallFailedError(Status.EXCEPTION, text)
    yield from _as_listed(call.target, "shovels", ("vhost", "name"))
    yield Change("DELETE", path_of("shovels", "vhost", host, leaf, "restart"))


def _restart_link(call: Invocation) -> Steps:
    """Restart a federation link, which RabbitMQ finds by its number and by the node that it runs on."""
    columns = ("vhost", "exchange", "queue", "upstream", "id", "node")
    listed = yield from _as_listed(call.target, "federation-links", columns)
    node = listed.get("node")
    if not isinstance(node, str):
        raise CallFailedError(
            Status.EXCEPTION, "nothing was sent: the broker does not say where the link runs"
        )
    host, number = call.target.parts[0], call.target.leaf
    yield Change("DELETE", path_of("federation-links", "vhost", host, number, node, "restart"))


def _as_listed(
    name: ObjectName, collection: str, columns: tuple[str, ...]
) -> Generator[Lookup, Json, Mapping[str, Json]]:
    """Read a shovel or federation link in the listing of its virtual host; return its document."""
    place = place_of(name, collection)
    items = place.items((yield Lookup(place.target(columns), as_writer=True)))
    for item in items or []:
        if isinstance(item, Mapping) and forwarder_parts(name.class_name, item) == name.parts:
            return item
    raise CallFailedError(Status.UNKNOWN_OBJECT, f"nothing was sent: the broker does not list {name} now")


METHODS: Final[Mapping[str, Mapping[str, Method]]] = {
    "binding": {"delete": Method(_delete(), ends=True)},
    "connection": {"close": Method(_close_connection, ends=True, slow=True)},
    "exchange": {"delete": Method(_delete_exchange, ends=True)},
    "node": {"rebalanceQueues": Method(_rebalance_queues, lists=("queue",))},
    "parameter": {"setValue": Method(_set_parameter), "delete": Method(_delete(), ends=True)},
    "policy": {
        "setPattern": _set_policy("pattern", lambda call: call.text("pattern")),
        "setAppliesTo": _set_policy("apply-to", lambda call: call.text("appliesTo")),
        "setPriority": _set_policy("priority", lambda call: call.number("priority")),
        "setDefinition": _set_policy(
            "definition", lambda call: json_of(call.arguments.get("definition", {}))
        ),
        "delete": Method(_delete(), ends=True, lists=_POLICY_SUBJECTS),
    },
    "queue": {
        "purge": Method(_purge, empties=True),
        "delete": Method(_delete(ifEmpty="if-empty", ifUnused="if-unused"), ends=True),
        "sync": _act_on_mirrors("sync"),
        "cancelSync": _act_on_mirrors("cancel_sync"),
    },
    "shovel": {"restart": Method(_restart_shovel)},
    "federationLink": {"restart": Method(_restart_link)},
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
