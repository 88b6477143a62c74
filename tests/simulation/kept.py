"""A durable subscription that is killed anywhere between delivery, commit and acknowledgement.

Under test are the real `UnacknowledgedDeliveries` and `AckTracker`, with the log's real naming of deliveries,
its blocks, and the real recovery of a new core. Broker, connections, disk and time are simulated; one seed
makes every choice.
"""

from __future__ import annotations

import asyncio
import enum
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from aio_pika.abc import AbstractIncomingMessage

from gateway.eventlog.last_state import RecordedDeliveries
from gateway.links.durable_queue import DurableQueueCounts, Ledger, UnacknowledgedDeliveries
from gateway.model.times import MILLISECOND, SECOND
from gateway.service.processes.event_log import AckTracker
from tests.simulation.kept_broker import Incoming, KeptBroker, Link, Message
from tests.simulation.kept_log import SOURCE, LogFolder, SimulatedEventLog, Stored, records_of
from tests.simulation.scheduler import Scheduler
from tests.simulation.violations import demand

MESSAGES = 150
"""The number of messages that are published in each simulation."""

CALM = 120 * SECOND
"""The longest time after the last kill until no message waits any more."""

_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108  a folder of a random name is made in it
_LED_TO = ("e", "e", "u", "ue", "ee", "eu", "uee", "")
_TURNS = 6
"""Turns of an event loop: more than a wake-up takes to become an acknowledgement."""


class Instant(enum.StrEnum):
    """The instant at which a core is killed."""

    ARRIVED = "a delivery has arrived, and nobody is told"
    REPORTED = "its records wait for the disk"
    WRITTEN = "some are on the disk, and nobody knows"
    ACKNOWLEDGED = "its acknowledgement is on the way"
    ANY = "at any time"


@dataclass(frozen=True)
class KeptParts:
    """The parts under test; tests replace a part to check that the fault is detected."""

    ledger: Callable[[Ledger], Ledger] = lambda ledger: ledger
    deliveries: type[UnacknowledgedDeliveries] = UnacknowledgedDeliveries
    publishes_late: bool = True


class Judge:
    """The invariants over published messages, records on the disk, and acknowledgements."""

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}
        self.stored: Counter[Stored] = Counter()
        self.cut: Counter[int] = Counter()
        self._dropped: set[int] = set()

    def dropped(self, message: Message) -> None:
        """Record that the broker has dropped a message; it need not be in the log."""
        self._dropped.add(message.serial)

    def acknowledged(self, message: Message) -> None:
        """Check that all events of an acknowledged message are on the disk."""
        missing = [part for part in self._parts(message) if not self.stored[message.serial, part]]
        demand(
            not missing, f"message {message.serial} is acknowledged, and its records {missing} are not there"
        )

    def on_disk(self, records: Iterable[Stored]) -> None:
        """Record that records came to the disk."""
        self.stored.update(records)

    def killed(self) -> None:
        """Count the messages that are on the disk in part; the next core may record only these again."""
        for message in self.messages.values():
            there = [self.stored[message.serial, part] for part in range(len(message.records))]
            if there and min(there) != max(there):
                self.cut[message.serial] += 1

    def conclude(self, log: list[Stored]) -> None:
        """Check, when all is calm, that each delivery was recorded, events once, and in order."""
        demand(Counter(log) == self.stored, "the log has other records than came to the disk")
        for message in self.messages.values():
            reported = [self.stored[message.serial, part] for part in range(len(message.records))]
            events = [reported[part] for part in self._parts(message)]
            if message.serial not in self._dropped:
                demand(all(events), f"message {message.serial} ({message.records}) is told {reported} times")
            most = 1 + self.cut[message.serial]
            demand(
                max(reported, default=0) <= most,
                f"message {message.serial} is told {reported} times, not {most}",
            )
        first = list(dict.fromkeys(serial for serial, _ in log))
        demand(first == sorted(first), "messages are told in another order than they were published")

    @staticmethod
    def _parts(message: Message) -> list[int]:
        """Return the indices of the events; an update may be missing, because the later state replaces it."""
        return [part for part, letter in enumerate(message.records) if letter == "e"]


