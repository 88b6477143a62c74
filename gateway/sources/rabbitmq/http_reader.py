"""Requests over HTTP that read from the management API, or the nodes' metrics.

Each request has a deadline and a limit of size.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, Protocol, Self

import httpx
import structlog

from gateway.dialects.errors import ProtocolError
from gateway.links.addressed_http import AddressedTransport
from gateway.links.amqp_connection import user_agent
from gateway.links.credentials import AnySecret
from gateway.links.credentials_error import CredentialsError
from gateway.links.http_proxy import HttpProxy, ProxyTransport
from gateway.links.reconnecting import NodeChoice
from gateway.links.tls import SYSTEM_AUTHORITIES, ClientTls, handshake_advice
from gateway.model.texts import error_line
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.http_login import HttpLogin
from gateway.sources.rabbitmq.management_api import (
    COMPRESSED,
    ENDED_EARLY,
    LISTING_PATIENCE,
    LONG_BYTES,
    NO_JSON,
    PAUSES_SECONDS,
    Answer,
    Broken,
    DetailRequest,
    Document,
    ListingDecoder,
    ListingRequest,
    NotFound,
    NotManagement,
    OverviewRequest,
    Unavailable,
    answer_of,
    api_advice,
    is_administrative,
    is_without_api,
    page_of,
)
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.prometheus_samples import (
    NotScraped,
    Scraped,
    ScrapeRequest,
    Sheet,
)
from gateway.sources.rabbitmq.proving_client import (
    KEPT_SECONDS,
    CachedAnswerError,
    ManagementClient,
    PathFaultError,
    demanded_by,
    not_cached,
    uncached,
)

log = structlog.get_logger(__name__)

MAX_BODY_OCTETS = 16 * 1024 * 1024
"""Maximum size of a body; a page of 500 queues with all columns is 0.7 MB."""
CONNECT_SECONDS = 3.0
"""Maximum time to connect to one of several nodes: another one may be reached sooner."""
LISTING_SECONDS = LISTING_PATIENCE / SECOND
"""Maximum time of a listing, if it is not to take longer (`ListingRequest.patience`)."""
PATIENCE_SECONDS = 6.0
"""Maximum time for the answer of a node while others have not been tried.

