"""Checks that everything that a configuration names can be reached, before it is relied on."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from gateway.config.files import LoadedConfiguration
from gateway.config.logins import LoginSettings
from gateway.config.model import Configuration, JmxSettings
from gateway.config.protection import ProtectedSettings
from gateway.config.secret_places import SecretError
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
from gateway.jmx.java_runtime import JavaMissingError, find_java
from gateway.jmx.tls import TlsError
from gateway.jmx.users import PasswordError, SubjectError
from gateway.links.amqp_connection import LinkError, Trouble
from gateway.links.tls import TlsFileError
from gateway.mapping.errors import MappingError
from gateway.mapping.override_files import known_of_mappings, load_with_overrides, remarks
from gateway.policy.marks import Marks
from gateway.policy.named_objects import nameless_classes
from gateway.service.diagnostics.broker_checks import (
    OF_TROUBLE,
    Report,
    check_amqp,
    check_rabbitmq,
    check_writer,
    kept_queue,
)
from gateway.service.diagnostics.health import greets
from gateway.service.diagnostics.own_queue_checks import policies_on_queue
from gateway.service.diagnostics.policy_patterns import check_patterns
from gateway.service.diagnostics.source_checks import (
    check_am01,
    check_cml,
    check_listener,
    check_listener_files,
    check_qmf,
)
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.jmx import certificate_users, check_password, tls_renewal
from gateway.service.processes.snmp_users import users_of
from gateway.service.sources.cml import configured_schema
from gateway.service.sources.endpoints import amqp_endpoint
from gateway.service.sources.logins import Logins
from gateway.service.sources.protection import watched_keys
from gateway.service.sources.rabbitmq_endpoints import both_accounts
from gateway.service.state.running_configuration import jmx_address
from gateway.service.state.snmp_communities import read_receivers
from gateway.service.state.snmp_security import enterprise_of, read_engine, read_users
from gateway.snmp.ber import parse_oid
from gateway.state_folder import StateError, StateFolder, check_owners
from gateway.yaml_documents import DocumentError


@dataclass(frozen=True, slots=True)
class FileRemarks:
    """What is remarkable in files that can be used.

    Attributes:
        unknown: what overrides name that no mapping knows, each with file and line.
        nameless: roles that show nothing where objects are known by their names.
        secrets: files of secrets that have something that is probably not meant so.
        patterns: patterns of roles that match nothing that a mapping knows, each with file and line.
    """

    unknown: list[str]
    nameless: list[str]
    secrets: list[str]
    patterns: list[str]


def check_files(loaded: LoadedConfiguration) -> FileRemarks:
    """Read every secret, certificate and mapping that a configuration names, and find the Java that it needs.

    Raises:
        CommandError: one of them cannot be read, there is no Java or no such address, or the state folder is
            another user's.
    """
    settings, folder = loaded.settings, loaded.folder
    try:
        check_owners(loaded.state_folder)
        known = load_with_overrides(loaded.mapping_files, loaded.override_files)
        patterns = check_patterns(loaded, known.mappings, known.overrides)
        _check_trusted_files(loaded)
        if settings.snmp.community is not None:
            settings.snmp.community.read(folder)
        _check_listeners(settings)
        _check_jmx_files(settings.jmx, folder)
        check_listener_files(settings.metrics.tls, folder)
        read_receivers(loaded, "")
        _check_snmp_users(loaded)
        for part in (*settings.sources.values(), *settings.agents.values()):
            _check_part(part, folder)
    except (SecretError, DocumentError, MappingError, TlsError, PasswordError, SubjectError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    except LinkError as error:
        raise CommandError(OF_TROUBLE[error.trouble], str(error)) from error
    except JavaMissingError as error:
        raise CommandError(ExitCode.NOT_INSTALLED, str(error)) from error
    marks = Marks(known.mappings, known.overrides)
    return FileRemarks(
        remarks(loaded.override_files, known_of_mappings(known.mappings)),
        list(nameless_classes(settings.role_set, settings.principals, known.mappings, marks)),
        [f"{key}: {text}" for key, text in loaded.secret_remarks()],
        patterns,
    )


def _check_trusted_files(loaded: LoadedConfiguration) -> None:
    """Raise `SecretError` where a file by which peers are known is not trusted, or the log's folder."""
    if (distrusted := loaded.distrusted_file()) is not None:
        raise SecretError(": ".join(distrusted))


def _check_listeners(settings: Configuration) -> None:
    """Raise `CommandError` where this machine has no such address, or no such interface, to listen on."""
    for place, _, (host, _port) in settings.listeners:
        key = ".".join(map(str, place))
        try:
            (family, *_, address), *_ = socket.getaddrinfo(
                host, 0, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
            )
            with socket.socket(family, socket.SOCK_DGRAM) as tried:
                tried.bind(address)
        except OSError as error:  # socket.gaierror is one, for an interface that is not there
            text = f"{key}: this machine has no address {host}: {error.strerror}"
            raise CommandError(ExitCode.ADDRESS_IN_USE, text) from error


