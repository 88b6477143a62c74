"""The UDP sockets that send notifications, and the loop that runs a sender. The module knows no SNMP."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from gateway.model.times import SECOND
from gateway.snmp.notifications.encoding import NO_AGENT_ADDRESS
from gateway.snmp.notifications.names import (
    Lookup,
    LookupTimes,
    NameChange,
    ReceiverNames,
    SocketAddress,
    look_up,
)
from gateway.snmp.notifications.receiver import Address, is_looked_up
from gateway.snmp.notifications.sender import NotificationSender, SendResult

_DATAGRAMS_A_TURN: Final = 64
_RECEIVE_BUFFER: Final = 65_536
_KERNEL_QUEUE: Final = 1 << 20
_AGENT_ADDRESS_SECONDS: Final = 60.0


class NotificationSockets:
    """One UDP socket for each address family of the receivers, in the running event loop.

    Args:
        addresses: the addresses of all receivers.
        refused: called with the reason why the system did not send a datagram; it limits its own rate.
        failed: called with errors that nothing else handles; it limits its own rate.
        named: called with each change of a receiver's name.
        lookup: looks names up.
        times: when.
    """

    def __init__(
        self,
        addresses: Iterable[Address],
        refused: Callable[[Address, OSError], None],
        failed: Callable[[Exception], None],
        named: Callable[[NameChange], None] = lambda _change: None,
        *,
        lookup: Lookup = look_up,
        times: LookupTimes | None = None,
    ) -> None:
        self._refused = refused
        self._failed = failed
        self._named = named
        self._sender: NotificationSender | None = None
        self._names = ReceiverNames(self._name_changed, lookup, times)
        self._sockets: dict[socket.AddressFamily, socket.socket] = {}
        self._agent_addresses: dict[Address, tuple[float, bytes]] = {}
        self.change(addresses)

    def change(self, addresses: Iterable[Address]) -> None:
        """Send to these addresses from now on."""
        addresses = set(addresses)
        named = {address for address in addresses if is_looked_up(address[0])}
        self._literals = {
            address: look_up(address, socket.AI_NUMERICHOST)[0] for address in addresses - named
        }
        self._names.keep(named)
        self._find_ways()

    def open(self, sender: NotificationSender) -> None:
        """Make the sockets, and look up names; ``sender`` takes each datagram that comes from a receiver.

        Where a socket cannot be made, as where this host lacks an address family, only sending by that family
        is refused, and each time it is tried again.
        """
        self._sender = sender
        self._find_ways()
        self._names.open()

    def _find_ways(self) -> None:
        """Find what is found by the addresses in use, and make sockets of their families."""
        in_use = [*self._literals.items(), *self._names.found()]
        # An answer has the address in the socket module's form, which for IPv6 has four parts. A name and an
        # address, or two names, may lead to one receiver.
        self._senders: dict[tuple[Any, ...], tuple[Address, ...]] = {}
        for address, (_, where) in in_use:
            self._senders[where] = (*self._senders.get(where, ()), address)
        if self._sender is None:
            return
        for family in {family for _, (family, _) in in_use}:
            with contextlib.suppress(OSError):
                self._socket(family, self._sender)

    def _socket(self, family: socket.AddressFamily, sender: NotificationSender) -> socket.socket:
        """Return the socket of an address family, which is made when it is needed first.

        Raises:
            OSError: it cannot be made.
        """
        made = self._sockets.get(family)
        if made is None:
            made = socket.socket(family, socket.SOCK_DGRAM)
            try:
                made.setblocking(False)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_QUEUE)
                made.bind(("", 0))
            except OSError:
                made.close()
                raise
            self._sockets[family] = made
            asyncio.get_running_loop().add_reader(made, self._drain, made, sender)
        return made

    def _name_changed(self, change: NameChange) -> None:
        self._agent_addresses.pop(change.address, None)
        self._find_ways()
        self._named(change)
        if change.in_use != change.former and self._sender is not None:
            self._sender.moved(change.address)

    def look_up_soon(self, address: Address) -> None:
        """Look up the name of a receiver soon, if it has one: what was sent to it did not arrive."""
        self._names.look_up_soon(address)

    def close(self) -> None:
        """Close the sockets."""
        self._names.close()
        loop = asyncio.get_running_loop()
        for made in self._sockets.values():
            loop.remove_reader(made)
            made.close()
        self._sockets.clear()
        self._sender = None

    def send(self, address: Address, datagram: bytes) -> SendResult:
        """Pass a datagram to the system, which may accept, delay or refuse it.

        It waits while a name is looked up for the first time, and is refused while that has no address.
        """
        found = self._find(address)
        if found is None:
            return SendResult.BUSY if self._names.is_awaited(address) else SendResult.FAILED
        family, where = found
        if self._sender is None:
            self._refused(address, OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN)))
            return SendResult.FAILED
        try:
            self._socket(family, self._sender).sendto(datagram, where)
        except (BlockingIOError, InterruptedError):
            return SendResult.BUSY
        except OSError as error:
            self._refused(address, error)
            self._names.look_up_soon(address)
            return SendResult.FAILED
        return SendResult.SENT

    def agent_address(self, address: Address) -> bytes:
        """Return this host's IPv4 address on the route to ``address``, looked up once a minute."""
        way = self._find(address)
        if way is None or way.family != socket.AF_INET:
            return NO_AGENT_ADDRESS
        now = time.monotonic()
        until, found = self._agent_addresses.get(address, (now, NO_AGENT_ADDRESS))
        if now >= until:
            # The way to a receiver changes rarely, and looking it up takes a socket.
            found = _local_address(way.where)
            self._agent_addresses[address] = (now + _AGENT_ADDRESS_SECONDS, found)
        return found

    def _find(self, address: Address) -> SocketAddress | None:
        return self._literals.get(address) or self._names.find(address)

    def _drain(self, made: socket.socket, sender: NotificationSender) -> None:
        for _ in range(_DATAGRAMS_A_TURN):
            try:
                datagram, came_from = made.recvfrom(_RECEIVE_BUFFER)
            except OSError:  # nothing more, or what the network said about something sent before
                return
            addresses = self._senders.get(came_from)
            if addresses is None:
                continue
            try:
                sender.received(datagram, *addresses)
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


def _local_address(where: tuple[Any, ...]) -> bytes:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(where)  # sends nothing: the system only chooses a way
            return socket.inet_aton(probe.getsockname()[0])
    except OSError:
        return NO_AGENT_ADDRESS
