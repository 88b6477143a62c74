"""A running link for a test, and a session that records its events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pydantic import SecretStr

from gateway.clock import SystemClock
from gateway.demo.broker import PrivateBroker
from gateway.dialects.session import Binding, Delivery, Effect, Send
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.credentials import login_secret
from gateway.links.session_driver import MessageDriver
from tests.components.scripted_session import ScriptedSession
from tests.components.waiting import eventually

WATCH_SECONDS = 0.2
"""The seconds between two checks of queue and exchanges: tests should not wait as long as operators may."""


class RecordingSession(ScriptedSession):
    """A session that sends nothing, and records its events."""

    def __init__(self) -> None:
        self.up: list[str] = []
        self.down: list[str] = []
        self.resyncs: list[str] = []
        self.deliveries: list[Delivery] = []
        self.unsent: list[tuple[bytes, str]] = []

    def connected(self, reply_to: str, now: int) -> list[Effect]:
        assert now > 0
        self.up.append(reply_to)
        return []

    def disconnected(self, detail: str, now: int) -> list[Effect]:
        assert now > 0
        self.down.append(detail)
        return []

    def loss_suspected(self, reason: str, since: int, now: int) -> list[Effect]:
        assert 0 < since < now
        self.resyncs.append(reason)
        return []

    def not_sent(self, sends: Sequence[Send], reason: str, now: int) -> list[Effect]:
        assert now > 0
        self.unsent += [(send.body, reason) for send in sends]
        return []

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        assert now > 0
        self.deliveries.append(delivery)
        return []

    def tick(self, now: int) -> list[Effect]:
        raise AssertionError(f"nobody asked to be woken at {now}")


@dataclass(frozen=True, slots=True)
class Linked:
    """A running link, and its session."""

    session: RecordingSession
    driver: MessageDriver
    counters: Counter[str]
    running: asyncio.Task[None] = field(repr=False)

    async def up(self, times: int = 1) -> str:
        """Wait until the link came up so often; return the name of its queue then."""

        async def is_up() -> bool:
            assert not self.running.done(), "the link ended"
            return len(self.session.up) >= times

        await eventually(is_up, f"the link came up {times} times; it said {self.session.down}")
        return self.session.up[times - 1]

    async def down(self, times: int = 1) -> str:
        """Wait until the link went down so often; return the reason then."""

        async def is_down() -> bool:
            assert not self.running.done(), "the link ended"
            return len(self.session.down) >= times

        await eventually(is_down, f"the link went down {times} times")
        return self.session.down[times - 1]

    async def received(self, count: int) -> list[Delivery]:
        """Wait for so many deliveries; return all."""

        async def arrived() -> bool:
            return len(self.session.deliveries) >= count

        await eventually(arrived, f"{count} deliveries")
        return self.session.deliveries

    def send(self, *sends: Send) -> None:
        """Send messages as the session would."""
        self.driver.perform(sends)


@asynccontextmanager
async def linked(
    endpoint: AmqpEndpoint, role: AmqpRole, session: RecordingSession | None = None
) -> AsyncIterator[Linked]:
    """Provide a running link for the time of the context; it ends by cancellation only."""
    session = session or RecordingSession()
    counters: Counter[str] = Counter()
    clock = SystemClock()
    driver = MessageDriver("test", session, lambda _: None, clock, counters)
    link = AmqpLink(endpoint, role, driver, clock, watch_seconds=WATCH_SECONDS)
    running = asyncio.create_task(link.run())
    try:
        yield Linked(session, driver, counters, running)
    finally:
        assert running.cancel(), "the link ended by itself"
        await asyncio.wait({running})
        assert await login_secret(endpoint.password).current() not in "".join(session.down)


def role(
    *exchanges: str, declare: tuple[str, ...] = (), probed: str = "", max_queue_length: int = 20_000
) -> AmqpRole:
    """Return a role that consumes all of ``exchanges``, and by ``amq.direct`` messages to the own queue."""
    return AmqpRole(
        "test",
        lambda queue: [Binding("amq.direct", queue), *(Binding(exchange, "#") for exchange in exchanges)],
        declare=declare,
        probed=probed,
        max_queue_length=max_queue_length,
    )


def endpoint_of(
    broker: PrivateBroker, vhost: str = "/", user: str = "", password: str = "", port: int = 0
) -> AmqpEndpoint:
    """Return the endpoint of ``vhost`` for the administrator or another user; ``port`` may be a proxy's."""
    return AmqpEndpoint(
        f"amqp://127.0.0.1:{port or broker.ports.amqp}",
        vhost,
        user or broker.administrator.name,
        SecretStr(password or broker.administrator.password),
    )
