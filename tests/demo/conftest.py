"""A demonstration that runs, for tests that type what it prints, or what the documentation has."""

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
    """What a demonstration prints that runs until all tests have typed it."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        printed = Path(folder, "printed")
        with demonstration(printed, Path(folder)):
            yield printed.read_text()
        wait_until(lambda: not processes_of(folder), "nothing works in the folder any more")
