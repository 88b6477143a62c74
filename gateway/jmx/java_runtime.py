"""The Java runtime of our classes: its choice, its command line and environment, and its class path.

An installed wheel contains the classes; a source checkout compiles them on first use.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from gateway.jmx.java_build import (
    JAR_NAME,
    JavaBuildError,
    build_jar,
    digest_of_jar,
    find_py4j_jar,
    source_digest,
)


class JmxError(Exception):
    """The virtual machine cannot do its work; the text says what happened and what to do."""


class JavaMissingError(JmxError):
    """There is no Java runtime, or none that is new enough, or no compiler for our classes."""


class ListenError(JmxError):
    """The address of the JMX agent is taken or not permitted."""


class MachineEndedError(JmxError):
    """The virtual machine has ended or was ended, so nothing can be asked of it; start another."""


MAIN_CLASS = "amqp.gateway.jmx.Main"

_FIRST_HEAP_MEBIBYTES = 4
"""The first heap is enough for some twenty objects. A heap that is too small grows at once."""

_ADVICE = "install one of version 11 or newer (on Debian: apt-get install default-jre-headless)"
# JAVA_TOOL_OPTIONS and JDK_JAVA_OPTIONS could load an agent into the virtual machine; whatever else is there
# may be a secret of the gateway's.
_KEPT_ENVIRONMENT = ("PATH", "HOME", "TZ", "LD_LIBRARY_PATH")


def find_java(home: Path | None) -> Path:
    """Return the ``java`` below ``home``; without one, below ``$JAVA_HOME``, else on the path.

    Raises:
        JavaMissingError: it is not there.
    """
    if home is not None:
        found = shutil.which("java", path=str(home / "bin"))
        if found is None:
            raise JavaMissingError(
                f"{home} holds no Java runtime (bin/java): name another folder under jmx.java, or {_ADVICE}"
            )
        return Path(found)
    environment_home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(environment_home, "bin"))) if environment_home else None
    found = found or shutil.which("java")
    if found is None:
        raise JavaMissingError(
            f"the JMX agent needs a Java runtime: {_ADVICE}, or name its folder under jmx.java"
        )
    return Path(found)


def java_command(java: Path, class_path: tuple[Path, ...], heap: int, temporary: Path) -> list[str]:
    """Return the command line of our virtual machine, with nothing secret on it.

    Args:
        java: the runtime's launcher.
        class_path: our jar and what it needs.
        heap: largest heap in MiB.
        temporary: a folder for the files that it writes.
    """
    return [
        str(java),
        "-XX:+IgnoreUnrecognizedVMOptions",  # the oldest Java lacks some of these
        f"-Xmx{heap}m",
        f"-Xms{min(_FIRST_HEAP_MEBIBYTES, heap)}m",  # the default is a share of the machine's memory
        # Values live until they are replaced. A collector that stops everything to look at all of them does
        # that for half a second where there are 100,000 MBeans; this one takes 4 MB more.
        "-XX:+UseG1GC",
        "-XX:G1HeapRegionSize=1m",
        "-XX:MinHeapFreeRatio=40",
        "-XX:MaxHeapFreeRatio=50",  # what it does not need it gives back
        "-XX:TieredStopAtLevel=1",  # the first compiler starts fastest, and takes the least memory
        "-XX:+ExitOnOutOfMemoryError",  # half a virtual machine is worse than a new one
        "-XX:+DisableAttachMechanism",  # no other process loads an agent into it
        "-XX:-UsePerfData",
        "-XX:+ErrorFileToStderr",
        "-XX:+DisplayVMOutputToStderr",
        "-Djava.awt.headless=true",
        f"-Djava.io.tmpdir={temporary}",
        "-classpath",
        os.pathsep.join(str(path) for path in class_path),
        MAIN_CLASS,
    ]


def java_environment() -> dict[str, str]:
    """Return the environment of the virtual machine: no options of others, and no secrets."""
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


_SHIPPED_JAR = Path(__file__).parent.parent / "shipped" / "java" / JAR_NAME
_KEPT_JARS = 8
"""The number of jars in the cache, each for one state of the sources."""


def class_path() -> tuple[Path, Path]:
    """Return our jar and py4j's; in a source checkout ours is compiled if it is not yet in the cache.

    Compiling takes some seconds; any number of processes may do so at a time.

    Raises:
        JavaMissingError: there is no compiler, or no place for the result.
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
    """Return the folder of compiled classes: below ``$XDG_CACHE_HOME``, else ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "amqp-gateway" / "java"


def _cached_jar(folder: Path) -> Path:
    digest = source_digest()
    jar = folder / f"{digest}.jar"
    # The name alone proves nothing: a file that a full disk has cut has it, too.
    if digest_of_jar(jar) != digest:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A second process makes the same file, and replaces the first one whole.
        build_jar(jar)
        _remove_older(folder)
    return jar


def _remove_older(folder: Path) -> None:
    """Remove all but the latest jars; a virtual machine that runs from a removed one still has it."""
    times = {}
    for jar in folder.glob("[0-9a-f]*.jar"):
        with contextlib.suppress(OSError):
            times[jar] = jar.stat().st_mtime_ns
    for jar in sorted(times, key=lambda jar: times[jar], reverse=True)[_KEPT_JARS:]:
        jar.unlink(missing_ok=True)
