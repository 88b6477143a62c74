"""The SNMP process: the feed in, answers out. It holds no broker credentials and may die at any time."""

from __future__ import annotations

import asyncio
import datetime as dt
import platform
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial

import structlog

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.config.snmp import SnmpSettings
from gateway.config.sources import RabbitMqSource, Source
from gateway.config.types import ListenAddress
from gateway.feed.client import FeedLink, RefusalReports
from gateway.feed.guesses import Guesses
from gateway.feed.operations import OperationAnswer, OperationRequest
from gateway.feed.replica import FeedStatus
from gateway.model.operations import Outcome
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND
from gateway.service.metrics import families
from gateway.service.metrics.families import Metrics, Reading
from gateway.service.metrics.process import feed_readings
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.notifications import FILE as NOTIFICATIONS_FILE
from gateway.service.processes.notifications import Notifications, sender_settings, serve_log, targets_of
from gateway.service.processes.process_setup import tune_garbage_collection
from gateway.service.processes.snmp_clients import ClientFiles
from gateway.service.processes.snmp_rights import UserAccess, access_of
from gateway.service.processes.snmp_secrets import CommandSecrets
from gateway.service.processes.snmp_users import start_security
from gateway.shipped_files import version
from gateway.snmp.ber import Oid, parse_oid
from gateway.snmp.commands.command import SecretArguments, Submission
from gateway.snmp.commands.table import CommandHealth, CommandLimits, CommandRows, CommandTable
from gateway.snmp.fixed_mib import PRODUCT
from gateway.snmp.message import STATUS_NAMES, VERSION_1, VERSION_2C
from gateway.snmp.mirror import Mirror
from gateway.snmp.notifications.delivery import MAX_WAITING
from gateway.snmp.notifications.receiver import TargetHealth
from gateway.snmp.notifications.sender import SenderSettings
from gateway.snmp.obsolete_counters import serve_obsolete_counters
from gateway.snmp.oid_registry import OidRegistry, load_shipped_registries
from gateway.snmp.projection import Projection, ProjectionSettings
from gateway.snmp.refused_sets import READER, RefusedSets
from gateway.snmp.registry_files import SiteRegistry
from gateway.snmp.requests import LARGEST_DATAGRAM, Limits, Responder
from gateway.snmp.seen_objects import SeenObjects
from gateway.snmp.served_modules import list_modules, list_site_module
from gateway.snmp.server import ListenError, UdpServer
from gateway.snmp.set_requests import MAX_REMEMBERED, MAX_RUNNING, SetRequests, SetSettings
from gateway.snmp.standard_groups import SnmpCounters, SystemDescription, SystemGroup
from gateway.snmp.store import Store
from gateway.snmp.tables.applications import ApplicationSettings, ApplicationTable
from gateway.snmp.tables.health import ShownCounts, serve_losses
from gateway.snmp.v3.groups import serve_version_3
from gateway.snmp.written_values import VALUES as LOCK_VALUES
from gateway.snmp.written_values import AdvisoryLock
from gateway.state_folder import StateFolder
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

VERSIONS = {"v1": VERSION_1, "v2c": VERSION_2C}
"""The versions with communities, by their names in the configuration."""

TICK_SECONDS = 1.0
BUSY_TICK_SECONDS = 0.002
_SLICE_RECORDS = 16  # half a millisecond: requests are answered in between
_ERROR_LOG_SECONDS = 60.0
_WRONG_NETWORK_LINES = 5  # a minute


async def run_snmp(loaded: LoadedConfiguration, clock: Clock, lifeline: Lifeline) -> None:
    """Run the SNMP agent until the supervisor goes or the task is cancelled.

    Raises:
        CommandError: it cannot work with this configuration or state, or its address is taken.
    """
    try:
        with command_errors():
            await _run(loaded, StateFolder(loaded.state_folder), clock, lifeline)
    except ListenError as error:
        raise CommandError(ExitCode.ADDRESS_IN_USE, str(error)) from error


async def _run(loaded: LoadedConfiguration, state: StateFolder, clock: Clock, lifeline: Lifeline) -> None:
    agent = _Agent(loaded, state, clock, lifeline.start)
    agent.open()
    agent.add_readings(lifeline.metrics)
    tune_garbage_collection()
    lifeline.ready()
    log.info("snmp-ready", listen=[f"{host}:{port}" for host, port in agent.addresses])
    try:
        await until_one_ends(agent.run(), lifeline.parent_gone())
    finally:
        await agent.close()


