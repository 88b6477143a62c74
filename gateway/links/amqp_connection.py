"""Opens AMQP 0-9-1 connections, introduces the gateway to brokers, and explains failures in one line."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import ssl
import struct
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, SupportsIndex
from urllib.parse import quote

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, TimeoutType
from aiormq import Connection, exceptions
from aiormq.abc import FieldTable
from aiormq.connection import TransportFactory
from aiormq.exceptions import AMQPConnectionError
from yarl import URL

from gateway.dialects.errors import LocalProtocolError
from gateway.links.credentials import AnySecret, hand_over, login_secret
from gateway.links.credentials_error import CredentialsError
from gateway.links.lenient_frames import read_leniently
from gateway.links.tls import NO_CERTIFICATE, SYSTEM_AUTHORITIES, ClientTls, TlsFileError
from gateway.model.texts import error_line
from gateway.shipped_files import version

read_leniently()

MAX_OPENING_BYTES: Final = 64 * 1024
"""Octets that are kept of a broker's data while a connection is opened: properties, limits, a refusal."""

_FRAME_HEAD: Final = struct.Struct(">BHI")  # type, channel, size (AMQP 0-9-1 section 4.2.3)
_CLOSE_HEAD: Final = struct.Struct(">HB")  # reply code, length of the reply text
_METHOD_FRAME: Final = 1
_CONNECTION_CLOSE: Final = struct.pack(">HH", 10, 50)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The ``connection.close`` by which a broker ended the opening of a connection.

    Attributes:
        code: reply code (AMQP 0-9-1 section 1.2), such as 530.
        text: the broker's text on one line.
    """

    code: int
    text: str


class _Channel(aio_pika.Channel):
    """A channel; where its connection has ended, opening it fails as anything else that needs the broker."""

    async def initialize(self, timeout: TimeoutType = None) -> None:  # noqa: ASYNC109  aio-pika's signature
        """Open it.

        Raises:
            ConnectionError: the connection has ended.
        """
        if has_ended(self._connection):
            raise ConnectionError("the connection ended before a channel was opened")
        await super().initialize(timeout)


class AbortableConnection(aio_pika.Connection):
    """An ``aio_pika.Connection`` that has access to its socket.

    To close a connection, aiormq waits until everything written has left, however long that takes: a broker
    that does not read blocks it for ever. Where a broker refuses to open a virtual host, aiormq
    reports neither code nor text. Only the creator of the transport has access to the socket.
    """

    CHANNEL_CLASS = _Channel

    def __init__(
        self,
        url: URL,
        *,
        ssl_context: ssl.SSLContext | None,
        client_properties: FieldTable,
        address: str = "",
    ) -> None:
        super().__init__(url, ssl_context=ssl_context, client_properties=client_properties)
        self._renewal: asyncio.Task[None] | None = None
        self._opened = _KeptTransport(ssl_context if url.scheme == "amqps" else None, address)
        self.kwargs["transport_factory"] = self._opened

    def renew(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work`` until the connection ends."""
        task = self._renewal = asyncio.create_task(work)
        self.close_callbacks.add(lambda *_: task.cancel())

    def abort(self) -> None:
        """Drop the connection, with all data that has not left; no caller waits for it any more."""
        if self._opened.writer is not None:
            self._opened.writer.transport.abort()

    def is_open(self) -> None:
        """Note that the connection was opened: the data until then is not kept any longer."""
        if self._opened.reader is not None:
            self._opened.reader.opening = None

    @property
    def refusal(self) -> Refusal | None:
        """The broker's refusal to open the connection; ``None`` where there was none."""
        reader = self._opened.reader
        return None if reader is None or reader.opening is None else refusal_in(bytes(reader.opening))


