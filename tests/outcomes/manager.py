"""A manager with net-snmp's commands and the community of the operator."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from gateway.shipped_files import shipped_folder
from gateway.snmp.mib.lint import base_folders
from tests.components.waiting import wait_until
from tests.outcomes.scene import OPERATOR, Scene


class Manager:
    """See the module; net-snmp keeps its files in ``folder``."""

    def __init__(self, there: Scene, folder: Path) -> None:
        self._port = there.site.snmp_port
        self._community = there.site.state.secret(f"community-{OPERATOR}")
        self._folder = folder

    def run(self, command: str, *words: str) -> list[str]:
        """The lines that it prints."""
        (self._folder / "cert_indexes").mkdir(exist_ok=True)
        own = {"SNMPCONFPATH": str(self._folder), "SNMP_PERSISTENT_DIR": str(self._folder), "LC_ALL": "C"}
        modules = "AMQP-GATEWAY-MIB:AMQP-GATEWAY-RABBITMQ-MIB"
        done = subprocess.run(  # noqa: S603  net-snmp's
            [
                *(f"/usr/bin/{command}", "-v2c", "-c", self._community, "-t", "20", "-r", "3", "-m", modules),
                *("-M", ":".join(map(str, (*base_folders(), shipped_folder("mibs"))))),
                *("-OS", "-Ir", f"127.0.0.1:{self._port}", *words),
            ],
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        return done.stdout.splitlines()

    def values(self, name: str) -> dict[str, str]:
        """What is below a name: values by name, without modules."""
        lines = self.run("snmpwalk", name)
        pairs = (line.split("::", 1)[-1].split(" = ", 1) for line in lines)
        return {pair[0]: pair[1].split(": ", 1)[-1] for pair in pairs if len(pair) == 2}

    def row_of(self, queue: str) -> str:
        """The instance that stands for a queue."""
        return f"AMQP-GATEWAY-RABBITMQ-MIB::{self._named('rmqQueueRowName', queue)}"

    def set(self, column: str, vhost: str, value: int) -> str:
        """Set a column of a virtual host, also to impossible values; the error status, empty for none."""
        index = self._named("rmqVhostRowName", vhost).partition(".")[2]
        told = self.run("snmpset", f"{column}.{index}", "i", str(value))
        reasons = [line.partition(": ")[2] for line in told if line.startswith("Reason: ")]
        assert reasons or any(" = " in line for line in told), told
        return reasons[0] if reasons else ""

    def _named(self, column: str, name: str) -> str:
        (instance,) = [each for each, value in self.values(column).items() if value == name]
        return instance

    def call(self, name: str, target: str, method: str, *more: str) -> dict[str, str]:
        """Call a method in one SET; the command's columns when it has ended."""
        command = f'"{OPERATOR}"."{name}"'
        told = self.run(
            "snmpset",
            *(f"agCommandTarget.{command}", "o", target),
            *(f"agCommandMethod.{command}", "s", method),
            *(f"agCommandRowStatus.{command}", "i", "createAndGo"),
            *more,
        )
        assert len(told) == 3 + len(more) // 3, told

        def columns() -> dict[str, str]:
            told = self.values("agCommandEntry").items()
            return {n.split(".")[0]: value for n, value in told if n.endswith(command)}

        wait_until(lambda: columns()["agCommandState"] == "ended(3)", "the end of the command")
        return columns()
