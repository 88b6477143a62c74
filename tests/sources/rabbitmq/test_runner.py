"""The runner of a RabbitMQ source: its duties beside carrying out effects."""

from __future__ import annotations

import asyncio

from gateway.clock import SystemClock
from gateway.model.observations import SourceState
from gateway.model.times import MILLISECOND
from gateway.sources.rabbitmq.management_api import Answer, ManagementRequest
from gateway.sources.rabbitmq.runner import SourceRunner
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_config import PollingConfig, RabbitMqSourceConfig
from gateway.sources.rabbitmq.status import SourceStatus
from tests.sources.rabbitmq.imitation import MAPPING, ImitatedBroker


class HangingBroker:
    """A broker that answers until a test lets it hang."""

    def __init__(self) -> None:
        self._broker = ImitatedBroker()
        self.hangs = False

    async def read(self, request: ManagementRequest) -> Answer:
        if self.hangs:
            await asyncio.Event().wait()
        return self._broker.answer(request)


async def test_a_status_that_time_alone_changes_is_reported() -> None:
    """A broker that accepts a request and does not answer is down when the source's timer has expired."""
    polling = PollingConfig(interval=50 * MILLISECOND, slow={})
    source = RabbitMqSource(
        RabbitMqSourceConfig("u", silence_limit=300 * MILLISECOND, polling=polling), MAPPING
    )
    broker = HangingBroker()
    synchronised, down = asyncio.Event(), asyncio.Event()

    def on_status(status: SourceStatus) -> None:
        if status.state is SourceState.SYNCHRONISED:
            synchronised.set()
        elif synchronised.is_set() and status.state is SourceState.DOWN:
            down.set()

    runner = SourceRunner(source, broker, lambda _: None, SystemClock(), on_status=on_status)
    running = asyncio.create_task(runner.run())
    try:
        await asyncio.wait_for(synchronised.wait(), 60)
        broker.hangs = True
        await asyncio.wait_for(down.wait(), 60)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
