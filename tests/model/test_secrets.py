"""Secrets inside texts are masked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.secrets import SecretRules, mask_uris


@pytest.mark.parametrize(
    ("reported", "shown"),
    [
        ("amqp://user:hush@host/shop", "amqp://***@host/shop"),
        (
            "amqps://host/shop?keyfile=/key.pem&password=hush",
            "amqps://host/shop?keyfile=/key.pem&password=***",
        ),
        ("amqps://u:hush@host?password=hu;sh#&depth=3", "amqps://***@host?password=***&depth=3"),
        ("see amqps://host?depth=1;password=hush for more", "see amqps://host?depth=1;password=*** for more"),
        ("https://host/?auth_token=hush", "https://host/?auth_token=***"),
    ],
)
def test_secrets_of_uris_are_masked(reported: str, shown: str) -> None:
    assert mask_uris(reported) == shown
    assert SecretRules().shows_mask(shown)
    assert not SecretRules().shows_mask(reported)


@pytest.mark.parametrize(
    "text", ["amqp://", "amqps://host?verify=verify_none&depth=3", "x?password=1", "a***b"]
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask_uris(text) == text
    assert not SecretRules().shows_mask(text)


def test_names_of_ones_own_are_secret_in_queries_too() -> None:
    assert SecretRules(["^sas$"]).masked_uris("https://host/?sas=hush") == "https://host/?sas=***"


@given(st.text(alphabet="a?&;=#@:/ *pasword", max_size=60))
def test_what_is_masked_once_stays_so(text: str) -> None:
    masked = mask_uris(text)
    assert mask_uris(masked) == masked
