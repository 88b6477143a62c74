"""A churned broker, an agent that publishes it, a gateway that reads both, and kills of all of them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.demo.snmp_commands import SnmpCommands
from gateway.eventlog.query import ask
from gateway.service.processes.exit_codes import ExitCode
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import agent_rights, gateway_rights
from tests.components.command_line import (
    RunningCommand,
    Site,
    amqp_gateway,
    environment,
    new_site,
    running,
)
from tests.components.ports import free_tcp_port
from tests.components.waiting import wait_until
from tests.hypothesis_profiles import PROVING
from tests.ledger.absences import GATEWAY, Reading
from tests.ledger.churn import LASTING
from tests.ledger.front_ends import JmxAccess
from tests.ledger.lives import Kill, Truth, read_ledger, truth
from tests.ledger.times import reported_time
from tests.ledger.traps import Receivers, receivers

KEPT, PLAIN, RELAYED = "kept", "plain", "relayed"
"""The sources: the broker with a durable subscription, without one, and as published by the agent."""

SOURCES: tuple[str, ...] = (KEPT, PLAIN, RELAYED) if PROVING else (KEPT, PLAIN)
"""The sources of this run: there is an agent when proving only.

Agents are killed in every run by ``tests/durable``, ``tests/remote_agents`` and ``tests/end_to_end``.
"""

AGENT = "relay"
"""The name of the agent in the configuration."""

JMX_USER = "monitor"

STARTED_SECONDS = 480.0
"""The longest time until all sources are synchronised again, on a busy machine."""

CATCHING_UP_SECONDS = 20.0
"""The time after which the churn is slowed down, if a gateway has not read everything again."""

_LAST_LINES = 8

_STATES = """
    SELECT source, arg_max(state, seq), epoch(max(ingest_ts)) FROM log
    WHERE kind = 'source' AND "values"->>'heard_until' IS NULL GROUP BY source
