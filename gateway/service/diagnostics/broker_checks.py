"""Checks of a broker, before it is relied on: of its management API, its events, and a connection to it.

An agent carries them out when it starts; what a source of each other kind needs is in `source_checks`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aiormq.exceptions import ChannelAccessRefused

from gateway.config.sources import DurableSettings, RabbitMqSettings
from gateway.links.amqp_connection import (
    FAILURES,
    AmqpEndpoint,
    LinkError,
    Trouble,
    close_soon,
    link_error,
    open_connection,
)
from gateway.links.durable_queue import default_name
from gateway.model.times import SECOND
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.sources.rabbitmq_endpoints import event_endpoint, http_writer, management_endpoint
from gateway.sources.rabbitmq.event_consumer import MAX_QUEUE_LENGTH
from gateway.sources.rabbitmq.events import BINDING_CREATED, EVENT_EXCHANGE
from gateway.sources.rabbitmq.http_reader import HttpReader, after_pauses
from gateway.sources.rabbitmq.management_api import (
    Answer,
    BindingsRequest,
    Document,
    ManagementRequest,
    NotFound,
    NotManagement,
    OverviewRequest,
    PoliciesRequest,
    QueuePoliciesRequest,
    Refused,
    Unavailable,
)
from gateway.sources.rabbitmq.management_changes import Lookup
from gateway.sources.rabbitmq.object_names import OWN_QUEUES, ObjectName
from gateway.sources.rabbitmq.own_queue_policies import QueuePolicies, candidates_of, policies_of
from gateway.sources.rabbitmq.rights import consuming_events, tags_of

_NAME: Final = "amqp-gateway check"
Report = Callable[[str], None]
"""A function that is called with one line for people."""
Look: TypeAlias = Callable[[str], Awaitable[None]]
"""A function that looks at the queue of a name."""

LET_THROUGH: Final = (
    "let the proxy forward paths as they are, or give the broker's own URL (docs/rabbitmq.md, Behind a proxy)"
)

SEE_PROOFS: Final = "(docs/rabbitmq.md, On the broker)"
"""End of a line on what will not be proven."""
_SAME_BROKER: Final = (
    "'management' and 'events' have to lead to one broker, and a proxy has to forward its queues' bindings"
)
_LOOKS: Final = 3
"""How often a management API is asked for a new queue: another node of a cluster may show it late."""
_AGAIN_SECONDS: Final = 0.5

OF_TROUBLE = {
    Trouble.UNREACHABLE: ExitCode.UNREACHABLE,
    Trouble.REFUSED_CREDENTIALS: ExitCode.CREDENTIALS,
    Trouble.REFUSED_VHOST: ExitCode.VHOST,
    Trouble.MISSING: ExitCode.MISSING,
    Trouble.FORBIDDEN: ExitCode.FORBIDDEN,
    Trouble.MISCONFIGURED: ExitCode.CONFIGURATION,
    Trouble.BROKEN: ExitCode.FAILED,
}
"""The exit code of a command, by the trouble for which a broker does not admit it."""


@asynccontextmanager
async def checked_channel(endpoint: AmqpEndpoint) -> AsyncIterator[AbstractChannel]:
    """Open the only channel of a connection to the first node that takes one, as long as the block takes.

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
    """Return a queue that ends with its connection."""
    name = f"amqp-gateway.check.{uuid.uuid4()}"
    return await channel.declare_queue(name, exclusive=True, auto_delete=True)


def kept_queue(source: str, durable: DurableSettings | None) -> tuple[str, int] | None:
    """Return name and bound of a source's durable queue of events; ``None`` if it has none."""
    return None if durable is None else (durable.queue or default_name("events", source), durable.max_length)


