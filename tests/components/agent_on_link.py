"""What every program around an agent's session does for its link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from gateway.clock import SystemClock
from gateway.demo.broker import PrivateBroker
from gateway.dialects.effects import Binding, Delivery, Effect
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.conversation import Conversation
from tests.links.recording import endpoint_of

CLOCK: Final = SystemClock()


class Served(Protocol):
    """An agent's session, of whatever generation."""

    def start(self, now: int) -> list[Effect]: ...

    def suspend(self) -> None: ...

    def tick(self, now: int) -> list[Effect]: ...

    def receive(self, delivery: Delivery, now: int) -> list[Effect]: ...

    def bindings(self) -> Sequence[Binding]: ...


class AgentOnLink:
    """Starts the session with the link and suspends it with it.

    Args:
        session: of the agent.

    Attributes:
        conversation: of the session.
        is_up: it has begun to speak.
    """

    def __init__(self, session: Served) -> None:
        self._served = session
        self.conversation = Conversation("agent", self, lambda _: None, CLOCK, Counter())
        self.is_up = False

    async def speak(self, broker: PrivateBroker, vhost: str, exchange: str = "qpid.management") -> None:
        """Be there until cancelled; the exchange is made where it is missing."""
        role = AmqpRole("agent", lambda _: self._served.bindings(), declare=[exchange])
        link = AmqpLink(endpoint_of(broker, vhost), role, self, self.conversation, CLOCK)
        try:
            await link.run()
        finally:
            self.conversation.stop()

    # Of a session over AMQP.

    def connected(self, reply_to: str, now: int) -> list[Effect]:
        assert reply_to
        self.is_up = True
        return self._served.start(now)

    def disconnected(self, detail: str, now: int) -> list[Effect]:
        assert detail
        assert now
        self.is_up = False
        self._served.suspend()
        return []

    def resync(self, reason: str, now: int, since: int) -> list[Effect]:
        assert reason
        assert since < now
        return []

    def tick(self, now: int) -> list[Effect]:
        return self._served.tick(now)

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        return self._served.receive(delivery, now)
