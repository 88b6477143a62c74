"""Tokens of OAuth 2 in the place of passwords, by client credentials (RFC 6749 section 4.4)."""

from __future__ import annotations

import asyncio
import json
import random
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus

import httpx
import structlog
from pydantic import SecretStr

from gateway.links.addressed_http import AddressedTransport
from gateway.links.amqp_connection import user_agent
from gateway.links.credentials import Password
from gateway.links.credentials_error import CredentialsError
from gateway.links.http_proxy import HttpProxy, ProxyTransport
from gateway.links.tls import ClientTls, TlsFileError
from gateway.model.texts import error_line

log = structlog.get_logger(__name__)

REQUEST_SECONDS: Final = 10.0
"""Maximum time of a request for a token."""
MAX_ANSWER_OCTETS: Final = 64 * 1024
DEFAULT_LIFETIME: Final = 300.0
"""Seconds for which a token is used whose lifetime is not reported."""
LONGEST_LIFETIME: Final = 30 * 86400.0
FIRST_PAUSE_SECONDS: Final = 1.0
LAST_PAUSE_SECONDS: Final = 60.0
"""Pauses after a request that failed; each is twice as long as the one before."""
REFUSED_SECONDS: Final = 30.0
"""Minimum time between two requests because a peer refuses the token."""
_EARLY_SECONDS: Final = 300.0
_EARLY_SHARE: Final = 0.25
"""A token is renewed so much of its lifetime, or so many seconds, before it expires."""

_REPEATABLE: Final = frozenset({"POST"})
"""A request for a token changes nothing: one that was not answered is sent to another address of the host."""

_DIGITS: Final = 10
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16384}")
_ERROR: Final = re.compile(r"[a-z_]{1,40}")
_CLIENT_ERRORS: Final = frozenset({"invalid_client", "unauthorized_client", "unauthorized"})


class TokenError(CredentialsError):
    """There is no token."""

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing

    def again(self) -> TokenError:
        """Return the error for another caller: one that is raised again has the former traceback, too."""
        return TokenError(str(self), passing=self.passing)


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """The place where tokens are issued, and the client that gets them.

    Attributes:
        url: URL of the token endpoint.
        client_id: name of the client.
        client_secret: its secret, which is read again when it is refused.
        scope: the requested scope; empty for the default of the issuer.
        tls: the files of TLS.
        proxy: the proxy for requests over HTTP; ``None`` for none.
    """

    url: str
    client_id: str
    client_secret: Password = field(repr=False)
    scope: str
    tls: ClientTls
    proxy: HttpProxy | None = None

    async def issue(self) -> tuple[SecretStr, float]:
        """Request a token; return it, and the seconds for which it may be used.

        Raises:
            TokenError: there is none.
        """
        sent = await self.client_secret.current()
        answer = await self._request(sent)
        if _refuses_client(answer):
            other = await self.client_secret.other_than(sent)
            answer = answer if other is None else await self._request(other)
        return self._token_of(answer)

    async def _request(self, secret: str) -> tuple[int, object]:
        # RFC 6749 section 2.3.1: both are encoded as in a form before they are joined.
        login = httpx.BasicAuth(quote_plus(self.client_id), quote_plus(secret))
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        headers = {"accept": "application/json", "accept-encoding": "identity", "user-agent": user_agent()}
        try:
            context = await asyncio.to_thread(self.tls.renewed_context, (self.url,))
            transport: httpx.AsyncBaseTransport = (
                AddressedTransport(context, httpx.Limits(), _REPEATABLE)
                if self.proxy is None
                else ProxyTransport(self.proxy, context, httpx.Limits(), _REPEATABLE)
            )
            async with (
                asyncio.timeout(REQUEST_SECONDS),
                httpx.AsyncClient(transport=transport, trust_env=False, timeout=REQUEST_SECONDS) as client,
                client.stream("POST", self.url, data=form, headers=headers, auth=login) as response,
            ):
                body = bytearray()
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > MAX_ANSWER_OCTETS:
                        raise TokenError(f"{self._named} answers with more than {MAX_ANSWER_OCTETS} bytes")
                return response.status_code, _document(bytes(body))
        except TlsFileError as error:
            raise TokenError(f"{self._named}: {error}") from error
        except (TimeoutError, httpx.TimeoutException) as error:
            text = f"{self._named} does not answer within {REQUEST_SECONDS:g} s: is it running?"
            raise TokenError(text, passing=True) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            advice = "check 'token_url', 'ca_file' and 'proxy', and whether it is running"
            raise TokenError(
                f"{self._named} is not reached ({error_line(error)}): {advice}", passing=True
            ) from error

    def _token_of(self, answer: tuple[int, object]) -> tuple[SecretStr, float]:
        status, document = answer
        if httpx.codes.is_redirect(status):
            raise TokenError(
                f"{self._named} leads elsewhere (status {status}): give the other URL as 'token_url'"
            )
        found = document if isinstance(document, dict) else {}
        if status != httpx.codes.OK:
            passing = httpx.codes.is_server_error(status) or status == httpx.codes.TOO_MANY_REQUESTS
            raise TokenError(self._refusal(status, _error_of(document)), passing=passing)
        token, kind = found.get("access_token"), found.get("token_type", "bearer")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token) or str(kind).lower() != "bearer":
            raise TokenError(f"{self._named} answers without a bearer token: check 'token_url'")
        lifetime = found.get("expires_in", DEFAULT_LIFETIME)
        if isinstance(lifetime, str) and lifetime.isdecimal() and len(lifetime) <= _DIGITS:
            lifetime = int(lifetime)  # as some issuers write it
        if isinstance(lifetime, bool) or not isinstance(lifetime, int | float) or not lifetime > 0:
            raise TokenError(
                f"{self._named} issues tokens without a lifetime: 'expires_in' is no number above 0"
            )
        return SecretStr(token), float(min(lifetime, LONGEST_LIFETIME))  # an int may be no float

    def _refusal(self, status: int, error: str) -> str:
        said = f"{error}, status {status}" if error else f"status {status}"
        if _refuses_client((status, {"error": error})):
            return (
                f"{self._named} refuses client {self.client_id!r} ({said}): check 'client_id' and"
                " 'client_secret', and that the client may get tokens by client credentials"
            )
        if error == "invalid_scope":
            return f"{self._named} refuses the scope {self.scope!r} ({said}): check 'scope'"
        return f"{self._named} issues no token ({said}): check 'token_url', and see the log of the issuer"

    @property
    def _named(self) -> str:
        return f"the token endpoint {self.url}"


