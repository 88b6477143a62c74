"""A serving role in the core: between the inventory, the operations, and the link to the consoles."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

import structlog

from gateway.clock import Clock
from gateway.config.sources import AgentPublishing
from gateway.dialects.qmf.agent import AgentConfig
from gateway.dialects.session import Effect, Event
from gateway.feed.operations import OperationAnswer, OperationRequest
from gateway.feed.records import Batch
from gateway.feed.server import Reply
from gateway.inventory.source import SourceInventory
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.election import Election, manager_queue
from gateway.links.protection import Protection
from gateway.links.session_driver import MessageDriver
from gateway.serving.qmf import QmfRole, RoleConfig, RoleEffect, SeesObject, Submit
from gateway.sources.rabbitmq.events import BINDING_CREATED, QUEUE_DELETED, bound
from gateway.sources.rabbitmq.http_publisher import HttpPublisher
from gateway.sources.rabbitmq.status import SourceStatus

log = structlog.get_logger(__name__)


class SubmitOperation(Protocol):
    """Takes operations (`gateway.service.processes.operations.CoreOperations.submit`)."""

    def __call__(self, request: OperationRequest, reply: Reply) -> None:
        """Submit ``request``; ``reply`` is called with its answer."""
        ...


@dataclass(frozen=True, slots=True)
class ServedExchange:
    """The management exchange on a RabbitMQ, as the broker's events show it.

    Attributes:
        virtual_host: its virtual host.
        name: its name.
    """

    virtual_host: str
    name: str

    def is_console_bound(self, key: str, headers: Mapping[str, object]) -> bool:
        """Return whether an event, by its routing key and headers, reports that a console binds its queue."""
        event = bound(headers) if key == BINDING_CREATED else None
        return (
            event is not None
            and event.routing_key.startswith(("#", "console"))
            and (event.virtual_host, event.exchange) == (self.virtual_host, self.name)
        )

    def is_agent_ended(self, key: str, headers: Mapping[str, object]) -> bool:
        """Return whether an event reports that the queue of the serving agent is gone."""
        queue = (headers.get("vhost"), headers.get("name"))
        return key == QUEUE_DELETED and queue == (self.virtual_host, manager_queue(self.name))


@dataclass(frozen=True, slots=True)
class ServedBroker:
    """The access of a serving role to its broker.

    Attributes:
        endpoint: the endpoint of the broker, with the virtual host of the management exchange.
        fallback: publishes by HTTP while the broker takes no messages over AMQP.
        protection: seals and opens all bodies; ``None`` where they are plain.
    """

    endpoint: AmqpEndpoint
    fallback: HttpPublisher
    protection: Protection | None = None


class QmfServer:
    """Serves a source by the role ``qmf``, on the broker that the source reads.

    Args:
        name: the name of the agent.
        publishing: the settings of the management exchange, and of the allowed users.
        broker: the access to the broker.
        source: the source that is served.
        submit: takes operations.
        sees: decides which objects exist for a console that calls their methods.
        clock: of the gateway.
        missed_since: the time since which the source was not read before this start (ns); 0 where it never
            was.
    """

    def __init__(
        self,
        name: str,
        publishing: AgentPublishing,
        broker: ServedBroker,
        source: SourceInventory,
        submit: SubmitOperation,
        sees: SeesObject,
        clock: Clock,
        missed_since: int,
    ) -> None:
        self.publishing = publishing
        self._fallback = broker.fallback
        self._submit = submit
        self._clock = clock
        self._events_since = 0
        self._exchange = ServedExchange(broker.endpoint.vhost, publishing.exchange)
        session = AgentConfig(
            broker=uuid.uuid4(),
            boot=0,  # the numbers of the role outlive restarts
            allowed_users=frozenset(publishing.allowed_users),
            management_exchange=publishing.exchange,
            direct_exchange=publishing.direct_exchange,
            publish_interval=publishing.interval,
            rereads=True,
        )
        is_rabbitmq = source.identity.kind == "rabbitmq"
        config = RoleConfig(
            session,
            source.identity.number,
            name,
            numbered_by_facts=is_rabbitmq,
            missed_since=missed_since,
        )
        self._role = QmfRole(config, source.by_row, sees)
        self._driver = MessageDriver(name, self, lambda _: None, clock, Counter())
        self._election = Election(
            manager_queue(publishing.exchange), self._stand_by, reported_since=lambda: self._events_since
        )
        role = AmqpRole(
            "agent",
            lambda _: self._role.bindings,
            declare=[publishing.exchange],
            probed=publishing.exchange,
            election=self._election,
            protection=broker.protection,
        )
        self._link = AmqpLink(
            broker.endpoint,
            role,
            self._driver,
            clock,
            fallback=broker.fallback,
            on_unsent=self._role.unsent,
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        async with AsyncExitStack() as parts:
            await parts.enter_async_context(self._fallback)
            parts.callback(self._driver.stop)
            tasks = await parts.enter_async_context(asyncio.TaskGroup())
            tasks.create_task(self._warn_if_silent_under_alarms())
            tasks.create_task(self._link.run())

    def take(self, batch: Batch) -> None:
        """Publish the changes of the source in a batch of the inventory."""
        self._perform(self._role.take(batch.records, self._clock.now()))

    # ---- the session of the link: as the role, with its operations submitted -----------------------------

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an event, as `QmfRole.handle` does."""
        return self._submitted(self._role.handle(event, now))

    def _perform(self, effects: Iterable[RoleEffect]) -> None:
        self._driver.perform(self._submitted(effects))

    def _submitted(self, effects: Iterable[RoleEffect]) -> list[Effect]:
        others: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Submit):
                # Behind what runs now: the answer may come before `submit` returns.
                asyncio.get_running_loop().call_soon(self._submit, effect.request, self._answered)
            else:
                others.append(effect)
        return others

    def _answered(self, answer: OperationAnswer) -> None:
        self._perform(self._role.operation_answered(answer, self._clock.now()))

    def _stand_by(self) -> None:
        self._role.stand_by(self._clock.now())

    # ---- what the source finds out about the broker ------------------------------------------------------

    def status_changed(self, status: SourceStatus) -> None:
        """Follow alarms of the broker, and whether its users can be trusted."""
        log.info("agent-status", state=status.state.value, detail=status.detail, blocked=status.blocked)
        self._events_since = status.events_since
        self._fallback.want(wanted=status.blocked)
        self._role.distrust(status.distrust)

    def event_received(self, key: str, headers: Mapping[str, object], now: int) -> None:
        """React to a console that comes, and to another agent that ends."""
        if self._exchange.is_console_bound(key, headers):
            self._perform(self._role.console_bound(now))
        elif self._exchange.is_agent_ended(key, headers):
            self._election.vacant.set()

    async def blocked(self) -> None:
        """Wait until the broker seems to block the connection of the role."""
        await self._fallback.until_blocked()

    async def _warn_if_silent_under_alarms(self) -> None:
        refusal = await self._fallback.refusal()
        if refusal:
            log.warning("silent-under-alarms", detail=f"{refusal}: give this user the tag 'management'")
