"""The addresses of receivers that only the system knows: DNS names, and the interfaces of IPv6 literals.

They are looked up again and again.

The resolver of the system may wait for half a minute, and says nothing of how long its answer holds. Each
query has a thread of its own, which delays neither the loop nor the end of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec

from gateway.snmp.notifications.receiver import Address, zone_of


class SocketAddress(NamedTuple):
    """An address as the socket module has it.

    Attributes:
        family: its address family.
        where: IP address and port, and for IPv6 flow information and scope.
    """

    family: socket.AddressFamily
    where: tuple[Any, ...]

    @property
    def host(self) -> str:
        """The IP address."""
        return str(self.where[0])


Lookup: TypeAlias = Callable[[Address], Sequence[SocketAddress]]
"""Returns the addresses of a name, the best first. It may block, and raises ``OSError`` if there are none."""


def look_up(address: Address, flags: int = 0) -> list[SocketAddress]:
    """Ask the system for the addresses of a host (`Lookup`); ``flags`` are those of getaddrinfo."""
    try:
        found = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM, flags=flags | socket.AI_NUMERICSERV)
    except socket.gaierror as error:
        if zone := zone_of(address[0]):  # the system speaks of a name that is not known
            raise OSError(errno.ENODEV, f"this machine has no interface {zone} for it") from error
        raise
    return [SocketAddress(family, where) for family, _, _, _, where in found]


class LookupTimes(msgspec.Struct, frozen=True):
    """When names are looked up, in seconds.

    Attributes:
        patience: a query that takes longer counts as failed; its answer is taken nevertheless.
        pause: the minimum between a query and the next one, and the time until a name without any address is
            looked up again.
        interval: between two queries of a name with an address, unless something sent there did not arrive.
    """

    patience: float = 5.0
    pause: float = 5.0
    interval: float = 60.0


class NameChange(NamedTuple):
    """What has changed about a name.

    Attributes:
        address: the receiver's, as configured.
        in_use: the IP address to which is sent now; empty for none.
        former: that of before.
        trouble: why the name cannot be resolved now; empty if it can.
    """

    address: Address
    in_use: str
    former: str
    trouble: str


@dataclass(slots=True, eq=False)
class _Name:
    address: Address
    found: SocketAddress | None = None
    trouble: str = ""
    is_awaited: bool = True
    is_asked: bool = False
    has_failed: bool = False
    ended: float = 0.0
    timer: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class ReceiverNames:
    """The names of receivers, each with the address in use.

    That is the first which the system gives, and stays as long as it is among those that the system gives, so
    that a name with many addresses in changing order has one. If what was sent there did not arrive, the next
    of them is used. A name that cannot be resolved any more keeps it.

    Args:
        changed: called with each change, in the loop.
        lookup: looks names up, in a thread.
        times: when.
    """

    def __init__(
        self,
        changed: Callable[[NameChange], None],
        lookup: Lookup = look_up,
        times: LookupTimes | None = None,
    ) -> None:
        self._changed = changed
        self._lookup = lookup
        self._times = times or LookupTimes()
        self._names: dict[Address, _Name] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def keep(self, addresses: Iterable[Address]) -> None:
        """Follow these names from now on, and no others."""
        former = self._names
        self._names = {address: former.get(address, _Name(address)) for address in addresses}
        for address in former.keys() - self._names.keys():
            former[address].cancel()
        if self._loop is not None:
            self.open()

    def open(self) -> None:
        """Look up each name for the first time, in the running loop."""
        self._loop = asyncio.get_running_loop()
        for name in self._names.values():
            if not name.is_asked and name.timer is None:
                self._ask(name)

    def close(self) -> None:
        """Look nothing up any more."""
        for name in self._names.values():
            name.cancel()
        self._loop = None

    def find(self, address: Address) -> SocketAddress | None:
        """Return the address in use of a name; ``None`` for none."""
        name = self._names.get(address)
        return None if name is None else name.found

    def is_awaited(self, address: Address) -> bool:
        """Return whether the first query for a name has neither an answer yet nor failed."""
        name = self._names.get(address)
        return name is not None and name.is_awaited

    def found(self) -> Iterable[tuple[Address, SocketAddress]]:
        """Return the names that have an address, and that."""
        return [(address, name.found) for address, name in self._names.items() if name.found is not None]

    def look_up_soon(self, address: Address) -> None:
        """Look up a name soon: what was sent to it did not arrive."""
        name = self._names.get(address)
        if self._loop is None or name is None or name.is_asked or name.timer is None:
            return
        name.has_failed = name.found is not None
        soonest = name.ended + self._times.pause
        if name.timer.when() > soonest:
            name.cancel()
            name.timer = self._loop.call_at(soonest, self._ask, name)

    def _ask(self, name: _Name) -> None:
        assert self._loop is not None
        patience = self._times.patience
        trouble = TimeoutError(f"no answer from the resolver within {patience:g} s")
        name.is_asked, name.timer = True, self._loop.call_later(patience, self._settle, name, trouble)
        asking = threading.Thread(
            target=self._look_up, args=(self._loop, name), name="receiver-name", daemon=True
        )
        try:
            asking.start()
        except RuntimeError as error:  # the system has no more threads
            self._answered(name, error)

    def _look_up(self, loop: asyncio.AbstractEventLoop, name: _Name) -> None:
        found: Sequence[SocketAddress] | Exception
        try:
            found = self._lookup(name.address)
        except Exception as error:  # noqa: BLE001  the next query follows on the end of this one
            found = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(self._answered, name, found)

    def _answered(self, name: _Name, found: Sequence[SocketAddress] | Exception) -> None:
        name.cancel()
        name.is_asked = False
        if self._loop is None or self._names.get(name.address) is not name:
            return
        name.ended = self._loop.time()
        has_any = name.found is not None or (not isinstance(found, Exception) and len(found) > 0)
        pause = self._times.interval if has_any else self._times.pause
        name.timer = self._loop.call_later(pause, self._ask, name)
        self._settle(name, found)

    def _settle(self, name: _Name, found: Sequence[SocketAddress] | Exception) -> None:
        """Use what a query has found, and report what that changes."""
        former, was_trouble = name.found, bool(name.trouble)
        name.is_awaited = False
        if isinstance(found, Exception):
            name.trouble = getattr(found, "strerror", None) or str(found) or type(found).__name__
        elif not found:
            name.trouble = "it has no address"
        else:
            name.trouble = ""
            if name.found is None or name.found not in found:
                name.found = found[0]
            elif name.has_failed:
                name.found = _next_of(found, name.found)
            name.has_failed = False
        if name.found != former or bool(name.trouble) != was_trouble:
            self._changed(NameChange(name.address, _host(name.found), _host(former), name.trouble))


def _next_of(found: Sequence[SocketAddress], used: SocketAddress) -> SocketAddress:
    # In an order of their own: the system may give them in another one each time.
    return next((one for one in sorted(found) if one > used), min(found))


def _host(address: SocketAddress | None) -> str:
    return "" if address is None else address.host


async def first_address(address: Address) -> str:
    """Return the IP address that a name has now.

    Raises:
        OSError: it cannot be resolved, or not in time; the text says why.
    """
    answered: asyncio.Future[NameChange] = asyncio.get_running_loop().create_future()
    names = ReceiverNames(lambda change: None if answered.done() else answered.set_result(change))
    names.keep([address])
    names.open()
    try:
        change = await answered
    finally:
        names.close()
    if change.trouble:
        raise OSError(change.trouble)
    return change.in_use