async def check_rabbitmq(
    settings: RabbitMqSettings, folder: Path, report: Report, kept: tuple[str, int] | None = None
) -> None:
    """Ask the management API of each node once, and look for the event exchange, which may be missing.

    One node that answers is enough; each that does not is reported in a line.

    Args:
        settings: where it is.
        folder: the folder of the configuration.
        report: takes each line.
        kept: the durable queue of events, as of `kept_queue`.

    Raises:
        CommandError: the API cannot be used with these settings.
        SecretError: a secret cannot be read.
    """
    answer = await _first_overview(settings, folder, report)
    if isinstance(answer, Refused):
        code = ExitCode.CREDENTIALS if answer.login else ExitCode.FORBIDDEN
        what = "check user and password" if answer.login else "give the user the tag 'monitoring'"
        raise CommandError(code, f"{_nodes(settings)}: user {settings.user!r}: {answer.reason}: {what}")
    if not isinstance(answer, Document):
        reason, what = getattr(answer, "reason", "there is no overview (404)"), "is the broker running?"
        if isinstance(answer, NotManagement):
            what = "is this the management API?"
        elif isinstance(answer, NotFound):
            what = "is the broker starting? Is this the URL of the management API?"
        if isinstance(answer, Unavailable) and answer.explained:
            raise CommandError(ExitCode.UNREACHABLE, f"{_nodes(settings)}: {reason}")
        if isinstance(answer, Unavailable) and answer.pause:
            what = f"it, or a proxy in front of it, demands a pause of {answer.pause / SECOND:.2g} s"
        raise CommandError(ExitCode.UNREACHABLE, f"{_nodes(settings)}: {reason}: {what}")
    events = event_endpoint(settings, folder)
    if events is None:
        report("events are not configured: what comes and goes between two looks is not seen")
        return
    try:
        await _check_first(events.nodes, report, partial(_check_proof, settings, folder, events, report))
    except CommandError as error:
        if error.code is not ExitCode.MISSING:
            raise
        report(
            f"{events}: no exchange {EVENT_EXCHANGE}: what comes and goes between two looks is not seen; "
            "enable the plugin rabbitmq_event_exchange"
        )
    await _check_policies(settings, folder, events, kept, report)


async def _check_policies(
    settings: RabbitMqSettings,
    folder: Path,
    events: AmqpEndpoint,
    kept: tuple[str, int] | None,
    report: Report,
) -> None:
    """Report policies by which the broker may drop events from the gateway's queue.

    The broker is asked which reach it. Of a queue that does not exist now, all are reported that may.
    """
    bound = MAX_QUEUE_LENGTH if settings.events is None else settings.events.max_length
    name, bound = kept or (f"{OWN_QUEUES}events.{uuid.uuid4()}", bound)
    async with HttpReader(management_endpoint(settings, settings, folder)) as reader:
        found = await policies_shown(reader, ObjectName("queue", (events.vhost, name)), bound)
    if found is not None and found.text:
        report(f"{events}: {found.text}")


async def policies_shown(
    reader: HttpReader, queue: ObjectName, declared: int, carried: str = "events"
) -> QueuePolicies | None:
    """Return what policies make of a queue, or may make of it; ``None`` if that is not shown.

    Args:
        reader: reads the broker.
        queue: the queue, which may not exist.
        declared: the number of messages to which it is declared to be bounded.
        carried: what it carries, for people.
    """

    async def ask(request: ManagementRequest) -> Answer:
        return await after_pauses(partial(reader.read, request))

    vhost, name = queue.parts
    found = policies_of(name, declared, await ask(QueuePoliciesRequest(queue)), carried)
    if found is not None:
        return found
    usual, operator = [await ask(PoliciesRequest(vhost, operator)) for operator in (False, True)]
    return candidates_of(name, declared, usual, operator, carried)


async def bindings_shown(reader: HttpReader, queue: ObjectName) -> Answer | None:
    """Return the answer about the bindings of a queue that was just declared; ``None`` if it shows them.

    Each queue has the one of the default exchange.
    """
    for look in range(_LOOKS):
        await asyncio.sleep(_AGAIN_SECONDS if look else 0)
        answer = await after_pauses(partial(reader.read, BindingsRequest(queue)))
        if isinstance(answer, Document) and isinstance(answer.body, list) and answer.body:
            return None
    return answer


async def _check_proof(
    settings: RabbitMqSettings, folder: Path, events: AmqpEndpoint, report: Report, queue: str
) -> None:
    """Report if the management API does not show the queue of events, by which it is proved that they arrive.

    A path that cannot be used is reported with the overview, and lets the gateway prove it otherwise.
    """
    async with HttpReader(management_endpoint(settings, settings, folder)) as reader:
        overview = await after_pauses(partial(reader.read, OverviewRequest()))
        place = ObjectName("queue", (events.vhost, queue))
        paths = overview.paths if isinstance(overview, Document) else None
        if paths is not None and paths.fault(BindingsRequest(place).target):
            return
        answer = await bindings_shown(reader, place)
    if answer is None:
        return
    reason, advice = getattr(answer, "reason", "there is no such queue (404)"), _SAME_BROKER
    if isinstance(answer, Refused):
        advice = f"let user {settings.user!r} see it: {consuming_events(events.vhost).shown()}"
    report(
        f"{_nodes(settings)}: that all events arrive will not be proven, and the source be degraded: the"
        f" management API does not show the bindings of a queue in virtual host {events.vhost!r}: {reason}:"
        f" {advice} {SEE_PROOFS}"
    )


