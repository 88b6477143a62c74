"""Hashes of passwords: Argon2id (RFC 9106), in the form of the Password Hashing Competition.

Such a line begins with ``$argon2id$``, and carries its parameters and salt. The library computes it
without holding Python's lock. Import this module only where there is a hash: the library takes 6 MB.
"""

from __future__ import annotations

import re
import secrets
from base64 import b64decode, b64encode
from functools import cache
from typing import Final

from cryptography.exceptions import InvalidKey, UnsupportedAlgorithm
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from gateway.jmx.users import PasswordError

MEMORY_KIB, ITERATIONS, LANES = 19_456, 2, 1
"""The parameters of new hashes: OWASP's recommendation of the least memory, some 50 ms."""

MAX_MEMORY_KIB, MAX_ITERATIONS, MAX_LANES = 262_144, 16, 16
"""The parameters of hashes that others made; more would keep other logins waiting."""

_SALT_OCTETS: Final = 16
_LEAST_KIB: Final = 8
_HASH_OCTETS: Final = 32
_FORM: Final = re.compile(
    r"\$argon2id\$v=19\$m=([0-9]{1,7}),t=([0-9]{1,3}),p=([0-9]{1,3})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})"
)
_ADVICE: Final = "make one with `amqp-gateway jmx password`"


def make_hash(password: str) -> str:
    """Return a new hash of a password.

    Raises:
        PasswordError: the cryptographic library lacks Argon2id.
    """
    salt = secrets.token_bytes(_SALT_OCTETS)
    try:
        return Argon2id(
            salt=salt, length=_HASH_OCTETS, iterations=ITERATIONS, lanes=LANES, memory_cost=MEMORY_KIB
        ).derive_phc_encoded(_octets(password))
    except UnsupportedAlgorithm as error:
        raise PasswordError(_UNSUPPORTED) from error


def check_hash(text: str) -> None:
    """Check that a hash can be verified.

    Raises:
        PasswordError: it is not of Argon2id, is damaged, or takes too much memory or time.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise PasswordError(f"a hash of a password is a line of Argon2id, $argon2id$v=19$...: {_ADVICE}")
    memory, iterations, lanes = map(int, match.groups()[:3])
    if not (
        iterations and lanes and memory >= _LEAST_KIB * lanes and all(map(_is_base64, match.groups()[3:]))
    ):
        raise PasswordError(f"the hash of a password is damaged: {_ADVICE}")
    if memory > MAX_MEMORY_KIB or iterations > MAX_ITERATIONS or lanes > MAX_LANES:
        raise PasswordError(
            f"a hash of a password has at most m={MAX_MEMORY_KIB},t={MAX_ITERATIONS},p={MAX_LANES}: {_ADVICE}"
        )


def matches(text: str, password: str) -> bool:
    """Return whether a hash is of this password; takes 50 ms and more.

    Raises:
        PasswordError: the hash cannot be used, as of `check_hash`.
    """
    check_hash(text)
    try:
        Argon2id.verify_phc_encoded(_octets(password), text)
    except InvalidKey:
        return False
    except UnsupportedAlgorithm as error:
        raise PasswordError(_UNSUPPORTED) from error
    return True


@cache
def decoy() -> str:
    """Return a hash of a random password, for users who do not exist."""
    return make_hash(secrets.token_urlsafe())


_UNSUPPORTED: Final = (
    "the library cryptography was built without Argon2id (OpenSSL 3.2 or newer): install its wheel, or"
    " configure the password without a hash"
)


def _is_base64(text: str) -> bool:
    try:
        octets = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return False
    return b64encode(octets).decode().rstrip("=") == text


def _octets(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")
