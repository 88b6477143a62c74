"""TLS of connections that the gateway opens, and of those that it accepts.

Of a connection that it opens, the peer's certificate and its name are always verified; nothing switches that
off.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final


class TlsFileError(Exception):
    """A file of TLS cannot be used; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """The files of TLS of a connection that the gateway opens, in PEM.

    Attributes:
        ca_file: certificates to verify the peer's with; the system's if none is given.
        certificate: the certificate that the gateway presents, followed by the intermediate ones; if any.
        key: its private key, without a passphrase; given if, and only if, there is a certificate.
    """

    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Read the files, and return the settings of TLS.

        Raises:
            TlsFileError: a file cannot be read, or is not what it should be.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise TlsFileError(f"'ca_file' {self.ca_file} cannot be used: {_reason(error)}") from error
        if self.certificate is not None:
            try:
                # An empty passphrase: an encrypted key is an error, and asks for nothing at a terminal.
                context.load_cert_chain(self.certificate, self.key, password="")
            except OSError as error:
                text = (
                    f"'client_certificate' {self.certificate} with 'client_key' {self.key} cannot be used: "
                    f"{_reason(error)}"
                )
                raise TlsFileError(text) from error
        return context


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The files of TLS of a listener, in PEM.

    Attributes:
        certificate: its certificate, and those between it and the root.
        key: its private key, without a passphrase.
        client_ca: the authorities of required client certificates; ``None`` accepts clients without one.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Read the files, and return the settings of TLS.

        Raises:
            TlsFileError: a file cannot be read, or is not what it should be.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.key, password="")
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:  # ssl.SSLError is one
            files = ", ".join(str(path) for path in (self.certificate, self.key, self.client_ca) if path)
            raise TlsFileError(f"certificates for TLS cannot be used ({files}): {_reason(error)}") from error
        return context


NO_CERTIFICATE: Final = "set 'client_certificate' and 'client_key', of an authority that it trusts"
"""What to do where the peer demands a certificate."""

SYSTEM_AUTHORITIES: Final = ClientTls()
"""Trusts what the system trusts, and presents no certificate."""


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return error.strerror or str(error)