def _nodes(settings: RabbitMqSettings) -> str:
    return ", ".join(settings.management)


async def _first_overview(settings: RabbitMqSettings, folder: Path, report: Report) -> Answer:
    """Return the first answer of a node; each node that does not answer is reported by a line."""
    endpoint = management_endpoint(settings, settings, folder)
    answers: list[Answer] = []
    failures: list[str] = []
    for url in endpoint.urls:
        async with HttpReader(replace(endpoint, url=url, others=())) as reader:
            answer = await after_pauses(partial(reader.read, OverviewRequest()))
        if isinstance(answer, Document) and answer.paths is not None and answer.paths.text:
            report(f"{url}: {answer.paths.text}: {LET_THROUGH}")
        if isinstance(answer, Unavailable):
            failures.append(f"{url}: {answer.reason}: other nodes are asked in its place")
        answers.append(answer)
    serving = [answer for answer in answers if not isinstance(answer, Unavailable)]
    if not serving:
        return answers[-1]
    for failure in failures:
        report(failure)
    return serving[0]


async def _check_first(nodes: Iterable[AmqpEndpoint], report: Report, look: Look) -> None:
    """Check events of each node, as `check_events` does; one node is enough, at whose queue is looked."""
    failures: list[CommandError] = []
    reached = False
    for node in nodes:
        try:
            await check_events(node, None if reached else look)
            reached = True
        except CommandError as error:
            if not is_passing(error):
                raise
            failures.append(error)
    if not reached:
        raise failures[-1]
    for failure in failures:
        report(f"{failure}: another node is used in its place")


async def check_writer(settings: RabbitMqSettings, folder: Path, report: Report) -> None:
    """Report problems of the account that changes the broker, if there is one; reading works without it.

    Raises:
        CommandError: certificates cannot be read.
        SecretError: a secret cannot be read.
    """
    if settings.writing is None:
        return
    user = settings.writing.user
    async with http_writer(settings, folder) as writer:
        answer = await writer.make(Lookup("whoami", as_writer=True))
    rights = answer.body if isinstance(answer, Document) else None
    tags = tags_of(rights) if isinstance(rights, Mapping) else None
    if isinstance(answer, Refused):
        report(f"{_nodes(settings)}: 'writing' user {user!r}: {answer.reason}: every change will be refused")
    elif tags is not None and "administrator" not in tags:
        report(
            f"{_nodes(settings)}: 'writing' user {user!r} lacks the tag 'administrator': most changes will"
            " be refused"
        )


async def check_amqp(endpoint: AmqpEndpoint, exchange: str) -> None:
    """Open a connection and look for an exchange, without declaring anything.

    Raises:
        CommandError: credentials, virtual host, or the exchange are not there.
    """
    async with checked_channel(endpoint) as channel:
        await channel.declare_exchange(exchange, passive=True)


async def check_events(endpoint: AmqpEndpoint, look: Look | None = None) -> None:
    """Consume the broker's events as the gateway does, from an exclusive queue that ends with the check.

    Args:
        endpoint: the virtual host of the event exchange.
        look: looks at the queue, given its name, while it is consumed.

    Raises:
        CommandError: credentials, the virtual host, the event exchange or the rights to consume are missing.
    """
    async with checked_channel(endpoint) as channel:
        await channel.declare_exchange(EVENT_EXCHANGE, passive=True)
        try:
            queue = await queue_for_answers(channel)
            for key in _SOME_EVENTS:
                await queue.bind(EVENT_EXCHANGE, key)
            await queue.consume(_ignore, no_ack=True)
        except ChannelAccessRefused as error:
            text = " ".join(str(error).split())
            grant = consuming_events(endpoint.vhost).shown()
            text = f"{endpoint}: {text}: for the broker's events the user needs {grant}"
            raise CommandError(ExitCode.FORBIDDEN, text) from error
        if look is not None:
            await look(queue.name)


_SOME_EVENTS: Final = ("queue.created", BINDING_CREATED)
"""Routing keys of events that the gateway needs, the second one to prove that the others arrive."""


async def _ignore(_: AbstractIncomingMessage) -> None:
    """Ignore an event that occurs during the check."""


def is_passing(error: CommandError) -> bool:
    """Return whether waiting may help: the broker may just be starting."""
    return error.code in {OF_TROUBLE[Trouble.UNREACHABLE], OF_TROUBLE[Trouble.BROKEN]}
