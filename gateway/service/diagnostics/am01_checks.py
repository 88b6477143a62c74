"""Listening for an agent before AM2 once, and saying what stands in the way of hearing it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aiormq import exceptions

from gateway.config.sources import Am01Source
from gateway.config.types import SECOND
from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.am01.codec import Reading, read, write
from gateway.dialects.qmf.am01.keys import COMMAND_KEY
from gateway.dialects.qmf.am01.messages import AgentHello, Revision
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.messages import BrokerRequest
from gateway.links.amqp_connection import AmqpEndpoint, LinkError, Trouble, ended
from gateway.service.diagnostics.checked_connection import checked_channel, queue_for_answers
from gateway.service.sources.endpoints import amqp_endpoint
from gateway.tasks import until_one_ends

Tell = Callable[[str], None]

LONGEST_WAIT: Final = 15 * SECOND
"""Nanoseconds that somebody who looks waits for a word, whatever the agent's intervals."""
_MORE: Final = 2 * SECOND
"""Beyond the interval within which an agent tells everything."""

_HELP: Final = (
    "a broker of that age needs a bridge to here (docs/qmf-before-am2.md): is it up, and does it bind again "
    "when the gateway does?"
)


async def check_am01(settings: Am01Source, folder: Path, tell: Tell) -> None:
    """Look for the exchanges, bind, greet and listen, declaring nothing but one exclusive queue.

    That nobody is heard is told and no error: agents come and go.

    Raises:
        CommandError: the broker cannot be used as it is; says what to do.
        SecretError: the password cannot be read.
    """
    endpoint = amqp_endpoint(settings.amqp, folder)
    async with checked_channel(endpoint) as channel:
        tell(f"{endpoint}: {await _look(channel, endpoint, settings)}")


async def _look(channel: AbstractChannel, endpoint: AmqpEndpoint, settings: Am01Source) -> str:
    for exchange in (settings.exchange, settings.direct_exchange):
        try:
            await channel.declare_exchange(exchange, passive=True)
        except exceptions.ChannelNotFoundEntity as error:
            said = " ".join(str(error).split())
            text = f"{endpoint}: {said}: the agent needs it: name the exchanges of its broker"
            raise LinkError(Trouble.MISSING, text) from error
    queue = await queue_for_answers(channel)
    heard = _Heard()
    await queue.consume(heard.arrived, no_ack=True)
    await queue.bind(settings.direct_exchange, queue.name)
    await queue.bind(settings.exchange, "mgmt.#")
    exchange_of_agent = await channel.get_exchange(settings.exchange, ensure=False)
    for body in (
        write(AgentHello(), Revision.FEBRUARY_2008),
        write(BrokerRequest(1), Revision.MARCH_2008),
    ):
        message = aio_pika.Message(body, reply_to=queue.name, user_id=settings.amqp.user)
        await exchange_of_agent.publish(message, COMMAND_KEY)
    seconds = min(_within(settings), LONGEST_WAIT) / SECOND
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await until_one_ends(ended(channel), heard.something())
    return heard.remark(settings, seconds)


def _within(settings: Am01Source) -> int:
    """Nanoseconds after which an agent has said something, even if it is idle."""
    return (settings.republish_interval or settings.interval) + _MORE


class _Heard:
    """What came first that an agent before AM2 can have said."""

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

    async def something(self) -> None:
        await self._came.wait()

    def remark(self, settings: Am01Source, seconds: float) -> str:
        """One line of what was heard."""
        if self._first is None:
            where = f"on exchange {settings.exchange} within {seconds:.0f} s"
            due = _within(settings) / SECOND
            silence = f" (an idle one need not say anything for {due:.0f} s)" if due > seconds else ""
            return f"no agent was heard {where}{silence}{self._trouble}: {_HELP}"
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