class _Agent:
    """The parts of an SNMP agent, constructed in the order in which they depend on each other.

    Args:
        loaded: the configuration.
        state: the state folder.
        clock: of the gateway.
        start: the boots that the supervisor has reserved for this start; ``None`` without a supervisor.

    Raises:
        CommandError: the agent cannot work with this configuration or state.
    """

    def __init__(
        self, loaded: LoadedConfiguration, state: StateFolder, clock: Clock, start: int | None
    ) -> None:
        settings, self._settings = loaded.settings, loaded.settings.snmp
        self._loaded, self._state = loaded, state
        # Without writers nothing needs mappings, which take some megabytes.
        self._secrets = CommandSecrets(loaded) if self._settings.all_writers else None
        self._files = ClientFiles(loaded, state)
        self._root = parse_oid(self._settings.root)
        self._store, self._counters, self._failures = Store(), SnmpCounters(), _Failures()
        self._counters.serve(self._store, authentication_traps=self._settings.authentication_traps)
        registries = _registries()
        self._system = SystemGroup(self._store, _description(loaded, self._root), time.monotonic_ns)
        site = _site_registry(loaded, state)
        self._projection = Projection(
            self._store,
            ProjectionSettings(
                self._root,
                registries,
                self._settings.serve_stale_for,
                version(),
                settings.history.limits,
                tuple(self._settings.notifications),
            ),
            provisional=site.load(dt.datetime.fromtimestamp(clock.now() / SECOND, dt.UTC).date()),
            save=site.save,
            clock=clock.now,
            log=lambda event, detail: log.info(event, detail=detail),
        )
        self._security = start_security(loaded, state, clock, start)
        self._notifications = Notifications(
            self._sender_settings(),
            state.path / NOTIFICATIONS_FILE,
            self._store,
            clock,
            self._projection,
            up_time=self._system.up_time,
            failed=self._failures.failed,
            record=serve_log(self._settings, self._store, clock.now),
        )
        self._projection.notify_of_events(self._notifications.sender)
        serve_obsolete_counters(self._store, self._counters, self._notifications.sender.counts)
        applications = partial(
            ApplicationTable,
            root=self._root,
            registries=registries,
            settings={name: _application(source) for name, source in settings.sources.items()},
            up_time=self._system.up_time,
            clock=clock.now,
        )
        self._applications = applications(self._store)
        self._projection.views.applications = applications
        self._link = FeedLink(loaded.feed_socket, self._projection, slice_records=_SLICE_RECORDS)
        self._reports = RefusalReports(self._link.ask, time.monotonic_ns)
        self._refused_sets = RefusedSets(self._projection, self._reports.report, self._seen_by)
        self._guesses = Guesses(lambda guess: self._reports.report(guess.request("snmp")), time.monotonic_ns)
        deadline = settings.operations.deadline
        self._commands = self._command_table(deadline, clock)
        self._sets = self._set_requests(deadline)
        self._server = UdpServer(
            self._responder().answer, self._counters, self._failures.failed, before=self._before
        )
        self._projection.notify_of_reloads(self._follow_clients)
        serve_losses(
            self._store,
            self._root,
            lambda: self._counters.overload_drops,
            _Remembered(self._server.lost_in_kernel).value,
        )
        serve_version_3(self._store, self._counters, self._security.engine, LARGEST_DATAGRAM)
        list_modules(self._system, self._store, self._root, registries)

    def _sender_settings(self, *, running: bool = False) -> SenderSettings:
        clients, security = self._files.clients, self._security
        targets = targets_of(clients.settings, clients.communities.receivers, security, running=running)
        return sender_settings(self._files.loaded, self._files.gateway, clients.boot, self._root, targets)

    def _before(self) -> None:
        """Answer by the present clients; with stale rows, if this process was stopped."""
        self._follow_clients()
        if self._link.judge():
            while self._projection.tick():
                pass

    def _follow_clients(self, *, again: bool = False) -> None:
        """Answer and notify the clients that there are now. Engine, accepted SETs and counters stay."""
        if not self._files.follow(again=again):
            return
        clients = self._files.clients
        settings = self._settings = clients.settings
        self._security.change(settings, clients.keys)
        self._commands.change(settings)
        self._learn_secrets()
        self._projection.change_clients(
            (READER, *settings.writers, *settings.users), tuple(settings.notifications)
        )
        self._server.answer_by(self._responder().answer)
        self._notifications.change(self._sender_settings(running=True))
        log.info("snmp-clients-changed", users=len(settings.users), receivers=len(settings.notifications))

    def _learn_secrets(self) -> None:
        """Find out which arguments of commands are secrets, where no client could write before."""
        if self._secrets is not None or not self._settings.all_writers:
            return
        table, secrets = self._commands.table, CommandSecrets(self._loaded, is_known=False)
        self._secrets = secrets
        table.hide(secrets.arguments)
        self._projection.notify_of_cores(partial(_follow_secrets, secrets, table))

        def learnt(_done: asyncio.Future[bool]) -> None:
            table.hide(secrets.arguments)

        # A tenth of a second, in which requests are answered.
        asyncio.get_running_loop().run_in_executor(None, secrets.follow).add_done_callback(learnt)

    def _command_table(self, deadline: int, clock: Clock) -> Commands:
        secrets = self._secrets
        hidden = SecretArguments(SecretRules()) if secrets is None else secrets.arguments
        submission = Submission(self._projection, hidden, deadline, self._reports.report, self._seen_by)
        commands = Commands(
            self._settings,
            self._root,
            self._store,
            self._projection,
            submission,
            self._link.ask,
            clock.now,
        )
        shown = self._projection.views.of_requester
        self._projection.notify_of_operations(lambda record: commands.table.operation_changed(shown(record)))
        if secrets is not None:
            self._projection.notify_of_cores(partial(_follow_secrets, secrets, commands.table))
        return commands

    def _set_requests(self, deadline: int) -> SetRequests:
        serial = AdvisoryLock(secrets.randbelow(LOCK_VALUES))
        serial.serve(self._store)
        return SetRequests(
            self._projection,
            [self._commands.table],
            self._link.ask,
            self._counters,
            SetSettings(deadline, self._settings.best_effort, self._seen_by),
            time.monotonic_ns,
            serial,
            self._refused_sets,
        )

    def _seen_by(self, writer: str) -> SeenObjects:
        return SeenObjects(self._projection, self._projection.views.present(writer))

    def _responder(self) -> Responder:
        settings, views, known = self._settings, self._projection.views, self._files.clients.communities
        communities = {known.reading.encode(): access_of(settings, views.of(READER))} | {
            secret.encode(): access_of(settings, self._commands.view(writer), writer)
            for writer, secret in known.writers.items()
        }
        limits = settings.limits
        users = UserAccess(
            settings,
            views,
            self._loaded.settings.sources,
            self._projection.source_number,
        )
        return Responder(
            communities,
            self._counters,
            self._failures.failed,
            Limits(limits.max_message, limits.max_varbinds, limits.max_bulk_message),
            sets=self._sets,
            refused_sets=self._refused_sets,
            wrong_community=(
                self._notifications.sender.wrong_community if settings.authentication_traps else None
            ),
            guesses=self._guesses,
            versions=[VERSIONS[version] for version in settings.versions if version in VERSIONS],
            version_3=(
                self._security.version_3(users) if "v3" in settings.versions and settings.users else None
            ),
        )

    @property
    def addresses(self) -> Sequence[ListenAddress]:
        """The addresses at which requests are received."""
        return self._server.addresses

    def open(self) -> None:
        """Open the sockets.

        Raises:
            ListenError: an address is taken, or not permitted.
        """
        self._server.open(self._settings.listen)
        self._notifications.open()

    def add_readings(self, metrics: Metrics) -> None:
        """Add the readings of all parts to the metrics of this process."""
        projection, sender = self._projection, self._notifications.sender
        metrics.add("requests", lambda: request_readings(self._counters, self._server.lost_in_kernel()))
        metrics.add("sets", lambda: set_readings(self._counters, self._sets))
        metrics.add("commands", lambda: command_readings(self._commands.table.health))
        metrics.add("rows", lambda: row_readings(projection.status, projection.counts()))
        metrics.add("notifications", lambda: notification_readings(sender.health))

    async def run(self) -> None:
        """Serve requests and send notifications until one of the parts fails."""
        sending = self._notifications.run(self._link.past_events)
        await until_one_ends(self._link.run(), self._tick(), sending, self._report(), self._note_start())

    async def close(self) -> None:
        """Close the sockets, after commands and notifications under way have ended."""
        self._server.close()
        await self._commands.close()
        await self._notifications.close()

    async def _note_start(self) -> None:
        await self._security.note_start(self._state)
        await asyncio.get_running_loop().create_future()

    async def _report(self) -> None:
        """Report refused attempts until cancelled; then their numbers, if the core still takes them."""
        try:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                self._guesses.tick()
                self._reports.tick()
        finally:
            self._guesses.close()
            await self._reports.close()

    async def _tick(self) -> None:
        while True:
            busy = self._projection.tick()
            self._commands.table.tick()
            self._follow_clients(again=True)
            self._notifications.show()
            sources, connected = self._projection.sources, self._projection.status.connected
            self._applications.show(sources, connected=connected)
            self._projection.views.show_applications(sources, connected=connected)
            list_site_module(self._system, self._root, self._projection.provisional)
            await asyncio.sleep(BUSY_TICK_SECONDS if busy else TICK_SECONDS)


