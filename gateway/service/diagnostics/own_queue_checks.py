"""Policies that reach the gateway's own queues of sources that have only AMQP, before these are relied on.

Such a source cannot see them. A source of kind ``rabbitmq`` that reads the same broker can: it is found by a
queue that is declared here, and shown there.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from pathlib import Path

from gateway.config.sources import AmiSource, RabbitMqSource, Source
from gateway.links.durable_queue import default_name
from gateway.service.diagnostics.broker_checks import bindings_shown, checked_channel, policies_shown
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.exit_codes import CommandError
from gateway.service.sources.endpoints import amqp_endpoint
from gateway.service.sources.rabbitmq_endpoints import management_endpoint
from gateway.sources.rabbitmq.http_reader import HttpReader
from gateway.sources.rabbitmq.object_names import OWN_QUEUES, ObjectName


async def policies_on_queue(name: str, source: Source, sources: Mapping[str, Source], folder: Path) -> str:
    """Return one line about policies that reach a source's queue; empty for none, and if that is not shown.

    Args:
        name: the name of the source.
        source: its settings.
        sources: all sources, of which those that read a RabbitMQ are asked.
        folder: the folder of the configuration.
    """
    readers = {of: one for of, one in sources.items() if isinstance(one, RabbitMqSource)}
    if isinstance(source, RabbitMqSource | AmiSource) or not readers:
        return ""
    proving = f"{OWN_QUEUES}console.{uuid.uuid4()}"
    queue, bound = proving, source.max_queue_length
    if source.durable is not None:
        queue, bound = source.durable.queue or default_name("console", name), source.durable.max_length
    host = source.amqp.vhost
    shown, meant = ObjectName("queue", (host, proving)), ObjectName("queue", (host, queue))
    with contextlib.suppress(CommandError), command_errors():  # what fails is reported by other checks
        async with checked_channel(amqp_endpoint(source.amqp, folder)) as channel:
            await channel.declare_queue(proving, exclusive=True, auto_delete=True)
            for reader, settings in readers.items():
                with contextlib.suppress(CommandError), command_errors():
                    text = await _read(settings, folder, shown, meant, bound)
                    if text is not None:
                        return f"source {reader} reads this broker: {text}" if text else ""
    return ""


async def _read(
    settings: RabbitMqSource, folder: Path, proving: ObjectName, queue: ObjectName, bound: int
) -> str | None:
    """Return what a source reads of policies on a queue; ``None`` if its broker does not show ``proving``."""
    async with HttpReader(management_endpoint(settings, settings, folder)) as reader:
        if await bindings_shown(reader, proving) is not None:
            return None
        found = await policies_shown(reader, queue, bound, "messages")
    return "" if found is None else found.text
