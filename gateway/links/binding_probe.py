"""Finds out that a queue of ours is not bound to an exchange any more.

An exchange that is deleted takes its bindings with it. When somebody makes it anew, it is there again, and so
are queue and connection: nothing but silence tells that messages go elsewhere. AMQP 0-9-1 has no question for
that; but a message that is published as ``mandatory``, with a key that only our queue is bound by, either
arrives in it or is returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable

import aio_pika
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage
from aiormq import exceptions

from gateway.links.amqp_connection import FAILURES, AmqpEndpoint, LinkError, Trouble, ended, is_cancelled

PATIENCE_SECONDS = 2.0


class BindingProbe:
    """Sends one message after the other to ourselves.

    Args:
        endpoint: of the broker.
        exchange: to which we may publish and the queue is bound.
        seconds: between two probes.
    """

    def __init__(self, endpoint: AmqpEndpoint, exchange: str, seconds: float) -> None:
        self._endpoint = endpoint
        self._exchange = exchange
        self._seconds = seconds
        self._identity = uuid.uuid4().hex

    def is_mine(self, message: AbstractIncomingMessage) -> bool:
        """Whether a message that arrived in the queue is a probe, and nobody else's business."""
        return message.message_id == self._identity

    async def run(self, connection: Callable[[], AbstractConnection | None], queue: str) -> None:
        """Send probes; ends only by what they find.

        A broker that takes no messages now, because its memory is short, delays the next one.

        Args:
            connection: the one to publish on, if there is one now.
            queue: name of the queue, and the key that it is bound by.

        Raises:
            LinkError: it is not bound any more.
            ChannelNotFoundEntity: the exchange is gone.
        """
        while True:
            await asyncio.sleep(self._seconds)
            current = connection()
            if current is None:
                continue
            try:
                await self._probe(current, queue)
            except (asyncio.CancelledError, *FAILURES):
                # The end of the connection is told elsewhere, or was wanted.
                if is_cancelled() or not current.is_closed:
                    raise

    async def is_bound(self, connection: AbstractConnection, queue: str) -> bool:
        """Whether the queue is bound now; taken for granted where that cannot be found out.

        A broker whose memory is short takes no message now, and says nothing.

        Raises:
            ChannelNotFoundEntity: the exchange is gone.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                try:
                    await self._probe(connection, queue, patient=False)
                except LinkError:
                    return False
        return True

    async def _probe(self, connection: AbstractConnection, queue: str, *, patient: bool = True) -> None:
        # A channel of its own: what the broker complains of must not end the one that carries messages.
        # With confirms, because aiormq tells of what is returned on such channels only.
        try:
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        except ValueError:  # the broker has no confirms: then nothing can be found out
            if patient:
                await ended(connection)
            return
        exchange = await channel.get_exchange(self._exchange, ensure=False)
        message = aio_pika.Message(b"", message_id=self._identity, user_id=self._endpoint.user)
        try:
            await exchange.publish(message, queue, mandatory=True)
        except exceptions.PublishError as error:
            raise LinkError(
                Trouble.MISSING,
                f"{self._endpoint}: the queue {queue} is not bound to the exchange {self._exchange} any more:"
                " somebody removed the binding, or the exchange, which was made anew",
            ) from error
        await channel.close()
