"""The core process: the real sessions, inventory, instance index and subscriptions, until it is killed."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from gateway.eventlog.last_state import EVENTS, LastEvents, LastState, events_value
from gateway.eventlog.past_events import Page
from gateway.eventlog.record import LogRecord
from gateway.feed.client import SILENCE_SECONDS
from gateway.feed.messages import VERSION, FrameReader, RequestReader, encode
from gateway.feed.operations import OperationAnswer, OperationRequest
from gateway.feed.records import Alive, Batch, FeedMessage, Hello, PastEventsRequest, Place
from gateway.feed.server import ALIVE_SECONDS
from gateway.feed.subscription import Subscription
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import BatchSettings, Inventory
from gateway.inventory.source import SourceInventory
from gateway.links.durable_queue import Ledger as Deliveries
from gateway.mapping.files import secret_patterns
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.observations import Observation
from gateway.model.operations import Answer
from gateway.model.secrets import SecretRules
from gateway.model.source_kinds import SOURCE_KINDS
from gateway.model.times import MILLISECOND, SECOND
from gateway.operations.audit import Audit, Redaction
from gateway.operations.manager import ManagerSettings, OperationManager
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import RoleSet
from gateway.service.processes.event_log import AckTracker
from gateway.service.processes.operations import CoreOperations, RecordingLog
from gateway.service.state.past_events import PastEventService
from gateway.service.state.restored_records import restored_events, restored_operations
from gateway.snmp.notifications.backlog import place_of
from gateway.sources.rabbitmq.source import RabbitMqSource
from tests.components.opened_index import opened_index
from tests.components.permissions import Permission, policy_of
from tests.components.policy import UNRESTRICTED
from tests.simulation.index_disk import IndexDisk
from tests.simulation.loop import VirtualLoop
from tests.simulation.pipes import QUICK, Pipe
from tests.simulation.processes import Process
from tests.simulation.scheduler import Clock, Scheduler, Timer
from tests.simulation.violations import demand

GATEWAY = "7b0c5b3e"
INDEX = "instances.sqlite3"
_IN_SOCKET = 4
"""The number of messages that the socket between core and front end holds before the writer must wait."""

_END = b""

_ALIVE = int(ALIVE_SECONDS * SECOND)
_SILENCE = int(SILENCE_SECONDS * SECOND)

DEADLINE = 10 * SECOND
"""The deadline of operations."""

_SLICES = (1, 3, 1000)
"""The number of objects that a core applies in one go, by its epoch; few, so that slices interleave."""

_AT_ONCE = 4
"""The number of concurrent operations of one source; few, so that some wait."""


class SourceRun(Protocol):
    """One source's part of a core: sessions and connections."""

    def stop(self) -> None:
        """Stop because the core is killed."""


@dataclass(frozen=True)
class Parts:
    """The real parts that a simulation is made of; tests replace one to check that the fault is detected."""

    index: Callable[[Path], InstanceIndex] = opened_index
    inventory: type[Inventory] = Inventory
    subscription: type[Subscription] = Subscription
    manager: type[OperationManager] = OperationManager
    ledger: Callable[[Deliveries], Deliveries] = lambda ledger: ledger
    rabbitmq: type[RabbitMqSource] = RabbitMqSource


