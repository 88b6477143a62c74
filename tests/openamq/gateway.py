"""A gateway with a source of kind cml, and what operators see of it."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.service.exit_codes import ExitCode
from gateway.shipped_files import shipped_folder
from gateway.snmp.mib.lint import base_folders
from tests.components.command_line import Ended, RunningCommand, Site, amqp_gateway, new_site, running
from tests.components.waiting import wait_until

SOURCE = "openamq"
QUICK = {
    "interval": "1s",
    "intervals": dict.fromkeys(("broker", "queue", "exchange", "connection", "config"), "1s"),
}
_WRITER = "openamq-operator"


@dataclass(frozen=True, slots=True)
class OpenAmqGateway:
    """A gateway that runs and shows a broker.

    Attributes:
        site: its configuration.
        command: its process.
    """

    site: Site
    command: RunningCommand

    def call(self, *arguments: str) -> Ended:
        """Run a command beside the gateway, with its configuration."""
        return amqp_gateway(*arguments, "--config", self.site.configuration)

    def documents(self, *arguments: str) -> list[dict[str, Any]]:
        """The lines that a command with ``--json`` printed; none where it did not do its work."""
        ended = self.call(*arguments, "--json")
        return [json.loads(line) for line in ended.output.splitlines()] if ended.code is ExitCode.OK else []

    def source(self) -> dict[str, Any]:
        """What the gateway says of the source."""
        return next(iter(self.documents("source", "ls")), {})

    def is_in(self, *states: str) -> None:
        """Wait until the source is in one of these states."""
        wait_until(lambda: self.source().get("state") in states, f"the source is {states}: {self.source()}")

    def values(self, path: str) -> dict[str, Any]:
        """What the gateway shows of an object, by ``CLASS/NAME``."""
        return dict(next(iter(self.documents("get", f"{SOURCE}/{path}")), {}))

    def walk(self, name: str) -> dict[str, str]:
        """What net-snmp's snmpwalk prints of a name, by its instances."""
        community = self.site.state.secret("community")
        lines = (line.partition(" = ") for line in self._net_snmp("snmpwalk", community, name).splitlines())
        return {instance: value.strip('"') for instance, _, value in lines if not value.startswith("No ")}

    def set(self, instance: str, syntax: str, value: str) -> str:
        """What net-snmp's snmpset prints."""
        return self._net_snmp("snmpset", _WRITER, instance, syntax, value)

    def shows(self, name: str, *values: str) -> None:
        """Wait until a walk of a column shows these values and no others."""
        wait_until(lambda: sorted(self.walk(name).values()) == sorted(values), f"{name} shows {values}")

    def has_pending(self, count: int) -> None:
        """Wait until the queue ``orders`` is shown with so many messages."""
        path = "queue/OpenAMQ 1.4c1|orders"
        wait_until(
            lambda: self.values(path).get("values", {}).get("pending") == count, f"{count} messages are shown"
        )

    def _net_snmp(self, program: str, community: str, *arguments: str) -> str:
        folder = self.site.folder / "snmp"
        folder.mkdir(exist_ok=True)
        modules = (*base_folders(), shipped_folder("mibs"))
        options = (
            *("-v2c", "-c", community, "-OQs", "-t", "30", "-r", "0"),
            *("-M", ":".join(map(str, modules)), "-m", "AMQP-GATEWAY-MIB:AMQP-GATEWAY-OPENAMQ-MIB"),
        )
        done = subprocess.run(  # noqa: S603  no shell; the arguments are ours
            [program, *options, f"127.0.0.1:{self.site.snmp_port}", *arguments],
            env={**os.environ, "SNMPCONFPATH": str(folder), "SNMP_PERSISTENT_DIR": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout or done.stderr


@contextmanager
def gateway_at(
    url: str,
    user: str,
    password: str,
    folder: Path,
    *,
    vhost: str = "/",
    **settings: Any,  # noqa: ANN401  of a configuration
) -> Iterator[OpenAmqGateway]:
    """A gateway that runs; ``settings`` are more of the source's."""
    site = new_site(folder)
    amqp = {"url": url, "vhost": vhost, "user": user, "password": site.secret(password)}
    source: Mapping[str, object] = {"kind": "cml", "amqp": amqp, **QUICK, **settings}
    who = [f"cli:{getpass.getuser()}", "snmp:operator"]
    rule = {
        "who": who,
        "classes": ["openamq.org.server:*"],
        "set": ["*"],
        "invoke": ["purge", "lock", "commit"],
    }
    site.configure(
        sources={SOURCE: source},
        operations={"allow": [{**rule, "read": True}]},
        snmp={
            "listen": [f"127.0.0.1:{site.snmp_port}"],
            "writers": {"operator": {"community": site.secret(_WRITER)}},
        },
        log={"compact": False},
    )
    with running("run", "--config", site.configuration, log=folder / "log") as command:
        command.ready()
        yield OpenAmqGateway(site, command)
