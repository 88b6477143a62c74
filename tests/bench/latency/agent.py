"""An agent with one object, whose value counts, and one event, which tells the same number."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Final

from gateway.dialects.effects import Binding, Delivery, Effect, Send
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.model.events import Severity
from gateway.model.schema import Access, Argument, ClassKey, ClassSchema, Element, EventSchema
from gateway.model.values import ValueType

GATEWAY_USER, AGENT_USER = "gateway", "agent"
FIRST_READING: Final = 4_020_161_718
"""What the object shows at first, and nothing else shows."""

COUNTED: Final = rb"counted=(\d+), meter="
"""How the event's number stands in its text, wherever that stands."""

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
    """An agent as a link carries it (`gateway.links.amqp.LinkedSession`).

    Args:
        classes: that it serves.
        events: that it may raise.

    Attributes:
        session: what it says.
    """

    def __init__(self, classes: Sequence[ClassSchema], events: Sequence[EventSchema] = ()) -> None:
        config = AgentConfig(uuid.uuid4(), boot=1, obey=frozenset({GATEWAY_USER}))
        self.session = AgentSession(config, tuple(classes), tuple(events))

    def bindings(self, _queue: str) -> tuple[Binding, ...]:
        """Of the agent's queue."""
        return self.session.bindings()

    def connected(self, _reply_to: str, now: int) -> list[Effect]:
        """The link is up."""
        return self.session.start(now)

    def disconnected(self, _detail: str, _now: int) -> list[Effect]:
        """The link is down."""
        self.session.suspend()
        return []

    def resync(self, _reason: str, _now: int, _since: int) -> list[Effect]:
        """Messages may be lost: who asked asks again."""
        return []

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """A request of the gateway's."""
        return self.session.receive(delivery, now)

    def tick(self, now: int) -> list[Effect]:
        """The time to publish has come."""
        return self.session.tick(now)


class MeterAgent(LinkedAgent):
    """The agent whose object and event tell the same number."""

    def __init__(self) -> None:
        super().__init__((_METER,), (_READ,))
        self._put(FIRST_READING)

    def sample(self, number: int) -> Send:
        """The message that tells ``number`` as the object's value and by the event."""
        self._put(number)
        contents = b"".join(body for _, body in self.session.objects.take_changes())
        event = self.session.event_message(_READ.key, time.time_ns(), Severity.INFO, (number, "meter"))
        return Send(event.exchange, event.routing_key, event.body + contents)

    def _put(self, reading: int) -> None:
        self.session.put(ManagedObject(_METER.key, 1, 1, ("meter",), (reading,), time.time_ns()))
