"""Sessions as plays: steps that arrive and must leave, in order, with a clock that tests move.

A step that leaves is one of: ``(routing key, message)`` for a message sent, an observation, a request to an
agent's program, or the name of a note. Requests to be woken are kept apart, in ``wake_at``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.messages import Message, Received
from gateway.dialects.session import (
    Answered,
    Called,
    Delivery,
    Effect,
    LinkDown,
    LinkUp,
    ModifyAsked,
    Note,
    Observed,
    ReadAsked,
    Rebind,
    ReceivedUntil,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.model.observations import Observation
from gateway.model.operations import Answer
from gateway.model.schema import ClassSchema, EventSchema
from gateway.model.times import SECOND
from gateway.model.values import Value
from tests.dialects.qmf.examples import LEAK, TANK, shop

START = 1_700_000_000 * SECOND
QUEUE = "amqp-gateway.console.1"
AGENT_USER = "agent"
CONSOLE_USER = "gateway"
BROKER = UUID(int=1)
NEXT_BROKER = UUID(int=2)

Step: TypeAlias = (
    tuple[str, Received] | Observation | Answer | Called | ModifyAsked | ReadAsked | Rebind | str
)


class _Play:
    def __init__(self, known: Definitions) -> None:
        self.now = START
        self.wake_at = 0
        self.sent: list[Send] = []
        self._known = known
        self._steps: list[Step] = []

    def take(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, WakeAt):
                self.wake_at = effect.time
            elif isinstance(effect, Send):
                self.sent.append(effect)
                self._steps.extend((effect.routing_key, one) for one in read_body(effect.body, self._known))
            elif isinstance(effect, Observed):
                self._steps.extend(effect.observations)
            elif isinstance(effect, Answered):
                self._steps.append(effect.answer)
            elif isinstance(effect, Note):
                self._steps.append(effect.event)
            else:
                assert isinstance(effect, Called | ModifyAsked | ReadAsked | Rebind)
                self._steps.append(effect)

    def leaves(self, *expected: Step) -> None:
        """Assert that these steps are all that left since the last time."""
        steps, self._steps = self._steps, []
        assert steps == list(expected)

    def left(self) -> list[Step]:
        """Return all that left since the last time, for tests that look at a part of it."""
        steps, self._steps = self._steps, []
        return steps

    def notes(self) -> list[Step]:
        """Return the names of the notes that left since the last time."""
        return [step for step in self.left() if isinstance(step, str)]


class ConsolePlay(_Play):
    """A console session; the messages of its peer are written here."""

    def __init__(self, config: ConsoleConfig | None = None, known: Definitions | None = None) -> None:
        super().__init__(known or shop())
        self.session = ConsoleSession(config or ConsoleConfig(trusted_users=frozenset({AGENT_USER})))

    def connects(self) -> None:
        self.take(self.session.handle(LinkUp(QUEUE), self.now))

    def disconnects(self, detail: str = "connection reset", received_until: int = 0) -> None:
        self.take(self.session.handle(LinkDown(detail, received_until), self.now))

    def proves(self, until: int) -> None:
        """Report that everything was received that had reached the queue at time ``until``."""
        self.take(self.session.handle(ReceivedUntil(until), self.now))

    def arrives(self, *messages: Message, key: str = QUEUE, user: str = AGENT_USER, sent: int = 0) -> None:
        """Pass messages to the session in one body, sent at time ``sent`` (0: without a time)."""
        body = b"".join(write(one, self._known) for one in messages)
        self.arrives_octets(body, key=key, user=user, sent=sent)

    def arrives_octets(self, body: bytes, key: str = QUEUE, user: str = AGENT_USER, sent: int = 0) -> None:
        exchange = "amq.direct" if key == QUEUE else "qpid.management"
        delivery = Delivery(exchange, key, body, user_id=user, timestamp=sent)
        self.take(self.session.handle(delivery, self.now))

    def time_passes(self, seconds: float) -> None:
        """Advance the clock, and wake the session whenever it asked to be woken."""
        until = self.now + int(seconds * SECOND)
        while self.now < self.wake_at <= until:
            self.now = self.wake_at
            self.take(self.session.handle(TimerExpired(), self.now))
        self.now = until

    def sequence(self) -> int:
        """Return the sequence number of the request sent last."""
        return int.from_bytes(self.sent[-1].body[4:8], "big")


class AgentPlay(_Play):
    """An agent session with the shop's classes; the messages of consoles are written here."""

    def __init__(
        self,
        classes: Sequence[ClassSchema] = (TANK,),
        events: Sequence[EventSchema] = (LEAK,),
        config: AgentConfig | None = None,
    ) -> None:
        self.session = AgentSession(
            config or AgentConfig(BROKER, boot=4, allowed_users=frozenset({CONSOLE_USER})), classes, events
        )
        # What the agent serves is not what it was given: hashes and absence are its own.
        super().__init__(self.session.definitions)

    def starts(self) -> None:
        self.take(self.session.start(self.now))

    def asks(self, *messages: Message, key: str = "broker", user: str = CONSOLE_USER, sent: int = 0) -> None:
        """Pass messages of a console in one body, sent at time ``sent`` (0: without a time)."""
        body = b"".join(write(one, self._known) for one in messages)
        self.asks_octets(body, key=key, user=user, sent=sent)

    def asks_octets(
        self,
        body: bytes,
        *,
        key: str = "broker",
        user: str = CONSOLE_USER,
        sent: int = 0,
        reply_to: str = QUEUE,
    ) -> None:
        delivery = Delivery("qpid.management", key, body, reply_to, user, timestamp=sent)
        self.take(self.session.handle(delivery, self.now))

    def flushes(self) -> None:
        self.take(self.session.flush(self.now))

    def time_passes(self, seconds: float) -> None:
        until = self.now + int(seconds * SECOND)
        while self.now < self.wake_at <= until:
            self.now = self.wake_at
            self.take(self.session.handle(TimerExpired(), self.now))
        self.now = until


def tank(
    number: int = 0x1122,
    name: str = "t1",
    level: float | None = 50.0,
    fills: int | None = 9,
    note: Value | None = None,
    size: Value | None = 100,
) -> ManagedObject:
    """Return a tank as an agent's program provides it."""
    return ManagedObject(TANK.key, number, START, (name, size, note, None), (level, fills), START)
