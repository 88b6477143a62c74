"""The whole demonstration: its parts are started in order, and ended without leaving anything."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import yaml

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.demo.node_setup import Credentials
from gateway.demo.snmp_commands import SnmpCommands, TrapReceiver, free_udp_port
from gateway.demo.workload import Workload, prepare
from gateway.policy.rules import EVERYTHING
from gateway.service.diagnostics.feed_session import principal
from gateway.service.processes.lifeline import READY
from gateway.service.processes.systemd import MODULE
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import (
    EVENT_VHOST,
    MANAGEMENT_VHOST,
    agent_rights,
    gateway_rights,
    writer_rights,
)
from gateway.state_folder import StateFolder
from gateway.temporary_folders import temporary_place

STOP_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class EndedCommand:
    """The result of a command that has ended.

    Attributes:
        code: its exit code.
        printed: its standard output.
        complaints: its standard error.
    """

    code: int
    printed: str
    complaints: str


async def run_command(*words: str) -> EndedCommand:
    """Run ``amqp-gateway WORDS`` and wait for its end; nothing is on its standard input."""
    process = await asyncio.create_subprocess_exec(
        *(*MODULE, *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        printed, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return EndedCommand(
        process.returncode or 0, printed.decode("utf-8", "replace"), complaints.decode("utf-8", "replace")
    )


class RunningCommand:
    """A command of the gateway as a process with a lifeline: it ends when this process ends."""

    def __init__(self, process: asyncio.subprocess.Process, line: socket.socket) -> None:
        self.process = process
        self._line = line

    @classmethod
    async def start(cls, log: Path, *words: str, inherited: Sequence[int] = ()) -> Self:
        """Start ``amqp-gateway WORDS``; its output and its log are appended to the file ``log``.

        Args:
            log: the file.
            words: the command and its options.
            inherited: descriptors that the process has open until its end.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs, log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(*MODULE, *words, "--lifeline", str(theirs.fileno())),
                pass_fds=[theirs.fileno(), *inherited],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(os.environ),
                start_new_session=True,
            )
        return cls(process, ours)

    async def ready(self) -> None:
        """Wait until the command reports that it is ready, or has ended."""
        with contextlib.suppress(ConnectionError):
            if await asyncio.get_running_loop().sock_recv(self._line, 1) == READY:
                return
        await self.process.wait()

    async def kill(self) -> None:
        """Kill the command by SIGKILL, as a crash would."""
        self.process.kill()
        await self.process.wait()
        self._line.close()

    async def stop(self) -> None:
        """End the command as an operator would, and wait for its end."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        self._line.close()


SHOP = {"shop": "Orders of the demonstration", "billing": "Invoices of the demonstration"}
JMX_USER, JMX_SECRET = "monitor", "jmx-monitor"
OPERATOR = "operator"
"""The name of the principal that may change something, in SNMP and in JMX.

At the command line it is the user who runs the demonstration.
"""
WRITER = "gateway-writer"
"""The account on the broker that makes these changes."""
SETTABLE = ("maxConnections", "maxQueues", "description", "tags", "tracing")
"""The elements of virtual hosts that the operator may set.

These are all that can be set, so that what was read can be written back.
"""
SOURCE, AGENT_SOURCE, AGENT = "rabbitmq", "rabbitmq-agent", "rabbitmq"
INTERVAL = "2s"
READY_SECONDS = 60.0

Progress = Callable[[str], None]


class DemonstrationError(Exception):
    """The demonstration cannot start; the text says why and what to do.

    Attributes:
        exit_code: the exit code of the process of ours that could not start; 1 if there is none.
    """

    def __init__(self, text: str, exit_code: int = 1) -> None:
        self.exit_code = exit_code
        super().__init__(text)


STATISTICS_SECONDS: Final = 1.0
"""The statistics interval of the demonstration's own broker: short, so that counters move soon."""


def own_broker(debian: str = "") -> BrokerSettings:
    """Return the settings of the demonstration's own broker; its data is discarded.

    Args:
        debian: the release whose RabbitMQ is started; empty for the one that is installed.
    """
    return BrokerSettings(statistics_interval=STATISTICS_SECONDS, grace=0, debian=debian)


