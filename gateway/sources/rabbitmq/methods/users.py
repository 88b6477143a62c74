"""Methods of users: their limits."""

from __future__ import annotations

from typing import Final

from gateway.dialects.qmf.messages import Status
from gateway.sources.rabbitmq.management_changes import Change, path_of
from gateway.sources.rabbitmq.methods.steps import CallFailedError, Invocation, Method, Steps
from gateway.sources.rabbitmq.methods.vhosts import NO_LIMIT


def _set_limit(call: Invocation, limit: str, value: int) -> Steps:
    if value == 0 and call.target.leaf not in call.lockout:
        raise CallFailedError(
            Status.FORBIDDEN,
            f"0 keeps user {call.target.leaf!r} out of the broker: if that is meant, name it under"
            " 'allow_lockout' in the source's 'writing'",
        )
    target = path_of("user-limits", call.target.leaf, limit)
    if value == NO_LIMIT:
        yield Change("DELETE", target)
    else:
        yield Change("PUT", target, {"value": value})


def _set_max_connections(call: Invocation) -> Steps:
    return _set_limit(call, "max-connections", call.number("maxConnections"))


def _set_max_channels(call: Invocation) -> Steps:
    return _set_limit(call, "max-channels", call.number("maxChannels"))


METHODS: Final = {
    "setMaxConnections": Method(_set_max_connections),
    "setMaxChannels": Method(_set_max_channels),
}
