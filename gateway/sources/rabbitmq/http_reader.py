"""Requests over HTTP that read from the management API, or the nodes' metrics.

Each request has a deadline and a limit of size.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

import httpx
import structlog
from pydantic import SecretStr

from gateway.dialects.errors import ProtocolError
from gateway.links.amqp_connection import user_agent
from gateway.links.reconnecting import NodeChoice
from gateway.links.tls import SYSTEM_AUTHORITIES, ClientTls
from gateway.model.texts import error_line
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.management_api import (
    ENDED_EARLY,
    LONG_BYTES,
    NO_JSON,
    Answer,
    ArrayDecoder,
    Broken,
    Document,
    ListingRequest,
    NotFound,
    NotManagement,
    OverviewRequest,
    Unavailable,
    answer_of,
    is_administrative,
    page_of,
)
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.prometheus_samples import (
    NotScraped,
    Scraped,
    ScrapeRequest,
    Sheet,
)

log = structlog.get_logger(__name__)

MAX_BODY_OCTETS = 16 * 1024 * 1024
"""Maximum size of a body; a page of 500 queues with all columns is 0.7 MB."""
CONNECT_SECONDS = 3.0
"""Maximum time to connect to one of several nodes: another one may be reached sooner."""
LISTING_SECONDS = 8.0
"""Maximum time of a listing: a longer one is given up before the broker is reported as silent."""
PATIENCE_SECONDS = 6.0
"""Maximum time for the answer of a node while others have not been tried.

A source that has waited 10 s for an answer reports that the broker does not answer.
"""

STARTING_SECONDS = 3.0
"""Maximum time to wait until a node reports that it serves; one in maintenance reports that it does not."""
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
    """

    url: str
    user: str
    password: SecretStr
    tls: ClientTls = SYSTEM_AUTHORITIES
    deadline: float = 20.0
    others: tuple[str, ...] = ()
    source: str = ""

    @property
    def urls(self) -> tuple[str, ...]:
        """URLs of all nodes, in the order in which they are configured."""
        return (self.url, *self.others)


def address_of(node: str, target: str) -> str:
    """Return the URL of ``target``, path and query below ``/api/``, on the node with the URL ``node``."""
    return f"{node.rstrip('/')}/api/{target}"


def management_client(endpoint: ManagementEndpoint) -> httpx.AsyncClient:
    """Return a client of the management API with one connection.

    Targets are relative to ``/api/`` of the first node; `address_of` gives those of the others.

    Raises:
        TlsFileError: a file of TLS cannot be used.
    """
    return httpx.AsyncClient(
        base_url=address_of(endpoint.url, ""),
        auth=httpx.BasicAuth(endpoint.user, endpoint.password.get_secret_value()),
        verify=endpoint.tls.renewed_context(),
        # The broker's processors are dearer than the network between it and us.
        headers={"accept-encoding": "identity", "user-agent": user_agent(endpoint.source)},
        timeout=httpx.Timeout(
            endpoint.deadline, connect=CONNECT_SECONDS if endpoint.others else endpoint.deadline
        ),
        limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
        # A password goes only where the configuration says.
        trust_env=False,
        follow_redirects=False,
    )


class Target(Protocol):
    """A request, such as a `gateway.sources.rabbitmq.management_api.ManagementRequest`."""

    @property
    def target(self) -> str:
        """Path and query below ``/api/``."""
        ...


