"""A RabbitMQ node of our own: own name, ports, cookie, port mapper and folder, on loopback alone.

It touches no broker that is installed or running, needs no rights beyond those of the user who starts it,
and leaves nothing behind, however its owner ends (see `gateway.demo.keeper`).
"""

from __future__ import annotations

import fcntl
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self, TypeAlias
from urllib.parse import quote

import httpx

from gateway.demo import keeper
from gateway.demo.installation import BrokerError, BrokerNotInstalledError
from gateway.demo.node_setup import LOOPBACK, BrokerPorts, BrokerSettings, Credentials, NodeDescription
from gateway.links.tls import NO_AUTHORITIES
from gateway.sources.rabbitmq.proving_client import KEPT_SECONDS

__all__ = [
    "BrokerError",
    "BrokerNotInstalledError",
    "BrokerPorts",
    "BrokerSettings",
    "Credentials",
    "PrivateBroker",
    "Progress",
]

Progress: TypeAlias = Callable[[str], None]
"""A function that is called with each line of progress."""

_HANDLED_SECONDS: Final = 20.0
_END_SECONDS: Final = 60.0
"""How long a keeper may take to end, beside the grace of its node; then the kernel ends its processes."""

_POLL_SECONDS: Final = 0.05
_START_ATTEMPTS: Final = 3
_PORT_TAKEN: Final = ("eaddrinuse", "address already in use")
_NOT_RUNNING: Final[dict[str, Any]] = {
    "handled": -1,
    "detached": False,
    "node": None,
    "node_status": None,
    "given_up": False,
}


