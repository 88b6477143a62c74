"""Building the project as its users get it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parent.parent.parent


def built(
    target: Literal["wheel", "sdist"],
    folder: Path,
    checkout: Path = ROOT,
    environment: Mapping[str, str] | None = None,
) -> Path:
    """Build ``checkout`` with our own build back-end, in the empty ``folder``; return the file."""
    subprocess.run(  # noqa: S603  our own build back-end
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)],
        cwd=checkout,
        check=True,
        capture_output=True,
        env=environment,
    )
    (path,) = folder.glob("amqp_management_gateway-*")
    return path


def tracked() -> set[str]:
    """Return the names of the project's files: those that are committed, or will be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


def copy_of_checkout(folder: Path, mode: int) -> Path:
    """Copy the project's files, with this mode and new times, to ``folder``."""
    for name in tracked():
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy)
        copy.chmod(mode)
    return folder


def unpacked(archive: Path, folder: Path) -> Path:
    """A source distribution's own folder."""
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", folder], check=True)  # noqa: S603, S607
    (checkout,) = folder.glob("amqp_management_gateway-*/")
    return checkout


def without_compiler(folder: Path) -> dict[str, str]:
    """The environment of a machine without Java; ``folder`` is empty."""
    environment = {**os.environ, "PATH": str(folder)}
    environment.pop("JAVA_HOME", None)
    return environment