def _check_part(part: Source | RabbitMqAgent, folder: Path) -> None:
    """Read the secrets, certificates and keys of a source or agent."""
    if isinstance(part, AmiSource):
        check_listener_files(part.tls, folder)
        return
    if isinstance(part, RabbitMqSettings):
        both_accounts(part, folder)
        if isinstance(part.prometheus_login, LoginSettings):
            Logins().secret(part.prometheus_login, folder, part.client_tls(folder))
    if isinstance(part, CmlSource):
        configured_schema(part, folder)
    if isinstance(part, RabbitMqSource):
        return
    of_bodies = part.publish if isinstance(part, RabbitMqAgent) else part
    if of_bodies.protected is not None:
        watched_keys(of_bodies.protected, folder)
    endpoint = amqp_endpoint(of_bodies.amqp, folder)
    try:
        endpoint.tls.check()
    except TlsFileError as error:
        raise LinkError(Trouble.MISCONFIGURED, f"{endpoint.url}: {error}") from error
    if isinstance(part, RabbitMqAgent) and part.metrics is not None:
        check_listener_files(part.metrics.tls, folder)


def _check_snmp_users(loaded: LoadedConfiguration) -> None:
    """Raise `SecretError` where a user of version 3 has no keys in a state folder that is there."""
    settings = loaded.settings.snmp
    try:
        state = StateFolder(loaded.state_folder)
        keys = read_users(state)
        engine_id = read_engine(state, enterprise_of(parse_oid(settings.root))).engine_id
    except StateError:
        return  # none was made yet, or `run` says what is wrong with it
    _, refused = users_of(settings, keys, engine_id)
    for name, reason in refused.items():
        raise SecretError(f"snmp.users.{name}: {reason}")


def _check_jmx_files(settings: JmxSettings, folder: Path) -> None:
    for name, user in settings.users.items():
        if user.password is not None:
            check_password(name, user.password.read(folder))
    certificate_users(settings)
    tls_renewal(settings, folder)
    if settings.enabled:
        find_java(None if settings.java is None else folder / settings.java)


async def check_jmx(loaded: LoadedConfiguration, report: Report) -> None:
    """Check whether the JMX agent can listen on its port, and report one line.

    Raises:
        CommandError: something that is no JMX agent has it.
    """
    host, port = loaded.settings.jmx.listen
    try:
        answers = await greets(jmx_address(loaded.settings.jmx))
    except OSError:
        report(f"jmx: {host}:{port} is free")
        return
    if not answers:
        raise CommandError(
            ExitCode.ADDRESS_IN_USE,
            f"jmx: {host}:{port} is taken by something that is no JMX agent: "
            "end it, or choose another address under jmx.listen",
        )
    report(f"jmx: {host}:{port} has a JMX agent: this gateway's, if it runs")


async def check_sources(loaded: LoadedConfiguration, report: Report) -> None:
    """Reach every source, and report one line of each; an error is raised after all were tried.

    Raises:
        CommandError: for the first source that cannot be used.
    """
    first: CommandError | None = None
    for name, source in loaded.settings.sources.items():
        try:
            await check_source(name, source, loaded.folder, report)
            if isinstance(source, RabbitMqSource):
                await check_writer(source, loaded.folder, report)
            text = await policies_on_queue(name, source, loaded.settings.sources, loaded.folder)
            if text:
                report(f"source {name}: {text}")
            report(f"source {name}: reached")
        except CommandError as error:
            report(f"source {name}: {error}")
            first = first or error
    if first is not None:
        raise first


async def check_source(name: str, source: Source, folder: Path, report: Report) -> None:
    """Reach the source of a name, and report remarks, one line each.

    Raises:
        CommandError: it cannot be used.
    """
    with command_errors():
        if isinstance(source, AmiSource):
            await check_listener(source, folder, report)
        elif not isinstance(source, RabbitMqSource) and source.protected is not None:
            await check_protected(source, source.protected, folder, report)
        elif isinstance(source, CmlSource):
            await check_cml(source, folder, report)
        elif isinstance(source, Am01Source):
            await check_am01(source, folder, report)
        elif isinstance(source, QmfSource):
            await check_qmf(source, folder, report)
        else:
            await check_rabbitmq(source, folder, report, kept_queue(name, source.durable))


async def check_protected(
    source: QmfSource | Am01Source | CmlSource, settings: ProtectedSettings, folder: Path, report: Report
) -> None:
    """Look for the keys, the broker and the exchange of a protected source.

    Its agents are not asked: an answer could be a replay, which only the gateway itself can recognise.

    Raises:
        CommandError: it cannot be used.
    """
    watched_keys(settings, folder)
    endpoint = amqp_endpoint(source.amqp, folder)
    exchange = source.system_exchange if isinstance(source, CmlSource) else source.exchange
    await check_amqp(endpoint, exchange)
    report(f"{endpoint}: exchange {exchange} is there; bodies are protected, so nothing was asked by it")


async def check_agent(agent: RabbitMqAgent, folder: Path, report: Report) -> None:
    """Reach the broker of an agent in a separate process, and report remarks, one line each.

    Raises:
        CommandError: it cannot be used. A missing exchange is no error: the agent declares it.
    """
    try:
        await check_rabbitmq(agent, folder, report)
        await check_amqp(amqp_endpoint(agent.publish.amqp, folder), agent.publish.exchange)
    except SecretError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    except CommandError as error:
        if error.code is not ExitCode.MISSING:
            raise
        report(f"{error}: the agent makes it when it starts")