A source that has waited 10 s for an answer reports that the broker does not answer.
"""

STARTING_SECONDS = 3.0
"""Maximum time to wait until a node reports that it serves; one in maintenance reports that it does not."""
MAJORITY_SECONDS = 30.0
"""Minimum time between two looks for a node that sees more of the cluster than the one that answers."""
_SERVING = "health/checks/is-in-service"
_SERVING_PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class ManagementEndpoint:
    """The address of the management API, and the user who accesses it.

    Attributes:
        url: ``http://host:15672`` or ``https://...``, without ``/api`` and without user info.
        user: a user with the tag ``monitoring``.
        tls: the files of TLS.
        deadline: seconds that a request may take altogether.
        others: URLs of further nodes of the same cluster, which are tried if the first does not answer.
        source: name of the source that reads, for the broker's log; may be empty.
        proxy: the proxy to the nodes; ``None`` for none.
    """

    url: str
    user: str
    password: AnySecret = field(repr=False)
    tls: ClientTls = SYSTEM_AUTHORITIES
    deadline: float = 20.0
    others: tuple[str, ...] = ()
    source: str = ""
    proxy: HttpProxy | None = None

    @property
    def urls(self) -> tuple[str, ...]:
        """URLs of all nodes, in the order in which they are configured."""
        return (self.url, *self.others)


def address_of(node: str, target: str) -> str:
    """Return the URL of ``target``, path and query below ``/api/``, on the node with the URL ``node``."""
    return f"{node.rstrip('/')}/api/{target}"


def management_client(endpoint: ManagementEndpoint) -> ManagementClient:
    """Return a client of the management API with one connection.

    Targets are relative to ``/api/`` of the first node; `address_of` gives those of the others.

    Raises:
        TlsFileError: a file of TLS cannot be used.
    """
    return ManagementClient(
        (address_of(url, "") for url in endpoint.urls),
        auth=HttpLogin(endpoint.user, endpoint.password),
        # The broker's processors are dearer than the network between it and us.
        headers={"accept-encoding": "identity", "user-agent": user_agent(endpoint.source)},
        timeout=httpx.Timeout(
            endpoint.deadline, connect=CONNECT_SECONDS if endpoint.others else endpoint.deadline
        ),
        transport=_transport(
            endpoint.tls.renewed_context(endpoint.urls),
            httpx.Limits(max_connections=4, max_keepalive_connections=2, keepalive_expiry=KEPT_SECONDS),
            endpoint.proxy,
        ),
        # A password goes only where the configuration says.
        trust_env=False,
        follow_redirects=False,
    )


def _transport(
    context: ssl.SSLContext, limits: httpx.Limits, proxy: HttpProxy | None
) -> httpx.AsyncBaseTransport:
    """Return what sends requests; a proxy looks for the addresses of hosts by itself."""
    return AddressedTransport(context, limits) if proxy is None else ProxyTransport(proxy, context, limits)


class Target(Protocol):
    """A request, such as a `gateway.sources.rabbitmq.management_api.ManagementRequest`."""

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        ...


class HttpReader:
    """Reads from the management API. Use it as an asynchronous context manager.

    If there are several nodes, requests go to the one that answers. If it does not answer, each of the others
    is tried once. A node that the network separates from most others, and that goes on (as each does since
    RabbitMQ 4.3, and before where partitions are ignored), shows these as down. Then the others are asked for
    the nodes, too, and the one that sees most of them running answers from then on.

    A node that refused a connection may be starting: RabbitMQ 4.3 answers before it can report its own state,
    and writes a crash report for each request for that. The node gets no other request before it reports that
    it serves, or that it does not know that request (as 4.0), or `STARTING_SECONDS` have passed.

    Args:
        endpoint: the management API, and the user who reads it.
        administrator: the same with a user who has more rights than the tag ``monitoring``; ``None`` if there
            is none.
        nodes: the choice among the endpoint's nodes, if it is shared with other clients of the cluster.

    Raises:
        TlsFileError: a file of TLS cannot be used.
    """

    def __init__(
        self,
        endpoint: ManagementEndpoint,
        administrator: ManagementEndpoint | None = None,
        nodes: NodeChoice[str] | None = None,
    ) -> None:
        self._deadline = endpoint.deadline
        self._proxy = "" if endpoint.proxy is None else endpoint.proxy.url
        self._nodes = nodes or NodeChoice(endpoint.urls)
        self._client = management_client(endpoint)
        self._administrator = management_client(administrator) if administrator else self._client
        self._refusing: set[str] = set()
        self._looks_at = 0.0  # when it may be looked for a majority again

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.aclose()
        await self._administrator.aclose()

    async def read(self, request: Target) -> Answer:
        """Send ``request``; any failure is an answer, too."""
        answer = await self._read_in_order(request)
        if isinstance(request, ListingRequest) and request.collection == "nodes":
            return await self._of_majority(request, answer)
        return answer

    async def _of_majority(self, request: ListingRequest, answer: Answer) -> Answer:
        """Return the answer of the node that sees most nodes running, if this one is of a minority."""
        asked, *others = self._nodes.in_order()
        now, (running, known) = asyncio.get_running_loop().time(), _running(answer)
        if 2 * running >= known or now < self._looks_at:
            return answer
        self._looks_at = now + MAJORITY_SECONDS
        for node in others:
            other = await self._read_from(node, request, PATIENCE_SECONDS / len(others))
            if _running(other)[0] > running:
                reason = f"it sees {running} of {known} nodes, and another one more"
                log.warning("management-node-isolated", node=asked, detail=reason, next=node)
                self._nodes.prefer(node)
                return other
        return answer

    async def _read_in_order(self, request: Target) -> Answer:
        clock = asyncio.get_running_loop().time
        # A node asks another one for its memory, which may hang.
        is_listing = isinstance(request, ListingRequest | DetailRequest)
        longer = (request.patience - LISTING_PATIENCE) / SECOND if isinstance(request, ListingRequest) else 0
        end = clock() + longer + (min(self._deadline, LISTING_SECONDS) if is_listing else self._deadline)
        *first, last = self._nodes.in_order()
        failures: list[str] = []
        pauses: list[int] = []
        explained = True
        for node in first:
            # Half of what is left at most, so that the last one has time too, however many there are.
            half = self._deadline / 2 if is_listing else (end - clock()) / 2
            answer = await self._read_from(node, request, longer + min(PATIENCE_SECONDS, half))
            failure = _failure(request, answer)
            # A listing may take long on each node: the overview, asked next, shows whether this one answers.
            if not failure or (is_listing and isinstance(answer, Unavailable) and answer.late):
                return answer
            explained = explained and _is_explained(answer)
            failures.append(f"{node}: {failure}")
            pauses.append(_pause(answer))
            self._failed(node, failure)
        answer = await self._read_from(last, request, end - clock())
        if not failures or not _failure(request, answer):
            return answer
        self._failed(last, _failure(request, answer))
        failures.append(f"{last}: {_failure(request, answer)}")
        pause = min(*pauses, _pause(answer))
        text = f"none of {len(failures)} nodes: {'; '.join(failures)}"
        explained = explained and _is_explained(answer)
        return Unavailable(text, responded=bool(pause), pause=pause, explained=explained)

    def _failed(self, node: str, reason: str) -> None:
        if self._nodes.failed(node):
            log.warning("management-node-failed", node=node, detail=reason, next=self._nodes.preferred)

    async def _read_from(self, node: str, request: Target, seconds: float) -> Answer:
        client = self._administrator if is_administrative(request) else self._client
        try:
            async with asyncio.timeout(seconds):
                if node in self._refusing:
                    await self._serving(node, min(STARTING_SECONDS, seconds / 2))
                answer = await self._read(client, address_of(node, request.target), seconds)
                if isinstance(request, OverviewRequest) and isinstance(answer, Document):
                    return replace(answer, paths=await client.prove(address_of(node, "")))
                if isinstance(request, OverviewRequest) and isinstance(answer, NotFound) and api_advice(node):
                    answer = Unavailable(api_advice(node), explained=True)
                return answer
        except (TimeoutError, httpx.TimeoutException) as error:
            if isinstance(error, httpx.ConnectTimeout):
                return Unavailable("no connection in time")
            return Unavailable(f"no answer within {seconds:.2g} s", late=True)
        except (httpx.HTTPError, httpx.InvalidURL, CredentialsError) as error:
            if isinstance(error, httpx.ConnectError):
                self._refusing.add(node)
            return _failed_with(error, node, self._proxy)
        except Exception as error:  # noqa: BLE001  a name of the broker's may be in the URL: of this request only
            return Broken(error_line(error))

    async def _serving(self, node: str, seconds: float) -> None:
        """Wait until a node that refused a connection serves, for at most ``seconds``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                answer: Answer = Unavailable("not asked", responded=True)
                while isinstance(answer, Unavailable) and answer.responded and not answer.pause:
                    answer = await self._read(self._client, address_of(node, _SERVING), seconds)
                    await asyncio.sleep(_SERVING_PAUSE if isinstance(answer, Unavailable) else 0)
        self._refusing.discard(node)

    async def _read(self, client: ManagementClient, target: str, seconds: float) -> Answer:
        clock = asyncio.get_running_loop().time
        began = clock()
        timeout = httpx.Timeout(seconds, connect=client.timeout.connect)
        async with client.stream("GET", target, timeout=timeout) as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                return Unavailable(COMPRESSED, responded=True, explained=True)
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > MAX_BODY_OCTETS:
                    # Some collections come whole, however large: that is no reason to give up the others.
                    return Broken(f"an answer of more than {MAX_BODY_OCTETS} bytes", permanent=True)
            spent = int(_spent(response, clock() - began) * SECOND)
            is_long = response.status_code == httpx.codes.OK and len(body) > LONG_BYTES
            whole = bytes(body)
            answer = await _long(response, whole) if is_long else response_answer(response, whole)
            return replace(answer, spent=spent) if isinstance(answer, Document) else answer


