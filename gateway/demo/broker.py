"""A RabbitMQ node of our own: own name, ports, cookie, port mapper and folder, on loopback alone.

It touches no broker that is installed or running, needs no rights beyond those of the user who starts it,
and leaves nothing behind, however its owner ends (see `gateway.demo.keeper`).
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import httpx

from gateway.demo import keeper

Progress = Callable[[str], None]
"""Told in one line each what is being done."""

_SERVER_PLACES: Final = (
    "/usr/lib/rabbitmq/bin/rabbitmq-server",  # Debian: the script below the wrapper that insists on its user
    "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server",
    "/opt/rabbitmq/sbin/rabbitmq-server",
)
_LOOPBACK: Final = "127.0.0.1"
_HANDLED_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1
_ERLANG_LOOPBACK: Final = "-kernel inet_dist_use_interface {127,0,0,1}"


class BrokerError(Exception):
    """The private broker cannot do what was asked; the text says what happened and quotes its log."""


class BrokerNotInstalledError(BrokerError):
    """There is no RabbitMQ on this machine."""

    def __init__(self) -> None:
        super().__init__("RabbitMQ is not installed; on Debian: apt-get install rabbitmq-server")


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """TCP ports of one node, all on 127.0.0.1."""

    amqp: int
    management: int
    distribution: int
    port_mapper: int


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's name and password; the password stays out of ``repr``."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """How the node is set up.

    Attributes:
        event_exchange: enable the plugin that publishes the broker's events on ``amq.rabbitmq.event``.
        statistics_interval: seconds between two samples of the management statistics (RabbitMQ's
            ``collect_statistics_interval``; its own default is 5).
        memory_limit: octets of memory in use at which the memory alarm is raised.
        start_deadline: seconds that a start may take.
        grace: seconds given to the node to stop by itself before it is killed; 0 kills it at once.
    """

    event_exchange: bool = True
    statistics_interval: float = 5.0
    memory_limit: int = 1024 * 1024 * 1024
    start_deadline: float = 120.0
    grace: float = 30.0


def find_server() -> Path:
    """Path of the script that starts a RabbitMQ node as any user.

    Raises:
        BrokerNotInstalledError: there is none.
    """
    for place in _SERVER_PLACES:
        for path in sorted(Path("/").glob(place.lstrip("/")), reverse=True):
            return path
    raise BrokerNotInstalledError


def free_ports(count: int) -> tuple[int, ...]:
    """Different TCP ports that nobody listens on, as the kernel confirms by binding each.

    They lie below the range from which the kernel takes ports for outgoing connections: a connection of
    anybody else could otherwise sit on the port of a node that is down, and it could not start again.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports: list[int] = []
    with ExitStack() as held:
        for port in random.SystemRandom().sample(range(max(lowest - 16_384, 10_000), lowest), 256):
            candidate = held.enter_context(socket.socket())
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind((_LOOPBACK, port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return tuple(ports)
    raise BrokerError(f"no {count} free TCP ports found on {_LOOPBACK}")


class PrivateBroker:
    """One node and its port mapper, in a folder.

    Use it as a context manager, or call `start` and `close`. `attach` gives another process the same
    broker: it lives until its last user has closed it or ended.

    Args:
        folder: where everything of the node lies; made when missing. Without one, a temporary folder,
            removed at the end.
        settings: how the node is set up.
        progress: told what is being done, one line each.
    """

    def __init__(
        self,
        folder: Path | None = None,
        settings: BrokerSettings | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._progress = progress or (lambda _line: None)
        self._remove = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="amqp-gateway-broker-"))
        self.settings = settings or BrokerSettings()
        amqp, management, distribution, port_mapper = free_ports(4)
        self.ports = BrokerPorts(amqp, management, distribution, port_mapper)
        self.node_name = f"amqp-gateway-{secrets.token_hex(4)}@localhost"
        self.administrator = Credentials("administrator", secrets.token_urlsafe(18))
        self._keeper: subprocess.Popen[bytes] | None = None
        self._lease: IO[bytes] | None = None
        self._commands = 0

    # -- where things are

    @property
    def management_url(self) -> str:
        """Base URL of the management API, without a path."""
        return f"http://{_LOOPBACK}:{self.ports.management}"

    @property
    def log_file(self) -> Path:
        """The node's own log."""
        return self.folder / "log" / "node.log"

    def amqp_url(self, user: Credentials | None = None, vhost: str = "/") -> str:
        """AMQP URL of ``vhost`` for ``user`` (the administrator unless told); it carries the password."""
        who = user or self.administrator
        return str(
            httpx.URL(
                scheme="amqp", username=who.name, password=who.password, host=_LOOPBACK, port=self.ports.amqp
            ).copy_with(raw_path=b"/" + _quoted(vhost).encode())
        )

    def http(self, user: Credentials | None = None, timeout: float = 30.0) -> httpx.Client:
        """A client of the management API (base URL ends with ``/api/``); the caller closes it."""
        who = user or self.administrator
        return httpx.Client(
            base_url=f"{self.management_url}/api/",
            auth=(who.name, who.password),
            timeout=timeout,
            trust_env=False,
        )

    def node_process(self) -> int | None:
        """Process id of the node, None while it is down."""
        node: int | None = self._state()["node"]
        return node

    # -- life

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the node, or start it again on the same ports and data, and wait until it serves.

        Raises:
            BrokerError: it ended, or did not serve within `BrokerSettings.start_deadline`.
        """
        if self._keeper is None:
            self._progress(f"starting RabbitMQ node {self.node_name} in {self.folder}")
            self._write_files()
            self._start_keeper()
        self._command("start")
        self._await_ready()

    def stop_node(self) -> None:
        """Stop the node gracefully; ports and data stay its own, and `start` brings it back."""
        self._command("stop", self.settings.grace + _HANDLED_SECONDS)

    def kill_node(self) -> None:
        """End the node by SIGKILL, as a crash would; `start` brings it back."""
        self._command("kill")

    def close(self) -> None:
        """Give the broker up; without another user it is ended, and waited for. May be called twice."""
        if self._keeper is not None:
            self._progress(f"stopping RabbitMQ node {self.node_name}")
        self._give_lease_back()
        if self._keeper is not None:
            if self._keeper.stdin is not None:
                self._keeper.stdin.close()
            if not self._used_by_others():
                self._keeper.wait()
            self._keeper = None
        elif self._remove:
            shutil.rmtree(self.folder, ignore_errors=True)

    def rabbitmqctl(self, *arguments: str, timeout: float = 60.0) -> str:
        """Run ``rabbitmqctl`` against this node, and give what it printed.

        Raises:
            BrokerError: it failed; the text quotes what it said.
        """
        command = [str(find_server().with_name("rabbitmqctl")), "--node", self.node_name, *arguments]
        done = subprocess.run(
            command, env=self._environment(), cwd=self.folder, capture_output=True, text=True,
            timeout=timeout, check=False, stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise BrokerError(f"rabbitmqctl {' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the node's log, or of what it printed before it had one."""
        for file in (self.log_file, self.folder / "console.log"):
            if file.exists() and (text := file.read_text(errors="replace").strip()):
                return "\n".join(text.splitlines()[-lines:])
        return "(nothing was logged)"

    # -- the keeper

    def _start_keeper(self) -> None:
        self._lease = (self.folder / keeper.LEASE_FILE).open("ab")
        fcntl.flock(self._lease, fcntl.LOCK_SH)
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", str(Path(keeper.__file__)), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            start_new_session=True,
        )
        self._wait_for_state(0, _HANDLED_SECONDS)

    def _command(self, name: str, seconds: float = _HANDLED_SECONDS) -> None:
        if self._keeper is None or self._keeper.stdin is None:
            raise BrokerError(f"cannot {name}: the node is not this process's own, or was given up")
        self._commands += 1
        self._keeper.stdin.write(f"{name}\n".encode())
        self._keeper.stdin.flush()
        self._wait_for_state(self._commands, seconds)

    def _wait_for_state(self, handled: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._state()["handled"] < handled:
            if time.monotonic() > deadline or (self._keeper is not None and self._keeper.poll() is not None):
                raise BrokerError(f"the broker's keeper does not answer\n{self.log_tail()}")
            time.sleep(_POLL_SECONDS / 5)

    def _state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads((self.folder / keeper.STATE_FILE).read_text())
        except FileNotFoundError:
            return {"handled": -1, "node": None, "port_mapper": None, "node_status": None}
        return state

    def _give_lease_back(self) -> None:
        if self._lease is not None:
            self._lease.close()
            self._lease = None

    def _used_by_others(self) -> bool:
        try:
            with (self.folder / keeper.LEASE_FILE).open("rb") as lease:
                fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            # Held: shared by another user, or for itself by the keeper, which is then about to end.
            return True
        return False

    def _await_ready(self) -> None:
        deadline = time.monotonic() + self.settings.start_deadline
        with self.http(timeout=5.0) as client:
            while not self._serves(client):
                state = self._state()
                if state["node"] is None:
                    raise BrokerError(
                        f"RabbitMQ ended while starting (status {state['node_status']}):\n{self.log_tail()}"
                    )
                if time.monotonic() > deadline:
                    raise BrokerError(
                        f"RabbitMQ did not serve within {self.settings.start_deadline:g} s:\n{self.log_tail()}"
                    )
                time.sleep(_POLL_SECONDS)
        self._progress(
            f"RabbitMQ serves AMQP on {_LOOPBACK}:{self.ports.amqp}, HTTP on {self.management_url}"
        )

    def _serves(self, client: httpx.Client) -> bool:
        try:
            with socket.create_connection((_LOOPBACK, self.ports.amqp), timeout=1.0):
                # Nodes are listed once the statistics database runs, which is later than the listener.
                answer = client.get("nodes", params={"columns": "name,running"})
                return answer.status_code == httpx.codes.OK and any(n.get("running") for n in answer.json())
        except (OSError, httpx.HTTPError, ValueError):
            return False

    # -- files

    def _write_files(self) -> None:
        server = find_server()
        home = self.folder / "home"
        for place in (home, self.folder / "log", self.folder / "data"):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_private(home / ".erlang.cookie", secrets.token_hex(20), 0o400)
        _write_private(self.folder / "rabbitmq.conf", self._configuration())
        _write_private(self.folder / "rabbitmq-env.conf", "")
        plugins = ["rabbitmq_management"] + ["rabbitmq_event_exchange"] * self.settings.event_exchange
        _write_private(self.folder / "enabled_plugins", f"[{','.join(plugins)}].\n")
        plan = {
            "port_mapper": ["epmd", "-port", str(self.ports.port_mapper), "-address", _LOOPBACK],
            "node": [str(server)],
            "environment": self._environment(),
            "grace": self.settings.grace,
            "remove": self._remove,
        }
        _write_private(self.folder / keeper.PLAN_FILE, json.dumps(plan))

    def _configuration(self) -> str:
        lines = {
            "listeners.tcp.1": f"{_LOOPBACK}:{self.ports.amqp}",
            "management.tcp.ip": _LOOPBACK,
            "management.tcp.port": self.ports.management,
            "default_user": self.administrator.name,
            "default_pass": self.administrator.password,
            "collect_statistics_interval": round(self.settings.statistics_interval * 1000),
            "vm_memory_high_watermark.absolute": self.settings.memory_limit,
            "disk_free_limit.absolute": 1_000_000,
            "raft.wal_max_size_bytes": 4 * 1024 * 1024,
            "log.file.level": "info",
            "log.console": "false",
        }
        return "".join(f"{key} = {value}\n" for key, value in lines.items())

    def _environment(self) -> dict[str, str]:
        inherited: Mapping[str, str] = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RABBITMQ_", "ERL_", "NOTIFY_SOCKET"))
        }
        folder = self.folder
        return {
            **inherited,
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": _LOOPBACK,
            "ERL_EPMD_PORT": str(self.ports.port_mapper),
            # For each Erlang that is started: the node, its short-lived probe of the port mapper, the
            # command line tools. None may listen elsewhere, or start a port mapper that stays.
            "ERL_FLAGS": f"{_ERLANG_LOOPBACK} -start_epmd false",
            "RABBITMQ_NODENAME": self.node_name,
            "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_LOGS": str(self.log_file),
            "RABBITMQ_DIST_PORT": str(self.ports.distribution),
            # Makes the start script become the Erlang machine, instead of a shell that waits for it.
            "RUNNING_UNDER_SYSTEMD": "true",
            "RABBITMQ_CTL_DIST_PORT_MIN": "0",
            "RABBITMQ_CTL_DIST_PORT_MAX": "0",
        }


def _quoted(text: str) -> str:
    """``text`` as one segment of a URL's path."""
    return httpx.URL("http://x/", params={"": text}).query.decode().removeprefix("=").replace("+", "%20")


def _write_private(path: Path, text: str, mode: int = 0o600) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
