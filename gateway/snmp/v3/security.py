"""The User-based Security Model (RFC 3414 section 3): messages are checked and opened, and sealed.

Nothing is decrypted before its message authentication code was compared, and nothing is looked at that is
behind a step which failed.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from gateway.snmp import ber
from gateway.snmp.v3 import messages
from gateway.snmp.v3.ciphers import DecryptionError, Salts
from gateway.snmp.v3.engine import Engine
from gateway.snmp.v3.keyed_users import KeyedUser
from gateway.snmp.v3.messages import Header, SecurityParameters
from gateway.snmp.v3.users import SecurityLevel, User

LEVELS: Final = {
    0: SecurityLevel.NO_AUTH_NO_PRIV,
    messages.AUTHENTICATED: SecurityLevel.AUTH_NO_PRIV,
    messages.AUTHENTICATED | messages.ENCRYPTED: SecurityLevel.AUTH_PRIV,
}
"""Security levels by the flags of a message; privacy without authentication is invalid."""

FLAGS: Final = {level: flags for flags, level in LEVELS.items()}
"""The reverse of `LEVELS`."""


class Opened(NamedTuple):
    """A message that passed: its ScopedPDU is ``octets[start:stop]``, a TLV perhaps with padding behind."""

    user: KeyedUser
    level: SecurityLevel
    mac: bytes
    octets: bytes
    start: int
    stop: int


class Refused(NamedTuple):
    """A message that did not pass.

    Attributes:
        counter: the name in `SnmpCounters` of the counter that says why, whose value a report carries.
        name: the user's name in the message.
        user: the user with whose key the report is authenticated, if it is.
    """

    counter: str
    name: bytes
    user: KeyedUser | None = None


class SecurityModel:
    """The users of one authoritative engine.

    Args:
        engine: the engine.
        users: its users, whose names are distinct.
        salts: the salts of what is encrypted.
    """

    def __init__(self, engine: Engine, users: Iterable[User], salts: Salts) -> None:
        self.engine = engine
        self.users: Mapping[bytes, KeyedUser] = {user.name.encode(): KeyedUser(user, salts) for user in users}

    def open(self, datagram: bytes, header: Header, level: SecurityLevel) -> Opened | Refused:
        """Check a message, and decrypt it, in the order of RFC 3414 section 3.2.

        Args:
            datagram: the message.
            header: its header, with this security model.
            level: of its flags.

        Raises:
            BerError: the security parameters or the type of msgData are not valid.
        """
        parameters = messages.read_security_parameters(datagram, header.start, header.stop)
        encrypted = level is SecurityLevel.AUTH_PRIV
        tag = ber.OCTET_STRING if encrypted else ber.SEQUENCE
        start, stop = ber.read_tagged(datagram, header.stop, header.end, tag)
        user = self._identified(parameters, level)
        if isinstance(user, Refused):
            return user
        if level is SecurityLevel.NO_AUTH_NO_PRIV:
            return Opened(user, level, b"", datagram, header.stop, stop)
        if not is_authentic(datagram, header.end, parameters, user):
            return Refused("wrong_digests", parameters.user)
        if not self.engine.is_timely(parameters.boots, parameters.time):
            return Refused("not_in_time_windows", parameters.user, user)
        octets, scope = datagram, header.stop
        if encrypted:
            try:
                octets, scope = decrypted(datagram[start:stop], parameters, user), 0
            except DecryptionError:
                return Refused("decryption_errors", parameters.user)
            stop = len(octets)
        return Opened(user, level, parameters.mac, octets, scope, stop)

    def _identified(self, parameters: SecurityParameters, level: SecurityLevel) -> KeyedUser | Refused:
        """Return the user whom a message names, who has the protocols for its level."""
        if parameters.engine_id != self.engine.engine_id:
            return Refused("unknown_engine_ids", parameters.user)
        user = self.users.get(parameters.user)
        if user is None:
            return Refused("unknown_user_names", parameters.user)
        return user if level <= user.highest else Refused("unsupported_security_levels", parameters.user)

    def seal(
        self,
        message_id: int,
        max_size: int,
        user: KeyedUser | bytes,
        level: SecurityLevel,
        scoped_pdu: bytes,
    ) -> bytes:
        """Return a message of this engine, which is authoritative: a response, a report or a trap.

        Args:
            message_id: msgID.
            max_size: msgMaxSize, what this agent receives.
            user: the user; or the name of one for a message without authentication.
            level: the security level; the user has keys for it.
            scoped_pdu: a ScopedPDU.
        """
        boots, time = self.engine.now()
        name = user if isinstance(user, bytes) else user.name
        identity = messages.encode_identity(self.engine.engine_id, boots, time, name)
        header = messages.encode_header(message_id, max_size, FLAGS[level])
        if isinstance(user, bytes) or level is SecurityLevel.NO_AUTH_NO_PRIV:
            return messages.encode_message(header, identity, b"", b"", scoped_pdu)[0]
        return sealed(header, identity, user, level, (boots, time), scoped_pdu)


def is_authentic(datagram: bytes, end: int, parameters: SecurityParameters, user: KeyedUser) -> bool:
    """Return whether a message up to ``end`` has the code of the user, who has an authentication protocol.

    It must have exactly the right length, and is compared in a time that does not depend on its octets.
    """
    authenticator = user.authenticator
    assert authenticator is not None
    mac, offset = parameters.mac, parameters.mac_at
    if len(mac) != authenticator.size:
        return False
    blanked = datagram[:offset] + authenticator.blank + datagram[offset + authenticator.size : end]
    return hmac.compare_digest(authenticator.mac(blanked), mac)


def decrypted(octets: bytes, parameters: SecurityParameters, user: KeyedUser) -> bytes:
    """Return the plain octets of a user who has a privacy protocol. Raises `DecryptionError`."""
    cipher = user.cipher
    assert cipher is not None
    return cipher.decrypt(octets, parameters.boots, parameters.time, parameters.salt)


def sealed(
    header: bytes,
    identity: bytes,
    user: KeyedUser,
    level: SecurityLevel,
    clock: tuple[int, int],
    scoped_pdu: bytes,
) -> bytes:
    """Return an authenticated message, encrypted where the level says so.

    Args:
        header: of `messages.encode_header`, with the flags of the level.
        identity: of `messages.encode_identity`, with the boots and time of ``clock``.
        user: the user, who has keys for the level.
        level: not noAuthNoPriv.
        clock: boots and time of the authoritative engine.
        scoped_pdu: a ScopedPDU.
    """
    salt = b""
    if level is SecurityLevel.AUTH_PRIV:
        assert user.cipher is not None
        encrypted, salt = user.cipher.encrypt(scoped_pdu, *clock)
        scoped_pdu = ber.encode_tlv(ber.OCTET_STRING, encrypted)
    authenticator = user.authenticator
    assert authenticator is not None
    blank, offset = messages.encode_message(header, identity, authenticator.blank, salt, scoped_pdu)
    return blank[:offset] + authenticator.mac(blank) + blank[offset + authenticator.size :]
