"""The envelope of a protected body: a JWE in compact serialisation, around signed claims and the body.

The envelope is encrypted for one X25519 key (RFC 7516, RFC 8037; ``ECDH-ES`` and ``A256GCM``). Its plaintext
is a JWS in compact serialisation (RFC 7515, RFC 8037, RFC 9864; ``Ed25519``), a line feed, and the body's
bytes. The payload of the JWS is the `Claims`, among them the SHA-256 of the body: so the body is encoded in
base64 only once. All algorithms are fixed: a header is compared, and nothing is chosen by it.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from joserfc import jwe, jws
from joserfc.errors import JoseError

from gateway.protection.keys import Key

CONTENT_TYPE: Final = "application/jose"
"""The content type of a message whose body is an envelope (RFC 7515 section 9.2.1)."""
MAX_ENVELOPE: Final = 32 << 20
"""The longest envelope, in bytes."""
MAX_BODY: Final = 23 << 20
"""The longest body that is sealed, in bytes: with its claims it fills three quarters of an envelope."""

_JWS_TYPE: Final = "amqp+jws"
_MAX_HEADER: Final = 1024
_MAX_CLAIMS: Final = 16 << 10
_KID: Final = r"^[A-Za-z0-9_-]{16}$"
_ENVELOPE: Final = re.compile(
    rb"([A-Za-z0-9_-]{1,%d})\.\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{22}" % _MAX_HEADER
)


class _JweRegistry(jwe.JWERegistry):
    max_ciphertext_length = MAX_ENVELOPE


class _JwsRegistry(jws.JWSRegistry):
    max_payload_length = _MAX_CLAIMS


_JWE: Final = _JweRegistry(algorithms=["ECDH-ES", "A256GCM"])
_JWS: Final = _JwsRegistry(algorithms=["Ed25519"])


class Refusal(enum.StrEnum):
    """The reasons to refuse a body."""

    PLAIN = "plain"
    """The body is not protected."""
    MALFORMED = "malformed"
    """The body is no envelope of this form."""
    UNREADABLE = "unreadable"
    """The body is encrypted for a key that is not held, or not accepted any more."""
    UNKNOWN_SENDER = "unknown-sender"
    """The body is signed with a key that is not trusted, or not any more."""
    TAMPERED = "tampered"
    """Envelope, claims or body are not what was encrypted and signed."""
    REROUTED = "rerouted"
    """The message has another exchange, routing key, address or user than what was signed."""
    LATE = "late"
    """The body was signed too long ago, or before what is known to have been accepted."""
    EARLY = "early"
    """The body was signed in the future."""
    REPLAYED = "replayed"
    """The body was accepted before, or is so far behind others of its sender that this is unknown."""
    TOO_MANY_SENDERS = "too-many-senders"
    """More senders than can be remembered have been started within the time in which bodies are accepted."""
    NOT_RECORDED = "not-recorded"
    """The acceptance could not be written down, so that a replay could not be recognised."""


class BodyRefusedError(Exception):
    """A body is not accepted; the text is for people, and has nothing of the content.

    ``kid`` is the id of the key that is not held or not trusted, where that is the reason; else empty.
    """

    def __init__(self, refusal: Refusal, text: str, kid: str = "") -> None:
        self.refusal = refusal
        self.kid = kid
        super().__init__(text)


class Claims(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is signed beside the body; its form on the wire is a JSON array of the attributes in this order.

    Attributes:
        version: of this form.
        exchange, routing_key, reply_to, correlation_id, user_id: of the message; the broker reads them, and
            may not change them.
        content_type, message_id: of the message; the receiver takes them from here.
        issued: milliseconds since 1970 at which the body was signed.
        expiration: milliseconds after ``issued`` within which a request must be carried out; 0: no limit.
        boot: a random number of each start of the sender.
        number: counts the sender's messages since its start, from 1.
        reader: the id of the key that the body is encrypted for: its receiver cannot pass it on as meant for
            another one.
        digest: SHA-256 of the body, in base64url.
    """

    version: Literal[1]
    exchange: str
    routing_key: str
    reply_to: str
    correlation_id: str
    user_id: str
    content_type: str
    message_id: str
    issued: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
    expiration: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
    boot: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    number: Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]
    reader: str
    digest: str


class _EphemeralKey(msgspec.Struct, forbid_unknown_fields=True):
    kty: Literal["OKP"]
    crv: Literal["X25519"]
    x: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{43}$")]


class _JweHeader(msgspec.Struct, forbid_unknown_fields=True):
    alg: Literal["ECDH-ES"]
    enc: Literal["A256GCM"]
    kid: Annotated[str, msgspec.Meta(pattern=_KID)]
    epk: _EphemeralKey


class _JwsHeader(msgspec.Struct, forbid_unknown_fields=True):
    alg: Literal["Ed25519"]
    typ: Literal["amqp+jws"]
    kid: Annotated[str, msgspec.Meta(pattern=_KID)]


@dataclass(frozen=True, slots=True)
class OpenedBody:
    """A body whose signature was right.

    Attributes:
        sender: the id of the key that signed it.
        claims: what was signed with it.
        body: the bytes.
    """

    sender: str
    claims: Claims
    body: bytes


