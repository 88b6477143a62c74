"""Consumes the broker's events, and says when it cannot or when some may have been lost."""

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
from gateway.sources.rabbitmq.events import BINDING_CREATED, EVENT_EXCHANGE
from gateway.sources.rabbitmq.source_events import BrokerEventReceived
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

MAX_QUEUE_LENGTH = 10_000
"""The broker drops the oldest event beyond it, without a trace."""
DOUBTFUL_LENGTH = MAX_QUEUE_LENGTH // 10
"""More events waiting than a consumer that keeps up ever has."""
WATCH_SECONDS = 5.0
WATCHED_EVENTS = 2_000
"""After so many events the queue is looked at, although the time has not come."""
_LOOK_SECONDS = 0.02
_SILENT_SECONDS = 3.0
"""A broker publishes an event of itself within milliseconds."""
_UNDERSTOOD_SECONDS = 0.05
"""Between two questions whether events can be taken."""


@dataclass(frozen=True, slots=True)
class KeptEvents:
    """Events from a queue that is kept for the gateway's return.

    Attributes:
        subscription: of the queue.
        ready: whether events can be taken; until then they wait.
        taken: called after each event was taken: what it led to has been observed by then.
    """

    subscription: DurableSubscription
    ready: Callable[[], bool]
    taken: Callable[[], None]


Received: TypeAlias = LinkUp | LinkDown | BacklogFollows | LossSuspected | BrokerEventReceived
"""What a consumer hands over, on the event loop, in order."""


class EventConsumer:
    """Keeps a queue bound to the broker's event exchange for as long as it runs.

    One connection, which consumes only, and on it one exclusive, auto-delete, length-limited queue, or one
    that is kept. After each end the next connection goes to another node, where the endpoint has several:
    what ended the connection may have ended its node.

    Args:
        endpoint: the virtual host in which the broker declares its event exchange, ``/`` by default.
        keys: routing keys of the events wanted.
        receive: given everything that happens.
        clock: the gateway's.
        kept: consume a queue that is kept, in place of one that goes with the connection.
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
        """One connection from its opening to its end.

        Raises:
            LinkError: always, in the end: says what ended it, or why no events could be consumed.
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
        """Declare and bind the queue, and see that events arrive in it.

        RabbitMQ 4 publishes events only while it takes its event exchange for bound. If the last binding of
        another consumer goes while the first one of this queue comes, it can be wrong about that until all
        bindings are gone (seen with 4.0.5). Bindings are events themselves, so that silence shows it.

        Raises:
            LinkError: no event arrives.
        """
        queue = await self._queue.declare(channel, self._bindings)
        can_tell = BINDING_CREATED in self._keys and len(self._keys) > 1
        if not can_tell or await _receives(channel, queue):
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
            await subscription.ledger.lasting(subscription.ledger.position)
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
        self._receive(LossSuspected(reason, self._clock.now() - int(seconds * 10**9)))

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
