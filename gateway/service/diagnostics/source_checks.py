"""Checks that a source can be reached, before it is relied on: one check for each dialect, with advice."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aiormq import exceptions

from gateway.config.places import reached_at
from gateway.config.sources import Am01Source, AmiSource, CmlSource, ListenerTls, QmfSource
from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.messages import SchemaReply, SchemaRequest, Spelling, Status
from gateway.dialects.cml.schema import read_classes
from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.addresses import BROKER_KEY, CONTENT_TYPE
from gateway.dialects.qmf.am01.codec import Reading, read
from gateway.dialects.qmf.am01.codec import write as write_before_am2
from gateway.dialects.qmf.am01.keys import COMMAND_KEY
from gateway.dialects.qmf.am01.messages import AgentHello, Revision
from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.messages import BrokerRequest, BrokerResponse
from gateway.dialects.session import Send
from gateway.links.amqp_connection import (
    AmqpEndpoint,
    LinkError,
    Trouble,
    ended,
    link_error,
)
from gateway.links.publishing import MandatorySends
from gateway.links.tls import TlsFileError
from gateway.model.times import SECOND
from gateway.service.diagnostics.broker_checks import Report, checked_channel, queue_for_answers
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.sources.cml import configured_schema
from gateway.service.sources.endpoints import amqp_endpoint
from gateway.tasks import until_closed, until_one_ends

T = TypeVar("T")


class _ReturnedError(Exception):
    """The broker has no queue for a message; the text says why."""


async def _ask(
    channel: AbstractChannel,
    queue: AbstractQueue,
    send: Send,
    understood: Callable[[AbstractIncomingMessage], T | None],
    seconds: float,
    user: str | None = None,
) -> T:
    """Publish a request, and return the result of ``understood`` for the first message that it accepts.

    Args:
        channel: the channel to the broker.
        queue: the queue for answers, bound already.
        send: the request.
        understood: called with each message that arrives in ``queue``; returns ``None`` for one that is no
            answer.
        seconds: seconds to wait for the answer.
        user: the user that the broker has to check.

    Raises:
        TimeoutError: there is no answer in time.
        _ReturnedError: the request leads into no queue.
        AMQPError, OSError: the broker ended the channel.
    """
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    async def arrived(message: AbstractIncomingMessage) -> None:
        found = understood(message)
        if found is not None and not answer.done():
            answer.set_result(found)

    def returned(_: Send, why: str) -> None:
        if not answer.done():
            answer.set_exception(_ReturnedError(why))

    await queue.consume(arrived, no_ack=True)
    await MandatorySends(channel, returned).expect(send)
    exchange = await channel.get_exchange(send.exchange, ensure=False)
    message = aio_pika.Message(
        send.body,
        content_type=send.content_type,
        reply_to=queue.name,
        message_id=send.message_id,
        user_id=user,
    )
    await exchange.publish(message, send.routing_key, mandatory=True)
    async with asyncio.timeout(seconds):
        await until_one_ends(ended(channel), asyncio.wait({answer}))
    return answer.result()


# ---- agents of QMF AM2 -------------------------------------------------------------------------------

LONGEST_WAIT: Final = 10 * SECOND
"""The longest time in nanoseconds that a check waits for an answer, even if the source would wait longer."""

_START_AN_AGENT: Final = (
    "a RabbitMQ has no agent of its own: configure one under 'agents' and run amqp-gateway agent NAME; "
    "a Qpid broker needs a bridge to here (docs/qpid.md): is it up?"
)
_NAME_THE_USER: Final = "its messages will be ignored: if that is the agent, name it under 'trusted_users'"


async def check_qmf(settings: QmfSource, folder: Path, report: Report) -> None:
    """Look for the exchanges, and greet the agents there, declaring nothing but one exclusive queue.

    A missing answer is reported and is no error: agents come and go.

    Raises:
        CommandError: the broker cannot be used as it is; says what to do.
        SecretError: the password cannot be read.
    """
    endpoint = amqp_endpoint(settings.amqp, folder)
    async with checked_channel(endpoint) as channel:
        try:
            await channel.declare_exchange(settings.exchange, passive=True)
            await channel.declare_exchange(settings.direct_exchange, passive=True)
        except exceptions.ChannelNotFoundEntity as error:
            raise _missing(endpoint, settings, error) from error
        queue = await queue_for_answers(channel)
        await queue.bind(settings.direct_exchange, queue.name)
        report(f"{endpoint}: {await _greeted(channel, queue, endpoint, settings)}")


def _missing(endpoint: AmqpEndpoint, settings: QmfSource, error: BaseException) -> LinkError:
    said = " ".join(str(error).split())
    if f"'{settings.exchange}'" in said:
        return link_error(endpoint, error)
    what = "agents answer there: name the direct exchange of this broker under 'direct_exchange'"
    return LinkError(Trouble.MISSING, f"{endpoint}: {said}: {what}")


async def _greeted(
    channel: AbstractChannel, queue: AbstractQueue, endpoint: AmqpEndpoint, settings: QmfSource
) -> str:
    """Greet the agents, and return one line about the answer."""
    number = uuid.uuid4().hex
    send = Send(
        settings.exchange, BROKER_KEY, write(BrokerRequest(1)), content_type=CONTENT_TYPE, message_id=number
    )
    seconds = min(settings.request_deadline, LONGEST_WAIT) / SECOND
    try:
        # Our own agent accepts requests of no user that the broker has not checked.
        answer = await _ask(
            channel, queue, send, lambda message: _greeting(message, settings), seconds, settings.amqp.user
        )
    except TimeoutError:
        trouble = f"not within {seconds:.0f} s"
    except _ReturnedError as error:
        trouble = f"no agent receives the key {BROKER_KEY}, {error}"
    else:
        if isinstance(answer, str):
            return answer
        trouble = f"what came is no QMF AM2: {answer}"
    accepts = f"Does it accept requests of user {endpoint.user!r}?"
    return f"no agent answers on exchange {settings.exchange}: {trouble}: {_START_AN_AGENT} {accepts}"


def _greeting(message: AbstractIncomingMessage, settings: QmfSource) -> str | ProtocolError | None:
    """Return a line about the agent that sent a message, or an error; ``None`` if it answers no greeting."""
    try:
        records = list(read_body(message.body, Definitions()))
    except ProtocolError as error:
        return error
    # A Java broker sends another message behind it, which ends the request.
    brokers = [record.broker for record in records if isinstance(record, BrokerResponse)]
    if not brokers:
        return None
    found, user = f"agent {brokers[0]} answers", message.user_id or ""
    if settings.trust_anyone or user in settings.trusted_users:
        return found
    if not user:
        return f"{found} without a checked user: its messages will be ignored unless 'trust_anyone' is on"
    return f"{found} as user {user!r}: {_NAME_THE_USER}"


# ---- agents of QMF before AM2 ------------------------------------------------------------------------

LONGEST_WAIT_BEFORE_AM2: Final = 15 * SECOND
"""The longest time in nanoseconds that a check waits for a message, whatever the agent's intervals."""
_MORE: Final = 2 * SECOND
"""Nanoseconds beyond the interval within which an agent publishes everything."""

