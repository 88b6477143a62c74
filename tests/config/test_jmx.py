"""The configuration of JMX: where it may listen in plain text."""

from __future__ import annotations

import pytest

from tests.config.sample import complaints

TLS = "tls: {certificate: gateway.pem, key: gateway-key.pem}"
TLS_OF_CLIENTS = "tls: {certificate: gateway.pem, key: gateway-key.pem, client_ca: clients.pem}"
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
        "hostname: gw.example.org",
        "hostname: 'gw.example.org:19990'",
        "hostname: '2001:db8::1'",
        "hostname: '[2001:db8::1]:19990'",
        f"{TLS_OF_CLIENTS}, users: {{monitor: {{}}, keeper: {{subject: 'CN=keeper,O=Example'}}}}",
    ],
)
def test_what_can_be_said(settings: str) -> None:
    assert reported(settings) == []


@pytest.mark.parametrize("hostname", ["gw:", "gw:0", "gw:65536", "gw:x", "a b", "http://gw", "[::1]x"])
def test_what_is_no_address_to_connect_to_is_refused(hostname: str) -> None:
    (complaint,) = reported(f"hostname: '{hostname}'")
    assert "write HOST or HOST:PORT, such as gw.example.org:19990" in complaint


@pytest.mark.parametrize("address", ["0.0.0.0:9990", "[::]:9990", "192.0.2.1:9990"])
def test_plain_text_beyond_this_machine_is_said_twice(address: str) -> None:
    assert reported(f"enabled: true, listen: '{address}'") == [BEYOND]


def test_a_key_belongs_to_a_certificate() -> None:
    assert reported("tls: {certificate: gateway.pem}") == ["2: jmx.tls.key: is required"]


UNVERIFIED = (
    "2: jmx: users.keeper.subject needs 'tls.client_ca', the authority of clients' certificates: else none "
    "is verified"
)
BOTH = (
    "2: jmx.users.keeper: a user has a certificate or a password: leave 'subject' or 'password' out, or make "
    "two users"
)
NO_SUBJECT = (
    "2: jmx.users.keeper.subject: write the subject of the user's certificate, such as CN=monitor,O=Example"
)


@pytest.mark.parametrize("tls", ["enabled: false", TLS])
def test_a_certificate_of_a_user_needs_its_authority(tls: str) -> None:
    assert reported(f"{tls}, users: {{keeper: {{subject: 'CN=keeper'}}}}") == [UNVERIFIED]


def test_a_user_has_a_certificate_or_a_password() -> None:
    user = "keeper: {subject: 'CN=keeper', password: {env: KEEPER}}"
    assert reported(f"{TLS_OF_CLIENTS}, users: {{{user}}}") == [BOTH]


@pytest.mark.parametrize("subject", ["keeper.pem", '"CN=a\\0"'])
def test_a_subject_is_no_file(subject: str) -> None:
    assert reported(f"{TLS_OF_CLIENTS}, users: {{keeper: {{subject: {subject}}}}}") == [NO_SUBJECT]
