"""Handshakes of TLS on a listener that fail: why, which of them are refused logins, and how they are slowed.

A client without an accepted certificate, or that speaks no TLS, is a refused login. So is not a client that
goes away, says nothing, or rejects the certificate of the gateway itself: these are counted only. A client
that failed waits for a moment before its next handshake, so that one which tries again and again takes little
processor time; others do not wait.
"""

from __future__ import annotations

import asyncio
import enum
import ssl
from collections import Counter
from typing import Final

from gateway.feed.guesses import Guesses

WAIT_SECONDS: Final = 0.5
"""The wait before the next handshake with an address of which one failed a short time ago."""

_CERTIFICATE_EXPIRED: Final = 10
"""The code of OpenSSL for a certificate that has expired (X509_V_ERR_CERT_HAS_EXPIRED)."""

_WITHOUT_CERTIFICATE: Final = "PEER_DID_NOT_RETURN_A_CERTIFICATE"
_WITHOUT_TLS: Final = frozenset(
    {"HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"}
    | {"RECORD_TOO_SMALL", "UNKNOWN_PROTOCOL", "WRONG_VERSION_NUMBER"}
)
_ALERT: Final = "ALERT"


class Failure(enum.StrEnum):
    """The reasons why a handshake failed."""

    NO_CERTIFICATE = "no_certificate"
    """The client presented no certificate, and has to."""
    EXPIRED = "expired"
    """The certificate of the client has expired."""
    NOT_TRUSTED = "not_trusted"
    """The certificate of the client is not accepted for another reason, such as its authority."""
    NO_TLS = "no_tls"
    """The client sent something else than TLS, such as plain text."""
    NOT_AGREED = "not_agreed"
    """Both sides have no version or cipher in common, or the client broke the protocol."""
    REJECTED = "rejected"
    """The client rejected the certificate of the gateway, or ended the handshake by another alert."""
    LEFT = "left"
    """The client went away, or was too slow."""


_NO_LOGINS: Final = frozenset({Failure.REJECTED, Failure.LEFT})
"""Failures that are no attempt to get in."""


def failure_of(error: Exception) -> tuple[Failure, str]:
    """Return why a handshake failed, and that in words, without anything that the client sent.

    Args:
        error: what `asyncio` raised instead of accepting the connection.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the client's certificate is not accepted: {error.verify_message}"
        expired = error.verify_code == _CERTIFICATE_EXPIRED
        return Failure.EXPIRED if expired else Failure.NOT_TRUSTED, text
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return Failure.LEFT, "the client went away, or was too slow"
    reason = error.reason or ""
    words = reason.lower().replace("_", " ") or "no reason is known"
    if reason == _WITHOUT_CERTIFICATE:
        return Failure.NO_CERTIFICATE, "the client presented no certificate"
    if reason in _WITHOUT_TLS:
        return Failure.NO_TLS, f"the client does not speak TLS: {words}"
    if _ALERT in reason:
        return Failure.REJECTED, f"the client ended the handshake: {words}"
    return Failure.NOT_AGREED, f"the client and the gateway do not agree: {words}"


class Handshakes:
    """The handshakes on one listener.

    Args:
        listener: the listener, for people: the beginning of each reason.
        guesses: counts and reports refused logins; ``None`` where they are counted only.

    Attributes:
        failures: the number of handshakes that failed, by reason.
    """

    def __init__(self, listener: str = "", guesses: Guesses | None = None) -> None:
        self._listener = listener
        self._guesses = guesses
        self.failures: Counter[Failure] = Counter()

    async def turn_of(self, address: str) -> None:
        """Wait until a handshake with an address may begin: at once, unless one failed a short time ago."""
        if self._guesses is not None and self._guesses.has_guessed(address):
            await asyncio.sleep(WAIT_SECONDS)

    def failed(self, address: str, error: Exception) -> str:
        """Count a handshake that failed, and report it if it is a refused login; return why it failed."""
        failure, text = failure_of(error)
        self.failures[failure] += 1
        if self._guesses is not None and failure not in _NO_LOGINS:
            self._guesses.guessed(address, f"{self._listener}: {text}")
        return text
