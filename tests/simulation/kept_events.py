"""The durable queue of a RabbitMQ's events, and the core's connection to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from aio_pika.abc import AbstractIncomingMessage

from gateway.dialects.session import BacklogFollows, LinkDown, LinkUp
from gateway.links.durable_queue import KEPT_PREFETCH, DurableQueueCounts, Ledger, UnacknowledgedDeliveries
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.event_consumer import WATCH_SECONDS, Received
from gateway.sources.rabbitmq.event_gaps import BacklogGap
from gateway.sources.rabbitmq.events import EVENT_EXCHANGE
from gateway.sources.rabbitmq.source_events import BrokerEventReceived, EventsReceived
from gateway.tasks import until_one_ends
from tests.simulation.half_open import Silence
from tests.simulation.kept_broker import WAY, Incoming, KeptBroker, Link, Message
from tests.simulation.kept_truth import KeptTruth
from tests.simulation.rabbitmq import RabbitMq
from tests.simulation.rabbitmq_agent import SourceRunInProcess
from tests.simulation.site import Stage

_AGAIN = (500 * MILLISECOND, 8 * SECOND)
"""The range of the time from the end of a connection to the next attempt."""
_LENGTHS = (20, 10_000, 10_000)
_EXPIRES = (20 * SECOND, 3600 * SECOND, 3600 * SECOND)
_DRAIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class EventMessage(Message):
    """A message with an event of the broker."""

    key: str = ""
    reported: Mapping[str, object] = field(default_factory=dict)
    published: int = 0


class EventDelivery(Incoming):
    """The delivery of an event message; the body is empty, as with RabbitMQ."""

    def __init__(self, message: Message, redelivered: bool, tag: int, link: Link) -> None:  # noqa: FBT001
        assert isinstance(message, EventMessage)
        headers: dict[str, Any] = dict(message.reported)
        super().__init__(message, redelivered, tag, link, EVENT_EXCHANGE, "", None, headers)

    @property
    def routing_key(self) -> str:
        """The routing key, which names the event."""
        return cast(EventMessage, self.message).key

    @property
    def body(self) -> bytes:
        """The empty body."""
        return b""


class KeptEventQueue:
    """The queue, bound to the event exchange from its declaration until it expires.

    A node that starts reports the durable queues that it recovers as created: see `RabbitMq.start`.

    Args:
        stage: time and chance.
        source: the name of the source in the gateway.

    Attributes:
        max_length: the number of messages beyond which the oldest is dropped.
        truth: the record of the times at which the broker does not keep events.
    """

    def __init__(self, stage: Stage, source: str) -> None:
        random = stage.kept
        self.max_length = random.choice(_LENGTHS)
        self.truth = stage.truth.kept[source] = KeptTruth()
        self.truth.stops(stage.scheduler.now)
        self._scheduler = stage.scheduler
        self._serial = 0
        self._broker = KeptBroker(
            stage.scheduler,
            self,
            self.max_length,
            random.choice(_EXPIRES),
            KEPT_PREFETCH,
            EventDelivery,
        )

    @property
    def waiting(self) -> int | None:
        """The number of messages that wait; ``None`` where the queue does not exist."""
        return self._broker.waiting

    @property
    def is_consumed(self) -> bool:
        """Whether the queue has a consumer."""
        return self._broker.link is not None

    def consume(self, arrived: Callable[[Incoming], None]) -> Link:
        """Declare the queue if it is missing, and consume it."""
        self.truth.begins(self._scheduler.now)
        return self._broker.consume(arrived)

    def lose(self) -> None:
        """Process the end of the consumer's connection."""
        self._broker.lose()

    def event(self, key: str, headers: Mapping[str, object]) -> None:
        """Publish an event of the broker."""
        self._serial += 1
        self._broker.publish(EventMessage(self._serial, "", key, headers, self._scheduler.now))

    def broker_stopped(self) -> None:
        """Stop the queue with its broker; its messages are persistent."""
        self.truth.stops(self._scheduler.now)
        self._broker.stopped()

    def broker_started(self) -> None:
        """Start the queue with its broker, if it exists."""
        if self._broker.exists:
            self.truth.begins(self._scheduler.now)
            self._broker.started()

    def dropped(self, message: Message) -> None:
        """Record a message that was dropped: the queue did not exist, was full, or has expired."""
        assert isinstance(message, EventMessage)
        if self._broker.exists:
            self.truth.lost(message.published)
        else:
            self.truth.stops(message.published)

    def acknowledged(self, message: Message) -> None:
        """Ignore the acknowledgement of a message."""


