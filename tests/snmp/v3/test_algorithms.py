"""Keys: the examples of RFC 3414 section A.3 and of the drafts, and those that pysnmp makes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyasn1.type import univ  # type: ignore[import-untyped]
from pysnmp.entity import config
from pysnmp.proto.secmod.rfc3414 import localkey

from gateway.snmp.v3.algorithms import (
    AES192_REEDER,
    AES256_REEDER,
    AUTHENTICATION_PROTOCOLS,
    MD5,
    PRIVACY_PROTOCOLS,
    SHA1,
    AuthenticationProtocol,
    PrivacyProtocol,
    localised_key,
    password_to_key,
    privacy_key,
)

PASSPHRASE = b"maplesyrup"
ENGINE_ID = bytes.fromhex("000000000000000000000002")

PYSNMP_CIPHERS: dict[str, Any] = {
    "des": config.USM_PRIV_CBC56_DES,
    "aes128": config.USM_PRIV_CFB128_AES,
    "aes192": config.USM_PRIV_CFB192_AES_BLUMENTHAL,
    "aes256": config.USM_PRIV_CFB256_AES_BLUMENTHAL,
    "aes192-reeder": config.USM_PRIV_CFB192_AES,
    "aes256-reeder": config.USM_PRIV_CFB256_AES,
}


@pytest.mark.parametrize(
    ("protocol", "key", "localised"),
    [
        (MD5, "9faf3283884e92834ebc9847d8edd963", "526f5eed9fcce26f8964c2930787d82b"),
        (
            SHA1,
            "9fb5cc0381497b3793528939ff788d5d79145211",
            "6695febc9288e36282235fc7151f128497b38f3f",
        ),
    ],
)
def test_keys_of_rfc_3414(protocol: AuthenticationProtocol, key: str, localised: str) -> None:
    assert password_to_key(PASSPHRASE, protocol).hex() == key
    assert localised_key(bytes.fromhex(key), ENGINE_ID, protocol).hex() == localised


@pytest.mark.parametrize(
    ("protocol", "key"),
    [
        (MD5, "526f5eed9fcce26f8964c2930787d82b79eff44a90650ee0a3a40abfac5acc12"),
        (SHA1, "6695febc9288e36282235fc7151f128497b38f3f9b8b6d78936ba6e7d19dfd9c"),
    ],
)
def test_keys_of_the_draft_of_reeder(protocol: AuthenticationProtocol, key: str) -> None:
    made = privacy_key(password_to_key(PASSPHRASE, protocol), ENGINE_ID, protocol, AES256_REEDER)
    assert made.hex() == key
    shorter = privacy_key(password_to_key(PASSPHRASE, protocol), ENGINE_ID, protocol, AES192_REEDER)
    assert shorter == made[:24]


@pytest.mark.parametrize("protocol", AUTHENTICATION_PROTOCOLS.values(), ids=lambda each: each.name)
@pytest.mark.parametrize("privacy", PRIVACY_PROTOCOLS.values(), ids=lambda each: each.name)
def test_keys_are_those_of_pysnmp(protocol: AuthenticationProtocol, privacy: PrivacyProtocol) -> None:
    oid, theirs = protocol.oid, config.PRIV_SERVICES[PYSNMP_CIPHERS[privacy.name]]
    key = theirs.hash_passphrase(oid, univ.OctetString(PASSPHRASE))
    assert password_to_key(PASSPHRASE, protocol) == bytes(key)
    made = privacy_key(bytes(key), ENGINE_ID, protocol, privacy)
    assert made == bytes(theirs.localize_key(oid, key, univ.OctetString(ENGINE_ID)))[: privacy.key_size]
    assert len(made) == privacy.key_size


@given(st.binary(min_size=8, max_size=64), st.binary(min_size=5, max_size=32))
def test_localisation_of_any_key_is_that_of_pysnmp(key: bytes, engine_id: bytes) -> None:
    theirs = univ.OctetString(key), univ.OctetString(engine_id)
    assert localised_key(key, engine_id, MD5) == bytes(localkey.localize_key_md5(*theirs))
    assert localised_key(key, engine_id, SHA1) == bytes(localkey.localize_key_sha(*theirs))


def test_a_passphrase_has_eight_octets_or_more() -> None:
    with pytest.raises(ValueError, match="at least 8 bytes, not 7; take a longer one"):
        password_to_key(b"1234567", MD5)
    assert len(password_to_key(b"12345678", MD5)) == 16


def test_names_and_identifiers_are_distinct_and_two_are_weak() -> None:
    named = {**AUTHENTICATION_PROTOCOLS, **PRIVACY_PROTOCOLS}
    oids = [each.oid for each in AUTHENTICATION_PROTOCOLS.values()]
    oids += [each.oid for each in PRIVACY_PROTOCOLS.values()]
    assert len(named) == len(set(oids)) == 12
    weak = [each.name for each in AUTHENTICATION_PROTOCOLS.values() if each.is_weak]
    assert weak + [each.name for each in PRIVACY_PROTOCOLS.values() if each.is_weak] == ["md5", "des"]