_HELP: Final = (
    "a broker of that age needs a bridge to here (docs/qmf-before-am2.md): is it up, and does it bind again "
    "when the gateway does?"
)


async def check_am01(settings: Am01Source, folder: Path, report: Report) -> None:
    """Look for the exchanges, bind, greet and listen, declaring nothing but one exclusive queue.

    A silent exchange is reported and is no error: agents come and go.

    Raises:
        CommandError: the broker cannot be used as it is; says what to do.
        SecretError: the password cannot be read.
    """
    endpoint = amqp_endpoint(settings.amqp, folder)
    async with checked_channel(endpoint) as channel:
        report(f"{endpoint}: {await _look_before_am2(channel, endpoint, settings)}")


async def _look_before_am2(channel: AbstractChannel, endpoint: AmqpEndpoint, settings: Am01Source) -> str:
    for exchange in (settings.exchange, settings.direct_exchange):
        try:
            await channel.declare_exchange(exchange, passive=True)
        except exceptions.ChannelNotFoundEntity as error:
            said = " ".join(str(error).split())
            text = f"{endpoint}: {said}: the agent needs it: name the exchanges of its broker"
            raise LinkError(Trouble.MISSING, text) from error
    queue = await queue_for_answers(channel)
    first = _FirstMessage()
    await queue.consume(first.arrived, no_ack=True)
    await queue.bind(settings.direct_exchange, queue.name)
    await queue.bind(settings.exchange, "mgmt.#")
    exchange_of_agent = await channel.get_exchange(settings.exchange, ensure=False)
    for body in (
        write_before_am2(AgentHello(), Revision.FEBRUARY_2008),
        write_before_am2(BrokerRequest(1), Revision.MARCH_2008),
    ):
        message = aio_pika.Message(body, reply_to=queue.name, user_id=settings.amqp.user)
        await exchange_of_agent.publish(message, COMMAND_KEY)
    seconds = min(_within(settings), LONGEST_WAIT_BEFORE_AM2) / SECOND
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await until_one_ends(ended(channel), first.came())
    return first.remark(settings, seconds)


