"""The authentication and privacy protocols of the User-based Security Model, and the keys that they take.

RFC 3414 defines HMAC-MD5-96, HMAC-SHA-96 and DES, RFC 3826 AES-128, and RFC 7860 the protocols with SHA-2.
AES with longer keys is no standard. There are two ways to lengthen a localised key for it, and neither
program understands the other's: draft-blumenthal-aes-usm-04, as net-snmp and most managers do, and
draft-reeder-snmpv3-usm-3desede, as Cisco's devices do.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.snmp.ber import Oid

_AUTHENTICATION: Final[Oid] = (1, 3, 6, 1, 6, 3, 10, 1, 1)
_PRIVACY: Final[Oid] = (1, 3, 6, 1, 6, 3, 10, 1, 2)
_ESO: Final[Oid] = (1, 3, 6, 1, 4, 1, 14832, 1)
_CISCO: Final[Oid] = (1, 3, 6, 1, 4, 1, 9, 12, 6, 1)

NO_AUTHENTICATION_PROTOCOL: Final[Oid] = (*_AUTHENTICATION, 1)
"""usmNoAuthProtocol"""

NO_PRIVACY_PROTOCOL: Final[Oid] = (*_PRIVACY, 1)
"""usmNoPrivProtocol"""

MIN_PASSPHRASE: Final = 8
"""The minimum number of octets of a passphrase (RFC 3414 section 11.2)."""

_EXPANDED: Final = 1 << 20


class AuthenticationProtocol(msgspec.Struct, frozen=True):
    """An authentication protocol.

    Attributes:
        name: its name in a configuration.
        oid: its object identifier.
        hash_name: the name of its hash function in `hashlib`.
        key_size: octets of a key, which is an output of the hash function.
        mac_size: octets of a message authentication code.
        is_weak: whether it should be used for old devices only.
    """

    name: str
    oid: Oid
    hash_name: str
    key_size: int
    mac_size: int
    is_weak: bool = False


class Extension(enum.Enum):
    """How a localised key that is too short for a cipher is lengthened."""

    BLUMENTHAL = "blumenthal"
    REEDER = "reeder"


class PrivacyProtocol(msgspec.Struct, frozen=True):
    """A privacy protocol.

    Attributes:
        name: its name in a configuration.
        oid: its object identifier; for those that no RFC defines, the one that net-snmp uses.
        key_size: octets of a key; of DES these include the 8 of the pre-IV.
        extension: how a shorter key is lengthened.
        is_weak: whether it should be used for old devices only.
    """

    name: str
    oid: Oid
    key_size: int
    extension: Extension = Extension.BLUMENTHAL
    is_weak: bool = False


MD5: Final = AuthenticationProtocol("md5", (*_AUTHENTICATION, 2), "md5", 16, 12, is_weak=True)
SHA1: Final = AuthenticationProtocol("sha1", (*_AUTHENTICATION, 3), "sha1", 20, 12)
SHA224: Final = AuthenticationProtocol("sha224", (*_AUTHENTICATION, 4), "sha224", 28, 16)
SHA256: Final = AuthenticationProtocol("sha256", (*_AUTHENTICATION, 5), "sha256", 32, 24)
SHA384: Final = AuthenticationProtocol("sha384", (*_AUTHENTICATION, 6), "sha384", 48, 32)
SHA512: Final = AuthenticationProtocol("sha512", (*_AUTHENTICATION, 7), "sha512", 64, 48)

DES: Final = PrivacyProtocol("des", (*_PRIVACY, 2), 16, is_weak=True)
AES128: Final = PrivacyProtocol("aes128", (*_PRIVACY, 4), 16)
AES192: Final = PrivacyProtocol("aes192", (*_ESO, 3), 24)
AES256: Final = PrivacyProtocol("aes256", (*_ESO, 4), 32)
AES192_REEDER: Final = PrivacyProtocol("aes192-reeder", (*_CISCO, 1), 24, Extension.REEDER)
AES256_REEDER: Final = PrivacyProtocol("aes256-reeder", (*_CISCO, 2), 32, Extension.REEDER)

AUTHENTICATION_PROTOCOLS: Final[Mapping[str, AuthenticationProtocol]] = {
    each.name: each for each in (MD5, SHA1, SHA224, SHA256, SHA384, SHA512)
}
"""The authentication protocols by their names in a configuration, from the weakest to the strongest."""

PRIVACY_PROTOCOLS: Final[Mapping[str, PrivacyProtocol]] = {
    each.name: each for each in (DES, AES128, AES192, AES256, AES192_REEDER, AES256_REEDER)
}
"""The privacy protocols by their names in a configuration."""


def password_to_key(passphrase: bytes, protocol: AuthenticationProtocol) -> bytes:
    """Return the key Ku of a passphrase, which is the same for every engine (RFC 3414 section A.2).

    It hashes 1 MiB, which takes milliseconds.

    Raises:
        ValueError: the passphrase has fewer than 8 octets.
    """
    if len(passphrase) < MIN_PASSPHRASE:
        raise ValueError(
            f"a passphrase of SNMP version 3 has at least {MIN_PASSPHRASE} bytes, not {len(passphrase)}; "
            "take a longer one"
        )
    return _expanded_hash(passphrase, protocol)


def localised_key(key: bytes, engine_id: bytes, protocol: AuthenticationProtocol) -> bytes:
    """Return the key Kul of a key Ku for one engine (RFC 3414 section 2.6)."""
    return _hash(key + engine_id + key, protocol)


def privacy_key(
    key: bytes, engine_id: bytes, protocol: AuthenticationProtocol, privacy: PrivacyProtocol
) -> bytes:
    """Return the localised key of a privacy protocol, extended or cut to its size.

    Args:
        key: the key Ku of the privacy passphrase, by the user's authentication protocol.
        engine_id: the engine for which the key is.
        protocol: the user's authentication protocol, whose hash function makes privacy keys, too.
        privacy: the privacy protocol.
    """
    localised = localised_key(key, engine_id, protocol)
    while len(localised) < privacy.key_size:
        if privacy.extension is Extension.REEDER:
            # The key so far takes the place of the passphrase (section 2.1 of the draft).
            localised += localised_key(_expanded_hash(localised, protocol), engine_id, protocol)
        else:
            localised += _hash(localised, protocol)  # section 3.1.2.1 of the draft
    return localised[: privacy.key_size]


def _expanded_hash(octets: bytes, protocol: AuthenticationProtocol) -> bytes:
    return _hash((octets * (_EXPANDED // len(octets) + 1))[:_EXPANDED], protocol)


def _hash(octets: bytes, protocol: AuthenticationProtocol) -> bytes:
    # Where the system's policy forbids MD5 for security, keys of old devices must still be made.
    return hashlib.new(protocol.hash_name, octets, usedforsecurity=False).digest()