class _OpeningReader(asyncio.StreamReader):
    """A stream that keeps the data that arrives first.

    Attributes:
        opening: the first data, up to `MAX_OPENING_BYTES`; ``None`` where it is not kept any longer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.opening: bytearray | None = bytearray()

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        octets = bytes(data)
        if self.opening is not None:
            self.opening += octets[: MAX_OPENING_BYTES - len(self.opening)]
        super().feed_data(octets)


class _KeptTransport(TransportFactory):
    """Opens a transport to one address, as those of aiormq do to a name, and keeps it."""

    def __init__(self, context: ssl.SSLContext | None, address: str) -> None:
        self._context = context
        self._address = address
        self.reader: _OpeningReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def create(self, url: URL, **_: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        self.reader = _OpeningReader()
        protocol = asyncio.StreamReaderProtocol(self.reader)
        try:
            transport, _protocol = await loop.create_connection(
                lambda: protocol,
                self._address or url.host or "",
                url.port or 0,
                ssl=self._context,
                server_hostname=url.host if self._context is not None else None,
            )
        except OSError as error:
            raise AMQPConnectionError(*error.args) from error
        self.writer = asyncio.StreamWriter(transport, protocol, self.reader, loop)
        return self.reader, self.writer


def refusal_in(octets: bytes) -> Refusal | None:
    """Return the first ``connection.close`` among the frames at the beginning of ``octets``, if any."""
    while len(octets) >= _FRAME_HEAD.size:
        kind, _channel, size = _FRAME_HEAD.unpack_from(octets)
        frame = octets[_FRAME_HEAD.size : _FRAME_HEAD.size + size]
        method, arguments = frame[: len(_CONNECTION_CLOSE)], frame[len(_CONNECTION_CLOSE) :]
        if kind == _METHOD_FRAME and method == _CONNECTION_CLOSE and len(arguments) >= _CLOSE_HEAD.size:
            code, length = _CLOSE_HEAD.unpack_from(arguments)
            text = arguments[_CLOSE_HEAD.size :][:length].decode("utf-8", "replace")
            return Refusal(code, " ".join(text.split()))
        # One octet, 0xCE, ends a frame (AMQP 0-9-1, section 4.2.3).
        octets = octets[_FRAME_HEAD.size + size + 1 :]
    return None


_CAPABILITIES = "capabilities"


@dataclass(frozen=True, slots=True)
class BrokerAbilities:
    """The abilities of the broker at the other end of a connection.

    Attributes:
        extended: whether it reports capabilities, as RabbitMQ has since 2.0.
        several_channels: whether a connection may have more than one channel.
    """

    extended: bool
    several_channels: bool


def abilities(connection: AbstractConnection) -> BrokerAbilities:
    """Return the abilities that the broker reported when ``connection``, of `connect_once`, was opened.

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


def cluster_name(connection: AbstractConnection) -> str:
    """Return the name of the cluster that RabbitMQ reported when ``connection`` was opened; else empty."""
    opened = connection.transport.connection.server_properties if connection.transport else {}
    name = opened.get("cluster_name")
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name or "")


def complete_capabilities(connection: AbstractConnection) -> None:
    """Add an empty table of capabilities if the broker sent none, because aiormq requires the table."""
    if connection.transport is not None:
        properties = connection.transport.connection.server_properties
        if not isinstance(properties.get(_CAPABILITIES), dict):
            properties[_CAPABILITIES] = {}


CONNECT_SECONDS = 10.0
MAX_ADDRESSES: Final = 4
"""Maximum number of addresses of one host that are tried."""
HEARTBEAT_SECONDS = 10
CLOSE_SECONDS = 2.0
_CANCELLATIONS: Final = 4
_VANISHED: Final = "does the broker hang, or has it vanished?"

FAILURES = (exceptions.AMQPError, exceptions.ChannelInvalidStateError, OSError, TimeoutError)
"""The exceptions of aio-pika when a broker or the network fails; for `link_error`."""


class OpenConnectionSilentError(TimeoutError):
    """A broker that was connected answers nothing, and sends nothing else."""

    def __init__(self) -> None:
        super().__init__(f"no answer within {CONNECT_SECONDS:.0f} s on an open connection: {_VANISHED}")


