"""Users with contexts of the cryptographic library, which takes 6 MB and is imported for version 3 only."""

from __future__ import annotations

from gateway.snmp import ber
from gateway.snmp.v3.algorithms import DES
from gateway.snmp.v3.ciphers import DES_BLOCK, Authenticator, PrivacyCipher, Salts, cipher_of
from gateway.snmp.v3.users import User


class KeyedUser:
    """A user with contexts of the cryptographic library, for one thread.

    Args:
        user: the user.
        salts: the salts of what is encrypted.
    """

    def __init__(self, user: User, salts: Salts) -> None:
        self.user = user
        self.name = user.name.encode()
        self.name_tlv = ber.encode_octets(self.name)
        self.minimum = user.minimum_level
        self.highest = user.highest_level
        self.authenticator: Authenticator | None = None
        self.cipher: PrivacyCipher | None = None
        self.padding = DES_BLOCK if user.privacy is DES else 1
        """The multiple, in octets, to which the cipher pads."""
        if user.authentication is not None:
            self.authenticator = Authenticator(user.authentication, user.authentication_key)
        if user.privacy is not None:
            self.cipher = cipher_of(user.privacy, user.privacy_key, salts)
