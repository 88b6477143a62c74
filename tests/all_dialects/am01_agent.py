"""An agent as AM01 is written down, on a live RabbitMQ: our agent session, and the program of one vessel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from gateway.clock import SystemClock
from gateway.demo.broker import PrivateBroker
from gateway.dialects.effects import Binding, Called, Delivery, Effect, ModifyAsked
from gateway.dialects.qmf import addresses
from gateway.dialects.qmf.am01.agent import Am01AgentConfig, Am01AgentSession, ManagedObject
from gateway.dialects.qmf.am01.revisions import Revision
from gateway.dialects.qmf.messages import Status
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.conversation import Conversation
from gateway.model.events import Severity
from gateway.model.schema import ClassKey
from gateway.model.values import Reference
from tests.components.agent_on_link import AgentOnLink
from tests.dialects.qmf.am01.examples import leak, tank
from tests.links.recording import endpoint_of

SECOND: Final = 10**9
REPUBLISHED: Final = 3
"""Seconds after which everything is told again, since nobody tells the agent that a queue was bound."""
_KEY: Final = ClassKey("works", "vessel")
_NUMBER: Final = 1


class VesselAgent(AgentOnLink):
    """Is set, is drained, and leaks when it is told to.

    Attributes:
        size: of the vessel, which can be set.
        called: names of the methods that were called.
    """

    def __init__(self, broker: PrivateBroker, virtual_host: str) -> None:
        clock = SystemClock()
        config = Am01AgentConfig(
            Revision.DESIGN_NOTES,
            obey=frozenset({broker.administrator.name}),
            publish_interval=SECOND,
            republish_interval=REPUBLISHED * SECOND,
            get_and_set=True,
            events=True,
        )
        self.size = 100
        self.called: list[str] = []
        self._session = Am01AgentSession(config, [tank(_KEY)], [leak(_KEY)])
        super().__init__(self._session)
        self._created = clock.now()
        self._conversation = Conversation("vessel", self, lambda _: None, clock, Counter())
        role = AmqpRole("agent", self.bindings, declare=[addresses.MANAGEMENT_EXCHANGE])
        self._link = AmqpLink(endpoint_of(broker, virtual_host), role, self, self._conversation, clock)
        self._put()

    async def run(self) -> None:
        """Be there until cancelled."""
        try:
            await self._link.run()
        finally:
            self._conversation.stop()

    def tell(self, rate: int) -> None:
        """It leaks, so many litres an hour."""
        event = leak(_KEY).key
        now = SystemClock().now()
        self._conversation.perform(self._session.raise_event(event, now, Severity.WARNING, (rate,)))

    def _put(self) -> None:
        now = SystemClock().now()
        properties = ("v1", Reference(""), self.size)
        self._session.put(ManagedObject(_KEY, _NUMBER, self._created, properties, (7, 50.0, "hi"), now))

    def _done(self, effects: Iterable[Effect]) -> list[Effect]:
        """Carry out at once what a console asked for."""
        left: list[Effect] = []
        for effect in effects:
            match effect:
                case ModifyAsked(handle=handle, values=values):
                    size = values["size"]
                    assert isinstance(size, int)
                    self.size = size
                    self._put()
                    left += self._session.method_done(handle, Status.OK, "OK")
                case Called(handle=handle, method=method, arguments=arguments):
                    self.called.append(method)
                    left += self._session.method_done(handle, Status.OK, "OK", (arguments[0], 40.0))
                case _:
                    left.append(effect)
        return left

    # Of a session over AMQP.

    def bindings(self, _queue: str) -> tuple[Binding, ...]:
        return self._session.bindings()

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        return self._done(self._session.receive(delivery, now))