def _follow_secrets(secrets: CommandSecrets, table: CommandTable) -> None:
    """Show no value that the mappings of a new core call a secret."""
    if secrets.follow():
        table.hide(secrets.arguments)


def _registries() -> tuple[OidRegistry, ...]:
    """Return the shipped OID registries.

    Raises:
        CommandError: the installation is damaged.
    """
    try:
        return load_shipped_registries()
    except FileNotFoundError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


def _site_registry(loaded: LoadedConfiguration, state: StateFolder) -> SiteRegistry:
    site = SiteRegistry(state.path, loaded.settings.site)
    if site.old_path is not None:
        log.info("oid-registry-has-old-name", path=str(site.old_path), renamed="with the next class or event")
    return site


def _description(loaded: LoadedConfiguration, root: Oid) -> SystemDescription:
    settings = loaded.settings.snmp
    return SystemDescription(
        description=f"AMQP management gateway {version()} on {platform.system()} {platform.release()}",
        object_id=(*root, *PRODUCT),
        contact=settings.contact,
        name=socket.gethostname(),
        location=settings.location,
    )


class _Remembered:
    """A number that is read at most once a second, because every request may ask for it."""

    def __init__(self, read: Callable[[], int | None]) -> None:
        self._read = read
        self._number: int | None = None
        self._next = 0.0

    def value(self) -> int | None:
        if time.monotonic() >= self._next:
            self._number = self._read()
            self._next = time.monotonic() + 1.0
        return self._number


