"""A source that is a console of QMF agents on a broker's management exchange."""

from __future__ import annotations

import structlog

from gateway.config.model import QmfSource
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.console_agents import HeartbeatRules
from gateway.inventory.source import SourceInventory
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.conversation import Conversation
from gateway.service.surroundings import Surroundings

log = structlog.get_logger(__name__)


async def run_qmf(
    name: str, settings: QmfSource, endpoint: AmqpEndpoint, source: SourceInventory, around: Surroundings
) -> None:
    """Run the source until it is cancelled."""
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
    role = AmqpRole(
        "console",
        session.bindings,
        probed=settings.exchange,
        max_queue_length=settings.max_queue_length,
    )
    await AmqpLink(endpoint, role, session, conversation, around.clock).run()
