"""The parts of a private RabbitMQ node: its ports, files and environment."""

from __future__ import annotations

import json
import os
import random
import secrets
import socket
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Final, Self

from gateway.demo import keeper
from gateway.demo.installation import BrokerError, Installation, find_installation

LOOPBACK: Final = "127.0.0.1"
DESCRIPTION_FILE: Final = "node.json"

_PORT_CANDIDATES: Final = 256
_LOWEST_PORT: Final = 10_000
_PORTS_BELOW_EPHEMERAL: Final = 16_384


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """TCP ports of one node, all on 127.0.0.1; the last three are served where their plugins are enabled."""

    amqp: int
    management: int
    distribution: int
    port_mapper: int
    mqtt: int
    stream: int
    prometheus: int

    @classmethod
    def choose(cls) -> Self:
        """Return ports that are free now, as `free_ports` finds them."""
        return cls(*free_ports(len(fields(cls))))


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's name and password; the password stays out of ``repr``."""

    name: str
    password: str = field(repr=False)

    @classmethod
    def generate(cls, name: str) -> Self:
        """Return credentials of ``name`` with a new random password."""
        return cls(name, secrets.token_hex(18))


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings of a private node.

    Attributes:
        event_exchange: enable the plugin that publishes the broker's events on ``amq.rabbitmq.event``.
        statistics_interval: seconds between two samples of the management statistics (RabbitMQ's
            ``collect_statistics_interval``; its own default is 5).
        memory_limit: octets of memory in use at which the memory alarm is raised.
        start_deadline: seconds that a start may take.
        grace: seconds given to the node to stop by itself before it is killed; 0 kills it at once.
        guarded: start the node again if it ends without a command (see `gateway.demo.keeper`).
        plugins: further plugins to enable.
        debian: code name of the Debian release whose RabbitMQ is run (see `find_installation`); empty for
            the one that is installed.
        configuration: further lines of ``rabbitmq.conf``, such as ``management.disable_stats = true``.
    """

    event_exchange: bool = True
    statistics_interval: float = 5.0
    memory_limit: int = 1024 * 1024 * 1024
    start_deadline: float = 120.0
    grace: float = 30.0
    guarded: bool = False
    plugins: tuple[str, ...] = ()
    debian: str = ""
    configuration: tuple[str, ...] = ()


def free_ports(count: int) -> tuple[int, ...]:
    """Return different free TCP ports; the kernel confirmed each by binding it on 127.0.0.1.

    They lie below the range from which the kernel takes ports for outgoing connections: a connection of
    another process could otherwise occupy the port of a node that is down, and it could not start again.

    Raises:
        BrokerError: too few are free.
    """
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    lowest = max(ephemeral - _PORTS_BELOW_EPHEMERAL, _LOWEST_PORT)
    candidates = range(lowest, max(ephemeral, lowest + _PORTS_BELOW_EPHEMERAL))
    ports: list[int] = []
    with ExitStack() as held:
        for port in random.SystemRandom().sample(candidates, _PORT_CANDIDATES):
            candidate = held.enter_context(socket.socket())
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind((LOOPBACK, port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return tuple(ports)
    raise BrokerError(f"no {count} free TCP ports found on {LOOPBACK}")


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A node: its folder, name, ports, administrator and settings; ``remove`` the folder at the end."""

    folder: Path
    name: str
    ports: BrokerPorts
    administrator: Credentials
    settings: BrokerSettings
    remove: bool

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the description that `write` left in ``folder``.

        Raises:
            FileNotFoundError: there is none.
        """
        data = json.loads((folder / DESCRIPTION_FILE).read_text())
        return cls(
            Path(data["folder"]),
            data["name"],
            BrokerPorts(**data["ports"]),
            Credentials(**data["administrator"]),
            BrokerSettings(**data["settings"]),
            data["remove"],
        )

    @property
    def log_file(self) -> Path:
        """The node's own log."""
        return self.folder / "log" / "node.log"

    @property
    def installation(self) -> Installation:
        """The RabbitMQ that the node runs.

        Raises:
            BrokerNotInstalledError: it is not there.
        """
        return find_installation(self.settings.debian)

    def write(self) -> None:
        """Write all files that the node, its keeper and later users read; secrets with mode 0600."""
        installation = self.installation
        home = self.folder / "home"
        for place in (self.folder, home, self.log_file.parent, self.folder / "data"):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_private(home / ".erlang.cookie", secrets.token_hex(20), 0o400)
        _write_private(self.folder / "rabbitmq.conf", self._configuration())
        _write_private(self.folder / "rabbitmq-env.conf", "")
        _write_private(self.folder / "enabled_plugins", f"[{','.join(self._plugins())}].\n")
        port_mapper = installation.command(self.folder, "epmd")
        plan = {
            "port_mapper": [*port_mapper, "-port", str(self.ports.port_mapper), "-address", LOOPBACK],
            "node": installation.command(self.folder, "rabbitmq-server"),
            "environment": self.environment(),
            "grace": self.settings.grace,
            "remove": self.remove,
        }
        _write_private(self.folder / keeper.PLAN_FILE, json.dumps(plan))
        description = {**asdict(self), "folder": str(self.folder)}
        _write_private(self.folder / DESCRIPTION_FILE, json.dumps(description))

    def environment(self) -> dict[str, str]:
        """Return the environment of every process of this node and of its command line tools."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RABBITMQ_", "ERL_", "NOTIFY_SOCKET"))
        }
        folder = self.installation.seen(self.folder)
        return {
            **inherited,
            "AMQP_GATEWAY_BROKER": str(self.folder),  # for those who look for what belongs to it
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_EPMD_PORT": str(self.ports.port_mapper),
            # For each Erlang that is started: the node, its short-lived probe of the port mapper, the
            # command line tools. None may listen elsewhere, or start a port mapper that stays.
            "ERL_FLAGS": "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false",
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_LOGS": str(folder / self.log_file.relative_to(self.folder)),
            "RABBITMQ_DIST_PORT": str(self.ports.distribution),
            # The start script then becomes the Erlang machine, instead of a shell that waits for it.
            "RUNNING_UNDER_SYSTEMD": "true",
            # Any free port: with the default range, only eleven command line tools run at a time.
            "RABBITMQ_CTL_DIST_PORT_MIN": "0",
            "RABBITMQ_CTL_DIST_PORT_MAX": "0",
            # With a thread for each processor that waits by spinning, a command line tool took a minute and
            # more on a machine that is busy; with one of each kind it takes seconds.
            "RABBITMQ_CTL_ERL_ARGS": ("+S 1:1 +SDcpu 1:1 +SDio 1 +sbwt none +sbwtdcpu none +sbwtdio none"),
        }

    def _configuration(self) -> str:
        lines = {
            "listeners.tcp.1": f"{LOOPBACK}:{self.ports.amqp}",
            "management.tcp.ip": LOOPBACK,
            "management.tcp.port": self.ports.management,
            "default_user": self.administrator.name,
            "default_pass": self.administrator.password,
            "collect_statistics_interval": round(self.settings.statistics_interval * 1000),
            "vm_memory_high_watermark.absolute": self.settings.memory_limit,
            "disk_free_limit.absolute": 1_000_000,
            "raft.wal_max_size_bytes": 4 * 1024 * 1024,
            "log.file.level": "info",
            "log.console": "false",
            **self._listeners(),
        }
        settings = (f"{key} = {value}" for key, value in lines.items())
        return "".join(f"{line}\n" for line in (*settings, *self.settings.configuration))

    def _listeners(self) -> dict[str, object]:
        """Return the listeners of the enabled plugins: only the keys of these are known to the node."""
        lines: dict[str, object] = {}
        plugins = " ".join(self.settings.plugins)
        if "rabbitmq_mqtt" in plugins:
            lines["mqtt.listeners.tcp.1"] = f"{LOOPBACK}:{self.ports.mqtt}"
        if "rabbitmq_stream" in plugins:
            lines["stream.listeners.tcp.1"] = f"{LOOPBACK}:{self.ports.stream}"
            lines["stream.advertised_host"] = LOOPBACK
            lines["stream.advertised_port"] = self.ports.stream
        if "rabbitmq_prometheus" in plugins:
            lines["prometheus.tcp.ip"] = LOOPBACK
            lines["prometheus.tcp.port"] = self.ports.prometheus
        return lines

    def _plugins(self) -> list[str]:
        event_exchange = ["rabbitmq_event_exchange"] if self.settings.event_exchange else []
        return ["rabbitmq_management", *event_exchange, *self.settings.plugins]


def _write_private(path: Path, text: str, mode: int = 0o600) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
