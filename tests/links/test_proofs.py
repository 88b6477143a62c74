"""What a console on a real RabbitMQ takes for current while the gateway has too little processor time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator

from gateway.clock import SystemClock
from gateway.dialects.qmf.addresses import MANAGEMENT_EXCHANGE
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.messages import Heartbeat
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import Send
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.session_driver import MessageDriver
from gateway.model.observations import STALE_AFTER, HeartbeatSeen, Observation
from gateway.model.times import SECOND
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import eventually
from tests.links.broker_side import client, published
from tests.links.recording import WATCH_SECONDS, endpoint_of

CLOCK = SystemClock()
HEARTBEATS = 250
COST = 0.02
"""Seconds of the processor that the gateway needs for each heartbeat, as if it were much slower."""
PUBLISHED_SECONDS = 60
"""Seconds until all heartbeats are published: the gateway stands still so long."""


class SlowConsole:
    """A console whose heartbeats take long to process.

    Attributes:
        taken: the number of processed heartbeats.
        confirmed: the times (ns) since which what is shown was reported to be current.
        goes_on: set where it does not stand still.
    """

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.taken = 0
        self.confirmed: list[int] = []

    def observed(self, observations: tuple[Observation, ...]) -> None:
        """Process observations of the session."""
        for one in observations:
            if isinstance(one, HeartbeatSeen) and one.current_until:
                self.confirmed.append(one.current_until[""] - STALE_AFTER)
            elif isinstance(one, HeartbeatSeen):
                self.taken += 1
                self.goes_on.wait(PUBLISHED_SECONDS)
                until = time.monotonic() + COST
                while time.monotonic() < until:
                    pass

    @contextlib.asynccontextmanager
    async def running(self, virtual_host: VirtualHost) -> AsyncIterator[None]:
        """Run it, connected, for the time of the context."""
        broker = virtual_host.broker
        session = ConsoleSession(ConsoleConfig(frozenset({broker.administrator.name})))
        driver = MessageDriver("slow", session, self.observed, CLOCK, Counter())
        role = AmqpRole("console", session.bindings, declare=[MANAGEMENT_EXCHANGE], takes_proofs=True)
        endpoint = endpoint_of(broker, virtual_host.name)
        link = AmqpLink(endpoint, role, driver, CLOCK, watch_seconds=WATCH_SECONDS)
        task = asyncio.create_task(link.run())

        async def is_connected() -> bool:
            return session.state is not State.DISCONNECTED

        try:
            await eventually(is_connected, "the console is connected")
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            driver.stop()


async def beat(virtual_host: VirtualHost, count: int) -> int:
    """Publish heartbeats as the broker's agent; return the time (ns) when the queue had all of them."""
    async with client(virtual_host) as channel:
        for _ in range(count):
            send = Send(MANAGEMENT_EXCHANGE, "console.heartbeat.1.0", write(Heartbeat(0, CLOCK.now())))
            await published(channel, send, virtual_host.broker.administrator.name)
    return CLOCK.now()


async def test_heartbeats_that_waited_for_a_slow_gateway_confirm_nothing(virtual_host: VirtualHost) -> None:
    slow = SlowConsole()
    async with slow.running(virtual_host):

        async def has_begun() -> bool:
            await beat(virtual_host, 1)
            return bool(slow.confirmed)

        await eventually(has_begun, "the first heartbeats confirm what is shown")
        taken = slow.taken
        slow.goes_on.clear()

        def publish() -> int:
            """Publish in a thread with a loop of its own, while that of the gateway stands still."""
            try:
                return asyncio.run(beat(virtual_host, HEARTBEATS))
            finally:
                slow.goes_on.set()

        published_at = await asyncio.to_thread(publish)

        async def are_taken() -> bool:
            return slow.taken >= taken + HEARTBEATS

        await eventually(are_taken, "all heartbeats were processed")
        assert CLOCK.now() > published_at + SECOND, "they have waited"
        assert max(slow.confirmed) <= published_at

        async def is_current() -> bool:
            await beat(virtual_host, 1)
            return max(slow.confirmed) > published_at

        await eventually(is_current, "a heartbeat that did not wait confirms what is shown")