class OpeningRefusedError(exceptions.AMQPConnectionError):
    """The broker accepted the login, but refused to open the connection."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(f"{refusal.code} {refusal.text}")


class Trouble(enum.Enum):
    """The kind of a failure; commands convert it to their exit code."""

    UNREACHABLE = "unreachable"
    REFUSED_CREDENTIALS = "refused-credentials"
    REFUSED_VHOST = "refused-vhost"
    MISSING = "missing"
    FORBIDDEN = "forbidden"
    MISCONFIGURED = "misconfigured"
    BROKEN = "broken"


class LinkError(Exception):
    """A link cannot work now; the text is one line for people, with what to do."""

    def __init__(self, trouble: Trouble, text: str) -> None:
        self.trouble = trouble
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class AmqpEndpoint:
    """A virtual host of a broker, with the gateway's user there.

    ``url`` is ``amqp://HOST[:PORT]`` or ``amqps://``, without user info. ``heartbeat`` is the requested
    interval, in whole seconds: a broker that offers a shorter one, and cuts off silent clients, must not
    be asked for more. ``others`` are URLs of further nodes of the same cluster; a connection goes to
    ``url`` alone, and `nodes` lists the choice. ``source`` is the name of the source or agent that
    connects, which the broker receives; it may be empty.
    """

    url: str
    vhost: str
    user: str
    password: AnySecret = field(repr=False)
    tls: ClientTls = SYSTEM_AUTHORITIES
    heartbeat: int = HEARTBEAT_SECONDS
    others: tuple[str, ...] = ()
    source: str = ""

    @property
    def nodes(self) -> tuple[AmqpEndpoint, ...]:
        """One endpoint for each node, in the order in which they are configured."""
        return tuple(replace(self, url=url, others=()) for url in (self.url, *self.others))

    def __str__(self) -> str:
        """Return it without the password."""
        return f"{self.url} (virtual host {self.vhost!r}, user {self.user!r})"


PRODUCT = "amqp-gateway"
"""The product name in client properties, which marks connections of the gateway, whatever their version."""


def client_properties(connection_name: str, source: str = "") -> FieldTable:
    """Return the client properties of an AMQP 0-9-1 connection (section 1.4.2.2, ``connection.start-ok``).

    Args:
        connection_name: the connection's name in the broker's tools.
        source: the name of the source or agent that connects; empty for none.
    """
    properties: FieldTable = {
        "connection_name": connection_name,
        "product": PRODUCT,
        "version": version(),
        "information": "AMQP management gateway",
    }
    return {**properties, "source": source} if source else properties


def user_agent(source: str = "") -> str:
    """Return the ``User-Agent`` of HTTP requests (RFC 9110 section 10.1.5).

    Args:
        source: as in `client_properties`.
    """
    product = f"{PRODUCT}/{version()}"
    return f"{product} (source {source})" if source else product


async def open_connection(endpoint: AmqpEndpoint, name: str) -> AbstractConnection:
    """Open a connection that never reconnects by itself.

    ``connect_robust`` is not used: on a half-open TCP connection it declared the same exclusive
    queue name for 45 s without recovering.

    Args:
        endpoint: the broker.
        name: the connection's name in the broker's tools.

    Raises:
        LinkError: it cannot be opened, also with another secret than one that was refused.
    """
    secret = login_secret(endpoint.password)
    try:
        first = await secret.current()
    except CredentialsError as error:
        trouble = Trouble.UNREACHABLE if error.passing else Trouble.REFUSED_CREDENTIALS
        raise LinkError(trouble, f"{endpoint}: {error}") from error
    used = first
    try:
        connection = await _open(endpoint, name, first)
    except LinkError as error:
        other = await secret.other_than(first) if error.trouble is Trouble.REFUSED_CREDENTIALS else None
        if other is None:
            raise
        used, connection = other, await _open(endpoint, name, other)
    if secret.is_token:
        connection.renew(hand_over(secret, used, connection.update_secret, endpoint.url))
    return connection


async def _open(endpoint: AmqpEndpoint, name: str, secret: str) -> AbortableConnection:
    url = connection_url(endpoint, secret)
    properties = client_properties(name, endpoint.source)
    try:
        # The files are read again: they may have been renewed.
        context = await asyncio.to_thread(tls_context, endpoint)
        return await connect_once(url, properties, context)
    except FAILURES as error:
        refusal = link_error(endpoint, error)
        if refusal.trouble is not Trouble.BROKEN:
            raise refusal from error
        text = f"{refusal}: is this an AMQP 0-9-1 broker, and is it running?"
        if url.scheme == "amqps" and endpoint.tls.certificate is None:
            # A broker may close the connection before its reason, that it got no certificate, is read.
            text += " Does it demand a certificate ('client_certificate')?"
        raise LinkError(Trouble.UNREACHABLE, text) from error
    except ValueError as error:
        # pamqp checks what it sends: a name of a virtual host may have 127 characters there.
        raise LinkError(Trouble.MISCONFIGURED, f"{endpoint}: {error_line(error)}") from error


def connection_url(endpoint: AmqpEndpoint, secret: str) -> URL:
    """Return the URL by which aiormq opens the endpoint's virtual host.

    The URL's library removes ``..`` from a path, and aiormq takes the text ``%2F`` in a name for a slash: the
    virtual hosts ``a/../b`` and ``a%2Fb`` would be opened as ``b`` and ``a/b``.

    Raises:
        LinkError: aiormq would open another virtual host.
    """
    address = URL(endpoint.url)
    url = URL.build(
        scheme=address.scheme,
        host=address.host or "",
        port=address.port or (5671 if address.scheme == "amqps" else 5672),
        user=endpoint.user,
        password=secret,
        path="/",
    )
    path = quote(endpoint.vhost, safe="", errors="surrogatepass").replace(".", "%2E")
    url = url.with_path(f"/{path}", encoded=True).with_query({"heartbeat": endpoint.heartbeat})
    if (url.path[1:].replace("%2F", "/") or "/") != endpoint.vhost:
        text = f"{endpoint}: the client library of AMQP cannot open a virtual host of this name"
        raise LinkError(Trouble.MISCONFIGURED, text)
    return url


async def addresses_of(host: str, port: int) -> tuple[str, ...]:
    """Return the addresses of a host, at most `MAX_ADDRESSES`; the host itself if it has one at most."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:  # the connection to the host reports it
        return (host,)
    return some_addresses(host, found)


