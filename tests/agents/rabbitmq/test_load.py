"""What reading costs the broker: processor time of its node with the agent, less that without.

The figures stand in the test report as properties; with ``PROVE=1`` there are 5,000 queues too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aio_pika
import psutil
import pytest

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.model.observations import SourceState
from tests.agents.rabbitmq.watching import Watch, watch
from tests.components.waiting import eventually
from tests.hypothesis_profiles import PROVING

LIMIT = 0.05
"""Of one core."""
QUICK_SECONDS, LONG_SECONDS = 10.0, 120.0
"""A long one holds several listings of 5,000 queues, which come every half minute or more."""


def processor_time(broker: PrivateBroker) -> float:
    """Seconds of processor time that the node has used."""
    process = broker.node_process()
    assert process is not None
    times = psutil.Process(process).cpu_times()
    return times.user + times.system


async def used(broker: PrivateBroker, seconds: float) -> float:
    """Processor time per second that the node uses over the next ``seconds``."""
    before = processor_time(broker)
    await asyncio.sleep(seconds)  # the measurement itself
    return (processor_time(broker) - before) / seconds


async def declare_queues(broker: PrivateBroker, count: int) -> None:
    async with await aio_pika.connect(broker.amqp_url()) as client:
        channel = await client.channel()
        for first in range(0, count, 200):
            names = [f"load.{number:05}" for number in range(first, min(first + 200, count))]
            await asyncio.gather(*(channel.declare_queue(name, durable=True) for name in names))


async def everything_read(watched: Watch, queues: int) -> None:
    async def read() -> bool:
        return (
            watched.status is not None
            and watched.status.state is SourceState.SYNCHRONISED
            and sum(known.statistics[0] is not None for known in watched.agent.known("queue")) == queues
        )

    await eventually(read, "all queues are read", deadline=180.0)


@pytest.mark.parametrize("queues", [10, 5_000] if PROVING else [10])
async def test_polling_costs_less_than_five_percent_of_a_core(
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker],
    record_property: Callable[[str, object], None],
    queues: int,
) -> None:
    broker = await asyncio.to_thread(start_rabbitmq, BrokerSettings(grace=0))
    seconds = LONG_SECONDS if PROVING else QUICK_SECONDS
    await declare_queues(broker, queues)
    await used(broker, 5.0)  # the declarations' own aftermath
    without = await used(broker, seconds)
    async with watch(broker, broker.administrator) as watched:
        await everything_read(watched, queues)
        reading = await used(broker, seconds)
    record_property("queues", queues)
    record_property("core_without", round(without, 4))
    record_property("core_with", round(reading, 4))
    print(f"{queues} queues: {without:.2%} of a core without, {reading:.2%} with the agent")  # noqa: T201
    assert reading - without < LIMIT
