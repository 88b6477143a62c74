"""Who may come in by JMX: users and passwords, compared so that the time it takes tells nothing."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Mapping

from pydantic import SecretStr

FAILURE_SECONDS = 0.5
"""How long whoever showed a wrong password waits for the answer."""


class Users:
    """The users of the JMX agent.

    Args:
        passwords: by name of the user.
        failure_seconds: how long a wrong password's answer is held back.
    """

    def __init__(self, passwords: Mapping[str, SecretStr], failure_seconds: float = FAILURE_SECONDS) -> None:
        self._key = secrets.token_bytes(32)
        self._digests = {user: self._digest(secret.get_secret_value()) for user, secret in passwords.items()}
        self._nobody = secrets.token_bytes(hashlib.sha256().digest_size)
        self._failure_seconds = failure_seconds

    async def authenticate(self, user: str, password: str) -> bool:
        """Whether this is the password of a user that there is."""
        expected = self._digests.get(user, self._nobody)
        if hmac.compare_digest(self._digest(password), expected):
            return True
        await asyncio.sleep(self._failure_seconds)
        return False

    def _digest(self, password: str) -> bytes:
        """Of the same length for every password, so that lengths are not told either."""
        return hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), "sha256")
