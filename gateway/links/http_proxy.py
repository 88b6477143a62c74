"""A forward proxy for requests over HTTP, whose password may be replaced while it is in use."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Collection
from dataclasses import dataclass, field
from functools import partial

import httpx

from gateway.links.addressed_http import READS, Addresses
from gateway.links.amqp_connection import addresses_of
from gateway.links.credentials import LoginSecret


@dataclass(frozen=True, slots=True)
class HttpProxy:
    """A proxy, and the user who logs in to it.

    Attributes:
        url: its URL.
        user: the user; empty for none.
        secret: the password of that user.
    """

    url: str
    user: str = ""
    secret: LoginSecret | None = field(default=None, repr=False)

    async def password(self) -> str:
        """Return the password as it was read last; empty without a user."""
        return "" if self.secret is None else await self.secret.current()

    async def refused(self, password: str) -> None:
        """Read the password again, which the proxy has refused."""
        if self.secret is not None:
            await self.secret.other_than(password)

    async def addresses(self) -> tuple[str, ...]:
        """Return the addresses of its host; with TLS, whose certificate is for the name, the name alone."""
        url = httpx.URL(self.url)
        return (url.host,) if url.scheme == "https" else await addresses_of(url.host, url.port or 80)

    def with_login(self, password: str, address: str) -> httpx.Proxy:
        """Return it as httpx takes it, at one of its addresses."""
        url = httpx.URL(self.url).copy_with(host=address)
        return httpx.Proxy(url, auth=(self.user, password) if self.user else None)


class ProxyTransport(httpx.AsyncBaseTransport):
    """Sends all requests to a proxy, with its present password, and to its addresses as `AddressedTransport`.

    A request that the proxy refuses is not sent again, since only the proxy knows what it did with it: the
    next one has the password that is at its place then.

    Args:
        proxy: the proxy.
        context: settings of TLS.
        limits: of the connections that it keeps.
        repeatable: the methods whose requests may be repeated at another address.
    """

    def __init__(
        self,
        proxy: HttpProxy,
        context: ssl.SSLContext,
        limits: httpx.Limits,
        repeatable: Collection[str] = READS,
    ) -> None:
        self._proxy = proxy
        self._addresses = Addresses(repeatable)
        self._make = partial(httpx.AsyncHTTPTransport, verify=context, limits=limits, trust_env=False)
        self._place: tuple[str, str] | None = None  # the password, and the address
        self._present: httpx.AsyncHTTPTransport | None = None
        # Requests may be under way on the connections to the former place.
        self._former: httpx.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; see the class."""
        host = httpx.URL(self._proxy.url).host

        def send_to(address: str) -> Awaitable[httpx.Response]:
            return self._send(request, address)

        return await self._addresses.send(request, host, await self._proxy.addresses(), send_to)

    async def _send(self, request: httpx.Request, address: str) -> httpx.Response:
        password = await self._proxy.password()
        if self._present is None or (password, address) != self._place:
            last, self._former, self._place = self._former, self._present, (password, address)
            self._present = self._make(proxy=self._proxy.with_login(password, address))
            if last is not None:
                await last.aclose()
        try:
            response = await self._present.handle_async_request(request)
        except httpx.ProxyError:  # of CONNECT
            await self._proxy.refused(password)
            raise
        if response.status_code == httpx.codes.PROXY_AUTHENTICATION_REQUIRED:
            await self._proxy.refused(password)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        for transport in filter(None, (self._present, self._former)):
            await transport.aclose()