@dataclass(frozen=True, slots=True)
class ExistingBroker:
    """A RabbitMQ that another operator runs: it is read, and nothing else is done to it.

    Attributes:
        amqp: URL without user info, for the broker's events; empty to do without.
    """

    management: str
    amqp: str
    user: str
    password: str = field(repr=False)


class Demonstration:
    """A broker, a workload, the gateway, and an agent of its own process where wanted.

    Args:
        progress: called with each step, in one line.
        snmp_port: the port of the SNMP agent, at 127.0.0.1.
        jmx_port: the port of the JMX agent, at 127.0.0.1.
        metrics_port: the port of the metrics for Prometheus, at 127.0.0.1; 0 for no metrics.
        existing: read this broker instead of starting one; there is no workload and no agent then.
        agent: also run the agent as a process of its own, and a second source that trusts it.
        settings: the settings of the broker.
        amqp_port: the port at 127.0.0.1 where gateway and agent reach our broker if something stands in
            between.
        management_port: the same for its management API.
        log: the settings of the event log, in addition to recording statistics as often as they are read.
        writing: give the gateway an account that changes the broker, and let the operator use it; not so with
            an existing broker.
    """

    def __init__(  # noqa: PLR0913  each is one thing that tests choose
        self,
        progress: Progress,
        *,
        snmp_port: int = 1161,
        jmx_port: int = 9990,
        metrics_port: int = 0,
        existing: ExistingBroker | None = None,
        agent: bool = False,
        settings: BrokerSettings | None = None,
        amqp_port: int = 0,
        management_port: int = 0,
        log: Mapping[str, object] | None = None,
        writing: bool = True,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="amqp-gateway-demo-", dir=temporary_place()))
        # The broker shares the folder: its keeper removes it even when this process is killed.
        self.broker = None if existing else PrivateBroker(self.folder, settings, progress, remove=True)
        self.workload: Workload | None = None
        self._existing = existing
        self._progress = progress
        self._snmp_port = snmp_port
        self._ports_between = (amqp_port, management_port)
        self._log = {"statistics_interval": INTERVAL, **(log or {})}
        self.jmx_address = f"127.0.0.1:{jmx_port}"
        self.metrics_address = f"127.0.0.1:{metrics_port}" if metrics_port else ""
        self._with_agent = agent
        self._writing = writing and existing is None
        self._processes: dict[str, RunningCommand] = {}
        self._users: dict[str, Credentials] = {}
        self.configuration = self.folder / "gateway.yaml"
        self.log_folder = self.folder / "state" / "log"
        self.ledger_file = self.folder / "ledger.jsonl"
        self.state: StateFolder | None = None
        self.snmp: SnmpCommands | None = None
        self.operator_snmp: SnmpCommands | None = None
        self.traps: TrapReceiver | None = None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start everything, in order.

        Raises:
            DemonstrationError: the gateway or its agent ended, or is not ready in time.
            BrokerError: the broker did not start.
        """
        if self.broker is not None:
            await asyncio.to_thread(self.broker.start)
            self._progress("setting up users with the least rights, and the virtual host amqp-gateway")
            writers = (WRITER,) if self._writing else ()
            names = ("gateway", "agent", "workload", *writers)
            self._users = {name: Credentials.generate(name) for name in names}
            await self.grant()
        await self._configure()
        await self.start_gateway()
        if self._with_agent:
            await self.start_agent()
        if self.broker is not None:
            self._progress("starting the workload")
            user = self._users["workload"]
            broker = self.broker
            self.workload = Workload(lambda vhost: broker.amqp_url(user, vhost), ledger_file=self.ledger_file)
            await self.workload.start()

    async def stop(self) -> None:
        """End everything, in reverse order; nothing remains."""
        if self.workload is not None:
            await self.workload.stop()
        for name in list(self._processes):
            await self.stop_process(name)
        if self.traps is not None:
            await self.traps.stop()
        if self.broker is not None:
            await asyncio.to_thread(self.broker.close)
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    async def start_gateway(self) -> None:
        """Start the gateway and wait until its processes are ready."""
        self._progress("starting the gateway")
        await self._start_process("gateway", "run")

    async def start_agent(self) -> None:
        """Start the agent as a process of its own."""
        self._progress("starting the agent as a process of its own, on exchange qpid.management")
        await self._start_process("agent", "agent", AGENT)

    async def command(self, *words: str) -> str:
        """Run ``amqp-gateway WORDS`` with this gateway's configuration, and return its output.

        Raises:
            DemonstrationError: it fails; the text has its standard error.
        """
        ended = await self.try_command(*words)
        if ended.code:
            raise DemonstrationError(f"amqp-gateway {' '.join(words)}: {ended.complaints}", ended.code)
        return ended.printed

    async def try_command(self, *words: str) -> EndedCommand:
        """Run ``amqp-gateway WORDS`` with this gateway's configuration, and return its result."""
        return await run_command(*words, "--config", str(self.configuration))

    async def grant(self) -> None:
        """Create missing users and virtual hosts on the broker, and give all users their rights."""
        assert self.broker is not None
        await asyncio.to_thread(self._grant, self.broker)

    async def stop_process(self, name: str) -> None:
        """End ``gateway`` or ``agent`` as an operator would, and wait for its end."""
        child = self._processes.pop(name, None)
        if child is not None:
            await child.stop()

    async def kill_process(self, name: str) -> None:
        """End ``gateway`` (its supervisor) or ``agent`` by SIGKILL, as a crash would."""
        await self._processes.pop(name).kill()

    def process_id(self, name: str) -> int:
        """Return the process id of ``gateway`` (its supervisor) or ``agent``."""
        return self._processes[name].process.pid

    def log_of(self, name: str) -> str:
        """Return everything that a process has logged so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    async def _start_process(self, name: str, *command: str) -> None:
        # If this process is killed, the folder has to stay until the gateway has ended: it writes to the end.
        inherited = () if self.broker is None else (self.broker.lease,)
        words = (*command, "--config", str(self.configuration))
        child = await RunningCommand.start(self.folder / f"{name}.log", *words, inherited=inherited)
        self._processes[name] = child
        try:
            async with asyncio.timeout(READY_SECONDS):
                await child.ready()
        except TimeoutError as error:
            raise DemonstrationError(f"the {name} is not ready:\n{self.log_of(name)[-2000:]}") from error
        code = child.process.returncode
        if code is not None:
            lines = self.log_of(name).splitlines()
            said = [line.removeprefix("amqp-gateway: ") for line in lines if not line.startswith("{")]
            raise DemonstrationError(f"the {name} cannot start: {' '.join(said) or 'see its log'}", code)

    def _grant(self, broker: PrivateBroker) -> None:
        watched = (EVENT_VHOST, *SHOP)
        with broker.http() as client:
            prepare(client, self._users["workload"], SHOP)
            rights = {"gateway": gateway_rights, "agent": agent_rights, WRITER: writer_rights}
            provision(
                client,
                tuple(
                    ProvisionedUser(name, self._users[name].password, rights_in(watched))
                    for name, rights_in in rights.items()
                    if name in self._users
                ),
            )

    async def _configure(self) -> None:
        self.state = StateFolder.create(self.folder / "state")
        community = self.state.secret("community")
        self.traps = await TrapReceiver.start(self.folder / "traps", free_udp_port(), community)
        settings = yaml.safe_dump(self._settings(self.traps), sort_keys=False)
        await asyncio.to_thread(self.configuration.write_text, settings, encoding="utf-8")
        address = f"127.0.0.1:{self._snmp_port}"
        self.snmp = SnmpCommands.configured(self.folder / "snmp", address, community)
        if self._writing:
            theirs = self.state.secret(f"community-{OPERATOR}")
            folder = self.folder / f"snmp-{OPERATOR}"
            self.operator_snmp = SnmpCommands.configured(folder, address, theirs, writes=True)

    def _settings(self, traps: TrapReceiver) -> dict[str, Any]:
        host, port = traps.address
        settings: dict[str, Any] = {
            "version": 1,
            "sources": {SOURCE: {"kind": "rabbitmq", **self._reading("gateway")}},
            "snmp": {
                "listen": [f"127.0.0.1:{self._snmp_port}"],
                "notifications": {"snmptrapd": {"address": f"{host}:{port}"}},
            },
            "jmx": {"enabled": True, "listen": self.jmx_address},
            **(
                {"metrics": {"enabled": True, "listen": self.metrics_address, "objects": {}}}
                if self.metrics_address
                else {}
            ),
            "log": self._log,
            "state": {"folder": "state"},
            "feed": {"socket": "feed.sock"},
        }
        if self._existing is None:
            # Its users and connections are of the demonstration itself, and there is more to see with them.
            settings["policy"] = {"principals": {"*": [EVERYTHING]}}
        if self._with_agent:
            published = {"trusted_users": ["agent"], "heartbeat": INTERVAL}
            settings["sources"][AGENT_SOURCE] = {"kind": "qmf", "amqp": self._amqp("gateway"), **published}
            publish = {"amqp": self._amqp("agent"), "allowed_users": ["gateway"], "interval": INTERVAL}
            settings["agents"] = {AGENT: {"kind": "rabbitmq", **self._reading("agent"), "publish": publish}}
        if self._writing:
            self._let_the_operator_write(settings)
        return settings

    def _let_the_operator_write(self, settings: dict[str, Any]) -> None:
        """Add the writing account, its users, and rules for what the demonstration changes, no more."""
        password = self._secret(WRITER, self._users[WRITER].password)
        for reader in (settings["sources"][SOURCE], *settings.get("agents", {}).values()):
            reader["writing"] = {"user": WRITER, "password": {"file": password}}
        settings["snmp"]["writers"] = {OPERATOR: {}}
        settings["jmx"]["users"] = {OPERATOR: {}, JMX_USER: {}}
        who = (f"snmp:{OPERATOR}", f"jmx:{OPERATOR}", str(principal()))
        queues = [f"{vhost}|*" for vhost in (EVENT_VHOST, *SHOP)]
        rules: list[dict[str, Any]] = [
            {"classes": ["rabbitmq:vhost"], "objects": list(SHOP), "set": list(SETTABLE)},
            {"classes": ["rabbitmq:queue"], "objects": queues, "invoke": ["purge"]},
        ]
        settings["operations"] = {"allow": [{"who": list(who), **rule} for rule in rules]}

    def _reading(self, user: str) -> dict[str, object]:
        """Return the settings by which a RabbitMQ is read, by our own user or the existing one's."""
        if self._existing is not None:
            management, amqp = self._existing.management, self._existing.amqp
            user, password = self._existing.user, self._existing.password
        else:
            management, amqp = self._management_url, self._amqp_url
            password = self._users[user].password
        reading: dict[str, object] = {
            "management": management,
            "user": user,
            "password": {"file": self._secret(user, password)},
            "interval": INTERVAL,
            "own_users": [user] if self._existing is not None else ["agent", "gateway", WRITER],
        }
        if amqp:
            reading["events"] = {"url": amqp, "vhost": EVENT_VHOST}
        return reading

    def _amqp(self, user: str) -> dict[str, object]:
        return {
            "url": self._amqp_url,
            "vhost": MANAGEMENT_VHOST,
            "user": user,
            "password": {"file": self._secret(user, self._users[user].password)},
        }

    @property
    def _amqp_url(self) -> str:
        assert self.broker is not None
        return f"amqp://127.0.0.1:{self._ports_between[0] or self.broker.ports.amqp}"

    @property
    def _management_url(self) -> str:
        assert self.broker is not None
        return f"http://127.0.0.1:{self._ports_between[1] or self.broker.ports.management}"

    def _secret(self, user: str, password: str) -> str:
        """Write the password to a file of mode 0600; return its name, relative to the configuration."""
        path = self.folder / f"password-of-{user}"
        path.touch(mode=0o600)
        path.write_text(password, encoding="utf-8")
        return path.name
