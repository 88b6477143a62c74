"""The core process: sources in, inventory, feed and event log out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial

import structlog

from gateway.clock import Clock, ClockWatch
from gateway.config.files import LoadedConfiguration
from gateway.config.sources import AgentPublishing, RabbitMqSettings
from gateway.eventlog.last_state import (
    EVENTS,
    LastEvents,
    LastState,
    LastStates,
    events_value,
    last_events,
    read_last_state,
    unfinished_operations,
)
from gateway.eventlog.record import LogRecord
from gateway.feed.messages import VERSION
from gateway.feed.records import Batch, EventLogRecord, Hello
from gateway.feed.server import FeedServer
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instance_file import InstanceIndexError
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import BatchSettings, Inventory
from gateway.inventory.source import SourceInventory
from gateway.mapping.files import load_mappings, secret_patterns
from gateway.model.secrets import SecretRules
from gateway.operations.audit import Audit, Redaction
from gateway.operations.manager import ManagerSettings, OperationManager
from gateway.service.metrics.core import (
    feed_readings,
    index_readings,
    log_readings,
    operation_readings,
    source_readings,
)
from gateway.service.metrics.families import Metrics
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.event_log import OFF, AckTracker, CoreEventLog, file_settings
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import Lifeline
from gateway.service.processes.operations import CoreOperations, policy_of
from gateway.service.processes.process_setup import tune_garbage_collection
from gateway.service.serving import QmfServer
from gateway.service.sources.captures import Captures, CaptureTarget
from gateway.service.sources.endpoints import amqp_endpoint, http_publisher
from gateway.service.sources.source_context import DurableContext, SourceContext
from gateway.service.sources.sources import needs_last_state, source_of
from gateway.service.state.restored_records import restored_events, restored_operations
from gateway.state_folder import StateFolder
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

TICK_SECONDS = 1.0


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
        CommandError: it cannot work with this configuration or state.
    """
    needs_upkeep = asyncio.Event()
    try:
        with command_errors():
            state = StateFolder(loaded.state_folder)
            with (
                state.locked(inherited=lifeline.state_lock),
                contextlib.closing(
                    InstanceIndex(state.instances, must_exist=state.boots > 0, needs_upkeep=needs_upkeep.set)
                ) as index,
            ):
                return await _run_locked(loaded, state, index, clock, lifeline, needs_upkeep, served or {})
    except InstanceIndexError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error


