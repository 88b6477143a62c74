"""Signed statements of the gateway about its log: heads of the chain, deletions by retention, adoptions.

A statement is one line of JSON. Its last field is the signature, Ed25519 (RFC 8032) over the octets of the
line without that field, in base64. ``form`` is the first field, so that neither kind can pass for the other.
A head proves that the chain had this hash at this number; no later change of the log can be made to fit.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

MAX_LINE: Final = 4096
"""The maximum size of a statement, in octets."""

_KEY_DIGITS: Final = 16


class StatementError(Exception):
    """A text is no statement; the text of the error says what it is."""


class KeyFileError(Exception):
    """A text is no key that can be used; the text of the error says what is expected."""


class Head(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="form", tag="amqp-gateway-head-1"):
    """The signed end of the chain at a time.

    Attributes:
        gateway: the gateway's uuid.
        log_id: the identity of the log.
        audit: the number of the last audited record.
        seq: the seq of that record.
        hash: its hash, hexadecimal.
        time: when the head was made, as on a line of the log.
        key: the fingerprint of the key.
        signature: base64; empty before it is signed.
    """

    gateway: str
    log_id: str
    audit: int
    seq: int
    hash: str
    time: str
    key: str
    signature: str = ""


class Deletion(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="form", tag="amqp-gateway-deletion-1"
):
    """A signed statement that the oldest records of a log are deleted by its bounds.

    Attributes:
        gateway: the gateway's uuid.
        log_id: the identity of the log.
        before_seq: the records before this seq are deleted; `gateway.eventlog.retention.EVERYTHING` for all.
        time: when it was stated, as on a line of the log.
        key: the fingerprint of the key.
        signature: base64; empty before it is signed.
    """

    gateway: str
    log_id: str
    before_seq: int
    time: str
    key: str
    signature: str = ""


class Adoption(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="form", tag="amqp-gateway-adoption-1"
):
    """A signed statement that a log was found in the gateway's folder, which it does not continue.

    Attributes:
        gateway: the gateway's uuid.
        log_id: the identity of the log that begins.
        former_log_id: the identity of the log that was found.
        former_gateway: the gateway to which that belongs; empty where that is not known.
        first_seq: the first seq of it that was there.
        seq: the last one; 0 where there was none.
        audit: the number of its last audited record; 0 for none.
        hash: the hash of that record, hexadecimal; empty for none.
        time: when it was found, as on a line of the log.
        key: the fingerprint of the key.
        signature: base64; empty before it is signed.
    """

    gateway: str
    log_id: str
    former_log_id: str
    former_gateway: str
    first_seq: int
    seq: int
    audit: int
    hash: str
    time: str
    key: str = ""
    signature: str = ""


Statement: TypeAlias = Head | Deletion | Adoption

_DECODER: Final = msgspec.json.Decoder(Head | Deletion | Adoption)


def line_of(statement: Statement) -> str:
    """Return the line of a statement, without its end."""
    return msgspec.json.encode(statement).decode()


def read_statement(line: str | bytes) -> Statement:
    """Return the statement on a line.

    Raises:
        StatementError: it is none.
    """
    if len(line) > MAX_LINE:
        raise StatementError(f"longer than {MAX_LINE} bytes")
    try:
        found: Statement = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise StatementError(str(error)) from error
    return found


class AuditKey:
    """The private key of a gateway.

    Args:
        key: the key.

    Attributes:
        fingerprint: that of its public key.
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.fingerprint = fingerprint(key.public_key())

    @classmethod
    def generate(cls) -> AuditKey:
        """Make a new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, text: bytes) -> AuditKey:
        """Return the key in a PEM text (PKCS #8, RFC 5958).

        Raises:
            KeyFileError: it is none.
        """
        try:
            key = serialization.load_pem_private_key(text, None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise KeyFileError("a private key of Ed25519 in PEM is expected, without a password") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyFileError("a private key of Ed25519 is expected, this is another kind")
        return cls(key)

    @property
    def text(self) -> str:
        """The key as PEM text."""
        return self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()

    @property
    def public_key(self) -> Ed25519PublicKey:
        """The public key."""
        return self._key.public_key()

    def head(self, gateway: str, log_id: str, audit: int, seq: int, digest: str, time: str) -> Head:
        """Return a signed head; the arguments are its attributes."""
        head = Head(gateway, log_id, audit, seq, digest, time, self.fingerprint)
        return msgspec.structs.replace(head, signature=self._signature(head))

    def deletion(self, gateway: str, log_id: str, before_seq: int, time: str) -> Deletion:
        """Return a signed statement of a deletion; the arguments are its attributes."""
        deletion = Deletion(gateway, log_id, before_seq, time, self.fingerprint)
        return msgspec.structs.replace(deletion, signature=self._signature(deletion))

    def adoption(self, unsigned: Adoption) -> Adoption:
        """Return a statement with the key and the signature."""
        adoption = msgspec.structs.replace(unsigned, key=self.fingerprint)
        return msgspec.structs.replace(adoption, signature=self._signature(adoption))

    def _signature(self, unsigned: Statement) -> str:
        return base64.b64encode(self._key.sign(msgspec.json.encode(unsigned))).decode()


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return the first 16 hexadecimal digits of SHA-256 over the 32 octets of a public key."""
    octets = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(octets).hexdigest()[:_KEY_DIGITS]


def public_text(key: Ed25519PublicKey) -> str:
    """Return a public key as PEM text (RFC 8410)."""
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()


def read_public_key(text: bytes) -> Ed25519PublicKey:
    """Return the public key in a PEM text.

    Raises:
        KeyFileError: it is none.
    """
    try:
        key = serialization.load_pem_public_key(text)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(
            "a public key in PEM is expected, as `amqp-gateway audit key` prints it"
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError("a public key of Ed25519 is expected, this is another kind")
    return key


def is_signed(statement: Statement, keys: Mapping[str, Ed25519PublicKey]) -> bool:
    """Return whether one of the keys has signed a statement.

    Args:
        statement: as it was read.
        keys: public keys by their fingerprints.
    """
    key = keys.get(statement.key)
    if key is None:
        return False
    unsigned = msgspec.json.encode(msgspec.structs.replace(statement, signature=""))
    try:
        key.verify(base64.b64decode(statement.signature, validate=True), unsigned)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True
