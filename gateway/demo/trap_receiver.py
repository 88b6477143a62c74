"""net-snmp's trap receiver, ``snmptrapd``, for one gateway: what an operator's would print, read back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gateway.demo.snmp_commands import MODULES, SnmpCommandError
from gateway.shipped_files import shipped_folder
from gateway.snmp.mib.lint import base_folders

START_SECONDS = 30.0
_LOOK_AGAIN_SECONDS = 0.02
_FORMAT = r"%04y-%02m-%02l %02h:%02j:%02k\n    %V\n    %v\n"
"""Of one notification: a line with the time, then one line for each varbind."""

_BEGINNING = re.compile(r"(?m)^(?=\d{4}-\d\d-\d\d )")
_VARBIND = re.compile(r"(?:[A-Za-z0-9-]+::)?(?P<name>[A-Za-z0-9.]+?)(?:\.0)? = ?(?P<value>.*)")


@dataclass(frozen=True, slots=True)
class PrintedNotification:
    """What snmptrapd printed of one notification: its name and the values of its varbinds, all by name."""

    name: str
    values: dict[str, str]


class TrapReceiver:
    """A running ``snmptrapd``; it ends when this process does, however that ends.

    Attributes:
        printed: the file that it writes to.
        address: where it listens.
    """

    def __init__(self, process: asyncio.subprocess.Process, printed: Path, address: tuple[str, int]) -> None:
        self._process = process
        self.printed = printed
        self.address = address

    @classmethod
    async def start(cls, folder: Path, port: int, community: str) -> Self:
        """Start it on 127.0.0.1, with ``folder`` (made) for its files; returns when it listens.

        Raises:
            SnmpCommandError: it is not installed, or did not come to listen.
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
            await asyncio.wait_for(receiver._listening(), START_SECONDS)
        except TimeoutError as error:
            await receiver.stop()
            raise SnmpCommandError(f"snmptrapd does not listen on port {port}") from error
        return receiver

    def notifications(self) -> list[PrintedNotification]:
        """Everything received so far, in order."""
        return [_notification(part) for part in self.texts()]

    def texts(self) -> list[str]:
        """The same, as snmptrapd printed it."""
        text = self.printed.read_text("utf-8", "replace") if self.printed.exists() else ""
        return re.split(_BEGINNING, text)[1:]

    async def stop(self) -> None:
        """End it, and wait for its end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def _listening(self) -> None:
        """Until somebody holds the port; an `SnmpCommandError` if the receiver ended instead."""
        while not _is_taken(self.address):
            if self._process.returncode is not None:
                assert self._process.stderr is not None
                said = (await self._process.stderr.read()).decode("utf-8", "replace").strip()
                raise SnmpCommandError(f"snmptrapd ended: {said[-1000:] or self._process.returncode}")
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)


def _configured(folder: Path, community: str) -> Path:
    """A configuration file (0600, it holds the community) in ``folder``, which is made."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = folder / "snmptrapd.conf"
    settings.touch(mode=0o600)
    settings.write_text(f"authCommunity log {community}\ndoNotRetainNotificationLogs yes\n", "ascii")
    return settings


def _is_taken(address: tuple[str, int]) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(address)
        except OSError:
            return True
    return False


def free_udp_port() -> int:
    """A port of 127.0.0.1 that nobody uses now."""
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
