"""A running gateway, operated as an operator does: with its own command and net-snmp's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from gateway.eventlog.query import ask
from gateway.service.processes.exit_codes import ExitCode
from gateway.snmp.ber import Oid
from tests.components.command_line import Ended, Site, amqp_gateway
from tests.components.net_snmp import printed, with_modules
from tests.components.waiting import wait_until

OPERATOR: Final = "operator"
"""The name of the SNMP writer who may set everything that the configuration of a scene allows."""


class OperatedGateway:
    """The operations that the scenes of tests have in common.

    Attributes:
        modules: the MIB modules whose names are known, beside the fixed one.
        site: the gateway's folder.
    """

    modules: ClassVar[tuple[str, ...]] = ()
    site: Site

    def command(self, *arguments: str) -> Ended:
        """Run a command beside the gateway, with its configuration."""
        return amqp_gateway(*arguments, "--config", self.site.configuration)

    def documents(self, *arguments: str) -> list[dict[str, Any]]:
        """Return the lines that a command printed with ``--json``, parsed; none if it failed."""
        ended = self.command(*arguments, "--json")
        return [json.loads(line) for line in ended.output.splitlines()] if ended.code is ExitCode.OK else []

    def sources(self) -> dict[str, dict[str, Any]]:
        """Return the gateway's report on its sources, by name; an empty one if the command failed."""
        return {str(each["source"]): each for each in self.documents("source", "ls")}

    def states(self) -> dict[str, str]:
        """Return the states of the sources, by name."""
        return {name: str(each["state"]) for name, each in self.sources().items()}

    def are_all(self, state: str) -> None:
        """Wait until all sources are in this state."""
        wait_until(lambda: set(self.states().values()) == {state}, f"all sources are {state}")

    def shown(self, path: str) -> dict[str, Any]:
        """Return the output of ``get`` for an object, by ``SOURCE/CLASS/NAME``; empty if there is none."""
        return dict(next(iter(self.documents("get", path)), {}))

    def ask_log(self, sql: str, **parameters: object) -> Sequence[dict[str, Any]]:
        """Return records of the event log, by column."""
        with ask(self.site.state.path / "log", sql, parameters) as answer:
            return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]

    def walk(self, name: str) -> dict[str, str]:
        """Return the output of net-snmp's ``snmpwalk`` of a name, by instance."""
        lines = (line.partition(" = ") for line in self._snmp("snmpwalk", "community", name).splitlines())
        return {key: value.strip('"') for key, mark, value in lines if mark and not value.startswith("No ")}

    def shows(self, name: str, *values: str) -> None:
        """Wait until a walk of a column shows these values and no others."""
        wait_until(lambda: sorted(self.walk(name).values()) == sorted(values), f"{name} shows {values}")

    def set(self, *assignments: str) -> str:
        """Return the output of net-snmp's ``snmpset`` as the operator, whom the configuration has to name.

        Args:
            assignments: for each variable its instance, the letter of its type (``=``: as in the MIB), and
                its value.
        """
        return self._snmp("snmpset", f"community-{OPERATOR}", *assignments)

    def oid(self, instance: str) -> Oid:
        """Return the object identifier of an instance, for a datagram that a test writes."""
        reported = printed(self.site.folder / "snmp", "snmptranslate", "-On", "-IR", *self._modules, instance)
        return tuple(map(int, reported.stdout.strip().strip(".").split(".")))

    @property
    def _modules(self) -> tuple[str, ...]:
        return with_modules(("AMQP-GATEWAY-MIB", *self.modules), self.site.state.path / "mibs")

    def _snmp(self, command: str, community: str, *words: str) -> str:
        access = ("-v2c", "-c", self.site.state.secret(community), "-t", "30", "-r", "3", "-OQs")
        agent = f"127.0.0.1:{self.site.snmp_port}"
        done = printed(self.site.folder / "snmp", command, *access, *self._modules, agent, *words)
        return done.stdout or done.stderr
