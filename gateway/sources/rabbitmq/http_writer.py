"""Changes of a broker: one at a time, each sent once, with a deadline and a limit of size.

All changes go over HTTP, except purges: they go over AMQP if that is configured and the broker is reachable.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

import httpx
import pamqp.frame
import structlog
from aiormq import exceptions, spec

from gateway.links.amqp_connection import (
    AmqpEndpoint,
    LinkError,
    Trouble,
    close_soon,
    cluster_name,
    is_cancelled,
    open_connection,
)
from gateway.links.reconnecting import NodeChoice
from gateway.model.texts import error_line, one_line
from gateway.sources.rabbitmq.http_reader import (
    HttpReader,
    ManagementEndpoint,
    address_of,
    management_client,
)
from gateway.sources.rabbitmq.management_api import NotFound, NotManagement, Refused, is_without_api
from gateway.sources.rabbitmq.management_changes import (
    BrokerAnswer,
    BrokerRequest,
    Change,
    ChangeAnswer,
    NotSent,
    Purge,
    PurgeAnswer,
    Purged,
    Rejected,
    Unanswered,
    change_answer_of,
)
from gateway.sources.rabbitmq.proving_client import ManagementClient, PathFaultError, UnprovedError

log = structlog.get_logger(__name__)

CONNECT_SECONDS = 5.0
MAX_REASON_OCTETS = 64 * 1024
"""Maximum size of the body of an answer to a change; the rest of a longer one is not read."""
NO_WRITER = "no user is configured who may change it"

_SENDS = "http11.send_request_headers.started"
"""The event of httpx by which the first byte of a request is about to be sent."""


class HttpWriter:
    """Makes the requests of operations. Use it as an asynchronous context manager.

    If there are several nodes, the one that works is used. A change goes to another node only if the
    connection to the first one failed, or that had no management API, so that certainly nothing was changed.

    Args:
        reading: the management API, with the user who reads the broker.
        writing: the same with the user who changes it; ``None`` for no such user: only reads are possible.
        purger: purges queues over AMQP; ``None`` where that is not configured.
        patience: seconds that an operation may take. The deadline of a change is the greater of this and the
            deadline of ``reading``.

    Raises:
        TlsFileError: a file of TLS cannot be used.
    """

    def __init__(
        self,
        reading: ManagementEndpoint,
        writing: ManagementEndpoint | None,
        purger: AmqpPurger | None = None,
        patience: float = 0.0,
    ) -> None:
        self._nodes = NodeChoice(reading.urls)
        self._reader = HttpReader(reading, nodes=self._nodes)
        self._looker = HttpReader(writing, nodes=self._nodes) if writing is not None else None
        self._client = management_client(writing) if writing is not None else None
        self._deadline = max(reading.deadline, patience)
        if self._client is not None:
            # So that a broker that cannot be reached is distinguished from one that does not answer.
            self._client.timeout = httpx.Timeout(self._deadline, connect=CONNECT_SECONDS)
        self._purger = purger
        self._open = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        for part in (self._reader, self._looker, self._client):
            if part is not None:
                await self._open.enter_async_context(part)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def make(self, request: BrokerRequest) -> BrokerAnswer:
        """Send ``request``; any failure is an answer, too. A change is never sent twice."""
        if isinstance(request, Purge):
            return await self._purge(request)
        if isinstance(request, Change):
            answer = NotSent(NO_WRITER) if self._client is None else await self._make(self._client, request)
            _log_change(f"{request.method} {request.target}", answer)
            return answer
        reader = self._looker if request.as_writer else self._reader
        return NotManagement(NO_WRITER) if reader is None else await reader.read(request)

    async def _purge(self, purge: Purge) -> BrokerAnswer:
        """Purge over AMQP; over HTTP where nothing was sent over AMQP."""
        if self._purger is not None:
            answer = await self._purger.purge(purge)
            _log_change(f"queue.purge {purge.virtual_host} {purge.queue}", answer)
            if not isinstance(answer, NotSent):
                return answer
        return await self.make(purge.over_http)

    async def _make(self, client: ManagementClient, change: Change) -> ChangeAnswer:
        answer: ChangeAnswer = NotSent("there is no node to send it to")
        for node in self._nodes.in_order():
            answer = await self._make_at(client, node, change)
            if isinstance(answer, NotSent | Unanswered):
                self._nodes.failed(node)
            if not isinstance(answer, NotSent):
                break
        return answer

    async def _make_at(self, client: ManagementClient, node: str, change: Change) -> ChangeAnswer:
        sent = asyncio.Event()
        try:
            async with asyncio.timeout(self._deadline):
                return await self._change(client, node, change, sent)
        except PathFaultError as error:
            return Rejected(f"not sent: {error}")
        except UnprovedError as error:
            return NotSent(error_line(error), error.pause)
        except TimeoutError:
            reason = f"no answer within {self._deadline:g} s"
        except httpx.LocalProtocolError as error:  # found when the request was about to be sent
            return NotSent(error_line(error))
        except Exception as error:  # noqa: BLE001  a library's, which a name or text of a peer may cause
            reason = error_line(error)
        return Unanswered(reason) if sent.is_set() else NotSent(reason)

    async def _change(
        self, client: ManagementClient, node: str, change: Change, sent: asyncio.Event
    ) -> ChangeAnswer:
        async def trace(event: str, _: object) -> None:
            if event == _SENDS:
                sent.set()

        # A connection for each change: one that the broker is about to close would look like one that broke
        # after the request was read.
        headers = {b"connection": b"close"}
        if change.reason:
            headers[b"x-reason"] = change.reason.encode()
        if change.body is not None:
            headers[b"content-type"] = b"application/json"
        content = None if change.body is None else json.dumps(change.body).encode()
        async with client.stream(
            change.method,
            address_of(node, change.target),
            headers=list(headers.items()),
            content=content,
            extensions={"trace": trace},
        ) as response:
            body = bytearray()
            with contextlib.suppress(httpx.HTTPError):  # the status has said what counts
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > MAX_REASON_OCTETS:
                        break
            lacking = is_without_api(response.headers)
            return change_answer_of(response.status_code, bytes(body), lacks_api=lacking)


def _log_change(request: str, answer: PurgeAnswer) -> None:
    # A line for each: whoever reads this log finds what was changed, also where no gateway has a log.
    log.info(
        "broker-change",
        request=request,
        outcome=type(answer).__name__.lower(),
        reason=getattr(answer, "reason", ""),
    )


PURGE_SECONDS: Final = 20.0
"""Minimum time for which the answer to a purge is awaited."""
OPEN_SECONDS: Final = 2.0
"""Maximum time to open a connection or a channel; the purge may still go over HTTP after that."""
UNREACHED_SECONDS: Final = 10.0
"""Time after a failed attempt to reach the broker in which further purges do not try it."""
_NAME: Final = "amqp-gateway purge"


class AmqpPurger:
    """Purges queues of a broker as the user who changes it.

    Over AMQP the broker reports how many messages it dropped; over HTTP it does not. Each purge has its own
    connection: queues are in any virtual host, and purges are rare. Until the connection is open nothing was
    sent, so the purge may still go over HTTP. An alarm does not block a connection that only
    purges: RabbitMQ blocks those that publish.

    Args:
        endpoint: the broker, with that user; its virtual host is ignored.
        deadline: seconds that a purge may take after it was sent.
    """

    def __init__(self, endpoint: AmqpEndpoint, deadline: float = PURGE_SECONDS) -> None:
        self._nodes = NodeChoice(endpoint.nodes)
        self._deadline = deadline
        self._not_before = 0.0
        self._unreached = ""

    async def purge(self, purge: Purge) -> PurgeAnswer:
        """Purge a queue, once; any failure is an answer, too."""
        now = asyncio.get_running_loop().time
        if now() < self._not_before:
            return NotSent(self._unreached)
        answer: PurgeAnswer = NotSent("there is no node to send it to")
        for node in self._nodes.in_order():
            self._unreached = ""
            answer = await self._purge_at(node, purge)
            if not (isinstance(answer, NotSent) and self._unreached):
                return answer
            self._nodes.failed(node)
        self._not_before = now() + UNREACHED_SECONDS
        return answer

    async def _purge_at(self, node: AmqpEndpoint, purge: Purge) -> PurgeAnswer:
        # pamqp takes fewer names than brokers do, and libraries raise errors of many kinds. Until the request
        # is sent, each of them means that nothing was done.
        endpoint, connection = replace(node, vhost=purge.virtual_host), None
        try:
            pamqp.frame.marshal(spec.Queue.Purge(queue=purge.queue), 1)
            async with asyncio.timeout(OPEN_SECONDS):
                connection = await open_connection(endpoint, _NAME)
            _compare(node, cluster_name(connection), purge)
            async with asyncio.timeout(OPEN_SECONDS):
                channel = await connection.channel(publisher_confirms=False)
                queue = await channel.get_queue(purge.queue, ensure=False)
        except (Exception, asyncio.CancelledError) as error:
            await close_soon(connection)
            if is_cancelled():
                raise
            late = f"no {'channel' if connection else 'connection'} within {OPEN_SECONDS:g} s"
            reason = late if isinstance(error, TimeoutError) else error_line(error)
            refused = isinstance(error, LinkError) and error.trouble is not Trouble.UNREACHABLE
            if not (refused or isinstance(error, ValueError)):
                self._unreached = reason
            return NotSent(reason)
        try:
            async with asyncio.timeout(self._deadline):
                answered = await queue.purge()
        except (Exception, asyncio.CancelledError) as error:
            # aiormq cancels those who wait for an answer on a connection that ends.
            if is_cancelled():
                raise
            return purge_failure(error, self._deadline)
        finally:
            await close_soon(connection)
        return Purged(answered.message_count or 0)


def _compare(node: AmqpEndpoint, found: str, purge: Purge) -> None:
    """Compare the name of the cluster that was reached with that of the queue.

    Raises:
        LinkError: it is another broker, which may have a queue of the name, too.
    """
    if found and purge.clusters and found not in purge.clusters:
        raise LinkError(Trouble.BROKEN, f"{node}: is another broker, cluster {found!r}")


def purge_failure(error: BaseException, deadline: float) -> PurgeAnswer:
    """Return the outcome of a purge that was sent, and failed with ``error``.

    Every refusal ends the channel, or the connection, with a code. An end without a code, or with a code for
    a fault of the broker itself, does not show whether the queue was purged.
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
