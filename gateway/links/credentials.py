"""The secrets of logins, which may be replaced while they are in use.

A secret is used until the peer refuses it, or a reload is asked for: then its place is read again. What
cannot be read leaves the former one in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, Protocol, TypeAlias

import structlog
from pydantic import SecretStr

from gateway.links.credentials_error import CredentialsError
from gateway.model.texts import error_line

log = structlog.get_logger(__name__)


class LoginSecret(Protocol):
    """The secret of one user; connections of the same user share it. For one event loop.

    Attributes:
        is_token: whether it is a token of OAuth 2, rather than a password.
    """

    is_token: bool

    async def current(self) -> str:
        """Return the secret to log in with.

        Raises:
            CredentialsError: there is none.
        """
        ...

    async def other_than(self, refused: str) -> str | None:
        """Return another secret than the one that a peer refused; ``None`` if there is none."""
        ...

    async def after(self, used: str) -> str:
        """Wait until open connections need another secret than ``used``, perhaps for ever; return it."""
        ...

    async def read_again(self) -> str:
        """Take the secret that is at its place now; return the place if it is another one, else nothing."""
        ...


class Password:
    """A password, which may be replaced at its place.

    Args:
        read: returns the password, or raises `CredentialsError`; it is called in a thread.
        place: the place of the password, for the log.
        remark: returns what is probably not meant so at that place; it is logged after a refusal.

    Raises:
        CredentialsError: it cannot be read.
    """

    is_token = False

    def __init__(
        self, read: Callable[[], SecretStr], place: str, remark: Callable[[], str] = lambda: ""
    ) -> None:
        self._read = read
        self._place = place
        self._secret = read()
        self._remark = remark
        self._wrong = ""

    async def current(self) -> str:
        """Return the password as it was read last."""
        return self._secret.get_secret_value()

    async def other_than(self, refused: str) -> str | None:
        """Read the password again; return it if it is another one than ``refused``."""
        if self._secret.get_secret_value() == refused:
            await self.read_again()
        found = self._secret.get_secret_value()
        return None if found == refused else found

    async def after(self, used: str) -> str:
        """Wait for ever: a connection that was opened with ``used`` goes on with it."""
        await asyncio.Event().wait()
        return used

    async def read_again(self) -> str:
        """Read the password again; return its place if it is another one, else nothing."""
        try:
            found, remark = await asyncio.to_thread(lambda: (self._read(), self._remark()))
        except CredentialsError as error:
            self._warn("secret-not-read", f"{error}; the former one stays in use")
            return ""
        self._warn("secret-remark", remark)
        if found == self._secret:
            return ""
        self._secret = found
        log.info("secret-renewed", place=self._place)
        return self._place

    def _warn(self, event: str, reason: str) -> None:
        if reason and reason != self._wrong:
            log.warning(event, reason=reason)
        self._wrong = reason


AnySecret: TypeAlias = SecretStr | LoginSecret
"""The secret of an endpoint; a `SecretStr` is one that is never replaced."""


def login_secret(secret: AnySecret) -> LoginSecret:
    """Return the secret of an endpoint in the form that can be asked for another one."""
    return Password(lambda: secret, "") if isinstance(secret, SecretStr) else secret


HAND_OVER_SECONDS: Final = 10.0
"""Maximum time in which a peer confirms a secret."""


async def hand_over(
    secret: LoginSecret, used: str, update: Callable[[str], Awaitable[object]], peer: str
) -> NoReturn:
    """Hand each new secret over to a peer, before the former one expires, until cancelled.

    Args:
        secret: the secret of an open connection.
        used: the one by which it was opened.
        update: hands one over, and waits until it is confirmed.
        peer: the peer, for the log.
    """
    while True:
        used = await secret.after(used)
        try:
            async with asyncio.timeout(HAND_OVER_SECONDS):
                await update(used)
        except Exception as error:  # noqa: BLE001  a peer that refuses it ends the connection, and says why
            log.warning("token-not-taken", peer=peer, reason=error_line(error))
        else:
            log.info("token-taken", peer=peer)
