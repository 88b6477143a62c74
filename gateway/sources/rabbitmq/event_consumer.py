"""Consumes the broker's events, and reports when it cannot, or when some may have been lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aiormq import exceptions

from gateway.clock import Clock
from gateway.dialects.session import BacklogFollows, Binding, LinkDown, LinkUp, LossSuspected
from gateway.links.amqp_connection import (
    FAILURES,
    AmqpEndpoint,
    LinkError,
    Trouble,
    close_soon,
    ended,
    open_connection,
)
from gateway.links.durable_queue import DurableSubscription, Loss, UnacknowledgedDeliveries, durable_queue
from gateway.links.own_queue import PREFETCH, Arrived, OwnQueue, bind, messages_in
from gateway.links.reconnecting import NodeChoice, link_errors, reconnecting
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.events import BINDING_CREATED, EVENT_EXCHANGE
from gateway.sources.rabbitmq.source_events import BrokerEventReceived
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

MAX_QUEUE_LENGTH = 10_000
"""Maximum length of the queue; beyond it the broker drops the oldest event without a trace."""
DOUBTFUL_LENGTH = MAX_QUEUE_LENGTH // 10
"""Number of waiting events from which on some may be lost; a consumer that keeps up never has so many."""
WATCH_SECONDS = 5.0
WATCHED_EVENTS = 2_000
"""Number of events after which the queue is checked before `WATCH_SECONDS` have passed."""
_LOOK_SECONDS = 0.02
_SILENT_SECONDS = 3.0
"""Seconds to wait for the event of the queue's own binding, which a broker publishes within milliseconds."""
_UNDERSTOOD_SECONDS = 0.05
"""Seconds between two checks whether events can be taken."""


@dataclass(frozen=True, slots=True)
class KeptEvents:
    """The settings of a queue of events that is kept for the gateway's return.

    Attributes:
        subscription: the durable subscription of the queue.
        ready: whether events can be taken; until then they wait.
        taken: called after each event was taken, when its effects have been observed.
    """

    subscription: DurableSubscription
    ready: Callable[[], bool]
    taken: Callable[[], None]


Received: TypeAlias = LinkUp | LinkDown | BacklogFollows | LossSuspected | BrokerEventReceived
"""The reports of a consumer, which it passes on in order, on the event loop."""