class Life:
    """One run of a core, from its start to its kill."""

    def __init__(self, simulation: KeptSimulation) -> None:
        self.counts = DurableQueueCounts()
        self.is_dead = False
        self._simulation = simulation
        self._scheduler = simulation.scheduler
        self._loop = asyncio.new_event_loop()
        next_seq, last = simulation.files.recovered()
        self._log = SimulatedEventLog(
            self._scheduler,
            simulation.files,
            next_seq,
            RecordedDeliveries(
                last.deliveries if simulation.parts.publishes_late else (), simulation.scheduler.now
            ),
            simulation.block_records,
            self._on_disk,
            self._settle,
        )
        ledger = AckTracker(self._log, last.deliveries).of(SOURCE)
        self._ledger = simulation.parts.ledger(ledger)
        self._listens = True
        self._link: Link | None = None
        self._deliveries: UnacknowledgedDeliveries | None = None
        self._acknowledging: asyncio.Task[None] | None = None
        self.connect()

    def connect(self) -> None:
        """Consume the queue."""
        if self.is_dead or self._link is not None:
            return
        self._link = self._simulation.broker.consume(self._arrived)
        with suppress(StopIteration):
            self._run()
        self._deliveries = self._simulation.parts.deliveries(
            self._ledger, self._announce, lambda: self._listens, self.counts
        )
        self._acknowledging = self._loop.create_task(self._deliveries.acknowledge())
        self._run()

    def lose_connection(self) -> None:
        """End the connection; it is opened again later."""
        if self._link is not None and not self.is_dead:
            self._disconnect()
            demand(self.counts.unacknowledged == 0, "what is not acknowledged is the broker's again")
            self._scheduler.after(self._scheduler.between(50 * MILLISECOND, 5 * SECOND), self.connect)

    def stop_listening(self) -> None:
        """Stop accepting deliveries for a while."""
        self._listens = False
        self._scheduler.after(self._scheduler.between(MILLISECOND, 5 * SECOND), self._listen)

    def kill(self) -> None:
        """Kill the core as with SIGKILL: this run has no further effect."""
        if not self.is_dead:
            self.is_dead = True
            self._log.kill()
            self._simulation.judge.killed()
            self._scheduler.after(0, self._bury)

    def _bury(self) -> None:
        self._disconnect()
        self._loop.close()

    def _disconnect(self) -> None:
        with self.counts.connection():
            self._simulation.broker.lose()
        self._link = self._deliveries = None
        if self._acknowledging is not None:
            self._acknowledging.cancel()
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._acknowledging)
            self._acknowledging = None

    def _arrived(self, incoming: Incoming) -> None:
        if self.is_dead or self._deliveries is None:
            return
        self._loop.run_until_complete(self._deliveries.arrived(cast(AbstractIncomingMessage, incoming)))
        self._settle()

    def _announce(self, message: AbstractIncomingMessage) -> None:
        reported = cast(Incoming, message).message
        self._simulation.perhaps(Instant.ARRIVED)
        if not self.is_dead:
            self._log.record(records_of(reported))
            self._scheduler.note("core", f"tells {reported.serial}")

    def _listen(self) -> None:
        self._listens = True
        if self._deliveries is not None and not self.is_dead:
            self._deliveries.proceed()
            self._settle()

    def _on_disk(self, records: list[Stored]) -> None:
        self._simulation.judge.on_disk(records)
        if not self.is_dead:
            self._simulation.perhaps(Instant.WRITTEN)

    def _settle(self) -> None:
        """Resume waiting tasks, and then perhaps kill the core."""
        if self.is_dead:
            return
        before = self.counts.acknowledged
        self._run()
        if self.counts.acknowledged > before:
            self._simulation.perhaps(Instant.ACKNOWLEDGED)
        elif self.counts.unacknowledged:
            self._simulation.perhaps(Instant.REPORTED)

    def _run(self) -> None:
        for _ in range(_TURNS):
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()
        if self._acknowledging is not None and self._acknowledging.done():
            self._acknowledging.result()


