"""Attributes read, values pushed, MBeans registered: ours and the platform's, in one virtual machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from gateway.demo.node_setup import free_ports
from tests.bench.feed_player import FeedPlayer, frames
from tests.bench.jmx.programs import Load, compile_java, load_client, runtime_with_agent
from tests.bench.jmx.queues import ALL_QUEUES, STATISTICS, deletions, preface, queue_name, queues, updates
from tests.bench.jmx.steady import observe_steady_load
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.components.command_line import new_site, running

NATIVE: Final = "native-mxbean"
SIDES: Final = (OURS, NATIVE)
_NATIVE_QUEUES: Final = "native:source=native,package=bench,type=queue,*"
_NATIVE_QUEUE: Final = "native:source=native,package=bench,type=queue,name=queue-000000"
_NATIVE_WORK: Final = "native:type=NativeWork"

_GET: Final = Case("getAttribute", "us per call", Reading.COST)
_GET_BUSY: Final = Case("getAttribute-busy", "us per call", Reading.COST)
_GET_12: Final = Case("getAttributes12", "us per call", Reading.COST)
_PUSH: Final = Case("push", "objects/s", Reading.RATE)
_REGISTER: Final = Case("register", "MBeans/s", Reading.RATE)

_TURNS: Final = 40
"""The number of turns of each side in a round: short ones, so that both meet the same disturbances."""

_HEAP_MIB: Final = 512

_MANY: Final = 100_000
_RATE: Final = 10_000
"""The MBeans and the updates a second of the steady load."""

_PREPARATION_SECONDS: Final = 120.0


class JmxBenchmark:
    """The benchmark of JMX; see the module."""

    name = "jmx"
    title = "JMX"

    def measure(self, run: Run) -> None:
        """Measure, as `tests.bench.run.Benchmark` requires."""
        with _scene(run) as scene:
            scene.compare()
            scene.warm_up()
            shares = []
            for _ in run.rounds():
                scene.get(_GET)
                scene.get(_GET_12)
                shares.append(scene.get_while_busy())
                scene.push()
                scene.register()
            run.figure(
                "processor time of the busy Python", f"{min(shares):.0%} to {max(shares):.0%} of a core"
            )
        count, rate = run.count(_MANY, 100), run.count(_RATE, 100)
        run.allow(run.observe + _PREPARATION_SECONDS)
        with _fed_process(run.folder / "steady", count, native=0) as (feed, load, process):
            # What was sent behind the last queue is seen when all are registered.
            feed.send(frames(updates([0], 1)))
            load.time("await", queue_name(0), STATISTICS[0], 1)
            observe_steady_load(run, feed, load, process, count, rate)


class _Scene:
    """The process with its queues, its feed, and the client.

    Args:
        run: receives the readings.
        feed: the feed of the process, which has sent the queues.
        load: a client of the process.
        process: the Python process.
        count: the number of queues.
    """

    def __init__(self, run: Run, feed: FeedPlayer, load: Load, process: psutil.Process, count: int) -> None:
        self._run = run
        self._feed = feed
        self._load = load
        self._process = process
        self._count = count
        self._calls = run.count(250, 3)
        self._value = 0
        self._next_row = count

    def compare(self) -> None:
        """Assert that both sides give the same answers to the requests below."""
        self._load.ask("read", _NATIVE_WORK, "set:1")
        expected = ",".join(str(number) for number in range(len(STATISTICS)))
        for name in (queue_name(0), _NATIVE_QUEUE):
            answer = self._load.ask("read", name, ",".join(STATISTICS))
            assert answer == expected, f"{name} answers {answer}"
        for side, pattern in ((OURS, ALL_QUEUES), (NATIVE, _NATIVE_QUEUES)):
            found = int(self._load.ask("target", side, pattern))
            assert found == self._count, f"{found} MBeans match {pattern}"

    def warm_up(self) -> None:
        """Call everything until the compilers of both virtual machines are done."""
        for _ in range(3 * _TURNS):
            for side in SIDES:
                self._get(_GET, side)
                self._get(_GET_12, side)
        for _ in range(2):
            for once in (self._push, self._push_native, self._register, self._register_native):
                once()

    def get(self, case: Case) -> None:
        """Record one reading of each side."""
        took = dict.fromkeys(SIDES, 0)
        for _ in range(_TURNS):
            for side in SIDES:
                took[side] += self._get(case, side)
        for side, nanoseconds in took.items():
            self._run.record(case, side, nanoseconds / 1000 / self._calls / _TURNS)

    def get_while_busy(self) -> float:
        """Record the same while Python is saturated with updates; return the part of a core that it uses."""
        octets = b"".join(frames(updates(range(self._count), value)) for value in (1, 2))
        began, enough = threading.Event(), threading.Event()

        def feed() -> None:
            while not enough.is_set():
                self._feed.send(octets)
                began.set()

        feeding = threading.Thread(target=feed)
        feeding.start()
        try:
            began.wait()
            start, before = time.monotonic(), self._processor_seconds()
            self.get(_GET_BUSY)
            return (self._processor_seconds() - before) / (time.monotonic() - start)
        finally:
            enough.set()
            feeding.join()
            self._settle()

    def push(self) -> None:
        """Record one reading of each side."""
        self._run.record(_PUSH, OURS, self._push())
        self._run.record(_PUSH, NATIVE, self._push_native())

    def register(self) -> None:
        """Record one reading of each side."""
        self._run.record(_REGISTER, OURS, self._register())
        self._run.record(_REGISTER, NATIVE, self._register_native())

    def _get(self, case: Case, side: str) -> int:
        """Return the nanoseconds of the calls of one turn."""
        if case is _GET_12:
            return self._load.time("getAll", side, ",".join(STATISTICS), self._calls)
        return self._load.time("get", side, STATISTICS[0], self._calls)

    def _push(self) -> float:
        """Return the queues per second of updates of twelve statistics, until a client saw the last."""
        times = self._run.count(3, 1)
        rows = range(self._count)
        octets = b"".join(frames(updates(rows, 1000 + time_)) for time_ in range(times))
        return times * self._count / self._seconds_of(octets)

    def _push_native(self) -> float:
        times = self._run.count(300, 3)
        took = int(self._load.ask("read", _NATIVE_WORK, f"set:{times}"))
        return times * self._count / took * 1e9

    def _register(self) -> float:
        """Return the queues per second that were new in the feed, until a client saw the last."""
        rows = range(self._next_row, self._next_row + self._count)
        self._next_row += self._count
        seconds = self._seconds_of(frames(queues(rows, 0)))
        found = int(self._load.ask("target", "all", ALL_QUEUES))
        assert found == 2 * self._count, f"{found} MBeans instead of {2 * self._count}"
        self._feed.send(frames(deletions(rows)))
        self._settle()
        return self._count / seconds

    def _register_native(self) -> float:
        took = int(self._load.ask("read", _NATIVE_WORK, f"register:{self._count}"))
        return self._count / took * 1e9

    def _seconds_of(self, octets: bytes) -> float:
        """Return the seconds from the first octet sent until a client sees an update sent after the last."""
        start = time.monotonic_ns()
        self._feed.send(octets)
        return (self._settle() - start) / 1e9

    def _settle(self) -> int:
        """Wait until everything that was sent is shown; return the time of that (``time.monotonic_ns``)."""
        self._value += 1_000_000
        self._feed.send(frames(updates([0], self._value)))
        return self._load.time("await", queue_name(0), STATISTICS[0], self._value)

    def _processor_seconds(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system


@contextmanager
def _scene(run: Run) -> Iterator[_Scene]:
    """Provide the process ``jmx`` with queues and as many native ones."""
    count = run.count(10_000, 50)
    with _fed_process(run.folder / "site", count, native=count) as (feed, load, process):
        yield _Scene(run, feed, load, process, count)


@contextmanager
def _fed_process(folder: Path, count: int, native: int) -> Iterator[tuple[FeedPlayer, Load, psutil.Process]]:
    """Provide the process ``jmx`` with a feed that has sent queues, and a client that is logged in."""
    folder.mkdir()
    jar = compile_java(folder)
    java = runtime_with_agent(folder / "java", jar, str(native))
    site = new_site(folder)
    (port,) = free_ports(1)
    listen = f"127.0.0.1:{port}"
    # Without a rule the requests of the user would be refused before they are compared with the peer's.
    rule = {"who": ["jmx:monitor"], "classes": ["*:*"], "set": ["*"], "invoke": ["*"]}
    site.configure(
        jmx={"enabled": True, "listen": listen, "heap": _HEAP_MIB, "java": str(java)},
        operations={"allow": [rule]},
    )
    command = ("process", "jmx", "--config", site.configuration)
    with (
        FeedPlayer(folder / "feed.sock") as feed,
        running(*command, log=folder / "jmx.log") as process,
    ):
        feed.begin([*preface(), *queues(range(count), 0)])
        process.ready()
        with load_client(jar, port, "monitor", site.state.secret("jmx-monitor")) as load:
            yield feed, load, psutil.Process(process.process.pid)
