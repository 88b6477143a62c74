"""The HTTP endpoint that Prometheus scrapes: GET and HEAD of ``/metrics`` and ``/metrics/objects``.

It runs in the supervisor, on which everything depends, so a request must cost little: connections, heads and
times are bounded, and bodies are not read. prometheus-client makes the page ``/metrics``. The supervisor
imports this module only where metrics are served: h11 and prometheus-client take 4 MB.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ipaddress
import re
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import h11
import structlog
from prometheus_client import Metric

from gateway.feed.guesses import Guess, Guesses
from gateway.links.handshakes import Failure, Handshakes
from gateway.links.tls import LOOK_SECONDS, ServerTls, TlsFileError, TlsRenewal
from gateway.local_sockets import connected
from gateway.prometheus.objects import encode
from gateway.rate_limiter import RateLimiter
from gateway.service.metrics import families
from gateway.service.metrics.families import Family, Kind, Reading
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.lifeline import AccessRefused
from gateway.tasks import until_closed

log = structlog.get_logger(__name__)
Answer = Callable[[str], Awaitable[tuple[bytes, str]]]
"""A function that makes a page: it takes the header ``Accept``, and returns body and content type.

It raises `PageUnavailableError` if the page cannot be made now.
"""

METRICS: Final = b"/metrics"
OBJECTS: Final = b"/metrics/objects"
BACKLOG: Final = 64
MAX_HEAD_OCTETS: Final = 8192
COMPRESSED_OCTETS: Final = 4096
"""The length from which on a body is compressed for a client that accepts that."""

_REFUSED: Final = re.compile(r"q=0(\.0*)?")
_COMPRESSION: Final = 1  # the fastest; names and labels repeat, so that more gains little
IDLE_SECONDS: Final = 75.0
"""Seconds for which a connection may be kept without a request; longer than Prometheus' usual interval."""

HANDSHAKE_SECONDS: Final = 5.0
"""Seconds for a handshake of TLS."""

FRONT_END: Final = "metrics"
"""The front end of principals that were refused here."""

FAILURE_LINES: Final = 10
FAILURE_SECONDS: Final = 60.0
"""So many handshakes that fail, and connections that are refused, are logged in so many seconds; the others
are counted."""

ACCEPT_AGAIN_SECONDS: Final = 1.0
WRITE_SECONDS: Final = 10.0
ASK_SECONDS: Final = 9.0
"""Seconds that another process may take for a page; Prometheus waits for 10 s."""

LINE_OCTETS: Final = 16 << 10
"""Maximum length of the request to another process, and of the first line of its answer."""

MAX_BODY_OCTETS: Final = 128 << 20
_CHUNK_OCTETS = 4096
_PART_OCTETS = 1 << 20
_TEXT = "text/plain; charset=utf-8"
_BY_NAME = {family.name: family for family in families.FAMILIES}


class PageUnavailableError(Exception):
    """A page cannot be made now; its text says why."""


class EndpointSettings(Protocol):
    """The settings of the endpoint (`gateway.service.processes.supervisor.MetricsPages`)."""

    @property
    def listen(self) -> tuple[str, int]:
        """Numeric address, and port."""
        ...

    @property
    def objects(self) -> Path | None:
        """The socket of the process that has the metrics of objects, if there is one."""
        ...

    @property
    def connections(self) -> int:
        """The maximum number of connections."""
        ...

    @property
    def tls(self) -> tuple[Path, Path] | None:
        """The files with certificate and key; ``None`` for plain HTTP."""
        ...

    @property
    def client_ca(self) -> Path | None:
        """The file with the authorities of required client certificates, if they are required."""
        ...


