"""Users of the User-based Security Model, with localised keys and without their passphrases."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from gateway.snmp.v3.algorithms import (
    AuthenticationProtocol,
    PrivacyProtocol,
    localised_key,
    password_to_key,
    privacy_key,
)

MAX_USER_NAME: Final = 32
"""The maximum number of octets of a user's name."""


class SecurityLevel(enum.IntEnum):
    """SnmpSecurityLevel (RFC 3411), in ascending order."""

    NO_AUTH_NO_PRIV = 1
    AUTH_NO_PRIV = 2
    AUTH_PRIV = 3


@dataclass(frozen=True, slots=True)
class User:
    """A user at one engine.

    Attributes:
        name: 1 to 32 octets in UTF-8.
        authentication: the authentication protocol, if any.
        authentication_key: its key, localised for the engine.
        privacy: the privacy protocol, if any.
        privacy_key: its key, localised for the engine and extended to the size of the protocol.
        minimum: the lowest level at which the user may do anything; by default the highest that the user's
            protocols permit.

    Raises:
        ValueError: the name or a key has a wrong size, there is privacy without authentication, the minimum
            is higher than the protocols permit, or a user without authentication was not permitted by
            ``minimum=SecurityLevel.NO_AUTH_NO_PRIV``.
    """

    name: str
    authentication: AuthenticationProtocol | None = None
    authentication_key: bytes = field(default=b"", repr=False)
    privacy: PrivacyProtocol | None = None
    privacy_key: bytes = field(default=b"", repr=False)
    minimum: SecurityLevel | None = None

    def __post_init__(self) -> None:
        if not 0 < len(self.name.encode()) <= MAX_USER_NAME:
            raise ValueError(f"the name of a user has 1 to {MAX_USER_NAME} bytes: {self.name!r}")
        if self.privacy is not None and self.authentication is None:
            raise ValueError(
                f"user {self.name!r}: privacy needs authentication; add an authentication protocol"
            )
        sizes = (
            0 if self.authentication is None else self.authentication.key_size,
            0 if self.privacy is None else self.privacy.key_size,
        )
        if (len(self.authentication_key), len(self.privacy_key)) != sizes:
            raise ValueError(f"user {self.name!r}: keys have {sizes[0]} and {sizes[1]} bytes")
        if self.minimum is None and self.authentication is None:
            raise ValueError(
                f"user {self.name!r} has no authentication, which has to be permitted explicitly"
            )
        if self.minimum_level > self.highest_level:
            raise ValueError(f"user {self.name!r} cannot reach the level {self.minimum_level.name}")

    @property
    def highest_level(self) -> SecurityLevel:
        """The highest level that the user's protocols permit."""
        if self.privacy is not None:
            return SecurityLevel.AUTH_PRIV
        if self.authentication is not None:
            return SecurityLevel.AUTH_NO_PRIV
        return SecurityLevel.NO_AUTH_NO_PRIV

    @property
    def minimum_level(self) -> SecurityLevel:
        """The lowest level at which the user may do anything."""
        return self.highest_level if self.minimum is None else self.minimum


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's protocols with keys that are not localised, from which keys for any engine are made.

    The receiver of an inform is the authoritative engine, and its identifier is known only after discovery.
    So a user who sends informs needs the keys Ku. They are as secret as the passphrases: with them the keys
    for every engine can be made. A user of this agent needs `User` only.

    Attributes:
        name: the user's name.
        authentication: the authentication protocol, if any.
        authentication_ku: the key Ku of its passphrase.
        privacy: the privacy protocol, if any.
        privacy_ku: the key Ku of its passphrase.
    """

    name: str
    authentication: AuthenticationProtocol | None = None
    authentication_ku: bytes = field(default=b"", repr=False)
    privacy: PrivacyProtocol | None = None
    privacy_ku: bytes = field(default=b"", repr=False)

    def at(self, engine_id: bytes, minimum: SecurityLevel | None = None) -> User:
        """Return the user at an engine. Raises ``ValueError`` as `User`."""
        authentication, privacy = self.authentication, self.privacy
        if authentication is None:
            return User(self.name, privacy=privacy, minimum=minimum)
        return User(
            self.name,
            authentication,
            localised_key(self.authentication_ku, engine_id, authentication),
            privacy,
            b"" if privacy is None else privacy_key(self.privacy_ku, engine_id, authentication, privacy),
            minimum,
        )


def credentials(
    name: str,
    authentication: AuthenticationProtocol | None = None,
    passphrase: str = "",
    privacy: PrivacyProtocol | None = None,
    privacy_passphrase: str = "",
) -> Credentials:
    """Return the credentials of passphrases. Raises ``ValueError`` where one has fewer than 8 octets."""
    if authentication is None:
        return Credentials(name, privacy=privacy)
    key = password_to_key(passphrase.encode(), authentication)
    if privacy is None:
        return Credentials(name, authentication, key)
    return Credentials(
        name, authentication, key, privacy, password_to_key(privacy_passphrase.encode(), authentication)
    )