"""


@dataclass
class Plant:
    """The broker, gateway, receivers and where there is one the agent; the broker is churned until `rest`."""

    broker: PrivateBroker
    site: Site
    ledger: Path
    gateway: RunningCommand
    agent: RunningCommand | None
    receivers: Receivers
    snmp: SnmpCommands
    jmx: JmxAccess
    _churn: subprocess.Popen[bytes]
    _stack: ExitStack
    _agents: ExitStack
    kills: list[Kill] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """The folder of the event log."""
        return self.site.folder / "state" / "log"

    def reading(self, source: str) -> Reading:
        """Return how a source reads the broker, and the victims without which it misses events."""
        if source != RELAYED:
            # Its queue on the broker keeps what a durable subscription does not hear.
            if source == KEPT:
                return Reading(self.log, source, waits=GATEWAY)
            return Reading(self.log, source, GATEWAY)
        of = Reading(self.site.folder / "state" / "agents" / AGENT / "log", AGENT, frozenset({"agent"}))
        return Reading(self.log, source, GATEWAY, of)

    def process(self, name: str) -> psutil.Process | None:
        """Return the ``supervisor``, ``core``, ``snmp``, ``jmx``, ``jvm``, ``compactor`` or ``agent``."""
        with contextlib.suppress(psutil.Error):
            if name == "agent":
                return psutil.Process(self.agent.process.pid) if self.agent is not None else None
            supervisor = psutil.Process(self.gateway.process.pid)
            if name == "supervisor":
                return supervisor
            if name == "jvm":
                jmx = self.process("jmx")
                machines = jmx.children() if jmx is not None else []
                return next((child for child in machines if child.name() == "java"), None)
            for child in supervisor.children():
                if f" process {name} " in " ".join(child.cmdline()):
                    return child
        return None

    def acts(self) -> int:
        """Return the number of acts in the ledger."""
        return self.ledger.read_bytes().count(b"\n") if self.ledger.exists() else 0

    def after(self, acts: int) -> None:
        """Wait until the churn has done so many more acts, which makes instants independent of speed."""
        until = self.acts() + acts
        wait_until(lambda: self.acts() >= until, f"{acts} acts are done")

    def kill(self, victim: str, acts: int = 0) -> None:
        """Kill a victim when it runs and after so many more acts; restart it if no supervisor does."""
        if victim == "broker":
            began = time.time()
            self.broker.kill_node()
            died = time.time()
            self.broker.start()
            self.kills.append(Kill(victim, began, died, time.time()))
            return
        if acts:
            wait_until(lambda: self._is_there(victim), f"{victim} is there")
            self.after(acts)
        wait_until(lambda: self._killed(victim), f"{victim} is there to be killed")
        if victim == "supervisor":
            self.gateway.process.wait()
            self.start()
        elif victim == "agent" and self.agent is not None:
            self.agent.process.wait()
            self.start_agent()

    def _is_there(self, victim: str) -> bool:
        self.keep_running()
        return self.process(victim) is not None

    def _killed(self, victim: str) -> bool:
        self.keep_running()
        process = self.process(victim)
        with contextlib.suppress(psutil.Error):
            if process is not None:
                began = time.time()
                process.kill()
                died = time.time()
                self.kills.append(Kill(victim, began, died, died))
                return True
        return False

    def keep_running(self) -> None:
        """Start the gateway and the agent again where a start gave up, as a service manager would.

        The gateway's start gives up while processes of the former one, which was killed, need more than 10 s
        to notice that.
        """
        if self.gateway.process.poll() is not None:
            self.start()
        if self.agent is not None and self.agent.process.poll() is not None:
            self.start_agent()

    def start(self) -> None:
        """Start the gateway."""
        self._stack.close()
        self.gateway = self._stack.enter_context(_running(self.site, "run"))

    def start_agent(self) -> None:
        """Start the agent."""
        self._agents.close()
        self.agent = self._agents.enter_context(_running(self.site, "agent", AGENT))

    def read_again(self) -> None:
        """Wait until all sources have read everything since the last kill."""
        since = self.kills[-1].ended

        slow_from = time.monotonic() + CATCHING_UP_SECONDS

        def is_read() -> bool:
            self.keep_running()
            if time.monotonic() > slow_from:
                self._churn.send_signal(signal.SIGUSR1)
            return _synchronised(self.log, since) == set(SOURCES)

        wait_until(is_read, "everything is read again", STARTED_SECONDS)
        self._churn.send_signal(signal.SIGUSR2)

    def truth(self) -> Truth:
        """Return the true state according to the ledger now."""
        return truth(read_ledger(self.ledger), self.kills)

    def rest(self) -> Truth:
        """Let the churn come to rest, and return the true state then; lasting objects stay."""
        self._churn.terminate()
        wait_until(lambda: read_ledger(self.ledger)[-1]["act"] == "rest", "the churn is at rest")
        return self.truth()

    def last_lines(self) -> str:
        """Return the last log lines of gateway and agent, and the last state of each source in the log."""
        lines = []
        for command in ("run", "agent") if self.agent is not None else ("run",):
            newest = max(self.site.folder.glob(f"{command}-*.log"), key=lambda path: path.stat().st_mtime)
            lines += [newest.name, *newest.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]]
        lines += [f"{source}: {state} at {reported_time(at)}" for source, state, at in _states(self.log)]
        return "\n".join(line[:300] for line in lines)

    def end(self) -> None:
        """End the gateway as an operator would, and compact all of its log to Parquet."""
        assert self.gateway.terminate().code is ExitCode.OK
        compacted = amqp_gateway("log", "compact", "--all", "--config", self.site.configuration)
        assert compacted.code is ExitCode.OK, compacted.errors


@contextmanager
def plant(broker: PrivateBroker, folder: Path, seed: int, pace: float = 0.1) -> Iterator[Plant]:
    """Provide a plant at work, all of whose sources are synchronised."""
    site = new_site(folder)
    community = site.state.secret("community")
    snmp = SnmpCommands.configured(folder / "snmp", f"127.0.0.1:{site.snmp_port}", community)
    password = site.state.secret(f"jmx-{JMX_USER}")
    jmx = JmxAccess(folder / "jmx-client.jar", f"127.0.0.1:{free_tcp_port()}", JMX_USER, password)
    with ExitStack() as stack, ExitStack() as agents, ExitStack() as processes:
        reported = stack.enter_context(receivers(folder, community))
        site.configure(
            **_reading(broker, site),
            log={"statistics_interval": "1s", "segment_duration": "10s"},
            snmp={"listen": [snmp.address], "notifications": reported.configured()},
            jmx={"enabled": True, "listen": jmx.address},
            policy={"principals": {"*": ["everything"], "notify:monitored": ["monitoring"]}},
        )
        agent = agents.enter_context(_running(site, "agent", AGENT)) if RELAYED in SOURCES else None
        gateway = processes.enter_context(_running(site, "run"))
        gateway.ready()
        log = site.folder / "state" / "log"
        wait_until(
            lambda: _synchronised(log) == set(SOURCES), "all sources are synchronised", STARTED_SECONDS
        )
        ledger = folder / "ledger"
        churn = stack.enter_context(_churning(broker, ledger, folder / "churn.log", seed, pace))
        made = Plant(broker, site, ledger, gateway, agent, reported, snmp, jmx, churn, processes, agents)
        lasting = {("queue", name) for name in LASTING}
        wait_until(lambda: made.truth().lives.keys() >= lasting, "the churn has made what lasts")
        try:
            yield made
        except AssertionError:
            print(made.last_lines())  # noqa: T201  pytest shows it with the failure
            raise


@contextmanager
def _running(site: Site, *command: str) -> Iterator[RunningCommand]:
    """Run a process of this site, with a log file of its own."""
    number = len(list(site.folder.glob(f"{command[0]}-*.log")))
    log = site.folder / f"{command[0]}-{number}.log"
    with running(*command, "--config", site.configuration, log=log) as process:
        yield process


def _reading(broker: PrivateBroker, site: Site) -> dict[str, Any]:
    """Return the configuration of sources and agent; each uses a broker user of its own."""
    gateway, agent = Credentials.generate("gateway"), Credentials.generate("agent")
    with broker.http() as client:
        rights = ((gateway, gateway_rights()), (agent, agent_rights()))
        provision(client, tuple(ProvisionedUser(user.name, user.password, may) for user, may in rights))
    url = {"url": f"amqp://127.0.0.1:{broker.ports.amqp}"}
    reading = {"management": broker.management_url, "events": url, "interval": "1s", "budget": 0.5}
    as_gateway, as_agent = (
        {"user": user.name, "password": site.secret(user.password)} for user in (gateway, agent)
    )
    plain = {"kind": "rabbitmq", **reading, **as_gateway}
    relayed = {
        "kind": "qmf",
        "amqp": {**url, **as_gateway},
        "trusted_users": [agent.name],
        "heartbeat": "1s",
    }
    publish = {"amqp": {**url, **as_agent}, "allowed_users": [gateway.name], "interval": "1s"}
    sources = {KEPT: {**plain, "durable": {}}, PLAIN: plain, RELAYED: relayed}
    return {
        "sources": {name: sources[name] for name in SOURCES},
        "agents": {AGENT: {"kind": "rabbitmq", **reading, **as_agent, "publish": publish}},
    }


def _synchronised(log: Path, since: float = 0.0) -> set[str]:
    """Return the sources whose last state in the log is synchronised and was recorded since that time."""
    return {source for source, state, at in _states(log) if state == "synchronised" and at >= since}


def _states(log: Path) -> list[tuple[str, str, float]]:
    """Return each source, its last state in the log, and the time of that record."""
    with ask(log, _STATES) as answer:
        return [(str(source), str(state), float(str(at))) for source, state, at in answer.rows]


@contextmanager
def _churning(
    broker: PrivateBroker, ledger: Path, log: Path, seed: int, pace: float
) -> Iterator[subprocess.Popen[bytes]]:
    login = broker.administrator
    words = {
        "--amqp": broker.amqp_url(),
        "--management": broker.management_url,
        "--user": login.name,
        "--password": login.password,
        "--ledger": str(ledger),
        "--seed": str(seed),
        "--pace": str(pace),
    }
    options = [f"{name}={value}" for name, value in words.items()]  # a password may begin with a hyphen
    with log.open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603  our own program
            [sys.executable, "-m", "tests.ledger.churn", *options], env=environment(), stderr=errors
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
