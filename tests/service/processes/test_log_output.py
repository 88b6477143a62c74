"""Standard error that is full, closed, or not read any more: the log loses lines, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.components.command_line import COMMAND, environment, new_site
from tests.components.waiting import DEADLINE, wait_until

LOGGING = """
import sys
import structlog
from gateway.service.processes.process_setup import configure_logs
configure_logs("core")
log = structlog.get_logger()
for number, line in enumerate(sys.stdin):
    log.info("line", number=number, text=line.rstrip())
    print("more text on standard error", file=sys.stderr)
    print("logged", flush=True)
"""
LONG = "x" * 3000
"""Text of which some twenty lines fill a pipe, and some seventy a socket."""

MANY = 100
TOO_MANY = 600
"""Twice a MiB, which is what waits for a reader."""

CTRL_S, CTRL_Q = b"\x13", b"\x11"


@dataclass
class Logging:
    """A process that logs what it is given."""

    process: subprocess.Popen[str]

    def logs(self, text: str) -> None:
        """Let it log a text; fails unless it goes on after that."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(text, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "logged\n"


@contextmanager
def logging_to(descriptor: int) -> Iterator[Logging]:
    words = [sys.executable, "-c", LOGGING]
    process = subprocess.Popen(  # noqa: S603  what stands here
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=descriptor, text=True
    )
    os.close(descriptor)
    with process:
        yield Logging(process)
    assert process.returncode == 0


def records(octets: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in octets.splitlines() if line.startswith(b"{") and line.endswith(b"}")]


def test_a_full_disk_stops_nothing() -> None:
    with logging_to(os.open("/dev/full", os.O_WRONLY)) as process:
        for _ in range(MANY):
            process.logs(LONG)


@pytest.mark.parametrize("connected", [os.pipe, pty.openpty])
def test_a_reader_that_has_ended_and_a_terminal_that_is_gone_stop_nothing(
    connected: Callable[[], tuple[int, int]],
) -> None:
    ours, theirs = connected()
    with logging_to(theirs) as process:
        process.logs("read")
        os.close(ours)
        for _ in range(MANY):
            process.logs(LONG)


def test_a_terminal_that_is_stopped_by_its_user_stops_nothing() -> None:
    ours, theirs = pty.openpty()
    with logging_to(theirs) as process:
        process.logs("read")
        os.write(ours, CTRL_S)
        for _ in range(MANY):
            process.logs(LONG)
        os.write(ours, CTRL_Q)
    os.close(ours)


def sockets() -> tuple[int, int]:
    """Return connected sockets, as systemd gives one to a service."""
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


@pytest.mark.parametrize("connected", [os.pipe, sockets])
def test_a_reader_that_falls_asleep_finds_the_number_of_lost_lines(
    connected: Callable[[], tuple[int, int]],
) -> None:
    """What waits for it has a bound, and comes first; then a line has the number of those that were lost."""
    ours, theirs = connected()
    read = b""
    with logging_to(theirs) as process:
        for _ in range(TOO_MANY):
            process.logs(LONG)
        os.set_blocking(ours, False)
        logged = TOO_MANY

        def is_awake() -> bool:
            nonlocal read, logged
            process.logs("the reader is awake")
            logged += 1
            read += b"".join(iter(partial(_part, ours), b""))
            return b"lines_lost" in read and read.endswith(b"more text on standard error\n")

        wait_until(is_awake, "a line that has the number of lost ones")
    read += _part(ours)
    os.close(ours)
    written = [record for record in records(read) if "number" in record]
    assert [record["number"] for record in written] == sorted(record["number"] for record in written)  # type: ignore[type-var]
    lost = sum(int(str(record.get("lines_lost", 0))) for record in written)
    assert lost > 0
    assert len(written) + read.count(b"more text on standard error\n") + lost == 2 * logged


def test_a_reader_that_falls_asleep_for_a_while_misses_nothing() -> None:
    ours, theirs = os.pipe()
    with logging_to(theirs) as process:
        for _ in range(MANY):
            process.logs(LONG)
        read = b""
        while read.count(b"\n") < 2 * MANY:
            read += os.read(ours, 1 << 20)
        assert [record["number"] for record in records(read)] == list(range(MANY))
    os.close(ours)


def test_what_waits_at_the_end_of_a_process_is_written_first() -> None:
    ours, theirs = os.pipe()
    with logging_to(theirs) as process:
        for _ in range(MANY):
            process.logs(LONG)
        assert process.process.stdin is not None
        process.process.stdin.close()
        read = b"".join(iter(partial(os.read, ours, 1 << 20), b""))
    os.close(ours)
    assert [record["number"] for record in records(read)] == list(range(MANY))


def _part(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 20)
    except BlockingIOError:
        return b""


def child(supervisor: int, name: str) -> psutil.Process | None:
    """Return a process of a running gateway."""
    for process in psutil.Process(supervisor).children():
        with contextlib.suppress(psutil.Error):
            if f" process {name} " in " ".join(process.cmdline()):
                return process
    return None


def full_disk() -> tuple[None, int]:
    """Return what may be closed, and an output."""
    return None, os.open("/dev/full", os.O_WRONLY)


@pytest.mark.parametrize(
    "opened",
    [
        pytest.param(os.pipe, marks=pytest.mark.prove),
        pty.openpty,
        pytest.param(full_disk, marks=pytest.mark.prove),
    ],
)
def test_a_gateway_keeps_its_processes_without_a_log(
    opened: Callable[[], tuple[int | None, int]], tmp_path: Path
) -> None:
    """SIGHUP is ignored, as by nohup: it does not end the gateway where the output was a terminal.

    What the others do to one process is shown above.
    """
    site = new_site(tmp_path)
    ours, theirs = socket.socketpair()
    reader, output = opened()
    words = ["env", "--ignore-signal=HUP", *COMMAND, "run", "--config", str(site.configuration)]
    with ours, theirs:
        gateway = subprocess.Popen(  # noqa: S603  our own command
            [*words, "--lifeline", str(theirs.fileno())],
            env=environment(),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        os.close(output)
        theirs.close()
        ours.settimeout(DEADLINE)
        assert ours.recv(1), "it is ready"
        if reader is not None:
            os.close(reader)
        gateway.send_signal(signal.SIGHUP)
        for name in ("snmp", "core"):
            former = child(gateway.pid, name)
            assert former is not None
            former.kill()

            def is_replaced(name: str = name, former: psutil.Process = former) -> bool:
                return child(gateway.pid, name) not in {None, former}

            wait_until(is_replaced, f"another {name} runs")
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(DEADLINE) == 0