class HttpReader:
    """Reads from the management API. Use it as an asynchronous context manager.

    If there are several nodes, requests go to the one that answers. If it does not answer, each of the others
    is tried once.

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
        self._nodes = nodes or NodeChoice(endpoint.urls)
        self._client = management_client(endpoint)
        self._administrator = management_client(administrator) if administrator else self._client
        self._refusing: set[str] = set()

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
        clock = asyncio.get_running_loop().time
        is_listing = isinstance(request, ListingRequest)
        end = clock() + (min(self._deadline, LISTING_SECONDS) if is_listing else self._deadline)
        *first, last = self._nodes.in_order()
        failures: list[str] = []
        for node in first:
            # Half of what is left at most, so that the last one has time too, however many there are.
            half = self._deadline / 2 if is_listing else (end - clock()) / 2
            answer = await self._read_from(node, request, min(PATIENCE_SECONDS, half))
            failure = _failure(request, answer)
            # A listing may take long on each node: the overview, asked next, shows whether this one answers.
            if not failure or (is_listing and isinstance(answer, Unavailable) and answer.late):
                return answer
            failures.append(f"{node}: {failure}")
            self._failed(node, failure)
        answer = await self._read_from(last, request, end - clock())
        if not failures or not _failure(request, answer):
            return answer
        self._failed(last, _failure(request, answer))
        failures.append(f"{last}: {_failure(request, answer)}")
        return Unavailable(f"none of {len(failures)} nodes: {'; '.join(failures)}")

    def _failed(self, node: str, reason: str) -> None:
        if self._nodes.failed(node):
            log.warning("management-node-failed", node=node, detail=reason, next=self._nodes.preferred)

    async def _read_from(self, node: str, request: Target, seconds: float) -> Answer:
        client = self._administrator if is_administrative(request) else self._client
        try:
            async with asyncio.timeout(seconds):
                if node in self._refusing:
                    await self._serving(node, min(STARTING_SECONDS, seconds / 2))
                return await self._read(client, address_of(node, request.target))
        except httpx.ConnectTimeout:
            return Unavailable("no connection in time")
        except (TimeoutError, httpx.TimeoutException):
            return Unavailable(f"no answer within {seconds:.2g} s", late=True)
        except httpx.RemoteProtocolError as error:
            return _broken_off(error)
        except httpx.HTTPError as error:
            if isinstance(error, httpx.ConnectError):
                self._refusing.add(node)
            return Unavailable(ENDED_EARLY if isinstance(error, httpx.ReadError) else error_line(error))
        except httpx.InvalidURL as error:
            return NotManagement(error_line(error))

    async def _serving(self, node: str, seconds: float) -> None:
        """Wait until a node that refused a connection serves, for at most ``seconds``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                answer: Answer = Unavailable("not asked", responded=True)
                while isinstance(answer, Unavailable) and answer.responded:
                    answer = await self._read(self._client, address_of(node, _SERVING))
                    await asyncio.sleep(_SERVING_PAUSE if isinstance(answer, Unavailable) else 0)
        self._refusing.discard(node)

    async def _read(self, client: httpx.AsyncClient, target: str) -> Answer:
        async with client.stream("GET", target) as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                return NotManagement("it compresses what was not to be compressed")
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > MAX_BODY_OCTETS:
                    # Some collections come whole, however large: that is no reason to give up the others.
                    return Broken(f"an answer of more than {MAX_BODY_OCTETS} bytes", permanent=True)
            if response.status_code == httpx.codes.OK and len(body) > LONG_BYTES and body.startswith(b"["):
                return await _array(bytes(body))
            return answer_of(response.status_code, bytes(body))


async def _array(body: bytes) -> Answer:
    """Return a long listing; it is decoded in steps, between which other tasks run."""
    try:
        decoder = ArrayDecoder(body)
        for _ in decoder.steps():
            await asyncio.sleep(0)
    except (ValueError, RecursionError):
        return NO_JSON
    return Document(decoder.elements, len(body))


def _failure(request: Target, answer: Answer) -> str:
    """Return the reason to try another node; empty if the answer is valid.

    A node that starts or stops gives invalid answers to some requests.
    """
    if isinstance(answer, Unavailable):
        return answer.reason
    if isinstance(request, OverviewRequest) and isinstance(answer, NotFound | NotManagement | Broken):
        return "it has no overview"
    if isinstance(request, ListingRequest) and isinstance(answer, Document) and page_of(answer) is None:
        return f"{request.collection} is no listing"
    return ""


def _broken_off(error: httpx.RemoteProtocolError) -> Answer:
    """Return the meaning of ``error``: a server that stops ended the connection, or it speaks no HTTP."""
    text = error_line(error)
    if "disconnected" in text or "closed" in text:
        return Unavailable(text)
    return NotManagement(f"it speaks no HTTP: {text}")


MAX_BODY_BYTES: Final = 512 * 1024 * 1024
"""Maximum size of a body: 500,000 queues are 450 MB. Only the values of a body are kept."""
PART_BYTES: Final = 16 * 1024
"""Number of bytes that are processed at a time, in about a millisecond."""


class PrometheusReader:
    """Reads metrics. Use it as an asynchronous context manager.

    The metrics of a broker's nodes are processed as they arrive, in steps between which other tasks run.

    No login is sent: the endpoint needs none, and the server at a listener's address is not authenticated.

    Args:
        tls: the files of TLS.
        deadline: seconds that a request may take altogether.
        source: name of the source that reads, for the broker's log; may be empty.

    Raises:
        TlsFileError: a file of TLS cannot be used.
    """

    def __init__(self, tls: ClientTls = SYSTEM_AUTHORITIES, deadline: float = 20.0, source: str = "") -> None:
        self._deadline = deadline
        self._client = httpx.AsyncClient(
            verify=tls.renewed_context(),
            headers={"accept-encoding": "identity", "user-agent": user_agent(source)},
            timeout=httpx.Timeout(deadline, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=8, max_keepalive_connections=8),
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
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return NotScraped(error_line(error))
        except ProtocolError as error:
            return NotScraped(f"expected {error.expected}, found {error.found}")

    async def _scrape(
        self, request: ScrapeRequest, sheet: Sheet, names: dict[bytes, ObjectName | None]
    ) -> Scraped | NotScraped:
        clock = asyncio.get_running_loop().time
        began = clock()
        reading, size = 0.0, 0
        async with self._client.stream("GET", request.address) as response:
            waited = clock() - began
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
        busy = clock() - began - reading
        sheet.finish()
        for _ in sheet.resolve(names):
            await asyncio.sleep(0)
        return Scraped(sheet, int(waited * SECOND), int(busy * SECOND), size)
