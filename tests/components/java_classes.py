"""Java programs of tests, compiled once for all tests, workers and runs.

A compiler takes some seconds of processor time. What it made is kept below the cache folder of the user, by
what it was made of.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from gateway.jmx.java_build import build_jar, source_digest
from gateway.jmx.java_runtime import cache_folder

QUICKLY: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a virtual machine that runs for a short time: they halve the processor time that it takes."""

JAVAC: Final = ("javac", *(f"-J{option}" for option in QUICKLY))
"""The command of the JDK's compiler."""

_KEPT: Final = 32
"""The number of results in the cache."""


def compile_java(folder: Path, sources: Iterable[Path]) -> None:
    """Put the classes of these sources into ``folder``; the compiler has nothing to remark about them.

    Args:
        folder: where they are put.
        sources: files of classes without a package.
    """
    paths = sorted(sources)
    digest = hashlib.blake2b(_compiler().encode(), digest_size=20)
    for path in paths:
        digest.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())

    def make(target: Path) -> None:
        command = [*JAVAC, "-Xlint:all", "-Werror", "-d", str(target), *map(str, paths)]
        subprocess.run(command, check=True)  # noqa: S603  the JDK

    _put(folder, digest.hexdigest(), make)


def build_jar_once(jar: Path, sources: Path) -> None:
    """Put a jar of these sources to ``jar``, as `build_jar` makes it.

    Raises:
        JavaBuildError: they cannot be compiled.
    """
    jar.parent.mkdir(parents=True, exist_ok=True)
    _put(jar, f"{source_digest(sources)}.jar", lambda target: build_jar(target, sources))


def _compiler() -> str:
    """Return what is different for another compiler, whose classes an older Java may refuse."""
    found = shutil.which("javac")
    if found is None:
        return ""
    javac = Path(found).resolve()
    return f"{javac} {javac.stat().st_mtime_ns}\n"


def _put(target: Path, name: str, make: Callable[[Path], None]) -> None:
    """Copy what the cache has under this name; if it has nothing, ``make`` makes it where it is told."""
    folder = cache_folder().with_name("java-of-tests")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = folder / name
    with (folder / "lock").open("ab") as lock:
        # All workers begin at the same time, and want the same.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            # What an interrupted run left is replaced: only what is whole gets the name.
            partial = folder / f"partial-{name}"
            shutil.rmtree(partial, ignore_errors=True)
            make(partial)
            partial.rename(kept)
            _remove_older(folder)
        if kept.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            for path in kept.iterdir():
                shutil.copyfile(path, target / path.name)
        else:
            shutil.copyfile(kept, target)


def _remove_older(folder: Path) -> None:
    """Remove all but the latest results."""
    results = sorted(folder.glob("[0-9a-f]*"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for old in results[_KEPT:]:
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()
