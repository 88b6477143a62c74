"""An agent as a process of its own, speaking QMF on its broker's management exchange."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog

from gateway.agents.rabbitmq.agent import RabbitMqAgent
from gateway.agents.rabbitmq.http_publisher import HttpPublisher
from gateway.agents.rabbitmq.runner import SourceRunner
from gateway.agents.rabbitmq.source import RabbitMqSource
from gateway.agents.rabbitmq.status import AgentStatus
from gateway.clock import Clock
from gateway.config import sources
from gateway.config.types import SecretError
from gateway.dialects.qmf.agent import AgentConfig
from gateway.dialects.session import Effect
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.election import Election, manager_queue
from gateway.links.session_driver import MessageDriver
from gateway.mapping.files import MappingError, load_shipped_mappings
from gateway.service.diagnostics.checks import check_amqp, check_rabbitmq, check_writer, is_passing
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import Lifeline
from gateway.service.sources.endpoints import (
    amqp_endpoint,
    event_endpoint,
    http_publisher,
    http_reader,
    http_writer,
    prometheus_reader,
    source_config,
)
from gateway.yaml_documents import DocumentError

log = structlog.get_logger(__name__)

_SECOND = 10**9


async def run_agent(
    name: str, settings: sources.RabbitMqAgent, folder: Path, clock: Clock, lifeline: Lifeline
) -> None:
    """Run an agent until the supervisor goes or the task is cancelled.

    Raises:
        CommandError: it cannot work with this configuration, or the broker refuses it from the start.
    """
    try:
        await _refused_from_the_start(settings, folder)
        await _run(name, settings, folder, clock, lifeline)
    except (SecretError, DocumentError, MappingError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


async def _refused_from_the_start(settings: sources.RabbitMqAgent, folder: Path) -> None:
    """Find out what no waiting mends: wrong passwords, a missing virtual host or right."""

    def tell(line: str) -> None:
        log.warning("agent-check", detail=line)

    endpoint = amqp_endpoint(settings.publish.amqp, folder)
    try:
        await check_rabbitmq(settings, folder, tell)
        await check_writer(settings, folder, tell)
        await check_amqp(endpoint, settings.publish.direct_exchange)
    except CommandError as error:
        if not is_passing(error):
            raise
        log.warning("broker-not-reached", detail=str(error))


async def _run(
    name: str, settings: sources.RabbitMqAgent, folder: Path, clock: Clock, lifeline: Lifeline
) -> None:
    publish = settings.publish
    endpoint = amqp_endpoint(publish.amqp, folder, name)
    config = source_config(settings, publish)
    session = AgentConfig(
        broker=uuid.uuid4(),
        boot=clock.now() // _SECOND,  # the agent keeps no state; only that the next start differs matters
        obey=config.obeyed,
        management_exchange=publish.exchange,
        direct_exchange=publish.direct_exchange,
        publish_interval=publish.interval,
        reads_anew=True,
    )
    source = RabbitMqSource(config, load_shipped_mappings()["rabbitmq"])
    agent = RabbitMqAgent(source, config, session)
    driver = MessageDriver(name, agent, lambda _: None, clock, Counter())

    def publish_effects(effects: Iterable[Effect]) -> None:
        driver.perform(agent.publish(effects, clock.now()))

    def heard(key: str, headers: Mapping[str, object], now: int) -> None:
        driver.perform(agent.event(key, headers, now))

    election = Election(
        manager_queue(publish.exchange),
        lambda: agent.stand_by(clock.now()),
        reported_since=lambda: source.events_unbroken_since,
    )
    agent.on_vacancy = election.vacant.set
    role = AmqpRole(
        "agent",
        lambda _: agent.bindings,
        declare=[publish.exchange],
        probed=publish.exchange,
        election=election,
    )
    async with (
        http_reader(settings, folder, name) as reader,
        http_writer(settings, folder, name) as writer,
        http_publisher(settings, folder, name) as around,
        prometheus_reader(settings, folder, name) as scraper,
    ):
        link = AmqpLink(endpoint, role, driver, clock, detour=around, on_unsent=agent.unsent)
        runner = SourceRunner(
            source,
            reader,
            publish_effects,
            clock,
            events=event_endpoint(settings, folder, name),
            on_status=lambda status: _take_note(status, around),
            on_event=heard,
            writer=writer,
            scraper=scraper,
        )
        around.on_blocked = runner.connection_blocked
        lifeline.ready()
        log.info("agent-ready", name=name, broker=str(endpoint), exchange=publish.exchange)
        async with asyncio.TaskGroup() as parts:
            running = [
                parts.create_task(part)
                for part in (link.run(), runner.run(), _say_if_silent_under_alarms(around))
            ]
            await lifeline.parent_gone()
            for part in running:
                part.cancel()


def _take_note(status: AgentStatus, around: HttpPublisher) -> None:
    log.info("agent-status", state=status.state.value, detail=status.detail, blocked=status.blocked)
    around.want(wanted=status.blocked)


async def _say_if_silent_under_alarms(around: HttpPublisher) -> None:
    refusal = await around.refusal()
    if refusal:
        log.warning("silent-under-alarms", detail=f"{refusal}: give this user the tag 'management'")
