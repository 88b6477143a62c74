"""A listener for protocols over TCP: carries octets between a session and whoever connects, within limits.

Whoever connects is a stranger. How many may be connected, how long they may be silent and how much may wait
for one that does not read are bounded here; how long a line may be is the session's to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import os
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import structlog

from gateway.dialects.session import BytesReceived, ListenerStops, Note, Peer, PeerConnected, PeerDisconnected
from gateway.links.amqp_connection import LinkError, Trouble
from gateway.links.session_driver import StreamDriver
from gateway.links.tcp_connection import StreamLimits, TcpConnection
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 64
_LAST_PORT: Final = 65_535
_PAUSE_SECONDS: Final = 1.0
"""Between two attempts to accept while the process has no more descriptors."""

ListenAddress: TypeAlias = tuple[str, int]
"""An IPv4 or IPv6 literal and a TCP port, 0 for any free one."""


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """What a listener proves itself by, and whom it admits.

    Attributes:
        certificate: file with its certificate and those between it and the root, PEM.
        key: file with its private key, PEM.
        client_ca: certificates by which clients must prove themselves; ``None`` admits anybody.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """What TLS needs.

        Raises:
            LinkError: a file cannot be used.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:  # ssl.SSLError is one
            files = ", ".join(str(path) for path in (self.certificate, self.key, self.client_ca) if path)
            text = f"certificates for TLS cannot be used ({files}): {error.strerror or error}"
            raise LinkError(Trouble.MISCONFIGURED, text) from error
        return context


class TcpListener:
    """Listens as long as it runs, and ends every connection with it.

    Args:
        address: where; loopback unless somebody configured another.
        driver: of the session.
        limits: of connections.
        certificate: for TLS; ``None`` for plain TCP.
    """

    def __init__(
        self,
        driver: StreamDriver,
        address: ListenAddress = (LOOPBACK, 0),
        *,
        limits: StreamLimits | None = None,
        certificate: ServerCertificate | None = None,
    ) -> None:
        self._address = address
        self._driver = driver
        self._limits = limits or StreamLimits()
        self._certificate = certificate
        self._numbers = itertools.count(1)
        self._connections: dict[int, TcpConnection] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        self.port = 0
        """Where it listens, once it does."""
        self.listening = asyncio.Event()
        driver.carried_by(self)

    async def run(self) -> None:
        """Listen; ends by cancellation, or a fault of the session.

        Raises:
            LinkError: the address or a certificate cannot be used.
        """
        context = self._certificate.context() if self._certificate is not None else None
        with self._socket() as listening:
            self.port = listening.getsockname()[1]
            log.info("listening", address=self._address[0], port=self.port, tls=context is not None)
            self.listening.set()
            try:
                await until_one_ends(self._driver.until_failed(), self._accept(listening, context))
            finally:
                listening.close()
                self.listening.clear()
                await self._end()

    @property
    def connections(self) -> int:
        """How many are open, those in the middle of a handshake too."""
        return len(self._connections)

    # For the driver.

    def write(self, connection: int, octets: bytes) -> None:
        """Send; nothing happens where the connection is over."""
        if (one := self._connections.get(connection)) is not None:
            one.write(octets)

    def close(self, connection: int) -> None:
        """End a connection when all that was written has left."""
        if (one := self._connections.get(connection)) is not None:
            one.close("we closed it")

    # For connections.

    def opened(self, connection: TcpConnection, peer: Peer) -> None:
        """It may be read from and written to."""
        self._driver.handle(PeerConnected(connection.number, peer))

    def received(self, connection: TcpConnection, octets: bytes) -> None:
        """Octets arrived."""
        self._driver.handle(BytesReceived(connection.number, octets))

    def over(self, connection: TcpConnection, reason: str) -> None:
        """Nothing will arrive any more."""
        self._driver.handle(PeerDisconnected(connection.number, reason))

    def gone(self, connection: TcpConnection) -> None:
        """Its socket is closed."""
        self._connections.pop(connection.number, None)
        if not self._connections:
            self._empty.set()

    def unread(self) -> int:
        """Octets that wait for all who do not read fast enough."""
        return sum(connection.unread for connection in self._connections.values())

    def note(self, event: str, detail: str) -> None:
        """Something for the log, where a stranger must not be able to fill it."""
        self._driver.perform([Note(event, detail)])

    def _socket(self) -> socket.socket:
        host, port = self._address
        if not 0 <= port <= _LAST_PORT:
            raise LinkError(
                Trouble.MISCONFIGURED, f"cannot listen on {host} port {port}: there is no such port"
            )
        try:
            version = ipaddress.ip_address(host).version
            family = socket.AF_INET6 if version == 6 else socket.AF_INET  # noqa: PLR2004  that is its name
            listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except (ValueError, OSError) as error:
            number = error.errno if isinstance(error, OSError) else None
            reason = os.strerror(number) if number else str(error)  # without the address for a second time
            text = f"cannot listen on {host} port {port}: {reason}: configure another address or port"
            raise LinkError(Trouble.MISCONFIGURED, text) from error
        listening.setblocking(False)
        return listening

    async def _accept(self, listening: socket.socket, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                self.note("connection-not-accepted", error.strerror or str(error))
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if len(self._connections) >= self._limits.connections:
                accepted.close()
                limit = self._limits.connections
                self.note("connection-refused", f"from {address[0]}: {limit} are open, which is the limit")
                continue
            # Counted from here on: a handshake that never ends is a connection too.
            connection = TcpConnection(next(self._numbers), address[0], self, self._limits)
            self._connections[connection.number] = connection
            self._empty.clear()
            task = asyncio.create_task(self._open(accepted, connection, context))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(
        self, accepted: socket.socket, connection: TcpConnection, context: ssl.SSLContext | None
    ) -> None:
        patience = self._limits.first_seconds if context is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=context, ssl_handshake_timeout=patience
            )
        except (OSError, asyncio.CancelledError) as error:
            if not connection.abort():
                accepted.close()
                self.gone(connection)
            if isinstance(error, asyncio.CancelledError):
                raise
            self.note("handshake-failed", f"with {connection.address}: {error}")

    async def _end(self) -> None:
        """Say what is still to be said, and end all connections."""
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        self._driver.handle(ListenerStops())
        for connection in list(self._connections.values()):
            connection.close("the gateway ends")
        if self._connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2 * self._limits.linger_seconds):
                    await self._empty.wait()
