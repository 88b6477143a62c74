"""TLS of the virtual machine: what is passed to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.jmx.java_runtime import JmxError


class TlsError(JmxError):
    """A file of TLS cannot be used; the text says which, why, and what to do."""


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """The contents of the files, in DER.

    Attributes:
        algorithm: the kind of the key, as Java's ``KeyFactory`` names it.
        key: the private key, in PKCS#8 (RFC 5958).
        chain: the gateway's certificate, and those between it and the root.
        authorities: the authorities of required client certificates; empty where none is required.
    """

    algorithm: str
    key: bytes = field(repr=False)
    chain: tuple[bytes, ...]
    authorities: tuple[bytes, ...] = ()
