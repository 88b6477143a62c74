"""Certificates for TLS that are made for one test: an authority, and the certificates that it signs."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The PEM files of one certificate."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority; the certificates that it signs are valid for two days by default."""

    folder: Path
    own: Certificate

    @classmethod
    def make(cls, folder: Path, name: str = "Test authority") -> Authority:
        """Create an authority, with its files in ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        own = Certificate(folder / "ca.pem", folder / "ca-key.pem")
        named = ("-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign")  # newer Pythons insist
        _openssl("req", "-x509", *_NEW_KEY, "-keyout", own.key, "-out", own.certificate, *named)
        return cls(folder, own)

    def confirm(self, name: str, address: str = "127.0.0.1", days: int = 2) -> Certificate:
        """Return a new certificate for a server or client of this name at this address."""
        made = Certificate(self.folder / f"{name}.pem", self.folder / f"{name}-key.pem")
        request = self.folder / f"{name}.csr"
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(
            f"subjectAltName=IP:{address}\nauthorityKeyIdentifier=keyid\n", encoding="ascii"
        )
        _openssl("req", *_NEW_KEY, "-keyout", made.key, "-out", request, "-subj", f"/CN={name}")
        signing = ("-CA", self.own.certificate, "-CAkey", self.own.key, "-CAcreateserial", "-days", str(days))
        _openssl("x509", "-req", "-in", request, "-out", made.certificate, "-extfile", extensions, *signing)
        return made

    def confirm_subject(
        self, subject: x509.Name, file: str, lasts: dt.timedelta = dt.timedelta(days=2)
    ) -> Certificate:
        """Return a new certificate of a client of this subject, whatever it is, in files of this name."""
        made = Certificate(self.folder / f"{file}.pem", self.folder / f"{file}-key.pem")
        issuer = x509.load_pem_x509_certificate(self.own.certificate.read_bytes())
        signing = load_pem_private_key(self.own.key.read_bytes(), None)
        assert isinstance(signing, ec.EllipticCurvePrivateKey)
        key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
        builder = x509.CertificateBuilder(issuer.subject, subject, key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - dt.timedelta(hours=1))
        certificate = builder.not_valid_after(now + lasts).sign(signing, SHA256())
        made.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        made.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return made


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*arguments: str | Path) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise AssertionError("openssl is not installed")
    subprocess.run([program, *arguments], check=True, capture_output=True)  # noqa: S603  found just before
