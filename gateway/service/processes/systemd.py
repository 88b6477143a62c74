"""systemd: notifications of the running gateway (sd_notify(3)), and units for one configuration.

A unit permits its service nothing that the configuration does not need.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from gateway.service.processes.exit_codes import ExitCode

if TYPE_CHECKING:  # The supervisor has a service manager, and no model of the configuration.
    from gateway.config.files import LoadedConfiguration

USER: Final = "amqp-gateway"
STATE: Final = Path("/var/lib/amqp-gateway")

GATEWAY_UNIT: Final = Path("etc/systemd/system/amqp-gateway.service")
AGENT_UNIT: Final = Path("etc/systemd/system/amqp-gateway-agent@.service")
USERS: Final = Path("etc/sysusers.d/amqp-gateway.conf")

_HOPELESS = (ExitCode.USAGE, ExitCode.CONFIGURATION, ExitCode.NOT_INSTALLED)
"""Exit codes that no further start can mend."""

MODULE: Final = (sys.executable, "-P", "-m", "gateway.cli.main")
"""The command line of a process of this installation.

Python looks for no module in the current folder (``-P``): others may write there.
"""

_FIRST_FREE_PORT = 1024
_HOMES = (Path("/home"), Path("/root"), Path("/run/user"))

_HARDENING = """\
NoNewPrivileges=yes
ProtectSystem=strict
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
LimitCORE=0
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
UMask=0077"""


@dataclass(frozen=True, slots=True)
class _Needs:
    """The needs of a service beyond those that all services have."""

    writable: tuple[Path, ...] = ()
    makes_code: bool = False
    low_ports: bool = False
    read: tuple[Path, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the needs as lines of a unit."""
        yield f"ProtectHome={'read-only' if any(map(_is_at_home, self.read)) else 'yes'}"
        for folder in self.writable:
            if folder == STATE:
                yield f"StateDirectory={STATE.name}"
                yield "StateDirectoryMode=0700"
            else:
                yield f"ReadWritePaths={_quoted(folder)}"
        if self.low_ports:
            yield "CapabilityBoundingSet=CAP_NET_BIND_SERVICE"
            yield "AmbientCapabilities=CAP_NET_BIND_SERVICE"
        else:
            yield "CapabilityBoundingSet="
            yield "PrivateUsers=yes"
        if not self.makes_code:
            yield "MemoryDenyWriteExecute=yes"


def unit_files(loaded: LoadedConfiguration) -> Mapping[Path, str]:
    """Return every file, by its path below ``/``.

    Args:
        loaded: the configuration that the services run with.
    """
    files = {
        USERS: f'u {USER} - "AMQP management gateway" {STATE} /usr/sbin/nologin\n',
        GATEWAY_UNIT: _gateway_unit(loaded),
    }
    if loaded.settings.agents:
        files[AGENT_UNIT] = _agent_unit(loaded)
    return files


def program() -> tuple[str, ...]:
    """Return the command that calls the running installation."""
    script = Path(sys.executable).with_name("amqp-gateway")
    return (str(script),) if script.exists() else MODULE


def _gateway_unit(loaded: LoadedConfiguration) -> str:
    settings = loaded.settings
    writable = [loaded.state_folder]
    if settings.log.enabled and not loaded.log_folder.is_relative_to(loaded.state_folder):
        writable.append(loaded.log_folder)
    heads = loaded.heads_file
    if settings.log.enabled and heads is not None and not heads.is_relative_to(loaded.state_folder):
        writable.append(heads.parent)
    configured = loaded.configured_socket
    if configured is not None and not configured.is_relative_to(loaded.state_folder):
        writable.append(configured.parent)
    needs = _Needs(
        tuple(writable),
        makes_code=settings.jmx.enabled,  # a Java virtual machine compiles what it runs
        low_ports=_has_low_ports(loaded, agents=False),
        read=_read(loaded),
    )
    service = (
        "Type=notify",
        "NotifyAccess=main",
        f"ExecStart={_command(loaded, 'run')}",
        "WatchdogSec=60",
        # A big instance index is checked whole; a big event log is recovered.
        "TimeoutStartSec=300",
        "TimeoutStopSec=30",
        "KillMode=mixed",
        # The supervisor starts a process that the kernel killed again.
        "OOMPolicy=continue",
        "LimitNOFILE=65536",
        "TasksMax=512",
        # For the feed's socket, where the state folder cannot hold one: /tmp is the service's own.
        f"RuntimeDirectory={USER}",
        "RuntimeDirectoryMode=0700",
    )
    return _unit("AMQP management gateway", loaded, service, needs, loaded.credentials(agents=False))


def _has_low_ports(loaded: LoadedConfiguration, *, agents: bool) -> bool:
    return any(
        port < _FIRST_FREE_PORT and (place[0] == "agents") is agents
        for place, _, (_, port) in loaded.settings.listeners
    )


