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


SUBTREE = "write an object identifier such as root.2.1 or 1.3.6.1.2.1, in quotes if it has two numbers"


def test_a_view_is_used_by_its_name_and_root_stands_for_the_root() -> None:
    text = snmp_of(
        "  root: 1.3.6.1.4.1.99999\n"
        "  view: few\n"
        '  views: {few: {include: [root, "1.3", 1.3.6.1.2.1.1], exclude: [root.1.7]}}\n'
        "  writers: {operator: {view: few}}\n"
    )
    settings = parse_document(text, Configuration, FILE).snmp
    assert settings.view == settings.writers["operator"].view == "few"
    view = settings.views["few"]
    assert [settings.object_identifier(subtree) for subtree in (*(view.include or ()), *view.exclude)] == [
        "1.3.6.1.4.1.99999",
        "1.3",
        "1.3.6.1.2.1.1",
        "1.3.6.1.4.1.99999.1.7",
    ]


@pytest.mark.parametrize(
    "written",
    ["rmqQueueTable", "roots.1", "root.", "root.01", "1.3", "1", "1.40.1", "3.1.1", "root.4294967296"],
)
def test_what_is_no_subtree_is_refused_with_its_line(written: str) -> None:
    text = snmp_of(f"  views:\n    few:\n      include:\n        - {written}\n")
    assert complaints(text) == [f"12: snmp.views.few.include.0: {SUBTREE}"]


def test_a_view_that_is_not_there_is_reported_where_it_is_named() -> None:
    text = snmp_of("  view: few\n  writers:\n    operator:\n      view: more\n  views: {many: {}}\n")
    assert complaints(text) == [
        "9: snmp.view: there is no view 'few' under 'snmp.views'",
        "12: snmp.writers.operator.view: there is no view 'more' under 'snmp.views'",
    ]


def test_a_subtree_is_included_or_excluded_however_it_is_written() -> None:
    text = snmp_of(
        "  views:\n    few:\n      include: [root.1]\n      exclude:\n        - root.2\n"
        "        - 1.3.6.1.4.1.8072.9999.9999.1\n"
    )
    assert complaints(text) == [
        "14: snmp.views.few.exclude.1: 1.3.6.1.4.1.8072.9999.9999.1 is also included: leave one out"
    ]


def test_a_view_of_nothing_is_refused() -> None:
    (complaint,) = complaints(snmp_of("  views: {none: {include: []}}\n"))
    assert complaint.startswith("9: snmp.views.none.include: ")


def test_the_age_of_late_events_has_bounds() -> None:
    assert parse_document(snmp_of("  late_after: 1min\n"), Configuration, FILE).snmp.late_after == 60 * 10**9
    (complaint,) = complaints(snmp_of("  late_after: 0s\n"))
    assert complaint.startswith("9: snmp.late_after: ")


def receiver_at(address: str) -> str:
    return snmp_of(f"  notifications:\n    nms:\n      address: {address}\n")


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("nms.example.org:162", "nms.example.org"),
        ("NMS.example.org.:162", "NMS.example.org."),
        ("localhost:162", "localhost"),
        ("nms_1:162", "nms_1"),
        ("3com.example:162", "3com.example"),
        (f"{'a' * 63}.example:162", f"{'a' * 63}.example"),
        ("192.0.2.1:162", "192.0.2.1"),
        ('"[2001:db8::7]:162"', "2001:db8::7"),
    ],
)
def test_a_receiver_has_an_address_or_a_name(written: str, host: str) -> None:
    settings = parse_document(receiver_at(written), Configuration, FILE).snmp
    assert settings.notifications["nms"].address == (host, 162)
    shown = settings.model_dump(mode="json")["notifications"]["nms"]["address"]
    assert shown == written.strip('"')


@pytest.mark.parametrize(
    "written",
    [
        "nms.example.org",
        "nms.example.org:0",
        "nms.example.org:65536",
        "nms..example.org:162",
        "-nms.example.org:162",
        "nms-.example.org:162",
        "n\u00fcrnberg.example:162",
        "nms example:162",
        f"{'a' * 64}.example:162",
        f"{'a.' * 126}org:162",
        # What the resolver would take for an address in another form.
        "192.0.2.256:162",
        "127.1:162",
        "0x7f000001:162",
        "2001:db8::7:162",
    ],
)
def test_what_is_neither_is_refused_with_its_line(written: str) -> None:
    (complaint,) = complaints(receiver_at(written))
    assert complaint == (
        "11: snmp.notifications.nms.address: write HOST:PORT with an address or a DNS name, such as"
        " 192.0.2.10:162, [2001:db8::7]:162 or nms.example.org:162"
    )
