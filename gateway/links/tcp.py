"""A listener for protocols over TCP: carries bytes between a session and its peers, within limits.

Peers are not trusted. The number of connections, the time of silence and the data that may wait
for a slow reader are bounded here; the session bounds the length of a line.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import ipaddress
import itertools
import os
import socket
import ssl
import struct
import termios
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import structlog

from gateway.dialects.session import BytesReceived, ListenerStops, Note, Peer, PeerConnected, PeerDisconnected
from gateway.links.amqp_connection import LinkError, Trouble
from gateway.links.handshakes import Handshakes
from gateway.links.session_driver import StreamDriver
from gateway.links.tls import LOOK_SECONDS, ServerTls, TlsFileError, TlsRenewal
from gateway.tasks import until_one_ends

_HIGH_WATER: Final = 64 * 1024
"""Octets that wait for a peer before nothing more is read from it, because reading causes writing."""
KEEPALIVE: Final = {
    socket.TCP_KEEPIDLE: 60,
    socket.TCP_KEEPINTVL: 15,
    socket.TCP_KEEPCNT: 4,
    socket.TCP_USER_TIMEOUT: 120_000,
}
"""Seconds, seconds, probes, milliseconds: a vanished peer is detected after two minutes of silence.

The last one is for a peer that was sent something: while that is not acknowledged, TCP repeats it for a
quarter of an hour, and sends no probe.
"""
_PROOF_SECONDS: Final = 5.0
"""Interval in which each connection is to show that nothing waits to be read."""
_INT: Final = struct.Struct("i")


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """The limits of untrusted peers.

    Attributes:
        connections: open connections, including handshakes.
        unread: octets that may wait for one peer.
        unread_by_all: octets that may wait for all together.
        first_seconds: until the first octet arrives; with TLS, also until the end of the handshake.
        idle_seconds: silence afterwards; ``None`` permits any silence, and TCP keepalive detects
            vanished peers.
        stall_seconds: for which a peer may leave waiting data unread.
        linger_seconds: for remaining data when a connection ends.
    """

    connections: int = 64
    unread: int = 1 << 20
    unread_by_all: int = 16 << 20
    first_seconds: float = 30.0
    idle_seconds: float | None = None
    stall_seconds: float = 30.0
    linger_seconds: float = 2.0


class Listener(Protocol):
    """The owner of connections, which processes their events."""

    def opened(self, connection: TcpConnection, peer: Peer) -> None:
        """Note that a connection may be read from and written to."""
        ...

    def received(self, connection: TcpConnection, octets: bytes) -> None:
        """Process octets that arrived."""
        ...

    def over(self, connection: TcpConnection, reason: str) -> None:
        """Note that nothing will arrive any more."""
        ...

    def gone(self, connection: TcpConnection) -> None:
        """Note that the socket is closed."""
        ...

    def unread(self) -> int:
        """Return the octets that wait for all slow readers."""
        ...

    def emptied(self, connection: TcpConnection) -> None:
        """Note that all octets that have arrived were passed on."""
        ...

    def note(self, event: str, detail: str) -> None:
        """Add a note to the log."""
        ...


class TcpConnection(asyncio.Protocol):
    """A connection, from its acceptance to its end.

    Args:
        number: its number in the session.
        address: the address of the peer.
        listener: processes its events.
        limits: the configured limits.
    """

    def __init__(self, number: int, address: str, listener: Listener, limits: StreamLimits) -> None:
        self.number = number
        self.address = address
        self._listener = listener
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._silence: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._received_at: float | None = None
        self._is_reported = False
        self._closing = False
        self._is_proof_wanted = False
        self._reason = ""

    @property
    def unread(self) -> int:
        """The octets that wait for the peer, without those in the system's buffer."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def write(self, octets: bytes) -> None:
        """Send octets; a peer for which too much waits is disconnected instead."""
        if self._transport is None or self._closing or self._transport.is_closing():
            return
        waiting = self.unread + len(octets)
        if waiting > self._limits.unread or (
            waiting > _HIGH_WATER and self._listener.unread() + len(octets) > self._limits.unread_by_all
        ):
            self._cut("slow-reader", f"{waiting} octets wait, and are not read")
            return
        self._transport.write(octets)

    def close(self, reason: str) -> None:
        """End it when everything written has left, or after a while; further input is ignored."""
        if self._transport is None or self._closing:
            return
        self._closing = True
        self._reason = self._reason or reason
        self._stop_timers()
        self._stall = self._loop.call_later(self._limits.linger_seconds, self._transport.abort)
        if self._transport.can_write_eof():
            # If it were closed while data arrives, TCP would drop what the peer has not read. So the end is
            # signalled first, and reading goes on until the peer closes.
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()
        self._report_end()

    def abort(self) -> bool:
        """Drop it; return whether it was open."""
        if self._transport is None:
            return False
        self._transport.abort()
        return True

    def prove(self) -> None:
        """Report to the listener as soon as nothing that has arrived is left to be passed on."""
        self._is_proof_wanted = True
        self._prove()

    def _prove(self) -> None:
        transport = self._transport
        # TLS keeps data itself while reading is paused.
        if transport is None or self._closing or transport.is_closing() or not transport.is_reading():
            return
        if not _waiting(transport.get_extra_info("socket")):
            self._is_proof_wanted = False
            self._listener.emptied(self)

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; with TLS, the handshake is done."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a stream was expected")
        self._transport = transport
        transport.set_write_buffer_limits(high=_HIGH_WATER)
        _keep_alive(transport)
        self._watch_silence(self._limits.first_seconds)
        self._listener.opened(self, Peer(self.address, _certified_name(transport)))
        self.prove()

    def data_received(self, data: bytes) -> None:
        """Process octets that arrived."""
        if not self._closing:
            if self._received_at is None:
                self._watch_silence(self._limits.idle_seconds)
            self._received_at = self._loop.time()
            self._listener.received(self, data)
            if self._is_proof_wanted:
                self._prove()

    def eof_received(self) -> bool:
        """End the connection after the peer's end; waiting data is still sent."""
        self._reason = self._reason or "the peer ended it"
        self._report_end()
        self.close(self._reason)
        return False

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read, and limit the time of that."""
        if self._transport is None or self._closing:
            return
        self._transport.pause_reading()
        seconds = self._limits.stall_seconds
        self._stall = self._loop.call_later(
            seconds, self._cut, "slow-reader", f"nothing was read for {seconds:g} s"
        )

    def resume_writing(self) -> None:
        """Continue, because the peer reads again."""
        if self._transport is None or self._closing:
            return
        if self._stall is not None:
            self._stall.cancel()
        self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End, because the socket is closed."""
        self._stop_timers()
        self._reason = self._reason or (f"it broke: {exc}" if exc is not None else "it was closed")
        self._report_end()
        self._closing = True
        self._listener.gone(self)

    def _watch_silence(self, allowed: float | None) -> None:
        if self._silence is not None:
            self._silence.cancel()
        if allowed is not None:
            self._silence = self._loop.call_later(allowed, self._look, allowed)

    def _look(self, allowed: float) -> None:
        """End the connection if the peer has been silent for too long."""
        left = 0.0 if self._received_at is None else self._received_at + allowed - self._loop.time()
        if left > 0:
            self._silence = self._loop.call_later(left, self._look, allowed)
            return
        self._reason = f"nothing arrived for {allowed:g} s"
        self._listener.note("silent-peer", f"{self.address}: {self._reason}")
        self.close(self._reason)

    def _cut(self, event: str, reason: str) -> None:
        self._reason = reason
        self._listener.note(event, f"{self.address}: {reason}: cut off")
        if self._transport is not None:
            self._transport.abort()

    def _report_end(self) -> None:
        if not self._is_reported:
            self._is_reported = True
            self._listener.over(self, self._reason)

    def _stop_timers(self) -> None:
        for timer in (self._silence, self._stall):
            if timer is not None:
                timer.cancel()


