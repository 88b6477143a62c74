"""Codes and ciphers: the published examples, and the library's contexts that are made for each message."""

from __future__ import annotations

import hmac

import pytest
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from hypothesis import given
from hypothesis import strategies as st
from pyasn1.type import univ  # type: ignore[import-untyped]
from pysnmp.proto.secmod.rfc3414.priv import des

from gateway.snmp.v3.algorithms import (
    AUTHENTICATION_PROTOCOLS,
    DES,
    PRIVACY_PROTOCOLS,
    AuthenticationProtocol,
    PrivacyProtocol,
)
from gateway.snmp.v3.ciphers import AesCfb, Authenticator, DecryptionError, Salts, cipher_of

# NIST SP 800-38A section F.3.13 to F.3.17: the vector is boots, time and salt, one after the other.
BOOTS, TIME, SALT = 0x00010203, 0x04050607, 0x08090A0B0C0D0E0F
PLAIN = bytes.fromhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51")

COUNTS = st.integers(0, 2**31 - 1)


@pytest.mark.parametrize(
    ("key", "encrypted"),
    [
        (
            "2b7e151628aed2a6abf7158809cf4f3c",
            "3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b",
        ),
        ("8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b", "cdc80d6fddf18cab34c25909c99a4174"),
        (
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "dc7e84bfda79164b7ecd8486985d3860",
        ),
    ],
)
def test_aes_in_cfb_mode_is_that_of_nist(key: str, encrypted: str) -> None:
    cipher = AesCfb(bytes.fromhex(key), Salts(SALT - 1))
    expected = bytes.fromhex(encrypted)
    got, salt = cipher.encrypt(PLAIN[: len(expected)], BOOTS, TIME)
    assert (got, salt) == (expected, SALT.to_bytes(8, "big"))
    assert cipher.decrypt(expected, BOOTS, TIME, salt) == PLAIN[: len(expected)]


@given(st.binary(min_size=16, max_size=16), st.lists(st.tuples(st.binary(max_size=200), COUNTS, COUNTS)))
def test_one_context_encrypts_as_a_new_one_for_each_message(
    key: bytes, messages: list[tuple[bytes, int, int]]
) -> None:
    cipher = AesCfb(key, Salts(5))
    for plain, boots, time in messages:
        encrypted, salt = cipher.encrypt(plain, boots, time)
        vector = boots.to_bytes(4, "big") + time.to_bytes(4, "big") + salt
        assert encrypted == Cipher(algorithms.AES(key), CFB(vector)).encryptor().update(plain)


@pytest.mark.parametrize("protocol", PRIVACY_PROTOCOLS.values(), ids=lambda each: each.name)
@given(data=st.data())
def test_what_is_encrypted_is_decrypted(protocol: PrivacyProtocol, data: st.DataObject) -> None:
    key = data.draw(st.binary(min_size=protocol.key_size, max_size=protocol.key_size))
    ours, theirs = cipher_of(protocol, key, Salts(3)), cipher_of(protocol, key, Salts(4))
    for plain in data.draw(st.lists(st.binary(max_size=100), max_size=4)):
        boots, time = data.draw(COUNTS), data.draw(COUNTS)
        encrypted, salt = ours.encrypt(plain, boots, time)
        got = theirs.decrypt(encrypted, boots, time, salt)
        assert got[: len(plain)] == plain
        assert len(got) - len(plain) < 8
        if protocol is not DES:
            assert len(got) == len(plain)


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=1, max_size=100), COUNTS)
def test_pysnmp_decrypts_des(key: bytes, plain: bytes, boots: int) -> None:
    encrypted, salt = cipher_of(DES, key, Salts(2**40)).encrypt(plain, boots, 1)
    got = des.Des().decrypt_data(
        univ.OctetString(key), (boots, 1, univ.OctetString(salt)), univ.OctetString(encrypted)
    )
    assert bytes(got)[: len(plain)] == plain


@given(st.binary(max_size=40), st.binary(max_size=12))
def test_any_octets_are_decrypted_or_refused(encrypted: bytes, salt: bytes) -> None:
    for protocol in PRIVACY_PROTOCOLS.values():
        cipher = cipher_of(protocol, bytes(protocol.key_size), Salts(0))
        try:
            assert len(cipher.decrypt(encrypted, 1, 2, salt)) == len(encrypted)
        except DecryptionError:
            assert len(salt) != 8 or len(encrypted) % 8


def test_no_salt_comes_again() -> None:
    salts = Salts(2**64 - 3)
    users = [cipher_of(PRIVACY_PROTOCOLS["aes128"], bytes(16), salts) for _ in range(2)]
    made = [users[place % 2].encrypt(b"the same", 1, 1)[1] for place in range(6)]
    assert len(set(made)) == 6
    assert bytes(8) in made  # after the largest one comes 0
    des_salts = [cipher_of(DES, bytes(16), salts).encrypt(b"x", 7, 1)[1] for _ in range(3)]
    assert len(set(des_salts)) == 3
    assert all(salt[:4] == b"\0\0\0\x07" for salt in des_salts)


@pytest.mark.parametrize("protocol", AUTHENTICATION_PROTOCOLS.values(), ids=lambda each: each.name)
def test_codes_are_the_first_octets_of_an_hmac(protocol: AuthenticationProtocol) -> None:
    key = bytes(range(protocol.key_size))
    authenticator = Authenticator(protocol, key)
    for text in (b"", b"what is sent", b"x" * 1000):
        expected = hmac.new(key, text, protocol.hash_name).digest()[: protocol.mac_size]
        assert authenticator.mac(text) == expected
    assert len(authenticator.blank) == protocol.mac_size
