"""net-snmp's own programs: its commands as managers, its daemon as another agent over the same data."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.message import GET_NEXT
from tests.components.net_snmp import own_environment
from tests.components.waiting import wait_until
from tests.snmp.datagrams import COMMUNITY, request

_PASS_PERSIST = Path(__file__).with_name("pass_persist_agent.py")
_NUMBERS = {
    ber.INTEGER: "INTEGER: ",
    ber.COUNTER32: "Counter32: ",
    ber.GAUGE32: "Gauge32: ",
    ber.TIME_TICKS: "",
    ber.COUNTER64: "Counter64: ",
}
_PASS_TYPES = {
    ber.INTEGER: "integer",
    ber.OCTET_STRING: "octet",
    ber.OBJECT_IDENTIFIER: "objectid",
    ber.IP_ADDRESS: "ipaddress",
    ber.COUNTER32: "counter",
    ber.GAUGE32: "gauge",
    ber.TIME_TICKS: "timeticks",
    ber.COUNTER64: "counter64",
}


def dotted(oid: Oid) -> str:
    """Return ``.1.3.6``, the form that names no MIB."""
    return "." + ".".join(map(str, oid))


def plain(value: bytes) -> str:
    """Return a value TLV as a number, an address, a dotted name, or octets in hexadecimal."""
    tag, start, stop = ber.read_header(value, 0, len(value))
    content = value[start:stop]
    if tag in _NUMBERS:
        return str(int.from_bytes(content, "big", signed=tag == ber.INTEGER))
    if tag == ber.OBJECT_IDENTIFIER:
        return dotted(ber.decode_name(content))
    return ".".join(map(str, content)) if tag == ber.IP_ADDRESS else content.hex(" ").upper()


def printed(oid: Oid, value: bytes) -> str:
    """Return the line that net-snmp's commands print with `run`'s options."""
    prefix = _NUMBERS.get(value[0])
    if prefix is None:
        prefix = {ber.OBJECT_IDENTIFIER: "OID: ", ber.IP_ADDRESS: "IpAddress: "}.get(value[0], "Hex-STRING: ")
    text = prefix + plain(value) if value[1] else '""'
    return f"{dotted(oid)} = {text}"


async def run(
    command: str,
    folder: Path,
    port: int,
    oids: Sequence[str],
    version: str = "2c",
    options: Sequence[str] = (),
) -> list[str]:
    """Return the lines of a net-snmp command: numeric names, plain numbers, strings in hexadecimal."""
    process = await asyncio.create_subprocess_exec(
        command,
        *("-v", version, "-c", COMMUNITY.decode(), "-On", "-Ox", "-Ot", "-Oe", "-t", "20", "-r", "0"),
        *options,
        f"127.0.0.1:{port}",
        *oids,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_without_modules(folder),
    )
    output, _ = await process.communicate()
    return [line.rstrip() for line in output.decode().splitlines() if line.strip()]


@contextlib.contextmanager
def snmpd(folder: Path, root: Oid, instances: Mapping[Oid, bytes], access: str = "") -> Iterator[int]:
    """Run net-snmp's daemon on a loopback port of its own, serving ``instances``, all under ``root``.

    ``access`` is a line of its configuration with the rights of `COMMUNITY`; without it, all rights.
    """
    data = folder / "instances.json"
    rows = [(dotted(oid), _PASS_TYPES[value[0]], plain(value)) for oid, value in sorted(instances.items())]
    data.write_text(json.dumps(rows))
    # Strings travel as "octet", in hexadecimal: any octets may be in them.
    program = f"{sys.executable} {_PASS_PERSIST} {data}"
    lines = f"pass_persist {dotted(root)} {program}\n{access}\n"
    modules = "pass,pass_persist" + (",vacm_conf,vacm_vars" if access else "")
    with _daemon(folder, lines, modules, (1, 3)) as port:
        yield port


def proxying_snmpd(folder: Path, lines: str) -> contextlib.AbstractContextManager[int]:
    """Run net-snmp's daemon on a loopback port of its own, with these lines, which forward requests."""
    # It is there when it answers for itself: the agent behind it may be of the process that waits.
    return _daemon(folder, lines, "proxy,vacm_conf,vacm_vars,system_mib", (1, 3, 6, 1, 2, 1, 1))


@contextlib.contextmanager
def _daemon(folder: Path, lines: str, modules: str, served: Oid) -> Iterator[int]:
    """Run the daemon with these lines and modules, nothing of the host; it answers below ``served``."""
    configuration = folder / "agent.conf"
    configuration.write_text(lines)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = (folder / "snmpd.log").open("w")
    daemon = subprocess.Popen(  # noqa: S603
        ["/usr/sbin/snmpd", "-f", "-Lo", "-C", "-c", configuration, "-I", modules, f"127.0.0.1:{port}"],
        env=_without_modules(folder),
        stdout=log,
        stderr=log,
    )
    try:
        wait_until(lambda: answers(port, served) or daemon.poll() is not None, "an answer of snmpd")
        assert daemon.poll() is None, (folder / "snmpd.log").read_text()
        yield port
    finally:
        daemon.terminate()
        daemon.wait(30)
        log.close()


def exchange(port: int, datagram: bytes, seconds: float = 20.0) -> bytes:
    """Return the answer of the agent on this port. Raises ``TimeoutError``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as manager:
        manager.settimeout(seconds)
        manager.connect(("127.0.0.1", port))
        manager.send(datagram)
        return manager.recv(65_536)


def answers(port: int, oid: Oid = (1, 3)) -> bool:
    """Return whether an agent on this port answers."""
    try:
        return bool(exchange(port, request(GET_NEXT, [oid]), seconds=0.5))
    except OSError:
        return False


def _without_modules(folder: Path) -> dict[str, str]:
    """Return an environment without MIBs, whose configuration and state are in ``folder``."""
    return {**own_environment(folder), "MIBS": ""}
