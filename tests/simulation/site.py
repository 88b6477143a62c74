"""What a source of the gateway is in a simulation: a managed world, its agent, what can go wrong there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.console_config import HeartbeatRules
from gateway.feed.operations import Action
from gateway.inventory.source import SourceInventory
from gateway.mapping.rules import Mapping as MappingFile
from gateway.service.sources.source_context import ConsolePort
from gateway.service.state.restored_objects import restore_source
from gateway.snmp.oid_registry import OidRegistry
from tests.simulation.amqp import AmqpBroker, AmqpClient
from tests.simulation.core import Core, SourceRun
from tests.simulation.half_open import Silence
from tests.simulation.ledger import Ledger
from tests.simulation.native_dialect import NativeConsole
from tests.simulation.pipes import QUICK
from tests.simulation.scheduler import MILLISECOND, SECOND, Clock, Scheduler
from tests.simulation.session_driver import SimulatedDriver
from tests.simulation.truth import Truth

AGENT_USER, CONSOLE_USER = "agent", "gateway"

OUTAGE = 120 * SECOND
"""The longest time for which something is away."""

_SLOW = (50 * MILLISECOND, 500 * MILLISECOND)

Fault = Callable[[], None]

Wish = Callable[[int], Action]
"""Something to be done to an object, with a mark that no other has, where there is a place for one."""


@dataclass(slots=True)
class Stage:
    """What all sites of a simulation share.

    Attributes:
        gateway_clock: of the machine that the gateway runs on.
        console: the console session under test.
        heard: told the name of a source whenever its console hears something.
        ledger: told what was carried out.
        kept: chances of durable subscriptions, apart from all others: seeds without one keep their steps.
    """

    scheduler: Scheduler
    truth: Truth
    gateway_clock: Clock
    console: type[ConsoleSession]
    heard: Callable[[str], None]
    ledger: Ledger
    kept: Random

    def soon(self, action: Fault, longest: int = 10 * SECOND) -> None:
        """Do it after a while."""
        self.scheduler.after_in(None, self.scheduler.between(50 * MILLISECOND, longest), action)


class Site(Protocol):
    """One source and what is behind it.

    Attributes:
        name: of the source.
        mapping: of its package.
        registry: of its package.
        shown: the elements of each class (``package:class``) whose values are compared.
        wishes: what users want done to the objects of each class.
        sets_natively: whether its dialect has a request of its own to set properties.
        kind: of the source, as it is configured.
        keeps_identities: whether its reports say which object is which over restarts of its agent. An agent
            without memory gives the ids of before to other objects, which cannot be known at once.
        durable: whether it has a durable subscription.
    """

    name: str
    mapping: MappingFile
    registry: OidRegistry
    shown: Mapping[str, frozenset[str]]
    wishes: Mapping[str, Sequence[Wish]]
    sets_natively: bool
    kind: str
    keeps_identities: bool
    durable: bool

    def begin(self) -> None:
        """Start what is not the gateway's own."""

    def source(self, core: Core, source: SourceInventory) -> SourceRun:
        """A core begins to watch it."""

    def live(self) -> None:
        """Something happens in the world that is managed."""

    def faults(self) -> dict[str, Fault]:
        """What can go wrong, by name."""

    def alarms(self) -> set[str]:
        """The conditions that last now, as the gateway calls them."""

    def end(self) -> None:
        """The simulation is over."""

    def heal(self) -> None:
        """The time of faults is over: what does not come right by itself is put right."""


@dataclass(slots=True)
class ConsoleOverAmqp:
    """The console's part of a source that is watched over AMQP, while a core runs.

    Args:
        limit: messages that its queue holds.
        sets_natively: its dialect has a request of its own to set properties.
    """

    stage: Stage
    broker: AmqpBroker
    limit: int
    sets_natively: bool = False
    client: AmqpClient | None = field(default=None)

    def source(self, core: Core, source: SourceInventory) -> SourceRun:
        """A core begins to watch the source."""
        stage = self.stage
        config = ConsoleConfig(
            trusted_users=frozenset({AGENT_USER}),
            heartbeats=HeartbeatRules(interval=10 * SECOND),
            request_deadline=5 * SECOND,
        )
        restore_source(source, core.last, by_native_id=False)
        console = stage.console(config)
        session = NativeConsole(console) if self.sets_natively else console
        name = source.identity.name
        conversation = SimulatedDriver(
            stage.scheduler,
            core.clock,
            f"{name}-console",
            session,
            lambda observations: core.observed(source, observations),
            lambda: stage.heard(name),
            core.answered(source),
        )
        port = ConsolePort(session, conversation, core.clock)
        core.operations.connect(source.identity.number, port)
        self.client = AmqpClient(
            stage.scheduler,
            self.broker,
            conversation,
            CONSOLE_USER,
            core.clock,
            session.bindings,
            self.limit,
        )
        return self

    def stop(self) -> None:
        """The core is killed."""
        if self.client is not None:
            self.client.close()
            self.client = None

    def faults(self) -> dict[str, Fault]:
        """What can go wrong on the console's side."""
        return {
            "console's link lost": lambda: lose(self.client),
            "console's link half-open": lambda: fall_silent(self.stage, self.client),
            "console slow": self._slow_down,
        }

    def _slow_down(self) -> None:
        client = self.client
        if client is not None:
            client.slow_down(_SLOW)
            self.stage.soon(lambda: client.slow_down(QUICK), longest=20 * SECOND)


def lose(client: AmqpClient | None) -> None:
    """A connection is reset."""
    if client is not None:
        client.lose("the connection was reset")


def fall_silent(stage: Stage, client: AmqpClient | None) -> None:
    """A connection is half-open for a while, and heals or ends."""
    if client is not None:
        client.fall_silent(Silence.chosen(stage.scheduler))


def stop_for_a_while(stage: Stage, broker: AmqpBroker) -> None:
    """A broker is stopped, and started again."""
    if broker.up:
        broker.stop()
        stage.soon(broker.start, longest=OUTAGE)
