"""A dialect with a request of its own to set properties, made of AM2: a hidden method carries it.

So everything that can happen to a call can happen to it; and who carries it out is no more reliable than
brokers are that say "ok" to whatever they are told.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

from gateway.dialects.effects import Binding, Delivery, Effect, Observed, Send
from gateway.dialects.qmf.console import ConsoleSession
from gateway.model.observations import ClassLearned, Observation
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify
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

    def connected(self, reply_to: str, now: int) -> list[Effect]:
        """The link is up."""
        return _shown(self._session.connected(reply_to, now))

    def disconnected(self, detail: str, now: int) -> list[Effect]:
        """The link is down."""
        return _shown(self._session.disconnected(detail, now))

    def resync(self, reason: str, now: int, since: int) -> list[Effect]:
        """Messages may have been lost."""
        return _shown(self._session.resync(reason, now, since))

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """A message arrived."""
        return _shown(self._session.receive(delivery, now))

    def tick(self, now: int) -> list[Effect]:
        """The time it asked for has come."""
        return _shown(self._session.tick(now))

    def unsent(self, sends: Sequence[Send], reason: str, now: int) -> Iterable[Effect]:
        """These certainly were not sent."""
        return _shown(self._session.unsent(sends, reason, now))

    def call(self, call: MethodCall, now: int) -> list[Effect]:
        """Call a method."""
        return _shown(self._session.call(call, now))

    def fetch(self, fetch: ObjectFetch, now: int) -> list[Effect]:
        """Read an object again."""
        return _shown(self._session.fetch(fetch, now))

    def modify(self, modify: ObjectModify, now: int) -> list[Effect]:
        """Set properties."""
        return self.call(_carried(modify), now)

    def objection(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """What would be answered at once."""
        call = _carried(request) if isinstance(request, ObjectModify) else request
        return self._session.objection(call, now)


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
