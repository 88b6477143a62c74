"""The core process: sources in, inventory, feed out."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import structlog

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.config.types import SecretError
from gateway.feed.messages import VERSION
from gateway.feed.records import Hello
from gateway.feed.server import FeedServer
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instance_file import InstanceIndexError
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.mapping.files import MappingError, load_shipped_mappings, secret_patterns
from gateway.model.secrets import SecretRules
from gateway.service.exit_codes import CommandError, ExitCode
from gateway.service.garbage import tune_garbage_collection
from gateway.service.index_upkeep import count_start, keep_index
from gateway.service.lifeline import Lifeline
from gateway.service.metrics.core import feed_readings, index_readings, source_readings
from gateway.service.sources import source_of
from gateway.service.surroundings import Surroundings
from gateway.state_folder import StateError, StateFolder
from gateway.tasks import until_one_ends
from gateway.yaml_documents import DocumentError

log = structlog.get_logger(__name__)

TICK_SECONDS = 1.0


async def run_core(loaded: LoadedConfiguration, clock: Clock, lifeline: Lifeline) -> None:
    """Run the core until the supervisor goes or the task is cancelled.

    Raises:
        CommandError: it cannot work with this configuration or state.
    """
    needs_upkeep = asyncio.Event()
    try:
        state = StateFolder(loaded.state_folder)
        with (
            state.locked(inherited=lifeline.state_lock),
            contextlib.closing(
                InstanceIndex(state.instances, must_exist=state.boots > 0, needs_upkeep=needs_upkeep.set)
            ) as index,
        ):
            await _run_locked(loaded, state, index, clock, lifeline, needs_upkeep)
    except (StateError, InstanceIndexError) as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    except (DocumentError, MappingError, SecretError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


async def _run_locked(
    loaded: LoadedConfiguration,
    state: StateFolder,
    index: InstanceIndex,
    clock: Clock,
    lifeline: Lifeline,
    needs_upkeep: asyncio.Event,
) -> None:
    mappings = load_shipped_mappings()
    patterns = [pattern for mapping in mappings.values() for pattern in secret_patterns(mapping)]
    epoch = count_start(state, index)
    feed: FeedServer | None = None
    inventory = Inventory(
        state.identity,
        epoch,
        ClassRegistry(mappings),
        index,
        lambda batch: feed.publish(batch) if feed else None,
    )
    surroundings = Surroundings(
        inventory, mappings, SecretRules(patterns), clock, loaded.folder, epoch, lifeline.metrics
    )
    sources = [source_of(name, settings, surroundings) for name, settings in loaded.settings.sources.items()]
    hello = Hello(VERSION, epoch, state.identity, clock.now())
    limit = loaded.settings.feed.max_waiting_records
    feed = FeedServer(loaded.feed_socket, hello, inventory.snapshot, limit)
    try:
        await feed.start()
    except (OSError, ValueError) as error:
        raise CommandError(ExitCode.CONFIGURATION, f"the feed cannot be served: {error}") from error
    lifeline.metrics.add("feed", partial(feed_readings, feed))
    lifeline.metrics.add("sources", partial(source_readings, inventory))
    lifeline.metrics.add("index", partial(index_readings, index, inventory, state.instances))
    tune_garbage_collection()
    lifeline.ready()
    log.info("core-ready", epoch=epoch, sources=sorted(loaded.settings.sources), feed=str(loaded.feed_socket))
    try:
        await until_one_ends(
            lifeline.parent_gone(),
            _tick(inventory, clock),
            keep_index(index, clock, needs_upkeep),
            *(run() for run in sources),
        )
    finally:
        await feed.close()


async def _tick(inventory: Inventory, clock: Clock) -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        inventory.tick(clock.now())
