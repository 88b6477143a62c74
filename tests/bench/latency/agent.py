"""An agent with one object, whose value counts, and one event with the same number."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Final

from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.session import (
    Binding,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    LossSuspected,
    Send,
)
from gateway.model.observations import Severity
from gateway.model.schema import Access, Argument, ClassKey, ClassSchema, Element, EventSchema
from gateway.model.values import ValueType

GATEWAY_USER, AGENT_USER = "gateway", "agent"
FIRST_READING: Final = 4_020_161_718
"""The first value of the object, which no other object has."""

COUNTED: Final = rb"counted=(\d+), meter="
"""The form of the event's number in its text, everywhere the text is shown."""

_METER = ClassSchema(
    ClassKey("bench", "meter"),
    properties=(Element("name", ValueType.STRING, access=Access.READ_CREATE, index=True),),
    statistics=(Element("reading", ValueType.U32),),
)
_READ = EventSchema(
    ClassKey("bench", "meterRead"),
    (Argument("counted", ValueType.U64), Argument("meter", ValueType.STRING)),
)


class LinkedAgent:
    """An agent as the driver of a link runs it.

    Args:
        classes: the classes that it serves.
        events: the events that it may raise.

    Attributes:
        session: the session of the agent.
    """

    def __init__(self, classes: Sequence[ClassSchema], events: Sequence[EventSchema] = ()) -> None:
        config = AgentConfig(uuid.uuid4(), boot=1, allowed_users=frozenset({GATEWAY_USER}))
        self.session = AgentSession(config, tuple(classes), tuple(events))

    def bindings(self, _queue: str) -> tuple[Binding, ...]:
        """Return the bindings of the agent's queue."""
        return self.session.bindings()

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an event: the agent is active while the link is up; a console repeats a lost request."""
        match event:
            case LinkUp():
                return self.session.start(now)
            case LinkDown():
                self.session.suspend()
                return []
            case LossSuspected():
                return []
            case _:
                return self.session.handle(event, now)


class MeterAgent(LinkedAgent):
    """The agent whose object and event have the same number."""

    def __init__(self) -> None:
        super().__init__((_METER,), (_READ,))
        self._put(FIRST_READING)

    def sample(self, number: int) -> Send:
        """Return the message with ``number`` as the object's value and in the event."""
        self._put(number)
        contents = b"".join(body for _, body in self.session.objects.take_changes())
        event = self.session.event_message(_READ.key, time.time_ns(), Severity.INFO, (number, "meter"))
        return Send(event.exchange, event.routing_key, event.body + contents)

    def _put(self, reading: int) -> None:
        self.session.put(ManagedObject(_METER.key, 1, 1, ("meter",), (reading,), time.time_ns()))