class KeptSimulation:
    """One run of the simulation.

    Args:
        seed: the seed of every choice.
        parts: the parts under test.

    Attributes:
        kills: the number of kills at each instant.
    """

    def __init__(self, seed: int, parts: KeptParts | None = None) -> None:
        self.parts = parts or KeptParts()
        self.scheduler = Scheduler(seed)
        self.judge = Judge()
        self.kills: Counter[Instant] = Counter()
        random = self.scheduler.random
        self.block_records = random.choice((1, 3, 50))
        self._resources = ExitStack()
        memory = _MEMORY_FOLDER if _MEMORY_FOLDER.is_dir() else None
        folder = self._resources.enter_context(tempfile.TemporaryDirectory(dir=memory))
        self.files = LogFolder(Path(folder))
        self.broker = KeptBroker(
            self.scheduler,
            self.judge,
            max_length=random.choice((5, 40, 10_000)),
            expires=random.choice((2 * SECOND, 3600 * SECOND)),
            prefetch=random.choice((1, 8, 1000)),
        )
        self._instants = frozenset(random.sample(list(Instant), random.randint(1, len(Instant))))
        self._chance = random.choice((0.005, 0.02, 0.1))
        self._pause = self.scheduler.between(2 * MILLISECOND, SECOND)
        self._compacts = random.random() < 0.5
        self._faults = True
        self._published = 0
        self._life: Life | None = None

    def run(self) -> None:
        """Run the simulation from the start to the end.

        Raises:
            ViolationError: something that must hold did not.
        """
        with self._resources:
            try:
                self._start()
                self._publish()
                self._strike()
                while self._published < MESSAGES:
                    self.scheduler.run_until(self.scheduler.now + SECOND)
                self._faults = False
                self._come_right()
            finally:
                if self._life is not None:
                    self._life.kill()
                    self.scheduler.run_until(self.scheduler.now)

    def perhaps(self, instant: Instant) -> None:
        """Kill the core at this instant, by chance."""
        if self._faults and instant in self._instants and self.scheduler.random.random() < self._chance:
            self._kill(instant)

    def _come_right(self) -> None:
        deadline = self.scheduler.now + CALM
        while self._life is None or not self.broker.is_empty:
            demand(self.scheduler.now < deadline, "messages wait, or are not acknowledged, for ever")
            self.scheduler.run_until(self.scheduler.now + SECOND)
        self.scheduler.run_until(self.scheduler.now + SECOND)
        counts = self._life.counts
        demand(counts.unacknowledged == 0, f"{counts.unacknowledged} are counted as not acknowledged")
        demand(counts.repeated <= counts.redelivered <= counts.taken, f"counted: {counts}")
        demand(counts.acknowledged <= counts.taken, f"counted: {counts}")
        self.judge.conclude(self.files.stored())

    def _start(self) -> None:
        self.scheduler.note("core", "starts")
        self._life = Life(self)

    def _kill(self, instant: Instant) -> None:
        if self._life is not None:
            self.kills[instant] += 1
            self.scheduler.note("core", f"killed: {instant.value}")
            killed, self._life = self._life, None
            killed.kill()
            self.scheduler.after(self.scheduler.between(MILLISECOND, 8 * SECOND), self._start)

    def _publish(self) -> None:
        if self._published < MESSAGES:
            self._published += 1
            message = Message(self._published, self.scheduler.random.choice(_LED_TO))
            self.judge.messages[message.serial] = message
            self.broker.publish(message)
            self.scheduler.after(self.scheduler.between(10_000, 2 * self._pause), self._publish)

    def _strike(self) -> None:
        if not self._faults:
            return
        self.perhaps(Instant.ANY)
        if self._compacts and self.scheduler.random.random() < self._chance:
            self.files.compact()
        if self._life is not None:
            fault = self.scheduler.random.choice((self._life.lose_connection, self._life.stop_listening))
            if self.scheduler.random.random() < self._chance:
                self.scheduler.note("fault", fault.__name__)
                fault()
        self.scheduler.after(self.scheduler.between(MILLISECOND, 2 * self._pause), self._strike)
