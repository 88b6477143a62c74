"""Methods of queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.qmf.messages import Status
from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.management_changes import Change, Lookup, Purge, path_of
from gateway.sources.rabbitmq.methods.steps import (
    CallFailedError,
    Invocation,
    Method,
    Result,
    ResultSteps,
    Steps,
)


def conditions(call: Invocation, **flags: str) -> str:
    """The query of a deletion with conditions: the API's names of those flags that are set."""
    asked = [f"{name}=true" for argument, name in flags.items() if call.flag(argument)]
    return f"?{'&'.join(asked)}" if asked else ""


_COUNT_UNKNOWN: Final = -1
"""Of purged messages. AM2 cannot leave out an output, and 0 is the answer of a queue that was empty."""


def _purge(call: Invocation) -> ResultSteps:
    count = yield Purge(*call.target.parts)
    if not isinstance(count, int):
        text = "OK; the management API does not say how many messages were purged"
        return Result(text, (_COUNT_UNKNOWN,), confirmed=False)
    messages = "1 message" if count == 1 else f"{count:,} messages"
    text = f"{messages} purged; the statistics show it when the broker renews them, in some seconds"
    return Result(text, (count,), confirmed=True)


def _delete(call: Invocation) -> Steps:
    query = conditions(call, ifEmpty="if-empty", ifUnused="if-unused")
    yield Change("DELETE", path_of("queues", *call.target.parts) + query)


def _sync(call: Invocation) -> Steps:
    return _act_on_mirrors(call, "sync")


def _cancel_sync(call: Invocation) -> Steps:
    return _act_on_mirrors(call, "cancel_sync")


def _act_on_mirrors(call: Invocation, action: str) -> Steps:
    """Ask for an action of mirrored queues, of a mirrored queue only.

    RabbitMQ 3.10.8 says "done" of a queue without mirrors, too, answers 500 for a quorum queue, and of a
    stream never answers.
    """
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


def _is_empty(document: Mapping[str, Json]) -> bool:
    """Whether the statistics, which come seconds late and are not there now and then, know of the purge."""
    return document.get("messages_ready") == 0


_NOT_SHOWN_EMPTY: Final = (
    "it is not shown empty yet: RabbitMQ renews its numbers every few seconds, or it was filled again"
)

METHODS: Final = {
    "purge": Method(_purge, settled=_is_empty, unsettled=_NOT_SHOWN_EMPTY),
    "delete": Method(_delete, ends=True),
    "sync": Method(_sync),
    "cancelSync": Method(_cancel_sync),
}
