"""Stopping a process with SIGSTOP, as an operator may."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.components.waiting import wait_until


def stop(process: int) -> None:
    """Send SIGSTOP, and wait until each thread is stopped, which takes a moment on a busy machine."""
    os.kill(process, signal.SIGSTOP)

    def stands_still() -> bool:
        threads = Path(f"/proc/{process}/task").glob("*/stat")
        return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in threads)

    wait_until(stands_still, "all of its threads stand still")


@contextmanager
def standing_still(supervisor: int) -> Iterator[None]:
    """Stop a supervisor and all processes below it; let them continue afterwards, the supervisor last."""
    process = psutil.Process(supervisor)
    processes = [process, *process.children(recursive=True)]
    for each in processes:
        each.suspend()
    try:
        yield
    finally:
        for each in reversed(processes):
            each.resume()
