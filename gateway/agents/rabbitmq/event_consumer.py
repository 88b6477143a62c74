"""Consumes the broker's events, and says when it cannot or when some may have been lost."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

import structlog
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aiormq import exceptions

from gateway.agents.rabbitmq.events import EVENT_EXCHANGE
from gateway.dialects.effects import Binding
from gateway.links.amqp_connection import (
    FAILURES,
    AmqpEndpoint,
    LinkError,
    Trouble,
    close_soon,
    ended,
    open_connection,
)
from gateway.links.own_queue import PREFETCH, OwnQueue
from gateway.links.reconnecting import link_errors, reconnecting
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

MAX_QUEUE_LENGTH = 10_000
"""The broker drops the oldest event beyond it, without a trace."""
DOUBTFUL_LENGTH = MAX_QUEUE_LENGTH // 10
"""More events waiting than a consumer that keeps up ever has."""
WATCH_SECONDS = 5.0
WATCHED_EVENTS = 2_000
"""After so many events the queue is looked at, although the time has not come."""


class EventSink(Protocol):
    """Who is told of events; everything on the event loop, in order."""

    def events_connected(self) -> None:
        """From now on events arrive."""
        ...

    def events_missing(self, reason: str) -> None:
        """No events arrive; ``reason`` is one line for people."""
        ...

    def events_lost(self, reason: str, seconds: float) -> None:
        """Events arrive, but some of the last ``seconds`` may have been lost."""
        ...

    def event(self, key: str, headers: Mapping[str, object], timestamp: datetime | None) -> None:
        """An event, with its routing key."""
        ...


class EventConsumer:
    """Keeps a queue bound to the broker's event exchange for as long as it runs.

    One connection, which consumes only, and on it one exclusive, auto-delete, length-limited queue.

    Args:
        endpoint: the virtual host in which the broker declares its event exchange, ``/`` by default.
        keys: routing keys of the events wanted.
        sink: told of everything.
    """

    def __init__(self, endpoint: AmqpEndpoint, keys: Sequence[str], sink: EventSink) -> None:
        self._endpoint = endpoint
        self._keys = keys
        self._sink = sink
        self._since_watch = 0
        self._queue = OwnQueue(MAX_QUEUE_LENGTH, DOUBTFUL_LENGTH, WATCH_SECONDS, PREFETCH, purpose="events")

    async def run(self) -> None:
        """Consume, reconnect with back-off and jitter; ends by cancellation only."""
        await reconnecting(self._run_once, lambda error: self._sink.events_missing(str(error)))

    async def _run_once(self) -> None:
        """One connection from its opening to its end.

        Raises:
            LinkError: always, in the end: says what ended it, or why no events could be consumed.
        """
        with link_errors(self._endpoint, "events"):
            connection = await open_connection(self._endpoint, "amqp-gateway events")
            try:
                channel = await connection.channel(publisher_confirms=False)
                queue = await self._declare(channel)
                await queue.consume(self._arrived)
                self._sink.events_connected()
                watch = self._queue.watch(connection, queue.name, self._sink.events_lost)
                await until_one_ends(ended(channel), ended(connection), watch)
            finally:
                await close_soon(connection)

    async def _declare(self, channel: AbstractChannel) -> AbstractQueue:
        try:
            return await self._queue.declare(
                channel, lambda _: [Binding(EVENT_EXCHANGE, key) for key in self._keys]
            )
        except exceptions.ChannelNotFoundEntity as error:
            raise LinkError(
                Trouble.MISSING,
                f"{self._endpoint}: there is no exchange {EVENT_EXCHANGE} ({error}): enable the plugin"
                " rabbitmq_event_exchange, or name the virtual host that it is configured for",
            ) from error

    async def _arrived(self, message: AbstractIncomingMessage) -> None:
        # Anybody who may publish to the default exchange can put a message into this queue; only the
        # broker can publish to its event exchange.
        if message.exchange == EVENT_EXCHANGE:
            self._sink.event(message.routing_key or "", message.headers, message.timestamp)
        else:
            log.warning("foreign-event-refused", exchange=message.exchange)
        self._since_watch += 1
        if self._since_watch >= WATCHED_EVENTS:
            self._since_watch = 0
            self._queue.sooner.set()
        with contextlib.suppress(*FAILURES):  # the connection's end is noticed elsewhere
            await message.ack()
