"""net-snmp's commands against one gateway, by name: reading, setting, and ``snmptrapd`` as trap receiver."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gateway.shipped_files import shipped_folder
from gateway.snmp.mib.lint import base_folders

MODULES = ("SNMPv2-MIB", "SNMP-MPD-MIB", "AMQP-GATEWAY-MIB", "AMQP-GATEWAY-RABBITMQ-MIB")
"""The MIB modules that the commands load, with names for everything that the agent answers with."""
SET_SECONDS = 15
"""Seconds that a writer waits for the answer to a SET, before it asks once more.

A SET is answered when its outcome is known.
"""
_COMMAND_SECONDS = 60.0
_LINE = re.compile(
    r"(?:[A-Za-z0-9-]+::)?(?P<name>[A-Za-z][A-Za-z0-9]*)(?:\.(?P<index>[0-9.]+))? = ?(?P<value>.*)", re.DOTALL
)
_REMARK = "Created directory:"
_NO_VALUE = ("No Such Object", "No Such Instance", "No more variables")

Table = dict[str, dict[str, str]]
"""Rows by their index as text (``1.27``), each with its cells by column name."""


class SnmpCommandError(Exception):
    """A command failed, or printed what is not understood; the text quotes it."""


@dataclass(frozen=True, slots=True)
class SnmpCommands:
    """The commands of net-snmp, configured for one agent by a file of their own.

    Attributes:
        folder: the folder of ``snmp.conf`` and of the commands' own files.
        address: ``HOST:PORT``.
    """

    folder: Path
    address: str

    @classmethod
    def configured(cls, folder: Path, address: str, community: str, *, writes: bool = False) -> SnmpCommands:
        """Write ``snmp.conf`` (0600, it holds the community) into ``folder``.

        With ``writes``, commands wait longer for an answer, as a SET takes.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = [
            "defVersion 2c",
            f"defCommunity {community}",
            f"mibdirs {':'.join(map(str, (*base_folders(), shipped_folder('mibs'))))}",
            f"mibs {':'.join(MODULES)}",
            *([f"timeout {SET_SECONDS}", "retries 1"] if writes else []),
        ]
        path = folder / "snmp.conf"
        path.touch(mode=0o600)
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        return cls(folder, address)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment in which commands read ``snmp.conf``, and leave nothing in the user's folders."""
        return {"SNMPCONFPATH": str(self.folder), "SNMP_PERSISTENT_DIR": str(self.folder)}

    def run(self, command: str, *arguments: str) -> str:
        """Run a net-snmp command with the agent's address before the last argument.

        Raises:
            SnmpCommandError: it is not installed, failed, or did not end.
        """
        *options, what = arguments
        return self._printed(command, *options, self.address, what)

    def set(self, *assignments: str) -> str:
        """Set variables by ``snmpset``, all in one request.

        Args:
            assignments: of each variable its instance, the letter of its type (``=``: as the MIB says), and
                its value.

        Raises:
            SnmpCommandError: it failed; the text quotes the status as ``Reason: noAccess``.
        """
        return self._printed("snmpset", self.address, *assignments)

    def writable(self, entry: str) -> list[str]:
        """Return the columns of a table's entry that SET can write, as the MIB says, in their order.

        Raises:
            SnmpCommandError: it failed.
        """
        printed = self._printed("snmptranslate", "-Tp", "-IR", entry)
        return re.findall(r"-RW- [A-Za-z0-9]+ +([A-Za-z][A-Za-z0-9]*)\(", printed)

    def _printed(self, command: str, *arguments: str) -> str:
        program = shutil.which(command)
        if program is None:
            raise SnmpCommandError(f"{command} is not installed: apt-get install snmp")
        line = [program, *arguments]
        try:
            done = subprocess.run(  # noqa: S603  no shell; the arguments are ours
                line,
                env=dict(os.environ) | dict(self.environment),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SnmpCommandError(f"{' '.join(line)}: no end after {_COMMAND_SECONDS:.0f} s") from error
        complaints = [line for line in done.stderr.splitlines() if not line.startswith(_REMARK)]
        if done.returncode != 0 or complaints:
            said = "\n".join(complaints) or done.stdout.strip()
            raise SnmpCommandError(f"{' '.join(line)}: exit {done.returncode}: {said[:2000]}")
        return done.stdout

    def walk(self, name: str) -> Table:
        """Walk a table or scalar by name with ``snmpbulkwalk``: numeric indexes, no absent cells.

        Raises:
            SnmpCommandError: it failed, or printed a name that it could not resolve.
        """
        printed = self.run("snmpbulkwalk", "-OQsUb", "-Cr25", name)
        rows: Table = {}
        for line in re.split(r"\n(?=\S+ = ?)", printed.rstrip("\n")):
            match = _LINE.fullmatch(line)
            if match is None:
                raise SnmpCommandError(
                    f"snmpbulkwalk {name} printed {line!r}: not a name that the MIBs resolve"
                )
            if not match["value"].startswith(_NO_VALUE):
                rows.setdefault(match["index"], {})[match["name"]] = match["value"].strip('"')
        return rows

    def table(self, name: str) -> list[dict[str, str]]:
        """Return the rows of a table from ``snmptable``: cells by column heading, ``?`` for absent ones.

        Raises:
            SnmpCommandError: it failed.
        """
        separator = "\x1f"
        printed = self.run("snmptable", "-Cf", separator, "-Cl", name)
        lines = [line for line in printed.splitlines() if separator in line]
        if not lines:
            return []
        heading = lines[0].split(separator)
        return [dict(zip(heading, line.split(separator), strict=True)) for line in lines[1:]]


START_SECONDS = 30.0
_LOOK_AGAIN_SECONDS = 0.02
_FORMAT = r"%04y-%02m-%02l %02h:%02j:%02k\n    %V\n    %v\n"
"""The format of one notification: a line with the time, then one line for each varbind."""

_BEGINNING = re.compile(r"(?m)^(?=\d{4}-\d\d-\d\d )")
_VARBIND = re.compile(r"(?:[A-Za-z0-9-]+::)?(?P<name>[A-Za-z0-9.]+?)(?:\.0)? = ?(?P<value>.*)")


@dataclass(frozen=True, slots=True)
class PrintedNotification:
    """A notification as snmptrapd printed it: its name and the values of its varbinds, all by name."""

    name: str
    values: dict[str, str]


class TrapReceiver:
    """A running ``snmptrapd``; it ends when this process does, however that ends.

    Attributes:
        printed: the file that it writes to.
        address: the address at which it listens.
    """

    def __init__(self, process: asyncio.subprocess.Process, printed: Path, address: tuple[str, int]) -> None:
        self._process = process
        self.printed = printed
        self.address = address

    @classmethod
    async def start(cls, folder: Path, port: int, community: str) -> Self:
        """Start the receiver on 127.0.0.1, with ``folder`` (made) for its files; return when it listens.

        Raises:
            SnmpCommandError: it is not installed, or did not begin to listen.
        """
        path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
        program, tie = shutil.which("snmptrapd", path=path), shutil.which("setpriv")
        if program is None or tie is None:
            lacking = "snmptrapd" if program is None else "util-linux"
            raise SnmpCommandError(f"snmptrapd cannot run: apt-get install {lacking}")
        settings, printed = _configured(folder, community), folder / "notifications.txt"
        folders = ":".join(map(str, (*base_folders(), shipped_folder("mibs"))))
        process = await asyncio.create_subprocess_exec(
            *(tie, "--pdeathsig", "TERM", program, "-f", "-n", "-C", "-c", str(settings)),
            *("-M", folders, "-m", ":".join(MODULES), "-OQ", "-F", _FORMAT, "-Lf", str(printed)),
            f"udp:127.0.0.1:{port}",
            env=dict(os.environ) | {"SNMP_PERSISTENT_DIR": str(folder)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        receiver = cls(process, printed, ("127.0.0.1", port))
        try:
            async with asyncio.timeout(START_SECONDS):
                await receiver._listening()
        except TimeoutError as error:
            await receiver.stop()
            raise SnmpCommandError(f"snmptrapd does not listen on port {port}") from error
        return receiver

    def notifications(self) -> list[PrintedNotification]:
        """Return all notifications received so far, in order."""
        return [_notification(part) for part in self.texts()]

    def texts(self) -> list[str]:
        """Return the texts of all notifications received so far, as snmptrapd printed them."""
        text = self.printed.read_text("utf-8", "replace") if self.printed.exists() else ""
        return re.split(_BEGINNING, text)[1:]

    async def stop(self) -> None:
        """End the receiver, and wait for its end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def _listening(self) -> None:
        """Wait until a process has the port; raise `SnmpCommandError` if the receiver ended instead."""
        while not _is_taken(self.address):
            if self._process.returncode is not None:
                assert self._process.stderr is not None
                said = (await self._process.stderr.read()).decode("utf-8", "replace").strip()
                if not said and self.printed.exists():
                    said = self.printed.read_text("utf-8", "replace").strip()  # where it writes its log
                raise SnmpCommandError(f"snmptrapd ended: {said[-1000:] or self._process.returncode}")
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)


def _configured(folder: Path, community: str) -> Path:
    """Write a configuration file (0600, it holds the community) in ``folder``, which is made; return it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = folder / "snmptrapd.conf"
    settings.touch(mode=0o600)
    settings.write_text(f"authCommunity log {community}\ndoNotRetainNotificationLogs yes\n", "ascii")
    return settings


def _is_taken(address: tuple[str, int]) -> bool:
    """Return whether a socket is bound to an address; the port is not taken for that, even for a moment."""
    host = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    bound = f" {host:08X}:{address[1]:04X} "
    return bound in Path("/proc/self/net/udp").read_text("ascii")  # proc(5): in the host's byte order


def free_udp_port() -> int:
    """Return a UDP port of 127.0.0.1 that is free now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _notification(printed: str) -> PrintedNotification:
    values: dict[str, str] = {}
    for line in printed.splitlines()[1:]:
        match = _VARBIND.fullmatch(line.strip())
        if match is not None:
            values[match["name"]] = match["value"].strip('"')
    return PrintedNotification(values.get("snmpTrapOID", "").rpartition("::")[2], values)