class PrivateBroker:
    """One node and its port mapper, in a folder.

    Use it as a context manager, or call `start` and `close`. `attach` gives another process the same
    broker: it lives until its last user has closed it or ended.

    Args:
        folder: the folder of all files of the node; made when missing, and kept at the end unless ``remove``
            says otherwise. Without one, a temporary folder is used, and removed at the end.
        settings: the settings of the node.
        progress: called with each line of progress.
        remove: remove the given folder at the end.
    """

    def __init__(
        self,
        folder: Path | None = None,
        settings: BrokerSettings | None = None,
        progress: Progress | None = None,
        *,
        remove: bool = False,
    ) -> None:
        self._node = NodeDescription(
            folder=(folder or Path(tempfile.gettempdir(), f"amqp-gateway-{secrets.token_hex(6)}")).absolute(),
            name=f"amqp-gateway-{secrets.token_hex(4)}@localhost",
            ports=BrokerPorts.choose(),
            administrator=Credentials.generate("administrator"),
            settings=settings or BrokerSettings(),
            remove=remove or folder is None,
        )
        self._progress: Progress = progress or (lambda _line: None)
        self._keeper: subprocess.Popen[bytes] | None = None
        self._lease: IO[bytes] | None = None
        self._commands = 0

    @classmethod
    def attach(cls, folder: Path) -> Self | None:
        """Return the broker that runs in ``folder``, for another user; ``None`` if none runs or it is ending.

        An attached user can use the broker, but cannot start, stop or kill the node.
        """
        try:
            lease = (folder / keeper.LEASE_FILE).open("rb")
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lease, fcntl.LOCK_SH | fcntl.LOCK_NB)
            description = NodeDescription.read(folder)
        except OSError:
            lease.close()
            return None
        broker = cls(folder, description.settings)
        broker._node = description
        broker._lease = lease
        with broker.http(timeout=_HANDLED_SECONDS) as client:
            if not broker.serves(client):
                broker.close()
                return None
        return broker

    # -- where things are

    @property
    def folder(self) -> Path:
        """The folder of all files of the node."""
        return self._node.folder

    @property
    def node_name(self) -> str:
        """The node's Erlang name."""
        return self._node.name

    @property
    def ports(self) -> BrokerPorts:
        """The node's TCP ports; they last from the first start to the end."""
        return self._node.ports

    @property
    def settings(self) -> BrokerSettings:
        """The settings of the node."""
        return self._node.settings

    @property
    def administrator(self) -> Credentials:
        """The only user of a new node; there is no ``guest``."""
        return self._node.administrator

    @property
    def log_file(self) -> Path:
        """The node's own log."""
        return self._node.log_file

    @property
    def management_url(self) -> str:
        """The base URL of the management API, without a path."""
        return f"http://{LOOPBACK}:{self.ports.management}"

    def amqp_url(self, user: Credentials | None = None, vhost: str = "/") -> str:
        """Return the AMQP URL of ``vhost`` for ``user`` (default: the administrator), with the password."""
        who = user or self.administrator
        authority = f"{quote(who.name, safe='')}:{quote(who.password, safe='')}@{LOOPBACK}:{self.ports.amqp}"
        return f"amqp://{authority}/{quote(vhost, safe='')}"

    def http(self, user: Credentials | None = None, timeout: float = 30.0) -> httpx.Client:
        """Return a client of the management API (base URL ends with ``/api/``); the caller closes it."""
        who = user or self.administrator
        return httpx.Client(
            base_url=f"{self.management_url}/api/",
            auth=(who.name, who.password),
            verify=NO_AUTHORITIES,
            timeout=timeout,
            limits=httpx.Limits(keepalive_expiry=KEPT_SECONDS),
            trust_env=False,
        )

    @property
    def lease(self) -> int:
        """The descriptor of the lease: a process that inherits it uses the broker until its own end.

        Raises:
            BrokerError: the broker was not started, or was closed.
        """
        if self._lease is None:
            raise BrokerError(f"no process can use node {self.node_name}: it was not started, or was closed")
        return self._lease.fileno()

    def node_process(self) -> int | None:
        """Return the process id of the node; ``None`` while it is down."""
        node: int | None = self._state()["node"]
        return node

    def is_given_up(self) -> bool:
        """Return whether a guarded node ended so often that its keeper does not start it again."""
        return bool(self._state()["given_up"])

    def serves(self, client: httpx.Client) -> bool:
        """Return whether the node serves, according to itself; ``client`` is of `http`."""
        # What the node says of itself: a foreign listener on its port would accept a connection just as well.
        # Nodes are listed once the statistics database runs, which is later than the listeners. A node of 4.3
        # that is asked for them earlier writes a crash report; with statistics off the overview names no
        # listeners.
        try:
            if not client.get(f"health/checks/port-listener/{self.ports.amqp}").is_success:
                return False
            nodes = client.get("nodes", params={"columns": "name,running"}).raise_for_status().json()
            return any(node["running"] for node in nodes)
        except (httpx.HTTPError, ValueError, LookupError):
            return False

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
            BrokerNotInstalledError: there is no RabbitMQ on this machine.
        """
        if self._keeper is not None:
            self._command("start")
            self._await_ready()
            return
        self._progress(f"starting RabbitMQ node {self.node_name} in {self.folder}")
        for attempts_left in reversed(range(_START_ATTEMPTS)):
            try:
                self._start_again()
            except BrokerError:
                # Between the choice of a port and its use somebody else may have taken it.
                if not attempts_left or not self._found_port_taken():
                    raise
                self.close()
                self._node = replace(self._node, ports=BrokerPorts.choose())
            else:
                return

    def stop_node(self) -> None:
        """Stop the node gracefully; it keeps its ports and data, and `start` starts it again."""
        self._command("stop", self.settings.grace + _HANDLED_SECONDS)

    def kill_node(self) -> None:
        """Kill the node by SIGKILL, as a crash would; `start` starts it again."""
        self._command("kill")

    def close(self) -> None:
        """Release the broker; without another user, end it and wait for its end. May be called twice."""
        if self._lease is not None:
            self._lease.close()
            self._lease = None
        if self._keeper is not None:
            self._progress(f"stopping RabbitMQ node {self.node_name}")
            if self._keeper.stdin is not None:
                self._keeper.stdin.close()
            deadline = time.monotonic() + self.settings.grace + _END_SECONDS
            while self._keeper.poll() is None and not self._state()["detached"]:
                if time.monotonic() > deadline:
                    self._progress(f"the keeper of {self.node_name} does not end: killing it, and its node")
                    self._keeper.kill()
                    self._keeper.wait()
                    break
                time.sleep(_POLL_SECONDS)
            if self._keeper.returncode is None:
                # It goes on for other users; when it ends, this process, if it still lives, buries it.
                threading.Thread(target=self._keeper.wait, daemon=True).start()
            elif self._node.remove:
                # Its keeper has done that, unless it was killed.
                shutil.rmtree(self.folder, ignore_errors=True)
            self._keeper = None

    @property
    def control(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """The beginning of a ``rabbitmqctl`` command for this node, and its environment."""
        return self._tool("rabbitmqctl"), self._node.environment()

    def rabbitmqctl(self, *arguments: str, timeout: float = 120.0) -> str:
        """Run ``rabbitmqctl`` for this node, and return its output.

        Raises:
            BrokerError: it failed; the text quotes its output.
        """
        return self.run_tool("rabbitmqctl", *arguments, timeout=timeout)

    def run_tool(self, program: str, *arguments: str, timeout: float = 120.0) -> str:
        """Run any of the broker's command line tools, such as ``rabbitmq-queues``, as `rabbitmqctl` does."""
        done = subprocess.run(  # noqa: S603  no shell; the caller is a test or an operator
            [*self._tool(program), *arguments],
            env=self._node.environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerError(f"{program} {' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def seen_by_node(self, file: Path) -> Path:
        """Return the path by which the node and its tools know ``file``, which is below its folder."""
        return self._node.installation.seen(self.folder) / file.relative_to(self.folder)

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines of the node's log, or of its output while it has no log."""
        for file in (self.log_file, self.folder / keeper.CONSOLE_FILE):
            if file.exists() and (text := file.read_text(errors="replace").strip()):
                return "\n".join(text.splitlines()[-lines:])
        return "(nothing was logged)"

    def _tool(self, program: str) -> tuple[str, ...]:
        return (*self._node.installation.command(self.folder, program), "--node", self.node_name)

    # -- the keeper

    def _start_again(self) -> None:
        self._node.write()
        self._lease = (self.folder / keeper.LEASE_FILE).open("ab")
        fcntl.flock(self._lease, fcntl.LOCK_SH)
        self._commands = 0
        self._keeper = subprocess.Popen(  # noqa: S603  our own script, by its path
            [sys.executable, "-I", str(Path(keeper.__file__)), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        self._command("start")
        self._await_ready()
        # Not before: a node whose port was taken meanwhile is to end, and be started on another one.
        if self.settings.guarded:
            self._command("guard")

    def _found_port_taken(self) -> bool:
        said = self.log_tail(lines=sys.maxsize).lower()
        return any(sign in said for sign in _PORT_TAKEN)

    def _command(self, name: str, seconds: float = _HANDLED_SECONDS) -> None:
        if self._keeper is None or self._keeper.stdin is None:
            raise BrokerError(f"cannot {name} the node: it was not started by this process, or was given up")
        self._commands += 1
        try:
            self._keeper.stdin.write(f"{name}\n".encode())
            self._keeper.stdin.flush()
        except BrokenPipeError as error:
            raise BrokerError(f"cannot {name} the node: its keeper has ended") from error
        deadline = time.monotonic() + seconds
        while self._state()["handled"] < self._commands:
            if time.monotonic() > deadline or self._keeper.poll() is not None:
                raise BrokerError(f"cannot {name} the node: its keeper does not answer\n{self.log_tail()}")
            time.sleep(_POLL_SECONDS)

    def _state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads((self.folder / keeper.STATE_FILE).read_text())
        except FileNotFoundError:
            return _NOT_RUNNING
        return state

    def _await_ready(self) -> None:
        deadline = time.monotonic() + self.settings.start_deadline
        with self.http(timeout=5.0) as client:
            while not self.serves(client):
                state = self._state()
                if state["node"] is None:
                    raise BrokerError(
                        f"RabbitMQ ended while starting (status {state['node_status']}):\n{self.log_tail()}"
                    )
                if time.monotonic() > deadline:
                    seconds = self.settings.start_deadline
                    raise BrokerError(f"RabbitMQ did not serve within {seconds:g} s:\n{self.log_tail()}")
                time.sleep(_POLL_SECONDS)
        self._progress(f"RabbitMQ serves AMQP on {LOOPBACK}:{self.ports.amqp}, HTTP on {self.management_url}")
