"""Users: what they can do, what they must have, and that their keys are not shown."""

from __future__ import annotations

import pytest

from gateway.snmp.v3.algorithms import AES128, AES256, SHA256, password_to_key, privacy_key
from gateway.snmp.v3.users import Credentials, SecurityLevel, User, credentials
from tests.snmp.v3.secured_agent import AUTH, ENGINE_ID, GUEST, NO_AUTH, OPERATOR, PRIV, WATCHER

KEY = bytes(32)


def test_levels_follow_from_the_protocols() -> None:
    assert [(user.highest_level, user.minimum_level) for user in (OPERATOR, WATCHER, GUEST)] == [
        (PRIV, PRIV),
        (AUTH, AUTH),
        (NO_AUTH, NO_AUTH),
    ]
    lowered = User("x", SHA256, KEY, AES128, KEY[:16], minimum=NO_AUTH)
    assert (lowered.highest_level, lowered.minimum_level) == (PRIV, NO_AUTH)


def test_no_key_is_shown() -> None:
    secret = credentials("operator", SHA256, "authpassphrase", AES128, "privpassphrase")
    user = secret.at(ENGINE_ID)
    shown = f"{user!r} {user} {secret!r} {secret}"
    for key in (
        user.authentication_key,
        user.privacy_key,
        secret.authentication_ku,
        secret.privacy_ku,
        b"passphrase",
    ):
        assert repr(key)[2:-1] not in shown
        assert key.hex() not in shown


def test_credentials_make_the_keys_of_an_engine() -> None:
    secret = credentials("operator", SHA256, "authpassphrase", AES256, "privpassphrase")
    assert secret.privacy_ku == password_to_key(b"privpassphrase", SHA256)
    here, there = secret.at(ENGINE_ID), secret.at(b"another engine")
    assert here.privacy_key == privacy_key(secret.privacy_ku, ENGINE_ID, SHA256, AES256)
    assert here.authentication_key != there.authentication_key
    assert Credentials("guest").at(ENGINE_ID, NO_AUTH) == User("guest", minimum=NO_AUTH)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"name": ""}, "has 1 to 32 bytes"),
        ({"name": "é" * 17}, "has 1 to 32 bytes"),
        ({"minimum": NO_AUTH, "privacy": AES128, "privacy_key": KEY[:16]}, "privacy needs authentication"),
        ({"authentication": SHA256, "authentication_key": KEY[:31]}, "keys have 32 and 0 bytes"),
        ({"authentication": SHA256, "authentication_key": KEY, "privacy": AES128}, "32 and 16 bytes"),
        ({"minimum": NO_AUTH, "privacy_key": KEY}, "keys have 0 and 0 bytes"),
        ({}, "has no authentication, which has to be permitted explicitly"),
        ({"minimum": AUTH}, "cannot reach the level AUTH_NO_PRIV"),
        (
            {"authentication": SHA256, "authentication_key": KEY, "minimum": PRIV},
            "cannot reach the level AUTH_PRIV",
        ),
    ],
)
def test_users_that_cannot_be(arguments: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        User(**{"name": "x", **arguments})  # type: ignore[arg-type]  # as of a configuration


def test_a_short_passphrase_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 8 bytes"):
        credentials("operator", SHA256, "authpassphrase", AES128, "short")


def test_levels_are_in_order() -> None:
    assert sorted(SecurityLevel) == [NO_AUTH, AUTH, PRIV]
