"""A gateway with a source of kind ami, and access to its front ends."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.components.ami_application import Application, connected
from tests.components.command_line import RunningCommand, Site, new_site, running
from tests.components.operated_gateway import OperatedGateway
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
class Plant(OperatedGateway):
    """A gateway that runs, or can be run.

    Attributes:
        site: its folder.
        port: the port at which applications connect.
        jmx_port: the port of JMX on loopback.
    """

    modules: ClassVar = ("AMQP-GATEWAY-AMI-MIB", "AMQP-GATEWAY-SITE-MIB")
    site: Site
    port: int
    jmx_port: int

    @contextmanager
    def running(self, *command: str) -> Iterator[RunningCommand]:
        """Run the gateway, or the given command of it, until the block ends."""
        words = command or ("run",)
        log = self.site.folder / "gateway.log"
        with running(*words, "--config", self.site.configuration, log=log) as gateway:
            gateway.ready()
            yield gateway

    @contextmanager
    def application(self, name: str, more: str = "") -> Iterator[Application]:
        """Provide an application that has logged in."""
        with connected(self.port) as application:
            application.log_in(name, more)
            yield application

    def source(self) -> dict[str, Any]:
        """Return the gateway's description of the source; empty where there is none."""
        return self.sources().get(SOURCE, {})

    def values(self, path: str) -> dict[str, Any]:
        """Return the shown values of an object (``ami:Tank/pump-7|t1``); empty where there is none."""
        return self.shown(f"{SOURCE}/{path}")


def new_plant(folder: Path, *, jmx: bool = False, **settings: object) -> Plant:
    """Return a gateway that was never run, with a mapping of its operator's own."""
    site = new_site(folder)
    plant = Plant(site, free_tcp_port(), free_tcp_port())
    (folder / "plant.yaml").write_text(MAPPING, encoding="utf-8")
    configure(plant, jmx=jmx, **settings)
    return plant


def configure(plant: Plant, *, jmx: bool = False, **settings: object) -> None:
    """Write the configuration; ``settings`` are further settings of the source."""
    who = f"cli:{getpass.getuser()}"
    source: Mapping[str, object] = {"kind": "ami", "listen": f"127.0.0.1:{plant.port}", **settings}
    plant.site.configure(
        sources={SOURCE: source},
        mappings=["plant.yaml"],
        jmx={"enabled": jmx, "listen": f"127.0.0.1:{plant.jmx_port}"},
        policy={"principals": {"*": ["everything"]}},
        operations={"allow": [{"who": [who, "jmx:monitor"], "invoke": ["drain"], "set": ["*"]}]},
        log={"compact": False},
    )


def wait_for_the_disk(plant: Plant, *objects: str) -> None:
    """Wait until the event log has these tanks, and the state folder their class with the key ``raw``."""
    classes = plant.site.state.path / "schemas" / "plant.classes"

    def has_them() -> bool:
        if not classes.exists() or '["raw",' not in classes.read_text(encoding="utf-8"):
            return False
        reported = plant.ask_log("SELECT DISTINCT native_id FROM log WHERE class = 'Tank'")
        return {row["native_id"] for row in reported} >= set(objects)

    wait_until(has_them, "the objects are on the disk")
