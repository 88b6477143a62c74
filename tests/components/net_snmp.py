"""net-snmp's commands: an environment of their own for each test, and the names of our modules."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from gateway.shipped_files import shipped_folder
from gateway.snmp.mib.lint import base_folders
from tests.components.waiting import DEADLINE


def own_environment(folder: Path) -> dict[str, str]:
    """Return an environment with no configuration or state but in ``folder``; messages are in English."""
    (folder / "cert_indexes").mkdir(parents=True, exist_ok=True)  # or the first command says that it made it
    own = {"SNMPCONFPATH": str(folder), "SNMP_PERSISTENT_DIR": str(folder), "LC_ALL": "C"}
    return {**os.environ, **own}


def with_modules(modules: Iterable[str], *folders: Path) -> tuple[str, ...]:
    """Return the options with which a command knows the names of these MIB modules.

    Args:
        modules: their names.
        folders: their folders, beside those that we ship and those that they import from.
    """
    searched = (*base_folders(), shipped_folder("mibs"), *folders)
    return "-m", ":".join(modules), "-M", ":".join(map(str, searched))


def printed(folder: Path, command: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command with its files in ``folder``; return its output."""
    return subprocess.run(  # noqa: S603  no shell; the arguments are ours
        [command, *words],
        env=own_environment(folder),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