def _keep_alive(transport: asyncio.Transport) -> None:
    """Have TCP detect vanished peers."""
    connected = transport.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        connected.setsockopt(socket.IPPROTO_TCP, option, value)


def _waiting(connected: socket.socket) -> int:
    """Return the octets that wait in the system's buffer to be read."""
    return _INT.unpack(fcntl.ioctl(connected.fileno(), termios.FIONREAD, bytes(_INT.size)))[0]  # type: ignore[no-any-return]


def _certified_name(transport: asyncio.Transport) -> str:
    """Return the verified common name of the peer's certificate; empty where there is none, or several."""
    tls = transport.get_extra_info("ssl_object")
    certificate = tls.getpeercert() if isinstance(tls, ssl.SSLObject) else None
    subject: Any = (certificate or {}).get("subject", ())  # a sequence of sequences of pairs
    names = [str(value) for attributes in subject for name, value in attributes if name == "commonName"]
    return names[0] if len(names) == 1 else ""


log = structlog.get_logger(__name__)

LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 64
_LAST_PORT: Final = 65_535
_PAUSE_SECONDS: Final = 1.0
"""Pause between attempts to accept while the process has no free descriptors."""

ListenAddress: TypeAlias = tuple[str, int]
"""An IPv4 or IPv6 literal and a TCP port, 0 for any free one."""


def _renewal(tls: ServerTls | None) -> TlsRenewal | None:
    if tls is None:
        return None
    renewal = TlsRenewal(tls, patient=True)
    try:
        renewal.latest()
    except TlsFileError as error:
        raise LinkError(Trouble.MISCONFIGURED, str(error)) from error
    return renewal


