"""Asks who is read, before what waits in a durable queue is: the URL may lead to another broker than before.

The answers come to an exclusive queue of their own, on the channel that consumes the durable one later, as a
user may have only one. Without answers the durable queue is read after a bounded time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

from gateway.dialects.session import Binding, Delivery, Send
from gateway.links.amqp_connection import FAILURES, ended, has_ended
from gateway.links.durable_queue import another_channel
from gateway.links.own_queue import OwnQueue
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

PATIENCE_SECONDS: Final = 30.0
"""The longest time that a durable queue waits for the answers."""
REPEAT_SECONDS: Final = 2.0
"""The interval of requests without an answer: an agent may start after the broker, or stand still.

So long, too, an answer may still follow that changes the conclusion of all others.
"""


class Inquiry(Protocol):
    """A conversation that finds out who is read; without I/O."""

    @property
    def is_answered(self) -> bool:
        """Whether no further answer is needed, but for one that makes it settled."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether it is answered, and no further answer can change the conclusion."""
        ...

    def bindings(self, queue: str) -> Sequence[Binding]:
        """Return the bindings of the queue of this name, to which answers are sent."""
        ...

    def requests(self, reply_to: str) -> Sequence[Send]:
        """Return the requests that are not answered yet, to be sent now."""
        ...

    def take(self, delivery: Delivery) -> Sequence[Send]:
        """Take an answer; return the requests that follow from it."""
        ...

    def end(self) -> None:
        """Draw the conclusion from the answers, also if some are missing."""
        ...


class Inquiring:
    """One inquiry over one connection.

    Args:
        inquiry: the conversation.
        queue: the form of the queue for answers.
        publish: publishes a request.
        read: returns an answer as its sender wrote it; ``None`` for a message that is refused.
    """

    def __init__(
        self,
        inquiry: Inquiry,
        queue: OwnQueue,
        publish: Callable[[Send], Awaitable[None]],
        read: Callable[[AbstractIncomingMessage], Delivery | None],
    ) -> None:
        self._inquiry = inquiry
        self._queue = queue
        self._publish = publish
        self._read = read
        self._to_send: list[Send] = []
        self._arrived = asyncio.Event()
        self._failure: Exception | None = None

    async def run(self, connection: AbstractConnection, channel: AbstractChannel) -> AbstractChannel:
        """Ask, and return when it is settled, or after `PATIENCE_SECONDS`.

        Returns:
            The channel to use from now on: the broker closes one on which no queue for answers is permitted,
            or that names an exchange which does not exist. The durable queue is read without answers then.

        Raises:
            AMQPError, OSError: the connection ended.
        """
        try:
            await until_one_ends(ended(connection), self._ask(channel))
        except FAILURES as error:
            if has_ended(connection):
                raise
            log.warning("broker-not-asked", purpose=self._queue.purpose, detail=str(error))
            if channel.is_closed:
                channel = await another_channel(connection)
        log.info("inquired", purpose=self._queue.purpose, settled=self._inquiry.is_settled)
        self._inquiry.end()
        return channel

    async def _ask(self, channel: AbstractChannel) -> None:
        queue = await self._queue.declare(channel, self._inquiry.bindings)
        for exchange in {send.exchange for send in self._inquiry.requests(queue.name)}:
            # One that is missing would end the channel of the session's messages.
            await channel.declare_exchange(exchange, passive=True)
        with self._queue.listening(self._take) as arrived:
            consumer = await queue.consume(arrived, no_ack=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._until_settled(queue.name)
            await queue.cancel(consumer)  # its queue ends with it

    async def _until_settled(self, reply_to: str) -> None:
        inquiry = self._inquiry
        while not inquiry.is_answered:
            self._to_send = [*inquiry.requests(reply_to)]
            await self._converse(lambda: inquiry.is_answered)
        # Two agents may have one name for a while: the answer of the other one may be the first.
        await self._converse(lambda: inquiry.is_settled)

    async def _converse(self, is_over: Callable[[], bool]) -> None:
        """Send what follows from each answer, until it is over or for `REPEAT_SECONDS`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REPEAT_SECONDS):
                await self._exchange_until(is_over)

    async def _exchange_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            sends, self._to_send = self._to_send, []
            for send in sends:
                await self._publish(send)
            await self._arrived.wait()
            self._arrived.clear()
            if self._failure is not None:
                raise self._failure

    async def _take(self, message: AbstractIncomingMessage) -> None:
        try:
            delivery = self._read(message)
            if delivery is not None:
                self._to_send += self._inquiry.take(delivery)
        except Exception as error:  # noqa: BLE001  aio-pika would hide it, and the answer would be missed
            self._failure = error
        self._arrived.set()