def _document(body: bytes) -> object:
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found


def _error_of(document: object) -> str:
    """Return the code of an error (RFC 6749 section 5.2), empty for none; its other texts are not shown."""
    error = document.get("error") if isinstance(document, dict) else None
    return error if isinstance(error, str) and _ERROR.fullmatch(error) else ""


def _refuses_client(answer: tuple[int, object]) -> bool:
    status, document = answer
    return status == httpx.codes.UNAUTHORIZED or _error_of(document) in _CLIENT_ERRORS


class AccessToken:
    """A `gateway.links.credentials.LoginSecret` that is renewed before it expires.

    A token stays in use until it expires, whatever the issuer answers meanwhile. Requests that fail are
    repeated after pauses; all connections of a user share them.

    Args:
        endpoint: issues the tokens.
    """

    is_token = True

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint
        self._token: SecretStr | None = None
        self._expires = self._due = self._not_before = self._issued = 0.0
        self._pause = FIRST_PAUSE_SECONDS
        self._failure: TokenError | None = None
        self._request: asyncio.Task[None] | None = None

    async def current(self) -> str:
        """Return a token that has not expired.

        Raises:
            TokenError: there is none.
        """
        now = asyncio.get_running_loop().time()
        if self._token is not None and now < self._expires:
            if now >= max(self._due, self._not_before):
                self._renewing()
            return self._token.get_secret_value()
        if self._failure is not None and now < self._not_before:
            raise self._failure.again()
        await self._renewed()
        if self._failure is not None:
            raise self._failure.again()
        if self._token is None:
            raise TokenError("there is no token")
        return self._token.get_secret_value()

    async def other_than(self, refused: str) -> str | None:
        """Return another token than ``refused``, a new one unless the last is too young for that."""
        clock = asyncio.get_running_loop().time
        if self._token is not None and self._token.get_secret_value() == refused:
            if clock() < max(self._issued + REFUSED_SECONDS, self._not_before):
                return None
            await self._renewed()
        found = self._token.get_secret_value() if self._token is not None else refused
        return None if found == refused else found

    async def read_again(self) -> str:
        """Request a new token, with the client's secret as it is now; return its place if there is one."""
        before = self._token
        await self._endpoint.client_secret.read_again()
        await self._renewed()
        return "" if self._token is before else f"token of {self._endpoint.client_id} ({self._endpoint.url})"

    async def after(self, used: str) -> str:
        """Wait until there is another token than ``used``, which is some time before that expires."""
        clock = asyncio.get_running_loop().time
        while self._token is None or self._token.get_secret_value() == used:
            await asyncio.sleep(max(self._due - clock(), self._not_before - clock(), 0))
            if clock() >= max(self._due, self._not_before):
                await self._renewed()
        return self._token.get_secret_value()

    async def _renewed(self) -> None:
        """Request a token, or wait for the request that is under way; a caller that ends does not end it."""
        await asyncio.shield(self._renewing())

    def _renewing(self) -> asyncio.Task[None]:
        if self._request is None or self._request.done():
            self._request = asyncio.create_task(self._renew())
        return self._request

    async def _renew(self) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            self._token, lifetime = await self._endpoint.issue()
        except TokenError as error:
            self._not_before = clock() + self._pause * random.uniform(0.5, 1.0)  # noqa: S311  no secret
            self._pause = min(2 * self._pause, LAST_PAUSE_SECONDS)
            if str(error) != str(self._failure or ""):
                left = max(self._expires - clock(), 0)
                log.warning("token-not-renewed", reason=str(error), former_expires_in=round(left))
            self._failure = error.again()
            return
        self._failure, self._pause = None, FIRST_PAUSE_SECONDS
        # An issuer may issue the same token again until it expires.
        self._not_before = clock() + FIRST_PAUSE_SECONDS
        self._issued, self._expires = began, began + lifetime
        self._due = self._expires - min(_EARLY_SHARE * lifetime, _EARLY_SECONDS)
        log.info("token-renewed", issuer=self._endpoint.url, expires_in=round(lifetime))
