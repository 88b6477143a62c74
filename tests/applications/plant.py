"""A gateway with a source of kind ami, and what sees what applications tell it."""

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

from gateway.eventlog.query import ask
from gateway.service.exit_codes import ExitCode
from gateway.shipped_files import shipped_folder
from gateway.snmp.mib.lint import base_folders
from tests.components.ami_application import Application, connected
from tests.components.command_line import Ended, RunningCommand, Site, amqp_gateway, new_site, running
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until

SOURCE = "plant"
MAPPING = """\
version: 1
package: ami
module: PLANT-MIB
prefix: plant
classes:
  Tank:
    label: Tanks of the plant
    properties:
      application: {index: true}
      object: {index: true}
    statistics:
      level: {unit: percent, label: Level}
      filled: {unit: l, kind: counter, description: What ever flowed into it.}
  Silo:
    alarms:
      siloFull: {element: level, at_least: 90, clear_below: 80, severity: major, text: "{name} has {level} %"}
    statistics:
      level: {unit: percent}
"""


@dataclass(frozen=True, slots=True)
class Plant:
    """A gateway that runs, or can be run.

    Attributes:
        site: its folder.
        port: where applications connect.
        jmx_port: of the loopback.
    """

    site: Site
    port: int
    jmx_port: int

    @contextmanager
    def running(self, *command: str) -> Iterator[RunningCommand]:
        """The gateway, or the process of it that is named, until the block ends."""
        words = command or ("run",)
        log = self.site.folder / "gateway.log"
        with running(*words, "--config", self.site.configuration, log=log) as gateway:
            gateway.ready()
            yield gateway

    @contextmanager
    def application(self, name: str, more: str = "") -> Iterator[Application]:
        """One that has logged in."""
        with connected(self.port) as application:
            application.log_in(name, more)
            yield application

    def command(self, *arguments: str) -> Ended:
        """Run a command beside the gateway, with its configuration."""
        return amqp_gateway(*arguments, "--config", self.site.configuration)

    def documents(self, *arguments: str) -> list[dict[str, Any]]:
        """The lines that a command with ``--json`` printed; none where it did not do its work."""
        ended = self.command(*arguments, "--json")
        return [json.loads(line) for line in ended.output.splitlines()] if ended.code is ExitCode.OK else []

    def source(self) -> dict[str, Any]:
        """What the gateway says of the source; nothing where it says nothing."""
        return next(iter(self.documents("source", "ls")), {})

    def values(self, path: str) -> dict[str, Any]:
        """What the gateway shows of an object (``ami:Tank/pump-7|t1``); nothing where there is none."""
        return dict(next(iter(self.documents("get", f"{SOURCE}/{path}")), {}))

    def walk(self, name: str) -> dict[str, str]:
        """What net-snmp's snmpwalk prints of a name, by its instances."""
        folder = self.site.folder / "snmp"
        folder.mkdir(exist_ok=True)
        modules = (*base_folders(), shipped_folder("mibs"), self.site.state.path / "mibs")
        done = subprocess.run(  # noqa: S603  no shell; the arguments are ours
            ["snmpwalk", "-v2c", "-c", self.site.state.secret("community"), "-OQs", "-t", "20",  # noqa: S607  Debian's
             "-M", ":".join(map(str, modules)),
             "-m", "AMQP-GATEWAY-MIB:AMQP-GATEWAY-AMI-MIB:AMQP-GATEWAY-SITE-MIB",
             f"127.0.0.1:{self.site.snmp_port}", name],
            env={**os.environ, "SNMPCONFPATH": str(folder), "SNMP_PERSISTENT_DIR": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        lines = (line.partition(" = ") for line in done.stdout.splitlines())
        return {instance: value.strip('"') for instance, _, value in lines if not value.startswith("No ")}

    def shows(self, name: str, *values: str) -> None:
        """Wait until a walk of a column shows these values and no others."""
        wait_until(lambda: sorted(self.walk(name).values()) == sorted(values), f"{name} shows {values}")


def new_plant(folder: Path, *, jmx: bool = False, **settings: object) -> Plant:
    """A gateway that was never run, with a mapping of its operator's own."""
    site = new_site(folder)
    plant = Plant(site, free_tcp_port(), free_tcp_port())
    (folder / "plant.yaml").write_text(MAPPING, encoding="utf-8")
    configure(plant, jmx=jmx, **settings)
    return plant


def configure(plant: Plant, *, jmx: bool = False, **settings: object) -> None:
    """Write the configuration; ``settings`` are more of the source's."""
    who = f"cli:{getpass.getuser()}"
    source: Mapping[str, object] = {"kind": "ami", "listen": f"127.0.0.1:{plant.port}", **settings}
    plant.site.configure(
        sources={SOURCE: source},
        mappings=["plant.yaml"],
        jmx={"enabled": jmx, "listen": f"127.0.0.1:{plant.jmx_port}"},
        operations={"allow": [{"who": [who, "jmx:monitor"], "invoke": ["drain"], "set": ["*"]}]},
        log={"compact": False},
    )


def wait_for_the_disk(plant: Plant, *objects: str) -> None:
    """Wait until the event log has these tanks, and the state folder their class with the key ``raw``."""
    classes = plant.site.state.path / "schemas" / "plant.classes"

    def has_them() -> bool:
        if not classes.exists() or '["raw",' not in classes.read_text(encoding="utf-8"):
            return False
        sql = "SELECT DISTINCT native_id FROM log WHERE class = 'Tank'"
        with ask(plant.site.state.path / "log", sql, {}) as answer:
            return {row[0] for row in answer.rows} >= set(objects)

    wait_until(has_them, "the objects are on the disk")