def _within(settings: Am01Source) -> int:
    """Return the nanoseconds after which an agent has sent something, even if it is idle."""
    return (settings.republish_interval or settings.interval) + _MORE


class _FirstMessage:
    """The first message that an agent before AM2 can have sent."""

    def __init__(self) -> None:
        self._first: tuple[Reading, str] | None = None
        self._came = asyncio.Event()
        self._trouble = ""

    async def arrived(self, message: AbstractIncomingMessage) -> None:
        try:
            reading = read(message.routing_key or "", message.body, Definitions())
        except ProtocolError as error:
            self._trouble = f"; what came is no QMF before AM2: {error}"
            return
        self._first = self._first or (reading, message.user_id or "")
        self._came.set()

    async def came(self) -> None:
        await self._came.wait()

    def remark(self, settings: Am01Source, seconds: float) -> str:
        """Return one line on what was received."""
        if self._first is None:
            where = f"on exchange {settings.exchange} within {seconds:.0f} s"
            due = _within(settings) / SECOND
            silence = f" (an idle one need not say anything for {due:.0f} s)" if due > seconds else ""
            return f"no agent was received {where}{silence}{self._trouble}: {_HELP}"
        reading, user = self._first
        spoken = sorted(one.value for one in reading.revisions)
        found = f"an agent speaks {' or '.join(spoken)}"
        if settings.revision not in {"auto", *spoken}:
            return f"{found}, and 'revision' says {settings.revision}: its messages will be ignored"
        if settings.trust_anyone or user in settings.trusted_users:
            return found
        if not user:
            return f"{found}, without a checked user: ignored unless 'trust_anyone' is on"
        return f"{found}, as user {user!r}: ignored unless that is named under 'trusted_users'"


# ---- servers of CML ----------------------------------------------------------------------------------

_OURS: Final = "amq."
"""The beginning of names of exchanges that no client can declare."""


async def check_cml(settings: CmlSource, folder: Path, report: Report) -> None:
    """Request the schema, and report its name and version.

    Raises:
        CommandError: there is no usable answer.
        SecretError: the password cannot be read.
    """
    known = configured_schema(settings, folder)
    endpoint = amqp_endpoint(settings.amqp, folder)
    reply = await ask_schema(endpoint, settings)
    report(f"{endpoint}: {reply.name} {reply.version}, {len(reply.classes)} classes")
    if known is not None and (known.name, known.version) != (reply.name, reply.version):
        report(
            f"'schema_file' has {known.name} {known.version}: the broker's own is used in its place;"
            " amqp-gateway source schema writes it again"
        )
    if settings.short_lived == "no":
        report("connections and private queues are not shown ('short_lived')")


