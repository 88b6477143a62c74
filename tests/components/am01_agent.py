"""An agent of QMF before AM2 on a live RabbitMQ, in any revision: it manages vats, which can be drained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.demo.broker import PrivateBroker
from gateway.dialects.qmf.am01.messages import Revision
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import Called, Effect, Event, ModifyAsked
from gateway.model.observations import Severity
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
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value, ValueType
from tests.components.agent_on_link import CLOCK, AgentOnLink
from tests.peers.am01_agent import Am01AgentConfig, Am01AgentSession, ManagedObject

REPUBLISHED: Final = 2
"""The interval in seconds at which everything is published again: agents are not notified of new bindings."""
PACKAGE: Final = "cellar"
VAT: Final = ClassSchema(
    ClassKey(PACKAGE, "vat"),
    (
        Element("name", ValueType.STRING, access=Access.READ_CREATE, index=True, max_length=255),
        Element("fedBy", ValueType.REFERENCE),
        Element("capacity", ValueType.U32, access=Access.READ_WRITE, unit="litre", minimum=1, maximum=9_000),
        Element("label", ValueType.STRING, access=Access.READ_WRITE, max_length=255),
    ),
    (
        Element("level", ValueType.U32, unit="litre"),
        Element("levelHigh", ValueType.U32, unit="litre"),
        Element("warmth", ValueType.F64, unit="Celsius"),
    ),
    (
        Method(
            "drain",
            (
                Argument("amount", ValueType.U32),
                Argument("reason", ValueType.STRING, default=""),
                Argument("left", ValueType.U32, Direction.OUT),
            ),
        ),
    ),
)
LEAK: Final = EventSchema(ClassKey(PACKAGE, "vat.leak"), (Argument("rate", ValueType.U32),))


class Am01Agent(AgentOnLink):
    """An agent that manages vats, and carries out each request at once.

    Args:
        broker: the broker that it connects to.
        vhost: the virtual host on that broker.
        revision: the protocol revision that it uses.
        exchange: the exchange that it declares and publishes to.
        accepted: the user whose requests it carries out; by default the administrator.
        born: the number before that of its first object; by default the time of its start, as agents of 2008
            have it.

    Attributes:
        done: sets (values by name) and calls (name and arguments), in order, by the vat's number.
        deaf: the properties that a set request does not change.
    """

    def __init__(
        self,
        broker: PrivateBroker,
        vhost: str,
        revision: Revision,
        exchange: str = "qpid.management",
        accepted: str = "",
        born: int | None = None,
    ) -> None:
        config = Am01AgentConfig(
            revision,
            allowed_users=frozenset({accepted or broker.administrator.name}),
            package=PACKAGE,
            management_exchange=exchange,
            publish_interval=SECOND // 4,
            republish_interval=REPUBLISHED * SECOND,
            get_and_set=True,
            events=revision is Revision.DESIGN_NOTES,
        )
        self.session = Am01AgentSession(config, [VAT], [LEAK])
        super().__init__(self.session)
        self._where = (broker, vhost, exchange)
        self._vats: dict[int, dict[str, Value]] = {}
        self._born = CLOCK.now() if born is None else born
        self.done: list[tuple[int, object]] = []
        self.deaf: set[str] = set()

    async def run(self) -> None:
        """Run the agent until cancelled."""
        await self.speak(*self._where)

    def put(self, number: int, *, capacity: int = 500, level: int = 120) -> None:
        """Add or update a vat, ``v<number>``, with its level in litres."""
        self._vats[number] = {"capacity": capacity, "label": "", "level": level}
        self._publish(number)

    def delete(self, number: int) -> None:
        """Delete a vat."""
        self.session.delete(self._born + number, CLOCK.now())

    def leave_out(self, number: int) -> None:
        """Publish a vat no more, without a word of its end."""
        self.session.leave_out(self._born + number)

    def leak(self, rate: int) -> None:
        """Raise an event."""
        self.conversation.perform(self.session.raise_event(LEAK.key, CLOCK.now(), Severity.MAJOR, (rate,)))

    def _publish(self, number: int) -> None:
        vat, now = self._vats[number], CLOCK.now()
        properties = (f"v{number}", Reference(""), vat["capacity"], vat["label"])
        statistics = (vat["level"], vat["level"], 11.5)
        self.session.put(ManagedObject(VAT.key, self._born + number, self._born, properties, statistics, now))

    # Of a session over AMQP.

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an event as `Session.handle`; requests are carried out at once."""
        done: list[Effect] = []
        for effect in super().handle(event, now):
            if isinstance(effect, Called):
                done += self._drain(effect, now)
            elif isinstance(effect, ModifyAsked):
                done += self._set(effect, now)
            else:
                done.append(effect)
        return done

    def _drain(self, call: Called, now: int) -> list[Effect]:
        (amount, _), number = call.arguments, call.number - self._born
        level = self._vats[number]["level"]
        assert isinstance(amount, int)
        assert isinstance(level, int)
        self.done.append((number, (call.method, call.arguments)))
        return self._changed(call, {"level": level - amount}, now, level - amount)

    def _set(self, asked: ModifyAsked, now: int) -> list[Effect]:
        self.done.append((asked.number - self._born, dict(asked.values)))
        heeded = {name: value for name, value in asked.values.items() if name not in self.deaf}
        return self._changed(asked, heeded, now)

    def _changed(
        self, asked: Called | ModifyAsked, values: Mapping[str, Value], now: int, *outputs: int
    ) -> list[Effect]:
        number = asked.number - self._born
        self._vats[number].update(values)
        self._publish(number)
        answered = self.session.method_done(asked.handle, Status.OK, "OK", outputs)
        return [*self.session.flush(now), *answered]
