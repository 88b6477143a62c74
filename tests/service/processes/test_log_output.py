"""Standard error that is full, closed, or not read any more: the log loses lines, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest

from gateway.service.processes.exit_codes import ExitCode
from gateway.service.processes.supervisor import STOP_SECONDS
from tests.components.command_line import COMMAND, Site, amqp_gateway, environment, new_site
from tests.components.pages import served_page
from tests.components.ports import free_tcp_port
from tests.components.waiting import DEADLINE, wait_until
from tests.eventlog.reading import of_kind, read_log
from tests.hypothesis_profiles import PROVING

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


@contextmanager
def gateway_on(site: Site, output: int, *before: str, closing: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run a gateway that writes to a descriptor, which is closed here, from when it is ready.

    Args:
        site: its configuration.
        output: the descriptor of standard output and standard error.
        before: words before the command.
        closing: redirections of a shell, such as ``<&-``.
    """
    ours, theirs = socket.socketpair()
    words = ["sh", "-c", f'exec "$@" {closing}', "sh", *before, *COMMAND]
    with ours, theirs:
        gateway = subprocess.Popen(  # noqa: S603  our own command
            [*words, "run", "--config", str(site.configuration), "--lifeline", str(theirs.fileno())],
            env=environment(),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        os.close(output)
        theirs.close()
        ours.settimeout(DEADLINE)
        try:
            assert ours.recv(1), "it is ready"
            yield gateway
        finally:
            ours.close()  # it ends without its starter
            gateway.wait(DEADLINE)


def ends_in_time(gateway: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM; the gateway ends well, and within its time."""
    began = time.monotonic()
    gateway.send_signal(signal.SIGTERM)
    assert gateway.wait(DEADLINE) == 0
    assert time.monotonic() - began < STOP_SECONDS + (5 if PROVING else 12)


def replaces(gateway: subprocess.Popen[bytes], name: str) -> None:
    """Kill a process of a gateway, and wait for another one."""
    former = child(gateway.pid, name)
    assert former is not None
    former.kill()
    wait_until(lambda: child(gateway.pid, name) not in {None, former}, f"another {name} runs")


def is_healthy(site: Site) -> bool:
    return amqp_gateway("health", "--config", site.configuration).code is ExitCode.OK


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
    reader, output = opened()
    with gateway_on(new_site(tmp_path), output, "env", "--ignore-signal=HUP") as gateway:
        if reader is not None:
            os.close(reader)
        gateway.send_signal(signal.SIGHUP)
        for name in ("snmp", "core"):
            replaces(gateway, name)
        ends_in_time(gateway)


def full_pipe() -> tuple[int, int]:
    """Return both ends of a pipe that takes nothing from the start."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(theirs, b"x" * 512)
    os.set_blocking(theirs, True)
    return ours, theirs


def test_a_gateway_whose_output_is_never_read_works_and_ends_in_time(tmp_path: Path) -> None:
    """The pipe is full before the gateway starts, so that its first line finds no room."""
    site = new_site(tmp_path)
    reader, output = full_pipe()
    try:
        with gateway_on(site, output) as gateway:
            wait_until(lambda: is_healthy(site), "it is healthy")
            replaces(gateway, "core")
            wait_until(lambda: is_healthy(site), "it is healthy with another core")
            ends_in_time(gateway)
    finally:
        os.close(reader)


def test_lines_that_a_gateway_loses_are_counted_and_an_alarm(tmp_path: Path) -> None:
    """Also those of other processes, while the core, which publishes the alarm, has nothing to log."""
    site, port = new_site(tmp_path), free_tcp_port()
    site.configure(metrics={"enabled": True, "listen": f"127.0.0.1:{port}"})
    reader, output = os.pipe()

    def lost(process: str) -> float:
        page = served_page(f"http://127.0.0.1:{port}/metrics").text
        found = re.search(f'process_log_lines_lost_total{{process="{process}"}} (\\S+)', page)
        return 0.0 if found is None else float(found[1])

    with gateway_on(site, output) as gateway:
        os.close(reader)
        replaces(gateway, "snmp")
        log = site.state.path / "log"
        wait_until(
            lambda: "logLinesLost" in [one.get("condition") for one in of_kind(read_log(log), "event")],
            "the alarm is raised",
        )
        assert (lost("supervisor") > 0, lost("core")) == (True, 0)
        site.configure()
        gateway.send_signal(signal.SIGHUP)  # the core logs that this takes a restart
        wait_until(lambda: lost("core") > 0, "lost lines are counted")
        wait_until(lambda: is_healthy(site), "the SNMP process is there again")
        ends_in_time(gateway)


@pytest.mark.parametrize(
    "closing",
    ["<&-", ">&-", pytest.param("2>&-", marks=pytest.mark.prove), "<&- >&- 2>&-"],
)
def test_a_gateway_without_a_standard_stream_works_and_ends_in_time(tmp_path: Path, closing: str) -> None:
    site = new_site(tmp_path)
    with gateway_on(site, os.open(os.devnull, os.O_WRONLY), closing=closing) as gateway:
        wait_until(lambda: is_healthy(site), "it is healthy")
        ends_in_time(gateway)