class MetricsEndpoint:
    """An HTTP server, which listens while the context is entered.

    Where a new connection finds no place, the one that has waited for its client for the longest time gives
    way: for a request, or until an answer is read. A scraper connects again. Only if an answer is being made
    for each of them the new one is refused.

    Args:
        listen: numeric address, and port; 0 for any.
        pages: makes a page, by path.
        tls: the settings of TLS, whose files may be replaced; ``None`` for plain HTTP.
        look_seconds: the interval at which the files are compared.
        guesses: counts and reports clients that TLS refuses; ``None`` reports them to no one.
        connections: the maximum number of connections.

    Attributes:
        refused: number of connections that were refused, or gave way, because there were too many.
        port: the port on which it listens.
    """

    def __init__(
        self,
        listen: tuple[str, int],
        pages: Mapping[bytes, Answer],
        tls: TlsRenewal | None = None,
        look_seconds: float = LOOK_SECONDS,
        guesses: Guesses | None = None,
        connections: int = 64,
    ) -> None:
        self._listen = listen
        self._most = connections
        self._pages = pages
        self._tls = tls
        self._look_seconds = look_seconds
        self._guesses = guesses
        self._handshakes = Handshakes("TLS on the endpoint of metrics", guesses)
        self._failure_lines = RateLimiter(FAILURE_LINES, FAILURE_SECONDS)
        self._refusal_lines = RateLimiter(FAILURE_LINES, FAILURE_SECONDS)
        self._loopback = ipaddress.ip_address(listen[0]).is_loopback
        self._running: list[asyncio.Task[None]] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._idle: dict[asyncio.Task[None], None] = {}  # those that wait for their client, the longest first
        self.refused = 0
        self.port = listen[1]

    def readings(self) -> Iterator[Reading]:
        """Yield the readings of the endpoint itself."""
        yield families.METRICS_REFUSED.at(self.refused)
        for failure in Failure:
            yield families.METRICS_HANDSHAKES.at(self._handshakes.failures[failure], failure.value)

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            CommandError: the address is taken or not permitted.
        """
        host, port = self._listen
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server(self._listen, family=family, backlog=BACKLOG)
        except OSError as error:
            raise CommandError(
                ExitCode.ADDRESS_IN_USE,
                f"metrics cannot be served on {host} port {port}: {error.strerror or error}; end what has it,"
                " or choose another address under metrics.listen",
            ) from error
        listening.setblocking(False)
        self.port = listening.getsockname()[1]
        self._running.append(asyncio.create_task(self._accept(listening)))
        if self._tls is not None:
            self._running.append(asyncio.create_task(self._tls.follow(self._look_seconds)))
            if self._guesses is not None:
                self._running.append(asyncio.create_task(self._guesses.run()))
        scheme = "http" if self._tls is None else "https"
        log.info(
            "metrics-ready", url=f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}/metrics"
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening, and close all connections."""
        tasks = [*self._connections, *self._running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        """Accept connections, of which those that have not begun to speak TLS count, too."""
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    accepted, address = await loop.sock_accept(listening)
                except OSError as error:  # too many open files, for example
                    log.warning("metrics-not-accepted", reason=error.strerror or str(error))
                    await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                    continue
                if len(self._connections) >= self._most and not self._makes_room(address[0]):
                    accepted.close()
                    continue
                task = asyncio.create_task(self._connected(accepted, address[0]))
                self._connections.add(task)
                self._idle[task] = None
                task.add_done_callback(self._forget)

    def _makes_room(self, address: str) -> bool:
        """Close the connection that has been idle for the longest time; return whether there is one."""
        self.refused += 1
        task = next(iter(self._idle), None)
        left_out = self._refusal_lines.admit()
        if left_out is not None:
            what = "refused" if task is None else "another one gave way"
            log.warning(
                "metrics-connections-full", address=address, most=self._most, what=what, left_out=left_out
            )
        if task is None:
            return False
        self._forget(task)
        task.cancel()
        return True

    def _waits(self, task: asyncio.Task[None]) -> None:
        """Note that a connection waits for its client from now on."""
        if task in self._connections:
            self._idle.pop(task, None)
            self._idle[task] = None

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._idle.pop(task, None)

    async def _connected(self, accepted: socket.socket, address: str) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_HEAD_OCTETS)
        protocol = asyncio.StreamReaderProtocol(reader)
        context = None if self._tls is None else self._tls.context
        handshake = None if context is None else HANDSHAKE_SECONDS
        try:
            if context is not None:
                await self._handshakes.turn_of(address)
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=context, ssl_handshake_timeout=handshake
            )
        except OSError as error:  # it went away, speaks no TLS, or its certificate is refused
            accepted.close()
            if context is not None:
                self._failed(address, self._handshakes.failed(address, error))
            return
        except asyncio.CancelledError:
            accepted.close()
            raise
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        patience = WRITE_SECONDS
        try:
            await self._converse(reader, writer)
        except (OSError, TimeoutError, h11.ProtocolError, asyncio.CancelledError):
            patience = 0.0  # it went away, is too slow or speaks no HTTP, or we end: no client waits
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await until_closed(writer, patience)

    def _failed(self, address: str, reason: str) -> None:
        left_out = self._failure_lines.admit()
        if left_out is not None:
            log.warning("metrics-handshake-failed", address=address, reason=reason, left_out=left_out)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_OCTETS)
        task = asyncio.current_task()
        assert task is not None
        while True:
            async with asyncio.timeout(IDLE_SECONDS):
                try:
                    request = await _request(connection, reader)
                except h11.RemoteProtocolError as error:
                    if connection.our_state is h11.IDLE:
                        status = HTTPStatus(error.error_status_hint)
                        body = f"{status.phrase}\n".encode()
                        await _send(connection, writer, status, body, [("content-type", _TEXT)])
                    return
            if request is None:
                return
            self._idle.pop(task, None)
            status, body, content_type = await self._respond(request)
            is_compressed = len(body) >= COMPRESSED_OCTETS and _takes_gzip(request)
            if is_compressed:
                body = await asyncio.to_thread(gzip.compress, body, _COMPRESSION)
            headers = [("content-type", content_type)]
            headers += [("content-encoding", "gzip")] if is_compressed else []
            self._waits(task)
            await _send(connection, writer, status, body, headers, head=request.method == b"HEAD")
            self._waits(task)
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _respond(self, request: h11.Request) -> tuple[HTTPStatus, bytes, str]:
        headers = dict(request.headers)
        if self._loopback and not _is_local(headers.get(b"host", b"").decode("ascii", "replace")):
            # A page in a browser of this machine could read what it named itself (DNS rebinding).
            return HTTPStatus.MISDIRECTED_REQUEST, b"ask by address, or as localhost\n", _TEXT
        answer = self._pages.get(request.target.partition(b"?")[0])
        if answer is None:
            return HTTPStatus.NOT_FOUND, self._known_pages(), _TEXT
        if request.method not in {b"GET", b"HEAD"}:
            return HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n", _TEXT
        try:
            body, content_type = await answer(headers.get(b"accept", b"").decode("ascii", "replace"))
        except PageUnavailableError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode(), _TEXT
        return HTTPStatus.OK, body, content_type

    def _known_pages(self) -> bytes:
        if OBJECTS in self._pages:
            return b"metrics are at /metrics, and those of objects at /metrics/objects\n"
        return b"metrics are at /metrics; those of objects would be if metrics.objects were configured\n"


