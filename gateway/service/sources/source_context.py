"""The shared context of all sources of a core, and the connection of a console session to its source."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gateway.clock import Clock
from gateway.config.protection import ProtectedSettings
from gateway.config.sources import AgentPublishing, DurableSettings
from gateway.dialects.session import ConsoleSession, Event
from gateway.eventlog.last_state import LastStates
from gateway.inventory.inventory import Inventory
from gateway.inventory.source import SourceInventory
from gateway.links.durable_queue import DurableQueueCounts, DurableSubscription, default_name
from gateway.links.protection import Protection
from gateway.links.session_driver import MessageDriver
from gateway.links.tls import PresentedCertificates
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.observations import Observation, SourceStateSeen
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify
from gateway.model.secrets import SecretRules
from gateway.operations.operation import NoOperations, Operations
from gateway.policy.rules import RoleSet
from gateway.service.metrics.core import kept_queue_readings
from gateway.service.metrics.families import Metrics
from gateway.service.processes.event_log import AckTracker
from gateway.service.sources.logins import Logins

if TYPE_CHECKING:  # few cores know the sessions of all kinds of sources, and not every one has a RabbitMQ
    from gateway.service.sources.captures import Captures
    from gateway.sources.rabbitmq.source import RabbitMqSource
    from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
    from gateway.sources.rabbitmq.status import SourceStatus


class BrokerWatcher(Protocol):
    """Receives the findings of a RabbitMQ source about its broker, beside the objects."""

    @property
    def publishing(self) -> AgentPublishing:
        """The settings for serving the source on that broker."""
        ...

    def status_changed(self, status: SourceStatus) -> None:
        """Take a new status of the source."""
        ...

    def event_received(self, key: str, headers: Mapping[str, object], now: int) -> None:
        """Take an event of the broker, after the source has taken it; ``key`` is its routing key."""
        ...

    async def blocked(self) -> None:
        """Wait until the broker seems to block the connection of the role."""
        ...


@dataclass(frozen=True, slots=True)
class DurableContext:
    """The shared context of durable subscriptions.

    Attributes:
        state: the state folder.
        ledger: the recorded deliveries.
        last: the states of their sources when the log ended.
    """

    state: Path
    ledger: AckTracker
    last: LastStates


class PresentRoles:
    """The roles that hold, and those who use them.

    Args:
        roles: the roles at first, checked.

    Attributes:
        now: the present roles.
    """

    def __init__(self, roles: RoleSet | None = None) -> None:
        self.now = roles or RoleSet()
        self._takers: list[Callable[[RoleSet], None]] = []

    def change(self, roles: RoleSet) -> None:
        """Have other roles, checked, used from now on."""
        self.now = roles
        for take in self._takers:
            take(roles)

    @contextmanager
    def followed(self, take: Callable[[RoleSet], None]) -> Iterator[None]:
        """Call ``take`` with all roles that come, until the context ends."""
        self._takers.append(take)
        try:
            yield
        finally:
            self._takers.remove(take)


@dataclass(frozen=True, slots=True)
class SourceContext:
    """The shared context of all sources of a core.

    Attributes:
        folder: the folder to which paths of the configuration are relative.
        boot: number of the core's start.
        metrics: metrics of the core.
        durable_context: the context of durable subscriptions; ``None`` if no source has one.
        operations: gives operations to sources, and takes their answers.
        state: the state folder; ``None`` if nothing is kept.
        captures: captures of sessions; ``None`` if none is captured.
        patience: nanoseconds that an operation may take.
        watchers: watchers of the brokers that sources read, by the name of the source.
        presented: the certificates that servers presented.
        logins: the secrets by which sources log in.
        roles: the roles of principals.
    """

    inventory: Inventory
    mappings: Mapping[str, MappingFile]
    secrets: SecretRules
    clock: Clock
    folder: Path
    boot: int
    metrics: Metrics = field(default_factory=Metrics)
    durable_context: DurableContext | None = None
    operations: Operations = field(default_factory=NoOperations)
    state: Path | None = None
    captures: Captures | None = None
    patience: int = 0
    watchers: Mapping[str, BrokerWatcher] = field(default_factory=dict)
    presented: PresentedCertificates = field(default_factory=PresentedCertificates)
    logins: Logins = field(default_factory=Logins)
    roles: PresentRoles = field(default_factory=PresentRoles)

    def protection(
        self, name: str, settings: ProtectedSettings | None, durable: DurableSettings | None = None
    ) -> Protection | None:
        """Return the protection of the bodies of a source or agent; ``None`` where they are plain.

        Args:
            name: the name of the source or agent.
            settings: its settings of protection.
            durable: those of its durable subscription, in whose queue bodies may wait.

        Raises:
            CommandError: a key file is missing or wrong, or the file of accepted bodies cannot be written.
        """
        if settings is None:
            return None
        # joserfc takes 10 MB and a twentieth of a second of a core's start.
        late = importlib.import_module("gateway.service.sources.protection")
        waits = 0 if durable is None or self.durable_context is None else durable.expires
        made: Protection = late.protection_of(name, settings, self, waits)
        return made

    def captured(self, source: str, kind: str, session: ConsoleSession, config: object) -> ConsoleSession:
        """Return ``session``, with a capture around it if the source is captured."""
        return session if self.captures is None else self.captures.session(source, kind, session, config)

    def rabbitmq(self, source: str, config: RabbitMqSourceConfig) -> RabbitMqSource:
        """Return a source of kind ``rabbitmq``, with a capture around it if it is captured."""
        mapping = self.mappings["rabbitmq"]
        if self.captures is None:
            from gateway.sources.rabbitmq.source import RabbitMqSource  # noqa: PLC0415  see above

            return RabbitMqSource(config, mapping, self.secrets)
        return self.captures.rabbitmq(source, config, mapping, self.secrets)

    def after_observations(self, source: SourceInventory) -> Callable[[Answer], None]:
        """Return a function that takes answers to operations on ``source``, after its observations."""

        def answered(answer: Answer) -> None:
            self.inventory.afterwards(source, partial(self.operations.answered, answer))

        return answered

    @property
    def usable_durable(self) -> DurableContext | None:
        """The context of durable subscriptions; ``None`` if the log cannot be written.

        Nothing can be acknowledged then, and the source runs as if it had no such subscription: its queue
        waits for a log.
        """
        return (
            self.durable_context
            if self.durable_context is not None and self.durable_context.ledger.is_open
            else None
        )

    def subscription(
        self, purpose: str, source: str, durable: DurableSettings | None
    ) -> DurableSubscription | None:
        """Return the durable subscription of a source, and add its counters to the metrics.

        Args:
            purpose: the purpose of the queue, as `default_name` has it.
            source: the name of the source.
            durable: the settings of the subscription.

        Returns:
            ``None`` if none is configured, or the log cannot be written.
        """
        durable_context = self.usable_durable
        if durable is None or durable_context is None:
            return None
        counts = DurableQueueCounts()
        readings = partial(kept_queue_readings, source, durable.max_length, counts)
        self.metrics.add(f"kept queue of {source}", readings)
        queue = durable.queue or default_name(purpose, source)
        return DurableSubscription(
            queue, durable.max_length, durable.expires, durable_context.ledger.of(source), counts
        )


def remarked(
    observations: Iterable[Observation], subscription: DurableSubscription | None
) -> list[Observation]:
    """Return observations, with the remark of a durable subscription in the detail of a state."""
    remark = subscription.remark if subscription is not None else ""
    return [
        replace(one, detail="; ".join(filter(None, (one.detail, remark))))
        if remark and isinstance(one, SourceStateSeen)
        else one
        for one in observations
    ]


class Driver(Protocol):
    """The driver of a session (`gateway.links.session_driver.SessionDriver`)."""

    def handle(self, event: Event) -> None:
        """Hand an event to the session, and carry out what it wants."""
        ...


class ConsolePort:
    """Carries operations on one source to its console session (`gateway.operations.operation`).

    Args:
        session: the session of the source.
        driver: the driver of the session.
        clock: the gateway's.
    """

    def __init__(self, session: ConsoleSession, driver: Driver, clock: Clock) -> None:
        self._session = session
        self._driver = driver
        self._clock = clock

    def call(self, call: MethodCall) -> None:
        """Call a method."""
        self._driver.handle(call)

    def modify(self, modify: ObjectModify) -> None:
        """Set properties; the answer is ``READ_ONLY`` if the dialect has no request for that."""
        self._driver.handle(modify)

    def fetch(self, fetch: ObjectFetch) -> None:
        """Read an object again."""
        self._driver.handle(fetch)

    def precheck(self, request: MethodCall | ObjectModify) -> Answer | None:
        """Return the immediate answer of `call` or `modify`; ``None`` if they would be carried out."""
        return self._session.precheck(request, self._clock.now())


def source_console(
    source: SourceInventory,
    session: ConsoleSession,
    config: object,
    around: SourceContext,
    observed: Callable[[tuple[Observation, ...]], None] | None = None,
) -> MessageDriver:
    """Return the driver of a session that observes for a source, and takes the operations on its objects.

    Args:
        source: a source of the inventory.
        session: a new one.
        config: the config of which the session was made.
        around: the shared context of sources.
        observed: called with the observations of the session, instead of the inventory.
    """
    identity, clock = source.identity, around.clock

    def observe(observations: tuple[Observation, ...]) -> None:
        around.inventory.observed(source, observations, clock.now())

    captured = around.captured(identity.name, identity.kind, session, config)
    answered = around.after_observations(source)
    driver = MessageDriver(identity.name, captured, observed or observe, clock, source.counters, answered)
    around.operations.connect(identity.number, ConsolePort(captured, driver, clock))
    return driver
