"""net-snmp's own snmpset over UDP: a slow answer delays no other request, and is given once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.model.operations import Outcome
from gateway.snmp.server import UdpServer
from tests.components.waiting import eventually
from tests.snmp.net_snmp import dotted, run
from tests.snmp.set.shop import LIMIT, NOTE, WRITER, Shop, at, outcome

COMMUNITY = ("-c", WRITER.decode())
NAME = dotted(at(LIMIT))


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def port(shop: Shop) -> AsyncIterator[int]:
    server = UdpServer(shop.responder.answer, shop.counters, shop.failures.append)
    server.open([("127.0.0.1", 0)])
    yield server.addresses[0][1]
    server.close()
    assert shop.failures == []


async def test_snmpset_sets(shop: Shop, port: int, tmp_path: Path) -> None:
    arguments = [NAME, "i", "7", dotted(at(NOTE)), "s", "at the back"]
    reported = await run("snmpset", tmp_path, port, arguments, options=COMMUNITY)
    assert reported == [
        f"{NAME} = INTEGER: 7",
        f"{dotted(at(NOTE))} = Hex-STRING: 61 74 20 74 68 65 20 62 61 63 6B",
    ]
    assert shop.done == [{"limit": 7, "note": "at the back"}]


@pytest.mark.parametrize(
    ("version", "reason"),
    [("2c", "commitFailed"), ("1", "(genError) A general failure occured")],
)
async def test_snmpset_gets_what_failed(
    shop: Shop, port: int, tmp_path: Path, version: str, reason: str
) -> None:
    shop.script = outcome(Outcome.REMOTE_FAILURE, "limit")
    reported = await run("snmpset", tmp_path, port, [NAME, "i", "7"], version=version, options=COMMUNITY)
    assert reported == ["Error in packet.", f"Reason: {reason}", f"Failed object: {NAME}"]


async def test_others_are_answered_while_a_set_waits_and_a_retransmission_does_nothing(
    shop: Shop, port: int, tmp_path: Path
) -> None:
    shop.released.clear()
    options = (*COMMUNITY, "-t", "1", "-r", "60")
    setting = asyncio.create_task(run("snmpset", tmp_path, port, [NAME, "i", "7"], options=options))

    async def has_come_again() -> bool:
        return shop.counters.set_retransmissions > 0

    await eventually(has_come_again, "a retransmission")
    got = await run("snmpget", tmp_path, port, [NAME], options=COMMUNITY)
    assert got == [f"{NAME} = INTEGER: -1"]
    shop.released.set()
    assert await setting == [f"{NAME} = INTEGER: 7"]
    assert shop.done == [{"limit": 7}]
