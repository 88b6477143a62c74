"""Logs in to each request over HTTP, by a password or token that may be replaced."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

import httpx

from gateway.links.credentials import AnySecret, login_secret

_SHORT_OCTETS: Final = 64 * 1024
"""The maximum size of a refusal after which a request is sent again: it is read before that."""


class HttpLogin(httpx.Auth):
    """Logs in to each request over HTTP, by password or token; once more if another secret is there.

    A server that refuses a login has carried out nothing, so that a change may be sent again, too.

    Args:
        user: the name; of no meaning for a token.
        secret: of that user.
    """

    def __init__(self, user: str, secret: AnySecret) -> None:
        self._user = user
        self._secret = login_secret(secret)

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Yield the request with a login, and once more with another one after a refusal.

        Raises:
            CredentialsError: there is no secret.
        """
        sent = await self._secret.current()
        self._sign(request, sent)
        response = yield request
        if response.status_code != httpx.codes.UNAUTHORIZED:
            return
        other = await self._secret.other_than(sent)
        if other is not None and _is_short(response):
            self._sign(request, other)
            yield request

    def _sign(self, request: httpx.Request, secret: str) -> None:
        if self._secret.is_token:
            request.headers["authorization"] = f"Bearer {secret}"
        else:
            signed = next(httpx.BasicAuth(self._user, secret).auth_flow(request))
            assert signed is request


def _is_short(response: httpx.Response) -> bool:
    length = response.headers.get("content-length", "")
    return length.isdecimal() and len(length) <= len(str(_SHORT_OCTETS)) and int(length) <= _SHORT_OCTETS
