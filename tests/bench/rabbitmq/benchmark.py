"""Processor time and memory of brokers that are watched, beside what else watches brokers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import aio_pika
import psutil

from gateway.demo.broker import PrivateBroker
from gateway.demo.debian_root import DebianRootError, ensure_made
from gateway.demo.installation import debian_release
from tests.bench.rabbitmq.watchers import Nobody, Source, Watcher, management_page, scrape
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.components.rabbitmq import TEST_SETTINGS

RELEASE: Final = "4.0"
NOBODY, LISTING, SCRAPE, PAGE = "nobody", "paged-listing", "prometheus", "management-page"

_MEGABYTE: Final = 2**20
_LEAST: Final = 0.01
"""Seconds of processor time that the kernel can tell from none."""
_SETTLING_SECONDS: Final = 180.0


@dataclass(slots=True)
class Watched:
    """A broker, how many queues it has, and who may watch it."""

    broker: PrivateBroker
    queues: int
    sides: Mapping[str, Watcher]

    def processor_time(self) -> float:
        """Seconds that its node has used so far."""
        times = self._node().cpu_times()
        return float(times.user + times.system)

    def memory(self) -> float:
        """Octets of its node."""
        return float(self._node().memory_info().rss)

    def _node(self) -> psutil.Process:
        node = self.broker.node_process()
        if node is None:
            raise RuntimeError("the broker does not run")
        return psutil.Process(node)


class RabbitMqBenchmark:
    """See the package."""

    name = "rabbitmq"
    title = "RabbitMQ: what watching costs the broker"

    def measure(self, run: Run) -> None:
        """As `tests.bench.run.Benchmark` has it."""
        with ExitStack() as stack:
            release = _release(run)
            counts = (0, run.count(5_000, 10), *(() if run.quick else (20_000,)))
            brokers = [_watched(stack, release, queues) for queues in counts]
            asyncio.run(_measure(run, brokers))


def _release(run: Run) -> str:
    """The Debian release whose RabbitMQ counts by queue, else what is installed."""
    debian = debian_release(RELEASE)
    if not debian:
        return ""
    try:
        ensure_made(debian, run.say)
    except DebianRootError as error:
        run.say(f"RabbitMQ as it is installed, which may not count by queue: {error}")
        return ""
    return debian


def _watched(stack: ExitStack, release: str, queues: int) -> Watched:
    settings = replace(
        TEST_SETTINGS, debian=release, plugins=("rabbitmq_prometheus",), statistics_interval=5.0
    )
    broker = stack.enter_context(PrivateBroker(settings=settings))
    sides: Mapping[str, Watcher] = {
        OURS: Source(broker, metrics=True),
        LISTING: Source(broker, metrics=False),
        SCRAPE: scrape(broker),
        PAGE: management_page(broker),
        NOBODY: Nobody(),
    }
    return Watched(broker, queues, sides)


async def _measure(run: Run, brokers: list[Watched]) -> None:
    await asyncio.gather(*(_declare(one) for one in brokers))
    seconds = run.count(20, 2)
    memory: dict[str, list[float]] = {}
    for _ in run.rounds():
        for side in brokers[0].sides:
            used = await asyncio.gather(*(_turn(one, side, seconds) for one in brokers))
            for one, spent in zip(brokers, used, strict=True):
                case = Case(f"cpu{one.queues}", "s of CPU a minute", Reading.COST)
                run.record(case, side, max(spent, _LEAST) * 60 / seconds)
                memory.setdefault(f"{one.queues} queues, {side}", []).append(one.memory())
                watcher = one.sides[side]
                if isinstance(watcher, Source) and one.queues:
                    age = Case(f"age{one.queues}", "s, the oldest value", Reading.COST)
                    run.record(age, side, max(watcher.ages()[1], _LEAST))
    for name, sizes in memory.items():
        run.figure(f"memory of the broker with {name}", f"{sizes[-1] / _MEGABYTE:.0f} MB")


async def _turn(watched: Watched, side: str, seconds: float) -> float:
    """Let a side watch; the seconds of processor time that the broker used after it had settled."""
    watcher = watched.sides[side]
    watching = asyncio.create_task(watcher.watch())
    try:
        end = time.monotonic() + _SETTLING_SECONDS
        while not watcher.is_settled:
            if watching.done():
                watching.result()
            if time.monotonic() > end:
                raise RuntimeError(f"{side} has not read {watched.queues} queues in {_SETTLING_SECONDS:g} s")
            await asyncio.sleep(0.05)
        began = watched.processor_time()
        done, _ = await asyncio.wait({watching}, timeout=seconds)
        for ended in done:
            ended.result()
        return watched.processor_time() - began
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _declare(watched: Watched) -> None:
    """Declare the broker's queues, and have a message in each."""
    async with await aio_pika.connect(watched.broker.amqp_url()) as client:
        channel = await client.channel(publisher_confirms=False)
        for number in range(watched.queues):
            queue = await channel.declare_queue(f"customer-{number:06d}.orders", durable=True)
            await channel.default_exchange.publish(aio_pika.Message(b"x"), queue.name)
