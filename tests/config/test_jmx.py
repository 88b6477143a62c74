"""The configuration of JMX: where it may listen in plain text."""

from __future__ import annotations

import pytest

from tests.config.sample import complaints

TLS = "tls: {certificate: gateway.pem, key: gateway-key.pem}"
BEYOND = (
    "2: jmx: 'listen' is beyond this machine, where passwords and values could be read by others: write "
    "'tls: {certificate: PATH, key: PATH}', or 'allow_plain_text: true' where the network is protected "
    "otherwise"
)


def reported(settings: str) -> list[str]:
    return complaints(f"version: 1\njmx: {{{settings}}}\n")


@pytest.mark.parametrize(
    "settings",
    [
        "enabled: true",
        "enabled: true, listen: '[::1]:9990'",
        "enabled: true, listen: '127.0.0.2:9990'",
        f"enabled: true, listen: '0.0.0.0:9990', {TLS}",
        "enabled: true, listen: '0.0.0.0:9990', tls: {certificate: a, key: b, client_ca: c}",
        "enabled: true, listen: '10.0.0.1:9990', allow_plain_text: true",
        "listen: '10.0.0.1:9990'",
    ],
)
def test_what_can_be_said(settings: str) -> None:
    assert reported(settings) == []


@pytest.mark.parametrize("address", ["0.0.0.0:9990", "[::]:9990", "192.0.2.1:9990"])
def test_plain_text_beyond_this_machine_is_said_twice(address: str) -> None:
    assert reported(f"enabled: true, listen: '{address}'") == [BEYOND]


def test_a_key_belongs_to_a_certificate() -> None:
    assert reported("tls: {certificate: gateway.pem}") == ["2: jmx.tls.key: is required"]
