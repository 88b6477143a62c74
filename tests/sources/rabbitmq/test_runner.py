"""The runner of a RabbitMQ source: its duties beside carrying out effects."""

from __future__ import annotations

import asyncio

import pytest

from gateway.clock import SystemClock
from gateway.model.observations import SourceState
from gateway.model.times import MILLISECOND
from gateway.sources.rabbitmq.management_api import Answer, ListingRequest, ManagementRequest
from gateway.sources.rabbitmq.runner import SourceRunner
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_config import PollingConfig, RabbitMqSourceConfig
from gateway.sources.rabbitmq.status import SourceStatus
from tests.components.waiting import until
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


class SlowBroker:
    """A broker whose listings of queues take a second; it answers other requests at once."""

    def __init__(self) -> None:
        self._broker = ImitatedBroker()
        for number in range(1_000):
            self._broker.add_queue(f"q{number}")
        self.answers_others = True
        self.listed = 0

    async def read(self, request: ManagementRequest) -> Answer:
        if not isinstance(request, ListingRequest) or request.class_name != "queue":
            if not self.answers_others:
                await asyncio.Event().wait()
            return self._broker.answer(request)
        await asyncio.sleep(1)
        self.listed += 1
        return self._broker.answer(request)


async def test_a_long_listing_is_waited_for_while_the_broker_answers_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.sources.rabbitmq.runner.LISTING_PATIENCE", 100 * MILLISECOND)
    source = RabbitMqSource(
        RabbitMqSourceConfig("u", silence_limit=700 * MILLISECOND, polling=PollingConfig(slow={})), MAPPING
    )
    broker = SlowBroker()
    statuses: list[SourceStatus] = []
    runner = SourceRunner(source, broker, lambda _: None, SystemClock(), on_status=statuses.append)
    running = asyncio.create_task(runner.run())
    try:
        await until(lambda: broker.listed >= 3, "queues are listed")
        assert SourceState.DOWN not in {status.state for status in statuses}
        broker.answers_others = False
        await until(lambda: statuses[-1].state is SourceState.DOWN, "the broker is silent")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


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
