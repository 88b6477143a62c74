"""A source that reads a RabbitMQ itself: our agent and our console, talking over the loopback."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from gateway.agents.rabbitmq.event_consumer import KeptEvents
from gateway.agents.rabbitmq.http_reader import HttpReader
from gateway.agents.rabbitmq.http_writer import HttpWriter
from gateway.agents.rabbitmq.runner import AgentRunner, Reader
from gateway.agents.rabbitmq.status import AgentStatus
from gateway.clock import Clock
from gateway.config.sources import RabbitMqSource
from gateway.dialects.qmf.agent import AgentConfig
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.console_agents import HeartbeatRules
from gateway.inventory.inventory import Inventory
from gateway.inventory.source import SourceInventory
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.conversation import Conversation
from gateway.links.loopback import USER_ID, carry, carry_now
from gateway.model.observations import Gap, Observation, SourceState, SourceStateSeen
from gateway.service.endpoints import rabbitmq_agent
from gateway.service.former_objects import former_objects
from gateway.service.metrics.core import MeasuredReader
from gateway.service.source_console import source_console
from gateway.service.surroundings import Surroundings
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

LOOPBACK_INTERVAL = 10**9
"""Between two publications over the loopback, each with a heartbeat: only what changed, so it is cheap."""

REPLY_KEY = "console"
"""Reply address of the only console on a loopback."""

RESTART_SECONDS = 5.0

_BEGINS_ANEW = "the source begins anew after an internal error"


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """The ways to one broker.

    Attributes:
        reader: reads it.
        writer: carries out what consoles ask for.
        events: where its event exchange is, if that is configured.
    """

    reader: HttpReader
    writer: HttpWriter
    events: AmqpEndpoint | None


async def run_rabbitmq(
    name: str, settings: RabbitMqSource, broker: BrokerAccess, source: SourceInventory, around: Surroundings
) -> None:
    """Run the source until it is cancelled; a fault of ours in it begins it anew, and no other source."""
    measured = MeasuredReader(broker.reader, name)
    around.metrics.add(f"agent of {name}", measured.readings)
    async with broker.reader, broker.writer:
        while True:
            try:
                await _talk(name, settings, measured, broker, source, around)
            except Exception as error:
                log.exception("source-failed", name=name)
                detail = f"internal error {type(error).__name__}: see the log; it begins anew"
                down = SourceStateSeen(SourceState.DOWN, detail)
                around.inventory.observed(source, [down], around.clock.now())
            await asyncio.sleep(RESTART_SECONDS)


async def _talk(
    name: str,
    settings: RabbitMqSource,
    reader: Reader,
    broker: BrokerAccess,
    source: SourceInventory,
    around: Surroundings,
) -> None:
    """Agent and console in one process, talking over the loopback as they would over a broker."""
    clock, inventory = around.clock, around.inventory
    config = ConsoleConfig(
        believed=frozenset({USER_ID}),
        secrets=around.secrets,
        heartbeats=HeartbeatRules(interval=LOOPBACK_INTERVAL),
    )
    sight = Sight(source, inventory, clock)
    at_work = source_console(
        source, ConsoleSession(config), config, around, sight.observed, sight.unreachable
    )
    console, console_side = at_work.session, at_work.conversation
    sight.resync = lambda reason: console_side.perform(console.resync(reason, clock.now()))
    agent = rabbitmq_agent(
        settings,
        around.mappings["rabbitmq"],
        AgentConfig(
            broker=uuid.uuid4(),
            boot=around.boot,
            obey=frozenset({USER_ID}),
            publish_interval=LOOPBACK_INTERVAL,
            reads_anew=True,
        ),
    )
    agent_side = Conversation(name, agent, lambda _: None, clock, Counter())
    lasting = around.usable_lasting if settings.durable is not None else None
    if lasting is not None:
        agent.remember(former_objects(around.mappings["rabbitmq"], lasting.last, name))

    def heard() -> bool:
        return sight.console_listens and agent.tells_at_once(clock.now())

    def tell() -> None:
        agent_side.perform(agent.tell_now(clock.now()))
        carry_now(agent_side, console_side, clock)
        sight.heard_until = clock.now()

    subscription = around.subscription("events", name, settings.durable)
    runner = AgentRunner(
        agent,
        reader,
        agent_side.perform,
        clock,
        events=broker.events,
        writer=broker.writer,
        on_status=sight.agent_saw,
        kept=KeptEvents(subscription, heard, tell) if subscription is not None else None,
        on_missed=sight.missed,
    )
    sight.heard_until = lasting.last.heard_until.get(name, 0) if lasting is not None else 0
    try:
        console_side.perform(console.connected(REPLY_KEY, clock.now()))
        agent_side.perform(agent.connected("", clock.now()))
        await until_one_ends(
            runner.run(),
            carry(agent_side, console_side, clock),
            carry(console_side, agent_side, clock),
        )
    except Exception:
        console_side.unsent(console_side.forget_sends(), _BEGINS_ANEW)
        console_side.perform(console.disconnected(_BEGINS_ANEW, clock.now()))
        raise
    finally:
        console_side.stop()
        agent_side.stop()


class Sight:
    """Joins what the console session says of the source with what the agent can see of the broker.

    Alone, the console would call a broker down "silent" after three heartbeats, and would not know of events
    that are not seen or virtual hosts that may not be read. A broker that was down for less than that is not
    noticed by the console at all: so it resynchronises whenever the agent can see again.

    Attributes:
        resync: has the console begin anew.
        heard_until: when something was heard last, nanoseconds of the gateway's clock; 0 for never.
    """

    def __init__(self, source: SourceInventory, inventory: Inventory, clock: Clock) -> None:
        self._source = source
        self._inventory = inventory
        self._clock = clock
        self._console = SourceStateSeen(SourceState.CONNECTING)
        self._agent = AgentStatus(SourceState.CONNECTING, "")
        self._was_blind = False
        self.resync: Callable[[str], None] = lambda _reason: None
        self.heard_until = 0

    @property
    def console_listens(self) -> bool:
        """Whether the console knows what it takes to understand the agent, events too."""
        return self._console.state in {SourceState.SYNCHRONISED, SourceState.DEGRADED}

    def unreachable(self) -> str:
        """Why the broker cannot be reached now; empty where it can."""
        if self._agent.state in {SourceState.CONNECTING, SourceState.DOWN}:
            return f"the broker is not reached: {self._agent.detail or self._agent.state.value}"
        return ""

    def missed(self, reason: str, until: int) -> None:
        """The broker's events are missing from when one was heard last ``until`` then."""
        if self.heard_until:
            gap = Gap(min(self.heard_until, until), until, reason)
            self._inventory.observed(self._source, [gap], self._clock.now())
            self.heard_until = until

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
