"""Readings of the core: its feed, its sources, its instance index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gateway.eventlog.retention import LogFileSettings
from gateway.feed.records import EventLogState
from gateway.feed.server import FeedServer
from gateway.inventory.alarms import MAX_ALARMS
from gateway.inventory.instances import MAX_RETIRED, MAX_ROW, InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.inventory.source import SourceInventory
from gateway.links.durable_queue import KEPT_PREFETCH, DurableQueueCounts, Loss, Refusal
from gateway.links.handshakes import Failure, Handshakes
from gateway.model.observations import SourceState
from gateway.model.operations import Outcome
from gateway.model.times import SECOND
from gateway.operations.manager import OperationManager
from gateway.operations.reconciler import MAX_PENDING
from gateway.service.metrics import families
from gateway.service.metrics.families import Family, Reading
from gateway.service.processes.event_log import CoreEventLog

SOURCE_COUNTERS: Mapping[str, Family] = {
    "messages": families.SOURCE_MESSAGES,
    "octets": families.SOURCE_BYTES,
    "protocol_errors": families.SOURCE_PROTOCOL_ERRORS,
    "refused": families.SOURCE_REFUSED,
    "resyncs": families.SOURCE_RESYNCS,
    "gaps": families.SOURCE_GAPS,
    "objects_created": families.SOURCE_CREATED,
    "objects_deleted": families.SOURCE_DELETED,
    "objects_refused": families.SOURCE_OBJECTS_REFUSED,
    "objects_unshown": families.SOURCE_OBJECTS_UNSHOWN,
    "alarms_refused": families.SOURCE_ALARMS_REFUSED,
    "unknown_class": families.SOURCE_UNKNOWN,
    "events": families.SOURCE_EVENTS,
}
"""The families of a source's counters (`gateway.inventory.source.SHOWN_COUNTERS`)."""


def feed_readings(feed: FeedServer) -> Iterator[Reading]:
    """Yield the readings of the feed's server."""
    counters = feed.counters
    yield families.FEED_SUBSCRIBERS.at(feed.subscribers)
    yield families.FEED_WAITING.at(feed.waiting)
    yield families.FEED_WAITING_MAX.at(feed.limit)
    yield families.FEED_MERGES.at(counters.merges)
    yield families.FEED_OVERFLOWS.at(counters.overflows)
    yield families.FEED_SNAPSHOTS.at(counters.snapshots)
    yield families.FEED_SNAPSHOT_RECORDS.at(counters.snapshot_records)
    yield families.FEED_BATCHES.at(counters.batches)
    yield families.FEED_BYTES.at(counters.octets)
    yield families.FEED_REFUSED.at(counters.refused)
    yield families.FEED_REQUESTS.at(counters.requests)
    yield families.FEED_HUNG_UP.at(counters.hung_up)


def operation_readings(manager: OperationManager) -> Iterator[Reading]:
    """Yield the readings of operations."""
    for outcome in Outcome:
        yield families.OPERATIONS_ENDED.at(manager.counters[outcome], outcome.value)
    yield families.OPERATIONS_RUNNING.at(manager.running)
    yield families.OPERATIONS_WAITING.at(manager.waiting)
    yield families.OPERATIONS_UNSETTLED.at(manager.pending_outcomes)
    yield families.OPERATIONS_UNSETTLED_MAX.at(MAX_PENDING)


def source_readings(inventory: Inventory) -> Iterator[Reading]:
    """Yield the readings of every source."""
    for source in inventory.sources:
        yield from _of_source(source)


