"""Findings about sources: reachability, rights of the gateway's users, and users who could forge senders."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Final

import httpx

from gateway.config.logins import LoginSettings
from gateway.config.sources import (
    Am01Source,
    AmiSource,
    CmlSource,
    QmfSource,
    RabbitMqAgent,
    RabbitMqSettings,
    RabbitMqSource,
    Source,
)
from gateway.links.credentials_error import CredentialsError
from gateway.links.durable_queue import QUORUM, QUORUM_REMARK, default_name
from gateway.links.reconnecting import NodeChoice
from gateway.mapping.paths import Json
from gateway.model.texts import error_line
from gateway.service.diagnostics.broker_checks import LET_THROUGH, SEE_PROOFS
from gateway.service.diagnostics.checks import check_agent, check_source
from gateway.service.diagnostics.doctor import Finding, Level
from gateway.service.processes.exit_codes import CommandError
from gateway.service.sources.rabbitmq_endpoints import management_endpoint
from gateway.sources.rabbitmq.http_reader import (
    address_of,
    after_pauses,
    management_client,
    response_answer,
)
from gateway.sources.rabbitmq.management_api import Answer, Document, PermissionRequest, Unavailable
from gateway.sources.rabbitmq.own_queue_policies import SPARE_OWN
from gateway.sources.rabbitmq.path_proof import path_of
from gateway.sources.rabbitmq.proving_client import PathFaultError
from gateway.sources.rabbitmq.rights import impersonators, tags_of
from gateway.sources.rabbitmq.status import STATISTICS_OFF

MAX_SKEW_SECONDS: Final = 5.0
"""The largest accepted difference between our clock and a broker's; HTTP has whole seconds."""

_ENOUGH: Final = frozenset({"monitoring", "administrator"})
_EVERYTHING: Final = frozenset({".*", "^.*$", "^.*", ".*$"})
_RIGHTS: Final = ("configure", "write", "read")
_MAX_SHOWN: Final = 5
_STATISTICS_ADVICE: Final = (
    "in rabbitmq.conf, management.disable_stats and deprecated_features.permit.management_metrics_collection"
    " decide that; counters of queues are read from rabbitmq_prometheus where 'prometheus' names its URLs"
)
_MAX_ASKED: Final = 100
"""The largest number of virtual hosts that are tried."""


async def source_findings(
    name: str, source: Source, folder: Path, *, restricted: bool = False
) -> list[Finding]:
    """Return findings about a source: whether it is reached, and the rights of its users.

    ``restricted`` is whether roles restrict what applications publish.
    """
    remarks: list[str] = []
    try:
        await check_source(name, source, folder, remarks.append)
    except CommandError as error:
        return [Finding("source", Level.PROBLEM, str(error), subject=name)]
    findings = [Finding("source", Level.GOOD, "reached", subject=name)]
    # Behind a server that changes names some objects can neither be asked nor changed; a policy loses events.
    for remark in remarks:
        level = Level.WARNING if remark.endswith((LET_THROUGH, SPARE_OWN, SEE_PROOFS)) else Level.NOTE
        findings.append(Finding("source", level, remark, subject=name))
    if isinstance(source, QmfSource | Am01Source):
        return [*findings, *_qmf(name, source)]
    if isinstance(source, CmlSource):
        return [*findings, *_cml(name, source)]
    if isinstance(source, AmiSource):
        return [*findings, *trusted_applications(name, source, restricted=restricted)]
    return [*findings, *await _rights(name, source, folder)]


async def agent_findings(name: str, agent: RabbitMqAgent, folder: Path) -> list[Finding]:
    """Return findings about an agent that is a process of its own."""
    remarks: list[str] = []
    try:
        await check_agent(agent, folder, remarks.append)
    except CommandError as error:
        return [Finding("agent", Level.PROBLEM, str(error), subject=name)]
    findings = [Finding("agent", Level.GOOD, "its broker is reached", subject=name)]
    findings += [Finding("agent", Level.NOTE, remark, subject=name) for remark in remarks]
    return [*findings, *await _rights(name, agent, folder)]