class TcpListener:
    """Listens as long as it runs, and ends every connection with it.

    Args:
        address: the address; loopback by default.
        driver: the driver of the session.
        limits: the limits of connections.
        tls: the files of TLS, which may be replaced; ``None`` for plain TCP.
        look_seconds: the interval at which the files are compared.
        handshakes: slows, counts and reports handshakes of TLS that fail; ``None`` reports them to the log
            only.
    """

    def __init__(
        self,
        driver: StreamDriver,
        address: ListenAddress = (LOOPBACK, 0),
        *,
        limits: StreamLimits | None = None,
        tls: ServerTls | None = None,
        look_seconds: float = LOOK_SECONDS,
        handshakes: Handshakes | None = None,
    ) -> None:
        self._look_seconds = look_seconds
        self._handshakes = handshakes or Handshakes()
        self._address = address
        self._driver = driver
        self._limits = limits or StreamLimits()
        self._tls = tls
        self._numbers = itertools.count(1)
        self._connections: dict[int, TcpConnection] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        self.port = 0
        """The port, once it listens."""
        self.listening = asyncio.Event()
        driver.carried_by(self)

    async def run(self) -> None:
        """Listen until cancelled, or until the session fails.

        Raises:
            LinkError: the address or a certificate cannot be used.
        """
        renewal = await asyncio.to_thread(_renewal, self._tls)
        following = () if renewal is None else (renewal.follow(self._look_seconds),)
        with self._socket() as listening:
            self.port = listening.getsockname()[1]
            log.info("listening", address=self._address[0], port=self.port, tls=renewal is not None)
            self.listening.set()
            try:
                await until_one_ends(
                    self._driver.until_failed(), self._accept(listening, renewal), self._prove(), *following
                )
            finally:
                listening.close()
                self.listening.clear()
                await self._end()

    @property
    def connections(self) -> int:
        """The number of open connections, including handshakes."""
        return len(self._connections)

    # Calls of the driver.

    def write(self, connection: int, octets: bytes) -> None:
        """Send octets; does nothing if the connection has ended."""
        if (one := self._connections.get(connection)) is not None:
            one.write(octets)

    def close(self, connection: int) -> None:
        """End a connection when everything written has left."""
        if (one := self._connections.get(connection)) is not None:
            one.close("the gateway closed it")

    # Calls of connections.

    def opened(self, connection: TcpConnection, peer: Peer) -> None:
        """Report a new connection to the session."""
        self._driver.handle(PeerConnected(connection.number, peer))

    def received(self, connection: TcpConnection, octets: bytes) -> None:
        """Pass octets to the session."""
        self._driver.handle(BytesReceived(connection.number, octets))

    def over(self, connection: TcpConnection, reason: str) -> None:
        """Report the end of a connection to the session."""
        self._driver.handle(PeerDisconnected(connection.number, reason))

    def gone(self, connection: TcpConnection) -> None:
        """Forget a closed connection."""
        self._connections.pop(connection.number, None)
        if not self._connections:
            self._empty.set()

    def unread(self) -> int:
        """Return the octets that wait for all slow readers."""
        return sum(connection.unread for connection in self._connections.values())

    def emptied(self, connection: TcpConnection) -> None:
        """Report to the session that nothing of a connection waits to be read."""
        self._driver.emptied(connection.number)

    def note(self, event: str, detail: str) -> None:
        """Add a note to the log, whose rate is limited, because peers are not trusted."""
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

    async def _prove(self) -> None:
        """Have each connection show at intervals that nothing waits to be read; ends by cancellation only."""
        while True:
            await asyncio.sleep(_PROOF_SECONDS)
            for connection in list(self._connections.values()):
                connection.prove()

    async def _accept(self, listening: socket.socket, renewal: TlsRenewal | None) -> None:
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
            # Counted from here on: a handshake that does not end is a connection, too.
            connection = TcpConnection(next(self._numbers), address[0], self, self._limits)
            self._connections[connection.number] = connection
            self._empty.clear()
            context = None if renewal is None else renewal.context
            task = asyncio.create_task(self._open(accepted, connection, context))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(
        self, accepted: socket.socket, connection: TcpConnection, context: ssl.SSLContext | None
    ) -> None:
        patience = self._limits.first_seconds if context is not None else None
        try:
            if context is not None:
                await self._handshakes.turn_of(connection.address)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=context, ssl_handshake_timeout=patience
            )
        except (OSError, asyncio.CancelledError) as error:
            if not connection.abort():
                accepted.close()
                self.gone(connection)
            if isinstance(error, asyncio.CancelledError):
                raise
            reason = str(error) if context is None else self._handshakes.failed(connection.address, error)
            self.note("handshake-failed", f"with {connection.address}: {reason}")

    async def _end(self) -> None:
        """Send remaining data, and end all connections."""
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