class KeptEventLink:
    """The core's connection to that queue, as `gateway.sources.rabbitmq.event_consumer` keeps it.

    The length of the queue is not polled: with this prefetch no message waits in it while it is consumed.

    Args:
        stage: time and chance.
        rabbitmq: the broker of the events.
        queue: the queue of the events.
        ledger: the part under test that reports which deliveries are recorded.
        run: the source that takes the events.
        received_until: the time as in `gateway.sources.rabbitmq.runner.SourceRunner`.
    """

    def __init__(
        self,
        stage: Stage,
        rabbitmq: RabbitMq,
        queue: KeptEventQueue,
        ledger: Ledger,
        run: SourceRunInProcess,
        received_until: int,
    ) -> None:
        self.counts = DurableQueueCounts()
        queue.truth.core_begins(stage.scheduler.now)
        self._scheduler = stage.scheduler
        self._rabbitmq = rabbitmq
        self._queue = queue
        self._ledger = ledger
        self._run = run
        self._gap = BacklogGap(received_until)
        self._missing_reported = False
        self._delay = WAY
        self._link: Link | None = None
        self._ended = asyncio.Event()
        self._why = ""
        self._task: asyncio.Task[None] | None = None

    def connect(self) -> None:
        """Connect, and reconnect after each end."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._reconnecting())
            self._task.add_done_callback(_raise_failure)

    def lose(self, reason: str) -> None:
        """End the connection; unacknowledged messages return to the broker."""
        if self._link is not None:
            self._cut()
            self._why = reason
            self._ended.set()

    def fall_silent(self, silence: Silence) -> None:
        """Make the connection half-open until it heals or heartbeats are missed."""
        link = self._link
        if link is not None:
            self._scheduler.note("rabbitmq-events", f"events {silence}")
            silence.falls(
                [link.acknowledgements],
                [link.deliveries],
                lambda: self.lose("no heartbeat of the peer") if self._link is link else None,
            )

    def close(self) -> None:
        """Close the connection at the end of the process."""
        self._cut()
        if self._task is not None:
            self._task.cancel()

    def hurry(self) -> None:
        """Take events quickly again."""
        self._delay = WAY
        self._set_pace()

    def slow_down(self, delay: tuple[int, int]) -> None:
        """Set the time that each event takes."""
        self._delay = delay
        self._set_pace()

    def _set_pace(self) -> None:
        if self._link is not None:
            self._link.deliveries.delay = self._delay

    def _cut(self) -> None:
        if self._link is not None:
            self._link = None
            self._queue.lose()

    async def _reconnecting(self) -> None:
        while True:
            if self._rabbitmq.up and not self._queue.is_consumed:
                self._ended.clear()
                with self.counts.connection():
                    await self._consume()
            else:
                self._why = "connection refused"
            self._received(LinkDown(self._why))
            await asyncio.sleep(self._scheduler.between(*_AGAIN) / SECOND)

    async def _consume(self) -> None:
        """Run one connection (`EventConsumer._consume_kept`)."""
        waiting = self._queue.waiting
        missed = ""
        if waiting is None:
            missed = "the queue did not exist: it is new, or has expired"
        elif waiting >= self._queue.max_length:
            missed = f"the queue was full with {waiting} messages: it dropped the oldest"
        first = waiting is None and not self._missing_reported
        if first:
            self._missing_reported = True
            self._received(BacklogFollows(missed, 0))
            await self._ledger.committed(self._ledger.position)
        if not self._rabbitmq.up:
            self._why = "the broker was stopped"
            return
        deliveries = UnacknowledgedDeliveries(
            self._ledger, self._take, lambda: self._run.source.understands_events, self.counts
        )
        self._link = self._queue.consume(lambda incoming: self._arrived(deliveries, incoming))
        self._set_pace()
        self._scheduler.note("rabbitmq-events", f"consumes, {waiting} wait")
        if not first:
            self._received(BacklogFollows(missed, waiting or 0))
        self._missing_reported = False
        await until_one_ends(
            self._ended.wait(),
            deliveries.acknowledge(),
            deliveries.release(),
            self._catch_up(deliveries),
            self._prove(deliveries),
        )

    async def _catch_up(self, deliveries: UnacknowledgedDeliveries) -> None:
        link = self._link
        assert link is not None
        delivered = link.tags
        while link.deliveries.items and link.deliveries.items[0].tag <= delivered:  # noqa: ASYNC110  as a broker, that does not say when
            await asyncio.sleep(_DRAIN_SECONDS)
        await deliveries.all_passed_on()
        if self._link is link:
            self._queue.truth.caught_up(self._scheduler.now)
            self._received(LinkUp(""))
        await asyncio.Event().wait()

    @staticmethod
    def _arrived(deliveries: UnacknowledgedDeliveries, incoming: Incoming) -> None:
        with suppress(StopIteration):  # it waits for nothing
            deliveries.arrived(cast(AbstractIncomingMessage, incoming)).send(None)

    def _take(self, message: AbstractIncomingMessage) -> None:
        incoming = cast(Incoming, message)
        key, headers = incoming.routing_key, incoming.headers
        self._scheduler.note("rabbitmq-events", f"event {key} {headers.get('name', '')}")
        self._received(BrokerEventReceived.of_message(key, headers))

    async def _prove(self, deliveries: UnacknowledgedDeliveries) -> None:
        """Report that no event waits in the queue, as its checks do."""
        link = self._link
        while link is not None:
            await asyncio.sleep(WATCH_SECONDS)
            if link.deliveries.is_quiet and deliveries.are_passed_on and self._link is link:
                self._received(EventsReceived(self._run.now()))

    def _received(self, event: Received) -> None:
        """Take an event as `gateway.sources.rabbitmq.runner.SourceRunner` does."""
        if isinstance(event, EventsReceived):
            self._gap.received(event.until)
        dropped = self._gap.before(event, self._run.now())
        if dropped is not None:
            self._run.handle(dropped)
        self._run.handle(event, sooner=isinstance(event, BacklogFollows | LinkUp))


def _raise_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.result()
