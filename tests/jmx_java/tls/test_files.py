"""The files of TLS: which keys and certificates are taken, and what is said about others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from gateway.jmx.pem_files import read_tls
from gateway.jmx.tls import TlsError
from gateway.links.tls import ServerTls
from tests.components.certificates import Authority, Certificate
from tests.jmx_java.tls.conftest import secured

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
KEYS: dict[str, Callable[[], Key]] = {
    "RSA": lambda: rsa.generate_private_key(65_537, 2048),
    "EC": lambda: ec.generate_private_key(ec.SECP384R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


def signed_by_itself(key: Key) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gateway")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    return builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())


def write_key(
    path: Path,
    key: Key | dsa.DSAPrivateKey | ed448.Ed448PrivateKey,
    form: PrivateFormat = PrivateFormat.PKCS8,
    encryption: KeySerializationEncryption | None = None,
) -> Path:
    path.write_bytes(key.private_bytes(Encoding.PEM, form, encryption or NoEncryption()))
    return path


@pytest.mark.parametrize("kind", KEYS)
async def test_each_kind_of_key_is_used(kind: str, tmp_path: Path) -> None:
    key = KEYS[kind]()
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(signed_by_itself(key).public_bytes(Encoding.PEM))
    files = ServerTls(certificate, write_key(tmp_path / "key.pem", key))
    assert read_tls(files).algorithm == kind
    async with secured(files) as machine:
        assert machine.port


def test_a_key_in_the_form_of_openssl_is_read_too(tmp_path: Path) -> None:
    key = KEYS["EC"]()
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(signed_by_itself(key).public_bytes(Encoding.PEM))
    old = write_key(tmp_path / "old.pem", key, PrivateFormat.TraditionalOpenSSL)
    new = write_key(tmp_path / "new.pem", key)
    assert read_tls(ServerTls(certificate, old)) == read_tls(ServerTls(certificate, new))


def test_a_chain_and_authorities_keep_their_order(certificate: Certificate, authority: Authority) -> None:
    chain = certificate.certificate.with_name("chain.pem")
    ca = authority.own.certificate
    chain.write_bytes(certificate.certificate.read_bytes() + ca.read_bytes())
    read = read_tls(ServerTls(chain, certificate.key, ca))
    assert len(read.chain) == 2
    assert read.chain[1:] == read.authorities


def test_no_key_is_in_what_is_printed(certificate: Certificate) -> None:
    assert "key=" not in repr(read_tls(ServerTls(certificate.certificate, certificate.key)))


def complaint(files: ServerTls) -> str:
    with pytest.raises(TlsError) as raised:
        read_tls(files)
    return str(raised.value)


def test_the_key_of_another_certificate(certificate: Certificate, authority: Authority) -> None:
    text = complaint(ServerTls(certificate.certificate, authority.own.key))
    assert f"{authority.own.key}: this is not the key of the certificate in {certificate.certificate}" in text


def test_files_that_are_missing_or_too_large(certificate: Certificate, tmp_path: Path) -> None:
    nowhere, large = tmp_path / "nowhere", tmp_path / "large"
    large.write_bytes(bytes(300_000))
    assert complaint(ServerTls(nowhere, certificate.key)) == (
        f"{nowhere}: cannot be read: No such file or directory"
    )
    assert "has more than 262144 bytes" in complaint(ServerTls(certificate.certificate, large))


def test_files_that_are_confused(certificate: Certificate) -> None:
    swapped = complaint(ServerTls(certificate.key, certificate.certificate))
    assert "there is no certificate in PEM in it, which jmx.tls.certificate must name" in swapped
    both = ServerTls(certificate.certificate, certificate.certificate)
    assert "there is no private key in PEM in it, which jmx.tls.key must name" in complaint(both)
    authorities = ServerTls(certificate.certificate, certificate.key, certificate.key)
    assert "which jmx.tls.client_ca must name" in complaint(authorities)


@pytest.mark.parametrize(
    "key",
    [
        rsa.generate_private_key(65_537, 1024),  # noqa: S505  refused
        ec.generate_private_key(ec.SECP256K1()),
        ed448.Ed448PrivateKey.generate(),
    ],
)
def test_keys_of_other_kinds(certificate: Certificate, tmp_path: Path, key: Key) -> None:
    path = write_key(tmp_path / "key.pem", key)
    assert "take one of RSA of 2048 bits or more, EC on P-256, P-384 or P-521, or Ed25519" in complaint(
        ServerTls(certificate.certificate, path)
    )


def test_a_key_with_a_passphrase(certificate: Certificate, tmp_path: Path) -> None:
    path = write_key(tmp_path / "key.pem", KEYS["EC"](), encryption=BestAvailableEncryption(b"secret"))
    assert "the key has a passphrase" in complaint(ServerTls(certificate.certificate, path))


@given(before=st.binary(max_size=50), after=st.binary(max_size=50), cut=st.integers(0, 2000))
def test_any_octets_give_material_or_one_error(
    certificate: Certificate, tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("octets")
    broken = folder / "broken.pem"
    octets = certificate.certificate.read_bytes()
    broken.write_bytes(octets[:cut] + before + octets[cut:] + after)
    key = folder / "key.pem"
    octets = certificate.key.read_bytes()
    key.write_bytes(octets[:cut] + before + octets[cut:] + after)
    for files in (ServerTls(broken, certificate.key), ServerTls(certificate.certificate, key, broken)):
        try:
            assert read_tls(files).algorithm == "EC"
        except TlsError:
            continue
