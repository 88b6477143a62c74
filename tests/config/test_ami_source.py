"""A source of kind ami: the complaints about a wrong configuration, and the defaults."""

from __future__ import annotations

import pytest

from gateway.config.sources import AmiSource
from tests.config.sample import complaints

BEYOND = "'listen' is beyond this machine, and AMI has no passwords: name the authority of the"


def reported(settings: str) -> list[str]:
    return complaints(f"version: 1\nsources:\n  plant: {{kind: ami, {settings}}}\n")


def test_what_stands_where_nothing_is_said() -> None:
    source = AmiSource.model_validate({"kind": "ami"})
    assert source.listen == ("127.0.0.1", 3289)
    assert source.max_objects == 100_256
    assert reported("") == []


@pytest.mark.parametrize(
    "settings",
    [
        "allow_anyone: true, listen: '0.0.0.0:3289'",
        "listen: '[::1]:3289'",
        "listen: '10.0.0.1:3289', tls: {certificate: a, key: b, client_ca: c}, own_name: true",
        "tls: {certificate: a, key: b, client_ca: c}, certificates: [pump-7]",
        "time_zone: Europe/Zurich, idle: 1h, options: [], logins: [pump-7, pump-8]",
    ],
)
def test_what_can_be_said(settings: str) -> None:
    assert reported(settings) == []


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ("listen: '0.0.0.0:3289'", BEYOND),
        ("listen: '[::]:3289', tls: {certificate: a, key: b}", BEYOND),
        ("own_name: true", "'certificates' and 'own_name' need 'tls.client_ca': else no name is checked"),
        (
            "certificates: [pump-7], tls: {certificate: a, key: b}",
            "'certificates' and 'own_name' need 'tls.client_ca': else no name is checked",
        ),
        ("time_zone: Middle-earth", "time_zone: write the name of a time zone, such as UTC or Europe/Zurich"),
        ("time_zone: ../../etc/passwd", "time_zone: write the name of a time zone, such as UTC or Europe"),
        ("listen: localhost", "listen: write ADDRESS:PORT with a numeric address"),
        ("options: [QUIET]", "options.0: must be 'LOG' or 'TTY'"),
        ("logins: []", "logins: takes at least 1"),
        ("package: 'a:b'", "package: must match the pattern"),
        ("limits: {line: 5}", "limits.line: must be 256 or more"),
        ("durable: {}", "durable: unknown key"),
    ],
)
def test_what_is_wrong(settings: str, complaint: str) -> None:
    (found,) = reported(settings)
    assert found.removeprefix("3: sources.plant").lstrip(".: ").startswith(complaint)


CERTIFIED = "tls: {certificate: a, key: b, client_ca: c}"
NO_AMI = "is a peer of AMI, and no source is of kind ami"
UNPROVED = "is proved by no certificate: write 'tls.client_ca' at a source of kind ami, or ami:(anyone)"


@pytest.mark.parametrize(
    ("sources", "principal", "problem"),
    [
        (f"plant: {{kind: ami, {CERTIFIED}}}", "ami:pump", ""),
        (f"plant: {{kind: ami, {CERTIFIED}}}", "ami:a *:b", ""),
        ("plant: {kind: ami}", "ami:(anyone)", ""),
        ("plant: {kind: ami}", "ami:*", ""),
        ("plant: {kind: ami}", "ami:pump", UNPROVED),
        ("plant: {kind: ami, tls: {certificate: a, key: b}}", "ami:pump", UNPROVED),
        (f"plant: {{kind: ami, {CERTIFIED}}}", "ami:?", "stands for all other peers: write ami:*"),
        ("", "ami:*", NO_AMI),
        ("", "ami:pump", NO_AMI),
    ],
)
def test_roles_of_peers_need_what_proves_their_names(sources: str, principal: str, problem: str) -> None:
    policy = f"roles: {{pumps: {{allow: [{{publish: true}}]}}}}, principals: {{'{principal}': [pumps]}}"
    found = complaints(f"version: 1\nsources: {{{sources}}}\npolicy: {{{policy}}}\n")
    assert found == ([f"3: policy.principals.{principal}: {problem}"] if problem else [])


def test_peers_request_no_operations() -> None:
    (found,) = complaints("version: 1\noperations: {allow: [{who: ['ami:pump'], read: true}]}\n")
    assert "'ami:pump' is not known" in found
