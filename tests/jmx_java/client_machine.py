"""A second virtual machine, in which Java clients run (``java/Client.java``), and one that tests share."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from gateway.jmx.java_build import find_py4j_jar
from tests.components.java_classes import QUICKLY, compile_java

SOURCES = Path(__file__).parent / "java"
_ANSWER_SECONDS: Final = 60.0
"""After which a virtual machine of which nothing is asked but to answer is broken, also on a busy machine."""


def compiled_clients(folder: Path) -> Path:
    """Return ``folder`` with the compiled classes."""
    compile_java(folder, SOURCES.glob("*.java"))
    return folder


@dataclass(frozen=True, slots=True)
class ClientMachine:
    """A running virtual machine.

    Attributes:
        clients: the class ``Client``.
        asking: a connection that waits for an answer no longer than `_ANSWER_SECONDS`.
    """

    clients: Any
    asking: JavaGateway

    def answers(self) -> bool:
        """Return whether it still does what it is asked."""
        try:
            return str(self.asking.jvm.java.lang.String.valueOf(7)) == "7"
        except (Py4JError, OSError):
            return False


@contextlib.contextmanager
def machine_of_clients(classes: Path) -> Iterator[ClientMachine]:
    """Run a virtual machine with the classes of `compiled_clients`."""
    class_path = f"{classes}:{find_py4j_jar()}"
    with subprocess.Popen(  # noqa: S603  the JDK
        ["java", "-classpath", class_path, *QUICKLY, "py4j.GatewayServer", "--die-on-broken-pipe",  # noqa: S607
         "--enable-auth", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        port, token = int(process.stdout.readline()), process.stdout.readline().strip()
        gateway, asking = (
            JavaGateway(
                gateway_parameters=GatewayParameters(
                    port=port, auth_token=token, auto_convert=True, read_timeout=seconds
                )
            )
            for seconds in (None, _ANSWER_SECONDS)
        )
        try:
            yield ClientMachine(gateway.jvm.Client, asking)
        finally:
            gateway.close()
            asking.close()
            process.stdin.close()
            process.kill()


@contextlib.contextmanager
def client_machine(classes: Path) -> Iterator[Any]:
    """Provide the class ``Client`` of a virtual machine of its own; ``classes`` is of `compiled_clients`."""
    with machine_of_clients(classes) as machine:
        yield machine.clients


class SharedMachine:
    """The virtual machine of all tests of this process; one that does not answer is replaced by a new one."""

    def __init__(self, classes: Path) -> None:
        self._classes = classes
        self._running = contextlib.ExitStack()
        self._machine: ClientMachine | None = None

    def clients(self) -> Any:  # noqa: ANN401  lives in Java
        """Return the class ``Client`` of a machine that answers."""
        if self._machine is not None and not self._machine.answers():
            self.end()
        if self._machine is None:
            self._machine = self._running.enter_context(machine_of_clients(self._classes))
        return self._machine.clients

    def end(self) -> None:
        """End it."""
        self._machine = None
        self._running.close()
