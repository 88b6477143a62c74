"""An agent of QMF before AM2 on a live RabbitMQ, in any revision: it manages vats, which can be drained."""

from __future__ import annotations

from collections import Counter
from typing import Final

from gateway.clock import SystemClock
from gateway.demo.broker import PrivateBroker
from gateway.dialects.effects import Called, Delivery, Effect, ModifyAsked
from gateway.dialects.qmf.am01.agent import Am01AgentConfig, Am01AgentSession, ManagedObject
from gateway.dialects.qmf.am01.revisions import Revision
from gateway.dialects.qmf.messages import Status
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.conversation import Conversation
from gateway.model.events import Severity
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    EventSchema,
    Method,
)
from gateway.model.values import ValueType
from tests.components.agent_on_link import AgentOnLink
from tests.links.recording import endpoint_of

SECOND: Final = 10**9
PACKAGE: Final = "cellar"
VAT: Final = ClassSchema(
    ClassKey(PACKAGE, "vat"),
    (
        Element("name", ValueType.STRING, access=Access.READ_CREATE, index=True, max_length=255),
        Element("capacity", ValueType.U32, access=Access.READ_WRITE, unit="litre", minimum=1, maximum=9_000),
    ),
    (Element("level", ValueType.U32, unit="litre"), Element("levelHigh", ValueType.U32, unit="litre")),
    (Method("drain", (Argument("amount", ValueType.U32), Argument("left", ValueType.U32, Direction.OUT))),),
)
LEAK: Final = EventSchema(ClassKey(PACKAGE, "vat.leak"), (Argument("rate", ValueType.U32),))


class Am01Agent(AgentOnLink):
    """Manages vats, and carries out what it is asked at once.

    Args:
        broker: where it speaks.
        vhost: there.
        revision: that it speaks; nobody tells it of bindings, so it tells everything again each two seconds.
        exchange: that it makes, and publishes to.

    Attributes:
        is_up: it has begun to speak.
    """

    def __init__(
        self, broker: PrivateBroker, vhost: str, revision: Revision, exchange: str = "qpid.management"
    ) -> None:
        self._clock = SystemClock()
        user = broker.administrator.name
        config = Am01AgentConfig(
            revision,
            obey=frozenset({user}),
            package=PACKAGE,
            management_exchange=exchange,
            publish_interval=SECOND // 4,
            republish_interval=2 * SECOND,
            get_and_set=True,
            events=revision is Revision.DESIGN_NOTES,
        )
        self.session = Am01AgentSession(config, [VAT], [LEAK])
        super().__init__(self.session)
        self.conversation = Conversation("agent", self, lambda _: None, self._clock, Counter())
        role = AmqpRole("agent", lambda _: self.session.bindings(), declare=[exchange])
        self._link = AmqpLink(endpoint_of(broker, vhost), role, self, self.conversation, self._clock)
        self._capacities: dict[int, int] = {}
        self._levels: dict[int, int] = {}
        self._born = self._clock.now()
        self.is_up = False

    async def run(self) -> None:
        """Be there until cancelled."""
        try:
            await self._link.run()
        finally:
            self.conversation.stop()

    def put(self, number: int, *, capacity: int = 500, level: int = 120) -> None:
        """There is a vat, ``v<number>``, with so many litres."""
        self._capacities[number], self._levels[number] = capacity, level
        self._tell(number)

    def delete(self, number: int) -> None:
        """It is gone."""
        self.session.delete(self._born + number, self._clock.now())

    def leak(self, rate: int) -> None:
        """Tell an event."""
        key = ClassKey(PACKAGE, LEAK.key.name)
        self.conversation.perform(self.session.raise_event(key, self._clock.now(), Severity.MAJOR, (rate,)))

    def _tell(self, number: int) -> None:
        values = (f"v{number}", self._capacities[number]), (self._levels[number], self._levels[number])
        self.session.put(ManagedObject(VAT.key, self._born + number, self._born, *values, self._clock.now()))

    # Of a session over AMQP.

    def connected(self, reply_to: str, now: int) -> list[Effect]:
        self.is_up = True
        return super().connected(reply_to, now)

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        done: list[Effect] = []
        for effect in self.session.receive(delivery, now):
            if isinstance(effect, Called):
                done += self._drain(effect, now)
            elif isinstance(effect, ModifyAsked):
                capacity = effect.values["capacity"]
                assert isinstance(capacity, int)
                self._capacities[effect.number - self._born] = capacity
                done += self._done(effect, now)
            else:
                done.append(effect)
        return done

    def _drain(self, call: Called, now: int) -> list[Effect]:
        (amount,), number = call.arguments, call.number - self._born
        assert isinstance(amount, int)
        self._levels[number] -= amount
        return self._done(call, now, self._levels[number])

    def _done(self, asked: Called | ModifyAsked, now: int, *outputs: int) -> list[Effect]:
        self._tell(asked.number - self._born)
        answered = self.session.method_done(asked.handle, Status.OK, "OK", outputs)
        return [*self.session.flush(now), *answered]
