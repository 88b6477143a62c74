"""What a broker can do beyond AMQP 0-9-1 itself, as it says when a connection is opened.

RabbitMQ names its extensions in a table of capabilities. Brokers that are older than that table have none: no
bounds for queues, no confirmation of what was published, no word when they are short of memory, and some
(OpenAMQ) allow a single channel for each connection. They get plain AMQP: a queue is declared without
arguments, and consumed without acknowledgements, as OpenAMQ's own shell does.
"""

from __future__ import annotations

from dataclasses import dataclass

from aio_pika.abc import AbstractConnection

from gateway.dialects.errors import LocalProtocolError

_CAPABILITIES = "capabilities"


@dataclass(frozen=True, slots=True)
class BrokerAbilities:
    """Of the broker at the other end of a connection.

    Attributes:
        extended: it names capabilities, as RabbitMQ has since 2.0.
        several_channels: a connection may have more than one.
    """

    extended: bool
    several_channels: bool


def abilities(connection: AbstractConnection) -> BrokerAbilities:
    """What the broker said when ``connection``, one of `connect_once`, was opened.

    Raises:
        LocalProtocolError: it is not open.
    """
    if connection.transport is None:
        raise LocalProtocolError("the connection is not open")
    opened = connection.transport.connection
    return BrokerAbilities(
        extended=bool(opened.server_properties.get(_CAPABILITIES)),
        several_channels=opened.connection_tune.channel_max != 1,
    )


def complete_capabilities(connection: AbstractConnection) -> None:
    """Let a broker that names no capabilities have none, where aiormq would look for the table in vain."""
    if connection.transport is not None:
        properties = connection.transport.connection.server_properties
        if not isinstance(properties.get(_CAPABILITIES), dict):
            properties[_CAPABILITIES] = {}
