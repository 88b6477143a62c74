"""Consumes the broker's events, and says when it cannot or when some may have been lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aiormq import exceptions

from gateway.agents.rabbitmq.events import EVENT_EXCHANGE
from gateway.links.amqp_connection import (
    FAILURES,
    AmqpEndpoint,
    LinkError,
    Trouble,
    close_soon,
    ended,
    is_cancelled,
    link_error,
    open_connection,
)

log = structlog.get_logger(__name__)

MAX_QUEUE_LENGTH = 10_000
"""The broker drops the oldest event beyond it, without a trace."""
DOUBTFUL_LENGTH = MAX_QUEUE_LENGTH // 10
"""More events waiting than a consumer that keeps up ever has."""
PREFETCH = 500
WATCH_SECONDS = 5.0
WATCHED_EVENTS = 2_000
"""After so many events the queue is looked at, although the time has not come."""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.5, 30.0


class EventSink(Protocol):
    """Who is told of events; everything on the event loop, in order."""

    def events_connected(self) -> None:
        """From now on events arrive."""
        ...

    def events_missing(self, reason: str) -> None:
        """No events arrive; ``reason`` is one line for people."""
        ...

    def events_lost(self, reason: str) -> None:
        """Events arrive, but some may have been lost."""
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
        self._watch_now = asyncio.Event()

    async def run(self) -> None:
        """Consume, reconnect with back-off and jitter; ends by cancellation only."""
        retry = FIRST_RETRY_SECONDS
        while True:
            try:
                await self._run_once()
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                self._sink.events_missing(f"{self._endpoint}: the connection ended")
            except _Ended as end:
                retry = FIRST_RETRY_SECONDS
                self._sink.events_missing(str(end))
            except LinkError as error:
                retry = LAST_RETRY_SECONDS if error.trouble is not Trouble.UNREACHABLE else retry
                self._sink.events_missing(str(error))
            await asyncio.sleep(retry * random.uniform(0.5, 1.0))  # noqa: S311  jitter needs no secrecy
            retry = min(2 * retry, LAST_RETRY_SECONDS)

    async def _run_once(self) -> None:
        """One connection from its opening to its end; always ends by one of the two errors.

        Raises:
            LinkError: events could not be consumed.
            _Ended: they were, until now.
        """
        connection = await open_connection(self._endpoint, "amqp-gateway events")
        consuming = False
        try:
            channel = await connection.channel(publisher_confirms=False)
            queue = await self._consume(channel)
            consuming = True
            self._sink.events_connected()
            await self._until_the_end(connection, queue)
        except exceptions.ChannelNotFoundEntity as error:
            raise self._missing(error) from error
        except (*FAILURES, LinkError) as error:
            if consuming:
                raise _Ended(str(link_error(self._endpoint, error))) from error
            raise link_error(self._endpoint, error) from error
        finally:
            await close_soon(connection)

    def _missing(self, error: exceptions.ChannelNotFoundEntity) -> LinkError:
        return LinkError(
            Trouble.MISSING,
            f"{self._endpoint}: there is no exchange {EVENT_EXCHANGE} ({error}): enable the plugin"
            " rabbitmq_event_exchange, or name the virtual host that it is configured for",
        )

    async def _consume(self, channel: AbstractChannel) -> str:
        await channel.set_qos(prefetch_count=PREFETCH)
        queue = await channel.declare_queue(
            f"amqp-gateway.events.{uuid.uuid4()}",
            exclusive=True,
            auto_delete=True,
            arguments={"x-max-length": MAX_QUEUE_LENGTH, "x-overflow": "drop-head"},
        )
        for key in self._keys:
            await queue.bind(EVENT_EXCHANGE, key)
        await queue.consume(self._arrived)
        return queue.name

    async def _arrived(self, message: AbstractIncomingMessage) -> None:
        # Anybody who may publish to the default exchange can put a message into this queue; only the
        # broker can publish to its event exchange.
        if message.exchange == EVENT_EXCHANGE:
            self._sink.event(message.routing_key or "", message.headers, message.timestamp)
        else:
            log.warning("foreign-event-refused", exchange=message.exchange)
        self._since_watch += 1
        if self._since_watch >= WATCHED_EVENTS:
            self._watch_now.set()
        with contextlib.suppress(*FAILURES):  # the connection's end is noticed elsewhere
            await message.ack()

    async def _until_the_end(self, connection: AbstractConnection, queue: str) -> None:
        parts = [
            asyncio.ensure_future(ended(connection)),
            asyncio.ensure_future(self._watch(connection, queue)),
        ]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _watch(self, connection: AbstractConnection, queue: str) -> None:
        """Look how many events wait; many mean that some may have been dropped.

        The doubt is told once, when they have been consumed: what is listed before would be stale.
        """
        doubted = False
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._watch_now.wait(), timeout=WATCH_SECONDS)
            self._watch_now.clear()
            self._since_watch = 0
            channel = await connection.channel(publisher_confirms=False)
            declared = await asyncio.wait_for(
                channel.declare_queue(queue, passive=True), timeout=2 * WATCH_SECONDS
            )
            waiting = declared.declaration_result.message_count or 0
            await channel.close()
            if doubted and waiting < DOUBTFUL_LENGTH:
                self._sink.events_lost(f"more than {DOUBTFUL_LENGTH} events waited: some may be lost")
            doubted = waiting >= DOUBTFUL_LENGTH


class _Ended(Exception):  # noqa: N818  it is the end of something that worked
    """Events were consumed, until now; the text says why no longer."""
