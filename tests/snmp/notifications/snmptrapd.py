"""net-snmp's trap daemon as a receiver: its log as an operator sees it, with the names of the MIBs."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gateway.shipped_files import shipped_folder
from gateway.snmp.mib.lint import base_folders
from tests.components.ports import free_tcp_port, free_udp_port
from tests.components.waiting import wait_until

_BEGINNING = re.compile(r"(?m)^(?=\d{4}-\d\d-\d\d )")
_NAME = re.compile(r"^(?:[A-Za-z0-9-]+::)?(?P<name>\S+?) = (?P<value>.*)$")


@dataclass(frozen=True, slots=True)
class Printed:
    """A notification in the log: its first lines, and the varbinds by name."""

    head: str
    values: dict[str, str]


class Snmptrapd:
    """A running daemon, whose log file is ``log``."""

    def __init__(self, port: int, log: Path) -> None:
        self.port = port
        self._log = log

    def printed(self) -> list[Printed]:
        """Return all notifications that it has received."""
        parts = re.split(_BEGINNING, self._log.read_text("utf-8", "replace"))
        return [_printed(part) for part in parts if " = " in part]

    def until(self, count: int) -> list[Printed]:
        """Wait for this many notifications, and return all."""
        wait_until(lambda: len(self.printed()) >= count, f"{count} notifications in {self._log}")
        return self.printed()


@contextlib.contextmanager
def snmptrapd(
    folder: Path,
    community: str,
    port: int | None = None,
    further: Iterable[str] = (),
    transport: Literal["udp", "tcp"] = "udp",
    modules: Literal["ALL", ""] = "ALL",
    host: str = "127.0.0.1",
) -> Iterator[Snmptrapd]:
    """Run the daemon on a loopback port of its own, with all available modules or none.

    ``further`` are lines of its configuration, and ``host`` is the loopback address of either version.
    """
    port = port or (free_udp_port if transport == "udp" else free_tcp_port)()
    configuration, log = folder / "trapd.conf", folder / "trapd.log"
    lines = (f"authCommunity log,execute {community}", *further)
    configuration.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    folders = ":".join(map(str, (*base_folders(), shipped_folder("mibs"))))
    own = {"SNMP_PERSISTENT_DIR": str(folder), "SNMPCONFPATH": str(folder), "LC_ALL": "C"}
    options = ("-M", folders, "-m", modules, "-Lf", str(log))
    with (folder / "trapd.errors").open("w") as errors:
        daemon = subprocess.Popen(  # noqa: S603
            [
                *("/usr/sbin/snmptrapd", "-f", "-n", "-C", "-c", configuration, *options),
                f"{transport}6:[{host}]:{port}" if ":" in host else f"{transport}:{host}:{port}",
            ],
            env={**os.environ, **own},
            stdout=errors,
            stderr=errors,
        )
    try:
        wait_until(
            lambda: daemon.poll() is not None or (log.exists() and "NET-SNMP version" in log.read_text()),
            "snmptrapd has started",
        )
        assert daemon.poll() is None, (folder / "trapd.errors").read_text()
        yield Snmptrapd(port, log)
    finally:
        daemon.terminate()
        daemon.wait(30)


def _printed(part: str) -> Printed:
    fields = re.split(r"[\t\n]", part)
    matches = [match for field in fields if (match := _NAME.match(field.strip())) is not None]
    head = " ".join(field.strip() for field in fields if " = " not in field)
    return Printed(head, {match["name"]: match["value"] for match in matches})
