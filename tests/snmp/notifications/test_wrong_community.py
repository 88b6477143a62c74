"""A request with a wrong community is reported with the address of its sender."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gateway.snmp import ber, message
from gateway.snmp.requests import Access, Responder
from gateway.snmp.server import UdpServer
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import Store
from tests.components.waiting import eventually
from tests.snmp.datagrams import COMMUNITY, envelope, request

ENABLE_AUTHEN_TRAPS = (1, 3, 6, 1, 2, 1, 11, 30, 0)
NAME = (1, 3, 6, 1, 2, 1, 1, 1, 0)


@pytest.mark.parametrize(("enabled", "number"), [(True, 1), (False, 2)])
def test_what_is_configured_can_be_read(*, enabled: bool, number: int) -> None:
    store = Store()
    SnmpCounters().serve(store, authentication_traps=enabled)
    assert store.get(ENABLE_AUTHEN_TRAPS) == ber.encode_integer(number)


async def test_it_is_reported_with_the_address_of_its_sender_and_of_no_other() -> None:
    counters, failures, reported = SnmpCounters(), list[Exception](), list[str]()
    access = {COMMUNITY: Access(Store())}
    responder = Responder(access, counters, failures.append, wrong_community=reported.append)
    server = UdpServer(responder.answer, counters, failures.append)
    server.open([("127.0.0.1", 0)])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as manager:
            manager.bind(("127.0.0.1", 0))
            for datagram in (
                request(message.GET, [NAME]),
                b"no message",
                envelope(b"\xa0\x00", community=COMMUNITY),
                request(message.GET, [NAME], version=7, community=b"guess"),
                request(message.GET, [NAME], community=b"guess"),
            ):
                manager.sendto(datagram, server.addresses[0])

            async def all_came() -> bool:
                return counters.in_packets == 5

            await eventually(all_came, "all datagrams came")
            await asyncio.sleep(0)
    finally:
        server.close()
    assert reported == ["127.0.0.1"]
    assert counters.bad_community_names == 1
    assert failures == []
