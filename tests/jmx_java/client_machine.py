"""A second virtual machine, in which Java clients run (``java/Client.java``)."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway

from gateway.jmx.java_build import find_py4j_jar

SOURCES = Path(__file__).parent / "java"


@contextlib.contextmanager
def client_machine(folder: Path) -> Iterator[Any]:
    """The class ``Client`` of a running virtual machine; its compiled form lies in ``folder``."""
    sources = [str(path) for path in SOURCES.glob("*.java")]
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", str(folder), *sources], check=True)  # noqa: S603, S607  the JDK
    class_path = f"{folder}:{find_py4j_jar()}"
    with subprocess.Popen(  # noqa: S603  the JDK
        ["java", "-classpath", class_path, "-XX:+UseSerialGC", "py4j.GatewayServer", "--die-on-broken-pipe",  # noqa: S607
         "--enable-auth", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        parameters = GatewayParameters(
            port=int(process.stdout.readline()),
            auth_token=process.stdout.readline().strip(),
            auto_convert=True,
        )
        gateway = JavaGateway(gateway_parameters=parameters)
        try:
            yield gateway.jvm.Client
        finally:
            gateway.close()
            process.stdin.close()
            process.kill()