def _running(answer: Answer) -> tuple[int, int]:
    """Return how many nodes a listing of nodes shows as running, and how many it shows."""
    nodes = answer.body if isinstance(answer, Document) and isinstance(answer.body, list) else []
    return sum(1 for node in nodes if isinstance(node, Mapping) and node.get("running") is True), len(nodes)


def response_answer(response: httpx.Response, body: bytes) -> Answer:
    """Return what a response with this body means, now."""
    if response.status_code == httpx.codes.PROXY_AUTHENTICATION_REQUIRED:
        return Unavailable(
            "the proxy demands a login: check 'user' and 'password' of 'proxy'", explained=True
        )
    lacking = is_without_api(response.headers)
    return answer_of(response.status_code, body, demanded_by(response), lacks_api=lacking)


async def after_pauses(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return the answer that ``ask`` gets after demanded pauses, of `PAUSES_SECONDS` at most together.

    For commands; a source plans its requests itself.
    """
    left = int(PAUSES_SECONDS * SECOND)
    while True:
        answer = await ask()
        pause = _pause(answer)
        if not 0 < pause <= left:
            return answer
        left -= pause
        await asyncio.sleep(pause / SECOND)


_TCP_TIMES: Final = struct.Struct("=44xI4xI")
"""Of Linux' ``struct tcp_info``: milliseconds since data was sent, and since data was received."""
_TCP_TICK: Final = 0.01
"""Seconds by which these may be wrong: the kernel counts in ticks."""


def _spent(response: httpx.Response, elapsed: float) -> float:
    """Return the seconds from the sending of a request to the arrival of the last byte of its answer.

    The kernel notes both. A process that is short of processor time takes the answer long after it arrived:
    where the kernel does not say when that was, ``elapsed`` is returned.
    """
    stream: Any = response.extensions.get("network_stream")
    try:
        connection = stream.get_extra_info("socket")
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_TIMES.size)
        sent, received = _TCP_TIMES.unpack(info)
    except (AttributeError, OSError, struct.error):
        return elapsed
    return min(elapsed, (sent - received) / 1000 + _TCP_TICK) if sent >= received else elapsed


