"""Makes readers, writers and endpoints of a RabbitMQ, with their secrets, from settings.

Only a process with such a source, or such an agent, imports it: the source takes a fifth of a core's imports.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gateway.config import sources
from gateway.config.logins import LoginSettings
from gateway.config.sources import RabbitMqSettings
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.tls import PresentedCertificates, TlsFileError
from gateway.model.times import SECOND
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.sources.endpoints import noted
from gateway.service.sources.logins import Logins
from gateway.sources.rabbitmq.http_login import HttpLogin
from gateway.sources.rabbitmq.http_publisher import HttpPublisher
from gateway.sources.rabbitmq.http_reader import HttpReader, ManagementEndpoint, PrometheusReader
from gateway.sources.rabbitmq.http_writer import PURGE_SECONDS, AmqpPurger, HttpWriter
from gateway.sources.rabbitmq.source_config import (
    METRICS_SHARE,
    PollingConfig,
    RabbitMqSourceConfig,
    StatisticsConfig,
)


def http_reader(
    settings: RabbitMqSettings,
    folder: Path,
    name: str = "",
    presented: PresentedCertificates | None = None,
    logins: Logins | None = None,
) -> HttpReader:
    """Return the reader of the agent; it is not connected yet.

    Args:
        settings: settings of the broker.
        folder: the folder to which paths are relative.
        name: the name of the source or agent, which the broker receives.
        presented: notes the certificates of the source's nodes.
        logins: as of `amqp_endpoint`.

    Raises:
        SecretError: the password cannot be read.
        CommandError: the certificates cannot be read.
    """
    reading, administrator = both_accounts(settings, folder, name, logins)
    tls = noted(reading.tls, presented, f"sources.{name}.management")
    return HttpReader(replace(reading, tls=tls), administrator)


def http_writer(
    settings: RabbitMqSettings,
    folder: Path,
    name: str = "",
    patience: int = 0,
    logins: Logins | None = None,
) -> HttpWriter:
    """Return the writer that carries out calls and fresh reads; it is not connected yet.

    Args:
        settings: settings of the broker.
        folder: the folder to which paths are relative.
        name: the name of the source or agent, which the broker receives.
        patience: nanoseconds that an operation may take.
        logins: as of `amqp_endpoint`.

    Raises:
        SecretError: a password cannot be read.
        CommandError: the certificates cannot be read.
    """
    seconds, logins = patience / SECOND, logins or Logins()
    accounts = both_accounts(settings, folder, name, logins)
    return HttpWriter(*accounts, _purger(settings, folder, name, seconds, logins), seconds)


def _purger(
    settings: RabbitMqSettings, folder: Path, name: str, patience: float, logins: Logins
) -> AmqpPurger | None:
    """Return the purger of queues over AMQP, at the nodes of events; ``None`` without them or a writer."""
    events, writing = event_endpoint(settings, folder, name, logins=logins), settings.writing
    if events is None or writing is None:
        return None
    secret = logins.secret(writing, folder, settings.client_tls(folder), settings.proxy)
    events = replace(events, user=writing.user, password=secret)
    return AmqpPurger(events, max(PURGE_SECONDS, patience))


def http_publisher(
    settings: RabbitMqSettings,
    publish: sources.AgentPublishing,
    folder: Path,
    name: str = "",
    logins: Logins | None = None,
) -> HttpPublisher:
    """Return the publisher of the agent during an alarm, as the user who otherwise publishes over AMQP.

    Raises:
        SecretError: the password cannot be read.
        CommandError: the certificates cannot be read.
    """
    amqp = publish.amqp
    endpoint = management_endpoint(settings, amqp, folder, name, logins)
    return HttpPublisher(endpoint, amqp.vhost)


def both_accounts(
    settings: RabbitMqSettings, folder: Path, name: str = "", logins: Logins | None = None
) -> tuple[ManagementEndpoint, ManagementEndpoint | None]:
    """Return the management API for the reading account, and for the writing one, if there is one."""
    writing = settings.writing
    reading = management_endpoint(settings, settings, folder, name, logins)
    if writing is None:
        return reading, None
    return reading, management_endpoint(settings, writing, folder, name, logins)


def management_endpoint(
    settings: RabbitMqSettings,
    login: LoginSettings,
    folder: Path,
    name: str = "",
    logins: Logins | None = None,
) -> ManagementEndpoint:
    """Return the management API as one user.

    Args:
        settings: settings of the broker.
        login: the user.
        folder: the folder to which paths are relative.
        name: the name of the source or agent, which the broker receives.
        logins: as of `amqp_endpoint`.

    Raises:
        SecretError: the password cannot be read.
        CommandError: the certificates cannot be read.
    """
    tls = settings.client_tls(folder)
    try:
        tls.check()
    except TlsFileError as error:
        raise CommandError(ExitCode.CONFIGURATION, f"{settings.management[0]}: {error}") from error
    first, others = settings.management[0], settings.management[1:]
    logins = logins or Logins()
    secret, proxy = logins.secret(login, folder, tls, settings.proxy), logins.proxy(settings.proxy, folder)
    return ManagementEndpoint(first, login.user, secret, tls, others=others, source=name, proxy=proxy)


def event_endpoint(
    settings: RabbitMqSettings,
    folder: Path,
    name: str = "",
    presented: PresentedCertificates | None = None,
    logins: Logins | None = None,
) -> AmqpEndpoint | None:
    """Return the endpoint of the broker's events; ``None`` where that is not configured.

    Args:
        settings: settings of the broker.
        folder: the folder to which paths are relative.
        name: the name of the source or agent, which the broker receives.
        presented: notes the certificates of the source's nodes.
        logins: as of `amqp_endpoint`.

    Raises:
        SecretError: the password cannot be read.
    """
    if settings.events is None:
        return None
    events = settings.events
    files = settings.client_tls(folder)
    password = (logins or Logins()).secret(settings, folder, files, settings.proxy)
    tls = noted(files, presented, f"sources.{name}.events.url")
    return AmqpEndpoint(
        events.url[0], events.vhost, settings.user, password, tls, others=events.url[1:], source=name
    )


def prometheus_reader(
    settings: RabbitMqSettings, folder: Path, name: str = "", logins: Logins | None = None
) -> PrometheusReader:
    """Return the reader of metrics, which sends a login only where one is configured for it.

    Raises:
        SecretError: a secret cannot be read.
    """
    logins = logins or Logins()
    tls, proxy = settings.client_tls(folder), logins.proxy(settings.proxy, folder)
    login = settings if settings.prometheus_login == "source" else settings.prometheus_login
    if login is None:
        return PrometheusReader(tls, source=name, proxy=proxy)
    secret = logins.secret(login, folder, tls, settings.proxy)
    return PrometheusReader(tls, source=name, proxy=proxy, login=HttpLogin(login.user, secret))


def _statistics(settings: RabbitMqSettings) -> StatisticsConfig:
    return StatisticsConfig(
        management=settings.management[0],
        enabled=settings.prometheus != "off",
        urls=() if isinstance(settings.prometheus, str) else settings.prometheus,
        has_login=settings.prometheus_login is not None,
        interval=settings.interval,
        share=METRICS_SHARE * settings.budget,
        longest_interval=max(settings.longest_interval, settings.interval),
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
        polling=PollingConfig(
            interval=settings.interval,
            budget=settings.budget,
            longest_interval=max(settings.longest_interval, settings.interval),
            stale_after=settings.stale_after,
        ),
        statistics=_statistics(settings),
        writer=settings.writing.user if settings.writing else "",
        lockout=frozenset(settings.writing.allow_lockout if settings.writing else ()),
    )
