"""A connection by which a broker is looked at once, leaving nothing behind there."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractQueue

from gateway.links.amqp_connection import (
    FAILURES,
    AmqpEndpoint,
    LinkError,
    Trouble,
    close_soon,
    link_error,
    open_connection,
)
from gateway.service.processes.exit_codes import CommandError
from gateway.service.processes.trouble_codes import OF_TROUBLE

_NAME = "amqp-gateway check"


@asynccontextmanager
async def checked_channel(endpoint: AmqpEndpoint) -> AsyncIterator[AbstractChannel]:
    """The only channel of a connection to the first node that takes one, for as long as the block takes.

    A broker without extensions may have one channel for each connection, and no confirms.

    Raises:
        CommandError: the broker cannot be used as it is, or fails within the block; says what to do.
    """
    try:
        connection = await _first_connection(endpoint)
        try:
            yield await connection.channel(publisher_confirms=False)
        finally:
            await close_soon(connection)
    except (LinkError, *FAILURES) as error:
        trouble = link_error(endpoint, error)
        raise CommandError(OF_TROUBLE[trouble.trouble], str(trouble)) from error


async def _first_connection(endpoint: AmqpEndpoint) -> AbstractConnection:
    *nodes, last = endpoint.nodes
    for node in nodes:
        try:
            return await open_connection(node, _NAME)
        except LinkError as error:
            if error.trouble is not Trouble.UNREACHABLE:
                raise
    return await open_connection(last, _NAME)


async def queue_for_answers(channel: AbstractChannel) -> AbstractQueue:
    """A queue that goes with its connection."""
    name = f"amqp-gateway.check.{uuid.uuid4()}"
    return await channel.declare_queue(name, exclusive=True, auto_delete=True)
