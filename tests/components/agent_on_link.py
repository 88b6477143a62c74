"""The link of an agent: the part that all programs around an agent's session share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from gateway.clock import SystemClock
from gateway.demo.broker import PrivateBroker
from gateway.dialects.session import Binding, Effect, Event, LinkDown, LinkUp, LossSuspected
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.protection import Protection
from gateway.links.session_driver import MessageDriver
from tests.links.recording import endpoint_of

CLOCK: Final = SystemClock()


class Served(Protocol):
    """The session of an agent of any protocol revision."""

    def start(self, now: int) -> list[Effect]: ...

    def suspend(self) -> None: ...

    def handle(self, event: Event, now: int) -> list[Effect]: ...

    def bindings(self) -> Sequence[Binding]: ...


class AgentOnLink:
    """An agent that starts its session when the link is up and suspends it when the link is down.

    Args:
        session: the session of the agent.

    Attributes:
        conversation: the driver of the session.
        is_up: whether the link is up.
        protection: seals and opens the bodies of the link; ``None`` if they are plain.
    """

    def __init__(self, session: Served) -> None:
        self._served = session
        self.conversation = MessageDriver("agent", self, lambda _: None, CLOCK, Counter())
        self.is_up = False
        self.protection: Protection | None = None

    async def speak(self, broker: PrivateBroker, vhost: str, exchange: str = "qpid.management") -> None:
        """Run the link until cancelled. Declare the exchange if it is missing."""
        role = AmqpRole(
            "agent", lambda _: self._served.bindings(), declare=[exchange], protection=self.protection
        )
        link = AmqpLink(endpoint_of(broker, vhost), role, self.conversation, CLOCK)
        try:
            await link.run()
        finally:
            self.conversation.stop()

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an event as `Session.handle`, for a link over AMQP."""
        match event:
            case LinkUp(reply_to):
                assert reply_to
                self.is_up = True
                return self._served.start(now)
            case LinkDown(detail):
                assert detail
                self.is_up = False
                self._served.suspend()
                return []
            case LossSuspected(reason, since):
                assert reason
                assert since < now
                return []
            case _:
                return self._served.handle(event, now)
