"""Communities that may be used from some networks only."""

from __future__ import annotations

import ipaddress

import pytest

from gateway.snmp import ber, message
from gateway.snmp.allowed_networks import MAX_REMEMBERED, AllowedNetworks
from gateway.snmp.message import GET, GET_BULK, SET, VERSION_1, VERSION_2C
from gateway.snmp.requests import Access, Responder
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import Store
from tests.snmp.datagrams import COMMUNITY, read_answer, request

NAME = (1, 3, 6, 1, 2, 1, 1, 1, 0)
TEXT = ber.encode_octets(b"a gateway")
NETWORKS = AllowedNetworks(map(ipaddress.ip_network, ("192.0.2.0/24", "198.51.100.7", "2001:db8::/32")))
ALLOWED = ["192.0.2.1", "192.0.2.255", "198.51.100.7", "2001:db8::1", "2001:db8:ffff::"]
REFUSED = ["192.0.3.1", "198.51.100.8", "2001:db9::1", "::1", "::ffff:192.0.2.1", "", "no address"]


@pytest.mark.parametrize("address", ALLOWED)
def test_an_address_of_one_of_the_networks_is_allowed(address: str) -> None:
    assert [address in NETWORKS for _ in range(2)] == [True, True]


@pytest.mark.parametrize("address", REFUSED)
def test_any_other_is_not(address: str) -> None:
    assert [address in NETWORKS for _ in range(2)] == [False, False]


def test_an_interface_beside_an_address_does_not_count() -> None:
    assert "fe80::1%eth0" in AllowedNetworks([ipaddress.ip_network("fe80::/10")])


def test_many_addresses_are_judged_rightly_and_not_all_remembered() -> None:
    networks = AllowedNetworks([ipaddress.ip_network("10.0.0.0/16")])
    for number in range(2 * MAX_REMEMBERED):
        address = str(ipaddress.ip_address((10 << 24) + (number << 8)))
        assert (address in networks) == (number < 256)


class Agent:
    """A responder whose reader may come from one network, and whose writer from another."""

    def __init__(self) -> None:
        store = Store()
        store.scalar(NAME, TEXT)
        self.counters, self.failures = SnmpCounters(), list[Exception]()
        self.communities: list[str] = []
        self.refused: list[tuple[str, str]] = []

        def networks(text: str, writer: str) -> AllowedNetworks:
            refused = self.refused
            return AllowedNetworks(
                [ipaddress.ip_network(text)], lambda address: refused.append((address, writer))
            )

        inside, desk = networks("192.0.2.0/24", ""), networks("198.51.100.7", "operator")
        self.responder = Responder(
            {COMMUNITY: Access(store, networks=inside), b"writing": Access(store, "operator", desk)},
            self.counters,
            self.failures.append,
            wrong_community=self.communities.append,
        )


@pytest.mark.parametrize("pdu_type", [GET, GET_BULK, SET])
@pytest.mark.parametrize("version", [VERSION_1, VERSION_2C])
@pytest.mark.parametrize(
    ("community", "address", "writer"),
    [(COMMUNITY, "198.51.100.7", ""), (b"writing", "192.0.2.1", "operator")],
)
def test_from_elsewhere_a_community_is_unknown(
    pdu_type: int, version: int, community: bytes, address: str, writer: str
) -> None:
    agent = Agent()
    asked = request(pdu_type, [NAME], version=version, community=community, second=1)
    assert agent.responder.answer(asked, (address, 40_000)) is None
    assert agent.counters.bad_community_names == 1
    assert agent.communities == [address]
    assert agent.refused == [(address, writer)]
    assert (agent.counters.get_requests, agent.counters.set_requests, agent.failures) == (0, 0, [])


@pytest.mark.parametrize(("community", "address"), [(COMMUNITY, "192.0.2.1"), (b"writing", "198.51.100.7")])
@pytest.mark.parametrize("version", [VERSION_1, VERSION_2C])
def test_from_its_network_it_is_answered(community: bytes, address: str, version: int) -> None:
    agent = Agent()
    asked = request(GET, [NAME], version=version, community=community)
    answer = read_answer(agent.responder.answer(asked, (address, 40_000)))
    assert (answer.status, answer.varbinds) == (message.NO_ERROR, [(NAME, TEXT)])
    assert (agent.refused, agent.communities) == ([], [])
