"""Methods of connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.qmf.messages import Status
from gateway.sources.rabbitmq.management_changes import Change, Lookup, path_of
from gateway.sources.rabbitmq.methods.steps import CallFailedError, Invocation, Method, Pause, Steps

LOOK_AGAIN: Final = 250_000_000
_MILLISECOND: Final = 1_000_000


def _close(call: Invocation) -> Steps:
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
    if call.created and isinstance(opened, int) and opened * _MILLISECOND != call.created:
        # The broker names connections by addresses and ports, and another may have them by now.
        raise CallFailedError(Status.UNKNOWN_OBJECT, "the connection has ended; another has its name by now")
    yield Change("DELETE", target, reason=reason)


METHODS: Final = {"close": Method(_close, ends=True)}
