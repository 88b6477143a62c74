"""One connection that a stranger opened to a listener."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gateway.dialects.session import Peer

_HIGH_WATER: Final = 64 * 1024
"""Octets that wait for a peer before nothing more is read from it, as what it sends makes us write."""
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))
"""Seconds, seconds and probes: a peer that vanished is noticed after two minutes of silence."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """What strangers may take.

    Attributes:
        connections: open at a time, those in the middle of a handshake too.
        unread: octets that may wait for one peer.
        unread_by_all: octets that may wait for all together.
        first_seconds: until the first octet arrives; with TLS, until the end of the handshake too.
        idle_seconds: without an octet afterwards; ``None`` allows any silence, and TCP itself finds out
            whether the peer is there.
        stall_seconds: that a peer may leave unread what waits for it.
        linger_seconds: for what is still to be said when a connection ends.
    """

    connections: int = 64
    unread: int = 1 << 20
    unread_by_all: int = 16 << 20
    first_seconds: float = 30.0
    idle_seconds: float | None = None
    stall_seconds: float = 30.0
    linger_seconds: float = 2.0


class Listener(Protocol):
    """What a connection tells, and asks."""

    def opened(self, connection: TcpConnection, peer: Peer) -> None:
        """It may be read from and written to."""
        ...

    def received(self, connection: TcpConnection, octets: bytes) -> None:
        """Octets arrived."""
        ...

    def over(self, connection: TcpConnection, reason: str) -> None:
        """Nothing will arrive any more."""
        ...

    def gone(self, connection: TcpConnection) -> None:
        """Its socket is closed."""
        ...

    def unread(self) -> int:
        """Octets that wait for all who do not read fast enough."""
        ...

    def note(self, event: str, detail: str) -> None:
        """Something for the log."""
        ...


class TcpConnection(asyncio.Protocol):
    """A connection, from its acceptance to its end.

    Args:
        number: that the session knows it by.
        address: of the peer.
        listener: told what happens.
        limits: as configured.
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
        self._heard_at: float | None = None
        self._told = False
        self._closing = False
        self._reason = ""

    @property
    def unread(self) -> int:
        """Octets that wait for the peer, beside those in the system's own buffer."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def write(self, octets: bytes) -> None:
        """Send; a peer for whom too much waits is cut off instead."""
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
        """End it when all that was written has left, or after a while; what arrives is not looked at."""
        if self._transport is None or self._closing:
            return
        self._closing = True
        self._reason = self._reason or reason
        self._stop_timers()
        self._stall = self._loop.call_later(self._limits.linger_seconds, self._transport.abort)
        if self._transport.can_write_eof():
            # Closed while something arrives, TCP would drop what the peer has not read yet. So we say that it
            # is over, and go on reading until the peer has understood.
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()
        self._tell_end()

    def abort(self) -> bool:
        """Drop it; whether it was open."""
        if self._transport is None:
            return False
        self._transport.abort()
        return True

    # For asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open, and with TLS the handshake done."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a stream was expected")
        self._transport = transport
        transport.set_write_buffer_limits(high=_HIGH_WATER)
        _keep_alive(transport)
        self._watch_silence(self._limits.first_seconds)
        self._listener.opened(self, Peer(self.address, _certified_name(transport)))

    def data_received(self, data: bytes) -> None:
        """Octets arrived."""
        if not self._closing:
            if self._heard_at is None:
                self._watch_silence(self._limits.idle_seconds)
            self._heard_at = self._loop.time()
            self._listener.received(self, data)

    def eof_received(self) -> bool:
        """The peer says nothing more; what is still to be said to it leaves, and that is the end."""
        self._reason = self._reason or "the peer ended it"
        self._tell_end()
        self.close(self._reason)
        return False

    def pause_writing(self) -> None:
        """The peer does not read: neither do we, and not for ever."""
        if self._transport is None or self._closing:
            return
        self._transport.pause_reading()
        seconds = self._limits.stall_seconds
        self._stall = self._loop.call_later(
            seconds, self._cut, "slow-reader", f"nothing was read for {seconds:g} s"
        )

    def resume_writing(self) -> None:
        """The peer reads again."""
        if self._transport is None or self._closing:
            return
        if self._stall is not None:
            self._stall.cancel()
        self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self._stop_timers()
        self._reason = self._reason or (f"it broke: {exc}" if exc is not None else "it was closed")
        self._tell_end()
        self._closing = True
        self._listener.gone(self)

    def _watch_silence(self, allowed: float | None) -> None:
        if self._silence is not None:
            self._silence.cancel()
        if allowed is not None:
            self._silence = self._loop.call_later(allowed, self._look, allowed)

    def _look(self, allowed: float) -> None:
        """Whether the peer has been silent for too long."""
        left = 0.0 if self._heard_at is None else self._heard_at + allowed - self._loop.time()
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

    def _tell_end(self) -> None:
        if not self._told:
            self._told = True
            self._listener.over(self, self._reason)

    def _stop_timers(self) -> None:
        for timer in (self._silence, self._stall):
            if timer is not None:
                timer.cancel()


def _keep_alive(transport: asyncio.Transport) -> None:
    """Have TCP look after a silent peer."""
    connected = transport.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        connected.setsockopt(socket.IPPROTO_TCP, option, value)


def _certified_name(transport: asyncio.Transport) -> str:
    """The common name in the peer's certificate, which TLS has checked; empty where there is none."""
    tls = transport.get_extra_info("ssl_object")
    certificate = tls.getpeercert() if isinstance(tls, ssl.SSLObject) else None
    subject: Any = (certificate or {}).get("subject", ())  # a sequence of sequences of pairs
    names = (str(value) for attributes in subject for name, value in attributes if name == "commonName")
    return next(names, "")
