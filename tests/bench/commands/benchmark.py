"""Commands beside the interpreter that each of them starts; see the package."""

from __future__ import annotations

import contextlib
import copy
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.demo.node_setup import free_ports
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.components.ami_application import connected
from tests.components.command_line import COMMAND, Site, environment, new_site, running
from tests.components.waiting import wait_until

INTERPRETER: Final = "interpreter"
OBJECT: Final = "apps/ami:Tank/bench|t1"
_UNIT: Final = "ms of CPU per command"


class CommandsBenchmark:
    """The benchmark of commands; see the package."""

    name = "commands"
    title = "Commands"

    def measure(self, run: Run) -> None:
        """Measure, as `tests.bench.run.Benchmark` requires."""
        site, (port,) = new_site(run.folder), free_ports(1)
        few, many = (_checked(site, count) for count in (1, 1 + run.count(400, 20)))
        site.configure(sources={"apps": {"kind": "ami", "listen": f"127.0.0.1:{port}"}})
        config = ("--config", str(site.configuration))
        commands = {
            "health": ("health", *config),
            "get": ("get", OBJECT, *config),
            "check": ("check", "--config", str(few)),
        }
        of_source: list[float] = []
        with contextlib.ExitStack() as stack:
            log = run.folder / "log"
            stack.enter_context(running("run", *config, log=log)).ready()
            application = stack.enter_context(connected(port))
            application.log_in("bench")
            application.say('O|T="Tank"|I="t1"|level=5')
            wait_until(lambda: all(_succeeds(words) for words in commands.values()), "all of them succeed")
            for _ in run.rounds():
                alone = _cost((sys.executable, "-c", "pass"), run.count(5, 1))
                for name, words in commands.items():
                    case = Case(name, _UNIT, Reading.COST)
                    run.record(case, OURS, _cost((*COMMAND, *words), run.count(5, 1)))
                    run.record(case, INTERPRETER, alone)
                costs = [
                    _cost((*COMMAND, "check", "--config", str(each)), run.count(3, 1)) for each in (few, many)
                ]
                of_source.append((costs[1] - costs[0]) / run.count(400, 20))
        run.figure("check, for each further source", f"{statistics.median(of_source):.2f} ms of CPU")


def _checked(site: Site, count: int) -> Path:
    """Write a configuration with so many sources of kind rabbitmq; return its path."""
    source = {
        "kind": "rabbitmq",
        "management": "http://127.0.0.1:15672",
        "events": {"url": "amqp://127.0.0.1:5672"},
        "user": "gateway",
        "password": site.secret("sesame"),
    }
    # Copies, each of which is written in full.
    site.configure(sources={f"broker-{number}": copy.deepcopy(source) for number in range(count)})
    return site.configuration.rename(site.folder / f"check-{count}.yaml")


def _succeeds(words: Sequence[str]) -> bool:
    done = subprocess.run(  # noqa: S603  our own command
        [*COMMAND, *words], env=environment(), capture_output=True, check=False
    )
    return done.returncode == 0


def _cost(words: Sequence[str], times: int) -> float:
    """Return the milliseconds of processor time of a command, the median of several times.

    Raises:
        AssertionError: it failed.
    """
    costs = []
    for _ in range(times):
        process = os.posix_spawn(
            words[0],
            tuple(words),
            environment(),
            file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
        )
        _, status, usage = os.wait4(process, 0)
        assert os.waitstatus_to_exitcode(status) == 0, words
        costs.append((usage.ru_utime + usage.ru_stime) * 1000)
    return statistics.median(costs)