def metrics_endpoint(
    settings: EndpointSettings,
    readings: Callable[[], Awaitable[Sequence[Reading]]],
    refused: Callable[[AccessRefused], None],
) -> MetricsEndpoint:
    """Return the endpoint of a gateway.

    Args:
        settings: address, TLS, and the process that has the metrics of objects.
        readings: returns the readings of all processes, for each request.
        refused: takes reports of clients that were refused by TLS.

    Raises:
        CommandError: a file of TLS cannot be used.
    """

    async def answer(accept: str) -> tuple[bytes, str]:
        return exposed([*await readings(), *endpoint.readings()], accept)

    def report(guess: Guess) -> None:
        refused(AccessRefused(FRONT_END, guess.address, guess.reason, guess.attempts))

    pages: dict[bytes, Answer] = {METRICS: answer}
    if settings.objects is not None:
        pages[OBJECTS] = partial(ask_process, settings.objects)
    guesses = Guesses(report, time.monotonic_ns)
    endpoint = MetricsEndpoint(
        settings.listen, pages, _renewal(settings), guesses=guesses, connections=settings.connections
    )
    return endpoint


def _renewal(settings: EndpointSettings) -> TlsRenewal | None:
    if settings.tls is None:
        return None
    renewal = TlsRenewal(ServerTls(*settings.tls, settings.client_ca), patient=True)
    try:
        renewal.latest()
    except TlsFileError as error:
        raise CommandError(ExitCode.CONFIGURATION, f"metrics: {error}") from error
    return renewal