async def _run_locked(
    loaded: LoadedConfiguration,
    state: StateFolder,
    index: InstanceIndex,
    clock: Clock,
    lifeline: Lifeline,
    needs_upkeep: asyncio.Event,
    served: Mapping[str, AgentPublishing],
) -> bool:
    mappings = load_mappings(loaded.mapping_files)
    patterns = [pattern for mapping in mappings.values() for pattern in secret_patterns(mapping)]
    epoch = count_start(state, index)
    last = await asyncio.to_thread(_last_state, loaded)
    unfinished, recorded = await asyncio.to_thread(_recorded_before, loaded, state.identity)
    classes, secrets, is_left = ClassRegistry(mappings), SecretRules(patterns), asyncio.Event()
    slicing, limits = BatchSettings(is_left.set), loaded.settings.history.limits
    subscribers = Subscribers()
    inventory = Inventory(state.identity, epoch, classes, index, subscribers.publish, slicing, limits)
    event_log = _event_log(
        loaded, clock, last, partial(_facts, state.identity, epoch, inventory, recorded.made)
    )
    names_of_objects = _names(last, recorded)
    settings = loaded.settings.operations
    manager = OperationManager(
        inventory,
        classes,
        policy_of(settings),
        Audit(state.identity, epoch, Redaction(secrets)),
        ManagerSettings(settings.deadline, settings.max_running),
    )
    operations = CoreOperations(manager, inventory, clock, event_log)
    hello = Hello(VERSION, epoch, state.identity, clock.now())
    waiting = loaded.settings.feed.max_waiting_records
    feed = FeedServer(loaded.feed_socket, hello, inventory.snapshot, waiting, operations.submit)
    servers: dict[str, QmfServer] = {}
    surroundings = SourceContext(
        inventory=inventory,
        mappings=mappings,
        secrets=secrets,
        clock=clock,
        folder=loaded.folder,
        boot=epoch,
        metrics=lifeline.metrics,
        lasting=None
        if event_log is None or last is None
        else DurableContext(
            state.path, AckTracker(event_log, last.deliveries), LastStates(last, loaded.log_folder)
        ),
        operations=operations,
        state=state.path,
        captures=_captures(loaded, clock),
        patience=settings.deadline,
        watchers=servers,
    )
    del last  # its objects take 2 kB each, and sources and the event log release what they have read again
    sources = [source_of(name, settings, surroundings) for name, settings in loaded.settings.sources.items()]
    servers |= {
        source.identity.name: _server(loaded, source, served, operations, clock, surroundings.lasting)
        for source in inventory.sources
        if source.identity.name in served
    }
    subscribers.add(feed.publish)
    if event_log is not None:
        subscribers.add(event_log.take)
    for server in servers.values():
        subscribers.add(server.take)
    subscribers.add(operations.noticed)  # last: the others receive the effects before the answers
    async with AsyncExitStack() as running:
        if event_log is not None:
            await running.enter_async_context(event_log)
            records, sequence = inventory.snapshot()
            event_log.take(Batch(epoch, sequence, tuple(records)))
        await running.enter_async_context(operations)
        numbers = {source.identity.name: source.identity.number for source in inventory.sources}
        operations.recover(restored_operations(unfinished, numbers))
        inventory.recall(
            restored_events(recorded, state.identity, classes, numbers, names_of_objects),
            recorded.made,
        )
        running.push_async_callback(feed.close)
        try:
            await feed.start()
        except (OSError, ValueError) as error:
            raise CommandError(ExitCode.CONFIGURATION, f"the feed cannot be served: {error}") from error
        _add_readings(lifeline.metrics, loaded, feed, manager, event_log, inventory, index, state)
        tune_garbage_collection()
        lifeline.ready()
        names = sorted(loaded.settings.sources)
        log.info("core-ready", epoch=epoch, sources=names, feed=str(loaded.feed_socket))
        watch = ClockWatch(clock)
        await until_one_ends(
            lifeline.parent_gone(),
            watch.until_set(),
            _tick(inventory, clock),
            _go_on(inventory, is_left),
            keep_index(index, clock, needs_upkeep),
            _keep_event_log(event_log, inventory, clock),
            *(run() for run in sources),
            *(server.run() for server in servers.values()),
        )
    return watch.was_set


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


def _server(
    loaded: LoadedConfiguration,
    source: SourceInventory,
    served: Mapping[str, AgentPublishing],
    operations: CoreOperations,
    clock: Clock,
    lasting: DurableContext | None,
) -> QmfServer:
    name = source.identity.name
    settings, publishing = loaded.settings.sources[name], served[name]
    assert isinstance(settings, RabbitMqSettings)
    return QmfServer(
        name,
        publishing,
        amqp_endpoint(publishing.amqp, loaded.folder, name),
        http_publisher(settings, publishing, loaded.folder, name),
        source,
        operations.submit,
        clock,
        0 if lasting is None else lasting.last.complete_until(name),
    )


def _add_readings(
    metrics: Metrics,
    loaded: LoadedConfiguration,
    feed: FeedServer,
    manager: OperationManager,
    event_log: CoreEventLog | None,
    inventory: Inventory,
    index: InstanceIndex,
    state: StateFolder,
) -> None:
    metrics.add("feed", partial(feed_readings, feed))
    metrics.add("operations", partial(operation_readings, manager))
    if event_log is not None:
        files = file_settings(loaded.settings.log)
        metrics.add("event log", partial(log_readings, event_log, files))
    metrics.add("sources", partial(source_readings, inventory))
    metrics.add("index", partial(index_readings, index, inventory, state.instances))


def _captures(loaded: LoadedConfiguration, clock: Clock) -> Captures:
    folder, wished = loaded.capture_folder, loaded.settings.captures
    targets = {
        name: CaptureTarget(folder / f"{name}.jsonl", settings.max_size << 20, keeps=True)
        for name, settings in wished.items()
    }
    return Captures(clock, targets)


