"""Requests over HTTP to a host that may have several addresses, of which the first may lead nowhere."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import httpx

from gateway.links.amqp_connection import addresses_of, some_addresses

ADDRESS_SECONDS: Final = 3.0
"""Maximum time to wait for an answer from one of several addresses of a host, before any has answered."""
READS: Final = frozenset({"GET"})
"""The methods that change nothing: a request that was not answered may be sent again elsewhere."""


class Addresses:
    """The addresses of hosts: which answered last, and which failed.

    Args:
        repeatable: the methods whose requests may be sent to a second address.
    """

    def __init__(self, repeatable: Collection[str]) -> None:
        self._repeatable = repeatable
        self._answered: dict[str, str] = {}
        self._failed: dict[str, str] = {}

    def in_order(self, host: str, addresses: Collection[str]) -> list[str]:
        """Return addresses of a host in the order in which they are tried."""
        answered, failed = self._answered.get(host), self._failed.get(host)
        return sorted(addresses, key=lambda one: (one != answered, one == failed))

    def hurries(self, request: httpx.Request, host: str, address: str) -> bool:
        """Return whether this address, which is not the last, is waited for `ADDRESS_SECONDS` only."""
        return address != self._answered.get(host) and request.method in self._repeatable

    def answered(self, host: str, address: str) -> None:
        """Note the address of an answer."""
        self._answered[host] = address

    def failed(self, host: str, address: str) -> None:
        """Note an address that did not answer."""
        self._failed[host] = address
        self._answered.pop(host, None)

    async def send(
        self,
        request: httpx.Request,
        host: str,
        found: Collection[str],
        send_to: Callable[[str], Awaitable[httpx.Response]],
    ) -> httpx.Response:
        """Send a request to a host at the first of its addresses that answers.

        Args:
            request: the request.
            host: the host to which it is sent: its own, or a proxy.
            found: the addresses of that host.
            send_to: sends the request to an address.
        """
        *first, last = self.in_order(host, found)
        for address in first:
            seconds = ADDRESS_SECONDS if self.hurries(request, host, address) else None
            try:
                async with asyncio.timeout(seconds):
                    return await self._noted(host, address, send_to)
            except (TimeoutError, httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._noted(host, last, send_to)

    async def _noted(
        self, host: str, address: str, send_to: Callable[[str], Awaitable[httpx.Response]]
    ) -> httpx.Response:
        try:
            response = await send_to(address)
        except BaseException:  # a time-out cancels it
            self.failed(host, address)
            raise
        self.answered(host, address)
        return response


class AddressedTransport(httpx.AsyncBaseTransport):
    """Sends requests to the addresses of a host, to the one that answered last first.

    The first address of a name may accept connections, and lead nowhere. As long as none has answered, a
    request that may be repeated waits `ADDRESS_SECONDS` for each but the last. Any other is sent to one
    address only, but for those that accept no connection.

    Args:
        context: settings of TLS.
        limits: of the connections that it keeps.
        repeatable: the methods whose requests may be repeated.
    """

    def __init__(
        self, context: ssl.SSLContext, limits: httpx.Limits, repeatable: Collection[str] = READS
    ) -> None:
        self._inner = httpx.AsyncHTTPTransport(verify=context, limits=limits, trust_env=False)
        self._addresses = Addresses(repeatable)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; see the class."""
        host, port = request.url.host, request.url.port or 0

        def send_to(address: str) -> Awaitable[httpx.Response]:
            return self._inner.handle_async_request(_addressed(request, address))

        return await self._addresses.send(request, host, await addresses_of(host, port), send_to)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


class BlockingAddressedTransport(httpx.BaseTransport):
    """The same without asynchronous calls, for commands; arguments as of `AddressedTransport`."""

    def __init__(
        self, context: ssl.SSLContext, limits: httpx.Limits, repeatable: Collection[str] = READS
    ) -> None:
        self._inner = httpx.HTTPTransport(verify=context, limits=limits, trust_env=False)
        self._addresses = Addresses(repeatable)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; see the class."""
        host, port = request.url.host, request.url.port or 0
        *first, last = self._addresses.in_order(host, _blocking_addresses_of(host, port))
        for address in first:
            hurries = self._addresses.hurries(request, host, address)
            try:
                return self._send(request, address, ADDRESS_SECONDS if hurries else None)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
            except httpx.ReadTimeout:
                if not hurries:
                    raise
        return self._send(request, last, None)

    def _send(self, request: httpx.Request, address: str, seconds: float | None) -> httpx.Response:
        host = request.url.host
        addressed = _addressed(request, address)
        if seconds is not None:
            timeouts = dict(addressed.extensions.get("timeout", {}))
            for phase in ("connect", "read"):
                timeouts[phase] = min(timeouts.get(phase) or seconds, seconds)
            addressed.extensions = {**addressed.extensions, "timeout": timeouts}
        try:
            response = self._inner.handle_request(addressed)
        except httpx.TransportError:
            self._addresses.failed(host, address)
            raise
        self._addresses.answered(host, address)
        return response

    def close(self) -> None:
        """Close all connections."""
        self._inner.close()


def _blocking_addresses_of(host: str, port: int) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:  # the connection to the host reports it
        return (host,)
    return some_addresses(host, found)


def _addressed(request: httpx.Request, address: str) -> httpx.Request:
    """Return a request as it is sent to one address of its host: a copy, whose extensions may be replaced."""
    host = request.url.host
    names = {} if address == host else {"sni_hostname": host}
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, **names},
    )
