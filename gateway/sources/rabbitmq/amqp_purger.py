"""Purges queues over AMQP, because the broker then says how many messages it threw away.

Each purge has a connection of its own. Queues are in any virtual host, and purges are rare. Until the
connection is open nothing was sent, so the purge may still go another way. An alarm does not block a
connection that only purges: RabbitMQ blocks those that publish.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from aiormq import exceptions

from gateway.links.amqp_connection import (
    FAILURES,
    AmqpEndpoint,
    LinkError,
    close_soon,
    open_connection,
)
from gateway.links.reconnecting import NodeChoice
from gateway.model.texts import one_line
from gateway.sources.rabbitmq.management_api import NotFound, Refused
from gateway.sources.rabbitmq.management_changes import (
    NotSent,
    Purge,
    PurgeAnswer,
    Purged,
    Rejected,
    Unanswered,
)

PURGE_SECONDS: Final = 20.0
"""For so long the answer to a purge is waited for at least."""
OPEN_SECONDS: Final = 2.0
"""For so long a connection is waited for: the purge may still go by HTTP then."""
UNREACHED_SECONDS: Final = 10.0
"""After an attempt that did not reach the broker, others do not wait for it for so long."""
_NAME: Final = "amqp-gateway purge"


class AmqpPurger:
    """Purges queues of a broker as the user who changes it.

    Args:
        endpoint: of the broker, with that user; its virtual host does not count.
        deadline: seconds that a purge may take from when it was sent.
    """

    def __init__(self, endpoint: AmqpEndpoint, deadline: float = PURGE_SECONDS) -> None:
        self._nodes = NodeChoice(endpoint.nodes)
        self._deadline = deadline
        self._not_before = 0.0
        self._unreached = ""

    async def purge(self, purge: Purge) -> PurgeAnswer:
        """Purge a queue, once; whatever goes wrong is an answer too."""
        now = asyncio.get_running_loop().time
        if now() < self._not_before:
            return NotSent(self._unreached)
        answer: PurgeAnswer = NotSent("there is no node to send it to")
        for node in self._nodes.in_order():
            answer = await self._purge_at(node, purge)
            if not isinstance(answer, NotSent):
                return answer
            self._nodes.failed(node)
            self._unreached = answer.reason
        self._not_before = now() + UNREACHED_SECONDS
        return answer

    async def _purge_at(self, node: AmqpEndpoint, purge: Purge) -> PurgeAnswer:
        endpoint = replace(node, vhost=purge.virtual_host)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                connection = await open_connection(endpoint, _NAME)
        except (LinkError, *FAILURES) as error:
            return NotSent(one_line(str(error)) or f"no connection within {OPEN_SECONDS:g} s")
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                channel = await connection.channel(publisher_confirms=False)
                queue = await channel.get_queue(purge.queue, ensure=False)
        except FAILURES as error:
            await close_soon(connection)
            return NotSent(one_line(str(error)) or f"no channel within {OPEN_SECONDS:g} s")
        try:
            async with asyncio.timeout(self._deadline):
                answered = await queue.purge()
        except FAILURES as error:
            return purge_failure(error, self._deadline)
        finally:
            await close_soon(connection)
        return Purged(answered.message_count or 0)


def purge_failure(error: BaseException, deadline: float) -> PurgeAnswer:
    """What a purge that was sent led to, when it failed with ``error``.

    Every refusal ends the channel, or the connection, with a code; an end without one, or with one of the
    broker's own faults, says nothing of the purge.
    """
    reason = one_line(str(error))
    match error:
        case exceptions.ChannelNotFoundEntity():
            return NotFound()
        case exceptions.ChannelAccessRefused():
            return Refused(login=False, reason=reason)
        case exceptions.ChannelClosed() | exceptions.ConnectionNotImplemented():
            return Rejected(reason)
        case TimeoutError():
            return Unanswered(f"no answer within {deadline:g} s")
        case _:
            return Unanswered(reason or type(error).__name__)
