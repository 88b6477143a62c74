"""Processes of the gateway whose supervisor is killed while they start."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from gateway.cli.process import PROCESSES
from tests.components.command_line import COMMAND, environment, new_site, running
from tests.components.waiting import DEADLINE, wait_until
from tests.service.processes.test_core import processes_of


@contextmanager
def read_by_another(fifo: Path) -> Iterator[None]:
    """Run the block while another process reads the FIFO and waits for more."""
    opened = []

    def is_read() -> bool:
        with contextlib.suppress(OSError):  # nobody reads yet
            opened.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        return bool(opened)

    wait_until(is_read, "somebody reads it")
    try:
        yield
    finally:
        os.close(opened[0])


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


HEAVY = ("asyncio", "pydantic", "structlog", "gateway.config.files")
SLOW = """
import sys

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "gateway.config.files":
            open({fifo!r}).read()

sys.meta_path.insert(0, Slow())
"""
"""A ``sitecustomize`` with which the import of `HEAVY`'s last module takes as long as nothing is written."""


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_that_has_not_even_read_its_configuration_ends_with_its_supervisor(
    tmp_path: Path, name: str
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "sitecustomize.py").write_text(SLOW.format(fifo=str(fifo)))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        started = subprocess.Popen(  # noqa: S603  our own command
            [*COMMAND, "process", name, "--config", tmp_path / "none", "--lifeline", str(theirs.fileno())],
            env=environment(PYTHONPATH=str(tmp_path)),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        with read_by_another(fifo):
            ours.close()
            started.wait(DEADLINE)


def test_the_supervisor_is_watched_before_anything_is_imported_that_takes_long() -> None:
    looked = f"import sys, gateway.cli.process; sys.exit(any(m in sys.modules for m in {HEAVY}))"
    subprocess.run([sys.executable, "-c", looked], check=True, env=environment())  # noqa: S603  our own


def test_a_core_that_starts_lets_go_of_the_state_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    site.configure(snmp={"listen": [f"127.0.0.1:{site.snmp_port}"]}, log={"min_free": 0})
    log = site.state.path / "log"
    log.mkdir()
    os.mkfifo(log / "LOG")
    with running("run", "--config", site.configuration, log=tmp_path / "first") as gateway:
        supervisor = psutil.Process(gateway.process.pid)
        with read_by_another(log / "LOG"):
            core = psutil.Process(processes_of(supervisor)["core"])
            os.kill(gateway.process.pid, signal.SIGKILL)
            gateway.process.wait(DEADLINE)
            wait_until(lambda: has_ended(core), "it has ended")
    (log / "LOG").unlink()
    with running("run", "--config", site.configuration, log=tmp_path / "second") as gateway:
        gateway.ready()


def test_a_process_that_hangs_when_its_supervisor_is_killed_ends_all_the_same() -> None:
    hanging = """
import sys, threading
from gateway.service.processes.parent_guard import ParentGuard
guard = ParentGuard(int(sys.argv[1]))
guard.ready()
print("ready", flush=True)
threading.Event().wait()
"""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-c", hanging, str(theirs.fileno())]
        started = subprocess.Popen(  # noqa: S603  our own
            command, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, env=environment()
        )
        theirs.close()
        with started:
            assert started.stdout is not None
            assert started.stdout.readline() == b"ready\n"
            ours.send(b"?")  # what is said on the line does not end it
            assert started.poll() is None
            ours.close()
            started.wait(DEADLINE)
