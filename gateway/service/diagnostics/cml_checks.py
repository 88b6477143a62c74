"""Asking a broker that speaks CML for its schema once, and saying what stands in the way."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aiormq import exceptions

from gateway.config.sources import CmlSource
from gateway.config.types import SECOND
from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.messages import SchemaReply, SchemaRequest, Spelling, Status
from gateway.dialects.cml.schema import read_classes
from gateway.dialects.errors import ProtocolError
from gateway.dialects.session import Send
from gateway.links.amqp_connection import AmqpEndpoint, ended
from gateway.links.publishing import MandatorySends
from gateway.service.diagnostics.checked_connection import checked_channel, queue_for_answers
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.sources.cml_schemas import configured_schema
from gateway.service.sources.endpoints import amqp_endpoint
from gateway.tasks import until_one_ends

Tell = Callable[[str], None]

_OURS: Final = "amq."
"""What names of exchanges begin with that no client can declare."""


async def check_cml(settings: CmlSource, folder: Path, tell: Tell) -> None:
    """Ask for the schema, and say what is known of it.

    Raises:
        CommandError: there is no usable answer.
        SecretError: the password cannot be read.
    """
    known = configured_schema(settings, folder)
    endpoint = amqp_endpoint(settings.amqp, folder)
    reply = await ask_schema(endpoint, settings)
    tell(f"{endpoint}: {reply.name} {reply.version}, {len(reply.classes)} classes")
    if known is not None and (known.name, known.version) != (reply.name, reply.version):
        tell(
            f"'schema_file' has {known.name} {known.version}: what the broker tells is used in its place;"
            " amqp-gateway source schema writes it again"
        )
    if settings.short_lived == "no":
        tell("connections and private queues are not shown ('short_lived')")


async def ask_schema(endpoint: AmqpEndpoint, settings: CmlSource) -> SchemaReply:
    """Return the schema that the broker tells, declaring nothing but one exclusive queue.

    Raises:
        CommandError: the broker cannot be used as it is: says what to do.
    """
    async with checked_channel(endpoint) as channel:
        try:
            return await _asked(channel, endpoint, settings)
        except exceptions.ChannelNotFoundEntity as error:
            said = " ".join(str(error).split())
            text = f"{endpoint}: {said}: {_advice(settings)}"
            raise CommandError(ExitCode.MISSING, text) from error


def _advice(settings: CmlSource) -> str:
    named = settings.system_exchange, settings.reply_exchange, settings.notify_exchange or ""
    provision = "amqp-gateway provision-cml makes what is missing on a RabbitMQ"
    if any(name.startswith(_OURS) for name in named):
        return f"an OpenAMQ has these exchanges; {provision}"
    return f"{provision}; or name others in the configuration"


async def _asked(channel: AbstractChannel, endpoint: AmqpEndpoint, settings: CmlSource) -> SchemaReply:
    queue = await queue_for_answers(channel)
    await queue.bind(settings.reply_exchange, queue.name)
    if settings.notify_exchange is not None:
        await queue.bind(settings.notify_exchange, settings.notify_key)
    question = _Question(channel, endpoint, settings)
    await queue.consume(question.arrived, no_ack=True)
    answer = await question.put(queue)
    try:
        message = read_message(answer)
        if isinstance(message, SchemaReply) and message.status == Status.OK:
            read_classes(message)
            return message
    except ProtocolError as error:
        raise CommandError(ExitCode.FAILED, f"{endpoint}: what it answers is no CML: {error}") from error
    if isinstance(message, SchemaReply) and message.status == Status.NO_ACCESS:
        text = f"user {endpoint.user!r} may not see the schema: give it a user that may read"
        raise CommandError(ExitCode.FORBIDDEN, f"{endpoint}: {text}")
    raise CommandError(ExitCode.FAILED, f"{endpoint}: it does not tell its schema: is this a server of CML?")


class _Question:
    """One request and what comes of it."""

    def __init__(self, channel: AbstractChannel, endpoint: AmqpEndpoint, settings: CmlSource) -> None:
        self._channel = channel
        self._endpoint = endpoint
        self._settings = settings
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._number = uuid.uuid4().hex

    async def arrived(self, message: AbstractIncomingMessage) -> None:
        # Not every peer puts the number of a request on its reply.
        is_reply = message.exchange == self._settings.reply_exchange
        if is_reply and message.message_id in (None, "", self._number) and not self._answer.done():
            self._answer.set_result(message.body)

    async def put(self, queue: AbstractQueue) -> bytes:
        """Ask, and wait for the answer.

        Raises:
            CommandError: nobody answers.
            AMQPError, OSError: the broker ended the channel.
        """
        settings = self._settings
        body = write_message(SchemaRequest(), Spelling(settings.spelling))
        send = Send(settings.system_exchange, settings.routing_key, body, message_id=self._number)
        await MandatorySends(self._channel, self._returned).expect(send)
        exchange = await self._channel.get_exchange(settings.system_exchange, ensure=False)
        message = aio_pika.Message(
            body, content_type="text/xml", reply_to=queue.name, message_id=self._number
        )
        await exchange.publish(message, settings.routing_key, mandatory=True)
        seconds = settings.request_deadline / SECOND
        try:
            async with asyncio.timeout(seconds):
                await until_one_ends(ended(self._channel), self._answered())
        except TimeoutError as error:
            text = f"no answer to a schema-request within {seconds:.0f} s: is a server of CML running there?"
            raise CommandError(ExitCode.UNREACHABLE, f"{self._endpoint}: {text}") from error
        return self._answer.result()

    async def _answered(self) -> None:
        await asyncio.shield(self._answer)

    def _returned(self, _: Send, why: str) -> None:
        if not self._answer.done():
            where = f"{self._settings.system_exchange} with the key {self._settings.routing_key}"
            text = f"nobody hears requests to {where}: {why}: start the server of CML, or correct the names"
            self._answer.set_exception(CommandError(ExitCode.MISSING, f"{self._endpoint}: {text}"))
