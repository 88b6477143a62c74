"""A source of the gateway in a simulation: its managed objects, its agent, and its faults."""

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
from gateway.model.times import MILLISECOND, SECOND
from gateway.service.sources.source_context import ConsolePort
from gateway.service.state.restored_objects import restore_source
from gateway.snmp.oid_registry import OidRegistry
from tests.simulation.amqp import AmqpBroker, AmqpClient
from tests.simulation.core import Core, SourceRun
from tests.simulation.half_open import Silence
from tests.simulation.ledger import Ledger
from tests.simulation.native_dialect import NativeConsole
from tests.simulation.pipes import QUICK
from tests.simulation.scheduler import Clock, Scheduler
from tests.simulation.session_driver import SimulatedDriver
from tests.simulation.truth import Truth

AGENT_USER, CONSOLE_USER = "agent", "gateway"

OUTAGE = 120 * SECOND
"""The longest time of an outage."""

_SLOW = (50 * MILLISECOND, 500 * MILLISECOND)

Fault = Callable[[], None]

Wish = Callable[[int], Action]
"""Makes an operation on an object from a unique mark, which it contains where there is a place for one."""


@dataclass(slots=True)
class Stage:
    """The objects that all sites of a simulation share.

    Attributes:
        gateway_clock: the clock of the gateway's machine.
        console: the type of the console session under test.
        received: called with the name of a source for each message that its console receives.
        ledger: the account of operations that were carried out.
        kept: chances of durable subscriptions, apart from all others: seeds without one keep their steps.
    """

    scheduler: Scheduler
    truth: Truth
    gateway_clock: Clock
    console: type[ConsoleSession]
    received: Callable[[str], None]
    ledger: Ledger
    kept: Random

    def soon(self, action: Fault, longest: int = 10 * SECOND) -> None:
        """Call ``action`` after a while."""
        self.scheduler.after_in(None, self.scheduler.between(50 * MILLISECOND, longest), action)


class Site(Protocol):
    """One source and its surroundings.

    Attributes:
        name: the name of the source.
        mapping: the mapping of its package.
        registry: the OID registry of its package.
        shown: the elements of each class (``package:class``) whose values are compared.
        wishes: the operations of users on the objects of each class.
        sets_natively: whether its dialect has a request of its own to set properties.
        kind: the configured kind of the source.
        keeps_identities: whether its reports identify objects over restarts of its agent. An agent without
            memory gives former ids to other objects, which cannot be known at once.
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
        """Start the parts outside the gateway."""

    def source(self, core: Core, source: SourceInventory) -> SourceRun:
        """Begin to watch the source with a core."""

    def live(self) -> None:
        """Make one random change in the managed world."""

    def faults(self) -> dict[str, Fault]:
        """Return the faults of the site, by name."""

    def alarms(self) -> set[str]:
        """Return the conditions that last now, by their names in the gateway."""

    def end(self) -> None:
        """End the simulation."""

    def heal(self) -> None:
        """End the time of faults, and repair the faults that do not heal by themselves."""


@dataclass(slots=True)
class ConsoleOverAmqp:
    """The console's part of a source that is watched over AMQP, while a core runs.

    Args:
        limit: the number of messages that its queue holds.
        sets_natively: whether its dialect has a request of its own to set properties.
    """

    stage: Stage
    broker: AmqpBroker
    limit: int
    sets_natively: bool = False
    client: AmqpClient | None = field(default=None)

    def source(self, core: Core, source: SourceInventory) -> SourceRun:
        """Begin to watch the source with a core."""
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
            lambda: stage.received(name),
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
        """Close the connection, because the core is killed."""
        if self.client is not None:
            self.client.close()
            self.client = None

    def faults(self) -> dict[str, Fault]:
        """Return the faults on the console's side, by name."""
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
    """Reset a connection."""
    if client is not None:
        client.lose("the connection was reset")


def fall_silent(stage: Stage, client: AmqpClient | None) -> None:
    """Make a connection half-open for a while; it heals or ends."""
    if client is not None:
        client.fall_silent(Silence.chosen(stage.scheduler))


def stop_for_a_while(stage: Stage, broker: AmqpBroker) -> None:
    """Stop a broker, and start it again after a while."""
    if broker.up:
        broker.stop()
        stage.soon(broker.start, longest=OUTAGE)
