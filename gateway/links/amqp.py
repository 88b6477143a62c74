"""A session's link to a broker: one connection that only consumes, one that only publishes.

Two connections because a broker under a memory alarm stops reading from whoever publishes: a connection
that did both received 10 of 30 messages then, a separate one all 30. Everything declared is one exclusive,
auto-delete, length-limited queue, so a gateway that dies leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import aio_pika
import structlog
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractExchange,
    AbstractIncomingMessage,
    AbstractQueue,
)

from gateway.clock import Clock
from gateway.dialects.effects import Binding, Delivery, Effect, Note, Send
from gateway.links.amqp_connection import (
    CONNECT_SECONDS,
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
from gateway.links.conversation import Conversation

log = structlog.get_logger(__name__)

PREFETCH = 500
WATCH_SECONDS = 5.0
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.5, 30.0
_DOUBTFUL_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class AmqpRole:
    """What a link is for.

    Attributes:
        name: part of the queue's name, ``amqp-gateway.<name>.<uuid>``.
        bindings: of its queue, whose name they are given: replies may be addressed to it.
        declare: topic exchanges to declare, durable, if they are missing (the manager's role).
        max_queue_length: messages; the broker drops the oldest beyond it, which `AmqpLink` watches for.
    """

    name: str
    bindings: Callable[[str], Sequence[Binding]]
    declare: Sequence[str] = ()
    max_queue_length: int = 20_000


class LinkedSession(Protocol):
    """What a link tells its session beside deliveries."""

    def connected(self, reply_to: str, now: int) -> list[Effect]:
        """The queue is bound; messages to ``reply_to`` on the direct exchange arrive in it."""
        ...

    def disconnected(self, detail: str, now: int) -> list[Effect]:
        """Nothing arrives and nothing can be sent; ``detail`` says why, for people."""
        ...

    def resync(self, reason: str, now: int) -> list[Effect]:
        """Messages may have been lost on the way."""
        ...


class AmqpLink:
    """Keeps a session connected to a broker for as long as it runs.

    Args:
        endpoint: of the broker.
        role: what to declare and bind.
        session: told when the link is up, down or in doubt.
        conversation: delivers to the session and holds what it wants sent.
        clock: the gateway's.
        watch_seconds: between two looks at queue and exchanges.
    """

    def __init__(
        self,
        endpoint: AmqpEndpoint,
        role: AmqpRole,
        session: LinkedSession,
        conversation: Conversation,
        clock: Clock,
        *,
        watch_seconds: float = WATCH_SECONDS,
    ) -> None:
        self._endpoint = endpoint
        self._role = role
        self._session = session
        self._conversation = conversation
        self._clock = clock
        self._watch_seconds = watch_seconds
        self._exchanges: dict[str, AbstractExchange] = {}

    async def run(self) -> None:
        """Connect, carry messages, reconnect with back-off and jitter; ends by cancellation only."""
        retry = FIRST_RETRY_SECONDS
        while True:
            started = self._clock.now()
            try:
                await self.run_once()
            except LinkError as error:
                self._down(error)
            if self._clock.now() - started > 2 * LAST_RETRY_SECONDS * 10**9:
                retry = FIRST_RETRY_SECONDS
            await asyncio.sleep(retry * random.uniform(0.5, 1.0))  # noqa: S311  jitter needs no secrecy
            retry = min(2 * retry, LAST_RETRY_SECONDS)

    async def run_once(self) -> None:
        """One connection from its opening to its end.

        Raises:
            LinkError: always, in the end: says what ended it.
        """
        opened: list[AbstractConnection] = []
        try:
            for part in ("consume", "publish"):
                name = f"amqp-gateway {self._role.name} {part}"
                opened.append(await open_connection(self._endpoint, name))
            await self._converse(*opened)
        except FAILURES as error:
            raise link_error(self._endpoint, error) from error
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            raise LinkError(Trouble.BROKEN, f"{self._endpoint.url}: the connection ended") from error
        except LinkError:
            raise
        except Exception as error:
            # A fault of ours, in one source: the others go on, and this one begins anew.
            log.exception("link-failed", role=self._role.name)
            text = f"{self._endpoint.url}: internal error {type(error).__name__}: see the log"
            raise LinkError(Trouble.BROKEN, text) from error
        finally:
            self._conversation.forget_sends()
            await asyncio.gather(*(close_soon(connection) for connection in opened))

    async def _converse(self, consuming: AbstractConnection, publishing: AbstractConnection) -> None:
        incoming = await consuming.channel(publisher_confirms=False)
        queue = await self._declare(incoming)
        outgoing = await publishing.channel(publisher_confirms=False)
        self._exchanges.clear()
        self._conversation.forget_sends()  # of the time without a connection
        await queue.consume(self._arrived)
        log.info("link-up", role=self._role.name, broker=str(self._endpoint), queue=queue.name)
        self._conversation.perform(self._session.connected(queue.name, self._clock.now()))
        # Where several end at once, what the broker said of an end comes before what it led to.
        parts = [
            asyncio.ensure_future(part)
            for part in (
                ended(incoming),
                ended(outgoing),
                ended(consuming),
                ended(publishing),
                self._publish(outgoing),
                self._watch(consuming, queue.name),
            )
        ]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in parts:
                if part.done():
                    part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _declare(self, channel: AbstractChannel) -> AbstractQueue:
        await channel.set_qos(prefetch_count=PREFETCH)
        for exchange in self._role.declare:
            await channel.declare_exchange(exchange, aio_pika.ExchangeType.TOPIC, durable=True)
        queue = await channel.declare_queue(
            f"amqp-gateway.{self._role.name}.{uuid.uuid4()}",
            exclusive=True,
            auto_delete=True,
            arguments={"x-max-length": self._role.max_queue_length},
        )
        for binding in self._role.bindings(queue.name):
            await queue.bind(binding.exchange, binding.routing_key)
        return queue

    async def _arrived(self, message: AbstractIncomingMessage) -> None:
        timestamp = message.timestamp
        delivery = Delivery(
            exchange=message.exchange or "",
            routing_key=message.routing_key or "",
            body=message.body,
            reply_to=message.reply_to or "",
            user_id=message.user_id or "",
            content_type=message.content_type or "",
            correlation_id=message.correlation_id or "",
            timestamp=int(timestamp.timestamp() * 10**9) if timestamp else 0,
        )
        try:
            self._conversation.deliver(delivery)
        except Exception as error:  # noqa: BLE001  aio-pika would hide it, and the queue would stand still
            self._conversation.fail(error)
        with contextlib.suppress(*FAILURES):  # the connection's end is noticed elsewhere
            await message.ack()

    async def _publish(self, channel: AbstractChannel) -> None:
        while True:
            send = await self._conversation.next_send()
            try:
                exchange = self._exchanges.get(send.exchange)
                if exchange is None:
                    exchange = await channel.get_exchange(send.exchange, ensure=False)
                    self._exchanges[send.exchange] = exchange
                await exchange.publish(self._message(send), send.routing_key, mandatory=False)
            except ValueError as error:  # AMQP 0-9-1 names have at most 255 octets
                self._conversation.perform([Note("not-sent", f"to {send.routing_key[:80]!r}: {error}")])

    def _message(self, send: Send) -> aio_pika.Message:
        """``send`` as a message whose sender the broker checks (``user-id``) and whose age can be told."""
        return aio_pika.Message(
            send.body,
            content_type=send.content_type or None,
            correlation_id=send.correlation_id or None,
            reply_to=send.reply_to or None,
            user_id=self._endpoint.user,
            expiration=send.expiration / 1000 if send.expiration else None,
            timestamp=datetime.fromtimestamp(self._clock.now() / 10**9, UTC),
        )

    async def _watch(self, consuming: AbstractConnection, queue: str) -> None:
        """Notice what no protocol message tells: an overflowing queue, a deleted exchange, a stuck link.

        Raises:
            LinkError: the queue or an exchange is gone, or publishing does not move.
        """
        doubtful = int(self._role.max_queue_length * _DOUBTFUL_SHARE)
        overflowing = False
        while True:
            await asyncio.sleep(self._watch_seconds)
            # A connection that is only half open shows here before it shows in missing heartbeats.
            async with asyncio.timeout(CONNECT_SECONDS):
                waiting = await self._look(consuming, queue)
            if self._conversation.clogged:
                raise LinkError(Trouble.BROKEN, f"{self._endpoint}: the broker takes no messages from us")
            if overflowing and waiting < doubtful:
                reason = f"the queue held more than {doubtful} messages: some may be lost"
                self._conversation.perform(self._session.resync(reason, self._clock.now()))
            overflowing = waiting >= doubtful

    async def _look(self, consuming: AbstractConnection, queue: str) -> int:
        """How many messages wait in ``queue``; it and all exchanges that it is bound to are there."""
        channel = await consuming.channel(publisher_confirms=False)
        waiting = (await channel.declare_queue(queue, passive=True)).declaration_result.message_count or 0
        for exchange in {binding.exchange for binding in self._role.bindings(queue)}:
            await channel.declare_exchange(exchange, passive=True)
        await channel.close()
        return waiting

    def _down(self, error: LinkError) -> None:
        log.warning("link-down", role=self._role.name, trouble=error.trouble.value, detail=str(error))
        self._conversation.perform(self._session.disconnected(str(error), self._clock.now()))
