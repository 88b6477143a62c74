"""Makes endpoints with their secrets, and readers and writers, from the settings of sources and agents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gateway.config import sources
from gateway.config.sources import AmqpSettings, RabbitMqSettings
from gateway.config.types import SecretSource
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.tls import ClientTls, PresentedCertificates, TlsFileError
from gateway.model.times import SECOND
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.sources.rabbitmq.http_publisher import HttpPublisher
from gateway.sources.rabbitmq.http_reader import HttpReader, ManagementEndpoint, PrometheusReader
from gateway.sources.rabbitmq.http_writer import PURGE_SECONDS, AmqpPurger, HttpWriter
from gateway.sources.rabbitmq.source_config import (
    METRICS_SHARE,
    PollingConfig,
    RabbitMqSourceConfig,
    StatisticsConfig,
)


def amqp_endpoint(
    settings: AmqpSettings, folder: Path, name: str = "", presented: PresentedCertificates | None = None
) -> AmqpEndpoint:
    """Return the endpoint of ``settings``, with the secret read.

    Args:
        settings: settings of the broker.
        folder: the folder to which paths are relative.
        name: the name of the source or agent, which the broker receives.
        presented: notes the certificates of the source's brokers.

    Raises:
        SecretError: it cannot be read.
    """
    return AmqpEndpoint(
        settings.url[0],
        settings.vhost,
        settings.user,
        settings.password.read(folder),
        _noted(settings.client_tls(folder), presented, f"sources.{name}.amqp.url"),
        settings.heartbeat // SECOND,
        others=settings.url[1:],
        source=name,
    )


def _noted(tls: ClientTls, presented: PresentedCertificates | None, key: str) -> ClientTls:
    return tls if presented is None else replace(tls, note=presented.noting(key))


def http_reader(
    settings: RabbitMqSettings, folder: Path, name: str = "", presented: PresentedCertificates | None = None
) -> HttpReader:
    """Return the reader of the agent; it is not connected yet.

    Args:
        settings: settings of the broker.
        folder: the folder to which paths are relative.
        name: the name of the source or agent, which the broker receives.
        presented: notes the certificates of the source's nodes.

    Raises:
        SecretError: the password cannot be read.
        CommandError: the certificates cannot be read.
    """
    reading, administrator = _both_accounts(settings, folder, name)
    noted = _noted(reading.tls, presented, f"sources.{name}.management")
    return HttpReader(replace(reading, tls=noted), administrator)


def http_writer(settings: RabbitMqSettings, folder: Path, name: str = "", patience: int = 0) -> HttpWriter:
    """Return the writer that carries out calls and fresh reads; it is not connected yet.

    Args:
        settings: settings of the broker.
        folder: the folder to which paths are relative.
        name: the name of the source or agent, which the broker receives.
        patience: nanoseconds that an operation may take.

    Raises:
        SecretError: a password cannot be read.
        CommandError: the certificates cannot be read.
    """
    seconds = patience / SECOND
    return HttpWriter(
        *_both_accounts(settings, folder, name), _purger(settings, folder, name, seconds), seconds
    )


def _purger(settings: RabbitMqSettings, folder: Path, name: str, patience: float) -> AmqpPurger | None:
    """Return the purger of queues over AMQP, at the nodes of events; ``None`` without them or a writer."""
    events, writing = event_endpoint(settings, folder, name), settings.writing
    if events is None or writing is None:
        return None
    events = replace(events, user=writing.user, password=writing.password.read(folder))
    return AmqpPurger(events, max(PURGE_SECONDS, patience))


def http_publisher(
    settings: RabbitMqSettings, publish: sources.AgentPublishing, folder: Path, name: str = ""
) -> HttpPublisher:
    """Return the publisher of the agent during an alarm, as the user who otherwise publishes over AMQP.

    Raises:
        SecretError: the password cannot be read.
        CommandError: the certificates cannot be read.
    """
    amqp = publish.amqp
    return HttpPublisher(management_endpoint(settings, amqp.user, amqp.password, folder, name), amqp.vhost)


def _both_accounts(
    settings: RabbitMqSettings, folder: Path, name: str
) -> tuple[ManagementEndpoint, ManagementEndpoint | None]:
    """Return the management API for the reading account, and for the writing one, if there is one."""
    writing = settings.writing
    return (
        management_endpoint(settings, settings.user, settings.password, folder, name),
        management_endpoint(settings, writing.user, writing.password, folder, name) if writing else None,
    )


def management_endpoint(
    settings: RabbitMqSettings, user: str, password: SecretSource, folder: Path, name: str = ""
) -> ManagementEndpoint:
    """Return the management API as one user.

    Args:
        settings: settings of the broker.
        user: the name of the user.
        password: the place of that user's password.
        folder: the folder to which paths are relative.
        name: the name of the source or agent, which the broker receives.

    Raises:
        SecretError: the password cannot be read.
        CommandError: the certificates cannot be read.
    """
    tls = settings.client_tls(folder)
    try:
        tls.context()
    except TlsFileError as error:
        raise CommandError(ExitCode.CONFIGURATION, f"{settings.management[0]}: {error}") from error
    first, others = settings.management[0], settings.management[1:]
    return ManagementEndpoint(first, user, password.read(folder), tls, others=others, source=name)


def event_endpoint(
    settings: RabbitMqSettings, folder: Path, name: str = "", presented: PresentedCertificates | None = None
) -> AmqpEndpoint | None:
    """Return the endpoint of the broker's events; ``None`` where that is not configured.

    Args:
        settings: settings of the broker.
        folder: the folder to which paths are relative.
        name: the name of the source or agent, which the broker receives.
        presented: notes the certificates of the source's nodes.

    Raises:
        SecretError: the password cannot be read.
    """
    if settings.events is None:
        return None
    events = settings.events
    tls = _noted(settings.client_tls(folder), presented, f"sources.{name}.events.url")
    password = settings.password.read(folder)
    return AmqpEndpoint(
        events.url[0], events.vhost, settings.user, password, tls, others=events.url[1:], source=name
    )


def prometheus_reader(settings: RabbitMqSettings, folder: Path, name: str = "") -> PrometheusReader:
    """Return the reader of metrics; it sends no login."""
    return PrometheusReader(settings.client_tls(folder), source=name)


def _statistics(settings: RabbitMqSettings) -> StatisticsConfig:
    return StatisticsConfig(
        management=settings.management[0],
        enabled=settings.prometheus != "off",
        urls=() if isinstance(settings.prometheus, str) else settings.prometheus,
        interval=settings.interval,
        share=METRICS_SHARE * settings.budget,
    )


def source_config(
    settings: RabbitMqSettings, publish: sources.AgentPublishing | None = None
) -> RabbitMqSourceConfig:
    """Return the configuration by which one RabbitMQ is observed.

    Args:
        settings: settings of the broker.
        publish: settings of the agent that publishes the observations; ``None`` in the gateway, where there
            is none.
    """
    # The users whose requests are accepted are gateways: their connections are left out like the agent's own.
    own_users = () if publish is None else (publish.amqp.user, *publish.allowed_users)
    return RabbitMqSourceConfig(
        user=settings.user,
        own_users=frozenset({settings.user, *settings.own_users, *own_users}),
        show_own=settings.show_own,
        management_virtual_host="" if publish is None else publish.amqp.vhost,
        allowed_users=frozenset() if publish is None else frozenset(publish.allowed_users),
        polling=PollingConfig(interval=settings.interval, budget=settings.budget),
        statistics=_statistics(settings),
        writer=settings.writing.user if settings.writing else "",
        lockout=frozenset(settings.writing.allow_lockout if settings.writing else ()),
    )
