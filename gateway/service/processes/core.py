"""The core process: sources in, inventory, feed and event log out."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import structlog

from gateway import file_systems
from gateway.clock import Clock, ClockWatch
from gateway.config.files import LoadedConfiguration
from gateway.config.model import Configuration
from gateway.config.sources import AgentPublishing, RabbitMqSettings
from gateway.config.transport_security import sent_in_plain_text
from gateway.durable_files import RESERVE, DiskReserve
from gateway.eventlog.disk import EventLogError, NewerLogError
from gateway.eventlog.last_state import (
    EVENTS,
    LastState,
    LastStates,
    events_value,
    read_last_state,
)
from gateway.eventlog.logged_operations import Reloaded
from gateway.eventlog.ownership import ForeignLogError, LogOwner, check_owner
from gateway.eventlog.recorder import RecorderSettings
from gateway.feed.guesses import Guess
from gateway.feed.messages import VERSION
from gateway.feed.records import Batch, EventLogRecord, EventRecord, Hello, Record
from gateway.feed.server import FeedServer
from gateway.inventory.certificates import CertificateExpiry
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instance_file import IndexNotWrittenError, InstanceIndexError
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import LOG_IS_WELL, BatchSettings, Inventory
from gateway.inventory.source import SourceInventory
from gateway.links.tls import PresentedCertificates
from gateway.mapping.files import secret_patterns
from gateway.mapping.override_files import load_with_overrides
from gateway.mapping.overrides import Overrides
from gateway.model.observations import EventState
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND
from gateway.operations.audit import Audit, Redaction
from gateway.operations.manager import ManagerSettings, OperationManager
from gateway.policy.decisions import Policy
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import RoleSet
from gateway.service.certificates import CertificateWatch
from gateway.service.metrics.core import (
    feed_readings,
    index_readings,
    log_readings,
    operation_readings,
    source_readings,
)
from gateway.service.metrics.families import Metrics
from gateway.service.processes.audit_heads import AuditHeads
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.configuration_reload import ConfigurationReload
from gateway.service.processes.event_log import OFF, AckTracker, CoreEventLog, LogAlarmMark, file_settings
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.index_upkeep import keep_index
from gateway.service.processes.kept_sockets import note_feed_place, socket_errors
from gateway.service.processes.lifeline import (
    AccessRefused,
    GatewayStop,
    Lifeline,
    LogLinesLost,
    Message,
    NewListener,
    NotStarted,
    ProcessEnd,
    Reload,
)
from gateway.service.processes.log_output import OutputWatch
from gateway.service.processes.operations import CoreOperations
from gateway.service.processes.process_setup import tune_garbage_collection
from gateway.service.sources.endpoints import amqp_endpoint
from gateway.service.sources.logins import Logins
from gateway.service.sources.source_context import DurableContext, PresentRoles, SourceContext
from gateway.service.sources.sources import RunSource, needs_last_state, source_or_wait
from gateway.service.state.audit_key import WrittenHead, audit_key, note_written_head
from gateway.service.state.event_counts import EventCounts
from gateway.service.state.past_events import PastEventService, page_reader
from gateway.service.state.restored_records import (
    RecordedBefore,
    recorded_before,
    restored_events,
    restored_operations,
)
from gateway.state_folder import EVENT_COUNTS, LOG_ALARM, LOG_PLACE, StateError, StateFolder
from gateway.tasks import until_one_ends

if TYPE_CHECKING:  # few cores serve a broker or are captured, and both import dialects that no source speaks
    from gateway.service.serving import QmfServer
    from gateway.service.sources.captures import Captures

log = structlog.get_logger(__name__)

TICK_SECONDS = 1.0

NOTE_SECONDS = 5.0
"""Seconds after which it is tried again to note a start that the disk did not take."""

_LOOK_SECONDS = 0.05
"""Seconds between two looks at whether operations are under way, when the core is to end."""

_LAST_WORDS_SECONDS = 2.0
"""Seconds in which front ends are sent the last answers and events of a core."""


async def run_core(
    loaded: LoadedConfiguration,
    clock: Clock,
    lifeline: Lifeline,
    served: Mapping[str, AgentPublishing] | None = None,
) -> bool:
    """Run the core until the supervisor goes, the clock is set (`ClockWatch`), or the task is cancelled.

    Args:
        loaded: the configuration.
        clock: of the gateway.
        lifeline: to the supervisor.
        served: RabbitMQ sources that are served to consoles by QMF, by their names.

    Returns:
        Whether the clock was set, so that the core is to run again.

    Raises:
        CommandError: it cannot work with this configuration or state; ``AGAIN`` where a reload changed the
            mappings, so that the core is to run again with those that the state folder has, and where it
            began on a read-only disk that takes changes now.
    """
    needs_upkeep = asyncio.Event()
    try:
        with command_errors():
            state = StateFolder(loaded.state_folder)
            with (
                state.locked(inherited=lifeline.state_lock),
                contextlib.closing(
                    InstanceIndex(
                        state.instances,
                        must_exist=state.boots > 0,
                        needs_upkeep=needs_upkeep.set,
                        reserve=DiskReserve(state.path / RESERVE),
                    )
                ) as index,
            ):
                if lifeline.listener is None:  # started by hand, or an agent: as `run` does it
                    note_feed_place(loaded)
                return await _run_locked(loaded, state, index, clock, lifeline, needs_upkeep, served or {})
    except InstanceIndexError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error


async def run_core_process(loaded: LoadedConfiguration, clock: Clock, lifeline: Lifeline) -> None:
    """Run the core as a process of the supervisor, which runs it again where the clock was set.

    Raises:
        CommandError: as `run_core`; ``AGAIN`` also where the clock was set.
    """
    if await run_core(loaded, clock, lifeline):
        raise CommandError(ExitCode.AGAIN, "")


async def _run_locked(
    loaded: LoadedConfiguration,
    state: StateFolder,
    index: InstanceIndex,
    clock: Clock,
    lifeline: Lifeline,
    needs_upkeep: asyncio.Event,
    served: Mapping[str, AgentPublishing],
) -> bool:
    # An agent says itself what it sends, by the keys of its own.
    log_plain_text(loaded.settings, lambda key: not served and not key.startswith("agents."))
    _check_log(loaded, state, lifeline.start)
    _log_limits(state)
    before = state.start_before(lifeline.start or state.highest_start + 1)
    epoch = count_start(state, index, lifeline.start)
    last = await asyncio.to_thread(_last_state, loaded)
    recorded = await asyncio.to_thread(recorded_before, loaded, state.identity, last)
    core = _Core(loaded, state, index, clock, (before, epoch), last, recorded)
    core.add_sources(last, lifeline.metrics, served)
    del last  # its objects take 2 kB each, and sources and the event log release what they have read again
    core.subscribe()
    async with AsyncExitStack() as running:
        await core.start(running, recorded, lifeline.listener)
        core.add_readings(lifeline.metrics)
        log.info(
            "core-ready", epoch=epoch, sources=sorted(loaded.settings.sources), feed=str(loaded.feed_socket)
        )
        lifeline.ready()
        watch = ClockWatch(clock)
        await until_one_ends(
            lifeline.parent_gone(core.publish),
            watch.until_set(),
            core.run(needs_upkeep),
            core.until_other_mappings(),
        )
        core.notice_standstill()
    if index.is_left_read_only:
        log.info("core-starts-again", reason="the disk of the state folder takes changes again")
        raise CommandError(ExitCode.AGAIN, "")
    if core.has_other_mappings:
        log.info("core-starts-again", reason="mappings or override files were changed")
        raise CommandError(ExitCode.AGAIN, "")
    return watch.was_set


def _log_limits(state: StateFolder) -> None:
    """Log what the file system of the state folder cannot do, and what that costs."""
    if missing := file_systems.lacking(state.path, writes=False):
        reason = file_systems.in_words(state.path, missing)
        log.warning("state-folder-limited", reason=reason, folder=str(state.path))


class _Core:
    """The parts of a core, constructed in the order in which they depend on each other.

    Args:
        loaded: the configuration.
        state: the state folder, locked.
        index: the instance index.
        clock: of the gateway.
        starts: the numbers of the core before, and of this start.
        last: the states of sources when the log ended; ``None`` if there are none.
        recorded: what else the log says of the time before.
    """

    def __init__(
        self,
        loaded: LoadedConfiguration,
        state: StateFolder,
        index: InstanceIndex,
        clock: Clock,
        starts: tuple[int, int],
        last: LastState | None,
        recorded: RecordedBefore,
    ) -> None:
        self._loaded, self._state, self._index, self._clock = loaded, state, index, clock
        before, epoch = starts
        self._epoch = epoch
        known = load_with_overrides(loaded.mapping_files, loaded.override_files)
        self._mappings = known.mappings
        patterns = [pattern for mapping in self._mappings.values() for pattern in secret_patterns(mapping)]
        self._secrets = SecretRules(patterns)
        self._classes = ClassRegistry(self._mappings, known.overrides)
        self._is_left = asyncio.Event()
        self._subscribers = Subscribers()
        self._inventory = Inventory(
            state.identity,
            epoch,
            self._classes,
            index,
            self._subscribers.publish,
            BatchSettings(self._is_left.set),
            loaded.settings.history.limits,
        )
        settings, roles = loaded.settings.operations, loaded.settings.role_set
        marks = Marks(self._mappings, known.overrides)
        receivers = tuple(loaded.settings.snmp.notifications)
        self._policy = PolicyPublisher(roles, marks, receivers, self._classes.records)
        self._roles = PresentRoles(roles)
        self._output_watch = OutputWatch(self._inventory.log_lines_lost)
        self._log_alarm = LogAlarmMark(state.path / LOG_ALARM)
        self._counts = EventCounts(
            state.path / EVENT_COUNTS,
            epoch,
            before,
            logged=loaded.settings.log.enabled,
            was_paused=self._log_alarm.was_raised,
            in_log=recorded.events.made,
            now=clock.now(),
        )
        facts = partial(_facts, state.identity, epoch, self._inventory, self._counts.former.numbers)
        withheld = self._policy.withheld
        self._event_log = _event_log(loaded, clock, last, facts, known.overrides.log_intervals, withheld)
        if self._event_log is not None:
            self._event_log.belongs_to(LogOwner(state.identity, epoch, state.path / LOG_PLACE))
        self._past = PastEventService(
            state.identity,
            page_reader(loaded.log_folder, state.identity) if loaded.settings.log.enabled else None,
            self._event_log,
            self._inventory,
            self._classes,
            self._policy,
            self._publish_tables,
        )
        self._past.recall(recorded.events)
        self._manager = OperationManager(
            self._inventory,
            self._classes,
            Policy(roles),
            marks,
            Audit(state.identity, epoch, Redaction(self._secrets)),
            ManagerSettings(settings.deadline, settings.max_running),
        )
        self._heads = self._audit_heads()
        self._stopping: asyncio.Task[None] | None = None
        self._operations = CoreOperations(self._manager, self._inventory, clock, self._event_log)
        self._logins = Logins()
        self._reload = ConfigurationReload(loaded, self)
        self._feed = FeedServer(
            loaded.feed_socket,
            Hello(VERSION, epoch, state.identity, clock.now(), _hidden(patterns, known.overrides)),
            self._snapshot,
            loaded.settings.feed.max_waiting_records,
            self._operations.submit,
            (lambda _report: None) if self._event_log is None else self._event_log.take_login,
            self._reload.requested,
            self._past.requested,
        )
        self._sources: list[RunSource] = []
        self._servers: dict[str, QmfServer] = {}
        self._presented = PresentedCertificates()

    def _audit_heads(self) -> AuditHeads | None:
        if self._event_log is None:
            return None
        file = self._loaded.heads_file
        return AuditHeads(
            audit_key(self._state),
            self._state.identity,
            self._event_log,
            self._clock,
            self._inventory.audit_signed,
            file,
            self._heads_file_stands,
            lambda line: note_written_head(self._state, WrittenHead(str(file), line)),
        )

    def _heads_file_stands(self, reason: str) -> None:
        if reason:
            file = str(self._loaded.heads_file)
            self._inventory.audit_heads_not_written(file, reason, self._clock.now())
        else:
            self._inventory.audit_heads_written(self._clock.now())

    def add_sources(
        self, last: LastState | None, metrics: Metrics, served: Mapping[str, AgentPublishing]
    ) -> None:
        """Construct the sources, and the serving roles of some of them.

        Args:
            last: as for the class.
            metrics: the metrics of this process.
            served: RabbitMQ sources that are served to consoles by QMF, by their names.

        Raises:
            CommandError: a source cannot be constructed from its settings.
        """
        self._certificates = CertificateWatch(self._loaded, self._presented, self._judge_certificates, served)
        durable_context = None
        if self._event_log is not None and last is not None:
            acks = AckTracker(self._event_log, last.deliveries)
            durable_context = DurableContext(
                self._state.path, acks, LastStates(last, self._loaded.log_folder)
            )
        context = SourceContext(
            inventory=self._inventory,
            mappings=self._mappings,
            secrets=self._secrets,
            clock=self._clock,
            folder=self._loaded.folder,
            boot=self._epoch,
            metrics=metrics,
            durable_context=durable_context,
            operations=self._operations,
            state=self._state.path,
            captures=_captures(self._loaded, self._clock),
            patience=self._loaded.settings.operations.deadline,
            watchers=self._servers,
            presented=self._presented,
            logins=self._logins,
            roles=self._roles,
        )
        settings = self._loaded.settings.sources
        self._sources = [source_or_wait(name, of_source, context) for name, of_source in settings.items()]
        for source in self._inventory.sources:
            if (publishing := served.get(source.identity.name)) is not None:
                self._servers[source.identity.name] = self._server(source, publishing, context)

    def _publish_tables(self, batch: Batch) -> None:
        self._feed.publish(batch)

    def _snapshot(self) -> tuple[list[Record], int]:
        records, sequence = self._inventory.snapshot()
        return self._policy.snapshot(records), sequence

    def _server(
        self, source: SourceInventory, publishing: AgentPublishing, context: SourceContext
    ) -> QmfServer:
        from gateway.service.serving import QmfServer, ServedBroker  # noqa: PLC0415  see above
        from gateway.service.sources.rabbitmq_endpoints import http_publisher  # noqa: PLC0415

        name, folder = source.identity.name, self._loaded.folder
        settings = self._loaded.settings.sources[name]
        assert isinstance(settings, RabbitMqSettings)
        return QmfServer(
            name,
            publishing,
            ServedBroker(
                amqp_endpoint(publishing.amqp, folder, name, logins=context.logins),
                http_publisher(settings, publishing, folder, name, context.logins),
                context.protection(name, publishing.protected),
            ),
            source,
            self._operations.submit,
            self._manager.is_seen,
            self._clock,
            0 if context.durable_context is None else context.durable_context.last.complete_until(name),
        )

    def subscribe(self) -> None:
        """Let all parts receive the inventory's batches."""
        # First: what a front end has received is counted, whatever is killed next.
        self._subscribers.add(lambda _batch: self._counts.note(self._inventory.events_made))
        self._subscribers.add(lambda batch: self._feed.publish(self._policy.batch(batch)))
        if self._event_log is not None:
            self._subscribers.add(self._event_log.take)
        for server in self._servers.values():
            self._subscribers.add(server.take)
        # Last: the others receive the effects of an operation before its answer.
        self._subscribers.add(self._operations.noticed)

    async def start(
        self, running: AsyncExitStack, recorded: RecordedBefore, listener: socket.socket | None
    ) -> None:
        """Open the event log, continue what an earlier core began, and serve the feed.

        Args:
            running: closes the parts in reverse order.
            recorded: as for the class.
            listener: the inherited socket of the feed; ``None`` to make one.

        Raises:
            CommandError: the feed cannot be served, or the event log cannot be opened.
        """
        running.callback(self._counts.close)
        if self._event_log is not None:
            with _log_errors():
                await running.enter_async_context(self._event_log)
            records, sequence = self._inventory.snapshot()
            self._event_log.take(Batch(self._epoch, sequence, tuple(records)))
            assert self._heads is not None
            # When operations and feed have ended: it signs their last records, too.
            running.push_async_callback(self._heads.sign)
        await running.enter_async_context(self._operations)
        numbers = {source.identity.name: source.identity.number for source in self._inventory.sources}
        self._operations.recover(restored_operations(recorded.unfinished, numbers))
        events = restored_events(
            recorded.events, self._state.identity, self._classes, numbers, recorded.names
        )
        self._inventory.recall(events, self._counts.former.numbers, self._counts.former.uncertain)
        if self._log_alarm.was_raised:  # the log may not have it, because it could not be written
            self._inventory.expect_log_clearing()
        if self._heads is None or self._loaded.heads_file is None:
            self._heads_file_stands("")
        running.push_async_callback(self._feed.close)
        running.push_async_callback(self._past.close)
        # The supervisor closes what connects to this socket until the core is ready: nothing long follows.
        tune_garbage_collection()
        with socket_errors(self._loaded.feed_socket):
            await self._feed.start(listener)
        running.push_async_callback(self._answer_reloads)

    def add_readings(self, metrics: Metrics) -> None:
        """Add the readings of all parts to the metrics of this process."""
        metrics.add("feed", partial(feed_readings, self._feed))
        metrics.add("operations", partial(operation_readings, self._manager))
        if self._event_log is not None:
            files = file_settings(self._loaded.settings.log)
            metrics.add("event log", partial(log_readings, self._event_log, files))
        metrics.add("certificates", self._certificates.readings)
        metrics.add("sources", partial(source_readings, self._inventory))
        index = partial(index_readings, self._index, self._inventory, self._state.instances)
        metrics.add("index", index)

    def publish(self, announcement: Message) -> None:
        """Publish what the supervisor announces, as an event of the gateway itself; listen where it says."""
        now = self._clock.now()
        match announcement:
            case ProcessEnd(process, reason):
                self._inventory.process_ended(process, reason, now)
            case NotStarted(reasons):
                self._inventory.processes_not_started(reasons, now)
            case LogLinesLost(lines):
                self._output_watch.of_others += lines
            case GatewayStop(reason):
                self._inventory.gateway_stops(reason, now)
                # While front ends can still send it; the rest is signed at the end.
                if self._heads is not None:
                    self._stopping = asyncio.create_task(self._heads.sign())
            case NewListener(listener):
                self._feed.move(listener)
            case Reload(by):
                self._reload.announced(by)
            case AccessRefused(front_end, address, reason, attempts):
                self._operations.refused(Guess(address, reason, attempts).request(front_end))

    def change_policy(self, roles: RoleSet, receivers: Collection[str], by: str, changes: list[str]) -> None:
        """Apply a policy, as `ReloadTarget` requires."""
        self._policy.change(roles, receivers)
        self._past.policy_changed()
        self._manager.change_policy(Policy(roles))
        self._roles.change(roles)
        self._feed.send_snapshots()
        if self._event_log is not None:
            self._event_log.take_reload(Reloaded.POLICY, by, changes)
        self._inventory.policy_changed(by, changes, self._clock.now())

    async def read_secrets_again(self) -> list[str]:
        """Read the secrets of sources again, as `ReloadTarget` requires."""
        return await self._logins.read_again()

    def record_mappings(self, by: str, changes: list[str]) -> None:
        """Record that the next core has other mappings, as `ReloadTarget` requires."""
        if self._event_log is not None:
            self._event_log.take_reload(Reloaded.MAPPINGS, by, changes)
        self._inventory.mappings_changed(by, changes, self._clock.now())

    @property
    def has_other_mappings(self) -> bool:
        """Whether a reload has changed the mappings, which the next core reads."""
        return self._reload.has_other_mappings

    async def until_other_mappings(self) -> None:
        """Wait until a reload has changed the mappings, and the operations under way have ended."""
        await self._reload.until_other_mappings()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._loaded.settings.operations.deadline / SECOND):
                while self._manager.running or self._manager.waiting:  # noqa: ASYNC110  at the end only
                    await asyncio.sleep(_LOOK_SECONDS)

    async def _answer_reloads(self) -> None:
        """Answer the requests to reload that were taken; before another core, send all that waits."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await self._reload.finish()
                if self._reload.has_other_mappings:
                    await self._feed.until_sent()

    async def run(self, needs_upkeep: asyncio.Event) -> None:
        """Run all parts until one of them fails.

        Args:
            needs_upkeep: set when the instance index cannot wait.
        """
        await until_one_ends(
            self._tick(),
            self._go_on(),
            keep_index(self._index, self._clock, needs_upkeep),
            self._keep_event_log(),
            self._note_start(),
            self._sign_heads(),
            self._certificates.run(),
            *(run() for run in self._sources),
            *(server.run() for server in self._servers.values()),
        )

    async def _keep_event_log(self) -> None:
        if self._event_log is not None:
            await self._event_log.run(self._publish_log_state)
        self._publish_log_state(OFF)
        await asyncio.get_running_loop().create_future()

    async def _note_start(self) -> None:
        """Note this start as soon as the disk takes it, where it did not take it in both places before."""
        is_noted = False
        while not is_noted:
            with contextlib.suppress(IndexNotWrittenError, StateError):
                if self._state.boots != self._epoch:
                    self._index.note_start(self._epoch)
                    self._state.note_boot(self._epoch)
                    log.info("start-noted", start=self._epoch)
                is_noted = True
            await asyncio.sleep(NOTE_SECONDS)
        await asyncio.get_running_loop().create_future()

    async def _sign_heads(self) -> None:
        if self._heads is not None:
            await self._heads.run(self._loaded.settings.audit.heads.interval)
        await asyncio.get_running_loop().create_future()

    def _publish_log_state(self, record: EventLogRecord) -> None:
        if record.state not in LOG_IS_WELL:  # before it is published: the next core must know it
            self._log_alarm.note(raised=True)
        self._inventory.event_log_changed(record, self._clock.now())
        self._log_alarm.note(raised=self._inventory.log_alarm_is_raised)

    def _judge_certificates(self, found: list[CertificateExpiry], not_known: list[str]) -> None:
        warn_before = self._loaded.settings.certificates.warn_before
        for record in self._inventory.certificates_judged(found, warn_before, self._clock.now(), not_known):
            if isinstance(record, EventRecord):
                is_over = record.state is EventState.CLEARED
                (log.info if is_over else log.warning)("certificate-expiry", text=record.text)

    async def _go_on(self) -> None:
        """Apply long reports, slice by slice."""
        while True:
            await self._is_left.wait()
            self._is_left.clear()
            self._inventory.go_on()
            await asyncio.sleep(0)  # other tasks run, and messages are received

    def notice_standstill(self) -> None:
        """Have the log say until when sources had received everything, if the clock was set since."""
        self._inventory.tick(self._clock.now())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._inventory.tick(self._clock.now())
            self._output_watch.tick(self._clock.now())
            self._counts.keep(self._clock.now())
            self._log_alarm.note(raised=self._inventory.log_alarm_is_raised)


def log_plain_text(settings: Configuration, is_ours: Callable[[str], bool]) -> None:
    """Log what is exchanged beyond this machine without protection.

    Args:
        settings: the configuration.
        is_ours: whether this process is concerned by a key of it.
    """
    for each in sent_in_plain_text(settings):
        if is_ours(each.key):
            log.warning("sent-in-plain-text", key=each.key, detail=each.text, advice=each.advice)


class Subscribers:
    """The receivers of the inventory's batches, in the order in which they were added."""

    def __init__(self) -> None:
        self._takers: list[Callable[[Batch], object]] = []

    def add(self, take: Callable[[Batch], object]) -> None:
        """Pass each batch to ``take`` from now on."""
        self._takers.append(take)

    def publish(self, batch: Batch) -> None:
        """Pass a batch to all receivers."""
        for take in self._takers:
            take(batch)


