"""Reaching everything that a configuration names, once, before it is relied on."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path

from aiormq import exceptions

from gateway.agents.rabbitmq.events import EVENT_EXCHANGE
from gateway.agents.rabbitmq.http_reader import HttpReader
from gateway.agents.rabbitmq.management_api import Document, NotManagement, OverviewRequest, Refused
from gateway.config.files import LoadedConfiguration
from gateway.config.model import QmfSource, RabbitMqSettings
from gateway.config.types import SecretError
from gateway.links.amqp_connection import AmqpEndpoint, LinkError, Trouble, link_error, open_connection
from gateway.service.exit_codes import OF_TROUBLE, CommandError, ExitCode
from gateway.service.sources import amqp_endpoint, event_endpoint, management_endpoint

Tell = Callable[[str], None]


async def check_sources(loaded: LoadedConfiguration, tell: Tell) -> None:
    """Reach every source, telling one line of each; all are tried before any trouble ends it.

    Raises:
        CommandError: for the first source that cannot be used.
    """
    first: CommandError | None = None
    for name, source in loaded.settings.sources.items():
        try:
            if isinstance(source, QmfSource):
                await check_amqp(amqp_endpoint(source.amqp, loaded.folder), source.exchange)
            else:
                await check_rabbitmq(source, loaded.folder, tell)
            tell(f"source {name}: reached")
        except SecretError as error:
            first = first or CommandError(ExitCode.CONFIGURATION, str(error))
        except CommandError as error:
            tell(f"source {name}: {error}")
            first = first or error
    if first is not None:
        raise first


async def check_rabbitmq(settings: RabbitMqSettings, folder: Path, tell: Tell) -> None:
    """Ask the management API once, and look for the event exchange, which may be missing.

    Raises:
        CommandError: the API cannot be used with these settings.
        SecretError: a secret cannot be read.
    """
    try:
        reader = HttpReader(management_endpoint(settings, folder))
    except (OSError, ssl.SSLError) as error:
        raise CommandError(ExitCode.CONFIGURATION, f"ca_file: {error}") from error
    async with reader:
        answer = await reader.read(OverviewRequest())
    if isinstance(answer, Refused):
        code = ExitCode.CREDENTIALS if answer.login else ExitCode.FORBIDDEN
        what = "check user and password" if answer.login else "give the user the tag 'monitoring'"
        raise CommandError(code, f"{settings.management}: user {settings.user!r}: {answer.reason}: {what}")
    if not isinstance(answer, Document):
        reason = getattr(answer, "reason", type(answer).__name__)
        what = (
            "is this the management API?" if isinstance(answer, NotManagement) else "is the broker running?"
        )
        raise CommandError(ExitCode.UNREACHABLE, f"{settings.management}: {reason}: {what}")
    events = event_endpoint(settings, folder)
    if events is None:
        tell("events are not configured: what comes and goes between two looks is not seen")
        return
    try:
        await check_amqp(events, EVENT_EXCHANGE)
    except CommandError as error:
        if error.code is not ExitCode.MISSING:
            raise
        tell(
            f"{events}: no exchange {EVENT_EXCHANGE}: what comes and goes between two looks is not seen; "
            "enable the plugin rabbitmq_event_exchange"
        )


async def check_amqp(endpoint: AmqpEndpoint, exchange: str) -> None:
    """Open a connection and look for an exchange, without declaring anything.

    Raises:
        CommandError: credentials, virtual host, or the exchange are not there.
    """
    try:
        connection = await open_connection(endpoint, "amqp-gateway check")
        try:
            channel = await connection.channel(publisher_confirms=False)
            await channel.declare_exchange(exchange, passive=True)
        finally:
            with contextlib.suppress(exceptions.AMQPError, OSError, TimeoutError):
                await asyncio.wait_for(connection.close(), timeout=2)
    except (LinkError, exceptions.AMQPError, OSError, TimeoutError) as error:
        trouble = link_error(endpoint, error)
        raise CommandError(OF_TROUBLE[trouble.trouble], str(trouble)) from error


def is_passing(error: CommandError) -> bool:
    """Whether waiting may help: the broker may just be starting."""
    return error.code in {OF_TROUBLE[Trouble.UNREACHABLE], OF_TROUBLE[Trouble.BROKEN]}
