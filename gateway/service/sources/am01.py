"""A source that is a console of a QMF agent before AM2."""

from __future__ import annotations

from gateway.config.sources import Am01Source
from gateway.dialects.qmf.am01.console import Am01ConsoleConfig, Am01ConsoleSession
from gateway.dialects.qmf.am01.messages import ALL, Revision
from gateway.dialects.qmf.console_config import HeartbeatRules
from gateway.inventory.source import SourceInventory
from gateway.links.amqp import AmqpLink, AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.service.sources.qmf import warn_of_impersonators
from gateway.service.sources.source_console import source_console
from gateway.service.sources.source_context import SourceContext


async def run_am01(
    name: str, settings: Am01Source, endpoint: AmqpEndpoint, source: SourceInventory, around: SourceContext
) -> None:
    """Run the source until it is cancelled."""
    config = console_config(settings, around)
    console = Am01ConsoleSession(config)
    driver = source_console(source, console, config, around)
    if settings.trusted_users:
        warn_of_impersonators(name, endpoint)
    role = AmqpRole(
        "console",
        console.bindings,
        probed=settings.exchange,
        max_queue_length=settings.max_queue_length,
    )
    await AmqpLink(endpoint, role, driver, around.clock).run()


def console_config(settings: Am01Source, around: SourceContext) -> Am01ConsoleConfig:
    """What a console session is told of the settings."""
    spoken = settings.revision
    return Am01ConsoleConfig(
        believed=frozenset(settings.trusted_users),
        believe_anyone=settings.trust_anyone,
        packages=frozenset(settings.packages) if settings.packages is not None else None,
        management_exchange=settings.exchange,
        direct_exchange=settings.direct_exchange,
        secrets=around.secrets,
        heartbeats=HeartbeatRules(interval=settings.interval),
        request_deadline=settings.request_deadline,
        revisions=ALL if spoken == "auto" else frozenset((Revision(spoken),)),
        package=settings.package,
        get_and_set=settings.get_and_set,
        events=settings.events,
        republish_interval=settings.republish_interval,
    )