def index_readings(index: InstanceIndex, inventory: Inventory, path: Path) -> Iterator[Reading]:
    """Yield the readings of the instance index; ``path`` is its file."""
    usage = index.usage
    for source in inventory.sources:
        highest = usage.highest_rows.get(source.identity.number, 0)
        yield families.INDEX_ROW.at(highest, source.identity.name)
    yield families.INDEX_ROW_MAX.at(MAX_ROW)
    yield families.INDEX_RETIRED.at(usage.retired)
    yield families.INDEX_RETIRED_MAX.at(MAX_RETIRED)
    yield families.INDEX_UNSYNCED.at(usage.unsynced)
    yield families.INDEX_WRITTEN.at(not index.trouble)
    yield families.INDEX_RESERVE.at(index.reserve_left)
    yield families.INDEX_UNSHOWN.at(sum(source.unshown for source in inventory.sources))
    yield families.INDEX_BYTES.at(sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")))


def _of_source(source: SourceInventory) -> Iterator[Reading]:
    name = source.identity.name
    for state in SourceState:
        yield families.SOURCE_STATE.at(state is source.state, name, state.value)
    if source.last_received:
        yield families.SOURCE_RECEIVED.at(source.last_received / SECOND, name)
    yield families.SOURCE_OBJECTS.at(len(source), name)
    yield families.SOURCE_OBJECTS_MAX.at(source.max_objects, name)
    yield families.SOURCE_ALARMS.at(source.alarm_count, name)
    yield families.SOURCE_ALARMS_MAX.at(MAX_ALARMS, name)
    for counter, family in SOURCE_COUNTERS.items():
        yield family.at(source.counters[counter], name)


def listener_readings(source: str, limit: int, connections: Callable[[], int]) -> Iterator[Reading]:
    """Yield the readings of a source that listens, which may have ``limit`` connections."""
    yield families.SOURCE_CONNECTIONS.at(connections(), source)
    yield families.SOURCE_CONNECTIONS_MAX.at(limit, source)


def handshake_readings(source: str, handshakes: Handshakes) -> Iterator[Reading]:
    """Yield the readings of the handshakes of a source that listens."""
    for failure in Failure:
        yield families.SOURCE_HANDSHAKES.at(handshakes.failures[failure], source, failure.value)


def kept_queue_readings(source: str, max_length: int, counts: DurableQueueCounts) -> Iterator[Reading]:
    """Yield the readings of a source's durable subscription, whose queue holds ``max_length`` messages."""
    if counts.waiting is not None:
        yield families.KEPT_WAITING.at(counts.waiting, source)
    yield families.KEPT_WAITING_MAX.at(max_length, source)
    yield families.KEPT_UNACKNOWLEDGED.at(counts.unacknowledged, source)
    yield families.KEPT_UNACKNOWLEDGED_MAX.at(KEPT_PREFETCH, source)
    yield families.KEPT_TAKEN.at(counts.taken, source)
    yield families.KEPT_REDELIVERED.at(counts.redelivered, source)
    yield families.KEPT_REPEATED.at(counts.repeated, source)
    yield families.KEPT_ACKNOWLEDGED.at(counts.acknowledged, source)
    yield families.KEPT_DECLARED.at(counts.declared, source)
    for loss in Loss:
        yield families.KEPT_LOSSES.at(counts.losses[loss], source, loss.value)
    for refusal in Refusal:
        yield families.KEPT_REFUSED.at(counts.refusals[refusal], source, refusal.value)


def log_readings(event_log: CoreEventLog, settings: LogFileSettings) -> Iterator[Reading]:
    """Yield the readings of the event log; ``settings`` are those of its files."""
    record = event_log.record
    for state in EventLogState:
        yield families.LOG_STATE.at(state is record.state, state.value)
    yield families.LOG_COMMITTED.at(record.committed)
    yield families.LOG_WAITING.at(record.waiting)
    yield families.LOG_WAITING_MAX.at(settings.max_waiting)
    yield families.LOG_LOST.at(record.lost)
    yield families.LOG_BYTES.at(record.octets)
    yield families.LOG_BYTES_MAX.at(settings.max_size)
    yield families.LOG_SEGMENTS.at(record.segments)
    yield families.LOG_DELETED_FILES.at(record.deleted_files)
    yield families.LOG_DELETED_BYTES.at(record.deleted_octets)
