"""Zabbix' reader of JMX (Debian's ``zabbix-java-gateway``), asked by the protocol of a Zabbix server."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.jmx.java_runtime import find_java
from tests.components.waiting import DEADLINE, wait_until

JAR: Final = Path("/usr/sbin/zabbix-java-gateway.jar")
_HEADER: Final = struct.Struct("<5sQ")
_MARK: Final = b"ZBXD\x01"
_PORTS: Final = range(20_000, 32_000)
"""It takes ports up to 32767 only."""


@dataclass(frozen=True, slots=True)
class JmxLogin:
    """A JMX agent on the loopback, and a user of it."""

    port: int
    user: str
    password: str


class ZabbixJavaGateway:
    """A running ``zabbix-java-gateway``, which connects to the agent anew for each request.

    Args:
        port: where it listens on the loopback.
        login: the agent that it reads.
    """

    def __init__(self, port: int, login: JmxLogin) -> None:
        self._port = port
        self._login = login

    def read(self, *keys: str) -> list[str]:
        """Return the values of items, in the order of their keys; ``error: TEXT`` for one without."""
        answer = self.request(keys)
        assert answer["response"] == "success", answer
        return [each["value"] if "value" in each else f"error: {each['error']}" for each in answer["data"]]

    def discovered(self, key: str) -> list[dict[str, str]]:
        """Return the rows of a discovery rule, each a macro's value by its name."""
        (value,) = self.read(key)
        rows: list[dict[str, str]] = json.loads(value)["data"]
        return rows

    def request(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the answer to a request with these keys, whatever it is."""
        login = self._login
        request = {
            "request": "java gateway jmx",
            "conn": "127.0.0.1",
            "port": login.port,
            "username": login.user,
            "password": login.password,
            "jmx_endpoint": f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{login.port}/jmxrmi",
            "keys": list(keys),
        }
        octets = json.dumps(request).encode()
        with socket.create_connection(("127.0.0.1", self._port), DEADLINE) as connection:
            connection.sendall(_HEADER.pack(_MARK, len(octets)) + octets)
            with connection.makefile("rb") as received:
                mark, length = _HEADER.unpack(received.read(_HEADER.size))
                assert mark == _MARK
                answer: dict[str, Any] = json.loads(received.read(length))
                return answer


@contextlib.contextmanager
def zabbix_java_gateway(login: JmxLogin, log: Path) -> Iterator[ZabbixJavaGateway]:
    """Run a ``zabbix-java-gateway``; provide it once it takes requests. Its output is in ``log``."""
    port = _free_port()
    options = {"listenIP": "127.0.0.1", "listenPort": port, "startPollers": 2, "timeout": 30}
    command: list[str | Path] = [
        find_java(None),
        "-XX:+UseSerialGC",
        *(f"-Dzabbix.{name}={value}" for name, value in options.items()),
        "-jar",
        JAR,
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:  # noqa: S603
        try:
            wait_until(lambda: process.poll() is not None or _listens(port), "zabbix-java-gateway listens")
            assert process.poll() is None, log.read_text(encoding="utf-8")
            yield ZabbixJavaGateway(port, login)
        finally:
            process.kill()


def _free_port() -> int:
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
