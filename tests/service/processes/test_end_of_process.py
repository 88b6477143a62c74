"""The end of a process of the gateway."""

from __future__ import annotations

import subprocess
import sys

from tests.components.waiting import DEADLINE

_PROCESS = """
import asyncio
from types import SimpleNamespace

from gateway.service.processes.parent_guard import ParentGuard
from gateway.service.processes.process_setup import run_process, tune_garbage_collection

async def work(clock, lifeline):
    service = SimpleNamespace()
    service.itself = service
    tune_garbage_collection()
    import duckdb
    service.opened = duckdb.connect()
    service.opened.execute("SELECT 1").fetchone()

run_process("core", work, (None, None, ParentGuard(None), None, None))
"""


def test_what_lived_from_the_start_on_is_freed_and_a_library_complains_of_nothing() -> None:
    ended = subprocess.run(  # noqa: S603  our own code
        [sys.executable, "-c", _PROCESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "")
