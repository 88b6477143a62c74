"""The SNMP process: the feed in, answers out. It holds no broker credentials and may die at any time."""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib.metadata
import platform
import secrets
import socket
import time
from functools import partial

import structlog

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.config.snmp import COMMUNITY
from gateway.config.types import SecretError
from gateway.feed.client import FeedLink, RefusalReports
from gateway.mapping.files import MappingError
from gateway.service.metrics.snmp import (
    command_readings,
    notification_readings,
    request_readings,
    row_readings,
    set_readings,
)
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.garbage import tune_garbage_collection
from gateway.service.processes.history import history_limits
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.notifications import FILE as NOTIFICATIONS_FILE
from gateway.service.processes.notifications import Notifications, sender_settings, targets_of
from gateway.service.processes.snmp_commands import Commands, secret_arguments
from gateway.service.sources.mappings import load_mappings
from gateway.snmp.ber import Oid
from gateway.snmp.commands.command import Submission
from gateway.snmp.fixed_mib import MODULE
from gateway.snmp.projection import Projection, ProjectionSettings
from gateway.snmp.refused_sets import RefusedSets
from gateway.snmp.registry_files import SiteRegistry, load_shipped_registries
from gateway.snmp.requests import Access, Responder
from gateway.snmp.server import ListenError, UdpServer
from gateway.snmp.set_requests import SetRequests, SetSettings
from gateway.snmp.standard_groups import SnmpCounters, SystemDescription, SystemGroup
from gateway.snmp.store import Store
from gateway.snmp.writable import VALUES as LOCK_VALUES
from gateway.snmp.writable import AdvisoryLock
from gateway.state_folder import StateError, StateFolder
from gateway.tasks import until_one_ends
from gateway.yaml_documents import DocumentError

log = structlog.get_logger(__name__)

TICK_SECONDS = 1.0
BUSY_TICK_SECONDS = 0.002
_ERROR_LOG_SECONDS = 60.0