def _qmf(name: str, source: QmfSource | Am01Source) -> Iterator[Finding]:
    if source.trust_anyone:
        yield Finding(
            "believed",
            Level.WARNING,
            "messages without a checked user are trusted: anyone who reaches the exchange can forge them",
            "name the agents' users under 'trusted_users', where the broker checks them",
            name,
        )
    yield Finding(
        "impersonators",
        Level.NOT_CHECKED,
        "whether a user tagged 'impersonator' could forge the senders that are trusted",
        "rabbitmqctl list_users shows all tags",
        name,
    )


def _cml(name: str, source: CmlSource) -> Iterator[Finding]:
    if source.trusted_users is None:
        yield Finding(
            "believed",
            Level.NOTE,
            f"replies on {source.reply_exchange} name no sender: replies are trusted if they have the"
            " number of a request, and all notifications are",
            "name the server's users under 'trusted_users' where the broker checks them; an OpenAMQ does not",
            name,
        )
    if source.short_lived == "yes":
        yield Finding(
            "short-lived",
            Level.WARNING,
            "objects are looked at as soon as they are listed: an OpenAMQ ends if one ends at that instant",
            "say 'short_lived: second-listing', or leave it out",
            name,
        )


async def _rights(name: str, settings: RabbitMqSettings, folder: Path) -> list[Finding]:
    """Return findings about a RabbitMQ: rights of the accounts, statistics, durable queue, and clock."""
    try:
        reader = _Account(settings, settings, folder)
        async with reader:
            findings = await _reading_rights(name, settings, reader)
            findings += await _statistics(name, reader)
            findings += await _durable_queue(name, settings, reader)
            findings.append(_clock(name, reader))
            if settings.writing is None:
                findings += await _for_administrators(name, settings, reader)
        if settings.writing is not None:
            writer = _Account(settings, settings.writing, folder)
            async with writer:
                findings += await _writing_rights(name, settings, writer)
                findings += await _for_administrators(name, settings, writer)
    except (httpx.HTTPError, CredentialsError, UnansweredError) as error:
        return [Finding("rights", Level.NOT_CHECKED, error_line(error), subject=name)]
    return findings


class UnansweredError(Exception):
    """The management API, or a proxy in front of it, gave no answer to the request itself."""


class _Account:
    """One user of a management API."""

    def __init__(self, settings: RabbitMqSettings, login: LoginSettings, folder: Path) -> None:
        self.user = login.user
        self.skew: float | None = None
        endpoint = management_endpoint(settings, login, folder)
        self._nodes = NodeChoice(endpoint.urls)
        self._client = management_client(endpoint)

    async def __aenter__(self) -> None:
        await self._client.__aenter__()

    async def __aexit__(self, *_how: object) -> None:
        await self._client.aclose()

    async def read(self, target: str) -> Json:
        """Return the document at ``target``; ``None`` where this user is not shown it, or it has no path."""
        try:
            return await self.shown(target)
        except PathFaultError:  # `check_source` has reported that
            return None

    async def shown(self, target: str) -> Json:
        """Return the document at ``target``; ``None`` where this user is not shown it.

        Raises:
            PathFaultError: its path would change on the way.
            UnansweredError: there is no answer to the request itself.
        """
        answer = await after_pauses(partial(self._ask, target))
        if isinstance(answer, Unavailable):
            raise UnansweredError(f"{address_of(self._nodes.preferred, target)}: {answer.reason}")
        return answer.body if isinstance(answer, Document) else None

    async def _ask(self, target: str) -> Answer:
        response = await self._reach(target)
        self._compare_clocks(response)
        return response_answer(response, response.content)

    async def _reach(self, target: str) -> httpx.Response:
        *first, last = self._nodes.in_order()
        for node in first:
            try:
                return await self._client.get(address_of(node, target))
            except httpx.TransportError:
                self._nodes.failed(node)
        return await self._client.get(address_of(last, target))

    def _compare_clocks(self, response: httpx.Response) -> None:
        try:
            date = parsedate_to_datetime(response.headers["date"])
        except (KeyError, ValueError, OverflowError):
            return
        now = dt.datetime.now(tz=dt.UTC) - response.elapsed / 2
        self.skew = (date.replace(tzinfo=date.tzinfo or dt.UTC) - now).total_seconds()


