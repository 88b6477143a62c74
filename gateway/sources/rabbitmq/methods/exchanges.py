"""Methods of exchanges."""

from __future__ import annotations

from typing import Final

from gateway.dialects.qmf.messages import Status
from gateway.sources.rabbitmq.management_changes import Change, path_of
from gateway.sources.rabbitmq.methods.queues import conditions
from gateway.sources.rabbitmq.methods.steps import CallFailedError, Invocation, Method, Steps


def _delete(call: Invocation) -> Steps:
    if not call.target.leaf:
        raise CallFailedError(Status.EXCEPTION, "the default exchange cannot be deleted")
    query = conditions(call, ifUnused="if-unused")
    yield Change("DELETE", path_of("exchanges", *call.target.parts) + query)


METHODS: Final = {"delete": Method(_delete, ends=True)}