def _agent_unit(loaded: LoadedConfiguration) -> str:
    service = (
        "Type=exec",
        f"ExecStart={_command(loaded, 'agent', '%i')}",
        "TimeoutStopSec=15",
        "TasksMax=64",
    )
    low_ports = _has_low_ports(loaded, agents=True)
    needs = _Needs((loaded.state_folder,), low_ports=low_ports, read=_read(loaded))
    return _unit("AMQP management agent %i", loaded, service, needs, loaded.credentials(agents=True))


def _unit(
    description: str,
    loaded: LoadedConfiguration,
    service: tuple[str, ...],
    needs: _Needs,
    credentials: tuple[str, ...],
) -> str:
    lines = (
        f"# Written by `amqp-gateway systemd install` for {loaded.path}, and overwritten by it.",
        "[Unit]",
        f"Description={description}",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        *service,
        f"User={USER}",
        f"Group={USER}",
        # For secrets that the configuration takes from the environment.
        f"EnvironmentFile=-{_escaped(loaded.folder / 'environment')}",
        *(f"LoadCredential={name}" for name in credentials),
        "Restart=on-failure",
        "RestartSec=5",
        f"RestartPreventExitStatus={' '.join(str(code.value) for code in _HOPELESS)}",
        "",
        _HARDENING,
        *needs.lines(),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    )
    return "\n".join(lines) + "\n"


def _command(loaded: LoadedConfiguration, *words: str) -> str:
    first, *others = program()
    return " ".join([_quoted(Path(first)), *others, *words, "--config", _quoted(loaded.path)])


def _read(loaded: LoadedConfiguration) -> tuple[Path, ...]:
    """Return the paths that must not be hidden from the services."""
    java = loaded.settings.jmx.java
    places = [
        Path(program()[0]),
        Path(sys.prefix).resolve(),
        Path(sys.base_prefix),
        loaded.path,
        loaded.state_folder,
    ]
    return tuple(places if java is None else [*places, loaded.folder / java])


def _is_at_home(path: Path) -> bool:
    return any(path.is_relative_to(home) for home in _HOMES)


def _escaped(path: Path) -> str:
    """Return a path with ``%`` escaped: it has no specifiers of systemd."""
    return str(path).replace("%", "%%")


def _quoted(path: Path) -> str:
    """Return a path as one word of a command line or list (systemd.syntax(7))."""
    text = _escaped(path).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{text}"' if any(letter.isspace() for letter in text) or '"' in text else text


log = structlog.get_logger(__name__)

_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_MICROSECONDS: Final = 10**6
_SHARE: Final = 4
"""The number of signs of life in one interval of the watchdog: a late one is no reason to be killed."""


class ServiceManager:
    """The service manager that started this process.

    Args:
        address: the address of its socket; empty where there is none. ``@`` begins an abstract one.
        watchdog: seconds in which it wants a sign of life; 0 for none.
    """

    def __init__(self, address: str = "", watchdog: float = 0.0) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog = watchdog
        self._variables: Mapping[str, str] = {}

    @classmethod
    def of_environment(cls, environment: MutableMapping[str, str] = os.environ) -> ServiceManager:
        """Return the service manager that the environment names.

        Its variables are removed from the environment: they are not for our own processes.
        """
        variables = {name: environment.pop(name) for name in _VARIABLES if name in environment}
        address, interval, pid = (variables.get(name, "") for name in _VARIABLES)
        ours = not pid or pid == str(os.getpid())
        watchdog = (
            int(interval) / _MICROSECONDS if ours and interval.isascii() and interval.isdigit() else 0.0
        )
        manager = cls(address if address[:1] in {"/", "@"} else "", watchdog)
        manager._variables = variables
        return manager

    def hand_on(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Put its variables back into the environment, for the program that this process becomes."""
        environment.update(self._variables)

    def ready(self) -> None:
        """Report that the gateway is ready."""
        self._send("READY=1", "STATUS=running")

    def stopping(self) -> None:
        """Report that the gateway is about to end."""
        self._send("STOPPING=1", "STATUS=stopping")

    def restarting(self) -> None:
        """Report that the gateway begins again as the same process, which is ready then."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={microseconds}", "STATUS=restarting")

    async def watch(self, silent: Callable[[], Awaitable[list[str]]]) -> None:
        """Send signs of life, without end, as long as no process is silent.

        One that is silent for a whole interval is hung; systemd ends the gateway then and starts it again.

        Args:
            silent: returns the names of the processes that do not answer.
        """
        if not self._watchdog or not self._address:
            await asyncio.get_running_loop().create_future()
        while True:
            names = await silent()
            if names:
                log.warning("processes-silent", names=names)
                self._send(f"STATUS=silent: {', '.join(names)}")
            else:
                self._send("WATCHDOG=1", "STATUS=running")
            await asyncio.sleep(self._watchdog / _SHARE)

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        # It may have ended, or its queue may be full: neither is a reason for us to wait or to fail.
        with (
            contextlib.suppress(OSError),
            socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            ) as line,
        ):
            line.sendto("\n".join(lines).encode(), self._address)
