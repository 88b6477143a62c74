"""A manager with net-snmp's commands and the community of a writer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.components.net_snmp import printed, with_modules
from tests.components.operated_gateway import OPERATOR
from tests.components.waiting import wait_until
from tests.outcomes.scene import Scene
from tests.outcomes.targets import Target

MODULES: Final = ("AMQP-GATEWAY-MIB", "AMQP-GATEWAY-RABBITMQ-MIB")


class Manager:
    """A manager with net-snmp's commands and the community of a writer.

    Args:
        there: the running scene.
        folder: a folder of its own for net-snmp's files.
        writer: the writer whose community it has.
        version: the version of SNMP in net-snmp's notation.
    """

    def __init__(self, there: Scene, folder: Path, writer: str = OPERATOR, version: str = "2c") -> None:
        self._port = there.site.snmp_port
        self._community = there.site.state.secret(f"community-{writer}")
        self._folder = folder
        self._version = version

    def run(self, command: str, *words: str, form: str = "-OS") -> list[str]:
        """Return the lines that a command prints, with names and values in that form."""
        words = (
            *(f"-v{self._version}", "-c", self._community, "-t", "20", "-r", "3"),
            *(form, "-Ir", f"127.0.0.1:{self._port}", *words),
        )
        return self.net_snmp(command, *words)

    def net_snmp(self, command: str, *words: str) -> list[str]:
        """Return the lines that a command with our MIB modules prints."""
        done = printed(self._folder, command, *with_modules(MODULES), *words)
        return [*done.stdout.splitlines(), *done.stderr.splitlines()]

    def values(self, name: str) -> dict[str, str]:
        """Return the values below a name, by name without modules."""
        lines = self.run("snmpwalk", name)
        pairs = (line.split("::", 1)[-1].split(" = ", 1) for line in lines)
        return {pair[0]: pair[1].split(": ", 1)[-1] for pair in pairs if len(pair) == 2}

    def index_of(self, target: Target) -> str:
        """Return the source and row of an object, found by its leaf name."""
        (source,) = [
            name.partition(".")[2]
            for name, value in self.values("agSourceName").items()
            if value == target.source
        ]
        column = f"{target.column('rowName')}.{source}"
        (instance,) = [name for name, value in self.values(column).items() if value == target.names[-1]]
        return instance.partition(".")[2]

    def row_of(self, target: Target) -> str:
        """Return the instance that represents an object."""
        return f"AMQP-GATEWAY-RABBITMQ-MIB::{target.column('rowName')}.{self.index_of(target)}"

    def set(self, target: Target, element: str, value: int | str) -> str:
        """Set a column of an object, also to invalid values, and return the error status, empty for none."""
        return self.set_instance(f"{target.column(element)}.{self.index_of(target)}", value)

    def set_instance(self, name: str, value: int | str) -> str:
        """Set a variable to a number or text, and return the error status, empty for none."""
        return self.status(name, "i" if isinstance(value, int) else "s", str(value))

    def status(self, *words: str) -> str:
        """Return the error status of a SET of these names, types and values; empty for none."""
        reported = self.run("snmpset", *words)
        reasons = [line.partition(": ")[2] for line in reported if line.startswith("Reason: ")]
        assert reasons or any(" = " in line for line in reported), reported
        return reasons[0].partition(" ")[0].strip("()") if reasons else ""

    def submit(self, name: str, target: str, method: str, arguments: Mapping[str, str] | None = None) -> None:
        """Submit the call of a method, and do not wait for its end."""
        command = f'"{OPERATOR}"."{name}"'
        words = [
            *(f"agCommandTarget.{command}", "o", target),
            *(f"agCommandMethod.{command}", "s", method),
            *(f"agCommandRowStatus.{command}", "i", "createAndGo"),
        ]
        for argument, value in (arguments or {}).items():
            words += [f'agCommandArgumentValue.{command}."{argument}"', "s", value]
        refused = self.status(*words)
        assert refused == "", refused

    def command(self, name: str) -> dict[str, str]:
        """Return the columns of a command."""
        reported = self.values("agCommandEntry").items()
        return {n.split(".")[0]: value for n, value in reported if n.endswith(f'"{OPERATOR}"."{name}"')}

    def call(
        self, name: str, target: str, method: str, arguments: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Call a method in one SET, and return the command's columns when it has ended."""
        self.submit(name, target, method, arguments)
        wait_until(lambda: self.command(name)["agCommandState"] == "ended(3)", "the end of the command")
        return self.command(name)

    def operation(self, operation_id: str) -> dict[str, str]:
        """Return the row of an operation in the table of the last ones, by column."""
        ids = self.values("agOperationId")
        (index,) = [name.partition(".")[2] for name, value in ids.items() if value == operation_id]
        wanted = ("agOperationState", "agOperationOutcome", "agOperationText", "agOperationPrincipal")
        return {column: self.values(f"{column}.{index}")[f"{column}.{index}"] for column in wanted}
