"""The settings of SNMP: mistakes in networks, limits and views, and where they are reported."""

from __future__ import annotations

import ipaddress

import pytest

from gateway.config.model import Configuration
from gateway.yaml_documents import parse_document
from tests.config.sample import FILE, RABBITMQ, complaints

NO_NETWORK = "write a network such as 192.0.2.0/24 or 2001:db8::/32, or one address"


def snmp_of(text: str) -> str:
    return f"{RABBITMQ}snmp:\n{text}"


def test_networks_are_of_both_versions_and_an_address_is_one_of_its_own() -> None:
    text = snmp_of('  allowed_networks: [192.0.2.0/24, "2001:db8::/32", 198.51.100.7]\n')
    networks = parse_document(text, Configuration, FILE).snmp.allowed_networks
    assert networks == tuple(map(ipaddress.ip_network, ("192.0.2.0/24", "2001:db8::/32", "198.51.100.7")))


@pytest.mark.parametrize("written", ["localhost", "192.0.2.0/33", "192.0.2", "7", "''", "[192.0.2.1]"])
def test_what_is_no_network_is_refused_with_its_line(written: str) -> None:
    text = snmp_of(f"  writers:\n    operator:\n      allowed_networks:\n        - {written}\n")
    assert complaints(text) == [f"12: snmp.writers.operator.allowed_networks.0: {NO_NETWORK}"]


def test_an_address_with_the_length_of_its_network_is_refused_since_either_could_be_meant() -> None:
    (complaint,) = complaints(snmp_of("  allowed_networks: [192.0.2.17/24]\n"))
    assert complaint.startswith("9: snmp.allowed_networks.0: is an address within 192.0.2.0/24: write that ")


def test_no_networks_would_be_no_manager() -> None:
    (complaint,) = complaints(snmp_of("  allowed_networks: []\n"))
    assert complaint.startswith("9: snmp.allowed_networks: ")


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("max_message", 1_231),
        ("max_message", 65_508),
        ("max_bulk_message", 484),
        ("max_varbinds", 15),
        ("max_varbinds", 10_001),
    ],
)
def test_limits_have_limits(key: str, number: int) -> None:
    (complaint,) = complaints(snmp_of(f"  limits: {{{key}: {number}}}\n"))
    assert complaint.startswith(f"9: snmp.limits.{key}: ")
