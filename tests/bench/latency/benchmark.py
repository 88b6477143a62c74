"""AMQP to SNMP, JMX, log and trap: the latency of each, beside publishing and consuming alone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
import statistics
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from tests.bench.jmx.programs import compile_java, load_client
from tests.bench.latency.agent import FIRST_READING
from tests.bench.latency.sightings import Sightings, commits, notifications, number_in, traps, values
from tests.bench.latency.site import Publishing, Scene, scene
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.components.waiting import DEADLINE, eventually
from tests.snmp.datagrams import read_answer, request

YARDSTICK: Final = "yardstick"
ALL, SNMP, JMX, LOG, TRAP = "latency", "latency-snmp", "latency-jmx", "latency-log", "latency-trap"
"""The rows; the first is of the time when all others have seen a sample."""

_PROVISIONAL: Final[Oid] = (1, 3, 6, 1, 4, 1, 8072, 9999, 9999, 3)
"""The OID of classes that no lock knows, below the default root."""

_LONGEST_GAP_SECONDS: Final = 0.05
_FIRST_SECONDS: Final = 1.0
_MAX_DATAGRAM: Final = 65_535
_MILLISECOND: Final = 1e6


class LatencyBenchmark:
    """The benchmark of latency; see the package."""

    name = "latency"
    title = "Latency"

    def measure(self, run: Run) -> None:
        """Measure, as `tests.bench.run.Benchmark` requires."""
        asyncio.run(_measure(run))


async def _measure(run: Run) -> None:
    async with scene(run.folder) as there, _observers(run, there) as observers:
        samples = _Samples(there.publishing, observers)
        await samples.until_all_see_one()
        taken: dict[str, list[float]] = {}
        for _ in run.rounds():
            of_round = await samples.take(run.count(300, 5))
            for place, milliseconds in of_round.items():
                taken.setdefault(place, []).extend(milliseconds)
                if place != YARDSTICK:
                    case = Case(place, "ms, 99th percentile", Reading.COST)
                    run.record(case, OURS, percentile(milliseconds, 99))
                    run.record(case, YARDSTICK, percentile(of_round[YARDSTICK], 99))
        for place, milliseconds in taken.items():
            shown = (statistics.median(milliseconds), percentile(milliseconds, 99), max(milliseconds))
            run.figure(
                f"{place}: median, 99th percentile, longest", "{:.1f}, {:.1f}, {:.1f} ms".format(*shown)
            )


class _Samples:
    """A publisher of samples, with the observers of their arrival.

    Args:
        publishing: the publisher.
        observers: the observers, by the rows' names.
    """

    def __init__(self, publishing: Publishing, observers: Mapping[str, Sightings]) -> None:
        self._publishing = publishing
        self._observers = observers
        self._numbers = itertools.count(1)
        self._random = random.Random(1)  # noqa: S311  gaps, not secrets

    async def until_all_see_one(self) -> None:
        """Publish until every observer sees a sample.

        Raises:
            AssertionError: an observer never does.
        """

        async def seen() -> bool:
            number = next(self._numbers)
            await self._publishing.sample(number)
            await self._publishing.yardstick(number)
            return None not in await self._sightings(number, _FIRST_SECONDS)

        await eventually(seen, f"a sample is seen at {', '.join(self._observers)}")

    async def take(self, count: int) -> dict[str, list[float]]:
        """Return milliseconds of so many samples, by the rows' names, and of as many yardsticks, in turns."""
        taken: dict[str, list[float]] = {name: [] for name in (*self._observers, ALL, YARDSTICK)}
        for _ in range(count):
            number = next(self._numbers)
            # Nothing of ours works in step with this: gaps of any length meet any of its moments.
            await asyncio.sleep(self._random.uniform(0, _LONGEST_GAP_SECONDS))
            start = await self._publishing.sample(number)
            for name, moment in zip(self._observers, await self._sightings(number), strict=True):
                assert moment is not None, f"sample {number} was not seen at {name}"
                taken[name].append((moment - start) / _MILLISECOND)
            taken[ALL].append(max(taken[name][-1] for name in self._observers))
            await asyncio.sleep(self._random.uniform(0, _LONGEST_GAP_SECONDS))
            taken[YARDSTICK].append(await self._publishing.yardstick(number) / _MILLISECOND)
        return taken

    async def _sightings(self, number: int, seconds: float = DEADLINE) -> list[int | None]:
        return await asyncio.gather(*(seen.of(number, seconds) for seen in self._observers.values()))


@asynccontextmanager
async def _observers(run: Run, there: Scene) -> AsyncIterator[Mapping[str, Sightings]]:
    """Provide all observers, by the rows' names."""
    loop = asyncio.get_running_loop()
    jar = await asyncio.to_thread(compile_java, run.folder)
    community = there.site.state.secret("community").encode()
    reading = await _instance_of_the_meter(there.snmp_port, community)
    password = there.site.state.secret("jmx-monitor")
    seen = {name: Sightings(loop) for name in (SNMP, JMX, LOG, TRAP)}
    with contextlib.ExitStack() as stack:
        load = stack.enter_context(load_client(jar, there.jmx_port, "monitor", password))
        await asyncio.to_thread(load.ask, "listen", "amqp.gateway:type=Gateway")
        asking = request(message.GET, [reading], community=community)
        stack.enter_context(values(asking, there.snmp_port, seen[SNMP]))
        stack.enter_context(notifications(load, seen[JMX]))
        stack.enter_context(commits(there.site.state.path / "log", seen[LOG]))
        stack.enter_context(traps(there.traps, seen[TRAP]))
        yield seen


async def _instance_of_the_meter(port: int, community: bytes) -> Oid:
    """Return the instance with the object's value in SNMP, as soon as it is shown.

    Raises:
        AssertionError: it is never shown.
    """
    found: list[Oid] = []

    async def look() -> bool:
        found[:] = await asyncio.to_thread(_instances_with, FIRST_READING, port, community)
        return bool(found)

    await eventually(look, "the agent's object is shown by SNMP")
    return found[0]


def _instances_with(number: int, port: int, community: bytes) -> list[Oid]:
    """Return the instances with this value among those of classes that no lock knows."""
    found: list[Oid] = []
    here = _PROVISIONAL
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.settimeout(DEADLINE)
        agent.connect(("127.0.0.1", port))
        while True:
            agent.send(request(message.GET_NEXT, [here], community=community))
            answer = agent.recv(_MAX_DATAGRAM)
            ((here, value),) = read_answer(answer).varbinds
            if here[: len(_PROVISIONAL)] != _PROVISIONAL or value == ber.END_OF_MIB_VIEW:
                return found
            if number_in(answer) == number:
                found.append(here)


def percentile(values: Sequence[float], hundredth: int) -> float:
    """Return the percentile ``hundredth`` of the values, by the nearest-rank method."""
    return sorted(values)[-(-len(values) * hundredth // 100) - 1]
