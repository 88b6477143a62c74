"""Stopping a process with SIGSTOP, as an operator may."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.components.waiting import wait_until


def stop(process: int) -> None:
    """Send SIGSTOP, and wait until each thread is stopped, which takes a moment on a busy machine."""
    os.kill(process, signal.SIGSTOP)

    def stands_still() -> bool:
        threads = Path(f"/proc/{process}/task").glob("*/stat")
        return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in threads)

    wait_until(stands_still, "all of its threads stand still")