async def run_snmp(loaded: LoadedConfiguration, clock: Clock, lifeline: Lifeline) -> None:
    """Run the SNMP agent until the supervisor goes or the task is cancelled.

    Raises:
        CommandError: it cannot work with this configuration or state, or its address is taken.
    """
    try:
        await _run(loaded, StateFolder(loaded.state_folder), clock, lifeline)
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    except (SecretError, DocumentError, MappingError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    except ListenError as error:
        raise CommandError(ExitCode.ADDRESS_IN_USE, str(error)) from error


async def _run(loaded: LoadedConfiguration, state: StateFolder, clock: Clock, lifeline: Lifeline) -> None:
    settings = loaded.settings.snmp
    community = read_community(loaded, state)
    writers = read_writers(loaded, state, community)
    try:
        registries = load_shipped_registries()
        mappings = load_mappings(loaded) if writers else {}
    except FileNotFoundError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    site = _site_registry(loaded, state)
    root = root_of(settings.root)
    store, counters, failures = Store(), SnmpCounters(), _Failures()
    counters.serve(store, authentication_traps=settings.authentication_traps)
    serial = AdvisoryLock(secrets.randbelow(LOCK_VALUES))
    serial.serve(store)
    system = SystemGroup(store, _description(loaded, root), time.monotonic_ns)
    for shipped in registries:
        system.add_module((*root, *shipped.module_arc), shipped.module)
    notifications = Notifications(
        sender_settings(loaded, state, root, targets_of(loaded, community)),
        state.path / NOTIFICATIONS_FILE,
        store,
        clock,
        up_time=system.up_time,
        projection=lambda: projection,
        failed=failures.failed,
    )
    projection = Projection(
        store,
        ProjectionSettings(
            root, registries, settings.serve_stale_for, _version(), history_limits(loaded.settings.history)
        ),
        provisional=site.load(dt.datetime.fromtimestamp(clock.now() / 10**9, dt.UTC).date()),
        save=site.save,
        clock=clock.now,
        log=lambda event, detail: log.info(event, detail=detail),
        receivers=notifications.sender,
        operation=lambda record: commands.table.operation_changed(record),  # noqa: PLW0108  made later
    )
    link = FeedLink(loaded.feed_socket, projection)
    deadline = loaded.settings.operations.deadline
    reports = RefusalReports(link.ask, time.monotonic_ns)
    refused_sets = RefusedSets(projection, reports.report)
    submission = Submission(projection, secret_arguments(mappings.values()), deadline, reports.report)
    commands = Commands(settings, root, store, projection, submission, link.ask, clock.now)
    access = {community.encode(): Access(store)} | {
        secret.encode(): Access(commands.view(writer), writer) for writer, secret in writers.items()
    }
    sets = SetRequests(
        projection,
        [commands.table],
        link.ask,
        counters,
        SetSettings(deadline, settings.best_effort),
        time.monotonic_ns,
        serial,
        refused_sets,
    )
    wrong_community = notifications.sender.wrong_community if settings.authentication_traps else None
    responder = Responder(
        access,
        counters,
        failures.failed,
        sets=sets,
        refused_sets=refused_sets,
        wrong_community=wrong_community,
    )
    server = UdpServer(responder.answer, counters, failures.failed, before=partial(_judge, link, projection))
    server.open(settings.listen)
    notifications.open()
    metrics = lifeline.metrics
    metrics.add("requests", lambda: request_readings(counters))
    metrics.add("sets", lambda: set_readings(counters, sets))
    metrics.add("commands", lambda: command_readings(commands.table.health))
    metrics.add("rows", lambda: row_readings(projection.status, projection.counts()))
    metrics.add("notifications", lambda: notification_readings(notifications.sender.health))
    tune_garbage_collection()
    lifeline.ready()
    log.info("snmp-ready", listen=[f"{host}:{port}" for host, port in server.addresses])
    try:
        await until_one_ends(
            link.run(),
            _tick(projection, notifications, commands),
            notifications.run(),
            reports.run(),
            lifeline.parent_gone(),
        )
    finally:
        server.close()
        await commands.close()
        await notifications.close()


def read_community(loaded: LoadedConfiguration, state: StateFolder) -> str:
    """The community that reads: as configured, else the state folder's own, made when it is missing.

    Raises:
        SecretError: the configured one cannot be read.
    """
    configured = loaded.settings.snmp.community
    if configured is not None:
        return configured.read(loaded.folder).get_secret_value()
    return state.secret(COMMUNITY)


def read_writers(loaded: LoadedConfiguration, state: StateFolder, community: str) -> dict[str, str]:
    """The community of each writer: as configured, else the state folder's own, made when it is missing.

    Args:
        loaded: the configuration.
        state: the state folder.
        community: the one that reads.

    Raises:
        SecretError: a configured one cannot be read.
        CommandError: two are the same, so that the writer could not be known.
    """
    communities: dict[str, str] = {}
    names = {community: "the community that reads"}
    for name, writer in loaded.settings.snmp.writers.items():
        if writer.community is not None:
            secret = writer.community.read(loaded.folder).get_secret_value()
        else:
            secret = state.secret(f"{COMMUNITY}-{name}")
        if secret in names:
            raise CommandError(
                ExitCode.CONFIGURATION,
                f"snmp.writers.{name}: has the same community as {names[secret]}: give each its own",
            )
        names[secret] = f"snmp.writers.{name}"
        communities[name] = secret
    return communities


def root_of(text: str) -> Oid:
    """An object identifier from its dotted form."""
    return tuple(int(arc) for arc in text.split("."))


async def _tick(projection: Projection, notifications: Notifications, commands: Commands) -> None:
    while True:
        busy = projection.tick()
        commands.table.tick()
        notifications.show()
        await asyncio.sleep(BUSY_TICK_SECONDS if busy else TICK_SECONDS)


def _site_registry(loaded: LoadedConfiguration, state: StateFolder) -> SiteRegistry:
    site = SiteRegistry(state.path, loaded.settings.site)
    if site.old_path is not None:
        log.info("oid-registry-has-old-name", path=str(site.old_path), renamed="with the next class or event")
    return site


def _description(loaded: LoadedConfiguration, root: Oid) -> SystemDescription:
    settings = loaded.settings.snmp
    return SystemDescription(
        description=f"AMQP management gateway {_version()} on {platform.system()} {platform.release()}",
        object_id=(*root, *MODULE),
        contact=settings.contact,
        name=socket.gethostname(),
        location=settings.location,
    )


def _version() -> str:
    return importlib.metadata.version("amqp-management-gateway")


class _Failures:
    """Logs errors of the agent's own, at most one a minute: a datagram may cause as many as it likes."""

    def __init__(self) -> None:
        self._count = 0
        self._next = 0.0

    def failed(self, error: Exception) -> None:
        self._count += 1
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _ERROR_LOG_SECONDS
            log.error("request-failed", count=self._count, exc_info=error)


def _judge(link: FeedLink, projection: Projection) -> None:
    """Before anything is answered: where this process stood still, every row says that it is stale."""
    if link.judge():
        while projection.tick():
            pass