def _application(source: Source) -> ApplicationSettings:
    """Return what applTable shows of a source's settings, which have no user or password in URLs."""
    if isinstance(source, RabbitMqSource):
        return ApplicationSettings(source.management[0], source.show_own)
    return ApplicationSettings()


class _Failures:
    """Logs internal errors of the agent, at most one a minute: any datagram may cause one."""

    def __init__(self) -> None:
        self._count = 0
        self._next = 0.0

    def failed(self, error: Exception) -> None:
        self._count += 1
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _ERROR_LOG_SECONDS
            log.error("request-failed", count=self._count, exc_info=error)


Ask = Callable[[OperationRequest], Awaitable[OperationAnswer]]
"""The signature of `gateway.feed.client.FeedLink.ask`."""


class Commands:
    """The command table, its views, and the operations in progress.

    Args:
        settings: the settings of SNMP; each writer in them may have commands.
        root: the root of all object identifiers.
        store: the view of every reader.
        projection: knows the objects on which methods are called.
        submission: makes operations of commands.
        ask: sends operations to the core.
        clock: now, in nanoseconds since 1970-01-01 UTC.

    Attributes:
        table: takes part in SETs, takes records of operations, and needs a tick a second.
    """

    def __init__(
        self,
        settings: SnmpSettings,
        root: Oid,
        store: Store,
        projection: Projection,
        submission: Submission,
        ask: Ask,
        clock: Callable[[], int],
    ) -> None:
        self._views = projection.views
        self._ask = ask
        self._asking: set[asyncio.Task[None]] = set()
        self._made = partial(CommandRows, root=root, pointer=projection.pointer)
        self._shared = [self._made(store)] if settings.commands.shown_to_all else []
        self._rows: dict[str, Sequence[CommandRows]] = {}
        self._stores: dict[str, Store] = {}
        self.change(settings)
        self.table = CommandTable(
            root,
            CommandLimits(settings.commands.quota, settings.commands.keep),
            submission,
            self._rows.__getitem__,
            self._submit,
            clock,
        )
        self.table.serve(store)

    def change(self, settings: SnmpSettings) -> None:
        """Let all users and writers of these settings have commands; those of others run to their end."""
        for writer in (*settings.writers, *settings.users):
            own = self._stores.setdefault(writer, Store())
            if writer not in self._rows:
                self._rows[writer] = (self._made(own), *self._shared)
            self._views.of(writer, own, shares_own=bool(self._shared))

    def view(self, writer: str) -> Mirror:
        """Return the view of a writer."""
        return self._views.of(writer)

    async def close(self) -> None:
        """Stop waiting for answers; the operations continue in the core."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    def _submit(self, number: int, request: OperationRequest) -> None:
        task = asyncio.get_running_loop().create_task(self._carry_out(number, request))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _carry_out(self, number: int, request: OperationRequest) -> None:
        self.table.answered(number, await self._ask(request))


PROCESS = "snmp"

_REQUESTS = {
    "get": "get_requests",
    "get_next": "get_nexts",
    "get_bulk": "get_bulks",
    "set": "set_requests",
}
_FAILURES = (
    "bad_versions",
    "bad_community_names",
    "bad_community_uses",
    "parse_errors",
    "silent_drops",
    "unknown_pdu_handlers",
    "internal_errors",
    "overload_drops",
    "unsent",
)


def request_readings(counters: SnmpCounters, lost_in_kernel: int | None) -> Iterator[Reading]:
    """Yield the counters of requests; ``lost_in_kernel`` is ``None`` where it is not known."""
    yield families.SNMP_PACKETS.at(counters.in_packets)
    for kind, counter in _REQUESTS.items():
        yield families.SNMP_REQUESTS.at(getattr(counters, counter), kind)
    for reason in _FAILURES:
        yield families.SNMP_FAILURES.at(getattr(counters, reason), reason)
    if lost_in_kernel is not None:
        yield families.SNMP_LOST_IN_KERNEL.at(lost_in_kernel)


def set_readings(counters: SnmpCounters, sets: SetRequests) -> Iterator[Reading]:
    """Yield the counters of SETs."""
    for status, name in STATUS_NAMES.items():
        yield families.SNMP_SETS.at(counters.set_statuses[status], name)
    yield families.SNMP_SET_VARIABLES.at(counters.set_variables)
    yield families.SNMP_SET_RETRANSMISSIONS.at(counters.set_retransmissions)
    yield families.SNMP_SETS_WITHOUT_ROOM.at(counters.sets_without_room)
    yield families.SNMP_SETS_RUNNING.at(sets.running)
    yield families.SNMP_SETS_RUNNING_MAX.at(MAX_RUNNING)
    yield families.SNMP_SETS_REMEMBERED.at(sets.remembered)
    yield families.SNMP_SETS_REMEMBERED_MAX.at(MAX_REMEMBERED)


def command_readings(health: CommandHealth) -> Iterator[Reading]:
    """Yield the counters of the command table."""
    yield families.SNMP_COMMANDS.at(health.rows)
    yield families.SNMP_COMMANDS_RUNNING.at(health.running)
    for outcome in Outcome:
        yield families.SNMP_COMMANDS_ENDED.at(health.ended[outcome], outcome.value)


def row_readings(status: FeedStatus, health: ShownCounts) -> Iterator[Reading]:
    """Yield the readings of rows, and of the feed."""
    yield from feed_readings(status, PROCESS)
    yield families.FRONT_END_OBJECTS.at(health.rows, PROCESS)
    yield families.FRONT_END_STALE.at(health.stale, PROCESS)
    yield families.FRONT_END_WITHHELD.at(health.withheld, PROCESS)
    yield families.SNMP_NOT_SHOWN.at(health.classes_not_shown, "classes")
    yield families.SNMP_NOT_SHOWN.at(health.elements_not_shown, "elements")
    yield families.SNMP_NOT_SHOWN.at(health.events_not_shown, "events")
    yield families.SNMP_PROVISIONAL.at(health.provisional_classes, "classes")
    yield families.SNMP_PROVISIONAL.at(health.provisional_events, "events")


def notification_readings(targets: Mapping[str, TargetHealth]) -> Iterator[Reading]:
    """Yield the readings of every receiver."""
    for name, health in targets.items():
        yield families.NOTIFICATIONS_SENT.at(health.sent, name)
        yield families.NOTIFICATIONS_ACKNOWLEDGED.at(health.acknowledged, name)
        yield families.NOTIFICATIONS_SUPPRESSED.at(health.suppressed, name)
        yield families.NOTIFICATIONS_FAILED.at(health.failed, name)
        yield families.NOTIFICATIONS_WAITING.at(health.waiting, name)
        yield families.NOTIFICATIONS_OWED.at(health.owed, name)
        yield families.NOTIFICATIONS_MISSED.at(health.lost, name)
    yield families.NOTIFICATIONS_WAITING_MAX.at(MAX_WAITING)
