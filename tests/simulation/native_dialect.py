"""A dialect with a request of its own to set properties, made of AM2: a hidden method carries it.

So everything that can happen to a call can happen to it; and who carries it out is no more reliable than
brokers are that say "ok" to whatever they are told.
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
"""Takes values by the names of the properties that they are for."""

ROUNDED = 50_000_000
"""By so much a value that was rounded is another one, which nobody ever asked for."""


class Whim(enum.Enum):
    """What becomes of a request that is answered as done."""

    DONE = "done"
    IGNORED = "ignored"
    ROUNDED = "rounded"

    @classmethod
    def of(cls, random: Random) -> Whim:
        """The next one: mostly it is done."""
        return random.choices(tuple(cls), (8, 1, 1))[0]


class NativeConsole:
    """A console session of that dialect.

    Args:
        session: that carries it.
    """

    def __init__(self, session: ConsoleSession) -> None:
        self._session = session

    def bindings(self, queue: str) -> Sequence[Binding]:
        """What its queue hears."""
        return self._session.bindings(queue)

    def handle(self, event: Event, now: int) -> list[Effect]:
        """As of the session that carries it."""
        carried_by = _carried(event) if isinstance(event, ObjectModify) else event
        return _shown(self._session.handle(carried_by, now))

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """Likewise."""
        call = _carried(request) if isinstance(request, ObjectModify) else request
        return self._session.precheck(call, now)


def _carried(modify: ObjectModify) -> MethodCall:
    values = {name: value for name, value in modify.values.items() if value is not None}
    which = (modify.token, modify.key, modify.agent, modify.native_id)
    return MethodCall(*which, MODIFY.name, (values,), modify.deadline)


def with_request(schema: ClassSchema) -> ClassSchema:
    """A class as it is told on the wire, with the method that carries the request."""
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
    """The numbers that a request carries, by the names of the properties that they are for."""
    (values,) = arguments
    assert isinstance(values, Mapping)
    return {name: value for name, value in values.items() if isinstance(value, int)}
