"""The binding by which a quiet broker shows that it publishes events (`event_proof`), and its channel.

A broker ends a channel on which a binding is refused, as where the user's rights have changed, and may not
answer for long while a node of its cluster hangs. Bindings that are there work all the same. So the binding
of a proof is made on a channel of its own: if that ends, nothing is missing but this proof.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractQueue
from aiormq import exceptions

from gateway.links.amqp_connection import CONNECT_SECONDS, FAILURES, abilities, is_cancelled
from gateway.model.texts import error_line
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.events import BINDING_CREATED, EVENT_EXCHANGE
from gateway.sources.rabbitmq.object_names import PROOF

ANSWER_SECONDS: Final = CONNECT_SECONDS
"""Seconds to wait for the broker's answer to a binding."""
REFUSED_PAUSE: Final = 60 * SECOND
"""Nanoseconds until a binding that failed is tried again: the broker's log has an error each time."""


class ProofChannelRefusedError(Exception):
    """The broker ended the connection because of its second channel: the user may have one."""


@dataclass(slots=True)
class ProofBinding:
    """Makes and removes the binding of a proof.

    Attributes:
        connection: the connection that consumes the queue; ``None`` where it has one channel only, on which
            the binding is made then.
        now: returns the time of the gateway's clock (ns).
    """

    connection: AbstractConnection | None
    now: Callable[[], int]
    _channel: AbstractChannel | None = None
    _failed_at: int = 0
    _reason: str = ""

    async def open(self) -> None:
        """Open the channel of the binding, before anything depends on the connection.

        Raises:
            ProofChannelRefusedError: the user may have one channel only. The connection has ended.
            AMQPError, OSError, TimeoutError: the connection has ended otherwise.
        """
        if self.connection is None or not abilities(self.connection).several_channels:
            self.connection = None
            return
        try:
            self._channel = await self.connection.channel(publisher_confirms=False)
        except exceptions.ConnectionNotAllowed as error:
            raise ProofChannelRefusedError from error

    async def make(self, queue: AbstractQueue, keys: Collection[str], token: str) -> str:
        """Make the binding and remove it; return why that did not succeed, empty if it did.

        Args:
            queue: the queue, on the channel that consumes it.
            keys: the routing keys by which it is bound.
            token: by which its event is recognised.

        Raises:
            AMQPError, OSError, TimeoutError: the only channel has ended.
        """
        if self.connection is None:
            await bind_and_unbind(queue, keys, token)
            return ""
        if self._reason and self.now() - self._failed_at < REFUSED_PAUSE:
            return self._reason
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await bind_and_unbind(await self._queue(self.connection, queue.name), keys, token)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return self._failed("the channel ended")
        except FAILURES as error:
            return self._failed(error_line(error))
        self._reason = ""
        return ""

    async def _queue(self, connection: AbstractConnection, name: str) -> AbstractQueue:
        if self._channel is None or self._channel.is_closed:
            self._channel = await connection.channel(publisher_confirms=False)
        return await self._channel.get_queue(name, ensure=False)

    def _failed(self, reason: str) -> str:
        self._failed_at, self._reason = self.now(), reason
        return reason


async def bind_and_unbind(queue: AbstractQueue, keys: Collection[str], token: str) -> None:
    """Make and remove a binding of a queue with such keys; it has the events of that, if any arrive."""
    key = _key_of_proof(keys)
    await queue.bind(EVENT_EXCHANGE, key, arguments={PROOF: token})
    await queue.unbind(EVENT_EXCHANGE, key, arguments={PROOF: token})


def _key_of_proof(keys: Collection[str]) -> str:
    """Return the key of the binding of a proof: not that by which its event arrives, if there is another."""
    return min({*keys} - {BINDING_CREATED}, default=BINDING_CREATED)
