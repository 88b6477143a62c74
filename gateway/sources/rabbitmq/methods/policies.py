"""Methods of policies: one for each property that can be set, because AM2 sets nothing by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.qmf.messages import Status
from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.management_changes import Change, Lookup, path_of
from gateway.sources.rabbitmq.methods.json_values import json_of
from gateway.sources.rabbitmq.methods.steps import CallFailedError, Invocation, Method, Steps

_GIVEN: Final = ("pattern", "definition", "priority", "apply-to")
"""All that a policy is given; what a request leaves out, RabbitMQ takes for its default."""


def _set(call: Invocation, changed: Mapping[str, Json]) -> Steps:
    target = path_of("policies", *call.target.parts)
    found = yield Lookup(target, as_writer=True)
    if not isinstance(found, Mapping):
        raise CallFailedError(Status.UNKNOWN_OBJECT, "there is no such policy")
    kept = {key: found[key] for key in _GIVEN if key in found}
    yield Change("PUT", target, {**kept, **changed})


def _set_pattern(call: Invocation) -> Steps:
    return _set(call, {"pattern": call.text("pattern")})


def _set_applies_to(call: Invocation) -> Steps:
    return _set(call, {"apply-to": call.text("appliesTo")})


def _set_priority(call: Invocation) -> Steps:
    return _set(call, {"priority": call.number("priority")})


def _set_definition(call: Invocation) -> Steps:
    return _set(call, {"definition": json_of(call.arguments.get("definition", {}))})


def _delete(call: Invocation) -> Steps:
    yield Change("DELETE", path_of("policies", *call.target.parts))


_SUBJECTS: Final = ("queue", "exchange")
"""Of these stands which policy holds."""

METHODS: Final = {
    "setPattern": Method(_set_pattern, lists=_SUBJECTS),
    "setAppliesTo": Method(_set_applies_to, lists=_SUBJECTS),
    "setPriority": Method(_set_priority, lists=_SUBJECTS),
    "setDefinition": Method(_set_definition, lists=_SUBJECTS),
    "delete": Method(_delete, ends=True, lists=_SUBJECTS),
}
