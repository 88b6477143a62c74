"""Message authentication codes and ciphers with their keys: RFC 3414 sections 6 to 8, RFC 3826, RFC 7860.

The objects keep contexts of the cryptographic library between messages, because making one costs several
times as much as using it for a message. They are for one thread.
"""

from __future__ import annotations

from typing import Final, Protocol

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.hmac import HMAC

from gateway.snmp import ber
from gateway.snmp.v3.algorithms import DES, AuthenticationProtocol, PrivacyProtocol

_HASHES: Final[dict[str, hashes.HashAlgorithm]] = {
    "md5": hashes.MD5(),  # noqa: S303  users of old devices choose it, by a name that is marked as weak
    "sha1": hashes.SHA1(),  # noqa: S303  HMAC-SHA-96 is still sound (RFC 6194)
    "sha224": hashes.SHA224(),
    "sha256": hashes.SHA256(),
    "sha384": hashes.SHA384(),
    "sha512": hashes.SHA512(),
}
SALT_SIZE: Final = 8
"""The number of octets of msgPrivacyParameters."""

_BLOCK: Final = 16
DES_BLOCK: Final = 8
"""Octets of a block of DES, to which it pads."""

_SALTS: Final = 1 << 64
_DES_SALTS: Final = 1 << 32


class DecryptionError(Exception):
    """The octets cannot be what the cipher made; the only argument says why."""


class Authenticator:
    """The message authentication codes of one key.

    Args:
        protocol: the authentication protocol.
        key: the localised key.
    """

    def __init__(self, protocol: AuthenticationProtocol, key: bytes) -> None:
        self.size = protocol.mac_size
        self.head = bytes((ber.OCTET_STRING, protocol.mac_size))
        self.blank = bytes(protocol.mac_size)
        """What stands in the place of the code while it is computed."""
        self._keyed = HMAC(key, _HASHES[protocol.hash_name])

    def mac(self, message: bytes) -> bytes:
        """Return the code of a message in which zeros stand in its place."""
        keyed = self._keyed.copy()
        keyed.update(message)
        return keyed.finalize()[: self.size]


class PrivacyCipher(Protocol):
    """A privacy protocol with a key."""

    def encrypt(self, plain: bytes, boots: int, time: int) -> tuple[bytes, bytes]:
        """Return the encrypted octets and their salt. Boots and time are those of the message."""

    def decrypt(self, encrypted: bytes, boots: int, time: int, salt: bytes) -> bytes:
        """Return the plain octets, perhaps with padding. Raises `DecryptionError`."""


class Salts:
    """The salts of all that a process encrypts: users with equal passphrases have equal keys.

    Args:
        seed: a random number of 64 bits, with which the salts begin: the manager uses the same keys, too.
    """

    def __init__(self, seed: int) -> None:
        self._last = seed % _SALTS

    def next(self) -> int:
        """Return a number of 64 bits that was not returned before."""
        self._last = (self._last + 1) % _SALTS
        return self._last


def cipher_of(protocol: PrivacyProtocol, key: bytes, salts: Salts) -> PrivacyCipher:
    """Return a privacy protocol with a localised key of its size."""
    return DesCbc(key, salts) if protocol is DES else AesCfb(key, salts)


class AesCfb:
    """AES in CFB mode with full feedback (RFC 3826), by the size of the key.

    The initialisation vector is boots, time and salt. In this mode the next block depends on the block of
    encrypted octets before, and on nothing else. So one context serves all messages: a decryptor that is
    given the vector as if it had been encrypted octets goes on as a new one would, and an encryptor whose
    output is the vector does, too.

    Args:
        key: 16, 24 or 32 octets.
        salts: gives a salt for each message.
    """

    def __init__(self, key: bytes, salts: Salts) -> None:
        cipher = algorithms.AES(key)
        self._salts = salts
        self._last = bytes(_BLOCK)  # the last octets of the encryptor's output
        self._blocks: CipherContext = Cipher(cipher, modes.ECB()).encryptor()  # noqa: S305  single blocks
        self._encryptor: CipherContext = Cipher(cipher, CFB(self._last)).encryptor()
        self._decryptor: CipherContext = Cipher(cipher, CFB(self._last)).decryptor()

    def encrypt(self, plain: bytes, boots: int, time: int) -> tuple[bytes, bytes]:
        """See `PrivacyCipher.encrypt`."""
        salt_number = self._salts.next()
        vector = boots << 96 | time << 64 | salt_number
        steering = vector ^ int.from_bytes(self._blocks.update(self._last), "big")
        size = len(plain)
        output = self._encryptor.update(steering.to_bytes(_BLOCK, "big") + plain + bytes(-size % _BLOCK))
        self._last = output[-_BLOCK:]
        return output[_BLOCK : _BLOCK + size], salt_number.to_bytes(SALT_SIZE, "big")

    def decrypt(self, encrypted: bytes, boots: int, time: int, salt: bytes) -> bytes:
        """See `PrivacyCipher.decrypt`."""
        if len(salt) != SALT_SIZE:
            raise DecryptionError(f"{len(salt)} octets of salt")
        size = len(encrypted)
        vector = (boots << 32 | time).to_bytes(8, "big") + salt
        output = self._decryptor.update(vector + encrypted + bytes(-size % _BLOCK))
        return output[_BLOCK : _BLOCK + size]


class DesCbc:
    """DES in CBC mode (RFC 3414 section 8). The library has it as triple DES with one key three times.

    Args:
        key: 16 octets, of which the last 8 are the pre-IV.
        salts: gives a salt for each message, of which 32 bits are used, beside the boots.
    """

    def __init__(self, key: bytes, salts: Salts) -> None:
        self._cipher = TripleDES(key[:DES_BLOCK] * 3)
        self._pre_iv = int.from_bytes(key[DES_BLOCK:], "big")
        self._salts = salts

    def encrypt(self, plain: bytes, boots: int, time: int) -> tuple[bytes, bytes]:
        """See `PrivacyCipher.encrypt`."""
        del time
        salt = (boots << 32 | self._salts.next() % _DES_SALTS).to_bytes(SALT_SIZE, "big")
        encryptor = Cipher(self._cipher, modes.CBC(self._vector(salt))).encryptor()
        return encryptor.update(plain + bytes(-len(plain) % DES_BLOCK)), salt

    def decrypt(self, encrypted: bytes, boots: int, time: int, salt: bytes) -> bytes:
        """See `PrivacyCipher.decrypt`."""
        del boots, time
        if len(salt) != SALT_SIZE or len(encrypted) % DES_BLOCK:
            raise DecryptionError(f"{len(salt)} octets of salt, {len(encrypted)} encrypted ones")
        return Cipher(self._cipher, modes.CBC(self._vector(salt))).decryptor().update(encrypted)

    def _vector(self, salt: bytes) -> bytes:
        return (self._pre_iv ^ int.from_bytes(salt, "big")).to_bytes(DES_BLOCK, "big")
