"""Processor time and memory of brokers that are watched, by the gateway and by other programs."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

import aio_pika
import psutil
from aio_pika.abc import AbstractChannel

from gateway.demo.broker import PrivateBroker
from gateway.demo.installation import DebianRootError, debian_release, ensure_made
from tests.bench.rabbitmq.watchers import Source, Unwatched, Watcher, management_page, scrape
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.components.rabbitmq import TEST_SETTINGS

RELEASE: Final = "4.0"
UNWATCHED, LISTING, SCRAPE, PAGE = "unwatched", "paged-listing", "prometheus", "management-page"

_MEGABYTE: Final = 2**20
_LEAST: Final = 0.01
"""The lowest number of seconds of processor time that the kernel distinguishes from none."""
_SETTLING_SECONDS: Final = 180.0
_TURN_SECONDS: Final = 40
_BEGINNING_SECONDS: Final = 75
"""Seconds after the first reading: a long listing is soon repeated, then at the pace of the budget."""
_LOOKS_SECONDS: Final = 1.0
"""Seconds between two checks of the age of the values."""
_ROUNDS_SECONDS: Final = 630.0
"""Seconds for all rounds: long enough for the cost of reads that are made every half minute to show."""
_CHANNELS: Final = 4
"""The number of channels on which queues are declared in parallel."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """The cost of a side's turn for the broker, as a share of a processor; the highest age of a value (s)."""

    share: float
    oldest: float


@dataclass(slots=True)
class Watched:
    """A broker, its number of queues, its watchers, and its memory (bytes) at the end of each turn."""

    broker: PrivateBroker
    queues: int
    sides: Mapping[str, Watcher]
    memory_with: dict[str, float] = field(default_factory=dict)

    def processor_time(self) -> float:
        """Return the seconds of processor time that its node has used so far."""
        times = self._node().cpu_times()
        return float(times.user + times.system)

    def memory(self) -> float:
        """Return the octets of memory of its node."""
        return float(self._node().memory_info().rss)

    def _node(self) -> psutil.Process:
        node = self.broker.node_process()
        if node is None:
            raise RuntimeError("the broker does not run")
        return psutil.Process(node)


class RabbitMqBenchmark:
    """The benchmark of watching RabbitMQ; see the package."""

    name = "rabbitmq"
    title = "RabbitMQ: what watching costs the broker"

    def measure(self, run: Run) -> None:
        """Measure, as `tests.bench.run.Benchmark` requires."""
        with ExitStack() as stack:
            release = _release(run)
            counts = (0, run.count(5_000, 10), *(() if run.quick else (20_000,)))
            brokers = [_watched(stack, release, queues) for queues in counts]
            asyncio.run(_measure(run, brokers))


def _release(run: Run) -> str:
    """Return the Debian release whose RabbitMQ counts by queue, or "" for the installed one."""
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
        OURS: Source(broker, queues, metrics=True),
        LISTING: Source(broker, queues, metrics=False),
        SCRAPE: scrape(broker),
        PAGE: management_page(broker),
        UNWATCHED: Unwatched(),
    }
    return Watched(broker, queues, sides)


async def _measure(run: Run, brokers: list[Watched]) -> None:
    await asyncio.gather(*(_declare(one) for one in brokers))
    for side, watcher in brokers[0].sides.items():
        if isinstance(watcher, Source):
            run.say(f"first reading: {side}")
            await asyncio.gather(*(_first_reading(run, one, side) for one in brokers))
    seconds = run.count(_TURN_SECONDS, 2)
    run.allow(_ROUNDS_SECONDS)
    spent: dict[tuple[int, str], list[float]] = {}
    for _ in run.rounds():
        for side in brokers[0].sides:
            turns = await asyncio.gather(*(_turn(one, side, seconds) for one in brokers))
            for one, turn in zip(brokers, turns, strict=True):
                _record(run, one, side, turn)
                spent.setdefault((one.queues, side), []).append(turn.share)
                one.memory_with[side] = one.memory()
    for one in brokers:
        for side, memory in one.memory_with.items():
            more = statistics.median(spent[one.queues, side]) - statistics.median(
                spent[one.queues, UNWATCHED]
            )
            beside = "" if side == UNWATCHED else f", {100 * more:+.1f} % of a core"
            run.figure(f"{one.queues} queues, {side}", f"{memory / _MEGABYTE:.0f} MB{beside}")


async def _first_reading(run: Run, watched: Watched, side: str) -> None:
    """Let one of our sides begin, and continue until soon after the first reading."""
    watcher = watched.sides[side]
    if not isinstance(watcher, Source):
        raise TypeError(f"{side} reads nothing first")
    used, seconds = watched.processor_time(), run.count(_BEGINNING_SECONDS, 2)
    await _turn(watched, side, seconds)
    times = [f"{what} {seconds:.1f} s" for what, seconds in watcher.milestones.items()]
    times.append(f"{watched.processor_time() - used:.1f} s of CPU until {seconds} s later")
    run.figure(f"{watched.queues} queues, {side}, first reading", ", ".join(times))


def _record(run: Run, watched: Watched, side: str, turn: _Turn) -> None:
    processor = Case(f"cpu{watched.queues}", "s of CPU a minute", Reading.COST)
    run.record(processor, side, max(60 * turn.share, _LEAST))
    if isinstance(watched.sides[side], Source) and watched.queues:
        age = Case(f"age{watched.queues}", "s, the oldest value", Reading.COST)
        run.record(age, side, max(turn.oldest, _LEAST))


async def _turn(watched: Watched, side: str, seconds: float) -> _Turn:
    """Let a side watch until it has read everything once, and then for this many seconds."""
    watcher = watched.sides[side]
    watching = asyncio.create_task(watcher.watch())
    settling = asyncio.create_task(watcher.settled())
    try:
        await asyncio.wait(
            {watching, settling}, timeout=_SETTLING_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if watching.done():
            watching.result()
        if not settling.done():
            raise RuntimeError(f"{side} has not read {watched.queues} queues in {_SETTLING_SECONDS:g} s")
        return await _measured(watched, watcher, watching, seconds)
    finally:
        for task in (watching, settling):
            task.cancel()
        await asyncio.gather(watching, settling, return_exceptions=True)


async def _measured(
    watched: Watched, watcher: Watcher, watching: asyncio.Task[None], seconds: float
) -> _Turn:
    """Return the broker's processor share in this time, and the highest age of a value."""
    began, used, oldest = time.monotonic(), watched.processor_time(), 0.0
    while (left := began + seconds - time.monotonic()) > 0:
        done, _ = await asyncio.wait({watching}, timeout=min(left, _LOOKS_SECONDS))
        for ended in done:
            ended.result()
        if isinstance(watcher, Source):
            oldest = max(oldest, watcher.ages()[1])
    passed = max(time.monotonic() - began, _LEAST)
    return _Turn((watched.processor_time() - used) / passed, oldest)


async def _declare(watched: Watched) -> None:
    """Declare the broker's queues, and publish a message to each."""
    async with await aio_pika.connect(watched.broker.amqp_url()) as client:
        channels = [await client.channel(publisher_confirms=False) for _ in range(_CHANNELS)]

        async def declare(channel: AbstractChannel, first: int) -> None:
            for number in range(first, watched.queues, _CHANNELS):
                queue = await channel.declare_queue(f"customer-{number:06d}.orders", durable=True)
                await channel.default_exchange.publish(aio_pika.Message(b"x"), queue.name)

        await asyncio.gather(*(declare(channel, first) for first, channel in enumerate(channels)))
