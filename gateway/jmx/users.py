"""The users of the JMX agent: whether a password is right, as the secrets are at the time of the login.

Users who log in by a client certificate are in `gateway.jmx.certificate_users`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import importlib
import re
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import Final, TypeAlias

from pydantic import SecretStr

ReadPassword: TypeAlias = Callable[[], SecretStr]
"""Returns a user's password, or a hash of it, as it is now, on another thread. Raises `PasswordError`."""

_HASH: Final = re.compile(r"\$[a-z0-9-]{1,16}\$")
"""The beginning of a hash, of any kind: what was meant as one is never taken for a password."""


class PasswordError(Exception):
    """A stored password cannot be used; the text says why, and what to do, and has no secret."""


class SubjectError(Exception):
    """The configured subject of a user's certificate cannot be used; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a client certificate.

    Attributes:
        subject: the subject of the certificate (RFC 4514), for people; shortened where it is long.
        user: the user whose certificate it is; ``None`` where it is no user's.
    """

    subject: str
    user: str | None = None


def is_hash(text: str) -> bool:
    """Return whether a stored password is a hash, of whatever kind."""
    return _HASH.match(text) is not None


def check_stored(text: str) -> None:
    """Check a stored password.

    Raises:
        PasswordError: it is a hash that cannot be used.
    """
    if is_hash(text):
        _hashes().check_hash(text)


class Users:
    """The users who may log in.

    Secrets are read at each login, so that a changed one counts from then on. Hashes are computed by one
    thread, one after the other: any number of wrong passwords takes one processor at most, and the event loop
    goes on. A password that was right is recognised without that.

    Args:
        passwords: reads the password of each user who has one.
    """

    def __init__(self, passwords: Mapping[str, ReadPassword]) -> None:
        self._passwords = passwords
        self._key = secrets.token_bytes(32)
        # A user who does not exist, or has a certificate, costs as much as the first one, and is compared
        # with what no password has, so that the time shows no difference.
        self._model = next(iter(passwords.values()), _no_password)
        self._decoy = secrets.token_bytes(hashlib.sha256().digest_size)
        self._hashing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="password")
        self._accepted: dict[str, bytes] = {}

    async def authenticate(self, user: str, password: str) -> bool:
        """Return whether the user exists and has this password; a user who has a certificate has none.

        The virtual machine delays the answer to a wrong password.

        Raises:
            PasswordError: the stored password cannot be used at present.
        """
        known = user in self._passwords
        read = self._passwords[user] if known else self._model
        stored = (await asyncio.to_thread(read)).get_secret_value()
        if not is_hash(stored):
            expected = self._digest(stored) if known else self._decoy
            return hmac.compare_digest(self._digest(password), expected)
        if not known:
            await self._is_hash_of("", password)
            return False
        both = self._digest(f"{stored}\0{password}")
        if hmac.compare_digest(both, self._accepted.get(user, self._decoy)):
            return True
        if not await self._is_hash_of(stored, password):
            return False
        self._accepted[user] = both
        return True

    async def _is_hash_of(self, text: str, password: str) -> bool:
        return await asyncio.get_running_loop().run_in_executor(self._hashing, _matches, text, password)

    def _digest(self, password: str) -> bytes:
        """Return the digest of a password; all have one length, so that comparing reveals no password's."""
        return hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), "sha256")


def _no_password() -> SecretStr:
    return SecretStr("")


def _matches(text: str, password: str) -> bool:
    late = _hashes()
    is_right: bool = late.matches(text or late.decoy(), password)
    return is_right


def _hashes() -> ModuleType:
    # The cryptographic library takes 6 MB, so it is imported where there are hashes only.
    return importlib.import_module("gateway.jmx.password_hashes")
