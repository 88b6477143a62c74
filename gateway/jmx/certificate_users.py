"""Users of the JMX agent who log in by a client certificate.

TLS has verified the certificate, and that the client holds its key. It is that of the user whose configured
subject is its subject (RFC 5280 section 4.1.2.6): the same attributes with the same values, character by
character, in the same relative distinguished names and their order. Neither a part of a name is compared,
nor how a value is encoded (RFC 5280 section 4.1.2.4 has several kinds of strings), nor the alternative names.

Import this module only where a user has a certificate: the cryptographic library takes 6 MB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from gateway.jmx.users import Holder, SubjectError

_FURTHER_NAMES: Final = {"emailAddress": NameOID.EMAIL_ADDRESS, "serialNumber": NameOID.SERIAL_NUMBER}
"""Attributes as OpenSSL writes them, beside those of RFC 4514 section 3."""

_MAX_SHOWN: Final = 200
_ADVICE: Final = (
    "write it as `openssl x509 -in FILE -noout -subject -nameopt RFC2253` shows it, such as"
    " CN=monitor,O=Example; another attribute than CN, O, OU, L, ST, C, STREET, DC, UID, emailAddress and"
    " serialNumber by its object identifier"
)


class CertificateUsers:
    """The users who have a certificate.

    Args:
        subjects: the subject of each user's certificate (RFC 4514).

    Raises:
        SubjectError: a subject cannot be read, or is that of two users.
    """

    def __init__(self, subjects: Mapping[str, str]) -> None:
        self._users: dict[x509.Name, str] = {}
        for user, text in subjects.items():
            subject = _parsed(user, text)
            other = self._users.setdefault(subject, user)
            if other != user:
                raise SubjectError(
                    f"jmx.users.{user}.subject: is that of the user {other}, too: a certificate is one user's"
                )

    def identify(self, certificate: bytes) -> Holder:
        """Return the holder of a certificate (DER) that TLS has verified.

        One that cannot be read, or whose subject is empty, is no user's.
        """
        try:
            subject = x509.load_der_x509_certificate(certificate).subject
            shown = subject.rfc4514_string()
        except (ValueError, TypeError, x509.InvalidVersion):
            return Holder("(cannot be read)")
        if len(shown) > _MAX_SHOWN:
            shown = f"{shown[:_MAX_SHOWN]}..."
        return Holder(shown or "(empty)", self._users.get(subject))


def _parsed(user: str, text: str) -> x509.Name:
    try:
        # The library takes the octets of a value in hexadecimal form (RFC 4514 section 2.4) for its text.
        name = None if "=#" in text else x509.Name.from_rfc4514_string(text, _FURTHER_NAMES)
    except (ValueError, TypeError):
        name = None
    if not name:
        raise SubjectError(f"jmx.users.{user}.subject: is no distinguished name of RFC 4514: {_ADVICE}")
    return name