def _event_log(
    loaded: LoadedConfiguration, clock: Clock, last: LastState | None, facts: Callable[[], dict[str, object]]
) -> CoreEventLog | None:
    if not loaded.settings.log.enabled:
        return None
    durable = [name for name, source in loaded.settings.sources.items() if source.durable is not None]
    same_as = {
        name: source.same_as for name, source in loaded.settings.sources.items() if source.same_as is not None
    }
    return CoreEventLog(
        loaded.log_folder,
        loaded.settings.log,
        clock,
        facts,
        last,
        durable=durable,
        same_as=same_as,
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


def _recorded_before(loaded: LoadedConfiguration, gateway: str) -> tuple[list[LogRecord], LastEvents]:
    """Return operations that an earlier core left unfinished, and events that front ends may not have."""
    if not loaded.settings.log.enabled:
        return [], LastEvents()
    folder = loaded.log_folder
    try:
        return unfinished_operations(folder), last_events(folder, loaded.settings.history.events, gateway)
    except OSError as error:  # the error is reported when the log is opened
        log.warning("event-log-not-read", path=error.filename, reason=error.strerror)
        return [], LastEvents()


def _names(last: LastState | None, recorded: LastEvents) -> dict[str, str]:
    """Return the names of the objects to which recorded events refer, as far as sources need them."""
    objects = {} if last is None else last.objects
    referred = {
        value
        for event in recorded.events
        for value in (event.values or {}).values()
        if isinstance(value, str) and value in objects
    }
    return {object_id: objects[object_id].object_name or "" for object_id in referred}


async def _keep_event_log(event_log: CoreEventLog | None, inventory: Inventory, clock: Clock) -> None:
    def publish(record: EventLogRecord) -> None:
        inventory.event_log_changed(record, clock.now())

    if event_log is not None:
        await event_log.run(publish)
    publish(OFF)
    await asyncio.get_running_loop().create_future()


async def _go_on(inventory: Inventory, is_left: asyncio.Event) -> None:
    """Apply long reports, slice by slice."""
    while True:
        await is_left.wait()
        is_left.clear()
        inventory.go_on()
        await asyncio.sleep(0)  # other tasks run, and messages are received


async def _tick(inventory: Inventory, clock: Clock) -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        inventory.tick(clock.now())


UPKEEP_SECONDS = 15.0
"""Seconds after which, at the latest, a row number is safe from a power failure."""

FORGET_SECONDS, FORGET_SOON_SECONDS, FORGOTTEN_AT_ONCE = 3600.0, 0.1, 500


def count_start(state: StateFolder, index: InstanceIndex) -> int:
    """Return the number of this start, which is on the disk in both places before it is published.

    The index comes first: if the process dies between the two, the number is used once more, which the index
    allows.
    """
    boot = state.boots + 1
    index.start(state.identity, boot)
    return state.next_boot()


async def keep_index(index: InstanceIndex, clock: Clock, needed: asyncio.Event) -> None:
    """Maintain the index until cancelled.

    Args:
        index: in use on this loop.
        clock: the gateway's.
        needed: set by the index when it cannot wait.

    Raises:
        InstanceIndexError: the index has failed: nothing may continue without it.
    """
    await until_one_ends(_keep_on_disk(index, needed), _forget(index, clock))


async def _keep_on_disk(index: InstanceIndex, needed: asyncio.Event) -> None:
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(needed.wait(), UPKEEP_SECONDS)
        needed.clear()
        index.check()
        upkeep = index.upkeep()
        if upkeep is not None:
            index.reserved(await asyncio.to_thread(upkeep))


async def _forget(index: InstanceIndex, clock: Clock) -> None:
    """Release row numbers of objects that will not return, a few at a time."""
    while True:
        forgotten = index.forget_retired(clock.now(), FORGOTTEN_AT_ONCE)
        await asyncio.sleep(FORGET_SOON_SECONDS if forgotten == FORGOTTEN_AT_ONCE else FORGET_SECONDS)
