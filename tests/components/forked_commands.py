"""Commands that run to their end, each in a process forked from one that has imported what they need.

The imports are most of the time of a command, and tests run some hundred of them. What happens in the process
is what ``python -m gateway.cli.main`` does behind them.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Final

from gateway.cli.main import COMMANDS

PROGRAM: Final = "gateway.cli.main"
_NOT_IMPORTED: Final = frozenset({"analytics", "demo"})
"""Commands whose imports would make the process large that all others are forked from."""

_BEGIN: Final = ("PYTHON", "LC_", "LANG", "TZ")
"""Prefixes of variables that an interpreter reads when it starts."""

_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload(
    [
        __name__,  # whose function each process runs
        *(place.partition(":")[0] for name, place in COMMANDS.items() if name not in _NOT_IMPORTED),
    ]
)


def own_descriptors() -> set[int]:
    """Return the descriptors by which this process holds the one that it forks commands from, if any."""
    held = (
        forkserver._forkserver._forkserver_alive_fd,  # type: ignore[attr-defined]  # noqa: SLF001
        resource_tracker._resource_tracker._fd,  # type: ignore[attr-defined]  # noqa: SLF001
    )
    return {one for one in held if one is not None}


def can_be_forked(variables: Mapping[str, str]) -> bool:
    """Return whether a command with these changes of its environment needs no interpreter of its own."""
    return not any(name.startswith(_BEGIN) for name in variables)


def run(
    arguments: Sequence[str],
    folder: Path | None,
    environment: Mapping[str, str],
    seconds: float,
    *,
    as_one: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with nothing on its standard input.

    Args:
        arguments: of the command.
        folder: its working folder; by default that of this process.
        environment: all of its environment.
        seconds: which it may take.
        as_one: write what it prints on both streams to its output, in this order.

    Raises:
        subprocess.TimeoutExpired: it did not end in time, and was killed.
    """
    with tempfile.TemporaryDirectory() as said:
        output = Path(said, "output")
        errors = output if as_one else Path(said, "errors")
        place = folder or Path.cwd()
        command = _forking.Process(
            target=_become, args=(list(arguments), place, dict(environment), output, errors)
        )
        command.start()
        command.join(seconds)
        if command.exitcode is None:
            command.kill()
            command.join()
            raise subprocess.TimeoutExpired(
                list(arguments), seconds, output.read_bytes(), errors.read_bytes()
            )
        code = command.exitcode
        command.close()
        complaints = "" if as_one else errors.read_text("utf-8")
        return subprocess.CompletedProcess(arguments, code, output.read_text("utf-8"), complaints)


def _become(
    arguments: list[str], folder: Path, environment: dict[str, str], output: Path, errors: Path
) -> None:
    """Run the command in the forked process."""
    for number, path in ((1, output), (2, errors)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "wb", closefd=False), "utf-8")
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "wb", closefd=False), "utf-8", "backslashreplace", line_buffering=True
    )
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [PROGRAM, *arguments]
    del sys.modules[PROGRAM]  # it is to be ``__main__``
    runpy.run_module(PROGRAM, run_name="__main__", alter_sys=True)
