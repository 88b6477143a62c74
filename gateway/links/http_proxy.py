"""A forward proxy for requests over HTTP, whose password may be replaced while it is in use."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from functools import partial

import httpx

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

    def with_login(self, password: str) -> httpx.Proxy:
        """Return it as httpx takes it."""
        return httpx.Proxy(self.url, auth=(self.user, password) if self.user else None)


class ProxyTransport(httpx.AsyncBaseTransport):
    """Sends all requests to a proxy, with its present password.

    A request that the proxy refuses is not sent again, since only the proxy knows what it did with it: the
    next one has the password that is at its place then.

    Args:
        proxy: the proxy.
        context: settings of TLS.
        limits: of the connections that it keeps.
    """

    def __init__(self, proxy: HttpProxy, context: ssl.SSLContext, limits: httpx.Limits) -> None:
        self._proxy = proxy
        self._make = partial(httpx.AsyncHTTPTransport, verify=context, limits=limits, trust_env=False)
        self._password: str | None = None
        self._present: httpx.AsyncHTTPTransport | None = None
        # Requests may be under way on the connections that logged in with the former password.
        self._former: httpx.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; see the class."""
        password = await self._proxy.password()
        if self._present is None or password != self._password:
            last, self._former, self._password = self._former, self._present, password
            self._present = self._make(proxy=self._proxy.with_login(password))
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
