"""Greeting the agents on a management exchange once, and saying what stands in the way of hearing them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aiormq import exceptions

from gateway.config.sources import QmfSource
from gateway.config.types import SECOND
from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.addresses import BROKER_KEY, CONTENT_TYPE
from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.messages import BrokerRequest, BrokerResponse
from gateway.dialects.session import Send
from gateway.links.amqp_connection import AmqpEndpoint, LinkError, Trouble, ended, link_error
from gateway.links.publishing import MandatorySends
from gateway.service.diagnostics.checked_connection import checked_channel, queue_for_answers
from gateway.service.sources.endpoints import amqp_endpoint
from gateway.tasks import until_one_ends

Tell = Callable[[str], None]

LONGEST_WAIT: Final = 10 * SECOND
"""Nanoseconds that somebody who looks waits for an answer, whatever the source would."""

_START_AN_AGENT: Final = (
    "a RabbitMQ has no agent of its own: configure one under 'agents' and run amqp-gateway agent NAME; "
    "a Qpid broker needs a bridge to here (docs/qpid.md): is it up?"
)
_NAME_THE_USER: Final = "its messages will be ignored: if that is the agent, name it under 'trusted_users'"


@dataclass(frozen=True, slots=True)
class _Answered:
    """By which broker, as which checked user (empty for none)."""

    broker: uuid.UUID
    user: str


async def check_qmf(settings: QmfSource, folder: Path, tell: Tell) -> None:
    """Look for the exchanges and greet who listens there, declaring nothing but one exclusive queue.

    That nobody answers is told and no error: agents come and go.

    Raises:
        CommandError: the broker cannot be used as it is; says what to do.
        SecretError: the password cannot be read.
    """
    endpoint = amqp_endpoint(settings.amqp, folder)
    async with checked_channel(endpoint) as channel:
        await _look(channel, endpoint, settings, tell)


async def _look(channel: AbstractChannel, endpoint: AmqpEndpoint, settings: QmfSource, tell: Tell) -> None:
    try:
        await channel.declare_exchange(settings.exchange, passive=True)
        await channel.declare_exchange(settings.direct_exchange, passive=True)
    except exceptions.ChannelNotFoundEntity as error:
        raise _missing(endpoint, settings, error) from error
    queue = await queue_for_answers(channel)
    await queue.bind(settings.direct_exchange, queue.name)
    greeting = _Greeting(channel, settings)
    await queue.consume(greeting.arrived, no_ack=True)
    tell(f"{endpoint}: {_remark(await greeting.put(queue), endpoint, settings)}")


def _missing(endpoint: AmqpEndpoint, settings: QmfSource, error: BaseException) -> LinkError:
    said = " ".join(str(error).split())
    if f"'{settings.exchange}'" in said:
        return link_error(endpoint, error)
    what = "agents answer there: name the direct exchange of this broker under 'direct_exchange'"
    return LinkError(Trouble.MISSING, f"{endpoint}: {said}: {what}")


def _remark(answer: _Answered | str, endpoint: AmqpEndpoint, settings: QmfSource) -> str:
    """What to say of an answer, or of what came in its place."""
    if isinstance(answer, str):
        obeys = f"Does it obey user {endpoint.user!r}?"
        return f"no agent answers on exchange {settings.exchange}: {answer}: {_START_AN_AGENT} {obeys}"
    found = f"agent {answer.broker} answers"
    if settings.trust_anyone or answer.user in settings.trusted_users:
        return found
    if not answer.user:
        return f"{found} without a checked user: its messages will be ignored unless 'trust_anyone' is on"
    return f"{found} as user {answer.user!r}: {_NAME_THE_USER}"


class _Greeting:
    """One broker request and what comes of it."""

    def __init__(self, channel: AbstractChannel, settings: QmfSource) -> None:
        self._channel = channel
        self._settings = settings
        self._answer: asyncio.Future[_Answered | str] = asyncio.get_running_loop().create_future()

    async def arrived(self, message: AbstractIncomingMessage) -> None:
        try:
            records = list(read_body(message.body, Definitions()))
        except ProtocolError as error:
            self._done(f"what came is no QMF AM2: {error}")
            return
        # A Java broker sends another message behind it, which ends the request.
        for record in records:
            if isinstance(record, BrokerResponse):
                self._done(_Answered(record.broker, message.user_id or ""))

    async def put(self, queue: AbstractQueue) -> _Answered | str:
        """Ask; return who answered, or why nobody did.

        Raises:
            AMQPError, OSError: the broker ended the channel.
        """
        settings = self._settings
        body = write(BrokerRequest(1))
        send = Send(settings.exchange, BROKER_KEY, body, message_id=uuid.uuid4().hex)
        await MandatorySends(self._channel, self._returned).expect(send)
        exchange = await self._channel.get_exchange(settings.exchange, ensure=False)
        # Our own agent obeys nobody whom the broker has not checked.
        message = aio_pika.Message(
            body,
            content_type=CONTENT_TYPE,
            reply_to=queue.name,
            message_id=send.message_id,
            user_id=settings.amqp.user,
        )
        await exchange.publish(message, BROKER_KEY, mandatory=True)
        seconds = min(settings.request_deadline, LONGEST_WAIT) / SECOND
        try:
            async with asyncio.timeout(seconds):
                await until_one_ends(ended(self._channel), self._answered())
        except TimeoutError:
            return f"not within {seconds:.0f} s"
        return self._answer.result()

    async def _answered(self) -> None:
        await asyncio.shield(self._answer)

    def _done(self, answer: _Answered | str) -> None:
        if not self._answer.done():
            self._answer.set_result(answer)

    def _returned(self, _: Send, why: str) -> None:
        self._done(f"nobody hears the key {BROKER_KEY}, {why}")
