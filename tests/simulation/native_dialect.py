"""A dialect with a request of its own to set properties, made of AM2: a hidden method carries it.

So every fault of a call can occur to it. The agent is no more reliable than brokers that answer "ok" to any
request.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

from gateway.dialects.qmf.console import ConsoleSession
from gateway.dialects.session import (
    Binding,
    Effect,
    Event,
    Observed,
)
from gateway.model.observations import ClassLearned, Observation
from gateway.model.operations import Answer, MethodCall, ObjectModify
from gateway.model.schema import Argument, ClassSchema, Method
from gateway.model.values import Value, ValueType

MODIFY = Method("modify", (Argument("values", ValueType.MAP),))
"""The method that takes values by the names of their properties."""

ROUNDED = 50_000_000
"""The difference between a requested and a rounded value; the sum is never requested."""


class Whim(enum.Enum):
    """The effect of a request that is answered as done."""

    DONE = "done"
    IGNORED = "ignored"
    ROUNDED = "rounded"

    @classmethod
    def of(cls, random: Random) -> Whim:
        """Return a random effect, mostly ``DONE``."""
        return random.choices(tuple(cls), (8, 1, 1))[0]


class NativeConsole:
    """A console session of that dialect.

    Args:
        session: the AM2 session that carries it.
    """

    def __init__(self, session: ConsoleSession) -> None:
        self._session = session

    def bindings(self, queue: str) -> Sequence[Binding]:
        """Return the bindings of its queue."""
        return self._session.bindings(queue)

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process an event as the session that carries it does."""
        carried_by = _carried(event) if isinstance(event, ObjectModify) else event
        return _shown(self._session.handle(carried_by, now))

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """Check a request as the session that carries it does."""
        call = _carried(request) if isinstance(request, ObjectModify) else request
        return self._session.precheck(call, now)


def _carried(modify: ObjectModify) -> MethodCall:
    values = {name: value for name, value in modify.values.items() if value is not None}
    which = (modify.token, modify.key, modify.agent, modify.native_id)
    return MethodCall(*which, MODIFY.name, (values,), modify.deadline)


def with_request(schema: ClassSchema) -> ClassSchema:
    """Return a class as it is on the wire, with the method that carries the request."""
    return replace(schema, methods=(*schema.methods, MODIFY))


def _shown(effects: Iterable[Effect]) -> list[Effect]:
    return [
        Observed(tuple(map(_without_request, effect.observations)))
        if isinstance(effect, Observed)
        else effect
        for effect in effects
    ]


def _without_request(observation: Observation) -> Observation:
    if not isinstance(observation, ClassLearned):
        return observation
    methods = tuple(method for method in observation.schema.methods if method != MODIFY)
    return replace(observation, schema=replace(observation.schema, methods=methods))


def carried(arguments: Sequence[Value | None]) -> dict[str, int]:
    """Return the numbers that a request carries, by the names of their properties."""
    (values,) = arguments
    assert isinstance(values, Mapping)
    return {name: value for name, value in values.items() if isinstance(value, int)}