FindKey = Callable[[str], Key | None]
"""Returns the accepted key with an id; ``None`` where there is none."""


def digest_of(body: bytes) -> str:
    """Return the SHA-256 of a body in base64url, as `Claims.digest` has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode("ascii")


def seal(claims: Claims, body: bytes, signer: Key, reader: Key) -> bytes:
    """Return the envelope of a body; all its bytes are ASCII.

    Args:
        claims: with the digest of ``body`` and the id of ``reader``.
        body: at most `MAX_BODY` bytes.
        signer: a private key that signs.
        reader: a key that is encrypted for.

    Raises:
        ValueError: body or claims are too long.
    """
    payload = msgspec.json.encode(claims)
    if len(body) > MAX_BODY or len(payload) > _MAX_CLAIMS * 3 // 4:
        raise ValueError(
            f"a body of {len(body)} bytes with claims of {len(payload)} is too long to be protected"
        )
    header = {"alg": "Ed25519", "typ": _JWS_TYPE, "kid": signer.kid}
    signed = jws.serialize_compact(header, payload, signer.jwk, registry=_JWS)
    outer = {"alg": "ECDH-ES", "enc": "A256GCM", "kid": reader.kid}
    return jwe.encrypt_compact(
        outer, b"%b\n%b" % (signed.encode("ascii"), body), reader.jwk, registry=_JWE
    ).encode("ascii")


def open_envelope(envelope: bytes, read_key: FindKey, sender_key: FindKey) -> OpenedBody:
    """Return what an envelope contains, if a trusted sender made it for a key that is held.

    Args:
        envelope: bytes from anywhere.
        read_key: returns held keys that are encrypted for.
        sender_key: returns trusted keys that sign.

    Raises:
        BodyRefusedError: it is no envelope, or not to be accepted.
    """
    plaintext, reader = _decrypted(envelope, read_key)
    signed, line_feed, body = plaintext.partition(b"\n")
    if not line_feed:
        raise BodyRefusedError(Refusal.MALFORMED, "has no body within the envelope")
    sender, payload = _verified(signed, sender_key)
    try:
        claims = msgspec.json.decode(payload, type=Claims)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BodyRefusedError(
            Refusal.MALFORMED, f"has claims of another form, signed by {sender}"
        ) from error
    if claims.reader != reader:
        raise BodyRefusedError(Refusal.REROUTED, f"was signed by {sender} for another receiver")
    if claims.digest != digest_of(body):
        raise BodyRefusedError(Refusal.TAMPERED, f"is not the body that {sender} signed")
    return OpenedBody(sender, claims, body)


def _decrypted(envelope: bytes, read_key: FindKey) -> tuple[bytes, str]:
    """Return the plaintext, and the id of the key that it was encrypted for."""
    found = _ENVELOPE.fullmatch(envelope) if len(envelope) <= MAX_ENVELOPE else None
    if found is None:
        raise BodyRefusedError(Refusal.MALFORMED, "is no envelope: no JWE in compact serialisation")
    header = _header(found[1], _JweHeader, "the envelope")
    key = read_key(header.kid)
    if key is None:
        text = f"is encrypted for {header.kid}, a key that is not held here"
        raise BodyRefusedError(Refusal.UNREADABLE, text, header.kid)
    try:
        plaintext = jwe.decrypt_compact(envelope, key.jwk, registry=_JWE).plaintext
    except (JoseError, ValueError, TypeError, binascii.Error) as error:
        raise BodyRefusedError(Refusal.TAMPERED, "is not what was encrypted") from error
    return plaintext or b"", header.kid


def _verified(signed: bytes, sender_key: FindKey) -> tuple[str, bytes]:
    """Return the id of the key that signed, and the payload."""
    encoded = signed.partition(b".")[0]
    if not 0 < len(encoded) <= _MAX_HEADER or len(signed) > 2 * _MAX_CLAIMS:
        raise BodyRefusedError(Refusal.MALFORMED, "has no signature of this form")
    header = _header(encoded, _JwsHeader, "the signature")
    key = sender_key(header.kid)
    if key is None:
        text = f"is signed with {header.kid}, which is not a trusted key"
        raise BodyRefusedError(Refusal.UNKNOWN_SENDER, text, header.kid)
    try:
        payload = jws.deserialize_compact(signed, key.jwk, registry=_JWS).payload
    except (JoseError, ValueError, TypeError, binascii.Error) as error:
        raise BodyRefusedError(Refusal.TAMPERED, f"is not what {header.kid} signed") from error
    return header.kid, payload


_Header = TypeVar("_Header", bound=msgspec.Struct)


def _header(encoded: bytes, form: type[_Header], what: str) -> _Header:
    """Return a header, which must be exactly of this form: nothing in it is a choice."""
    try:
        text = base64.b64decode(encoded + b"=" * (-len(encoded) % 4), b"-_", validate=True)
        header: Any = msgspec.json.decode(text, type=form)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BodyRefusedError(Refusal.MALFORMED, f"has a header of {what} that is not permitted") from error
    assert isinstance(header, form)
    return header
