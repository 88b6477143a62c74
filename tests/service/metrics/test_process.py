"""The measurements of a process by itself, and those of the operating system."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys

import pytest
from prometheus_client.process_collector import ProcessCollector

from gateway.service.metrics import families, process
from gateway.service.metrics.families import Metrics, Reading
from gateway.service.metrics.process import CollectionPauses, LoopLag, measured, usage

SAME = {
    families.PROCESS_START.name: "process_start_time_seconds",
    families.PROCESS_CPU.name: "process_cpu_seconds_total",
    families.PROCESS_MEMORY.name: "process_resident_memory_bytes",
    families.PROCESS_FILES.name: "process_open_fds",
    families.PROCESS_MAX_FILES.name: "process_max_fds",
}


def counts(readings: list[Reading], family: str) -> dict[tuple[str, ...], float]:
    return {one.labels: one.value for one in readings if (one.family, one.suffix) == (family, "_count")}


def bucket(readings: list[Reading], end: str) -> float:
    (value,) = [one.value for one in readings if one.suffix == "_bucket" and one.labels[-1] == end]
    return value


async def test_a_loop_that_was_held_is_seen_to_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LAG_INTERVAL_SECONDS", 0.001)
    times = iter([10.0, 10.051])  # due at 10.001, and woken 50 ms after that
    rounds = asyncio.Event()

    def clock() -> float:
        try:
            return next(times)
        except StopIteration:
            rounds.set()
            return 11.0

    lag = LoopLag("core", clock)
    running = asyncio.create_task(lag.run())
    await rounds.wait()
    running.cancel()
    reported = list(lag.readings())
    assert (bucket(reported, "0.025"), bucket(reported, "0.1")) == (0, 1)


def test_the_pauses_of_each_generation_are_distinguished() -> None:
    times = iter([1.0, 1.002, 2.0, 2.2])
    pauses = CollectionPauses("core", lambda: next(times))
    for generation in (0, 2):
        pauses("start", {"generation": generation})
        pauses("stop", {"generation": generation})
    reported = list(pauses.readings())
    assert counts(reported, families.GC_PAUSE.name) == {("core", "0"): 1, ("core", "1"): 0, ("core", "2"): 1}
    slow = [one for one in reported if one.labels == ("core", "2") and one.suffix == "_sum"]
    assert [one.value for one in slow] == [pytest.approx(0.2)]


async def test_a_process_is_measured_as_long_as_it_works() -> None:
    metrics, before = Metrics(), list(gc.callbacks)

    async def work() -> None:
        gc.collect()

    await measured(work(), "core", metrics)
    reported = await metrics.collect()
    assert counts(reported, families.GC_PAUSE.name)["core", "2"] >= 1
    assert gc.callbacks == before


async def test_what_the_work_raises_is_raised() -> None:
    async def work() -> None:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        await measured(work(), "core", Metrics())


def test_the_values_are_those_of_prometheus_client() -> None:
    waits = "import sys; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(  # noqa: S603  our own command
        [sys.executable, "-c", waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        collector = ProcessCollector(pid=lambda: child.pid, registry=None)
        expected = {sample.name: sample.value for metric in collector.collect() for sample in metric.samples}
        found = {reading.family: reading for reading in usage("snmp", child.pid)}
        child.communicate()

    assert {SAME[name] for name in found} == set(SAME.values())
    for name, reading in found.items():
        assert reading.labels == ("snmp",)
        assert reading.value == pytest.approx(expected[SAME[name]], abs=0.02)


def test_a_process_that_has_ended_has_no_readings() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()

    assert list(usage("snmp", child.pid)) == []
    assert len(list(usage("supervisor", os.getpid()))) == len(SAME)