def some_addresses(host: str, found: Iterable[tuple[Any, ...]]) -> tuple[str, ...]:
    """Return the addresses of a host as `addresses_of` does, of what the resolver found."""
    addresses = tuple(dict.fromkeys(str(info[-1][0]) for info in found))
    return addresses[:MAX_ADDRESSES] if len(addresses) > 1 else (host,)


async def connect_once(
    url: URL, properties: FieldTable, context: ssl.SSLContext | None = None
) -> AbortableConnection:
    """Open a connection as ``aio_pika.connect``, but close it if that fails.

    Otherwise it would try to close itself when it is collected, in any thread. If the host has several
    addresses, each that does not answer is followed by the next: the first may accept connections, and lead
    nowhere.

    Raises:
        OpeningRefusedError: the broker gave a reason for its refusal, other than wrong credentials.
        AMQPError, OSError, TimeoutError: it cannot be opened.
    """
    *first, last = await addresses_of(url.host or "", url.port or 0)
    seconds = CONNECT_SECONDS / (len(first) + 1)
    for address in first:
        try:
            return await _connect_at(address, url, properties, context, seconds)
        except (OpeningRefusedError, exceptions.AuthenticationError, exceptions.ProbableAuthenticationError):
            raise
        except FAILURES:
            if is_cancelled():
                raise
    return await _connect_at(last, url, properties, context, seconds)


async def _connect_at(
    address: str, url: URL, properties: FieldTable, context: ssl.SSLContext | None, seconds: float
) -> AbortableConnection:
    connection = AbortableConnection(url, ssl_context=context, client_properties=properties, address=address)
    try:
        await connection.connect(timeout=seconds)
    # A cancelled caller leaves no half-open connection either.
    except BaseException as error:
        try:
            await connection.close()
        finally:
            connection.abort()
        refusal = connection.refusal
        if (
            refusal is None
            or not isinstance(error, FAILURES)
            or isinstance(error, exceptions.ProbableAuthenticationError)
        ):
            raise
        raise OpeningRefusedError(refusal) from error
    connection.is_open()
    complete_capabilities(connection)
    return connection


async def close_soon(connection: AbstractConnection | None) -> None:
    """Close a connection if it was opened, without waiting long for a broker that does not answer or read.

    No task and no socket is left of it, however often the caller is cancelled, alone or as all tasks of a
    loop that ends.
    """
    if connection is None:
        return
    closing = asyncio.ensure_future(_close_in_order(connection))
    cancelled: asyncio.CancelledError | None = None
    try:
        await asyncio.wait({closing}, timeout=CLOSE_SECONDS)
    except asyncio.CancelledError as error:
        cancelled = error
    if not closing.done() and isinstance(connection, AbortableConnection):
        connection.abort()
    cancelled = await _end(closing) or cancelled
    if not connection.is_closed:  # the transport is aborted by now: this only updates the state
        cancelled = await _end(asyncio.ensure_future(connection.close())) or cancelled
    if isinstance(connection, AbortableConnection):
        connection.abort()  # a task of the library that is cancelled, too, leaves the transport open
    if cancelled is not None:
        raise cancelled


