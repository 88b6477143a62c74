"""Where the virtual machine finds its classes: in the installed wheel, else compiled on first use."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gateway.jmx.errors import JavaMissingError
from gateway.jmx.java_build import (
    JAR_NAME,
    JavaBuildError,
    build_jar,
    digest_of_jar,
    find_py4j_jar,
    source_digest,
)

_SHIPPED_JAR = Path(__file__).parent.parent / "shipped" / "java" / JAR_NAME
_KEPT_JARS = 8
"""How many states of the sources keep their jar in the cache."""


def class_path() -> tuple[Path, Path]:
    """Our jar and py4j's; in a source checkout ours is compiled if it is not yet in the cache.

    Takes some seconds then; any number of processes may do so at a time.

    Raises:
        JavaMissingError: there is nothing to compile with, or nowhere to put the result.
    """
    try:
        py4j_jar = find_py4j_jar()
        if _SHIPPED_JAR.is_file():
            return _SHIPPED_JAR, py4j_jar
        return _cached_jar(cache_folder()), py4j_jar
    except JavaBuildError as error:
        raise JavaMissingError(str(error)) from error
    except (OSError, RuntimeError) as error:
        raise JavaMissingError(
            f"the JMX agent's classes cannot be kept: {error}; set XDG_CACHE_HOME to a folder of yours"
        ) from error


def cache_folder() -> Path:
    """The folder of compiled classes: below ``$XDG_CACHE_HOME``, else ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "amqp-gateway" / "java"


def _cached_jar(folder: Path) -> Path:
    digest = source_digest()
    jar = folder / f"{digest}.jar"
    if digest_of_jar(jar) != digest:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        build_jar(jar)
        _remove_older(folder)
    return jar


def _remove_older(folder: Path) -> None:
    """Keep the jars written last; a virtual machine that runs from a removed one still has it."""
    times = {}
    for jar in folder.glob("[0-9a-f]*.jar"):
        with contextlib.suppress(OSError):
            times[jar] = jar.stat().st_mtime_ns
    for jar in sorted(times, key=lambda jar: times[jar], reverse=True)[_KEPT_JARS:]:
        jar.unlink(missing_ok=True)