@dataclass(slots=True)
class Surroundings:
    """The surroundings that a core is started with.

    Attributes:
        published: called with every batch that leaves the inventory, before all other receivers.
        last_state: returns the state of the sources of these names at the end of the log.
        begins: called with a core's inventory when its sources are known and before anything is observed,
            and with a function that returns the first values of each segment; returns the log of that core.
        last_events: returns the events of earlier cores in the log.
        logged_events: returns the records of all events in the log.
        unfinished: returns the records of operations that were begun and have no end in the log.
        permissions: the permissions of users.
        loop: the event loop for asynchronous code.
        sources: starts each source's part, by name.
        kinds: the kinds of the sources, by name.
        index_disk: the disk of the folder, for the files of the instance index.
        natively: names of the sources whose dialect has a request of its own to set properties.
        durable: names of the sources with a durable subscription.
        acks: returns the deliveries that the log has, for the core that began last.
        feed_limit: the number of records that may wait for a subscriber.
    """

    scheduler: Scheduler
    clock: Clock
    folder: Path
    mappings: Mapping[str, MappingFile]
    published: Callable[[Batch], None]
    last_state: Callable[[Collection[str]], LastState]
    begins: Callable[[Inventory, Callable[[], dict[str, object]]], RecordingLog]
    last_events: Callable[[], LastEvents]
    logged_events: Callable[[], Sequence[LogRecord]]
    unfinished: Callable[[], Sequence[LogRecord]]
    permissions: Sequence[Permission]
    loop: VirtualLoop
    index_disk: IndexDisk
    sources: dict[str, Callable[[Core, SourceInventory], SourceRun]] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    natively: frozenset[str] = frozenset()
    durable: frozenset[str] = frozenset()
    acks: Callable[[], AckTracker] | None = None
    feed_limit: int = 100_000


class Core:
    """One run of the core.

    Args:
        around: its surroundings.
        epoch: its epoch.
        parts: the parts that it is made of.

    Attributes:
        last: the state of sources at the end of the log.
        parts: the parts that it is made of.
    """

    def __init__(self, around: Surroundings, epoch: int, parts: Parts) -> None:
        self.epoch = epoch
        self.clock = around.clock
        self.loop = around.loop
        self.feeds: list[Feed] = []
        self.process = Process()
        self._around = around
        self.parts = parts
        self._is_alive = True
        self.process.run(self._start)

    def _start(self) -> None:
        around, parts, epoch = self._around, self.parts, self.epoch
        self._index = parts.index(around.folder / INDEX)
        self._index.start(GATEWAY, epoch)
        classes = ClassRegistry(around.mappings)
        self._timers: dict[Callable[[], None], Timer] = {}
        slicing = BatchSettings(self._apply_soon, _SLICES[epoch % len(_SLICES)])
        self.inventory = parts.inventory(GATEWAY, epoch, classes, self._index, self._publish, slicing)
        self.new_subscription = partial(parts.subscription, epoch, around.feed_limit)
        self.hello = Hello(VERSION, epoch, GATEWAY, self.clock.now())
        self.last = around.last_state(
            [name for name, kind in around.kinds.items() if SOURCE_KINDS[kind].read_whole]
        )
        known = {
            name: self.inventory.add_source(
                name, kind, 1000, sets_natively=name in around.natively, whole=name in around.durable
            )
            for name, kind in around.kinds.items()
        }
        unfinished, recorded = around.unfinished(), around.last_events()
        log = around.begins(self.inventory, partial(self._facts, recorded.made))
        patterns = [pattern for mapping in around.mappings.values() for pattern in secret_patterns(mapping)]
        self.manager = parts.manager(
            self.inventory,
            classes,
            policy_of(around.permissions),
            Marks(around.mappings),
            Audit(GATEWAY, epoch, Redaction(SecretRules(patterns))),
            ManagerSettings(DEADLINE, _AT_ONCE),
        )
        self.operations = CoreOperations(self.manager, self.inventory, self.clock, log)
        numbers = {name: source.identity.number for name, source in known.items()}
        self.operations.recover(restored_operations(unfinished, numbers))
        names = {object_id: record.object_name or "" for object_id, record in self.last.objects.items()}
        events = restored_events(recorded, GATEWAY, classes, numbers, names)
        self.inventory.recall(events, recorded.made)
        policy = PolicyPublisher(RoleSet(), Marks(around.mappings), (), classes.records)
        self.past = PastEventService(
            GATEWAY, self._read_past, None, self.inventory, classes, policy, self._publish_tables
        )
        self._runs = [start(self, known[name]) for name, start in around.sources.items()]
        self._every(SECOND, lambda: self.inventory.tick(self.clock.now()))
        self._every(15 * SECOND, self._keep_index)

    async def _read_past(self, after: Place, until: Place, limit: int) -> Page:
        """Return a page of the events that the log has now."""
        found = [
            record
            for record in self._around.logged_events()
            if (place := place_of(record.event_id or "")) is not None and after < place <= until
        ][:limit]
        last = self._around.last_events()
        through = place_of(found[-1].event_id or "") if len(found) == limit else until
        return Page(found, last.schemas, last.classes, through or until)

    def _publish_tables(self, batch: Batch) -> None:
        for feed in self.feeds:
            feed.offer(batch)

    def observed(self, source: SourceInventory, observations: tuple[Observation, ...]) -> None:
        """Process the observations of one message body."""
        self.inventory.observed(source, observations, self.clock.now())

    def answered(self, source: SourceInventory) -> Callable[[Answer], None]:
        """Return the handler of answers for a source (`gateway.service.sources.source_context`)."""
        return lambda answer: self.inventory.afterwards(source, lambda: self.operations.answered(answer))

    def ledger(self, source: str) -> Deliveries:
        """Return the record of the deliveries of a source that the log has."""
        assert self._around.acks is not None
        return self.parts.ledger(self._around.acks().of(source))

    def subscribe(self, northbound: Northbound) -> Feed:
        """Connect a front end; the socket accepts the connection even while the core is stopped."""
        return Feed(self._around.scheduler, self, northbound)

    def kill(self) -> None:
        """Kill the core as with kill -9: uncommitted data is lost, and data in sockets still arrives."""
        self._is_alive = False
        self._around.loop.spawn(self._end_operations())
        for timer in self._timers.values():
            timer.cancel()
        for run in self._runs:
            run.stop()
        for feed in tuple(self.feeds):
            feed.core_died()
        self.process.end()
        # Closed without a commit: SQLite takes back what was begun.
        self._index._database.close()  # noqa: SLF001  nothing but a kill ends like this

    async def _end_operations(self) -> None:
        """End the tasks of operations; their results are discarded."""
        with contextlib.suppress(sqlite3.ProgrammingError):
            await self.operations.__aexit__(None, None, None)

    def _facts(self, made: Mapping[int, int]) -> dict[str, object]:
        """Return the values at the begin of each segment, as `gateway.service.processes.core` does."""
        events = events_value({**made, self.epoch: self.inventory.events_made})
        return {"gateway": GATEWAY, "boot": self.epoch, EVENTS: events}

    def _keep_index(self) -> None:
        self._index.checkpoint()
        self._around.index_disk.synced()

    def _publish(self, batch: Batch) -> None:
        if not self._is_alive:
            return  # what was to come in the very instant of its end
        self._around.published(batch)
        for feed in self.feeds:
            feed.offer(batch)
        self.operations.noticed(batch)

    def _apply_soon(self) -> None:
        """Schedule the application of remaining objects; other actions that are due may come first."""
        action = self.inventory.go_on
        if action not in self._timers:
            self._timers[action] = self._around.scheduler.after(MILLISECOND, self._apply)

    def _apply(self) -> None:
        del self._timers[self.inventory.go_on]
        self.inventory.go_on()

    def _every(self, interval: int, action: Callable[[], None]) -> None:
        def turn() -> None:
            action()
            self._timers[turn] = self._around.scheduler.after(interval, turn)

        self._timers[turn] = self._around.scheduler.after(interval, turn)


