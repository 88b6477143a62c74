"""Whose certificate it is: names that are equal as a whole, and all that are only similar."""

from __future__ import annotations

import contextlib
import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Name, NameAttribute, ObjectIdentifier, RelativeDistinguishedName
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from gateway.jmx.certificate_users import CertificateUsers
from gateway.jmx.users import Holder, SubjectError

KEY = ed25519.Ed25519PrivateKey.generate()
COMMON, ORGANIZATION = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME
USERS = CertificateUsers(
    {
        "keeper": "CN=keeper,O=Example",
        "guard": "CN=guard+O=Example\\, Inc.",
        "zoë": "emailAddress=zoe@example.org,CN=Zo\\C3\\AB",
        "serial": "2.5.4.5=7",
    }
)


def certificate(subject: Name) -> bytes:
    """Return a certificate of this subject, in DER."""
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder(subject, subject, KEY.public_key(), 1, now, now + dt.timedelta(days=1))
    return builder.sign(KEY, None).public_bytes(Encoding.DER)


def named(*attributes: tuple[ObjectIdentifier, str]) -> Name:
    """Return a name of attributes in the order of a certificate, which RFC 4514 reverses."""
    return Name([NameAttribute(oid, value) for oid, value in attributes])


def test_a_subject_is_written_from_its_last_part_as_openssl_shows_it() -> None:
    subject = named((ORGANIZATION, "Example"), (COMMON, "keeper"))
    assert USERS.identify(certificate(subject)) == Holder("CN=keeper,O=Example", "keeper")


def test_the_order_within_a_part_and_the_kinds_of_strings_make_no_difference() -> None:
    both = (NameAttribute(ORGANIZATION, "Example, Inc."), NameAttribute(COMMON, "guard"))
    for attributes in (both, both[::-1]):
        subject = Name([RelativeDistinguishedName(attributes)])
        assert USERS.identify(certificate(subject)).user == "guard"
    for kind in (_ASN1Type.PrintableString, _ASN1Type.UTF8String, _ASN1Type.BMPString):
        subject = Name([NameAttribute(ORGANIZATION, "Example", kind), NameAttribute(COMMON, "keeper", kind)])
        assert USERS.identify(certificate(subject)).user == "keeper"


def test_values_beyond_ascii_and_other_attributes() -> None:
    subject = named((COMMON, "Zoë"), (NameOID.EMAIL_ADDRESS, "zoe@example.org"))
    assert USERS.identify(certificate(subject)).user == "zoë"
    assert USERS.identify(certificate(named((NameOID.SERIAL_NUMBER, "7")))).user == "serial"


@pytest.mark.parametrize(
    "subject",
    [
        named((COMMON, "keeper")),
        named((COMMON, "keeper"), (ORGANIZATION, "Example")),
        named((ORGANIZATION, "Example"), (COMMON, "keeper"), (COMMON, "keeper")),
        named((ORGANIZATION, "Example"), (ORGANIZATION, "Example"), (COMMON, "keeper")),
        named((ORGANIZATION, "Example"), (COMMON, "the keeper")),
        named((ORGANIZATION, "Example"), (COMMON, "keeper ")),
        named((ORGANIZATION, "Example"), (COMMON, "KEEPER")),
        named((ORGANIZATION, "Example"), (COMMON, "\uff4beeper")),
        named((ORGANIZATION, "Example"), (COMMON, "keeper\0")),
        named((ORGANIZATION, "Example\0"), (COMMON, "keeper")),
        named((COMMON, "keeper,O=Example")),
        named((ORGANIZATION, "keeper"), (COMMON, "Example")),
        Name(
            [
                RelativeDistinguishedName(
                    [NameAttribute(COMMON, "keeper"), NameAttribute(ORGANIZATION, "Example")]
                )
            ]
        ),
        named(),
    ],
)
def test_a_similar_name_is_no_users(subject: Name) -> None:
    assert USERS.identify(certificate(subject)).user is None


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
OIDS = st.sampled_from([ORGANIZATION, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.USER_ID])
RDNS = st.sets(st.tuples(OIDS, TEXTS), min_size=1, max_size=2).map(
    lambda attributes: RelativeDistinguishedName(NameAttribute(oid, text) for oid, text in attributes)
)
NAMES = st.lists(RDNS, min_size=1, max_size=3).map(Name)


@given(NAMES, NAMES)
def test_a_certificate_is_of_the_one_name_that_its_subject_is(subject: Name, other: Name) -> None:
    text = subject.rfc4514_string()
    users = CertificateUsers({"monitor": text})
    assert users.identify(certificate(subject)).user == "monitor"
    assert users.identify(certificate(other)).user == ("monitor" if other == subject else None)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_any_octets_are_of_some_user_or_of_none(octets: bytes, cut: int) -> None:
    whole = certificate(named((ORGANIZATION, "Example"), (COMMON, "keeper")))
    for broken in (octets, whole[:cut] + octets + whole[cut:], whole[:cut] + octets):
        assert USERS.identify(broken).user in {None, "keeper"}


def test_a_long_subject_is_shown_in_part() -> None:
    subject = named(*((ORGANIZATION, "x" * 60) for _ in range(10)))
    holder = USERS.identify(certificate(subject))
    assert (len(holder.subject), holder.subject[-3:]) == (203, "...")


@pytest.mark.parametrize(
    "text",
    [
        "keeper",
        "CN=",
        "CN=keeper, O=Example",
        "CN = keeper",
        "/CN=keeper",
        "cn=keeper",
        "CN=keeper,",
        "CN=keeper;O=Example",
        "CN=#0c066b6565706572",
        "CN=\\zz",
        "CN=\\C3",
        f"CN={'x' * 65}",
        "CN=a+CN=a",
        "=",
        "gateway.pem",
    ],
)
def test_a_subject_that_is_no_name_is_an_error(text: str) -> None:
    with pytest.raises(SubjectError, match=r"jmx\.users\.monitor\.subject: .* -nameopt RFC2253"):
        CertificateUsers({"monitor": text})


def test_two_users_cannot_have_one_certificate() -> None:
    with pytest.raises(SubjectError, match=r"jmx\.users\.b\.subject: is that of the user a, too"):
        CertificateUsers({"a": "CN=one", "b": "CN=one"})


@given(st.text(max_size=30) | st.text('CNO=,+\\#" 0a', max_size=30))
def test_any_text_is_a_name_or_an_error(text: str) -> None:
    with contextlib.suppress(SubjectError):
        CertificateUsers({"monitor": text})