async def ask_process(path: Path, accept: str) -> tuple[bytes, str]:
    """Request a page from the process that listens on the socket ``path``; return body and content type.

    The request is a line with the header ``Accept``. The answer is the content type in a line, then the body.

    Raises:
        PageUnavailableError: the process is not there, or sends nothing.
    """
    try:
        async with asyncio.timeout(ASK_SECONDS):
            reader, writer = await connected(path, LINE_OCTETS)
            try:
                writer.write(accept.encode("latin-1", "replace").replace(b"\n", b" ") + b"\n")
                content_type = (await reader.readline()).decode("latin-1").rstrip("\n")
                body = bytearray()
                while part := await reader.read(_PART_OCTETS):
                    body += part
                    if len(body) > MAX_BODY_OCTETS:
                        raise PageUnavailableError("the page is too long: choose less in the configuration")
            finally:
                writer.close()
    except (OSError, ValueError) as error:
        raise PageUnavailableError("the process that makes the page is being started: try again") from error
    if not content_type:
        raise PageUnavailableError("the process that makes the page ended: try again")
    return bytes(body), content_type


def exposed(readings: Iterable[Reading], accept: str) -> tuple[bytes, str]:
    """Return body and content type of the page, with the families in the order of `FAMILIES`.

    Args:
        readings: the readings of all processes.
        accept: the request's header, as for `gateway.prometheus.objects.encode`.
    """
    of_family: dict[str, list[Reading]] = {name: [] for name in _BY_NAME}
    for reading in readings:
        # During an upgrade a process may run another version, and have families that are not known here.
        if reading.family in of_family:
            of_family[reading.family].append(reading)
    return encode((_metric(_BY_NAME[name], found) for name, found in of_family.items() if found), accept)


async def _request(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """Read the head of the next request; return ``None`` at the end of the connection."""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            # A request without a body is complete with its head, and then the connection can be kept.
            if connection.their_state is h11.SEND_BODY and not _has_body(event):
                connection.next_event()
            return event
        if isinstance(event, h11.ConnectionClosed):
            return None
        assert event is h11.NEED_DATA
        connection.receive_data(await reader.read(_CHUNK_OCTETS))


def _takes_gzip(request: h11.Request) -> bool:
    """Return whether a client accepts a compressed body (RFC 9110, section 12.5.3)."""
    for name, value in request.headers:
        if name == b"accept-encoding":
            for coding in value.decode("ascii", "replace").lower().split(","):
                name_of, _, weight = coding.partition(";")
                if name_of.strip() in {"gzip", "x-gzip", "*"}:
                    return _REFUSED.fullmatch(weight.replace(" ", "")) is None
    return False


def _has_body(request: h11.Request) -> bool:
    headers = dict(request.headers)
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


async def _send(
    connection: h11.Connection,
    writer: asyncio.StreamWriter,
    status: HTTPStatus,
    body: bytes,
    headers: Iterable[tuple[str, str]],
    *,
    head: bool = False,
) -> None:
    headers = [
        *headers,
        ("content-length", str(len(body))),
        ("vary", "accept, accept-encoding"),
        ("x-content-type-options", "nosniff"),
    ]
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("allow", "GET, HEAD"))
    parts = [
        connection.send(h11.Response(status_code=status, headers=headers, reason=status.phrase)),
        b"" if head else connection.send(h11.Data(body)),
        connection.send(h11.EndOfMessage()),
    ]
    async with asyncio.timeout(WRITE_SECONDS):
        writer.write(b"".join(part for part in parts if part))
        await writer.drain()


def _is_local(host: str) -> bool:
    """Return whether the header ``Host`` is an address, or names this machine."""
    name = host.rsplit(":", 1)[0] if host.count(":") == 1 else host.partition("]")[0].removeprefix("[")
    if name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _metric(family: Family, readings: Iterable[Reading]) -> Metric:
    name = family.name.removesuffix("_total") if family.kind is Kind.COUNTER else family.name
    metric = Metric(name, family.help, family.kind.value)
    for reading in readings:
        labels = (*family.labels, "le") if reading.suffix == "_bucket" else family.labels
        metric.add_sample(
            family.name + reading.suffix, dict(zip(labels, reading.labels, strict=True)), reading.value
        )
    return metric
