"""A source that is a console of QMF agents, of AM2 or before, on a broker's management exchange."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec
import structlog

from gateway.config.sources import Am01Source, QmfSource
from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.am01.console import Am01ConsoleConfig, Am01ConsoleSession
from gateway.dialects.qmf.am01.messages import ALL, Revision
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.console_config import HeartbeatRules, Heartbeats
from gateway.dialects.qmf.peer_question import PeerQuestion
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import PropertiesMissing
from gateway.inventory.source import SourceInventory
from gateway.links.amqp import WATCH_SECONDS, AmqpLink, AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint, LinkError, Trouble
from gateway.links.protection import Protection
from gateway.links.session_driver import MessageDriver
from gateway.model.observations import (
    ClassLearned,
    EventLearned,
    ObjectSeen,
    Observation,
    PeerReplaced,
    ResyncEnded,
)
from gateway.model.times import SECOND
from gateway.service.sources.source_context import SourceContext, remarked, source_console
from gateway.service.state.cached_schemas import definitions_cache
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

_SEQUENCE_BITS: Final = 32


class BrokerInquiry:
    """Finds out which broker a source reads, before what waited for it is read.

    Args:
        question: the questions to its agents.
        source: knows which broker it was.
        observe: called with the end of that one, if another one answers.
    """

    def __init__(
        self, question: PeerQuestion, source: SourceInventory, observe: Callable[[PeerReplaced], None]
    ) -> None:
        self._question = question
        self._source = source
        self._observe = observe
        self.bindings = question.bindings
        self.requests = question.requests
        self.take = question.take

    @property
    def is_answered(self) -> bool:
        """Whether the known broker was shown, or all agents have answered, or those that were in doubt."""
        question = self._question
        return question.is_answered or self._source.has_peer_answered(question.shown, question.answered)

    @property
    def is_settled(self) -> bool:
        """Whether the known broker was shown."""
        return self._source.is_peer_shown(self._question.shown)

    def end(self) -> None:
        """Observe that another broker is read, if agents have shown that."""
        question = self._question
        replaced = self._source.peer_replaced(question.shown, question.answered, question.silent)
        if replaced is not None:
            self._observe(replaced)


async def run_qmf(
    name: str,
    settings: QmfSource,
    endpoint: AmqpEndpoint,
    protection: Protection | None,
    source: SourceInventory,
    around: SourceContext,
) -> None:
    """Run the source until it is cancelled."""
    durable_context = around.usable_durable if settings.durable is not None else None
    schemas = definitions_cache(durable_context.state, name) if durable_context is not None else None
    config = _console_config(settings, source, around)
    if durable_context is not None and schemas is not None:
        config = replace(
            config,
            definitions=schemas.read() or (),
            complete_until=durable_context.last.complete_until(name),
            first_sequence=secrets.randbits(_SEQUENCE_BITS),
        )
    console = ConsoleSession(config)
    subscription = around.subscription("console", name, settings.durable)
    unidentified = 0

    def read_the_unnamed() -> None:
        nonlocal unidentified
        if source.counters["unidentified"] != unidentified:
            unidentified = source.counters["unidentified"]
            driver.handle(PropertiesMissing())

    def observed(observations: tuple[Observation, ...]) -> None:
        observations = without_doubted(source, console.state, observations, driver, endpoint)
        around.inventory.observed(source, remarked(observations, subscription), around.clock.now())
        around.inventory.afterwards(source, read_the_unnamed)
        if schemas is not None and any(isinstance(one, ClassLearned | EventLearned) for one in observations):
            schemas.learnt()

    def inquiry() -> BrokerInquiry | None:
        asked = source.identifying
        if not asked:
            return None
        question = PeerQuestion(config, console.definitions, asked, secrets.randbits(_SEQUENCE_BITS - 2))
        return BrokerInquiry(question, source, lambda replaced: observed((replaced,)))

    driver = source_console(source, console, config, around, observed)
    if settings.trusted_users:
        warn_of_impersonators(name, endpoint)
    role = AmqpRole(
        "console",
        console.bindings,
        probed=settings.exchange,
        max_queue_length=settings.max_queue_length,
        durable=subscription,
        protection=protection,
        takes_proofs=True,
        inquiry=inquiry,
    )
    link = AmqpLink(endpoint, role, driver, around.clock, watch_seconds=_watch_seconds(settings.stale_after))
    if schemas is None:
        await link.run()
    else:
        await until_one_ends(link.run(), schemas.keep(lambda: console.definitions))


def without_doubted(
    source: SourceInventory,
    state: State,
    observations: tuple[Observation, ...],
    driver: MessageDriver,
    endpoint: AmqpEndpoint,
) -> tuple[Observation, ...]:
    """Drop the objects of agents that may be another broker's: all are read again when these were asked.

    A new connection asks them. What had waited for this one is of those who were asked. Nothing is complete
    without these objects.
    """
    doubted = frozenset[str]() if state is State.CATCHING_UP else source.doubted(observations)
    if not doubted:
        return observations
    who = f"agent{'s' * (len(doubted) > 1)} {', '.join(sorted(doubted))}"
    text = f"{endpoint}: {who} may be of another broker, and will be asked before more is read"
    driver.fail(LinkError(Trouble.BROKEN, text))
    return tuple(
        msgspec.structs.replace(one, complete=False) if isinstance(one, ResyncEnded) else one
        for one in observations
        if not isinstance(one, ObjectSeen) or one.agent not in doubted
    )


def warn_of_impersonators(name: str, endpoint: AmqpEndpoint) -> None:
    """Warn that it is unknown which users could forge the senders that source ``name`` trusts."""
    log.warning(
        "impersonators-not-checked",
        name=name,
        broker=str(endpoint),
        detail="on a RabbitMQ, a user tagged 'impersonator' could forge the senders that this source"
        " trusts: keep that tag off the users of this broker (docs/rights.md)",
    )


def _console_config(settings: QmfSource, source: SourceInventory, around: SourceContext) -> ConsoleConfig:
    return ConsoleConfig(
        trusted_users=frozenset(settings.trusted_users),
        trust_anyone=settings.trust_anyone,
        packages=frozenset(settings.packages) if settings.packages is not None else None,
        management_exchange=settings.exchange,
        direct_exchange=settings.direct_exchange,
        secrets=around.secrets,
        heartbeats=HeartbeatRules(
            Heartbeats(settings.heartbeats), settings.heartbeat, stale_after=settings.stale_after
        ),
        request_deadline=settings.request_deadline,
        object_limit=settings.max_objects,
        # Nothing was reported yet: the inventory knows the agents that had objects when the log ended.
        restored_agents=tuple(one.agent for one in source.agents if one.agent != BROKER_AGENT),
    )


async def run_am01(
    name: str,
    settings: Am01Source,
    endpoint: AmqpEndpoint,
    protection: Protection | None,
    source: SourceInventory,
    around: SourceContext,
) -> None:
    """Run the source until it is cancelled."""
    config = _am01_config(settings, source, around)
    console = Am01ConsoleSession(config)
    driver = source_console(source, console, config, around)
    if settings.trusted_users:
        warn_of_impersonators(name, endpoint)
    role = AmqpRole(
        "console",
        console.bindings,
        probed=settings.exchange,
        max_queue_length=settings.max_queue_length,
        protection=protection,
        takes_proofs=True,
    )
    watch_seconds = _watch_seconds(settings.stale_after)
    await AmqpLink(endpoint, role, driver, around.clock, watch_seconds=watch_seconds).run()


def _watch_seconds(stale_after: int) -> float:
    """Return the interval of checks of the queue, of which several must be in time before all is stale."""
    return min(WATCH_SECONDS, stale_after / SECOND / 5)


def _am01_config(settings: Am01Source, source: SourceInventory, around: SourceContext) -> Am01ConsoleConfig:
    """Return the configuration of a console session, from the settings."""
    spoken = settings.revision
    return Am01ConsoleConfig(
        trusted_users=frozenset(settings.trusted_users),
        trust_anyone=settings.trust_anyone,
        packages=frozenset(settings.packages) if settings.packages is not None else None,
        management_exchange=settings.exchange,
        direct_exchange=settings.direct_exchange,
        secrets=around.secrets,
        heartbeats=HeartbeatRules(interval=settings.interval, stale_after=settings.stale_after),
        request_deadline=settings.request_deadline,
        revisions=ALL if spoken == "auto" else frozenset((Revision(spoken),)),
        package=settings.package,
        get_and_set=settings.get_and_set,
        events=settings.events,
        republish_interval=settings.republish_interval,
        read_before=any(source.agents),
    )