async def ask_schema(endpoint: AmqpEndpoint, settings: CmlSource) -> SchemaReply:
    """Return the schema that the broker sends, declaring nothing but one exclusive queue.

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
    number = uuid.uuid4().hex
    send = Send(
        settings.system_exchange,
        settings.routing_key,
        write_message(SchemaRequest(), Spelling(settings.spelling)),
        content_type="text/xml",
        message_id=number,
    )

    def understood(message: AbstractIncomingMessage) -> bytes | None:
        # Not every peer puts the number of a request on its reply.
        is_reply = message.exchange == settings.reply_exchange and message.message_id in (None, "", number)
        return message.body if is_reply else None

    seconds = settings.request_deadline / SECOND
    try:
        answer = await _ask(channel, queue, send, understood, seconds)
    except TimeoutError as error:
        text = f"no answer to a schema-request within {seconds:.0f} s: is a server of CML running there?"
        raise CommandError(ExitCode.UNREACHABLE, f"{endpoint}: {text}") from error
    except _ReturnedError as error:
        where = f"{settings.system_exchange} with the key {settings.routing_key}"
        text = (
            f"no server receives requests to {where}: {error}: start the server of CML, or correct the names"
        )
        raise CommandError(ExitCode.MISSING, f"{endpoint}: {text}") from error
    return _schema_in(answer, endpoint)


def _schema_in(answer: bytes, endpoint: AmqpEndpoint) -> SchemaReply:
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
    raise CommandError(ExitCode.FAILED, f"{endpoint}: it does not send its schema: is this a server of CML?")


# ---- the address that applications connect to ---------------------------------------------------------

_ANSWER_SECONDS: Final = 2.0
_ASK: Final = b"H\n"
"""The instruction for help, which every peer may send, and which changes nothing."""
_ANSWER: Final = b"M"


def check_listener_files(settings: ListenerTls | None, folder: Path) -> None:
    """Read the files of TLS of a listener, if it has any.

    Raises:
        CommandError: a file cannot be used.
    """
    try:
        if settings is not None:
            settings.files(folder).context()
    except TlsFileError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


async def check_listener(settings: AmiSource, folder: Path, report: Report) -> None:
    """Check whether the gateway can listen at the address, and report one line.

    Raises:
        CommandError: it cannot listen there, or a file of TLS cannot be used.
    """
    check_listener_files(settings.tls, folder)
    host, port = settings.listen
    where = f"{host} port {port}"
    try:
        _try_to_listen(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            number = error.errno or 0
            advice = _ADVICE.get(number, "choose another address under 'listen'")
            text = f"cannot listen on {where}: {os.strerror(number)}: {advice}"
            raise CommandError(ExitCode.ADDRESS_IN_USE, text) from error
        if settings.tls is None and not await _speaks_ami(host, port):
            raise CommandError(
                ExitCode.ADDRESS_IN_USE,
                f"{where} is taken by something that does not speak AMI: end it, or choose another address"
                " under 'listen'",
            ) from error
        report(f"{where} has a listener: this gateway's, if it runs; else a relay's, and one must give way")
        return
    report(f"{where} is free: applications can connect there while the gateway runs")


def check_unheard(settings: AmiSource) -> None:
    """Check that no process listens there, not even the running gateway.

    Raises:
        CommandError: one does.
    """
    host, port = settings.listen
    try:
        _try_to_listen(host, port)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        text = (
            f"{host} port {port} cannot be had: {reason}: where the running gateway has it, capture the"
            " source there, by 'captures' in its configuration"
        )
        raise CommandError(ExitCode.ADDRESS_IN_USE, text) from error


_ADVICE: Final = {
    errno.EACCES: "choose a port from 1024 on, or run it as a service (amqp-gateway systemd)",
    errno.EADDRNOTAVAIL: "this machine has no such address: choose one that it has under 'listen'",
}


def _try_to_listen(host: str, port: int) -> None:
    is_version_6 = ipaddress.ip_address(host.partition("%")[0]).version == 6  # noqa: PLR2004  that is its name
    family = socket.AF_INET6 if is_version_6 else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=1):
        pass


async def _speaks_ami(host: str, port: int) -> bool:
    """Return whether the listener there answers as a relay does."""
    writer = None
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(reached_at(host), port)
            writer.write(_ASK)
            return await reader.read(1) == _ANSWER
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            await until_closed(writer)
