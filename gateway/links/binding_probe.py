"""Detects that a queue of the gateway is not bound to an exchange any more.

An exchange that is deleted takes its bindings with it. When it is declared again, exchange, queue and
connection exist: only silence shows that messages go elsewhere. AMQP 0-9-1 has no query for
that; but a message that is published as ``mandatory``, with a key that only our queue is bound by, either
arrives in it or is returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aiormq import exceptions

from gateway.links.amqp_connection import (
    FAILURES,
    AmqpEndpoint,
    LinkError,
    Trouble,
    abilities,
    ended,
    is_blocked,
    is_cancelled,
)
from gateway.tasks import until_one_ends

PATIENCE_SECONDS = 2.0
ANSWER_SECONDS = 30.0
"""A probe that is not confirmed for so long, or up to twice as long, by a broker that does not block the
connection, is lost."""
_LOOK_SECONDS = 0.01
"""Interval of checks whether the broker blocks a connection with an open probe."""


class _NoConfirmsError(Exception):
    """The broker has no confirms, or no channel for them, so nothing can be found out."""


class BindingProbe:
    """Sends probes, one after the other, to the gateway's own queue.

    Args:
        endpoint: the broker.
        exchange: the exchange, to which the user may publish and the queue is bound.
        seconds: interval of probes.
    """

    def __init__(self, endpoint: AmqpEndpoint, exchange: str, seconds: float) -> None:
        self._endpoint = endpoint
        self._exchange = exchange
        self._seconds = seconds
        self._identity = uuid.uuid4().hex
        self._channel: tuple[AbstractConnection, AbstractChannel] | None = None

    def is_mine(self, message: AbstractIncomingMessage) -> bool:
        """Return whether a message that arrived in the queue is a probe, which no session needs."""
        return message.message_id == self._identity

    async def run(self, connection: Callable[[], AbstractConnection | None], queue: str) -> None:
        """Send probes until one fails.

        A broker that accepts no messages now, because its memory is short, delays the next one; one that does
        not answer without a report has lost the message, or its confirmation.

        Args:
            connection: returns the connection to publish on, if there is one now; not one that its owner
                is about to close.
            queue: the name of the queue, and the key that it is bound by.

        Raises:
            LinkError: it is not bound any more, or the broker does not answer.
            ChannelNotFoundEntity: the exchange is gone.
        """
        while True:
            await asyncio.sleep(self._seconds)
            current = connection()
            if current is None:
                continue
            try:
                await self._probe_patiently(current, queue)
            except asyncio.CancelledError:
                # Otherwise the channel was closed, which the next probe finds out if nothing else does.
                if is_cancelled():
                    raise
            except FAILURES:
                # The end of a connection is reported elsewhere, or its owner is about to close it.
                if connection() is current and not current.is_closed:
                    raise

    async def _probe_patiently(self, connection: AbstractConnection, queue: str) -> None:
        try:
            await until_one_ends(self._probe(connection, queue), self._unanswered(connection))
        except _NoConfirmsError:
            await ended(connection)

    async def _unanswered(self, connection: AbstractConnection) -> None:
        """Wait until a broker that does not block the connection has been silent for too long.

        Raises:
            LinkError: always, in the end.
        """
        was_blocked = True
        while True:
            await asyncio.sleep(ANSWER_SECONDS)
            blocked = await is_blocked(connection)
            if not blocked and not was_blocked:
                raise LinkError(
                    Trouble.BROKEN,
                    f"{self._endpoint}: the broker did not confirm a message for {ANSWER_SECONDS:.0f} s",
                )
            was_blocked = blocked

    async def is_bound(self, connection: AbstractConnection, queue: str) -> bool:
        """Return whether the queue is bound now; True where that cannot be found out.

        A broker whose memory is short accepts no message now, and does not answer.

        Raises:
            ChannelNotFoundEntity: the exchange is gone.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                try:
                    await self._probe(connection, queue)
                except LinkError:
                    return False
                except _NoConfirmsError:
                    return True
        return True

    async def takes_messages(self, connection: AbstractConnection, queue: str) -> bool:
        """Return whether the broker accepts messages on ``connection`` now; True where that is unknown.

        A RabbitMQ whose memory or disk is short reports that when a message is published, and keeps the
        message until that has passed. So a probe precedes a message that must not be kept: no session needs
        it later.
        """
        if await is_blocked(connection):
            return False
        probing = asyncio.create_task(self._probe(connection, queue))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not probing.done():
                    await asyncio.wait({probing}, timeout=_LOOK_SECONDS)
                    if await is_blocked(connection):
                        return False
        except TimeoutError:
            return True
        finally:
            probing.cancel()
            # Other findings of the probe are reported by `run`, which probes, too.
            await asyncio.gather(probing, return_exceptions=True)
        return True

    async def _probe(self, connection: AbstractConnection, queue: str) -> None:
        channel = await self._channel_on(connection)
        exchange = await channel.get_exchange(self._exchange, ensure=False)
        message = aio_pika.Message(b"", message_id=self._identity, user_id=self._endpoint.user)
        try:
            await exchange.publish(message, queue, mandatory=True)
        except exceptions.PublishError as error:
            raise LinkError(
                Trouble.MISSING,
                f"{self._endpoint}: the queue {queue} is not bound to the exchange {self._exchange} any more:"
                " the binding was removed, or the exchange was deleted and declared again",
            ) from error

    async def _channel_on(self, connection: AbstractConnection) -> AbstractChannel:
        """Return the channel of all probes on one connection, because the broker counts each new one.

        It is not the one that carries messages, which must not end by an error of a probe. It has
        confirms, because aiormq reports returned messages on such channels only.
        """
        if self._channel is not None:
            owner, channel = self._channel
            if owner is connection and not channel.is_closed:
                return channel
        if not abilities(connection).several_channels:
            raise _NoConfirmsError
        try:
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        except ValueError as error:
            raise _NoConfirmsError from error
        self._channel = connection, channel
        return channel
