"""Which Java runs our classes, and how it is told to run them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gateway.jmx.errors import JavaMissingError

MAIN_CLASS = "amqp.gateway.jmx.Main"

_ADVICE = "install one of version 11 or newer (on Debian: apt-get install default-jre-headless)"
_KEPT_ENVIRONMENT = ("PATH", "HOME", "TZ", "LD_LIBRARY_PATH")


def find_java(home: Path | None) -> Path:
    """The ``java`` below ``home``; without one, below ``$JAVA_HOME``, else on the path.

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
    """The command line of our virtual machine, with nothing secret on it.

    Args:
        java: the runtime's launcher.
        class_path: our jar and what it needs.
        heap: largest heap in MiB.
        temporary: a folder for whatever it wants to write.
    """
    return [
        str(java),
        "-XX:+IgnoreUnrecognizedVMOptions",  # the oldest Java lacks some of these
        f"-Xmx{heap}m",
        "-XX:+UseSerialGC",  # this and the first compiler start fastest, and take the least memory
        "-XX:TieredStopAtLevel=1",
        "-XX:+ExitOnOutOfMemoryError",  # half a virtual machine is worse than a new one
        "-XX:+DisableAttachMechanism",  # nobody loads an agent into it
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
    """What the virtual machine sees of our environment: no options of others, and no secrets."""
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
