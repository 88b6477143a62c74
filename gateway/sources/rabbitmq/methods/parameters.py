"""Methods of runtime parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.qmf.messages import Status
from gateway.sources.rabbitmq.management_changes import Change, Lookup, path_of
from gateway.sources.rabbitmq.methods.json_values import json_of, unmasked
from gateway.sources.rabbitmq.methods.steps import CallFailedError, Invocation, Method, Steps


def _path(call: Invocation) -> str:
    host, component, name = call.target.parts
    return path_of("parameters", component, host, name)


def _set_value(call: Invocation) -> Steps:
    found = yield Lookup(_path(call), as_writer=True)
    if not isinstance(found, Mapping):
        raise CallFailedError(Status.UNKNOWN_OBJECT, "there is no such parameter")
    value = unmasked(json_of(call.arguments.get("value", {})), found.get("value"))
    yield Change("PUT", _path(call), {"value": value})


def _delete(call: Invocation) -> Steps:
    yield Change("DELETE", _path(call))


METHODS: Final = {"setValue": Method(_set_value), "delete": Method(_delete, ends=True)}
