"""The protection of connections by a configuration: files of certificates, and what is sent in plain text."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gateway.config.logins import OAuthSettings, ProxySettings
from gateway.config.model import Configuration
from gateway.config.snmp import SnmpSettings
from gateway.config.sources import (
    AmiSource,
    AmqpSettings,
    ClientTlsSettings,
    ListenerTls,
    RabbitMqAgent,
    RabbitMqSettings,
)
from gateway.yaml_documents import StrictModel, parts_of

_FILES: Final = ("certificate", "client_ca", "ca_file", "client_certificate")


def certificate_files(settings: StrictModel, place: str = "") -> Iterator[tuple[str, Path]]:
    """Yield the key of each file of certificates, such as ``jmx.tls.certificate``, and its path.

    Args:
        settings: the configuration, or a part of it.
        place: the key of that part.
    """
    for key, part in parts_of(settings, (ListenerTls, ClientTlsSettings), place):
        for name in _FILES:
            path = getattr(part, name, None)
            if path is not None:
                yield f"{key}.{name}", path


@dataclass(frozen=True, slots=True)
class PlainText:
    """Something that leaves this machine, or enters it, without TLS or another protection.

    Attributes:
        key: the key of the configuration that decides it.
        text: what can be read or forged, and where.
        advice: what to write instead.
    """

    key: str
    text: str
    advice: str


def sent_in_plain_text(settings: Configuration) -> Iterator[PlainText]:
    """Yield what is exchanged beyond this machine without protection; names of hosts are not resolved."""
    for name, source in settings.sources.items():
        key = f"sources.{name}"
        if isinstance(source, RabbitMqSettings):
            yield from _of_rabbitmq(source, key)
        elif isinstance(source, AmiSource):
            yield from _of_applications(source, key)
        else:
            yield from _of_urls(source.amqp.url, f"{key}.amqp.url")
    for name, agent in settings.agents.items():
        yield from _of_agent(agent, f"agents.{name}")
    yield from _of_logins(settings)
    jmx, metrics = settings.jmx, settings.metrics
    if jmx.enabled and jmx.tls is None and not _is_loopback(jmx.listen[0]):
        text = f"JMX on {jmx.listen[0]}: the network shows passwords and values"
        yield PlainText("jmx.listen", text, "write jmx.tls in the place of allow_plain_text")
    if metrics.enabled and metrics.tls is None and not _is_loopback(metrics.listen[0]):
        yield _of_metrics(metrics.listen[0], "metrics")
    yield from _of_snmp(settings.snmp)


def _of_rabbitmq(settings: RabbitMqSettings, key: str) -> Iterator[PlainText]:
    yield from _of_urls(settings.management, f"{key}.management")
    if settings.events is not None:
        yield from _of_urls(settings.events.url, f"{key}.events.url")
    if settings.prometheus == "auto" and settings.prometheus_login is not None:
        for url in settings.management:
            if not _is_protected(url):
                text = (
                    f"{url}: the network can read the login for metrics on the way to each node of the broker"
                )
                advice = "serve API and metrics by TLS, or write the URLs of the metrics under prometheus"
                yield PlainText(f"{key}.prometheus_login", text, advice)
    if not isinstance(settings.prometheus, str):
        for url in settings.prometheus:
            if not _is_protected(url):
                sent = "no password is sent" if settings.prometheus_login is None else "and read the login"
                text = f"{url}: the network can read and forge statistics; {sent}"
                yield PlainText(f"{key}.prometheus", text, "serve the metrics by TLS, and write https://")


def _of_logins(settings: Configuration) -> Iterator[PlainText]:
    """Yield what is sent to issuers of tokens and to proxies."""
    for key, oauth in parts_of(settings, OAuthSettings):
        if not _is_protected(oauth.token_url):
            text = f"{oauth.token_url}: the network can read the client's secret and the tokens"
            yield PlainText(f"{key}.token_url", text, "write an https:// URL, and ca_file")
    for key, proxy in parts_of(settings, ProxySettings):
        if proxy.user is not None and not _is_protected(proxy.url):
            text = f"{proxy.url}: the network can read user and password of the proxy"
            yield PlainText(f"{key}.url", text, "write an https:// URL, if the proxy takes it")


def _of_agent(settings: RabbitMqAgent, key: str) -> Iterator[PlainText]:
    yield from _of_rabbitmq(settings, key)
    published: AmqpSettings = settings.publish.amqp
    yield from _of_urls(published.url, f"{key}.publish.amqp.url")
    metrics = settings.metrics
    if metrics is not None and metrics.tls is None and not _is_loopback(metrics.listen[0]):
        yield _of_metrics(metrics.listen[0], f"{key}.metrics")


def _of_metrics(host: str, key: str) -> PlainText:
    text = f"metrics on {host}: every client that reaches it can read them"
    return PlainText(f"{key}.listen", text, f"write {key}.tls with client_ca")


def _of_urls(urls: tuple[str, ...], key: str) -> Iterator[PlainText]:
    for url in urls:
        if not _is_protected(url):
            scheme = urlsplit(url).scheme
            text = f"{url}: the network can read user and password, and read and forge what the broker sends"
            yield PlainText(key, text, f"have the broker listen with TLS, and write {scheme}s:// and ca_file")


def _of_applications(settings: AmiSource, key: str) -> Iterator[PlainText]:
    host = settings.listen[0]
    if _is_loopback(host):
        return
    if settings.tls is None:
        text = f"AMI on {host}: the network can read and forge what applications report"
        yield PlainText(f"{key}.listen", text, "write tls with certificate, key and client_ca")
    elif settings.tls.client_ca is None:
        text = f"AMI on {host}: clients are not verified, and each may report anything (allow_anyone)"
        yield PlainText(f"{key}.tls", text, "write tls.client_ca in the place of allow_anyone")


def _of_snmp(settings: SnmpSettings) -> Iterator[PlainText]:
    remote = [host for host, _ in settings.listen if not _is_loopback(host)]
    if settings.enabled and remote and {"v1", "v2c"} & set(settings.versions):
        text = f"SNMP versions 1 and 2c on {', '.join(remote)}: the network can read communities and values"
        yield PlainText("snmp.versions", text, "write snmp.versions: [v3], with users of level authPriv")
    if not settings.enabled:
        return
    for name, target in settings.notifications.items():
        if target.version != "v3" and not _is_loopback(target.address[0]):
            text = (
                f"version {target.version} to {target.address[0]}: the network can read community and events"
            )
            yield PlainText(f"snmp.notifications.{name}", text, "write version: v3 and user")
    for name, user in settings.users.items():
        if user.level != "authPriv" and remote:
            what = (
                "messages can be forged and read" if user.level == "noAuthNoPriv" else "messages can be read"
            )
            text = f"the user is answered at level {user.level}: {what}"
            yield PlainText(f"snmp.users.{name}.level", text, "write level: authPriv")


def _is_protected(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme.endswith("s") or _is_loopback(parts.hostname or "")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