def _hidden(secrets: Sequence[str], overrides: Overrides) -> str:
    """Return a digest of what mappings and overrides hide of objects: it changes if that does."""
    return hashlib.blake2b(repr((secrets, overrides.exclusions)).encode(), digest_size=8).hexdigest()


def _captures(loaded: LoadedConfiguration, clock: Clock) -> Captures | None:
    folder, wished = loaded.capture_folder, loaded.settings.captures
    if not wished:
        return None
    from gateway.service.sources.captures import Captures, CaptureTarget  # noqa: PLC0415  see above

    targets = {
        name: CaptureTarget(folder / f"{name}.jsonl", settings.max_size << 20, keeps=True)
        for name, settings in wished.items()
    }
    return Captures(clock, targets)


@contextlib.contextmanager
def _log_errors() -> Iterator[None]:
    """Turn a log that this gateway must not write into the error that ends it."""
    try:
        yield
    except (ForeignLogError, NewerLogError) as error:
        raise CommandError(ExitCode.STATE, str(error)) from error


def _check_log(loaded: LoadedConfiguration, state: StateFolder, start: int | None) -> None:
    """Check that the next start of this gateway may write its log, before the start is counted.

    Whatever else is wrong with the log is reported when it is opened.

    Raises:
        CommandError: it must not.
    """
    if not loaded.settings.log.enabled:
        return
    owner = LogOwner(state.identity, start or state.highest_start + 1, state.path / LOG_PLACE)
    with _log_errors():
        try:
            check_owner(loaded.log_folder, owner)
        except (ForeignLogError, NewerLogError):
            raise
        except EventLogError as error:
            log.warning("event-log-not-read", reason=str(error))


