"""net-snmp's commands: what keeps them to a test, and the names of our modules."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from gateway.shipped_files import shipped_folder
from gateway.snmp.mib.lint import base_folders
from tests.components.waiting import DEADLINE


def own_environment(folder: Path) -> dict[str, str]:
    """No configuration or state but what is in ``folder``, and messages in English."""
    (folder / "cert_indexes").mkdir(parents=True, exist_ok=True)  # or the first command says that it made it
    own = {"SNMPCONFPATH": str(folder), "SNMP_PERSISTENT_DIR": str(folder), "LC_ALL": "C"}
    return {**os.environ, **own}


def with_modules(modules: Iterable[str], *folders: Path) -> tuple[str, ...]:
    """The options with which a command knows the names of these MIB modules.

    Args:
        modules: their names.
        folders: where they are, beside those that we ship and those that they import from.
    """
    searched = (*base_folders(), shipped_folder("mibs"), *folders)
    return "-m", ":".join(modules), "-M", ":".join(map(str, searched))


def printed(folder: Path, command: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What a command printed; its files are kept in ``folder``."""
    return subprocess.run(  # noqa: S603  no shell; the arguments are ours
        [command, *words],
        env=own_environment(folder),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