async def _end(closing: asyncio.Task[None]) -> asyncio.CancelledError | None:
    """Await the end of a task, and cancel it if need be; return a cancellation of the caller meanwhile.

    aio-pika, cancelled once, waits for a report of the end, which may have been cancelled as well.
    """
    cancelled: asyncio.CancelledError | None = None
    loop = asyncio.get_running_loop()
    for _ in range(_CANCELLATIONS):
        until = loop.time() + CLOSE_SECONDS / _CANCELLATIONS
        while not closing.done() and (left := until - loop.time()) > 0:
            try:
                await asyncio.wait({closing}, timeout=left)
            except asyncio.CancelledError as error:
                cancelled = error
        if closing.done():
            with contextlib.suppress(asyncio.CancelledError, *FAILURES):
                closing.result()
            break
        closing.cancel()
    return cancelled


async def _close_in_order(connection: AbstractConnection) -> None:
    """Close the channels, then their connection.

    A RabbitMQ whose client closes a connection with open channels, or goes away, ends them on its own; where
    that takes it a moment too long, its log has an error of a supervisor (``shutdown_error``).
    """
    transport = connection.transport
    if transport is not None and not connection.is_closed:
        channels = [channel for channel in transport.connection.channels.values() if channel is not None]
        await asyncio.gather(*(channel.close() for channel in channels), return_exceptions=True)
    await connection.close()


async def close_channel(channel: AbstractChannel) -> None:
    """Close a channel; a caller that is cancelled meanwhile is cancelled.

    aiormq takes a cancellation of its ``close`` for the end of what it waits for, and says nothing: a task
    that closes channels again and again would then go on for ever.
    """
    await channel.close()
    if is_cancelled():
        raise asyncio.CancelledError


async def is_blocked(connection: AbstractConnection) -> bool:
    """Return whether the broker reported that it accepts no messages on this connection now.

    A RabbitMQ sends ``connection.blocked`` to publishers while its memory or disk is short.
    """
    transport = connection.transport
    if transport is None:
        return False
    try:
        # aiormq only waits until the broker accepts messages: it cannot be asked.
        async with asyncio.timeout(0):
            await transport.ready()
    except TimeoutError:
        return True
    return False


def has_ended(connection: AbstractConnection) -> bool:
    """Return whether it has ended, by either side; aio-pika's ``is_closed`` is about requested ends only."""
    below = connection.transport
    return connection.is_closed or below is None or below.connection.is_closed


async def ended(part: AbstractConnection | AbstractChannel) -> None:
    """Wait until a connection or channel ends, by either side.

    aio-pika's own ``closed()`` reports only requested ends, so this uses the callbacks below it.

    Raises:
        AMQPError: always, in the end: the broker's reason.
        ConnectionError: always, in the end, where it gave none.
    """
    what = "connection" if isinstance(part, AbstractConnection) else "channel"
    carrier = await _carrier(part)
    end: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def note(_part: object, reason: BaseException | None) -> None:
        if not end.done():
            end.set_result(reason)

    part.close_callbacks.add(note)
    try:
        reason = None if part.is_closed else await end
    finally:
        part.close_callbacks.discard(note)
    if isinstance(reason, exceptions.ChannelClosed):
        raise reason
    said = " ".join(str(reason or "").split())
    if carrier is not None and carrier.is_connection_was_stuck:
        seconds = (carrier.heartbeat_timeout + 1) * carrier.HEARTBEAT_GRACE_MULTIPLIER
        raise ConnectionError(f"nothing arrived for {seconds} s, not even a heartbeat: {_VANISHED}")
    raise ConnectionError(f"the {what} ended: {said or 'the broker gave no reason'}")


async def _carrier(part: AbstractConnection | AbstractChannel) -> Connection | None:
    """Return the library's connection below a connection or channel; ``None`` where that has ended."""
    if part.is_closed:
        return None
    if isinstance(part, AbstractConnection):
        below = part.transport.connection if part.transport is not None else None
    else:
        below = (await part.get_underlay_channel()).connection
    return below if isinstance(below, Connection) else None


