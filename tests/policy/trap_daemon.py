"""net-snmp's trap daemon as a receiver of version 3, whose output is read as octets again."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from gateway.cli.main import main
from gateway.clock import SystemClock
from gateway.service.processes.exit_codes import ExitCode
from gateway.service.state.snmp_security import enterprise_of, start_engine
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.message import TRAP_V2
from gateway.snmp.notifications.notification import SNMP_TRAP_OID
from gateway.snmp.oid_registry import DEFAULT_ROOT
from tests.components.command_line import Site
from tests.components.ports import free_udp_port
from tests.components.waiting import DEADLINE, wait_until
from tests.snmp.notifications.story import Received

USER: Final = "nms"

_PHRASES: Final = ("phrase of nms", "secret of nms")
_END: Final = "\n@\n"
_VARBIND: Final = re.compile(r"^#?\.(?P<name>[0-9.]+) = (?P<value>(?s:.*?))(?=^#|\Z)", re.MULTILINE)


class TrapDaemon:
    """The daemon, which receives at ``address``."""

    def __init__(self, address: str, output: Path) -> None:
        self.address = address
        self._output = output
        self._received: list[Received] = []

    def drain(self) -> list[Received]:
        """Return all notifications received so far."""
        *printed, _ = self._output.read_text("ascii").split(_END)
        self._received += [_received(text) for text in printed[len(self._received) :]]
        return self._received


def _received(text: str) -> Received:
    values: dict[Oid, bytes] = {}
    oid: Oid = ()
    for found in _VARBIND.finditer(text):
        name = tuple(map(int, found["name"].split(".")))
        kind, _, value = found["value"].strip().partition(": ")
        match kind:
            case "Hex-STRING":
                values[name] = ber.encode_octets(bytes.fromhex(value))
            case '""':
                values[name] = ber.encode_octets(b"")
            case "INTEGER":
                values[name] = ber.encode_integer(int(value))
            case "OID":
                target = tuple(map(int, value.strip(".").split(".")))
                values[name] = ber.encode_oid(target)
                oid = target if name == SNMP_TRAP_OID else oid
            case _:
                values[name] = b""
    return Received(TRAP_V2, 0, oid, values)


@contextlib.contextmanager
def trap_daemon(site: Site) -> Iterator[TrapDaemon]:
    """Run the daemon, for traps of the site's engine by its user, whose keys are made."""
    words = ["snmp", "user", "add", USER, "--config", str(site.configuration)]
    added = CliRunner().invoke(main, words, input="".join(f"{phrase}\n" for phrase in _PHRASES))
    assert added.exit_code == ExitCode.OK, added.output
    engine = start_engine(site.state, enterprise_of(DEFAULT_ROOT), SystemClock().now())
    folder = site.folder / "trapd"
    folder.mkdir()
    authentication, privacy = _PHRASES
    (folder / "trapd.conf").write_text(
        f'createUser -e 0x{engine.engine_id} {USER} SHA-256 "{authentication}" AES "{privacy}"\n'
        f"authUser log {USER} priv\n",
        encoding="ascii",
    )
    address, output = f"127.0.0.1:{free_udp_port()}", folder / "output"
    how = ("-f", "-n", "-C", "-c", folder / "trapd.conf", "-m", "", "-Onx", "-Lf", output)
    own = {"SNMP_PERSISTENT_DIR": str(folder), "SNMPCONFPATH": str(folder), "LC_ALL": "C"}
    with (folder / "errors").open("w") as errors:
        daemon = subprocess.Popen(  # noqa: S603  as installed by Debian
            ["/usr/sbin/snmptrapd", *how, "-F", r"%V\n#%v\n@\n", address],
            env=own,
            stdout=errors,
            stderr=errors,
        )
    try:
        wait_until(lambda: daemon.poll() is not None or output.exists(), "the daemon has started")
        assert daemon.poll() is None, (folder / "errors").read_text()
        yield TrapDaemon(address, output)
    finally:
        daemon.terminate()
        daemon.wait(DEADLINE)
