"""What each kind of source is made of."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from gateway.agents.rabbitmq.agent import RabbitMqAgent
from gateway.agents.rabbitmq.agent_config import RabbitMqAgentConfig
from gateway.agents.rabbitmq.http_reader import HttpReader, ManagementEndpoint
from gateway.agents.rabbitmq.polling import PollingConfig
from gateway.agents.rabbitmq.runner import AgentRunner
from gateway.agents.rabbitmq.status import AgentStatus
from gateway.clock import Clock
from gateway.config.model import (
    AmqpSettings,
    QmfSource,
    RabbitMqSettings,
    RabbitMqSource,
)
from gateway.dialects.qmf.agent import AgentConfig
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.console_agents import HeartbeatRules
from gateway.inventory.inventory import Inventory
from gateway.inventory.source import SourceInventory
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.conversation import Conversation
from gateway.links.loopback import USER_ID, carry
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.observations import Observation, SourceState, SourceStateSeen
from gateway.model.secrets import SecretRules
from gateway.service.exit_codes import CommandError, ExitCode

log = structlog.get_logger(__name__)

RunSource = Callable[[], Coroutine[None, None, None]]

SECOND = 10**9
LOOPBACK_INTERVAL = SECOND
"""Between two publications over the loopback, each with a heartbeat: only what changed, so it is cheap."""
REPLY_KEY = "console"
"""Reply address of the only console on a loopback."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every source of a core shares.

    Attributes:
        folder: what relative paths of the configuration are relative to.
        boot: number of the core's start.
    """

    inventory: Inventory
    mappings: Mapping[str, MappingFile]
    secrets: SecretRules
    clock: Clock
    folder: Path
    boot: int


def source_of(name: str, settings: QmfSource | RabbitMqSource, around: Surroundings) -> RunSource:
    """What runs one source until it is cancelled.

    Raises:
        SecretError: a secret of its cannot be read.
        CommandError: its certificates cannot be read.
    """
    source = around.inventory.add_source(name, settings.kind, settings.max_objects)
    if isinstance(settings, QmfSource):
        endpoint = amqp_endpoint(settings.amqp, around.folder)
        return partial(_run_qmf, name, settings, endpoint, source, around)
    reader, events = http_reader(settings, around.folder), event_endpoint(settings, around.folder)
    return partial(_run_rabbitmq, name, settings, reader, events, source, around)


def amqp_endpoint(settings: AmqpSettings, folder: Path) -> AmqpEndpoint:
    """Where ``settings`` lead, with the secret read.

    Raises:
        SecretError: it cannot be read.
    """
    return AmqpEndpoint(
        settings.url,
        settings.vhost,
        settings.user,
        settings.password.read(folder),
        folder / settings.ca_file if settings.ca_file else None,
    )


async def _run_qmf(
    name: str, settings: QmfSource, endpoint: AmqpEndpoint, source: SourceInventory, around: Surroundings
) -> None:
    session = ConsoleSession(
        ConsoleConfig(
            believed=frozenset(settings.believe),
            believe_anyone=settings.believe_anyone,
            packages=frozenset(settings.packages) if settings.packages is not None else None,
            management_exchange=settings.exchange,
            direct_exchange=settings.direct_exchange,
            secrets=around.secrets,
            heartbeats=HeartbeatRules(interval=settings.heartbeat),
            request_deadline=settings.request_deadline,
        )
    )
    conversation = Conversation(
        name,
        session,
        lambda observations: around.inventory.observed(source, observations, around.clock.now()),
        around.clock,
        source.counters,
    )
    if settings.believe:
        log.warning(
            "impersonators-not-checked",
            name=name,
            broker=str(endpoint),
            detail="on a RabbitMQ, a user tagged 'impersonator' could forge the senders that this source"
            " believes: keep that tag off the users of this broker (docs/rights.md)",
        )
    role = AmqpRole("console", session.bindings, max_queue_length=settings.max_queue_length)
    await AmqpLink(endpoint, role, session, conversation, around.clock).run()


async def _run_rabbitmq(
    name: str,
    settings: RabbitMqSource,
    reader: HttpReader,
    events: AmqpEndpoint | None,
    source: SourceInventory,
    around: Surroundings,
) -> None:
    """Agent and console in one process, talking over the loopback as they would over a broker."""
    clock, inventory = around.clock, around.inventory
    console = ConsoleSession(
        ConsoleConfig(
            believed=frozenset({USER_ID}),
            secrets=around.secrets,
            heartbeats=HeartbeatRules(interval=LOOPBACK_INTERVAL),
        )
    )
    sight = _Sight(source, inventory, clock)
    console_side = Conversation(name, console, sight.observed, clock, source.counters)
    sight.resync = lambda reason: console_side.perform(console.resync(reason, clock.now()))
    agent = rabbitmq_agent(
        settings,
        around.mappings["rabbitmq"],
        AgentConfig(
            broker=uuid.uuid4(),
            boot=around.boot,
            obey=frozenset({USER_ID}),
            publish_interval=LOOPBACK_INTERVAL,
        ),
    )
    agent_side = Conversation(name, agent, lambda _: None, clock, Counter())
    async with reader:
        runner = AgentRunner(
            agent,
            reader,
            agent_side.perform,
            clock,
            events=events,
            on_status=sight.agent_saw,
        )
        console_side.perform(console.connected(REPLY_KEY, clock.now()))
        agent_side.perform(agent.connected("", clock.now()))
        async with asyncio.TaskGroup() as parts:
            parts.create_task(carry(agent_side, console_side, clock))
            parts.create_task(carry(console_side, agent_side, clock))
            parts.create_task(runner.run())


class _Sight:
    """Joins what the console session says of the source with what the agent can see of the broker.

    Alone, the console would call a broker down "silent" after three heartbeats, and would not know of events
    that are not seen or virtual hosts that may not be read. A broker that was down for less than that is not
    noticed by the console at all: so it resynchronises whenever the agent can see again.
    """

    def __init__(self, source: SourceInventory, inventory: Inventory, clock: Clock) -> None:
        self._source = source
        self._inventory = inventory
        self._clock = clock
        self._console = SourceStateSeen(SourceState.CONNECTING)
        self._agent = AgentStatus(SourceState.CONNECTING, "")
        self._was_blind = False
        self.resync: Callable[[str], None] = lambda _reason: None

    def observed(self, observations: tuple[Observation, ...]) -> None:
        """The console learnt something."""
        joined: list[Observation] = []
        for observation in observations:
            if isinstance(observation, SourceStateSeen):
                self._console = observation
                joined.append(self._joined())
            else:
                joined.append(observation)
        self._inventory.observed(self._source, joined, self._clock.now())

    def agent_saw(self, status: AgentStatus) -> None:
        """The agent sees the broker differently."""
        self._agent = status
        self._was_blind = self._was_blind or status.state is SourceState.DOWN
        self._inventory.observed(self._source, [self._joined()], self._clock.now())
        if self._was_blind and status.state is SourceState.SYNCHRONISED:
            self._was_blind = False
            self.resync("the broker answers again")

    def _joined(self) -> SourceStateSeen:
        if self._agent.state is SourceState.SYNCHRONISED:
            return SourceStateSeen(self._console.state, self._agent.detail or self._console.detail)
        return SourceStateSeen(self._agent.state, self._agent.detail)


def rabbitmq_agent(
    settings: RabbitMqSettings,
    mapping: MappingFile,
    session: AgentConfig,
    management_vhost: str = "",
    own_users: Iterable[str] = (),
) -> RabbitMqAgent:
    """The agent for one RabbitMQ.

    Args:
        settings: of the broker.
        mapping: of the package ``rabbitmq``.
        session: of the QMF agent.
        management_vhost: where the management exchange is; empty for the loopback.
        own_users: further users that are the gateway's, beside those of the settings.
    """
    config = RabbitMqAgentConfig(
        user=settings.user,
        own_users=frozenset({settings.user, *settings.own_users, *own_users}),
        show_own=settings.show_own,
        management_exchange=session.management_exchange,
        management_virtual_host=management_vhost,
        polling=PollingConfig(interval=settings.interval, budget=settings.budget),
    )
    return RabbitMqAgent(config, mapping, session)


def http_reader(settings: RabbitMqSettings, folder: Path) -> HttpReader:
    """What the agent reads with; it is not connected yet.

    Raises:
        SecretError: the password cannot be read.
        CommandError: the certificates cannot.
    """
    ca_file = folder / settings.ca_file if settings.ca_file else None
    password = settings.password.read(folder)
    try:
        return HttpReader(ManagementEndpoint(settings.management, settings.user, password, ca_file))
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or str(error)
        text = f"{settings.management}: 'ca_file' {ca_file} cannot be used: {reason}"
        raise CommandError(ExitCode.CONFIGURATION, text) from error


def event_endpoint(settings: RabbitMqSettings, folder: Path) -> AmqpEndpoint | None:
    """Where the agent hears events, or ``None`` where that is not configured.

    Raises:
        SecretError: the password cannot be read.
    """
    if settings.events is None:
        return None
    ca_file = folder / settings.ca_file if settings.ca_file else None
    events = settings.events
    return AmqpEndpoint(events.url, events.vhost, settings.user, settings.password.read(folder), ca_file)