async def _long(response: httpx.Response, body: bytes) -> Answer:
    """Return a long answer; a listing is decoded in steps, between which other tasks run."""
    try:
        decoder = ListingDecoder(body)
    except ValueError:
        return response_answer(response, body)
    try:
        for _ in decoder.steps():
            await asyncio.sleep(0)
    except ValueError:
        return NO_JSON
    return decoder.document or NO_JSON


def _pause(answer: Answer) -> int:
    return answer.pause if isinstance(answer, Unavailable) else 0


def _failure(request: Target, answer: Answer) -> str:
    """Return the reason to try another node; empty if the answer is valid.

    A node that starts or stops gives invalid answers to some requests.
    """
    if isinstance(answer, Unavailable):
        return answer.reason
    if isinstance(request, OverviewRequest) and isinstance(answer, NotFound | NotManagement | Broken):
        return "it has no overview"
    is_document = isinstance(answer, Document)
    if isinstance(request, ListingRequest) and is_document and page_of(answer, request.page) is None:
        return f"{request.collection} is no listing"
    return ""


def _is_explained(answer: Answer) -> bool:
    return isinstance(answer, Unavailable) and answer.explained


def _explanation(error: httpx.HTTPError | httpx.InvalidURL | CredentialsError, node: str, proxy: str) -> str:
    """Return what an error means that says what to do; empty for another one."""
    text = error_line(error)
    if isinstance(error, CredentialsError):
        return text
    if not isinstance(error, httpx.ConnectError | httpx.ProxyError):
        return ""
    if advice := handshake_advice(text):
        return f"{node}: TLS failed ({text}): {advice}"
    return (
        f"the proxy {proxy} leads nowhere ({text}): check 'proxy', and whether it is running" if proxy else ""
    )


def _failed_with(
    error: httpx.HTTPError | httpx.InvalidURL | CredentialsError, node: str, proxy: str
) -> Answer:
    """Return the meaning of an error that is no answer, or not a whole one.

    Args:
        error: of a request.
        node: the URL of the node.
        proxy: the URL of the proxy; empty for none.
    """
    if explanation := _explanation(error, node, proxy):
        return Unavailable(explanation, explained=True)
    text = error_line(error)
    match error:
        case PathFaultError() | CachedAnswerError():
            return Broken(text)
        case httpx.InvalidURL():
            return NotManagement(text)
        case httpx.ReadError():
            return Unavailable(ENDED_EARLY, cut=True)
        case httpx.RemoteProtocolError() if "disconnected" not in text and "closed" not in text:
            return NotManagement(f"it speaks no HTTP: {text}")
    # A server that stops ended the connection, or the network failed.
    return Unavailable(text, cut=isinstance(error, httpx.RemoteProtocolError))