async def _reading_rights(name: str, settings: RabbitMqSettings, reader: _Account) -> list[Finding]:
    who = await reader.read("whoami")
    hosts = await reader.read("vhosts?columns=name")
    names = (
        [str(host.get("name")) for host in hosts if isinstance(host, dict)] if isinstance(hosts, list) else []
    )
    hidden = [host for host in names[:_MAX_ASKED] if await _is_hidden(reader, host)]
    only_reads = settings.writing is None or settings.writing.user != reader.user
    tags = tags_of(who) if isinstance(who, dict) else None
    findings = [*_tags(name, reader.user, tags, only_reads=only_reads)]
    if hidden:
        text = f"user {reader.user!r} has no permission in {_listed(hidden)}: shown as notPermitted"
        advice = f"to see it: rabbitmqctl set_permissions -p VHOST {reader.user} '^$' '^$' '^$'"
        findings.append(Finding("rights", Level.NOTE, text, advice, name))
    return findings


async def _statistics(name: str, reader: _Account) -> list[Finding]:
    """Return a finding if the broker collects no statistics for its management API."""
    overview = await reader.read("overview?columns=disable_stats")
    if not isinstance(overview, dict) or overview.get("disable_stats") is not True:
        return []
    return [Finding("statistics", Level.WARNING, STATISTICS_OFF, _STATISTICS_ADVICE, name)]


async def _durable_queue(name: str, settings: RabbitMqSettings, reader: _Account) -> list[Finding]:
    """Return a finding if a durable subscription's queue can drop what is delivered again and again."""
    if not isinstance(settings, RabbitMqSource) or settings.durable is None or settings.events is None:
        return []
    queue = settings.durable.queue or default_name("events", name)
    shown = await reader.read(path_of("queues", settings.events.vhost, queue))
    if not isinstance(shown, dict) or shown.get("type") != QUORUM:
        return []
    return [Finding("durable", Level.WARNING, QUORUM_REMARK.format(queue=queue), subject=name)]


async def _is_hidden(reader: _Account, host: str) -> bool:
    try:
        return await reader.shown(PermissionRequest(host).target) is None
    except PathFaultError:
        return False


async def _for_administrators(name: str, settings: RabbitMqSettings, account: _Account) -> list[Finding]:
    """Return findings from documents that only an administrator is shown."""
    permissions = await account.read(path_of("users", settings.user, "permissions"))
    return [*_permissions(name, settings.user, permissions), *await _impersonators(name, settings, account)]


def _tags(name: str, user: str, tags: tuple[str, ...] | None, *, only_reads: bool) -> Iterator[Finding]:
    if tags is None:
        yield Finding("rights", Level.NOT_CHECKED, f"the broker does not say who {user!r} is", subject=name)
    elif "administrator" in tags and only_reads:
        yield Finding(
            "rights",
            Level.WARNING,
            f"user {user!r}, who only reads, is an administrator: its password opens everything",
            f"rabbitmqctl set_user_tags {user} monitoring",
            name,
        )
    elif not _ENOUGH & set(tags):
        yield Finding(
            "rights",
            Level.PROBLEM,
            f"user {user!r} is shown neither nodes nor all connections (tags: {', '.join(tags) or 'none'})",
            f"rabbitmqctl set_user_tags {user} monitoring",
            name,
        )
    else:
        yield Finding("rights", Level.GOOD, f"user {user!r}: {', '.join(tags)}", subject=name)


def _permissions(name: str, user: str, permissions: Json) -> Iterator[Finding]:
    """Yield findings about rights of a user beyond those that reading takes."""
    if not isinstance(permissions, list):
        text = (
            f"whether user {user!r} may configure, write or read more than it needs: administrators see that"
        )
        yield Finding("rights", Level.NOT_CHECKED, text, f"rabbitmqctl list_user_permissions {user}", name)
        return
    grants = [grant for grant in permissions if isinstance(grant, dict)]
    wide = [
        str(grant.get("vhost"))
        for grant in grants
        if any(grant.get(right) in _EVERYTHING for right in _RIGHTS)
    ]
    if wide:
        yield Finding(
            "rights",
            Level.WARNING,
            f"user {user!r} may configure, write or read everything in {_listed(wide)}",
            "`amqp-gateway provision` gives the least rights; docs/rights.md lists them",
            name,
        )


