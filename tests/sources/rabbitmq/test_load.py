"""The cost of reading for the broker: processor time of its node with the source, less that without.

The figures stand in the test report as properties.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass

import aio_pika
import psutil
import pytest

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.model.observations import SourceState
from gateway.sources.rabbitmq.source_config import PollingConfig
from tests.components.waiting import eventually
from tests.sources.rabbitmq.test_live_classes import acknowledge
from tests.sources.rabbitmq.watching import Watch, watch

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)

LIMIT = 0.05
"""The permitted share of one core."""
SECONDS = 120.0
"""The seconds of a measurement: several listings of 5,000 queues, which come every half minute or more."""


@dataclass(frozen=True, slots=True)
class Load:
    """The objects of a broker.

    Each client consumes on a channel of its own; bindings lead from one exchange to all queues.
    """

    queues: int
    clients: int = 0
    bindings: int = 0


LOADS = [Load(10, 5, 20), Load(5_000), Load(100, 1_000, 10_000)]


def processor_time(broker: PrivateBroker) -> float:
    """Return the seconds of processor time that the node has used."""
    process = broker.node_process()
    assert process is not None
    times = psutil.Process(process).cpu_times()
    return times.user + times.system


async def used(broker: PrivateBroker, seconds: float) -> float:
    """Return the processor time per second that the node uses over the next ``seconds``."""
    before = processor_time(broker)
    await asyncio.sleep(seconds)  # the measurement itself
    return (processor_time(broker) - before) / seconds


@asynccontextmanager
async def loaded(broker: PrivateBroker, load: Load) -> AsyncIterator[None]:
    """Create the load, and keep its clients while the context is open."""
    names = [f"load.{number:05}" for number in range(load.queues)]
    async with AsyncExitStack() as clients:
        client = await clients.enter_async_context(await aio_pika.connect(broker.amqp_url()))
        channel = await client.channel()
        for first in range(0, load.queues, 200):
            some = names[first : first + 200]
            await asyncio.gather(*(channel.declare_queue(name, durable=True) for name in some))
        source = await channel.declare_exchange("load", "topic", durable=True)
        for number in range(load.bindings):
            queue = await channel.get_queue(names[number % load.queues], ensure=False)
            await queue.bind(source, f"region.{number}.orders")
        for number in range(load.clients):
            consumer = await clients.enter_async_context(await aio_pika.connect(broker.amqp_url()))
            queue = await (await consumer.channel()).get_queue(names[number % load.queues], ensure=False)
            await queue.consume(acknowledge)
        yield


async def everything_read(watched: Watch, load: Load) -> None:
    async def read() -> bool:
        return (
            watched.status is not None
            and watched.status.state is SourceState.SYNCHRONISED
            and sum(known.statistics[0] is not None for known in watched.source.known("queue")) == load.queues
            and len(list(watched.source.known("consumer"))) == load.clients
            and len(list(watched.source.known("binding"))) == load.bindings
        )

    await eventually(read, "everything is read", deadline=900.0)


@pytest.mark.long
@pytest.mark.prove  # a measurement; by which budget it polls, test_polling.py shows
@pytest.mark.parametrize("load", LOADS, ids=lambda load: f"{load.queues}-{load.clients}-{load.bindings}")
async def test_polling_costs_less_than_five_percent_of_a_core(
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker],
    record_property: Callable[[str, object], None],
    load: Load,
) -> None:
    broker = await asyncio.to_thread(start_rabbitmq, BrokerSettings(grace=0))
    async with loaded(broker, load):
        await used(broker, 5.0)  # the declarations' own aftermath
        without = await used(broker, SECONDS)
        async with watch(broker, broker.administrator, polling=PollingConfig()) as watched:
            await everything_read(watched, load)
            reading = await used(broker, SECONDS)
    for name, count in asdict(load).items():
        record_property(name, count)
    record_property("core_without", round(without, 4))
    record_property("core_with", round(reading, 4))
    print(f"{load}: {without:.2%} of a core without, {reading:.2%} with the agent")  # noqa: T201
    assert reading - without < LIMIT
