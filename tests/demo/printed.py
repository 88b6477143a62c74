"""``amqp-gateway demo`` as a process, and commands that are typed beside it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.components.command_line import COMMAND, LOGS, environment
from tests.components.ports import free_tcp_port, free_udp_port
from tests.components.waiting import wait_until

START_SECONDS = 120.0


def processes_of(folder: str) -> list[psutil.Process]:
    """Return all processes with ``folder`` on their command line or as their working folder."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if folder in " ".join(process.cmdline()) or process.cwd().startswith(folder):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def ports() -> list[str]:
    """Return the options that separate a demonstration from others."""
    tcp = ("--jmx-port", "--metrics-port")
    return [
        "--snmp-port",
        str(free_udp_port()),
        *(word for name in tcp for word in (name, str(free_tcp_port()))),
    ]


@contextmanager
def demonstration(printed: Path, temporary: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``amqp-gateway demo`` with its own folder for temporary files; provide it when it is running."""
    with printed.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603  our own command
            [*COMMAND, "demo", *ports(), *options],
            env=environment(TMPDIR=str(temporary)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until(
                lambda: "Ctrl-C stops everything." in printed.read_text() or process.poll() is not None,
                "the demonstration runs",
                START_SECONDS,
            )
            assert process.poll() is None, printed.read_text()
            for log in temporary.glob("*/gateway.log"):
                LOGS.add(log)
            yield process
        finally:
            process.kill()
            process.wait()


def typed(
    words: Sequence[str], folder: Path | None = None, *, stderr: int = subprocess.PIPE, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command as a newcomer would, in a folder. With `subprocess.STDOUT` both outputs are one."""
    return subprocess.run(  # noqa: S603  see above
        words,
        cwd=folder,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        check=False,
        timeout=60,
    )
