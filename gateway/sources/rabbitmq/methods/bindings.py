"""Methods of bindings."""

from __future__ import annotations

from typing import Final

from gateway.sources.rabbitmq.management_changes import Change, path_of
from gateway.sources.rabbitmq.methods.steps import Invocation, Method, Steps


def _delete(call: Invocation) -> Steps:
    host, source, kind, destination, key = call.target.parts
    yield Change("DELETE", path_of("bindings", host, "e", source, kind[:1], destination, key))


METHODS: Final = {"delete": Method(_delete, ends=True)}
