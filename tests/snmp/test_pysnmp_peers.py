"""pysnmp as a manager of the agent, and as another agent with the same requests."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from typing import Any

import pytest
from pysnmp.entity.rfc3413 import cmdgen
from pysnmp.proto import rfc1902, rfc1905

from gateway.snmp import ber, message
from gateway.snmp.message import GET_BULK, VERSION_1, VERSION_2C
from gateway.snmp.requests import Access, Responder
from gateway.snmp.standard_groups import SnmpCounters
from tests.hypothesis_profiles import PROVING
from tests.snmp.conftest import Serve
from tests.snmp.datagrams import COMMUNITY, Answer, read_answer
from tests.snmp.generated_requests import random_request
from tests.snmp.net_snmp import exchange
from tests.snmp.pysnmp_peers import PysnmpManager, as_pysnmp, pysnmp_agent
from tests.snmp.sample_data import ROOT, sample
from tests.snmp.sorted_oracle import SortedOracle

REQUESTS = 1_000 if PROVING else 60


@pytest.fixture(scope="module")
def data() -> SortedOracle:
    return sample(seed=3, rows=12)


def comparable(answer: Answer, asked: bytes) -> Answer:
    """Return an answer without the fields in which pysnmp differs.

    It repeats the end of all names as often as asked, and its v1 errors have a wrong index.
    """
    outer = message.read_message(asked)
    request = message.read_request(asked, outer.start, outer.stop)
    if answer.status == message.NO_SUCH_NAME:
        return dataclasses.replace(answer, index=0)
    repeaters = len(request.names) - max(request.first, 0)
    if outer.pdu_type != GET_BULK or repeaters < 1:
        return answer
    start = len(request.names) - repeaters
    for at in range(start, len(answer.varbinds), repeaters):
        if all(value == ber.END_OF_MIB_VIEW for _, value in answer.varbinds[at : at + repeaters]):
            return dataclasses.replace(answer, varbinds=answer.varbinds[: at + repeaters])
    return answer


@pytest.mark.parametrize("seed", range(2 if PROVING else 1))
async def test_a_pysnmp_agent_answers_the_same(
    data: SortedOracle, seed: int, failures: list[Exception]
) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable
    responder = Responder({COMMUNITY: Access(data.store)}, SnmpCounters(), failures.append)
    async with pysnmp_agent(data) as port:
        for _ in range(REQUESTS):
            # pysnmp takes negative counts for no message, and fails where nothing is to be answered.
            asked = random_request(data, chance, least_count=1)
            theirs = read_answer(await asyncio.to_thread(exchange, port, asked))
            ours = read_answer(responder.answer(asked))
            assert comparable(ours, asked) == comparable(theirs, asked), asked.hex()


async def walked_by_pysnmp(port: int, version: int) -> list[tuple[ber.Oid, Any]]:
    """Return all instances, by GETNEXT in v1 and by GETBULK in v2c."""
    manager = PysnmpManager(port, version)
    found: list[tuple[ber.Oid, Any]] = []
    try:
        while True:
            start = [(found[-1][0] if found else ROOT, rfc1902.Null(""))]
            if version == VERSION_1:
                status, _, varbinds = await manager.ask(cmdgen.NextCommandGenerator, start)
            else:
                status, _, varbinds = await manager.ask(cmdgen.BulkCommandGenerator, start, 0, 20)
            if status == message.NO_SUCH_NAME:
                return found
            for name, value in varbinds:
                if value.tagSet == rfc1905.endOfMibView.tagSet:
                    return found
                found.append((tuple(name), value))
    finally:
        manager.close()


@pytest.mark.parametrize("version", [VERSION_1, VERSION_2C])
async def test_a_pysnmp_manager_walks_it_all(serve: Serve, data: SortedOracle, version: int) -> None:
    hidden = ber.COUNTER64 if version == VERSION_1 else None
    expected = [
        (oid, as_pysnmp(value)) for oid, value in sorted(data.instances.items()) if value[0] != hidden
    ]
    walked = await walked_by_pysnmp(serve(data.store), version)
    assert walked == expected
    assert [value.tagSet for _, value in walked] == [value.tagSet for _, value in expected]


async def test_a_pysnmp_manager_gets_and_is_refused_a_set(serve: Serve, data: SortedOracle) -> None:
    manager = PysnmpManager(serve(data.store), VERSION_2C)
    name, value = (*ROOT, 1, 1, 0), rfc1902.Integer32(5)
    try:
        status, index, varbinds = await manager.ask(cmdgen.GetCommandGenerator, [(name, rfc1902.Null(""))])
        assert (status, index, [(tuple(oid), got) for oid, got in varbinds]) == (0, 0, [(name, value)])
        status, index, _ = await manager.ask(cmdgen.SetCommandGenerator, [(name, value)])
        assert (status, index) == (message.NO_ACCESS, 1)
    finally:
        manager.close()