class EventConsumer:
    """Keeps a queue bound to the broker's event exchange for as long as it runs.

    It uses one connection, which consumes only, and on it one exclusive, auto-delete, length-limited queue,
    or one that is kept. After a connection has ended, the next one goes to another node, if the endpoint has
    several: the node may have ended, too.

    Args:
        endpoint: the virtual host in which the broker declares its event exchange, ``/`` by default.
        keys: routing keys of the events wanted.
        receive: called with each report of `Received`.
        clock: the gateway's clock.
        kept: a queue that is kept, in place of one that ends with the connection.
        understood: whether events can be taken. Until they can they wait in the queue.
    """

    def __init__(
        self,
        endpoint: AmqpEndpoint,
        keys: Sequence[str],
        receive: Callable[[Received], None],
        clock: Clock,
        kept: KeptEvents | None = None,
        understood: Callable[[], bool] = lambda: True,
    ) -> None:
        self._nodes = NodeChoice(endpoint.nodes)
        self._keys = keys
        self._receive = receive
        self._clock = clock
        self._kept = kept
        self._understood = understood
        self._missing_reported = False  # that the kept queue is; it could not be made since
        self._failure: Exception | None = None
        self._failed = asyncio.Event()
        self._since_watch = 0
        self._queue = OwnQueue(MAX_QUEUE_LENGTH, DOUBTFUL_LENGTH, WATCH_SECONDS, PREFETCH, purpose="events")

    async def run(self) -> None:
        """Consume, reconnect with back-off and jitter; ends by cancellation only."""
        await reconnecting(self._run_once, self._down)

    def _down(self, error: LinkError) -> None:
        self._nodes.failed(self._endpoint)
        self._receive(LinkDown(str(error)))

    @property
    def _endpoint(self) -> AmqpEndpoint:
        return self._nodes.preferred

    async def _run_once(self) -> None:
        """Open one connection and consume until it ends.

        Raises:
            LinkError: always, at the end, with the reason why it ended, or why no events could be consumed.
        """
        with link_errors(self._endpoint, "events"):
            connection = await open_connection(self._endpoint, "amqp-gateway events")
            try:
                if self._kept is None:
                    await self._consume(connection)
                else:
                    with self._kept.subscription.counts.connection():
                        await self._consume_kept(connection, self._kept)
            finally:
                await close_soon(connection)

    async def _consume(self, connection: AbstractConnection) -> None:
        channel = await connection.channel(publisher_confirms=False)
        with self._exchange_missing():
            queue = await self._declared(channel)
        self._receive(LinkUp(""))
        watch = self._queue.watch(connection, queue.name, self._lost)

        async def consume(arrived: Arrived) -> None:
            while not self._understood():  # noqa: ASYNC110  of a source that knows no event loop
                await asyncio.sleep(_UNDERSTOOD_SECONDS)
            await queue.consume(arrived)
            await asyncio.Event().wait()

        with self._queue.listening(self._arrived) as arrived:
            await until_one_ends(
                self._until_failed(), ended(channel), ended(connection), watch, consume(arrived)
            )

    async def _declared(self, channel: AbstractChannel) -> AbstractQueue:
        """Return the queue, declared and bound, after a check that events arrive in it.

        RabbitMQ 4 publishes events only while it regards its event exchange as bound. If the last binding of
        another consumer is removed while the first one of this queue is added, it can be wrong about that
        until all bindings are gone (observed with 4.0.5). Bindings cause events themselves, so silence shows
        this fault.

        Raises:
            LinkError: no event arrives.
        """
        queue = await self._queue.declare(channel, self._bindings)
        can_ask = BINDING_CREATED in self._keys and len(self._keys) > 1
        if not can_ask or await _receives(channel, queue):
            return queue
        log.warning("events-silent", queue=queue.name)
        for binding in self._bindings(queue.name):
            await queue.unbind(binding.exchange, binding.routing_key)
        await bind(queue, self._bindings)
        if await _receives(channel, queue):
            return queue
        raise LinkError(
            Trouble.BROKEN,
            f"{self._endpoint}: {EVENT_EXCHANGE} is bound, and the broker publishes nothing to it: disable"
            " and enable the plugin rabbitmq_event_exchange",
        )

    async def _consume_kept(self, connection: AbstractConnection, kept: KeptEvents) -> None:
        subscription = kept.subscription
        queue = durable_queue(subscription, WATCH_SECONDS)
        channel = await connection.channel(publisher_confirms=False)
        waiting = await queue.waiting(connection)
        loss = queue.loss(waiting)
        missed = queue.missed(loss, waiting)
        first = waiting is None and not self._missing_reported
        if first:
            # Before it is there, or a gateway killed in between would not know any more what was missed.
            self._missing_reported = True
            self._receive(BacklogFollows(missed, 0))
            await subscription.ledger.committed(subscription.ledger.position)
        with self._exchange_missing():
            declared = await queue.declare(connection, channel, self._bindings, is_new=waiting is None)
        deliveries = UnacknowledgedDeliveries(
            subscription.ledger, self._take_kept, kept.ready, subscription.counts, queue.received
        )
        await queue.consume(self._endpoint, declared, deliveries.arrived)
        if loss is not None:
            subscription.counts.losses[loss] += 1
        log.info("catching-up", role="events", queue=queue.name, waiting=waiting)
        if not first:
            # What waits in a queue whose node was down is from before: the loss lasts until now.
            self._receive(BacklogFollows(missed, 0 if loss is Loss.DOWN else waiting or 0))
        self._missing_reported = False

        async def catch_up() -> None:
            await queue.drained(channel)
            await deliveries.all_passed_on()
            log.info("caught-up", role="events", queue=queue.name, repeated=deliveries.repeated)
            self._receive(LinkUp(""))
            await asyncio.Event().wait()

        await until_one_ends(
            self._until_failed(),
            ended(channel),
            ended(connection),
            queue.watch(connection, queue.name, self._lost),
            deliveries.acknowledge(),
            deliveries.release(),
            catch_up(),
        )

    def _lost(self, reason: str, seconds: float) -> None:
        self._receive(LossSuspected(reason, self._clock.now() - int(seconds * SECOND)))

    def _bindings(self, _queue: str) -> list[Binding]:
        # The first one makes the others known, see `_declared`.
        keys = sorted(self._keys, key=lambda key: key != BINDING_CREATED)
        return [Binding(EVENT_EXCHANGE, key) for key in keys]

    @contextlib.contextmanager
    def _exchange_missing(self) -> Iterator[None]:
        try:
            yield
        except exceptions.ChannelNotFoundEntity as error:
            raise LinkError(
                Trouble.MISSING,
                f"{self._endpoint}: there is no exchange {EVENT_EXCHANGE} ({error}): enable the plugin"
                " rabbitmq_event_exchange, or name the virtual host that it is configured for",
            ) from error

    async def _arrived(self, message: AbstractIncomingMessage) -> None:
        if not self._take(message):
            return
        self._since_watch += 1
        if self._since_watch >= WATCHED_EVENTS:
            self._since_watch = 0
            self._queue.sooner.set()
        with contextlib.suppress(*FAILURES):  # the connection's end is noticed elsewhere
            await message.ack()

    def _take(self, message: AbstractIncomingMessage) -> bool:
        """Take in a message; return whether that succeeded. If not, the connection ends with the error."""
        try:
            self._pass_on(message)
        except Exception as error:  # noqa: BLE001  aio-pika would hide it, and the event would be lost
            self._failure = error
            self._failed.set()
            return False
        return True

    def _pass_on(self, message: AbstractIncomingMessage) -> None:
        # Anybody who may publish to the default exchange can put a message into this queue; only the
        # broker can publish to its event exchange.
        if message.exchange == EVENT_EXCHANGE:
            event = BrokerEventReceived.of_message(
                message.routing_key or "", message.headers, message.timestamp
            )
            self._receive(event)
        else:
            log.warning("foreign-event-refused", exchange=message.exchange)

    def _take_kept(self, message: AbstractIncomingMessage) -> None:
        if self._take(message) and self._kept is not None:
            self._kept.taken()

    async def _until_failed(self) -> None:
        """Wait until an event could not be taken.

        Raises:
            Exception: the source's error.
        """
        await self._failed.wait()
        self._failed.clear()
        if self._failure is not None:
            raise self._failure


async def _receives(channel: AbstractChannel, queue: AbstractQueue) -> bool:
    """Return whether something arrives in a queue that has no consumer yet, within `_SILENT_SECONDS`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SILENT_SECONDS):
            while not await messages_in(channel, queue.name):  # noqa: ASYNC110  a broker does not say when
                await asyncio.sleep(_LOOK_SECONDS)
            return True
    return False