MAX_BODY_BYTES: Final = 512 * 1024 * 1024
"""Maximum size of a body: 500,000 queues are 450 MB. Only the values of a body are kept."""
PART_BYTES: Final = 16 * 1024
"""Number of bytes that are processed at a time, in about a millisecond."""


class PrometheusReader:
    """Reads metrics. Use it as an asynchronous context manager.

    The metrics of a broker's nodes are processed as they arrive, in steps between which other tasks run.

    Without ``login`` none is sent: the endpoint needs none by default, and the server at a listener's address
    is not authenticated.

    Args:
        tls: the files of TLS.
        deadline: seconds that a request may take altogether.
        source: name of the source that reads, for the broker's log; may be empty.
        proxy: the proxy to the nodes; ``None`` for none.
        login: logs in to each request; ``None`` for no login.

    Raises:
        TlsFileError: a file of TLS cannot be used.
    """

    def __init__(
        self,
        tls: ClientTls = SYSTEM_AUTHORITIES,
        deadline: float = 20.0,
        source: str = "",
        proxy: HttpProxy | None = None,
        login: HttpLogin | None = None,
    ) -> None:
        self._deadline = deadline
        self._has_login = login is not None
        self._client = httpx.AsyncClient(
            auth=login,
            headers={"accept-encoding": "identity", "user-agent": user_agent(source)},
            timeout=httpx.Timeout(deadline, connect=CONNECT_SECONDS),
            transport=_transport(
                tls.renewed_context(()),  # a broker says where its metrics are
                httpx.Limits(max_connections=8, max_keepalive_connections=8, keepalive_expiry=KEPT_SECONDS),
                proxy,
            ),
            trust_env=False,
            follow_redirects=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def scrape(
        self, request: ScrapeRequest, sheet: Sheet, names: dict[bytes, ObjectName | None]
    ) -> Scraped | NotScraped:
        """Read a node's metrics; any failure is an answer, too.

        Args:
            request: the node, and the metrics to request.
            sheet: takes the metrics of interest.
            names: the objects by their labels, as far as they are known; new ones are added.
        """
        try:
            async with asyncio.timeout(self._deadline):
                return await self._scrape(request, sheet, names)
        except httpx.ConnectTimeout:
            return NotScraped("no connection in time")
        except (TimeoutError, httpx.TimeoutException):
            return NotScraped(f"no answer within {self._deadline:.2g} s")
        except ProtocolError as error:
            return NotScraped(f"expected {error.expected}, found {error.found}")
        except Exception as error:  # noqa: BLE001  of httpx, or of what was read
            return NotScraped(error_line(error))

    async def _scrape(
        self, request: ScrapeRequest, sheet: Sheet, names: dict[bytes, ObjectName | None]
    ) -> Scraped | NotScraped:
        clock = asyncio.get_running_loop().time
        began = clock()
        reading, size = 0.0, 0
        asked = self._client.build_request("GET", request.address)
        uncached(asked)
        async with contextlib.aclosing(await self._client.send(asked, stream=True)) as response:
            waited = clock() - began
            not_cached(response)
            if response.status_code == httpx.codes.UNAUTHORIZED:
                what = "check 'prometheus_login'" if self._has_login else "name a user in 'prometheus_login'"
                return NotScraped(f"a login is demanded (status 401): {what}")
            if response.status_code != httpx.codes.OK:
                return NotScraped(f"status {response.status_code}")
            if response.headers.get("content-encoding", "identity") != "identity":
                return NotScraped("it compresses what was not to be compressed")
            async for body in response.aiter_raw():
                size += len(body)
                if size > MAX_BODY_BYTES:
                    return NotScraped(f"an answer of more than {MAX_BODY_BYTES} bytes")
                here = clock()
                for start in range(0, len(body), PART_BYTES):
                    sheet.feed(body[start : start + PART_BYTES])
                    await asyncio.sleep(0)
                reading += clock() - here
        busy = min(clock() - began - reading, _spent(response, clock() - began))
        sheet.finish()
        for _ in sheet.resolve(names):
            await asyncio.sleep(0)
        return Scraped(sheet, int(waited * SECOND), int(busy * SECOND), size)