class Northbound(Protocol):
    """The handler of a front end's feed (`gateway.feed.client.Subscriber`)."""

    def received(self, message: FeedMessage) -> None:
        """Process a message of the feed."""

    def ended(self) -> None:
        """Process the end of the feed."""


class Feed:
    """One subscriber's connection, as `gateway.feed.server` serves it and `gateway.feed.client` reads it.

    It is also the stream to which the subscriber writes its requests (`asyncio.StreamWriter`).
    """

    def __init__(self, scheduler: Scheduler, core: Core, northbound: Northbound) -> None:
        self.subscription = core.new_subscription()
        self.transport = self
        self._core = core
        self._requests = RequestReader()
        self._unanswered: set[int] = set()
        self._from_northbound: Pipe[bytes] = Pipe(scheduler, self._receive, QUICK)
        self._from_northbound.owner = core.process
        self._scheduler = scheduler
        self._northbound = northbound
        self._frames = FrameReader()
        self._socket: Pipe[bytes] = Pipe(scheduler, self._read, QUICK)
        self._open = True
        self._reported_at = self._received_at = scheduler.now
        self._listen()
        core.process.run(self._accept)

    def _accept(self) -> None:
        if self._open:
            self._core.feeds.append(self)
            self._announce(encode(self._core.hello))
            self._write()
            self._live()

    def _live(self) -> None:
        """Send a sign of life at intervals in which no other message was sent."""
        if self._open:
            if self._scheduler.now - self._reported_at >= _ALIVE and len(self._socket) < _IN_SOCKET:
                self._announce(encode(Alive()))
            self._scheduler.after(_ALIVE, self._live)

    def _listen(self) -> None:
        """End the connection when the core has been silent for too long."""
        left = self._received_at + _SILENCE - self._scheduler.now
        if not self._open:
            return
        if left > 0:
            self._scheduler.after(left, self._listen)
        else:
            self.hang_up()
            self._northbound.ended()

    def offer(self, batch: Batch) -> None:
        """Offer a batch to the subscription."""
        if self._open:
            self.subscription.offer(batch)
            self._write()

    def slow_down(self, delay: tuple[int, int]) -> None:
        """Set the time that the front end takes for each message."""
        self._socket.delay = delay

    def core_died(self) -> None:
        """Close the feed after the core's end; the socket is still read, the last message perhaps in part."""
        self._open = False
        self._from_northbound.cut()
        if self._scheduler.random.random() < 0.5:
            message = self.subscription.take()
            if message is not None:
                octets = encode(message)
                self._socket.put(octets[: self._scheduler.random.randrange(1, len(octets))])
        self._socket.put(_END)

    def hang_up(self) -> None:
        """Close the feed from the front end's side; requests that were written are still read."""
        self._open = False
        self._socket.cut()
        if self in self._core.feeds:
            self._core.feeds.remove(self)

    def abort(self) -> None:
        """Close the feed, and report its end to the front end."""
        self.hang_up()
        self._scheduler.after(0, self._northbound.ended)

    def is_closing(self) -> bool:
        """Return whether the feed is closed for writing."""
        return not self._open

    def get_write_buffer_size(self) -> int:
        """Return 0: the socket accepts all octets at once."""
        return 0

    def write(self, octets: bytes) -> None:
        """Send octets of a request to the core."""
        self._from_northbound.put(octets)

    def _receive(self, octets: bytes) -> None:
        for request in self._requests.feed(octets):
            if isinstance(request, PastEventsRequest):
                self._core.process.run(partial(self._recall, request))
                continue
            assert isinstance(request, OperationRequest), "these norths want to be told of everything"
            self._take(request)

    def _take(self, request: OperationRequest) -> None:
        demand(request.request not in self._unanswered, f"{request} is asked twice")
        self._unanswered.add(request.request)
        self._core.operations.submit(request, self._answered)

    def _recall(self, request: PastEventsRequest) -> None:
        self._core.loop.spawn(self._answer_past(request))

    async def _answer_past(self, request: PastEventsRequest) -> None:
        answer = await self._core.past.page(request.after, request.until, request.limit)
        if self._open:
            self.subscription.answer(msgspec.structs.replace(answer, request=request.request))
            self._write()

    def _answered(self, answer: OperationAnswer) -> None:
        demand(answer.request in self._unanswered, f"{answer} answers nothing")
        self._unanswered.remove(answer.request)
        if self._open:
            self.subscription.answer(answer)
            self._write()

    def _write(self) -> None:
        while self._open and len(self._socket) < _IN_SOCKET:
            if self.subscription.needs_snapshot:
                records, sequence = self._core.inventory.snapshot()
                self.subscription.start_snapshot((UNRESTRICTED, *records), sequence)
            message = self.subscription.take()
            if message is None:
                return
            self._announce(encode(message))

    def _announce(self, octets: bytes) -> None:
        self._reported_at = self._scheduler.now
        self._socket.put(octets)

    def _read(self, octets: bytes) -> None:
        self._received_at = self._scheduler.now
        if octets == _END:
            self._socket.cut()
            self._northbound.ended()
            return
        for message in self._frames.feed(octets):
            self._northbound.received(message)
        self._core.process.run(self._write)
