"""The key and certificates of TLS: read from PEM files, checked, and converted to DER.

Import this module only where TLS is configured: the cryptographic library takes 6 MB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from gateway.file_owners import opened
from gateway.jmx.tls import TlsError, TlsMaterial
from gateway.links.tls import ServerTls

MAX_OCTETS: Final = 256 << 10
"""The maximum size of a file; the virtual machine takes 1 MiB of settings."""

MIN_RSA_BITS: Final = 2048
"""The shortest RSA key that OpenSSL accepts by default, with which many clients are made."""

_CURVES: Final = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_KINDS: Final = "RSA of 2048 bits or more, EC on P-256, P-384 or P-521, or Ed25519"


@dataclass(frozen=True, slots=True)
class PemFiles:
    """The contents of the files, as they were read."""

    certificate: bytes
    key: bytes = field(repr=False)
    client_ca: bytes | None


def read_tls(files: ServerTls) -> TlsMaterial:
    """Read and check the files.

    Raises:
        TlsError: one cannot be read, is not what it should be, or the key is not the certificate's.
    """
    return check_pem(files, read_pem(files))


def read_pem(files: ServerTls) -> PemFiles:
    """Read the files, whatever is in them.

    Raises:
        TlsError: one cannot be read, or is too large.
    """
    client_ca = None if files.client_ca is None else _octets(files.client_ca)
    return PemFiles(_octets(files.certificate), _octets(files.key), client_ca)


def check_pem(files: ServerTls, contents: PemFiles) -> TlsMaterial:
    """Check what was read of the files, and convert it.

    Raises:
        TlsError: one is not what it should be, or the key is not the certificate's.
    """
    chain = _certificates(contents.certificate, files.certificate, "jmx.tls.certificate")
    key = _private_key(contents.key, files.key)
    algorithm = _algorithm(key, files.key)
    if _public_key(chain[0], files.certificate) != _public_form(key):
        raise _refused(
            files.key,
            f"this is not the key of the certificate in {files.certificate}: name the key with which it was "
            "requested, and a file whose first certificate is the gateway's",
        )
    authorities = (
        []
        if files.client_ca is None or contents.client_ca is None
        else _certificates(contents.client_ca, files.client_ca, "jmx.tls.client_ca")
    )
    return TlsMaterial(
        algorithm,
        key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        tuple(each.public_bytes(Encoding.DER) for each in chain),
        tuple(each.public_bytes(Encoding.DER) for each in authorities),
    )


def _certificates(octets: bytes, path: Path, setting: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(octets)
    except ValueError as error:
        raise _refused(path, f"there is no certificate in PEM in it, which {setting} must name") from error


def _private_key(octets: bytes, path: Path) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(octets, password=None)
    except TypeError as error:
        raise _refused(
            path, "the key has a passphrase, which a service cannot be asked for: name a file without one"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _refused(path, "there is no private key in PEM in it, which jmx.tls.key must name") from error


def _algorithm(key: PrivateKeyTypes, path: Path) -> str:
    match key:
        case rsa.RSAPrivateKey(key_size=bits) if bits >= MIN_RSA_BITS:
            return "RSA"
        case ec.EllipticCurvePrivateKey(curve=curve) if isinstance(curve, _CURVES):
            return "EC"
        case ed25519.Ed25519PrivateKey():
            return "Ed25519"
    raise _refused(path, f"a key of this kind or size is not used for TLS: take one of {_KINDS}")


def _public_key(certificate: x509.Certificate, path: Path) -> bytes:
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _refused(
            path, f"its certificate has a key of a kind that is not used for TLS: take one of {_KINDS}"
        ) from error
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _public_form(key: PrivateKeyTypes) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _octets(path: Path) -> bytes:
    try:
        with opened(path) as file:
            octets = file.read(MAX_OCTETS + 1)
    except OSError as error:
        raise TlsError(f"{path}: cannot be read: {error.strerror}") from error
    if len(octets) > MAX_OCTETS:
        raise _refused(path, f"has more than {MAX_OCTETS} bytes: name a file with only what is needed")
    return octets


def _refused(path: Path, reason: str) -> TlsError:
    return TlsError(f"{path}: {reason}")
