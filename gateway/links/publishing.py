"""The publishing half of a link: the messages of a session, in order, on a connection of its own.

A RabbitMQ whose memory or disk is short accepts nothing over AMQP until that has passed: messages in
the socket wait, and are delivered late. So with an `HttpFallback`, messages are confirmed, and
while the broker accepts none they are sent over HTTP: first those that were not confirmed, then new ones. The
blocked connection is aborted before, so that the broker drops what it has not read, instead of delivering it
hours later between newer messages. Each message has an id that is the same on both ways, by which a receiver
recognises a duplicate.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
import uuid
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeAlias

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange
from aiormq import exceptions, spec
from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel

from gateway.clock import Clock
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.session import Note, Send
from gateway.links.amqp_connection import (
    AmqpEndpoint,
    LinkError,
    Trouble,
    abilities,
    close_soon,
    ended,
    is_blocked,
    open_connection,
)
from gateway.links.protection import Protection
from gateway.links.session_driver import TOO_LATE, MessageDriver
from gateway.model.times import SECOND
from gateway.tasks import until_one_ends

REMEMBERED: Final = 1_000
"""Mandatory messages that may still be returned: without confirms, nothing shows that one arrived."""

_Return: TypeAlias = "asyncio.Future[DeliveredMessage]"


def why_returned(message: DeliveredMessage) -> str:
    """Return the broker's reason, for people."""
    returned = message.delivery
    said = returned.reply_text if isinstance(returned, spec.Basic.Return) else ""
    return f"no queue is bound there ({said})" if said else "no queue is bound there"


class MandatorySends:
    """Reports each mandatory message that is returned on one channel without confirms.

    aiormq reports returned messages only to a future that waits for their confirmation, by message id.
    So it gets such a future, under a tag that no confirmation has.

    Args:
        channel: the channel that they are published on.
        returned: called with a returned message, and the reason.
    """

    def __init__(self, channel: AbstractChannel, returned: Callable[[Send, str], None]) -> None:
        self._channel = channel
        self._returned = returned
        self._tags = itertools.count(-1, -1)
        self._waiting: OrderedDict[int, str] = OrderedDict()

    async def expect(self, send: Send) -> None:
        """Prepare for ``send``, which has a message id, before it is published."""
        underlying = await self._channel.get_underlay_channel()
        if not isinstance(underlying, Channel):
            return
        tag = next(self._tags)
        waiting: _Return = asyncio.get_running_loop().create_future()

        def note(outcome: _Return) -> None:
            self._forget(underlying, tag)
            if not outcome.cancelled():
                self._returned(send, why_returned(outcome.result()))

        waiting.add_done_callback(note)
        underlying.message_id_delivery_tag[send.message_id] = tag
        underlying.confirmations[tag] = waiting
        self._waiting[tag] = send.message_id
        if len(self._waiting) > REMEMBERED:
            self._forget(underlying, next(iter(self._waiting)))

    def _forget(self, underlying: Channel, tag: int) -> None:
        message_id = self._waiting.pop(tag, "")
        underlying.confirmations.pop(tag, None)
        if underlying.message_id_delivery_tag.get(message_id) == tag:
            del underlying.message_id_delivery_tag[message_id]


WINDOW = 32
"""Messages in transit to a broker that confirms them."""
CONFIRM_SECONDS = 2.0
"""A confirmation that takes this long, or up to twice as long, means that the broker is blocked."""
GRACE_SECONDS = 0.5
"""Time for late confirmations after the broker is known to be blocked."""
RETRY_SECONDS = 1.0
STALL_SECONDS = 10.0
"""A broker that reads nothing for so long, and cannot report why, is given up."""

BLOCKED: Final = "the broker accepts no messages now: it is short of memory or disk (an alarm)"
_UNWRITABLE: Final = (ValueError, TypeError, ArithmeticError, struct.error)
"""The errors of aio-pika, aiormq and pamqp at a message that they cannot write; nothing of it was sent."""
_DELIVERY_MODES = {False: aio_pika.DeliveryMode.NOT_PERSISTENT, True: aio_pika.DeliveryMode.PERSISTENT}