def is_cancelled() -> bool:
    """Return whether the running task was cancelled, rather than something that it waited for.

    aiormq cancels each caller that waits for an answer on a connection that ends.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def link_error(endpoint: AmqpEndpoint, error: BaseException) -> LinkError:
    """Return the explanation of ``error`` for operators of ``endpoint``."""
    if isinstance(error, LinkError):
        return error
    said = " ".join(str(error).split())
    url, user = endpoint.url, repr(endpoint.user)
    match error:
        case exceptions.ProbableAuthenticationError() | exceptions.AuthenticationError():
            trouble = Trouble.REFUSED_CREDENTIALS
            text = (
                f"{url}: user {user} was refused: check user and password, and that this broker has it"
                f" ({said or 'the broker gave no reason'})"
            )
        case OpeningRefusedError():
            trouble, text = _refused_opening(endpoint, error.refusal)
        case exceptions.ConnectionNotAllowed():
            trouble = Trouble.REFUSED_VHOST
            text = f"{endpoint}: {said}: grant what docs/rights.md lists"
        case exceptions.ChannelNotFoundEntity():
            trouble = Trouble.MISSING
            text = f"{endpoint}: {said}: the agent declares the management exchange when it starts"
        case exceptions.ChannelAccessRefused():
            trouble = Trouble.FORBIDDEN
            text = f"{endpoint}: {said}: grant what docs/rights.md lists"
        case exceptions.ChannelPreconditionFailed():
            trouble = Trouble.MISCONFIGURED
            text = f"{endpoint}: {said}: remove what is there, or name another in the configuration"
        case _ if (reason := _why_unreachable(error, said)) is not None:
            trouble, text = Trouble.UNREACHABLE, f"{url}: {reason}"
        case _:
            trouble, text = Trouble.BROKEN, f"{url}: {said or type(error).__name__}"
    return LinkError(trouble, text)


def _refused_opening(endpoint: AmqpEndpoint, refusal: Refusal) -> tuple[Trouble, str]:
    """Return the explanation of a broker that accepted the login and refused the connection.

    530 is sent for a virtual host that is unknown, down, or not permitted to this user, and for limits that
    are reached; 403 by a broker that is locked; 320 by one that is stopping.
    """
    text = f"{endpoint}: the broker opens no connection: {refusal.code} {refusal.text or 'without a reason'}"
    match refusal.code:
        case 530:
            limited = "limit" in refusal.text or "is down" in refusal.text
            advice = "" if limited else ": create the virtual host and grant what docs/rights.md lists"
            return Trouble.REFUSED_VHOST, text + advice
        case 403:
            return Trouble.FORBIDDEN, text
    return Trouble.UNREACHABLE, text


def _why_unreachable(error: BaseException, said: str) -> str | None:
    """Return why no connection is possible, if the network is the reason; aio-pika wraps its errors."""
    causes = (error, error.__cause__)
    if "SSL:" in said or any(isinstance(cause, ssl.SSLError) for cause in causes):
        if "certificate required" in said.lower().replace("_", " "):
            return f"TLS failed: {said}: the broker asks for a certificate: {NO_CERTIFICATE}"
        return f"TLS failed: {said}: check 'ca_file', the name of the host, and the port"
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return "the name of the host is not known: check the URL"
    if "Connect call failed" in said or any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "nothing listens there: is the broker running?"
    if isinstance(error, TimeoutError):
        unanswered = f"no answer within {CONNECT_SECONDS:.0f} s: is this an AMQP 0-9-1 broker?"
        return said if isinstance(error, OpenConnectionSilentError) else unanswered
    return None


def tls_context(endpoint: AmqpEndpoint) -> ssl.SSLContext | None:
    """Return the TLS settings of ``endpoint`` by its latest files; ``None`` where its URL is without TLS.

    Raises:
        LinkError: its certificates cannot be read, and could not be before.
    """
    if URL(endpoint.url).scheme != "amqps":
        return None
    try:
        return endpoint.tls.renewal.latest()
    except TlsFileError as error:
        raise LinkError(Trouble.MISCONFIGURED, f"{endpoint.url}: {error}") from error
