"""Makes the endpoints of AMQP, with their secrets, from the settings of sources and agents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gateway.config.sources import AmqpSettings
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.tls import ClientTls, PresentedCertificates
from gateway.model.times import SECOND
from gateway.service.sources.logins import Logins


def amqp_endpoint(
    settings: AmqpSettings,
    folder: Path,
    name: str = "",
    presented: PresentedCertificates | None = None,
    logins: Logins | None = None,
) -> AmqpEndpoint:
    """Return the endpoint of ``settings``, with the secret read.

    Args:
        settings: settings of the broker.
        folder: the folder to which paths are relative.
        name: the name of the source or agent, which the broker receives.
        presented: notes the certificates of the source's brokers.
        logins: the secrets of the process; ``None`` for those of this endpoint alone.

    Raises:
        SecretError: it cannot be read.
    """
    tls = settings.client_tls(folder)
    return AmqpEndpoint(
        settings.url[0],
        settings.vhost,
        settings.user,
        (logins or Logins()).secret(settings, folder, tls),
        noted(tls, presented, f"sources.{name}.amqp.url"),
        settings.heartbeat // SECOND,
        others=settings.url[1:],
        source=name,
    )


def noted(tls: ClientTls, presented: PresentedCertificates | None, key: str) -> ClientTls:
    """Return ``tls`` with certificates noted under ``key`` of the configuration, if ``presented`` is one."""
    return tls if presented is None else replace(tls, note=presented.noting(key))
