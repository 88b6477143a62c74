"""The secrets by which a process logs in to brokers, one for each place, whatever uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gateway.config.logins import LoginSettings, OAuthSettings, ProxySettings
from gateway.config.types import SecretSource
from gateway.links.credentials import LoginSecret, Password
from gateway.links.tls import ClientTls

if TYPE_CHECKING:  # a process that makes no requests over HTTP starts sooner without httpx
    from gateway.links.access_tokens import AccessToken
    from gateway.links.http_proxy import HttpProxy

_SecretT = TypeVar("_SecretT", bound=LoginSecret)


class Logins:
    """The secrets of all sources of a process."""

    def __init__(self) -> None:
        self._secrets: dict[object, LoginSecret] = {}

    def secret(
        self,
        login: LoginSettings,
        folder: Path,
        tls: ClientTls,
        proxy: ProxySettings | None = None,
    ) -> LoginSecret:
        """Return the secret of a user: a password, or a token.

        Args:
            login: the user.
            folder: the folder to which paths are relative.
            tls: the files of TLS, for the issuer of tokens.
            proxy: the proxy to that issuer.

        Raises:
            SecretError: a secret cannot be read.
        """
        if login.oauth is not None:
            return self._token(login.oauth, folder, tls, proxy)
        assert login.password is not None
        return self.password(login.password, folder)

    def password(self, place: SecretSource, folder: Path) -> Password:
        """Return the password at ``place``; ``folder`` is the one to which paths are relative.

        Raises:
            SecretError: it cannot be read.
        """
        return self._shared(
            (folder, place),
            lambda: Password(partial(place.read, folder), place.place, partial(place.remark, folder)),
        )

    def proxy(self, settings: ProxySettings | None, folder: Path) -> HttpProxy | None:
        """Return the proxy for requests over HTTP; ``None`` for none.

        Raises:
            SecretError: its password cannot be read.
        """
        from gateway.links.http_proxy import HttpProxy  # noqa: PLC0415  see above

        if settings is None or settings.user is None or settings.password is None:
            return None if settings is None else HttpProxy(settings.url)
        return HttpProxy(settings.url, settings.user, self.password(settings.password, folder))

    def _token(
        self, oauth: OAuthSettings, folder: Path, tls: ClientTls, proxy: ProxySettings | None
    ) -> AccessToken:
        from gateway.links.access_tokens import AccessToken, TokenEndpoint  # noqa: PLC0415  see above

        client_secret = self.password(oauth.client_secret, folder)
        through = self.proxy(proxy, folder)

        def made() -> AccessToken:
            return AccessToken(
                TokenEndpoint(oauth.token_url, oauth.client_id, client_secret, oauth.scope, tls, through)
            )

        return self._shared((folder, oauth, tls, proxy), made)

    def _shared(self, key: object, make: Callable[[], _SecretT]) -> _SecretT:
        found = self._secrets.get(key)
        if found is None:
            found = self._secrets[key] = make()
        return found  # type: ignore[return-value]  # a key is of one kind of secret

    async def read_again(self) -> list[str]:
        """Read all secrets again, and return the places of those that were replaced."""
        # Passwords first: tokens are issued for those of their clients.
        secrets = list(self._secrets.values())
        places = [await one.read_again() for one in secrets if not one.is_token]
        # At the same time: each issuer that does not answer takes up to 20 s.
        places += await asyncio.gather(*(one.read_again() for one in secrets if one.is_token))
        return sorted(filter(None, places))
