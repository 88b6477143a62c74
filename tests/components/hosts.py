"""Machines as some users have them: mounts and namespaces of a command of its own, made by root."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.components.command_line import COMMAND


def host(*prepared_by: str, program: Sequence[str | Path] = COMMAND) -> list[str]:
    """Return the program and first arguments of a command that runs on such a machine, for `amqp_gateway`.

    Args:
        prepared_by: commands of the shell that prepare it, in mounts of its own.
        program: the command's executable and first arguments.
    """
    script = "\n".join(("set -e", *prepared_by, 'exec "$@"'))
    return ["unshare", "--mount", "sh", "-c", script, "host", *map(str, program)]


NO_USER: Final = 4711
"""A number that no user of the machine has."""


def without_user(program: Sequence[str | Path] = COMMAND) -> list[str]:
    """Return the same for a command whose user has no name, and may read what this one may."""
    return ["unshare", "--user", f"--map-user={NO_USER}", *map(str, program)]


def not_executable(folder: Path) -> str:
    """Return the preparation of a machine on which no program can be run from a folder."""
    return f"mount -t tmpfs -o noexec tmpfs {folder}"
