"""A demonstration that runs, for tests that type the commands of its output, or of the documentation."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.components.waiting import wait_until
from tests.demo.printed import demonstration, processes_of


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder with a short path: Unix sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        yield Path(folder)
        wait_until(lambda: not processes_of(folder), "nothing works in the folder any more")


@pytest.fixture(scope="session")
def printed_text() -> Iterator[str]:
    """Provide the output of a demonstration that runs until the end of all tests."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        printed = Path(folder, "printed")
        with demonstration(printed, Path(folder)):
            yield printed.read_text()
        wait_until(lambda: not processes_of(folder), "nothing works in the folder any more")
