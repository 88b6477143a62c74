"""The UDP sockets that send notifications, and the loop that runs a sender. The module knows no SNMP."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from gateway.model.times import SECOND
from gateway.snmp.notifications.encoding import NO_AGENT_ADDRESS
from gateway.snmp.notifications.receiver import Address
from gateway.snmp.notifications.sender import NotificationSender, SendResult

_DATAGRAMS_A_TURN: Final = 64
_RECEIVE_BUFFER: Final = 65_536
_KERNEL_QUEUE: Final = 1 << 20
_AGENT_ADDRESS_SECONDS: Final = 60.0

_SocketAddress: TypeAlias = tuple[Any, ...]  # what the socket module has for an address: (host, port, ...)


class NotificationSockets:
    """One UDP socket for each address family of the receivers, in the running event loop.

    Args:
        addresses: the addresses of all receivers.
        refused: called with the reason why the system did not send a datagram; it limits its own rate.
        failed: called with errors that nothing else handles; it limits its own rate.
    """

    def __init__(
        self,
        addresses: Iterable[Address],
        refused: Callable[[Address, OSError], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._refused = refused
        self._failed = failed
        self._targets = {address: _resolved(address) for address in addresses}
        # An answer has the address in the socket module's form, which for IPv6 has four parts.
        self._senders = {where: address for address, (_, where) in self._targets.items()}
        self._sockets: dict[socket.AddressFamily, socket.socket] = {}
        self._agent_addresses: dict[Address, tuple[float, bytes]] = {}

    def open(self, received: Callable[[bytes, Address], None]) -> None:
        """Make the sockets; ``received`` is called with each datagram that comes from a receiver.

        Where this host lacks an address family, only sending by that family is refused.
        """
        loop = asyncio.get_running_loop()
        for family, _ in self._targets.values():
            if family in self._sockets:
                continue
            try:
                made = socket.socket(family, socket.SOCK_DGRAM)
            except OSError:
                continue
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_QUEUE)
            made.bind(("", 0))
            self._sockets[family] = made
            loop.add_reader(made, self._drain, made, received)

    def close(self) -> None:
        """Close the sockets."""
        loop = asyncio.get_running_loop()
        for made in self._sockets.values():
            loop.remove_reader(made)
            made.close()
        self._sockets.clear()

    def send(self, address: Address, datagram: bytes) -> SendResult:
        """Pass a datagram to the system, which may accept, delay or refuse it."""
        family, where = self._targets[address]
        made = self._sockets.get(family)
        if made is None:
            self._refused(address, OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT)))
            return SendResult.FAILED
        try:
            made.sendto(datagram, where)
        except (BlockingIOError, InterruptedError):
            return SendResult.BUSY
        except OSError as error:
            self._refused(address, error)
            return SendResult.FAILED
        return SendResult.SENT

    def agent_address(self, address: Address) -> bytes:
        """Return this host's IPv4 address on the route to ``address``, looked up once a minute."""
        family, where = self._targets[address]
        if family != socket.AF_INET:
            return NO_AGENT_ADDRESS
        now = time.monotonic()
        until, found = self._agent_addresses.get(address, (now, NO_AGENT_ADDRESS))
        if now >= until:
            # The way to a receiver changes rarely, and looking it up takes a socket.
            found = _local_address(where)
            self._agent_addresses[address] = (now + _AGENT_ADDRESS_SECONDS, found)
        return found

    def _drain(self, made: socket.socket, received: Callable[[bytes, Address], None]) -> None:
        for _ in range(_DATAGRAMS_A_TURN):
            try:
                datagram, sender = made.recvfrom(_RECEIVE_BUFFER)
            except OSError:  # nothing more, or what the network said about something sent before
                return
            address = self._senders.get(sender)
            if address is None:
                continue
            try:
                received(datagram, address)
            except Exception as error:  # noqa: BLE001  no datagram may ever end the sending
                self._failed(error)


async def keep_sending(sender: NotificationSender, wake: asyncio.Event) -> None:
    """Run ``sender`` whenever ``wake`` is set or it is due. Ends by cancellation only."""
    loop = asyncio.get_running_loop()
    while True:
        # Before the work: whatever wakes the sender meanwhile leads to another turn.
        wake.clear()
        due = sender.work()
        if due is None:
            await wake.wait()
            continue
        seconds = (due - time.monotonic_ns()) / SECOND
        if seconds <= 0:
            await asyncio.sleep(0)  # the loop is for requests too
            continue
        alarm = loop.call_later(seconds, wake.set)
        try:
            await wake.wait()
        finally:
            alarm.cancel()


def _resolved(address: Address) -> tuple[socket.AddressFamily, _SocketAddress]:
    """Return the address family, and the address in the socket module's form."""
    family, _, _, _, where = socket.getaddrinfo(
        *address, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    )[0]
    return family, where


def _local_address(where: _SocketAddress) -> bytes:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(where)  # sends nothing: the system only chooses a way
            return socket.inet_aton(probe.getsockname()[0])
    except OSError:
        return NO_AGENT_ADDRESS
