"""A demonstration that runs, for tests that type the commands of its output, or of the documentation.

It ends with the tests of this folder: to the end of all tests it would take a part of each other test's time.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.components.waiting import wait_until
from tests.demo.printed import START_SECONDS, demonstration, processes_of


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder with a short path: Unix sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        yield Path(folder)
        wait_until(lambda: not processes_of(folder), "nothing works in the folder any more")


@pytest.fixture(scope="package")
def printed_text() -> Iterator[str]:
    """Provide the output of a demonstration; Ctrl-C ends it, and nothing of it is left."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        printed = Path(folder, "printed")
        with demonstration(printed, Path(folder)) as process:
            names = {running.name() for running in processes_of(folder)}
            assert {"beam.smp", "epmd", "java", "snmptrapd"} <= names, "all parts run, in that folder"
            yield printed.read_text()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=START_SECONDS) == ExitCode.OK, printed.read_text()
        wait_until(lambda: not processes_of(folder), "no process is left")
        wait_until(lambda: list(Path(folder).iterdir()) == [printed], "no file is left but what it printed")
