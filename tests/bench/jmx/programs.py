"""The benchmark's Java: the compiler, the launcher that loads the native MXBeans, and the client."""

from __future__ import annotations

import queue
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gateway.jmx.java_runtime import find_java
from tests.components.waiting import DEADLINE

SOURCES: Final = Path(__file__).with_name("java")
_ANSWER_SECONDS: Final = 150.0
"""The limit of an answer; it is above the client's own deadline."""


def compile_java(folder: Path) -> Path:
    """Return the jar of all programs, compiled in ``folder``.

    Raises:
        OSError: there is no JDK.
        subprocess.CalledProcessError: the JDK refuses the programs.
    """
    classes, manifest, jar = folder / "classes", folder / "manifest", folder / "bench.jar"
    manifest.write_text("Premain-Class: NativeQueues\n", encoding="utf-8")
    sources = [str(path) for path in sorted(SOURCES.glob("*.java"))]
    compiled = ("javac", "--release", "11", "-Xlint:all", "-Werror", "-d", str(classes), *sources)
    packed = ("jar", "--create", "--file", str(jar), "--manifest", str(manifest), "-C", str(classes), ".")
    for command in (compiled, packed):
        subprocess.run(command, check=True)  # noqa: S603  the JDK
    return jar


def runtime_with_agent(folder: Path, jar: Path, argument: str) -> Path:
    """Return a folder for ``jmx.java``: this machine's Java, with the Java agent of ``jar`` loaded."""
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    java, agent = shlex.quote(str(find_java(None))), shlex.quote(f"-javaagent:{jar}={argument}")
    launcher.write_text(f'#!/bin/sh\nexec {java} {agent} "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    return folder


class Load:
    """A connected client (``java/Load.java`` lists the requests).

    Attributes:
        notifications: the received ones, as time of arrival (``time.monotonic_ns``) and message.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.notifications: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self._process = process
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, *request: object) -> str:
        """Return the answer to a request.

        Raises:
            RuntimeError: the client failed; the text is Java's.
        """
        return self.publish("\t".join(map(str, request)))

    def time(self, *request: object) -> int:
        """Return the answer to a request whose answer is a number of nanoseconds."""
        return int(self.ask(*request))

    def publish(self, line: str) -> str:
        """Send a line, and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        try:
            state, _, answer = self._answers.get(timeout=_ANSWER_SECONDS).partition("\t")
        except queue.Empty:
            state, answer = "failed", f"no answer within {_ANSWER_SECONDS:g} s"
        if state != "ok":
            raise RuntimeError(f"{line}: {answer}")
        return answer

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, _, rest = line.rstrip("\n").partition("\t")
            if kind == "notification":
                moment, _, message = rest.partition("\t")
                self.notifications.put((int(moment), message))
            else:
                self._answers.put(f"{kind}\t{rest}")
        self._answers.put("failed\tthe client has ended")


@contextmanager
def load_client(jar: Path, port: int, user: str, password: str) -> Iterator[Load]:
    """Provide a client that is logged in at this port of the loopback."""
    with subprocess.Popen(  # noqa: S603  the Java that the gateway would take too
        (find_java(None), "-XX:+UseSerialGC", "-cp", jar, "Load", f"127.0.0.1:{port}", user),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            load = Load(process)
            load.publish(password)
            yield load
        finally:
            process.kill()
            process.wait(DEADLINE)
