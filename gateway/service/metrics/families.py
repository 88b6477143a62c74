"""Metric families and their readings: the collectors of a process, and every family of the gateway.

A test compares the table in ``docs/operations.md`` with this module. Names never change meaning. Labels have
few values: those of ``source`` and ``target`` are names from the configuration, those of ``place`` are keys
of it, all others are named in the code.
"""

from __future__ import annotations

import asyncio
import enum
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec
import structlog


class Kind(enum.StrEnum):
    """The kind of a family (Prometheus: metric types)."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Reading(NamedTuple):
    """One sample of a family.

    Attributes:
        family: the name of the family.
        suffix: the addition to the name for a histogram's sample: ``_bucket``, ``_sum``, ``_count``; else
            empty.
        labels: values of the family's labels, in their order; of a bucket, its upper bound after them.
    """

    family: str
    suffix: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family.

    Attributes:
        name: complete, so that of a counter ends in ``_total``.
        help: one sentence for people.
        labels: the names of the labels. Values come from configuration and code only, so there are few.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    def at(self, value: float, *labels: str) -> Reading:
        """Return a reading of this family; ``True`` is 1."""
        assert len(labels) == len(self.labels), self.name
        return Reading(self.name, "", labels, float(value))


class Histogram:
    """The durations of something, counted in buckets.

    Args:
        family: the family, of kind histogram.
        bounds: upper ends of the buckets, ascending, in the family's unit.
        labels: values of the family's labels.
    """

    def __init__(self, family: Family, bounds: Sequence[float], *labels: str) -> None:
        assert family.kind is Kind.HISTOGRAM
        assert len(labels) == len(family.labels), family.name
        self._family = family
        self._bounds = tuple(bounds)
        self._labels = labels
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def readings(self) -> Iterator[Reading]:
        """Yield the readings of the histogram."""
        name, count = self._family.name, 0
        for bound, more in zip((*self._bounds, float("inf")), self._counts, strict=True):
            count += more
            end = "+Inf" if bound == float("inf") else repr(float(bound))
            yield Reading(name, "_bucket", (*self._labels, end), count)
        yield Reading(name, "_sum", self._labels, self._sum)
        yield Reading(name, "_count", self._labels, count)


class Metrics:
    """The readings of a process. A collector replaces an earlier one of the same name."""

    def __init__(self) -> None:
        self._collectors: dict[str, Collector] = {}
        self._slow: dict[str, SlowCollector] = {}

    def add(self, name: str, collector: Collector) -> None:
        """Add a collector, which is asked from now on."""
        self._collectors[name] = collector

    def add_slow(self, name: str, collector: SlowCollector) -> None:
        """Add a collector that has to wait for its answer."""
        self._slow[name] = collector

    def remove(self, name: str) -> None:
        """Remove a collector; an unknown name is ignored."""
        self._collectors.pop(name, None)
        self._slow.pop(name, None)

    async def collect(self) -> list[Reading]:
        """Return all readings. A collector that fails is left out, and logged."""
        readings: list[Reading] = []
        for name, collector in tuple(self._collectors.items()):
            try:
                readings += list(collector())  # all of one collector, or nothing
            except Exception:  # measuring must never end the work that is measured
                log.exception("metrics-failed", collector=name)
        for name, slow in tuple(self._slow.items()):
            try:
                async with asyncio.timeout(SLOW_SECONDS):
                    readings += list(await slow())
            except TimeoutError:
                log.warning("metrics-missing", collector=name, seconds=SLOW_SECONDS)
            except Exception:
                log.exception("metrics-failed", collector=name)
        return readings


def continued(earlier: Iterable[Reading], life: Iterable[Reading]) -> list[Reading]:
    """Return the readings of a process that continue the counts of its earlier lives.

    Args:
        earlier: the readings over all earlier lives.
        life: the readings of the present life, which counts from 0 on.
    """
    readings = {reading[:3]: reading for reading in earlier}
    for reading in life:
        before = readings.get(reading[:3])
        is_counted = bool(reading.suffix) or reading.family.endswith("_total")
        value = before.value + reading.value if before is not None and is_counted else reading.value
        readings[reading[:3]] = reading._replace(value=value)
    return list(readings.values())


_decoder = msgspec.msgpack.Decoder(list[Reading])


def encode_readings(readings: Iterable[Reading]) -> bytes:
    """Return the readings as bytes for another process of the same gateway."""
    return msgspec.msgpack.encode(list(readings))


def decode_readings(octets: bytes) -> list[Reading]:
    """Return the readings that `encode_readings` encoded.

    Raises:
        ValueError: the bytes are something else.
    """
    return _decoder.decode(octets)


PREFIX = "amqp_gateway_"

_all: list[Family] = []


def _family(kind: Kind, name: str, text: str, *labels: str) -> Family:
    family = Family(f"{PREFIX}{name}", kind, text, labels)
    assert (kind is Kind.COUNTER) == name.endswith("_total"), name
    _all.append(family)
    return family


def _counter(name: str, text: str, *labels: str) -> Family:
    return _family(Kind.COUNTER, f"{name}_total", text, *labels)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return _family(Kind.GAUGE, name, text, *labels)


def _histogram(name: str, text: str, *labels: str) -> Family:
    return _family(Kind.HISTOGRAM, name, text, *labels)


# The gateway and its processes.
BUILD = _gauge("build_info", "Always 1; the labels say what runs.", "version", "python")

METRICS_REFUSED = _counter("metrics_connections_refused", "Connections to this endpoint beyond its bound.")

METRICS_HANDSHAKES = _counter(
    "metrics_failed_handshakes", "Handshakes of TLS with this endpoint that failed.", "reason"
)

PROCESS_UP = _gauge("process_up", "1 where the process answered when it was asked just now.", "process")

RESTARTS = _counter("process_restarts", "Times that a process died and was started again.", "process")

LOG_LINES_LOST = _counter("process_log_lines_lost", "Lines of its log that were lost.", "process")

PROCESS_START = _gauge("process_start_time_seconds", "Start of the process, in Unix time.", "process")

PROCESS_CPU = _counter("process_cpu_seconds", "Processor time of the process.", "process")

PROCESS_MEMORY = _gauge("process_resident_memory_bytes", "Memory that the process has in use.", "process")

PROCESS_FILES = _gauge("process_open_fds", "File descriptors that the process has open.", "process")

PROCESS_MAX_FILES = _gauge("process_max_fds", "File descriptors that it may have open.", "process")

LOOP_LAG = _histogram(
    "event_loop_lag_seconds", "By how much a timer of the process came late, four times a second.", "process"
)

GC_PAUSE = _histogram(
    "gc_pause_seconds", "How long Python's garbage collection held the process.", "process", "generation"
)

CERTIFICATE_ENDS = _gauge(
    "certificate_not_after_timestamp_seconds",
    "When the first certificate ends that this key of the configuration leads to, in Unix time.",
    "place",
)

# Operations: what users have set, called or read again.
OPERATIONS_ENDED = _counter(
    "operations_ended", "Operations that ended, also those that were refused.", "outcome"
)

OPERATIONS_RUNNING = _gauge("operations_running", "Operations under way.")

OPERATIONS_WAITING = _gauge("operations_waiting", "Operations that wait for their turn.")

OPERATIONS_UNSETTLED = _gauge("operations_unsettled", "Operations whose outcome is not known yet.")

OPERATIONS_UNSETTLED_MAX = _gauge(
    "operations_unsettled_max",
    "Operations that may wait for that; beyond, the outcome of the oldest stays unknown.",
)

# The feed, as the core serves it and as a front end takes it.
FEED_SUBSCRIBERS = _gauge("feed_subscribers", "Front ends that read the feed.")

FEED_WAITING = _gauge("feed_waiting_records", "Records that wait for the slowest of them.")

FEED_WAITING_MAX = _gauge("feed_waiting_records_max", "Records that may wait for one of them.")

FEED_MERGES = _counter("feed_merges", "Times that records were merged for a slow front end.")

FEED_OVERFLOWS = _counter("feed_overflows", "Times that a slow front end needed a new snapshot.")

FEED_SNAPSHOTS = _counter("feed_snapshots", "Snapshots sent to front ends.")

FEED_SNAPSHOT_RECORDS = _gauge("feed_snapshot_records", "Records of the last of these snapshots.")

FEED_BATCHES = _counter("feed_batches", "Batches of changes that were published.")

FEED_BYTES = _counter("feed_sent_bytes", "Bytes written to front ends.")

FEED_REFUSED = _counter("feed_connections_refused", "Processes of other users that tried to read the feed.")

FEED_REQUESTS = _counter("feed_requests", "Operations that front ends asked for, checks among them.")

FEED_HUNG_UP = _counter("feed_hung_up", "Front ends that were disconnected because of what they sent.")

FRONT_END_CONNECTED = _gauge(
    "north_feed_connected", "1 while the process is connected to the core.", "process"
)

FRONT_END_MESSAGES = _counter(
    "north_feed_messages", "Messages of the core that the process received.", "process"
)

FRONT_END_SNAPSHOTS = _counter("north_feed_snapshots", "Snapshots that the process received.", "process")

FRONT_END_REFUSED = _counter(
    "north_feed_refused_records", "Records that name something unknown: a fault of the gateway.", "process"
)

FRONT_END_OBJECTS = _gauge("north_objects", "Objects shown.", "process")

FRONT_END_STALE = _gauge("north_stale_objects", "Of these, those that are stale.", "process")

FRONT_END_WITHHELD = _gauge(
    "north_withheld_objects",
    "Of these, those that have been stale for so long that no values are shown.",
    "process",
)

# Sources.
SOURCE_STATE = _gauge("source_state", "1 for the state that the source is in.", "source", "state")

SOURCE_RECEIVED = _gauge(
    "source_last_heard_timestamp_seconds", "When something was last received from it, in Unix time.", "source"
)

SOURCE_OBJECTS = _gauge("source_objects", "Objects known.", "source")

SOURCE_OBJECTS_MAX = _gauge("source_objects_max", "Objects that may be known.", "source")

SOURCE_ALARMS = _gauge("source_active_alarms", "Active alarms.", "source")

SOURCE_ALARMS_MAX = _gauge("source_active_alarms_max", "Alarms of objects that may be active.", "source")

SOURCE_MESSAGES = _counter("source_messages", "Messages received.", "source")

SOURCE_BYTES = _counter("source_received_bytes", "Bytes of these messages.", "source")

SOURCE_PROTOCOL_ERRORS = _counter("source_protocol_errors", "Messages that were not valid.", "source")

SOURCE_REFUSED = _counter("source_refused_messages", "Messages whose sender is not trusted.", "source")

BODIES_SEALED = _counter("source_protected_sent", "Bodies signed and encrypted.", "source")

BODIES_OPENED = _counter("source_protected_accepted", "Protected bodies accepted.", "source")

BODIES_REFUSED = _counter(
    "source_protected_refused",
    "Bodies refused because they were not protected as required.",
    "source",
    "reason",
)

SOURCE_RESYNCS = _counter("source_resyncs", "Times that everything was read again.", "source")

SOURCE_GAPS = _counter("source_gaps", "Gaps: times in which something was missed.", "source")

SOURCE_CREATED = _counter("source_objects_created", "Objects created.", "source")

SOURCE_DELETED = _counter("source_objects_deleted", "Objects deleted.", "source")

SOURCE_OBJECTS_REFUSED = _counter("source_objects_refused", "Objects beyond the bound.", "source")

SOURCE_OBJECTS_UNSHOWN = _counter(
    "source_objects_unshown", "Objects that waited, not shown, for the disk of the state folder.", "source"
)

SOURCE_ALARMS_REFUSED = _counter("source_alarms_refused", "Alarms beyond the bound.", "source")

SOURCE_UNKNOWN = _counter(
    "source_unknown_classes", "Objects and events that came before their schema.", "source"
)

SOURCE_EVENTS = _counter("source_events", "Events received.", "source")

SOURCE_CONNECTIONS = _gauge("source_connections", "Connections to a source that listens.", "source")

SOURCE_CONNECTIONS_MAX = _gauge("source_connections_max", "Connections that it may have.", "source")

SOURCE_HANDSHAKES = _counter(
    "source_failed_handshakes",
    "Handshakes of TLS with a source that listens, which failed.",
    "source",
    "reason",
)

# Durable subscriptions: of sources that have one.
KEPT_WAITING = _gauge(
    "kept_queue_waiting_messages",
    "Messages in the durable queue at the last look, without those taken; none while it is not consumed.",
    "source",
)

KEPT_WAITING_MAX = _gauge(
    "kept_queue_waiting_messages_max", "Messages beyond which the broker drops the oldest.", "source"
)

KEPT_UNACKNOWLEDGED = _gauge(
    "kept_queue_unacknowledged_messages", "Messages taken from it that wait for the event log.", "source"
)

KEPT_UNACKNOWLEDGED_MAX = _gauge(
    "kept_queue_unacknowledged_messages_max", "Messages that may wait for it; then none is taken.", "source"
)

KEPT_TAKEN = _counter("kept_queue_deliveries", "Messages taken from the durable queue.", "source")

KEPT_REDELIVERED = _counter(
    "kept_queue_redeliveries", "Of these, messages that were taken before, and not acknowledged.", "source"
)

KEPT_REPEATED = _counter(
    "kept_queue_repeated",
    "Of these, messages that the event log had already; they are not applied again.",
    "source",
)

KEPT_ACKNOWLEDGED = _counter(
    "kept_queue_acknowledged", "Messages acknowledged: their records are on the disk.", "source"
)

KEPT_DECLARED = _counter(
    "kept_queue_declared", "Times that the durable queue was declared: it was new, or had expired.", "source"
)

KEPT_LOSSES = _counter(
    "kept_queue_losses", "Times that messages were lost, or may have been: each is a gap.", "source", "reason"
)

KEPT_REFUSED = _counter("kept_queue_refused", "Times that the broker refused it.", "source", "reason")

# Sources of kind rabbitmq.
AGENT_REQUESTS = _counter(
    "agent_requests", "Requests to the management API, by how they ended.", "source", "request", "outcome"
)

AGENT_REQUEST_SECONDS = _histogram("agent_request_seconds", "How long they took.", "source")

# The instance index.
INDEX_ROW = _gauge(
    "instance_index_highest_row", "Highest row number reserved for any class of the source.", "source"
)

INDEX_ROW_MAX = _gauge("instance_index_highest_row_max", "Row number after which numbers begin again.")

INDEX_RETIRED = _gauge("instance_index_retired", "Numbers kept for objects that are gone.")

INDEX_RETIRED_MAX = _gauge("instance_index_retired_max", "Numbers that may be kept.")

INDEX_UNSYNCED = _gauge("instance_index_unsynced_changes", "Changes that a power cut would lose.")

INDEX_WRITTEN = _gauge("instance_index_written", "1 if the disk takes row numbers, else 0.")

INDEX_RESERVE = _gauge("instance_index_reserve_bytes", "What is left of the reserve for a full disk.")

INDEX_UNSHOWN = _gauge(
    "instance_index_unshown_objects", "Objects that wait, not shown, for the disk of the state folder."
)

INDEX_BYTES = _gauge("instance_index_bytes", "Size of its files on the disk.")

# The SNMP agent.
SNMP_PACKETS = _counter("snmp_packets", "Datagrams received.")

SNMP_REQUESTS = _counter("snmp_requests", "Requests of a known community.", "type")

SNMP_FAILURES = _counter(
    "snmp_failed_requests", "Datagrams without an answer, or with an error for one.", "reason"
)

SNMP_LOST_IN_KERNEL = _counter(
    "snmp_lost_in_kernel", "Datagrams that the kernel dropped before the agent could read them."
)

SNMP_SETS = _counter(
    "snmp_sets", "SETs by error-status, as of version 2c; a retransmission is not counted.", "status"
)

SNMP_SET_VARIABLES = _counter("snmp_set_variables", "Variables that were set.")

SNMP_SET_RETRANSMISSIONS = _counter(
    "snmp_set_retransmissions", "Retransmitted SETs, which were not carried out again."
)

SNMP_SETS_WITHOUT_ROOM = _counter(
    "snmp_sets_without_room", "SETs refused because too many wait, or are remembered."
)

SNMP_SETS_RUNNING = _gauge("snmp_sets_running", "SETs that wait for the core.")

SNMP_SETS_RUNNING_MAX = _gauge("snmp_sets_running_max", "How many may wait.")

SNMP_SETS_REMEMBERED = _gauge("snmp_sets_remembered", "SETs whose retransmission would be recognised.")

SNMP_SETS_REMEMBERED_MAX = _gauge("snmp_sets_remembered_max", "How many may be remembered.")

SNMP_COMMANDS = _gauge("snmp_commands", "Rows of the table of commands.")

SNMP_COMMANDS_RUNNING = _gauge(
    "snmp_commands_running", "Commands under way, also those whose row was destroyed."
)

SNMP_COMMANDS_ENDED = _counter("snmp_commands_ended", "Commands that ended, by outcome.", "outcome")

SNMP_NOT_SHOWN = _gauge("snmp_not_shown", "What has no place in a MIB because bounds are reached.", "what")

SNMP_PROVISIONAL = _gauge("snmp_provisional", "What is shown in the MIB of this site.", "what")

NOTIFICATIONS_SENT = _counter("snmp_notifications_sent", "Traps and informs sent, each once.", "target")

NOTIFICATIONS_ACKNOWLEDGED = _counter(
    "snmp_notifications_acknowledged", "Informs that were acknowledged.", "target"
)

NOTIFICATIONS_SUPPRESSED = _counter(
    "snmp_notifications_suppressed", "Traps left out because of the configured rate.", "target"
)

NOTIFICATIONS_FAILED = _counter(
    "snmp_notifications_failed",
    "Notifications given up for another reason, and all informs that were not delivered.",
    "target",
)

NOTIFICATIONS_WAITING = _gauge(
    "snmp_notifications_waiting",
    "Informs that are not acknowledged yet, and notifications that wait to be sent.",
    "target",
)

NOTIFICATIONS_OWED = _gauge(
    "snmp_notifications_owed", "Events that are still to be sent late, from the event log.", "target"
)

NOTIFICATIONS_MISSED = _counter(
    "snmp_notifications_missed",
    "Events that could not be sent because the event log does not have them; they may have been for others.",
    "target",
)

NOTIFICATIONS_WAITING_MAX = _gauge("snmp_notifications_waiting_max", "How many may wait.")

# The JMX agent.
JMX_WAITING = _gauge("jmx_waiting_commands", "Commands that wait for the virtual machine.")

JMX_WAITING_MAX = _gauge("jmx_waiting_commands_max", "Commands beyond which no more of the feed is read.")

JMX_FAILED = _counter("jmx_failed_commands", "Commands that the virtual machine could not carry out.")

JMX_EMITTED = _counter("jmx_notifications", "Events sent to listeners.")

JMX_BUFFER = _gauge(
    "jmx_notification_buffer_max", "Notifications kept for clients that fetch them late; older ones are lost."
)

JMX_UNFIT = _gauge("jmx_unfit_elements", "Elements with a value that could not be shown.")

JMX_STARTS = _counter("jmx_virtual_machine_starts", "Virtual machines that were started.")

JMX_LOGINS = _counter("jmx_logins", "Attempts to log in.", "outcome")

JMX_REFUSED_REQUESTS = _counter(
    "jmx_refused_requests", "Requests of clients of JMX that were refused without being carried out."
)
JMX_LINES_LEFT_OUT = _counter(
    "jmx_lines_left_out", "Lines of the virtual machine's own output that were too many for the log."
)

JMX_CLIENTS = _gauge("jmx_clients", "Clients that are logged in.")

JMX_CLIENTS_MAX = _gauge("jmx_clients_max", "Clients that may be.")

JMX_OPERATIONS = _gauge("jmx_operations", "Operations that clients of JMX wait for.")

JMX_OPERATIONS_MAX = _gauge("jmx_operations_max", "Operations that they may wait for.")

JMX_HEAP = _gauge("jmx_heap_used_bytes", "Heap in use.")

JMX_HEAP_MAX = _gauge("jmx_heap_max_bytes", "Heap that may be used.")

JMX_GC_SECONDS = _counter("jmx_gc_seconds", "Time that the virtual machine's garbage collection took.")

JMX_GC_COLLECTIONS = _counter("jmx_gc_collections", "Garbage collections of the virtual machine.")

JMX_THREADS = _gauge("jmx_threads", "Threads of the virtual machine.")

# The event log.
LOG_STATE = _gauge("log_state", "1 for the state that the event log is in.", "state")

LOG_COMMITTED = _gauge(
    "log_committed_seq", "Sequence number of the last record on the disk; it never begins again."
)

LOG_WAITING = _gauge("log_waiting_records", "Records that wait for the disk.")

LOG_WAITING_MAX = _gauge("log_waiting_records_max", "Records that may wait.")

LOG_LOST = _counter("log_lost_records", "Records that were not taken; gap records count them.")

LOG_BYTES = _gauge("log_bytes", "Size of all files of the log and the lake.")

LOG_BYTES_MAX = _gauge("log_bytes_max", "Size beyond which the oldest are deleted.")

LOG_SEGMENTS = _gauge("log_segments", "Segments that are not Parquet yet, with the one that is written.")

LOG_DELETED_FILES = _counter("log_deleted_files", "Files deleted because of size or age.")

LOG_DELETED_BYTES = _counter("log_deleted_bytes", "Bytes of these files.")

# The compactor.
COMPACTION_WAITING = _gauge("log_compaction_waiting_segments", "Segments that wait to become Parquet.")

COMPACTION_SEGMENTS = _counter("log_compaction_segments", "Segments that became Parquet.")

COMPACTION_DAMAGED = _counter(
    "log_compaction_damaged_segments", "Of these, damaged ones that were set aside."
)

COMPACTION_RECORDS = _counter("log_compaction_records", "Records in the files that were made.")

COMPACTION_READ = _counter("log_compaction_read_bytes", "Bytes of the segments.")

COMPACTION_WRITTEN = _counter("log_compaction_written_bytes", "Bytes of the files that were made.")

COMPACTION_FAILURES = _counter(
    "log_compaction_failures", "Times that a segment could not be compacted; it is tried again."
)

FAMILIES: tuple[Family, ...] = tuple(_all)
"""All families, in the order of the page."""

log = structlog.get_logger(__name__)

SLOW_SECONDS = 1.0
"""Seconds that a process waits for others before it answers without them."""

Collector: TypeAlias = Callable[[], Iterable[Reading]]
"""A function that reads counters that exist anyway: quickly, because it blocks the event loop."""

SlowCollector: TypeAlias = Callable[[], Awaitable[Iterable[Reading]]]
"""A function that waits for another process; an answer that takes longer than `SLOW_SECONDS` is left out."""