def _event_log(
    loaded: LoadedConfiguration,
    clock: Clock,
    last: LastState | None,
    facts: Callable[[], dict[str, object]],
    overridden: Mapping[str, int],
    withheld: Callable[[EventRecord, str], Sequence[str]],
) -> CoreEventLog | None:
    """Return the event log, with the intervals of overrides before the configured ones."""
    if not loaded.settings.log.enabled:
        return None
    durable = [name for name, source in loaded.settings.sources.items() if source.durable is not None]
    same_as = {
        name: source.same_as for name, source in loaded.settings.sources.items() if source.same_as is not None
    }
    configured = loaded.settings.log.statistics_intervals.items()
    # The first match counts.
    intervals = {**overridden, **{pattern: each for pattern, each in configured if pattern not in overridden}}
    return CoreEventLog(
        loaded.log_folder,
        loaded.settings.log.model_copy(update={"statistics_intervals": intervals}),
        clock,
        facts,
        last,
        durable=durable,
        recording=RecorderSettings(same_as=same_as, withheld=withheld),
    )


def _facts(gateway: str, epoch: int, inventory: Inventory, made: Mapping[int, int]) -> dict[str, object]:
    """Return the fields of a segment's first record; earlier cores ``made`` so many events."""
    events = events_value({**made, epoch: inventory.events_made})
    return {"gateway": gateway, "boot": epoch, EVENTS: events}


def _last_state(loaded: LoadedConfiguration) -> LastState | None:
    """Return the states of sources when the log ended, for those that need it; ``None`` if there are none."""
    asking = [name for name, settings in loaded.settings.sources.items() if needs_last_state(settings)]
    if not asking or not loaded.settings.log.enabled:
        return None
    return read_last_state(loaded.log_folder, asking)


def count_start(state: StateFolder, index: InstanceIndex, reserved: int | None = None) -> int:
    """Return the number of this start, which is on the disk in both places before it is published.

    The index comes first: if the process dies between the two, the number is used once more, which the index
    allows.

    Args:
        state: the state folder.
        index: the instance index.
        reserved: the number that the supervisor has reserved for this start, which need not be on the disk,
            so that a core can start where that takes nothing; ``None`` without a supervisor.

    Raises:
        StateError, InstanceIndexError: it cannot be counted.
    """
    noted = state.boots
    boot = reserved or state.highest_start + 1
    try:
        index.start(state.identity, boot, noted)
        state.note_boot(boot)
    except (IndexNotWrittenError, StateError) as error:
        if reserved is None:
            raise
        log.warning("start-not-noted", start=boot, reason=str(error))
    index.leave_room_for_starts()
    return boot
