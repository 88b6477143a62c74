"""Empty environments outside the checkout, with nothing in them but what a test puts there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from zipfile import Path as ZipPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROGRAM = "amqp-gateway"
SECONDS = 600


class Environment:
    """An environment without any package, not even pip.

    Args:
        folder: where it is made.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.folder = folder
        self.python = folder / "bin" / "python"

    @property
    def program(self) -> Path:
        """The command that the wheel installs."""
        return self.folder / "bin" / PROGRAM

    @property
    def packages(self) -> Path:
        """The folder of packages."""
        (folder,) = self.folder.glob("lib/python*/site-packages")
        return folder

    def install(self, *arguments: str | Path) -> str:
        """Install into it with pip, from outside; return pip's output."""
        done = subprocess.run(  # noqa: S603  our own pip
            [sys.executable, "-m", "pip", "--python", self.python, "install", *map(str, arguments)],
            cwd=self.folder,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def borrow(self, wheel: Path) -> None:
        """Link the requirements of ``wheel``, direct and indirect ones, from our own environment.

        Packages that it does not require, such as those of tests only, are not linked.
        """
        for one in _closure(wheel):
            self._link(one)

    def _link(self, one: Distribution) -> None:
        ours = Path(str(one.locate_file(""))).resolve()
        prefix = ours.parents[2]
        for name in {Path(*file.parts[:1]) for file in one.files or () if file.parts[0] != ".."}:
            if name.name not in {"__pycache__", "bin"}:
                (self.packages / name).symlink_to(ours / name)
        for file in one.files or ():
            place = (ours / file).resolve()
            if place.is_relative_to(prefix / "share"):
                link = self.folder / place.relative_to(prefix)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(place)


def clean_environment() -> dict[str, str]:
    """Return the environment of this process, without variables that would lead Python to the checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _closure(wheel: Path) -> Iterator[Distribution]:
    """Yield the distributions that are needed, directly or not, each once."""
    waiting = [Requirement(text) for text in requirements_of(wheel)]
    seen: set[tuple[str, ...]] = set()
    yielded: set[str] = set()
    while waiting:
        wanted = waiting.pop()
        extras = wanted.extras or {""}
        name = canonicalize_name(wanted.name)
        if (name, *sorted(extras)) in seen:
            continue
        seen.add((name, *sorted(extras)))
        found = distribution(wanted.name)
        for text in found.requires or ():
            further = Requirement(text)
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(further)
        if name not in yielded:
            yielded.add(name)
            yield found


def information(wheel: Path) -> Distribution:
    """Return the metadata of a wheel."""
    (folder,) = (entry for entry in ZipPath(wheel).iterdir() if entry.name.endswith(".dist-info"))
    return PathDistribution(folder)


def requirements_of(wheel: Path) -> list[str]:
    """Return the requirements of a wheel without extras."""
    wanted = [Requirement(text) for text in information(wheel).requires or ()]
    return [str(one) for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