class FallbackError(Exception):
    """A message was not published; the text is one line for people.

    ``permanent``: later ones will not be either, for lack of rights or of a server. Otherwise the message
    itself is the cause, and it is given up. ``pause``: nanoseconds for which the server demands no request.
    """

    def __init__(self, text: str, *, permanent: bool, pause: int = 0) -> None:
        self.permanent = permanent
        self.pause = pause
        super().__init__(text)


class HttpFallback(Protocol):
    """Another way to a broker's exchanges, for the time in which it accepts no messages over AMQP."""

    @property
    def wanted(self) -> bool:
        """Whether it is to be used now."""
        ...

    async def until(self, *, wanted: bool) -> None:
        """Wait until it is to be used, or not any more."""
        ...

    def blocked(self) -> None:
        """Note that the broker seems to block the connection, so that the fallback may be needed."""
        ...

    async def cut_off(self, connection_name: str) -> bool:
        """Make the broker end the connection of this name, with unread data; return whether it will."""
        ...

    async def publish(self, send: Send, timestamp: int) -> None:
        """Publish a message; ``timestamp`` is the time in seconds since 1970.

        Raises:
            FallbackError: it was not published.
        """
        ...


class Publisher:
    """Publishes the messages of a session.

    Args:
        endpoint: the broker.
        name: the name of the connection in the broker's tools.
        driver: holds the messages.
        clock: the gateway's clock.
        fallback: is used while the broker accepts nothing; needs a broker that confirms.
        takes_messages: returns whether the broker accepts messages on a connection now, before one is sent
            that must not be kept for later.
        protection: seals the bodies when they are published; a body that it does not seal is not sent.

    A message with a deadline (`Send.not_after`) is not sent after it or while the broker blocks the
    connection, which is reported to the driver; one that may have been sent is never sent again.
    """

    def __init__(
        self,
        endpoint: AmqpEndpoint,
        name: str,
        driver: MessageDriver,
        clock: Clock,
        fallback: HttpFallback | None = None,
        takes_messages: Callable[[AbstractConnection], Awaitable[bool]] | None = None,
        protection: Protection | None = None,
    ) -> None:
        self._protection = protection
        self._takes_messages = takes_messages or _is_not_blocked
        self._endpoint = endpoint
        self._name = name
        self._driver = driver
        self._clock = clock
        self._fallback = fallback
        self._connection: AbstractConnection | None = None
        self._connection_name = name
        self._is_leaving = False
        self._channel: AbstractChannel | None = None
        self._unsent: deque[Send] = deque()
        self._unconfirmed: dict[asyncio.Task[None], Send] = {}
        self._exchanges: dict[str, AbstractExchange] = {}
        self._returns: MandatorySends | None = None
        self._patience: float | None = None  # with a broker that reports when it is blocked

    def connection(self) -> AbstractConnection | None:
        """Return the connection that is published on now, if there is one that is not about to be closed."""
        return None if self._is_leaving else self._connection

    async def open(self) -> None:
        """Open the connection, unless the broker is known to be blocked.

        Raises:
            LinkError: it cannot be opened.
        """
        if self._fallback is not None and self._fallback.wanted:
            return
        # The fallback must find this very connection among those of other agents of the same user.
        suffix = f" {uuid.uuid4()}" if self._fallback is not None else ""
        self._connection_name = f"{self._name}{suffix}"
        self._connection = await open_connection(self._endpoint, self._connection_name)
        self._channel = await self._connection.channel(publisher_confirms=self._fallback is not None)
        self._patience = None if abilities(self._connection).extended else STALL_SECONDS
        self._returns = MandatorySends(self._channel, self._returned) if self._fallback is None else None

    async def run(self) -> None:
        """Publish until the connection ends.

        Raises:
            LinkError, AMQPError, OSError: always, in the end, with the reason.
        """
        fallback = self._fallback
        if fallback is None:
            await self._while_connected(self._publish())
            return
        while True:
            if not fallback.wanted:
                if self._connection is None:
                    await self.open()
                confirmed, suspicious = self._publish_confirmed(), self._suspect(fallback)
                await self._while_connected(confirmed, suspicious, fallback.until(wanted=True))
            await self._leave_connection(fallback)
            await self._publish_around(fallback)

    async def publish(self, send: Send) -> None:
        """Publish a message that is not one of the session's, over AMQP, while `run` does not run yet."""
        await self._publish_one(send)

    async def close(self) -> list[Send]:
        """Close the connection; return messages that were taken from the driver and certainly not sent."""
        await self._drop_connection()
        unsent, self._unsent = list(self._unsent), deque()
        return unsent

    async def _next(self) -> Send:
        """Return the next message that is not too late, with an id where it may have to be sent again."""
        if self._unsent:
            return self._unsent.popleft()
        send = await self._driver.next_send()
        while send.is_too_late(self._clock.now()):
            self._driver.unsent([send], TOO_LATE)
            send = await self._driver.next_send()
        if send.message_id or not (self._fallback or send.mandatory):
            return send
        return replace(send, message_id=uuid.uuid4().hex)

    # Over AMQP.

    async def _while_connected(self, *parts: Coroutine[Any, Any, object]) -> None:
        """Run ``parts`` until one of them ends, or the connection does."""
        if self._connection is None or self._channel is None:
            raise LocalProtocolError("the connection was not opened")
        await until_one_ends(ended(self._channel), ended(self._connection), *parts)

    async def _publish(self) -> None:
        while True:
            await self._publish_one(await self._next())

    async def _publish_confirmed(self) -> None:
        while True:
            if len(self._unconfirmed) >= WINDOW:
                await asyncio.wait(self._unconfirmed, return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in self._unconfirmed if task.done()]:
                task.result()  # an error is the connection's, and its message stays unsent
                del self._unconfirmed[task]
            send = await self._next()
            self._unconfirmed[asyncio.create_task(self._publish_one(send))] = send

    async def _publish_one(self, send: Send) -> None:
        """Publish a message, and wait for its confirmation if the channel has confirms."""
        if self._channel is None:
            raise LocalProtocolError("the connection was not opened")
        if (
            send.not_after
            and self._connection is not None
            and not await self._takes_messages(self._connection)
        ):
            self._driver.unsent([send], BLOCKED)
            return
        sealed = self._sealed(send)
        if sealed is None:
            return
        try:
            exchange = self._exchanges.get(send.exchange)
            if exchange is None:
                exchange = await self._channel.get_exchange(send.exchange, ensure=False)
                self._exchanges[send.exchange] = exchange
            if send.mandatory and self._returns is not None:
                await self._returns.expect(send)
            async with asyncio.timeout(self._patience):
                result = await exchange.publish(
                    self._message(sealed), send.routing_key, mandatory=send.mandatory
                )
            if isinstance(result, DeliveredMessage):
                self._returned(send, why_returned(result))
        except TimeoutError as error:
            text = f"{self._endpoint}: the broker has read no message for {STALL_SECONDS:.0f} s"
            raise LinkError(Trouble.BROKEN, text) from error
        except (*_UNWRITABLE, exceptions.DeliveryError) as error:
            # A peer's address may be none that the library takes. A full queue may refuse messages.
            self._note("not-sent", f"to {send.routing_key[:80]!r}: {error}")
            self._driver.unsent([send], str(error))

    def _returned(self, send: Send, reason: str) -> None:
        self._note("not-sent", f"to {send.routing_key[:80]!r}: {reason}")
        self._driver.unsent([send], reason)

    def _sealed(self, send: Send) -> Send | None:
        """Return the message as it is published; ``None`` if it must not be, which was reported.

        A message that is published again is sealed again: its time is that of the publication.
        """
        if self._protection is None:
            return send
        match self._protection.seal(send, self._endpoint.user, self._clock.now()):
            case Send() as sealed:
                return sealed
            case refused:
                self._driver.perform([refused])
                self._driver.unsent([send], refused.detail)
                return None

    def _message(self, send: Send) -> aio_pika.Message:
        """Return ``send`` as a message with a checked sender (``user-id``) and a time."""
        seconds = self._clock.now() // SECOND  # the resolution of a timestamp in AMQP 0-9-1
        lifetime = send.lifetime(seconds * SECOND)
        return aio_pika.Message(
            send.body,
            content_type=send.content_type or None,
            correlation_id=send.correlation_id or None,
            reply_to=send.reply_to or None,
            user_id=self._endpoint.user,
            expiration=lifetime / 1000 if lifetime else None,
            timestamp=datetime.fromtimestamp(seconds, UTC),
            message_id=send.message_id or None,
            delivery_mode=_DELIVERY_MODES[send.persistent],
        )

    async def _suspect(self, fallback: HttpFallback) -> None:
        """Report to the fallback when the broker confirms nothing for long."""
        oldest = None
        while True:
            await asyncio.sleep(CONFIRM_SECONDS)
            before, oldest = oldest, next((task for task in self._unconfirmed if not task.done()), None)
            if oldest is not None and oldest is before:
                fallback.blocked()

    # Over the fallback.

    async def _leave_connection(self, fallback: HttpFallback) -> None:
        """Give up the connection; unconfirmed messages are sent again."""
        self._is_leaving = True
        if self._unconfirmed:
            await asyncio.wait(self._unconfirmed, timeout=GRACE_SECONDS)
        stuck = sum(not task.done() for task in self._unconfirmed)
        if stuck and not await fallback.cut_off(self._connection_name):
            self._note(
                "blocked-connection-left", f"{stuck} messages may be delivered again when the alarm ends"
            )
        await self._drop_connection()
        self._is_leaving = False

    async def _drop_connection(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        self._exchanges.clear()
        if connection is not None:
            await close_soon(connection)
        for task in self._unconfirmed:
            task.cancel()
        outcomes = await asyncio.gather(*self._unconfirmed, return_exceptions=True)
        sends = zip(self._unconfirmed.values(), outcomes, strict=True)
        failed = [send for send, outcome in sends if isinstance(outcome, BaseException)]
        stuck = [send for send in failed if not send.not_after]
        self._unsent.extendleft(reversed(stuck))
        self._unconfirmed.clear()

    async def _publish_around(self, fallback: HttpFallback) -> None:
        """Publish over the fallback until the broker accepts messages over AMQP again."""
        while fallback.wanted:
            if not self._unsent:
                await until_one_ends(self._fetch(), fallback.until(wanted=False))
                continue
            try:
                sealed = self._sealed(self._unsent[0])
                if sealed is not None:
                    await fallback.publish(sealed, self._clock.now() // SECOND)
            except FallbackError as error:
                if error.permanent:
                    pause = max(RETRY_SECONDS, error.pause / SECOND)
                    lasting = f"for {pause:g} s" if error.pause else "while the alarm lasts"
                    self._note("blocked", f"nothing can be published {lasting}: {error}")
                    await until_one_ends(asyncio.sleep(pause), fallback.until(wanted=False))
                    continue
                self._note("not-sent", f"to {self._unsent[0].routing_key[:80]!r}: {error}")
            self._unsent.popleft()

    async def _fetch(self) -> None:
        self._unsent.append(await self._next())

    def _note(self, event: str, detail: str) -> None:
        self._driver.perform([Note(event, detail)])


async def _is_not_blocked(connection: AbstractConnection) -> bool:
    return not await is_blocked(connection)