async def _writing_rights(name: str, settings: RabbitMqSettings, writer: _Account) -> list[Finding]:
    who = await writer.read("whoami")
    tags = tags_of(who) if isinstance(who, dict) else None
    findings = []
    if tags is None:
        text = f"user {writer.user!r}, who changes the broker, is refused"
        findings.append(
            Finding("rights", Level.PROBLEM, text, "check user and password under 'writing'", name)
        )
    elif "administrator" not in tags:
        findings.append(
            Finding(
                "rights",
                Level.PROBLEM,
                f"user {writer.user!r}, who changes the broker, is no administrator: most is refused",
                f"rabbitmqctl set_user_tags {writer.user} administrator",
                name,
            )
        )
    else:
        text = f"user {writer.user!r} may change this broker: administrator"
        findings.append(Finding("rights", Level.GOOD, text, subject=name))
    assert settings.writing is not None
    if settings.writing.user == settings.user:
        findings.append(
            Finding(
                "rights",
                Level.WARNING,
                f"one user, {settings.user!r}, reads and writes: reading needs no such rights",
                "give 'writing' a user of its own",
                name,
            )
        )
    return findings


async def _impersonators(name: str, settings: RabbitMqSettings, account: _Account) -> list[Finding]:
    tagged = impersonators(await account.read("users?columns=name,tags"))
    if tagged is None:
        return [
            Finding(
                "impersonators",
                Level.NOT_CHECKED,
                f"user {account.user!r} cannot read the users",
                "rabbitmqctl list_users shows which users are tagged 'impersonator'; none should be",
                name,
            )
        ]
    if not tagged:
        return [Finding("impersonators", Level.GOOD, "no user can forge senders", subject=name)]
    # Inside the gateway there is no sender to forge; an agent on the broker trusts the sender's name.
    level = Level.PROBLEM if isinstance(settings, RabbitMqAgent) else Level.WARNING
    text = f"{_listed(list(tagged))} can forge any sender on this broker"
    advice = "take the tag 'impersonator' away and close their connections, which keep it"
    return [Finding("impersonators", level, text, advice, name)]


def _clock(name: str, account: _Account) -> Finding:
    if account.skew is None:
        return Finding("clock", Level.NOT_CHECKED, "the broker does not report its time", subject=name)
    ahead = "ahead of" if account.skew > 0 else "behind"
    text = f"the broker's clock is {abs(account.skew):.0f} s {ahead} ours"
    if abs(account.skew) > MAX_SKEW_SECONDS:
        advice = "let both be set by NTP: ages and deadlines of what passes between them are wrong"
        return Finding("clock", Level.WARNING, text, advice, name)
    return Finding("clock", Level.GOOD, "the broker's clock agrees with ours", subject=name)


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MAX_SHOWN])
    return shown if len(names) <= _MAX_SHOWN else f"{shown} and {len(names) - _MAX_SHOWN} more"


def trusted_applications(name: str, source: AmiSource, *, restricted: bool = False) -> Iterator[Finding]:
    """Yield findings about the clients that can act as an application of a source.

    Args:
        name: the name of the source.
        source: its settings.
        restricted: whether roles say as which applications the holder of a certificate may act.
    """
    host = source.listen[0]
    certified = source.tls is not None and source.tls.client_ca is not None
    if certified:
        text = "only clients with a certificate of 'client_ca' are accepted"
        yield Finding("believed", Level.GOOD, text, subject=name)
        if not source.own_name and not restricted:
            text = "any of them can speak as any application"
            advice = (
                "'own_name: true' holds each to its certificate's name, roles of ami:NAME to what they permit"
            )
            yield Finding("believed", Level.NOTE, text, advice, name)
    elif ipaddress.ip_address(host).is_loopback:
        text = "every user of this machine can speak as any application: AMI has no passwords"
        yield Finding(
            "believed", Level.NOTE, text, "under 'tls' only clients with certificates are accepted", name
        )
    else:
        text = f"anyone who reaches {host} can report anything, and receives the commands"
        advice = (
            "name the authority of their certificates under 'tls.client_ca', or restrict access by a firewall"
        )
        yield Finding("believed", Level.WARNING, text, advice, name)
