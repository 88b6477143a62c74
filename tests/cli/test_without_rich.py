"""Processes that live long do not carry rich, which takes 5 MB of memory; commands can still import it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gateway.cli.main import LONG_LIVED
from gateway.cli.process import PROCESSES
from tests.components.command_line import environment

COMMAND = "from gateway.cli.main import main; main.get_command(None, {name!r})"
PROCESS = """
import importlib
from gateway.cli.late_import import without_rich
with without_rich():
    importlib.import_module("gateway.cli.process_work"), importlib.import_module({name!r})
"""
CHECK = "\nimport sys; assert 'structlog' in sys.modules; assert 'rich' not in sys.modules; import rich"


@pytest.mark.parametrize(
    "script",
    [
        *(COMMAND.format(name=name) for name in sorted(LONG_LIVED)),
        *(PROCESS.format(name=place.partition(":")[0]) for place in PROCESSES.values()),
    ],
)
def test_rich_is_not_imported(script: str) -> None:
    subprocess.run([sys.executable, "-c", script + CHECK], check=True, env=environment())  # noqa: S603  our own
